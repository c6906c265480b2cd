//! The offloader's errors, each with the Python exception that it stands for.

use super::TensorId;

/// A failure of a pack, unpack, hook, enter or exit.
#[derive(Debug, thiserror::Error)]
pub enum OffloadError<E: std::error::Error + 'static> {
    /// `ValueError`: a forward pass begins while tensors of the last one are still tracked.
    #[error("Backward pass should have cleared tracker of all tensors ({left} left)")]
    TrackerNotCleared {
        /// Entries found in the tracker.
        left: usize,
    },
    /// `ValueError`: the id was never packed, was unpacked before, or was cleared by enter.
    #[error("untracked tensor with id {0}")]
    Untracked(TensorId),
    /// `ValueError`: a forward stash of size 0 cannot keep any source alive.
    #[error("max_fwd_stash_size should be at least 1 but is 0")]
    StashTooSmall,
    /// `KeyError` before #4247: the hook looks for a stash entry that is gone.
    #[error("KeyError: {0} is not in bwd_tensor_stash")]
    MissingStashEntry(TensorId),
    /// `KeyError` before #4247: the hook waits for an event that was never recorded.
    #[error("KeyError: {0} is not in bwd_ev_stash")]
    MissingEvent(TensorId),
    /// `RuntimeError` of `as_strided`: the saved layout reaches past the restored storage.
    #[error(
        "setStorage: restoring tensor {id} needs a storage of {needed} elements, which is out of \
         bounds for one of {available}"
    )]
    OutOfBounds {
        /// The tensor that was to be restored.
        id: TensorId,
        /// Elements that the saved layout needs.
        needed: u64,
        /// Elements that were copied.
        available: u64,
    },
    /// `RuntimeError`, or its `NotImplementedError`: a sparse tensor has no storage, and cannot be
    /// in pinned memory.
    #[error("tensor {0} is sparse: it has no storage, and cannot be in pinned memory")]
    Sparse(TensorId),
    /// `RuntimeError`: what was saved is read while no backward pass runs, so that nothing can be
    /// queued for its end.
    #[error("Final callbacks can only be installed during backward pass.")]
    NoBackwardPass,
    /// `AttributeError`: a restored tensor is read while no backward pass runs, so that no node can
    /// have a hook.
    #[error("'NoneType' object has no attribute 'register_hook' (tensor {0})")]
    NoNode(TensorId),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] E),
}

impl<E: std::error::Error + 'static> OffloadError<E> {
    /// The class of the Python exception, for reports.
    pub fn python_class(&self) -> &'static str {
        match self {
            OffloadError::TrackerNotCleared { .. }
            | OffloadError::Untracked(_)
            | OffloadError::StashTooSmall => "ValueError",
            OffloadError::MissingStashEntry(_) | OffloadError::MissingEvent(_) => "KeyError",
            OffloadError::NoNode(_) => "AttributeError",
            OffloadError::OutOfBounds { .. }
            | OffloadError::Sparse(_)
            | OffloadError::NoBackwardPass
            | OffloadError::Device(_) => "RuntimeError",
        }
    }
}
