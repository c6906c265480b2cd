//! The activation offloader: TRL's `OffloadActivations`, in every version.
//!
//! The rules are those of docs/offloader-rules.md. [`version`] says which changes are in, [`state`]
//! holds the containers; `pack`, `unpack`, `hooks` and `scope` follow the sections "Pack",
//! "Unpack", "Hooks after a node" and "Entering and leaving". It does no IO and owns no device:
//! everything outside is a [`Runtime`].

mod error;
mod hooks;
mod pack;
mod runtime;
mod scope;
mod standing;
mod state;
mod unpack;
mod version;

pub use error::OffloadError;
pub use hooks::PostHook;
pub use runtime::{GraphTask, HostCopyShape, KeyPlace, Runtime, StorageKey};
pub use state::{ContainerSizes, TensorId};
pub use unpack::Origin;
pub use version::{Change, Changes, Release};

use crate::deviation::Deviation;
use crate::tensor::Placement;
use state::{State, Tracked};
use trace::units::{Bytes, DeviceAddr};

/// Constructor arguments of the offloader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadConfig {
    /// Copies on a side stream, or on the compute stream.
    pub use_streams: bool,
    /// Host copies in pinned memory; only gates the warning here, the runtime allocates.
    pub use_pin_memory: bool,
    /// Smallest tensor that is offloaded.
    pub min_offload_size: Bytes,
    /// Ids that a forward stash entry stays alive for.
    pub max_fwd_stash_size: u64,
    /// Whether the process has imported bitsandbytes (#5730 empties the cache then).
    pub bitsandbytes_imported: bool,
    /// The changes that are in.
    pub changes: Changes,
    /// A rule that is broken on purpose.
    pub deviation: Option<Deviation>,
}

impl OffloadConfig {
    /// Upstream's defaults for a version.
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
    /// The tensor itself is tracked, and stays alive.
    Kept,
}

/// `OffloadActivations`: one object is used for the whole run, its state crosses steps.
pub struct OffloadActivations<R: Runtime> {
    config: OffloadConfig,
    /// `s0` as captured at construction: the default stream.
    captured: R::Stream,
    /// `s1`, in streams mode.
    side: Option<R::Stream>,
    state: State<R>,
}

impl<R: Runtime> OffloadActivations<R> {
    /// Builds the offloader, capturing the default stream (docs/offloader-rules.md, "State").
    ///
    /// # Errors
    /// [`OffloadError::StashTooSmall`] for a forward stash of 0 in streams mode, or the device's
    /// refusal of a stream.
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

    /// Adds or removes one parameter storage: a recorded run states membership call by call.
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
    pub fn sizes(&self, runtime: &R) -> ContainerSizes {
        let state = &self.state;
        let mut sizes = ContainerSizes {
            tracker: state.tracker.len() as u64,
            dedup_keys: state.id_by_key.len() as u64,
            tensor_id: state.last_id.0,
            fwd_stash: state.fwd_stash.len() as u64,
            bwd_stash: state.bwd_tensor_stash.len() as u64,
            bwd_ev: state.bwd_ev_stash.len() as u64,
            ..ContainerSizes::default()
        };
        for tracked in state.tracker.values() {
            match tracked {
                Tracked::Offloaded { .. } => sizes.offloaded += 1,
                Tracked::Kept(tensor) => {
                    let saved = runtime.saved(tensor);
                    if saved.placement == Placement::Accelerator {
                        sizes.gpu_kept_bytes += saved.bytes();
                    }
                }
            }
        }
        sizes
    }

    /// Entries of the tracker.
    pub fn tracked(&self) -> u64 {
        self.state.tracker.len() as u64
    }

    /// What the tracker holds for `id`.
    pub fn decision(&self, id: TensorId) -> Option<Decision> {
        self.state.tracker.get(&id).map(|tracked| match tracked {
            Tracked::Kept(_) => Decision::Kept,
            Tracked::Offloaded { .. } => Decision::Offloaded,
        })
    }

    /// Accelerator tensors that the tracker holds, with the id that holds each.
    pub fn kept_tensors(&self) -> impl Iterator<Item = (TensorId, &R::Tensor)> {
        self.state
            .tracker
            .iter()
            .filter_map(|(&id, tracked)| match tracked {
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

    /// `curr_autograd_node`: the last node that unpacked stays referenced across steps.
    pub fn last_node(&self) -> Option<&R::Node> {
        self.state.node.as_ref()
    }

    /// The de-duplication map.
    pub fn dedupe_keys(&self) -> impl Iterator<Item = (StorageKey, TensorId)> + '_ {
        self.state.id_by_key.iter().map(|(&key, &id)| (key, id))
    }

    /// Leaves a tensor in the tracker as a branch that never runs backward would, with the flag
    /// that such a leftover keeps down: the injection of axolotl's leak test
    /// (docs/offloader-rules.md, "Upstream tests").
    pub fn inject(&mut self, tensor: R::Tensor) -> TensorId {
        // From the far end, so that the program's own ids stay what they are.
        let taken = self.state.tracker.range(TensorId(u64::MAX / 2)..).count() as u64;
        let id = TensorId(u64::MAX - taken);
        self.state.tracker.insert(id, Tracked::Kept(tensor));
        self.state.phase.first_forward_call = false;
        id
    }

    fn has(&self, change: Change) -> bool {
        self.config.changes.has(change)
    }

    fn deviates(&self, deviation: Deviation) -> bool {
        deviation.is(self.config.deviation)
    }

    /// `s0`: captured once, or with axolotl's patch whatever stream is current.
    fn compute_stream(&self, runtime: &R) -> R::Stream {
        if self.has(Change::LiveComputeStream) {
            runtime.current_stream()
        } else {
            self.captured
        }
    }
}
