//! Tensors and memory that a session makes.

use std::rc::Rc;

use super::{RunError, Session};
use crate::autograd::{HookLayer, LeafMeta, Tensor};
use crate::device::StreamId;
use crate::memory::{Role, Storage};
use crate::tensor::{DType, Dims, Layout, Placement, SavedTensor, StorageInfo, TensorClass};
use trace::units::{Bytes, DeviceAddr};

impl Session {
    /// An uninitialised tensor on the current stream.
    ///
    /// # Errors
    /// Out of memory.
    pub fn empty(&mut self, shape: impl Into<Dims>, dtype: DType) -> Result<Tensor, RunError> {
        let role = self.role_now();
        self.empty_as(shape, dtype, role)
    }

    /// An uninitialised tensor with a known purpose.
    ///
    /// # Errors
    /// Out of memory.
    pub fn empty_as(
        &mut self,
        shape: impl Into<Dims>,
        dtype: DType,
        role: Role,
    ) -> Result<Tensor, RunError> {
        let layout = Layout::contiguous(shape);
        let stream = self.accelerator.stream();
        let storage = self
            .accelerator
            .allocate(layout.shape, dtype, role, stream)?;
        Ok(self.accelerator.tensor_over(storage, layout, dtype))
    }

    /// The purpose of a tensor that is made now, unless the caller knows better.
    fn role_now(&self) -> Role {
        if matches!(self.hooks.last(), Some(HookLayer::Recompute { .. })) {
            Role::Recomputed
        } else if self.in_backward() {
            Role::ActivationGradient
        } else {
            Role::Activation
        }
    }

    pub(crate) fn empty_like(&mut self, like: &Tensor) -> Result<Tensor, RunError> {
        self.empty(like.layout().shape, like.dtype())
    }

    /// Allocates scratch memory of a kernel, which is freed when the result is dropped.
    ///
    /// # Errors
    /// Out of memory.
    pub fn scratch(&mut self, bytes: Bytes) -> Result<Rc<Storage>, RunError> {
        let stream = self.accelerator.stream();
        Ok(self.accelerator.allocate_raw(bytes, stream)?)
    }

    /// A parameter that requires grad.
    ///
    /// # Errors
    /// Out of memory.
    pub fn parameter(&mut self, shape: impl Into<Dims>, dtype: DType) -> Result<Tensor, RunError> {
        let data = self.frozen(shape, dtype)?;
        let leaf = Some(LeafMeta::default());
        Ok(Tensor::new(
            data.0.saved,
            Rc::clone(data.storage()),
            None,
            leaf,
        ))
    }

    /// A parameter that is frozen.
    ///
    /// # Errors
    /// Out of memory.
    pub fn frozen(&mut self, shape: impl Into<Dims>, dtype: DType) -> Result<Tensor, RunError> {
        let data = self.empty_as(shape, dtype, Role::Parameter)?;
        self.initialise(&data)?;
        let saved = SavedTensor {
            class: TensorClass::Parameter,
            ..data.0.saved
        };
        Ok(Tensor::new(saved, Rc::clone(data.storage()), None, None))
    }

    /// A leaf on the host that requires grad, for example a checkpoint's dummy.
    pub(crate) fn host_leaf(&mut self, shape: &[u64], dtype: DType) -> Result<Tensor, RunError> {
        let storage = self
            .accelerator
            .allocate_raw(Bytes::ZERO, StreamId::DEFAULT)?;
        let saved = SavedTensor {
            storage: StorageInfo {
                base: Some(DeviceAddr(0)),
                bytes: Bytes::ZERO,
            },
            layout: Layout::contiguous(shape),
            dtype,
            placement: Placement::Host,
            class: TensorClass::Plain,
            object: self.accelerator.next_object(),
        };
        Ok(Tensor::new(saved, storage, None, Some(LeafMeta::default())))
    }

    /// The same data as a leaf that requires grad (`detach().requires_grad_()`).
    pub fn leaf_over(&mut self, tensor: &Tensor) -> Tensor {
        let leaf = Some(LeafMeta::default());
        Tensor::new(tensor.0.saved, Rc::clone(tensor.storage()), None, leaf)
    }

    pub(crate) fn ones_like(&mut self, tensor: &Tensor) -> Result<Tensor, RunError> {
        let ones = self.empty_like(tensor)?;
        self.kernel_over(&[], &[&ones])?;
        Ok(ones)
    }

    /// Fills a tensor with bytes from outside, on devices that keep bytes.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn initialise(&mut self, tensor: &Tensor) -> Result<(), RunError> {
        Ok(self.accelerator.initialise(tensor)?)
    }
}
