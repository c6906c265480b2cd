//! The activation offloader: TRL's `OffloadActivations`, in every version.
//!
//! The rules are those of docs/offloader-rules.md. [`version`] says which changes are included, and
//! [`state`] holds the containers. `pack`, `unpack`, `hooks` and `scope` follow the sections
//! "Pack", "Unpack", "Hooks after a node" and "Entering and leaving". This module does no IO and
//! owns no device: it reaches everything outside through a [`Runtime`].

mod error;
mod hooks;
mod pack;
mod runtime;
mod saved;
mod scope;
mod standing;
mod state;
mod tracker;
mod unpack;
mod version;

pub use error::OffloadError;
pub use hooks::PostHook;
pub use runtime::{GraphTask, HostCopyShape, KeyPlace, Runtime, StorageKey};
pub use saved::{Element, View};
pub use state::ContainerSizes;
pub use tracker::TensorId;
pub use unpack::Origin;
pub use version::{Change, Changes, Release};

use crate::deviation::Deviation;
use state::State;
use trace::units::{Bytes, DeviceAddr};
use tracker::Tracked;

/// Constructor arguments of the offloader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadConfig {
    /// Whether copies run on a side stream; if not, copies out run on the compute stream, and
    /// copies back on the current one.
    pub use_streams: bool,
    /// Whether host copies are in pinned memory. Only the warning depends on it here, because the
    /// runtime allocates.
    pub use_pin_memory: bool,
    /// Size of the smallest tensor that is offloaded.
    pub min_offload_size: Bytes,
    /// For how many ids an entry of the forward stash stays alive.
    pub max_fwd_stash_size: u64,
    /// Whether the process has imported bitsandbytes (#5730 empties the cache then).
    pub bitsandbytes_imported: bool,
    /// The changes that are included.
    pub changes: Changes,
    /// A rule that is broken on purpose.
    pub deviation: Option<Deviation>,
}

impl OffloadConfig {
    /// The defaults of the original for a version.
    pub fn new(changes: Changes) -> OffloadConfig {
        OffloadConfig {
            use_streams: true,
            use_pin_memory: true,
            min_offload_size: Bytes(1024),
            max_fwd_stash_size: 5,
            bitsandbytes_imported: false,
            changes,
            deviation: None,
        }
    }
}

/// Whether pack moved a tensor to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// A host copy was made.
    Offloaded,
    /// The tensor itself is tracked and stays alive.
    Kept,
}

/// `OffloadActivations`: one object is used for the whole run, and keeps its state between steps.
pub struct OffloadActivations<R: Runtime> {
    config: OffloadConfig,
    /// `s0` as it was at construction: the default stream.
    captured: R::Stream,
    /// `s1`, if streams are used.
    side: Option<R::Stream>,
    state: State<R>,
}

impl<R: Runtime> OffloadActivations<R> {
    /// Makes the offloader, which takes the default stream as `s0` (docs/offloader-rules.md,
    /// "State").
    ///
    /// # Errors
    /// [`OffloadError::StashTooSmall`] for a forward stash of 0 if streams are used, or the device
    /// refuses a stream.
    pub fn new(
        config: OffloadConfig,
        runtime: &mut R,
    ) -> Result<OffloadActivations<R>, OffloadError<R::Error>> {
        let captured = runtime.default_stream();
        let mut side = None;
        if config.use_streams {
            side = Some(runtime.new_stream()?);
            if config.max_fwd_stash_size < 1 {
                return Err(OffloadError::StashTooSmall);
            }
        }
        Ok(OffloadActivations {
            config,
            captured,
            side,
            state: State::new(),
        })
    }

    /// The configuration it was built with.
    pub fn config(&self) -> &OffloadConfig {
        &self.config
    }

    /// `update_model_params`: storages whose tensors are never offloaded (#4247).
    ///
    /// Parameters without data (base address 0) do not count.
    pub fn update_model_params(&mut self, bases: impl IntoIterator<Item = DeviceAddr>) {
        let has_data = |base: &DeviceAddr| *base != DeviceAddr(0);
        self.state.param_storages = bases.into_iter().filter(has_data).collect();
    }

    /// Adds or removes one parameter storage: in a recording, each call says whether it is one.
    pub fn set_param_storage(&mut self, base: DeviceAddr, is_param: bool) {
        if is_param {
            self.state.param_storages.insert(base);
        } else {
            self.state.param_storages.remove(&base);
        }
    }

    /// Base addresses of the parameter storages.
    pub fn param_storages(&self) -> impl Iterator<Item = DeviceAddr> + '_ {
        self.state.param_storages.iter().copied()
    }

    /// Sizes of all containers.
    pub fn sizes(&self) -> ContainerSizes {
        let state = &self.state;
        ContainerSizes {
            tracker: state.tracker.len() as u64,
            offloaded: state.tracker.offloaded(),
            gpu_kept_bytes: state.tracker.kept(),
            dedup_keys: state.id_by_key.len() as u64,
            tensor_id: state.last_id.0,
            fwd_stash: state.fwd_stash.len() as u64,
            bwd_stash: state.bwd_tensor_stash.len() as u64,
            bwd_ev: state.bwd_ev_stash.len() as u64,
        }
    }

    /// Entries of the tracker.
    pub fn tracked(&self) -> u64 {
        self.state.tracker.len() as u64
    }

    /// What the tracker holds for `id`.
    pub fn decision(&self, id: TensorId) -> Option<Decision> {
        self.state.tracker.get(id).map(|tracked| match tracked {
            Tracked::Kept(_) => Decision::Kept,
            Tracked::Offloaded { .. } => Decision::Offloaded,
        })
    }

    /// Accelerator tensors that the tracker holds, each with its id.
    pub fn kept_tensors(&self) -> impl Iterator<Item = (TensorId, &R::Tensor)> {
        self.state
            .tracker
            .iter()
            .filter_map(|(id, tracked)| match tracked {
                Tracked::Kept(tensor) => Some((id, tensor)),
                Tracked::Offloaded { .. } => None,
            })
    }

    /// Tensors that the forward stash holds.
    pub fn forward_stash(&self) -> impl Iterator<Item = (TensorId, &R::Tensor)> {
        self.state
            .fwd_stash
            .iter()
            .map(|(&id, stashed)| (id, &stashed.tensor))
    }

    /// Tensors that the backward stash holds.
    pub fn backward_stash(&self) -> impl Iterator<Item = (TensorId, &R::Tensor)> {
        self.state
            .bwd_tensor_stash
            .iter()
            .map(|(&id, tensor)| (id, tensor))
    }

    /// `curr_autograd_node`: the last node that unpacked; it stays referenced across steps.
    pub fn last_node(&self) -> Option<&R::Node> {
        self.state.node.as_ref()
    }

    /// The de-duplication map.
    pub fn dedupe_keys(&self) -> impl Iterator<Item = (StorageKey<R::DType>, TensorId)> + '_ {
        self.state.id_by_key.iter().map(|(&key, &id)| (key, id))
    }

    /// Leaves a tensor of so many bytes in the tracker, like a branch that never runs backward, and
    /// unsets the flag, which such a leftover keeps unset. axolotl's leak test injects such tensors
    /// (docs/offloader-rules.md, "Upstream tests").
    pub fn inject(&mut self, tensor: R::Tensor, bytes: Bytes) -> TensorId {
        // These ids are very high, so that the program's own ids do not change.
        let taken = self.state.tracker.count_from(TensorId(u64::MAX / 2));
        let id = TensorId(u64::MAX - taken);
        self.state.tracker.keep(id, tensor, bytes);
        self.state.phase.first_forward_call = false;
        id
    }

    fn has(&self, change: Change) -> bool {
        self.config.changes.has(change)
    }

    fn deviates(&self, deviation: Deviation) -> bool {
        deviation.is(self.config.deviation)
    }

    /// `s0`: the stream from construction or, with axolotl's patch, the current stream.
    fn compute_stream(&self, runtime: &R) -> R::Stream {
        if self.has(Change::LiveComputeStream) {
            runtime.current_stream()
        } else {
            self.captured
        }
    }
}
