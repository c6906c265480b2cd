//! Reductions and scans.

use smallvec::smallvec;

use super::elementwise::one_new;
use crate::autograd::{Call, Grads, Tensor};
use crate::session::{RunError, Session};
use crate::tensor::DType;

/// The gradient, copied over the reduced dimension as a dense tensor (`expand(...) / n`).
fn mean_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let out = s.empty(call.inputs[0].shape, grad.dtype())?;
    s.kernel_over(&[&grad], &[&out])?;
    Ok(smallvec![Some(out)])
}

/// `sum`: the gradient is expanded, which copies nothing until a computation uses it.
fn sum_back(_: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    Ok(smallvec![Some(grad.expanded(call.inputs[0].shape))])
}

/// `flip(cumsum(flip(grad)))`: three tensors. The first two live until the third one exists.
fn cumsum_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let flipped = s.empty_like(&grad)?;
    s.kernel_over(&[&grad], &[&flipped])?;
    let scanned = s.empty_like(&grad)?;
    s.kernel_over(&[&flipped], &[&scanned])?;
    let out = s.empty_like(&grad)?;
    s.kernel_over(&[&scanned], &[&out])?;
    Ok(smallvec![Some(out)])
}

impl Session {
    /// `x.mean(-1, keepdim=True)`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn mean_last(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        let node = self.record("MeanBackward1", mean_back, &[x]);
        let out = self.empty(x.shape().with_last(1), x.dtype())?;
        self.kernel_over(&[x], &[&out])?;
        Ok(self.attach(out, node))
    }

    /// `x.sum(-1, keepdim=True)`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn sum_last(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        let node = self.record("SumBackward1", sum_back, &[x]);
        let out = self.empty(x.shape().with_last(1), x.dtype())?;
        self.kernel_over(&[x], &[&out])?;
        Ok(self.attach(out, node))
    }

    /// `x.sum()`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn sum(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        let node = self.record("SumBackward0", sum_back, &[x]);
        let out = self.empty(&[], x.dtype())?;
        self.kernel_over(&[x], &[&out])?;
        Ok(self.attach(out, node))
    }

    /// `x.cumsum(dim)`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn cumsum(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        let node = self.record("CumsumBackward0", cumsum_back, &[x]);
        let out = self.empty_like(x)?;
        // The scan works on a dense copy.
        let dense = self.scratch(x.bytes())?;
        self.kernel_over(&[x], &[&out])?;
        drop(dense);
        Ok(self.attach(out, node))
    }

    /// `F.layer_norm` with frozen weights. It saves its input and the two statistics.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn layer_norm(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        let mut node = self.record("NativeLayerNormBackward0", one_new, &[x]);
        self.save_for(&mut node, x)?;
        let out = self.empty_like(x)?;
        let rows = x.shape().with_last(1);
        let mean = self.empty(rows, DType::Float32)?;
        let deviation = self.empty(rows, DType::Float32)?;
        self.kernel_over(&[x], &[&out, &mean, &deviation])?;
        self.save_output(&mut node, &mean)?;
        self.save_output(&mut node, &deviation)?;
        Ok(self.attach(out, node))
    }
}
