//! What runs after a backward node and at the end of a backward pass (docs/offloader-rules.md,
//! "Hooks after a node").

use super::OffloadActivations;
use super::error::OffloadError;
use super::runtime::Runtime;
use super::tracker::TensorId;
use super::version::Change;

/// How the tensor of a [`PostHook`] came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restored {
    /// It came from the forward stash.
    FromStash,
    /// It was copied from the host; right after that, its storage had this many references.
    FromHost { use_count: u64 },
}

/// The hook that unpack registers on the node that uses the tensor: one for each restored tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostHook {
    pub(super) id: TensorId,
    pub(super) restored: Restored,
    /// Tensors of earlier nodes, which are dropped after this node has been enqueued.
    pub(super) previous: Vec<TensorId>,
}

impl PostHook {
    /// The tensor whose unpack registered the hook.
    pub fn id(&self) -> TensorId {
        self.id
    }
}

impl<R: Runtime> OffloadActivations<R> {
    /// Runs a post-hook, after all kernels of its node have been enqueued.
    ///
    /// # Errors
    /// Before #4247 the `KeyError`s of look-ups that were not checked; the device's errors.
    pub fn node_finished(
        &mut self,
        hook: PostHook,
        runtime: &mut R,
    ) -> Result<(), OffloadError<R::Error>> {
        if let Restored::FromHost { use_count } = hook.restored {
            self.settle_restored(hook.id, use_count, runtime)?;
        }
        self.drain_forward_stash(runtime)?;
        self.drop_previous(&hook.previous, runtime)
    }

    /// If the storage of a restored tensor has gained references, the tensor lives on in a view or
    /// in a recompute. Then the allocator has to order its free. Otherwise an event says when
    /// compute is done with it.
    fn settle_restored(
        &mut self,
        id: TensorId,
        baseline: u64,
        runtime: &mut R,
    ) -> Result<(), OffloadError<R::Error>> {
        let Some(tensor) = self.state.bwd_tensor_stash.get(&id) else {
            return if self.has(Change::Deduplicate) {
                Ok(())
            } else {
                Err(OffloadError::MissingStashEntry(id))
            };
        };
        let compute = self.compute_stream(runtime);
        if runtime.storage_use_count(tensor) > baseline {
            runtime.record_stream(tensor, compute);
            self.state.bwd_tensor_stash.shift_remove(&id);
        } else {
            let event = runtime.record_event(compute)?;
            self.state.bwd_ev_stash.insert(id, event);
        }
        Ok(())
    }

    /// The first node of backward empties the forward stash, so the stash saves only one reload.
    fn drain_forward_stash(&mut self, runtime: &mut R) -> Result<(), OffloadError<R::Error>> {
        let compute = self.compute_stream(runtime);
        while let Some(entry) = self.state.fwd_stash.first_entry() {
            let id = *entry.key();
            runtime.wait_event(compute, &entry.get().copied)?;
            entry.remove();
            self.state.release_key(id);
        }
        Ok(())
    }

    fn drop_previous(
        &mut self,
        previous: &[TensorId],
        runtime: &mut R,
    ) -> Result<(), OffloadError<R::Error>> {
        let guarded = self.has(Change::Deduplicate);
        for id in previous {
            match self.state.bwd_ev_stash.get(id) {
                Some(event) => self.wait_on_side(event, runtime)?,
                None if guarded => {}
                None => return Err(OffloadError::MissingEvent(*id)),
            }
            if guarded {
                // Before #4247 nothing removed the event entries.
                self.state.bwd_ev_stash.shift_remove(id);
            }
            if self.state.bwd_tensor_stash.shift_remove(id).is_none() && !guarded {
                return Err(OffloadError::MissingStashEntry(*id));
            }
        }
        Ok(())
    }

    /// `wait_and_del_remaining_references`: runs at the end of the backward pass that queued it.
    /// The event entries stay; they hold no tensor memory.
    ///
    /// # Errors
    /// Before #4247 a `KeyError` if an event is missing; the device's errors.
    pub fn backward_finished(&mut self, runtime: &mut R) -> Result<(), OffloadError<R::Error>> {
        let guarded = self.has(Change::Deduplicate);
        while let Some((&id, _)) = self.state.bwd_tensor_stash.first() {
            match self.state.bwd_ev_stash.get(&id) {
                Some(event) => self.wait_on_side(event, runtime)?,
                None if guarded => {}
                None => return Err(OffloadError::MissingEvent(id)),
            }
            self.state.bwd_tensor_stash.shift_remove(&id);
        }
        Ok(())
    }

    fn wait_on_side(
        &self,
        event: &R::Event,
        runtime: &mut R,
    ) -> Result<(), OffloadError<R::Error>> {
        if let Some(side) = self.side {
            runtime.wait_event(side, event)?;
        }
        Ok(())
    }
}
