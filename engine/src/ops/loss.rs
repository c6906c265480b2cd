//! Cross-entropy, computed by `log_softmax` and `nll_loss`.

use smallvec::{SmallVec, smallvec};

use super::elementwise::one_new;
use crate::autograd::{Call, Grads, Tensor};
use crate::session::{RunError, Session};
use crate::tensor::DType;

/// A dense gradient of the log-probabilities: zero everywhere except at the targets.
fn nll_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let input = call.inputs[0];
    let out = s.empty(input.shape, input.dtype)?;
    let reads: SmallVec<[&Tensor; 5]> = call.saved.iter().chain([&grad]).collect();
    s.kernel_over(&reads, &[&out])?;
    Ok(smallvec![Some(out)])
}

impl Session {
    /// `log_softmax(x, -1)`; saves its result.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn log_softmax(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        let mut node = self.record("LogSoftmaxBackward0", one_new, &[x]);
        let out = self.empty_like(x)?;
        self.kernel_over(&[x], &[&out])?;
        self.save_output(&mut node, &out)?;
        Ok(self.attach(out, node))
    }

    /// `nll_loss(x, target)`; saves the log-probabilities, the target and the total weight.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn nll_loss(&mut self, x: &Tensor, target: &Tensor) -> Result<Tensor, RunError> {
        let mut node = self.record("NllLossBackward0", nll_back, &[x]);
        self.save_for(&mut node, x)?;
        self.save_for(&mut node, target)?;
        let out = self.empty(&[], DType::Float32)?;
        let weight = self.empty(&[], DType::Float32)?;
        self.kernel_over(&[x, target], &[&out, &weight])?;
        self.save_output(&mut node, &weight)?;
        Ok(self.attach(out, node))
    }
}
