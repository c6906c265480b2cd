//! The offload engine: computes from first principles what an activation offloader does to GPU
//! memory.
//!
//! [`offload`] is the offloader itself, as a state machine without a device; [`tape`] drives it
//! with recordings of the real one. It runs on [`device`] and [`memory`]. [`autograd`] decides how
//! long tensors live, [`session`] connects these parts, and [`ops`] are the operations of the
//! workloads. [`race`] finds accesses that no stream order protects. [`systems`] is what can be
//! run, and [`patches`] is what can be changed about it; [`bench`] runs systems with patches. How
//! long memory lives follows from what can reach it, never from a fitted curve.

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
