//! Workloads: training loops whose sizes follow from model dimensions.
//!
//! This file has what they share; this folder also has workloads that serve more than one purpose.
//! The program of a single system is in the file of that system.

mod blocks;
mod duplex;
mod layers;
mod mlp_stack;
mod qwen_vl;

pub use duplex::DuplexStack;
pub(crate) use layers::{Layer, Layers};
pub use mlp_stack::{Keeps, MlpStack, stack_flops};
pub use qwen_vl::{QwenVl, QwenVlSpec, Samples};

use crate::autograd::Tensor;
use crate::session::{RunError, Session};

/// A training loop, one step at a time.
pub trait Workload {
    /// Runs one step on the session.
    ///
    /// # Errors
    /// What ends the run: out of memory, an exception of the offloader, or a fault of the device.
    fn step(&mut self, session: &mut Session) -> Result<(), RunError>;

    /// Shows what the program itself refers to between steps: weights, optimizer states, and
    /// everything else that its variables keep.
    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor));

    /// Whether a step depends only on what [`Workload::visit`] shows, and on nothing else that the
    /// program keeps. Then the step repeats if that repeats ([`crate::repeat`]). The answer must be
    /// no if a program counts its steps or holds tensors that it does not show; no is also the
    /// default.
    fn shows_all(&self) -> bool {
        false
    }
}

/// Runs a forward pass that returns the loss, and its backward pass, both in the offloader's
/// context. The context is left even if a pass fails, and the first failure counts.
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

/// Tells the offloader which tensors are parameters. It does not move views of them.
pub fn declare_parameters<'t>(s: &mut Session, parameters: impl IntoIterator<Item = &'t Tensor>) {
    let storages = parameters
        .into_iter()
        .map(|tensor| tensor.storage().start());
    match s.offloader_mut() {
        Some(offloader) => offloader.update_model_params(storages),
        None => s.keep_parameters(storages),
    }
}
