//! Pack: a tensor is saved for backward (docs/offloader-rules.md, "Pack").

use super::OffloadActivations;
use super::error::OffloadError;
use super::runtime::{HostCopyShape, Runtime, StorageKey};
use super::saved::{Element, View};
use super::state::Stashed;
use super::tracker::{TensorId, Tracked, accelerator_bytes};
use super::version::Change;
use crate::deviation::Deviation;
use crate::tensor::{Placement, SavedTensor, TensorClass};

impl<R: Runtime> OffloadActivations<R> {
    /// The pack hook: takes a tensor and returns the id under which unpack finds it.
    ///
    /// # Errors
    /// [`OffloadError::TrackerNotCleared`] if a forward pass begins and the tracker is not empty;
    /// [`OffloadError::Sparse`] for a sparse tensor that would be offloaded; the device's errors
    /// from copies, waits and events.
    pub fn pack(
        &mut self,
        tensor: &R::Tensor,
        runtime: &mut R,
    ) -> Result<TensorId, OffloadError<R::Error>> {
        if let Some(copy) = self.clone_before_pack(tensor, runtime)? {
            return self.pack_tensor(copy, runtime);
        }
        self.pack_tensor(tensor.clone(), runtime)
    }

    /// axolotl 393d25f4f: views that #5694 would copy are copied on the current stream, whatever
    /// their size, even if pack would not offload them.
    fn clone_before_pack(
        &self,
        tensor: &R::Tensor,
        runtime: &mut R,
    ) -> Result<Option<R::Tensor>, OffloadError<R::Error>> {
        let saved = runtime.saved(tensor);
        let wanted = self.has(Change::ComputeStreamClone)
            && saved.placement == Placement::Accelerator
            && saved.class != TensorClass::Parameter
            && !saved.layout.is_dense_from_start();
        if !wanted {
            return Ok(None);
        }
        let stream = runtime.current_stream();
        Ok(Some(runtime.clone_contiguous(tensor, stream)?))
    }

    fn pack_tensor(
        &mut self,
        tensor: R::Tensor,
        runtime: &mut R,
    ) -> Result<TensorId, OffloadError<R::Error>> {
        self.begin_forward_if_armed()?;
        let id = self.state.next_id();
        let mut key = self.deduplicates().then(|| runtime.storage_key(&tensor));
        if let Some(key) = &mut key
            && self.deviates(Deviation::KeyWithoutDtype)
        {
            key.dtype = Element::ANY;
        }
        // De-duplication comes before every other filter, so even a tiny duplicate counts as one.
        if let Some(key) = key
            && self.state.id_by_key.contains_key(&key)
        {
            let kept = accelerator_bytes(runtime.saved(&tensor));
            self.state.tracker.keep(id, tensor, kept);
            if self.has(Change::ReleaseDedupeKey) {
                self.track_key(key, id);
            }
            return Ok(id);
        }
        if self.stays_on_device(runtime.saved(&tensor)) {
            let kept = accelerator_bytes(runtime.saved(&tensor));
            self.state.tracker.keep(id, tensor, kept);
            return Ok(id);
        }
        self.offload(id, tensor, key, runtime)?;
        Ok(id)
    }

    /// The first pack since the flag was set: for the hooks, a new step begins.
    fn begin_forward_if_armed(&mut self) -> Result<(), OffloadError<R::Error>> {
        let state = &mut self.state;
        if !state.phase.first_forward_call {
            return Ok(());
        }
        if !state.tracker.is_empty() {
            return Err(OffloadError::TrackerNotCleared {
                left: state.tracker.len(),
            });
        }
        state.phase.first_forward_call = false;
        state.phase.first_backward_call = true;
        state.id_by_key.clear();
        state.key_by_id.clear();
        Ok(())
    }

    /// The filters after de-duplication, in upstream's order (their order cannot be observed).
    fn stays_on_device(&self, saved: &SavedTensor<R::Layout, R::DType>) -> bool {
        if saved.placement != Placement::Accelerator
            || saved.bytes() < self.config.min_offload_size
            || matches!(saved.class, TensorClass::Parameter | TensorClass::Buffer)
        {
            return true;
        }
        if !self.has(Change::Deduplicate) {
            return false;
        }
        // Compares storages, so that a transposed or sliced weight is recognised too.
        let of_param = saved
            .storage
            .base
            .is_some_and(|base| self.state.param_storages.contains(&base));
        saved.class == TensorClass::Float8Wrapper || of_param
    }

    fn offload(
        &mut self,
        id: TensorId,
        tensor: R::Tensor,
        key: Option<StorageKey<R::DType>>,
        runtime: &mut R,
    ) -> Result<(), OffloadError<R::Error>> {
        let compute = self.compute_stream(runtime);
        // This comes before the side stream waits, so that the side stream waits for the copy too.
        let tensor = match self.has(Change::CloneBeforeWait) {
            true => {
                let saved = runtime.saved(&tensor);
                // The strides of a tensor in COO format, all 0, look like those of a broadcast.
                if !saved.layout.is_broadcast() {
                    self.refuse_sparse(id, saved)?;
                }
                self.made_contiguous(tensor, compute, runtime)?
            }
            false => tensor,
        };
        if let Some(side) = self.side {
            self.drop_old_forward_entries(id, compute, runtime)?;
            runtime.wait_stream(side, compute)?;
        }
        let stream = self.side.unwrap_or(compute);
        let source = self.copy_out(id, tensor, stream, runtime)?;
        if let Some(side) = self.side {
            let copied = runtime.record_event(side)?;
            self.state.fwd_stash.insert(
                id,
                Stashed {
                    tensor: source,
                    copied,
                },
            );
        }
        if let Some(key) = key {
            let keyed_release = self.has(Change::ReleaseDedupeKey);
            // #6241: without streams nothing would release the key, so no key is tracked.
            if !keyed_release {
                self.state.id_by_key.insert(key, id);
            } else if self.side.is_some() {
                self.track_key(key, id);
            }
        }
        Ok(())
    }

    /// Drops sources whose copies were enqueued long enough ago: ids up to
    /// `id - max_fwd_stash_size`.
    fn drop_old_forward_entries(
        &mut self,
        id: TensorId,
        compute: R::Stream,
        runtime: &mut R,
    ) -> Result<(), OffloadError<R::Error>> {
        while let Some(entry) = self.state.fwd_stash.first_entry() {
            let old = *entry.key();
            if old.0.saturating_add(self.config.max_fwd_stash_size) > id.0 {
                break;
            }
            runtime.wait_event(compute, &entry.get().copied)?;
            entry.remove();
            self.state.release_key(old);
        }
        Ok(())
    }

    /// Copies to the host on `stream`; returns the tensor that the copy reads.
    fn copy_out(
        &mut self,
        id: TensorId,
        mut tensor: R::Tensor,
        stream: R::Stream,
        runtime: &mut R,
    ) -> Result<R::Tensor, OffloadError<R::Error>> {
        // Strides are saved since #4247.
        let keeps_layout = self.has(Change::Deduplicate);
        let saved = runtime.saved(&tensor);
        self.refuse_sparse(id, saved)?;
        let (shape, elements) = if keeps_layout && saved.layout.is_broadcast() {
            (
                HostCopyShape::WholeStorage,
                saved.storage.bytes / saved.dtype.size(),
            )
        } else {
            (HostCopyShape::AsItLies, saved.layout.elements())
        };
        // #5694: this copy is allocated and written on the copying stream. From here on, the
        // forward stash protects this copy and not its source.
        tensor = self.made_contiguous(tensor, stream, runtime)?;
        let layout = keeps_layout.then(|| runtime.saved(&tensor).layout.clone());
        let host = runtime.copy_to_host(&tensor, shape, stream)?;
        self.state.tracker.offload(
            id,
            Tracked::Offloaded {
                host,
                layout,
                elements,
            },
        );
        Ok(tensor)
    }

    /// Strides and storage are asked for since #4247. Before, only pinned memory refuses a sparse
    /// tensor.
    fn refuse_sparse(
        &self,
        id: TensorId,
        saved: &SavedTensor<R::Layout, R::DType>,
    ) -> Result<(), OffloadError<R::Error>> {
        let is_refused = self.has(Change::Deduplicate) || self.config.use_pin_memory;
        match is_refused && !saved.layout.is_strided() {
            true => Err(OffloadError::Sparse(id)),
            false => Ok(()),
        }
    }

    /// Makes the copy of #5694 on `stream`, if the tensor needs one: if it is not dense from the
    /// start of its storage, and is not restored from the whole storage as a broadcast is.
    fn made_contiguous(
        &self,
        tensor: R::Tensor,
        stream: R::Stream,
        runtime: &mut R,
    ) -> Result<R::Tensor, OffloadError<R::Error>> {
        let saved = runtime.saved(&tensor);
        let fits = saved.layout.is_broadcast() || saved.layout.is_dense_from_start();
        if fits || !self.has(Change::PackContiguous) {
            return Ok(tensor);
        }
        Ok(runtime.clone_contiguous(&tensor, stream)?)
    }

    /// Whether equal keys are looked for: with #7193 only if something releases the keys.
    fn deduplicates(&self) -> bool {
        let wanted = self.side.is_some() || !self.has(Change::DedupeOnlyWithStreams);
        self.has(Change::Deduplicate) && wanted
    }

    fn track_key(&mut self, key: StorageKey<R::DType>, id: TensorId) {
        self.state.id_by_key.insert(key, id);
        self.state.key_by_id.insert(id, key);
    }
}
