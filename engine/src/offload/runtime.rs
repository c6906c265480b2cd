//! What the offloader needs from the outside world.
//!
//! Recorded tapes, the simulated engine and CUDA drive the same state machine; each implements this
//! trait. Tensors are handles: a clone takes a strong reference, and dropping the last one frees
//! the storage. Nothing else decides how long memory lives.

use super::saved::{Element, View};
use crate::tensor::{DType, SavedTensor};

/// Identity of one call of `backward()` (`torch._C._current_graph_task_id`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GraphTask(pub u64);

/// Key of the de-duplication map: where the first element is, and its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageKey<D = DType> {
    /// The address, or the object's identity if the storage cannot be read.
    pub place: KeyPlace,
    /// Element type: tensors of different types at one address have different keys.
    pub dtype: D,
}

/// First half of a [`StorageKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyPlace {
    /// Byte address of the storage plus the view's offset in *elements* (the original mixes the
    /// two).
    Address(u64),
    /// Identity of the tensor object.
    Object(u64),
}

impl<D: Element> StorageKey<D> {
    /// `_get_unique_tensor_key` (docs/offloader-rules.md, "State").
    pub fn of<L: View>(tensor: &SavedTensor<L, D>) -> StorageKey<D> {
        let place = match tensor.storage.base {
            Some(base) => KeyPlace::Address(base.0 + tensor.layout.offset()),
            None => KeyPlace::Object(tensor.object),
        };
        StorageKey {
            place,
            dtype: tensor.dtype,
        }
    }
}

/// How a tensor is copied to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostCopyShape {
    /// The elements of the view in logical order (`empty(size)`).
    View,
    /// The elements as they lie, with their strides, if they fill one piece of memory in any order;
    /// else like [`HostCopyShape::View`] (`empty_like`).
    AsItLies,
    /// The whole storage as one dimension, for views with a stride of 0.
    WholeStorage,
}

/// What the offloader calls. All copies are asynchronous on the given stream.
pub trait Runtime {
    /// A strong reference to an accelerator (or host) tensor.
    type Tensor: Clone;
    /// A host buffer that holds an offloaded tensor; dropping it frees the buffer.
    type Host;
    /// An event recorded on a stream.
    type Event;
    /// A stream of the accelerator.
    type Stream: Copy + PartialEq + std::fmt::Debug;
    /// A reference to an autograd node, which keeps the node alive.
    type Node: Clone + PartialEq;
    /// Layout of a tensor.
    type Layout: View;
    /// Element type of a tensor.
    type DType: Element;
    /// What a device call can fail with.
    type Error: std::error::Error + 'static;

    /// The description of a tensor.
    fn saved<'t>(&self, tensor: &'t Self::Tensor) -> &'t SavedTensor<Self::Layout, Self::DType>;

    /// Key under which the tensor is de-duplicated.
    fn storage_key(&self, tensor: &Self::Tensor) -> StorageKey<Self::DType> {
        StorageKey::of(self.saved(tensor))
    }

    /// The device's default stream.
    fn default_stream(&self) -> Self::Stream;
    /// The stream on which work is enqueued now.
    fn current_stream(&self) -> Self::Stream;
    /// A new side stream.
    ///
    /// # Errors
    /// The device cannot make one.
    fn new_stream(&mut self) -> Result<Self::Stream, Self::Error>;

    /// Makes later work on `stream` wait for `event`.
    ///
    /// # Errors
    /// The device refuses.
    fn wait_event(&mut self, stream: Self::Stream, event: &Self::Event) -> Result<(), Self::Error>;
    /// Makes later work on `waiter` wait for all work enqueued so far on `on`.
    ///
    /// # Errors
    /// The device refuses.
    fn wait_stream(&mut self, waiter: Self::Stream, on: Self::Stream) -> Result<(), Self::Error>;
    /// Records an event after all work enqueued so far on `stream`.
    ///
    /// # Errors
    /// The device refuses.
    fn record_event(&mut self, stream: Self::Stream) -> Result<Self::Event, Self::Error>;
    /// Blocks the host until all work on `stream` is done.
    ///
    /// # Errors
    /// Earlier work failed; CUDA reports faults here.
    fn synchronize(&mut self, stream: Self::Stream) -> Result<(), Self::Error>;

    /// Copies a tensor into a new host buffer.
    ///
    /// # Errors
    /// Host memory runs out, or the device refuses.
    fn copy_to_host(
        &mut self,
        tensor: &Self::Tensor,
        shape: HostCopyShape,
        stream: Self::Stream,
    ) -> Result<Self::Host, Self::Error>;
    /// Copies a host buffer into a new tensor that belongs to `stream`'s pool.
    ///
    /// # Errors
    /// Out of memory, or the device refuses.
    fn copy_to_device(
        &mut self,
        host: &Self::Host,
        stream: Self::Stream,
    ) -> Result<Self::Tensor, Self::Error>;
    /// A contiguous copy with offset 0, allocated and written on `stream`.
    ///
    /// # Errors
    /// Out of memory, or the device refuses.
    fn clone_contiguous(
        &mut self,
        tensor: &Self::Tensor,
        stream: Self::Stream,
    ) -> Result<Self::Tensor, Self::Error>;
    /// The saved layout over the bytes that came back from `host`. The layout is known to be within
    /// bounds.
    ///
    /// If the bytes do not lie as the layout reads them (those of views that overlap themselves),
    /// the tensor has other elements than the packed one.
    fn as_strided(
        &mut self,
        copied: Self::Tensor,
        host: &Self::Host,
        layout: &Self::Layout,
    ) -> Self::Tensor;

    /// References to the tensor's storage (`torch._C._storage_Use_Count`).
    fn storage_use_count(&mut self, tensor: &Self::Tensor) -> u64;
    /// Tells the caching allocator that `stream` uses the tensor too.
    fn record_stream(&mut self, tensor: &Self::Tensor, stream: Self::Stream);

    /// Whether a backward pass is running. A debugger can read what was saved while none is.
    fn is_in_backward(&self) -> bool {
        true
    }
    /// The backward pass that is running now.
    fn current_graph_task(&self) -> GraphTask;
    /// The node that is running now.
    fn current_node(&self) -> Self::Node;
    /// Attaches a hook that runs after `node`'s kernels have been enqueued.
    fn register_post_hook(&mut self, node: &Self::Node, hook: super::PostHook);
    /// Queues the offloader's clean-up for the end of this backward pass.
    fn queue_end_of_backward(&mut self);

    /// Returns segments that are cached and wholly free to the device.
    fn empty_cache(&mut self);
    /// Called once in a run, at the first unpack with pinned memory. An implementation may warn
    /// here that host memory is more than 60 % full.
    fn check_host_memory(&mut self) {}
}
