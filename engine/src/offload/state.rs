//! The containers of the offloader (docs/offloader-rules.md, "State").

use std::collections::{BTreeMap, HashMap, HashSet};

use indexmap::IndexMap;
use serde::Serialize;

use super::runtime::{GraphTask, Runtime, StorageKey};
use super::tracker::{TensorId, Tracker};
use trace::units::{Bytes, DeviceAddr};

/// An offloaded tensor that stays alive until its copy to the host is done.
pub(super) struct Stashed<R: Runtime> {
    pub tensor: R::Tensor,
    pub copied: R::Event,
}

/// Which part of a step it is, as the hooks see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Phase {
    /// `is_first_forward_call`.
    pub first_forward_call: bool,
    /// `is_first_backward_call`.
    pub first_backward_call: bool,
    /// `is_first_forward_pass`: only decides about a warning that comes once.
    pub first_forward_pass: bool,
}

/// All state that changes, except the streams.
pub(super) struct State<R: Runtime> {
    pub tracker: Tracker<R>,
    pub last_id: TensorId,
    pub phase: Phase,
    /// `storage_to_tensor_id`.
    pub id_by_key: HashMap<StorageKey<R::DType>, TensorId>,
    /// `_storage_key_by_tensor_id` (#6241 only).
    pub key_by_id: HashMap<TensorId, StorageKey<R::DType>>,
    /// Base addresses of parameter storages.
    pub param_storages: HashSet<DeviceAddr>,
    /// Ordered by id, which is the order of insertion, because ids only start again after enter has
    /// cleared this.
    pub fwd_stash: BTreeMap<TensorId, Stashed<R>>,
    /// In the order of insertion, which is the order of restores.
    pub bwd_tensor_stash: IndexMap<TensorId, R::Tensor>,
    pub bwd_ev_stash: IndexMap<TensorId, R::Event>,
    pub graph: Option<GraphTask>,
    /// This reference stays across steps: the last node lives longer than its backward pass.
    pub node: Option<R::Node>,
}

impl<R: Runtime> State<R> {
    pub fn new() -> State<R> {
        State {
            tracker: Tracker::new(),
            last_id: TensorId(0),
            phase: Phase {
                first_forward_call: true,
                first_backward_call: true,
                first_forward_pass: true,
            },
            id_by_key: HashMap::new(),
            key_by_id: HashMap::new(),
            param_storages: HashSet::new(),
            fwd_stash: BTreeMap::new(),
            bwd_tensor_stash: IndexMap::new(),
            bwd_ev_stash: IndexMap::new(),
            graph: None,
            node: None,
        }
    }

    pub fn next_id(&mut self) -> TensorId {
        self.last_id.0 += 1;
        self.last_id
    }

    /// `release_storage_key` of #6241. Without that change `key_by_id` is empty, so this does
    /// nothing, as in the other versions.
    pub fn release_key(&mut self, id: TensorId) {
        if let Some(key) = self.key_by_id.remove(&id)
            && self.id_by_key.get(&key) == Some(&id)
        {
            self.id_by_key.remove(&key);
        }
    }

    pub fn clear_stashes(&mut self) {
        self.bwd_tensor_stash.clear();
        self.bwd_ev_stash.clear();
        self.fwd_stash.clear();
    }
}

/// Sizes of all containers: the numbers that a tape records after each call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ContainerSizes {
    /// Entries of the tracker.
    pub tracker: u64,
    /// Tracker entries that are host copies.
    pub offloaded: u64,
    /// Logical bytes of tracked accelerator tensors.
    pub gpu_kept_bytes: Bytes,
    /// Entries of the de-duplication map.
    pub dedup_keys: u64,
    /// Last id that was given out.
    pub tensor_id: u64,
    /// Entries of the forward stash.
    pub fwd_stash: u64,
    /// Entries of the backward tensor stash.
    pub bwd_stash: u64,
    /// Entries of the backward event stash.
    pub bwd_ev: u64,
}
