//! What a training loop has around its steps, and the offloaders that keep no state of their own.
//!
//! `save_on_cpu` is a pair of hooks in torch: each saved tensor is copied to pinned memory at once,
//! on the stream that computes, and the host waits. The tensors that a graph saved live as long as
//! the graph, so nothing can stay behind. Hidden-states offload (Unsloth, axolotl) does the same,
//! but only for the inputs of checkpointed blocks.

use std::cell::Cell;
use std::rc::Rc;

use super::modules::{ModuleOffload, Modules};
use super::{HostCopy, RunError, Session};
use crate::autograd::{HookLayer, Saved, Tensor};
use crate::device::Fingerprint;
use crate::memory::SharedHeap;
use crate::offload::{HostCopyShape, Runtime};
use crate::tensor::Placement;

/// What is around the steps of a training loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Around {
    /// TRL's context with its `NoOpManager`s, whether it offloads or not.
    #[default]
    Trl,
    /// Nothing: only checkpoints.
    Nothing,
    /// `torch.autograd.graph.save_on_cpu(pin_memory=True)`.
    SaveOnCpu,
    /// The inputs of checkpointed blocks go to the host; everything else stays.
    HiddenStates,
    /// An offloader that moves modules.
    Modules(ModuleOffload),
}

/// A saved tensor whose bytes are on the host.
pub(crate) struct OnHost {
    copy: HostCopy,
    /// Checksum of the saved tensor, until it is compared.
    print: Cell<Option<Fingerprint>>,
    heap: SharedHeap,
}

impl OnHost {
    /// The bytes on the host.
    pub(crate) fn copy(&self) -> &HostCopy {
        &self.copy
    }
}

impl Drop for OnHost {
    fn drop(&mut self) {
        if let Some(print) = self.print.take() {
            self.heap.borrow_mut().device.forget(print);
        }
    }
}

impl Session {
    /// Sets what is around the steps, if it is not TRL's context.
    ///
    /// # Errors
    /// The device refuses a stream.
    pub fn surround(&mut self, around: Around) -> Result<(), RunError> {
        self.around = around;
        self.modules = match around {
            Around::Modules(offload) => Some(Modules::new(offload, &mut self.accelerator)?),
            _ => None,
        };
        Ok(())
    }

    /// After a step the loop reads its loss, and the host waits for it. The allocator only notices
    /// this if frees wait for copies. The loops of other offloaders stay as they ran on the card,
    /// which is without this wait.
    /// # Errors
    /// A fault of earlier work.
    pub(crate) fn read_loss(&mut self) -> Result<(), RunError> {
        if self.modules.is_some() {
            let stream = self.accelerator.current_stream();
            self.accelerator.synchronize(stream)?;
        }
        Ok(())
    }

    /// Enters what is around the step.
    pub(super) fn enter_around(&mut self) {
        if self.around == Around::SaveOnCpu {
            self.push_hooks(HookLayer::Host);
        }
    }

    /// Leaves what is around the step.
    pub(super) fn exit_around(&mut self) {
        if self.around == Around::SaveOnCpu {
            self.pop_hooks();
        }
        if let Some(modules) = &mut self.modules {
            modules.end_pass();
        }
    }

    /// Whether modules run under a `NoOpManager`, which only TRL's context installs.
    pub(super) fn has_managers(&self) -> bool {
        self.around == Around::Trl
    }

    /// Saves the inputs of a checkpointed block, in the way that the setting around the step
    /// demands.
    ///
    /// # Errors
    /// The error of saving.
    pub(crate) fn saving_block_inputs<T>(
        &mut self,
        save: impl FnOnce(&mut Session) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        if self.around != Around::HiddenStates {
            return save(self);
        }
        self.push_hooks(HookLayer::Host);
        let outcome = save(self);
        self.pop_hooks();
        outcome
    }

    /// `pack_to_cpu`: the copy is dense.
    pub(crate) fn pack_to_host(&mut self, tensor: &Tensor) -> Result<Saved, RunError> {
        if tensor.saved().placement == Placement::Host {
            return Ok(Saved::Plain(tensor.clone()));
        }
        let stream = self.accelerator.current_stream();
        let print = match self.accelerator.keeps_contents() {
            true => self.accelerator.fingerprint(tensor)?,
            false => None,
        };
        let copy = self
            .accelerator
            .copy_to_host(tensor, HostCopyShape::View, stream)?;
        self.accelerator.synchronize(stream)?;
        Ok(Saved::OnHost(Rc::new(OnHost {
            copy,
            print: Cell::new(print),
            heap: Rc::clone(self.heap()),
        })))
    }

    /// `unpack_from_cpu`: copied back on the stream that computes, without waiting.
    pub(crate) fn unpack_from_host(&mut self, saved: &OnHost) -> Result<Tensor, RunError> {
        let stream = self.accelerator.current_stream();
        let tensor = self.accelerator.copy_to_device(&saved.copy, stream)?;
        if let Some(print) = saved.print.take() {
            self.accelerator.verify(&tensor, print)?;
        }
        Ok(tensor)
    }
}
