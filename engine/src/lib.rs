//! The offload engine: what an activation offloader does to GPU memory, from first principles.
//!
//! [`offload`] is the offloader itself as a state machine without a device; [`tape`] drives it with
//! recordings of the real one; [`race`] finds accesses that no stream order protects. Lifetimes come from reachability, never from curves.

pub mod offload;
pub mod race;
pub mod tape;
pub mod tensor;
