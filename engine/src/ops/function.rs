//! Python autograd functions that keep tensors as attributes of their context.

use smallvec::smallvec;

use crate::autograd::{Call, CtxLifetime, Grads, Tensor};
use crate::session::{RunError, Session};
use crate::tensor::DType;

/// Forward has computed the gradient, and the context holds it.
fn stored_gradient(_: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    Ok(smallvec![call.ctx.first().cloned()])
}

fn same_size(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let out = s.empty(call.inputs[0].shape, call.inputs[0].dtype)?;
    s.kernel_over(&[&grad], &[&out])?;
    Ok(smallvec![Some(out)])
}

impl Session {
    /// A loss whose forward has already computed the gradient of `input` and keeps it in its
    /// context.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn self_differentiating_loss(
        &mut self,
        input: &Tensor,
        gradient: Tensor,
    ) -> Result<Tensor, RunError> {
        let mut node = self.record("LanguageModelHead", stored_gradient, &[input]);
        if let Some(node) = &mut node {
            node.ctx.push(gradient);
        }
        let loss = self.empty(&[], DType::Float32)?;
        self.kernel_over(&[input], &[&loss])?;
        Ok(self.attach(loss, node))
    }

    /// A function of `x` that keeps tensors in its context. Its result has the size of `x`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn function_with_ctx(
        &mut self,
        x: &Tensor,
        kept: Vec<Tensor>,
        lifetime: CtxLifetime,
    ) -> Result<Tensor, RunError> {
        let mut node = self.record("FusedAttnFunc", same_size, &[x]);
        if let Some(node) = &mut node {
            node.ctx = kept;
            node.ctx_lifetime = lifetime;
        }
        let out = self.empty_like(x)?;
        self.kernel_over(&[x], &[&out])?;
        Ok(self.attach(out, node))
    }
}
