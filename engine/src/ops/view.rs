//! Views, and operations that move elements and compute nothing.

use smallvec::{SmallVec, smallvec};

use crate::autograd::{Call, Grads, Tensor};
use crate::session::{RunError, Session};
use crate::tensor::{DType, Dims, Layout};

/// Gradient of a view that only changes the indices of elements.
fn view_back(_: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let layout = Layout {
        shape: call.inputs[0].shape,
        ..*grad.layout()
    };
    Ok(smallvec![Some(grad.view_as(layout, None))])
}

/// Gradient of a transpose: the gradient, transposed.
fn transpose_back(_: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    Ok(smallvec![Some(
        grad.view_as(grad.layout().transposed(), None)
    )])
}

/// Gradient in the size of the input, which is another one than that of the output. Of a part, it
/// is zeros with the part copied in; where each element was written several times, a sum.
fn in_full_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let out = s.empty(call.inputs[0].shape, grad.dtype())?;
    s.kernel_over(&[&grad], &[&out])?;
    Ok(smallvec![Some(out)])
}

/// Gradient of `cat` along the last dimension: parts of the gradient, without copies.
fn cat_back(_: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let mut at = 0;
    let parts = call.inputs.iter().map(|input| {
        let width = input.shape.last().unwrap_or(1);
        let part = grad.last_columns(at, width);
        at += width;
        input.needs_grad.then_some(part)
    });
    Ok(parts.collect())
}

/// The gradients of the parts of a split, joined again.
fn split_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let parts: Vec<Tensor> = call.grads.iter().flatten().cloned().collect();
    let dtype = parts.first().ok_or(RunError::NoGradient)?.dtype();
    let out = s.empty(call.inputs[0].shape, dtype)?;
    let reads: SmallVec<[&Tensor; 5]> = parts.iter().collect();
    s.kernel_over(&reads, &[&out])?;
    Ok(smallvec![Some(out)])
}

/// The gradient where the mask kept the original, and zero elsewhere.
fn masked_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let out = s.empty_like(&grad)?;
    s.kernel_over(&[&grad, &call.saved[0]], &[&out])?;
    Ok(smallvec![Some(out)])
}

/// An assignment to a part of a tensor (`CopySlices`). The gradient of the whole is copied, and set
/// to zero where it was overwritten. The gradient of the part is a copy too.
fn assign_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let whole = s.empty_like(&grad)?;
    s.kernel_over(&[&grad], &[&whole])?;
    let mut grads: Grads = smallvec![None, None];
    if call.inputs[1].needs_grad {
        let part = s.empty(call.inputs[1].shape, grad.dtype())?;
        s.kernel_over(&[&whole], &[&part])?;
        grads[1] = Some(part);
    }
    if call.inputs[0].needs_grad {
        let zeros = s.empty(call.inputs[1].shape, grad.dtype())?;
        s.kernel_over(&[&zeros], &[&whole])?;
        grads[0] = Some(whole);
    }
    Ok(grads)
}

impl Tensor {
    /// The elements of a dimension, repeated without a copy.
    pub(super) fn expanded(&self, shape: Dims) -> Tensor {
        let stride = shape.zeros();
        self.view_as(
            Layout {
                shape,
                stride,
                offset: self.layout().offset,
            },
            None,
        )
    }

    /// A last dimension of size 1, repeated without a copy.
    pub(super) fn expanded_last(&self, shape: Dims) -> Tensor {
        let stride = self.layout().stride.with_last(0);
        self.view_as(
            Layout {
                shape,
                stride,
                offset: self.layout().offset,
            },
            None,
        )
    }

    /// Columns `from..from + width` of the last dimension.
    pub(super) fn last_columns(&self, from: u64, width: u64) -> Tensor {
        let shape = self.shape().with_last(width);
        let layout = self.layout();
        let offset = layout.offset + from;
        self.view_as(
            Layout {
                shape,
                stride: layout.stride,
                offset,
            },
            None,
        )
    }
}

impl Session {
    /// The same elements in another shape. This assumes a dense layout, which is right for
    /// everything that is later saved outside a region.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn view(&mut self, x: &Tensor, shape: &[u64]) -> Result<Tensor, RunError> {
        let node = self.record("ViewBackward0", view_back, &[x]);
        let layout = Layout {
            offset: x.layout().offset,
            ..Layout::contiguous(shape)
        };
        let view = x.view_as(layout, None);
        Ok(self.attach(view, node))
    }

    /// `x.t()`: the last two dimensions exchanged.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn transpose(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        let node = self.record("TBackward0", transpose_back, &[x]);
        let view = x.view_as(x.layout().transposed(), None);
        Ok(self.attach(view, node))
    }

    /// [`Session::view`] of a tensor whose gradient arrives in another order of elements, so that
    /// backward has to copy it.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn reshape(&mut self, x: &Tensor, shape: &[u64]) -> Result<Tensor, RunError> {
        let node = self.record("ReshapeBackward0", in_full_back, &[x]);
        let layout = Layout {
            offset: x.layout().offset,
            ..Layout::contiguous(shape)
        };
        let view = x.view_as(layout, None);
        Ok(self.attach(view, node))
    }

    /// A part of the elements: `shape` of them, beginning at element `offset`, as a strided view.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn part(&mut self, x: &Tensor, shape: &[u64], offset: u64) -> Result<Tensor, RunError> {
        let node = self.record("SliceBackward0", in_full_back, &[x]);
        let base = x.layout();
        let shape = Dims::from(shape);
        // A selected dimension is gone; the last dimensions keep their strides.
        let stride = base.stride.last_dims(shape.rank());
        let stride = stride.unwrap_or(Layout::contiguous(shape).stride);
        let layout = Layout {
            shape,
            stride,
            offset: base.offset + offset,
        };
        let view = x.view_as(layout, None);
        Ok(self.attach(view, node))
    }

    /// `torch.split` along the last dimension.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn split_last(&mut self, x: &Tensor, widths: &[u64]) -> Result<Vec<Tensor>, RunError> {
        let node = self.record("SplitBackward0", split_back, &[x]);
        let mut at = 0;
        let mut parts = Vec::with_capacity(widths.len());
        for &width in widths {
            parts.push(x.last_columns(at, width));
            at += width;
        }
        Ok(self.attach_all(parts, node))
    }

    /// `torch.cat` along the last dimension.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn cat_last(&mut self, parts: &[&Tensor]) -> Result<Tensor, RunError> {
        let node = self.record("CatBackward0", cat_back, parts);
        let width = parts.iter().filter_map(|part| part.shape().last()).sum();
        let out = self.empty(parts[0].shape().with_last(width), parts[0].dtype())?;
        self.kernel_over(parts, &[&out])?;
        Ok(self.attach(out, node))
    }

    /// `repeat_interleave` to `shape`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn repeat_to(&mut self, x: &Tensor, shape: &[u64]) -> Result<Tensor, RunError> {
        let node = self.record("RepeatInterleaveBackward0", in_full_back, &[x]);
        let out = self.empty(shape, x.dtype())?;
        self.kernel_over(&[x], &[&out])?;
        Ok(self.attach(out, node))
    }

    /// `x.masked_scatter(mask, source)` with a mask that is expanded over the last dimension. The
    /// expanded mask is saved; it is a view with a stride of 0.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn masked_scatter(
        &mut self,
        x: &Tensor,
        mask: &Tensor,
        source: &Tensor,
    ) -> Result<Tensor, RunError> {
        let mut node = self.record("MaskedScatterBackward0", masked_back, &[x]);
        let expanded = mask.expanded_last(x.layout().shape);
        self.save_for(&mut node, &expanded)?;
        let out = self.empty_like(x)?;
        // A running count over the dense mask says where each element comes from.
        let counts = self.scratch(DType::Int64.size() * x.elements())?;
        let dense = self.scratch(DType::Bool.size() * x.elements())?;
        self.kernel_over(&[x, mask, source], &[&out])?;
        drop(dense);
        drop(counts);
        Ok(self.attach(out, node))
    }

    /// `whole[part] = value`, in place: the same storage with a new node.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn assign_part(&mut self, whole: &Tensor, value: &Tensor) -> Result<Tensor, RunError> {
        let node = self.record("CopySlices", assign_back, &[whole, value]);
        self.kernel_over(&[value], &[whole])?;
        let same = whole.view_as(*whole.layout(), None);
        Ok(self.attach(same, node))
    }
}
