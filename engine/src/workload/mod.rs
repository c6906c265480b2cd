//! Workloads: training loops whose sizes follow from model dimensions.
//!
//! Here is what they have in common, and those that serve more than one purpose. The program of a
//! single system stands in that system's file.

mod blocks;
mod duplex;
mod mlp_stack;
mod qwen_vl;

pub(crate) use blocks::{Block, Blocks};
pub use duplex::DuplexStack;
pub use mlp_stack::{Keeps, MlpStack, stack_flops};
pub use qwen_vl::{QwenVl, QwenVlSpec, Samples};

use crate::autograd::Tensor;
use crate::session::{RunError, Session};

/// A training loop, one step at a time.
pub trait Workload {
    /// Runs one step on the session.
    ///
    /// # Errors
    /// What ends the run: out of memory, an exception of the offloader, a device fault.
    fn step(&mut self, session: &mut Session) -> Result<(), RunError>;

    /// Shows what the program itself refers to between steps: weights, optimizer states, and
    /// whatever else its variables keep.
    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor));

    /// Whether a step depends on nothing that the program keeps but what [`Workload::visit`] shows,
    /// so that it repeats where that does ([`crate::repeat`]). A program that counts its steps, or
    /// holds tensors that it does not show, says no, as does one that says nothing.
    fn shows_all(&self) -> bool {
        false
    }
}

/// A forward pass that returns the loss, and its backward pass, both inside the offloader's
/// context. The context is left even where a pass fails, and the first failure counts.
///
/// # Errors
/// The failure of either pass, or of leaving the context.
pub fn offloaded_pass(
    s: &mut Session,
    forward: impl FnOnce(&mut Session) -> Result<Tensor, RunError>,
) -> Result<(), RunError> {
    s.enter();
    let outcome = forward(s).and_then(|loss| s.backward(&loss));
    let left = s.exit();
    outcome?;
    left
}

/// Tells the offloader which tensors are parameters: it leaves views of them alone.
pub fn declare_parameters<'t>(s: &mut Session, parameters: impl IntoIterator<Item = &'t Tensor>) {
    let storages = parameters
        .into_iter()
        .map(|tensor| tensor.storage().start());
    match s.offloader_mut() {
        Some(offloader) => offloader.update_model_params(storages),
        None => s.keep_parameters(storages),
    }
}
