//! What ends a run, or a recompute.

use crate::device::DeviceError;
use crate::offload::OffloadError;

/// A failure inside a session.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The offloader raised an exception.
    #[error(transparent)]
    Offload(#[from] OffloadError<DeviceError>),
    /// The device failed, or is full.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Not a failure: a recompute has filled every holder and stops early.
    #[error("the recompute has all it needs")]
    StopRecompute,
    /// Backward needed a checkpointed tensor twice.
    #[error("a checkpointed region was unpacked twice without retain_graph")]
    UnpackedTwice,
    /// Backward came to a node without a gradient.
    #[error("element of tensors does not require grad and does not have a grad_fn")]
    NoGradient,
    /// `RuntimeError` of `view`: tensors of different sizes share one host copy.
    #[error("shape of {packed} elements is invalid for input of size {copied}")]
    Reshape {
        /// Elements of the tensor that was packed.
        packed: u64,
        /// Elements of the copy.
        copied: u64,
    },
    /// `AssertionError` of ms-swift: a tensor is still on the host when backward needs it.
    #[error("AssertionError: a tensor was not reloaded before its layer's backward pass")]
    NotBroughtBack,
    /// `KeyError` of ms-swift: in the pass before, backward did not come to each layer.
    #[error("KeyError: a layer beyond the last one, because backward left some out")]
    LayersDoNotReturn,
    /// A tensor was packed by an offloader that the session does not have.
    #[error("the offloader of a saved tensor is gone")]
    NoOffloader,
}

impl RunError {
    /// Whether the device ran out of memory.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(
            self,
            RunError::Device(DeviceError::OutOfMemory { .. })
                | RunError::Offload(OffloadError::Device(DeviceError::OutOfMemory { .. }))
        )
    }
}
