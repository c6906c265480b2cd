//! The offload engine: computes from first principles what an activation offloader does to GPU
//! memory.
//!
//! [`offload`] is the offloader itself, as a state machine without a device; [`tape`] drives it
//! with recordings of the real one. It runs on [`device`] and [`memory`]. [`autograd`] decides how
//! long tensors live, [`session`] connects these parts, and [`ops`] are the operations of the
//! workloads. [`race`] finds accesses that no stream order protects. [`systems`] is what can be
//! run, and [`patches`] is what can be changed about it; [`bench`] runs systems with patches. How
//! long memory lives follows from what can reach it, never from a fitted curve.
//!
//! Modules, in reading order:
//!
//! * `systems`, `patches`: what a bench can run, one file a system; patches, one entry each
//! * `bench`: systems × patches: rows, and what stands beside them
//! * `workload`, `model`, `ops`: training loops, the models in them, operations and what each
//!   saves
//! * `session`, `autograd`, `tensor`, `offload`: a process; its graph; shapes, data types and
//!   storages; TRL's offloader (`docs/offloader-rules.md`). Those of others are modules of a
//!   session: `session/modules`, `session/around`
//! * `memory`, `device`, `race`, `deviation`: malloc; simulated device and CUDA; races; rules
//!   broken on purpose
//! * `repeat`, `script`: steps that come again and are written down instead of computed; a step
//!   as a flat list of instructions, which is played where a program grows
//! * `recording`, `tape`: a run as a snapshot; replay of recorded calls of the real offloader

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
