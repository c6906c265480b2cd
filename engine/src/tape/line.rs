//! The lines of a recorded tape (docs/measurements.md, "Recorded calls"): one JSON object for each
//! call of the real offloader.

use serde::Deserialize;

use crate::deviation::Deviation;
use crate::offload::{Changes, OffloadConfig};
use trace::units::{Bytes, DeviceAddr};

/// Arguments of the constructor. Those that are not there have the default of the original.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct InitLine {
    /// Whether there is a side stream.
    pub use_streams: Option<bool>,
    /// Whether host copies are in pinned memory. Only what happens to sparse tensors tells.
    pub use_pin_memory: Option<bool>,
    /// Size of the smallest tensor that is offloaded.
    pub min_offload_size: Option<Bytes>,
    /// For how many ids an entry of the forward stash stays alive; without streams there is none.
    pub max_fwd_stash_size: Option<u64>,
}

impl InitLine {
    /// The configuration of the recorded offloader.
    pub(super) fn config(&self, changes: Changes, deviation: Option<Deviation>) -> OffloadConfig {
        let defaults = OffloadConfig::new(changes);
        let stash = self.max_fwd_stash_size;
        OffloadConfig {
            use_streams: self.use_streams.unwrap_or(defaults.use_streams),
            use_pin_memory: self.use_pin_memory.unwrap_or(defaults.use_pin_memory),
            min_offload_size: self.min_offload_size.unwrap_or(defaults.min_offload_size),
            max_fwd_stash_size: stash.unwrap_or(defaults.max_fwd_stash_size),
            deviation,
            ..defaults
        }
    }
}

/// Container sizes after a call: those that were recorded. Without streams there are no stashes.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct After {
    /// Entries of the tracker.
    pub tracker: Option<u64>,
    /// Tracker entries that are host copies.
    pub offloaded: Option<u64>,
    /// Logical bytes of tracked accelerator tensors.
    pub gpu_kept_bytes: Option<Bytes>,
    /// Entries of the de-duplication map.
    pub dedup_keys: Option<u64>,
    /// Last id handed out.
    pub tensor_id: Option<u64>,
    /// Entries of the forward stash.
    pub fwd_stash: Option<u64>,
    /// Entries of the backward tensor stash.
    pub bwd_stash: Option<u64>,
    /// Entries of the backward event stash.
    pub bwd_ev: Option<u64>,
}

/// Arguments and result of a pack.
#[derive(Debug, Clone, Deserialize)]
pub struct PackLine {
    /// De-duplication key: place and element type.
    pub key: (u64, String),
    /// Base address of the storage, if it can be read.
    pub storage: Option<DeviceAddr>,
    /// Bytes of the storage.
    pub storage_bytes: Bytes,
    /// Logical bytes of the view.
    pub bytes: Bytes,
    /// Sizes of the dimensions.
    pub shape: Vec<u64>,
    /// Strides in elements. A sparse tensor that is not in COO format has none: what stands here is
    /// not used.
    pub stride: Vec<u64>,
    /// Offset in elements.
    pub offset: u64,
    /// `device.type`.
    pub device: String,
    /// Whether the object is a `Parameter` or `Buffer`.
    pub is_parameter: bool,
    /// Whether the storage belongs to a parameter.
    pub in_param_storages: bool,
    /// Python class name.
    pub class: String,
    /// Id that pack returned.
    pub id: Option<u64>,
    /// Whether a host copy was made.
    pub offloaded: Option<bool>,
    /// The exception, if pack raised one.
    pub error: Option<String>,
    /// State after the call.
    #[serde(default)]
    pub after: After,
}

impl PackLine {
    /// Whether it is a sparse tensor. Other tensors without a storage are of classes of their own.
    pub(super) fn is_sparse(&self) -> bool {
        self.storage.is_none() && self.class == "Tensor"
    }
}

/// Arguments and result of an unpack.
#[derive(Debug, Clone, Deserialize)]
pub struct UnpackLine {
    /// Id that was asked for.
    pub id: u64,
    /// Backward pass, renumbered from 0; `null` if none runs, as where a debugger reads what was
    /// saved. It must be there.
    #[serde(deserialize_with = "Option::deserialize")]
    pub graph: Option<u64>,
    /// `kept`, `host` or `fwd_stash`.
    pub from: Option<String>,
    /// The exception, if unpack raised one.
    pub error: Option<String>,
    /// State after the call.
    #[serde(default)]
    pub after: After,
}

impl UnpackLine {
    /// Whether something was read while no backward pass ran, and this failed.
    pub(super) fn is_failed_look(&self) -> bool {
        self.graph.is_none() && self.error.is_some()
    }
}

/// One line.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Line {
    /// The constructor.
    Init(InitLine),
    /// A training step begins.
    Step {},
    /// `__enter__`.
    Enter {
        /// State after the call.
        #[serde(default)]
        after: After,
    },
    /// The pack hook.
    Pack(Box<PackLine>),
    /// The forward pass is over; nothing was called.
    ForwardEnd {
        /// State at that moment.
        #[serde(default)]
        after: After,
    },
    /// The unpack hook.
    Unpack(UnpackLine),
    /// A storage's use count, which the call on one of the next lines used.
    UseCount {
        /// References to the storage.
        value: u64,
    },
    /// A post-hook has run.
    NodeHook {
        /// The exception, if the hook raised one.
        error: Option<String>,
        /// State after the call.
        #[serde(default)]
        after: After,
    },
    /// `backward()` has returned, so the queued callbacks have run.
    BackwardEnd {
        /// State at that moment.
        #[serde(default)]
        after: After,
    },
    /// `__exit__`.
    Exit {
        /// State after the call.
        #[serde(default)]
        after: After,
    },
    /// A training step is over.
    StepEnd {
        /// State at that moment.
        #[serde(default)]
        after: After,
    },
    /// A line that this reader does not know; newer recorders may write some.
    #[serde(other)]
    Unknown,
}

impl Line {
    /// Whether a sparse tensor was copied to the host.
    pub(super) fn is_sparse_copy(&self) -> bool {
        matches!(self, Line::Pack(pack) if pack.is_sparse() && pack.offloaded == Some(true))
    }

    /// Whether the line says nothing about a call: such lines may come before `init`.
    pub(super) fn is_no_call(&self) -> bool {
        matches!(self, Line::Step {} | Line::Unknown)
    }
}
