//! Workloads: training loops whose sizes follow from model dimensions.

mod qwen_vl;

pub use qwen_vl::{QwenVl, QwenVlSpec};

use crate::session::{RunError, Session};

/// A training loop, one step at a time.
pub trait Workload {
    /// Runs one step on the session.
    ///
    /// # Errors
    /// What ends the run: out of memory, an exception of the offloader, a device fault.
    fn step(&mut self, session: &mut Session) -> Result<(), RunError>;
}
