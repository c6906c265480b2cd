//! The offload engine: what an activation offloader does to GPU memory, from first principles.
//!
//! [`offload`] is the offloader itself as a state machine without a device; [`tape`] drives it with
//! recordings of the real one. Lifetimes come from reachability, never from curves.

pub mod offload;
pub mod tape;
pub mod tensor;
