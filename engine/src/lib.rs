//! The offload engine: what an activation offloader does to GPU memory, from first principles.
//!
//! [`offload`] is the offloader itself as a state machine without a device; [`tape`] drives it with
//! recordings of the real one. [`device`] and [`memory`] are what it runs on, [`autograd`] decides
//! what lives, [`session`] ties them together, [`ops`] are the operations of the workloads;
//! [`race`] finds accesses that no stream order protects. [`systems`] is what can be run,
//! [`patches`] what can be changed about it; [`bench`] runs the one with the other.
//! Lifetimes come from reachability, never from curves.

pub mod autograd;
pub mod bench;
pub mod deviation;
pub mod device;
pub mod memory;
mod model;
pub mod offload;
mod ops;
pub mod patches;
mod race;
pub mod recording;
pub mod repeat;
mod script;
pub mod session;
pub mod systems;
pub mod tape;
pub mod tensor;
pub mod workload;
