//! What the offloader needs from the outside world.
//!
//! The same state machine is driven by recorded tapes, by the simulated engine and by CUDA; each
//! implements this trait. Tensors are handles: cloning one is taking a strong reference, dropping
//! the last one frees the storage. Nothing else decides lifetime.

use crate::tensor::{Layout, SavedTensor};

/// Identity of one call of `backward()` (`torch._C._current_graph_task_id`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GraphTask(pub u64);

/// Key of the de-duplication map: where the first element lies and what type it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageKey {
    /// Address, or object identity where the storage cannot be read.
    pub place: KeyPlace,
    /// Element type: equal addresses of different types do not collide.
    pub dtype: crate::tensor::DType,
}

/// First half of a [`StorageKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyPlace {
    /// Byte address of the storage plus the view's offset in *elements* (upstream's own mixture).
    Address(u64),
    /// Identity of the tensor object.
    Object(u64),
}

impl StorageKey {
    /// `_get_unique_tensor_key` (docs/offloader-rules.md, "State").
    pub fn of(tensor: &SavedTensor) -> StorageKey {
        let place = match tensor.storage.base {
            Some(base) => KeyPlace::Address(base.0 + tensor.layout.offset),
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
    /// The elements of the view, densely packed (`empty_like(cpu)`).
    View,
    /// The whole storage as one dimension, for views with a stride of 0.
    WholeStorage,
}

/// Services the offloader calls. All copies are asynchronous on the named stream.
pub trait Runtime {
    /// A strong reference to an accelerator (or host) tensor.
    type Tensor: Clone;
    /// A host buffer that holds an offloaded tensor; dropping it frees the buffer.
    type Host;
    /// An event recorded on a stream.
    type Event;
    /// A stream of the accelerator.
    type Stream: Copy + PartialEq + std::fmt::Debug;
    /// A reference to an autograd node that keeps its identity alive.
    type Node: Clone + PartialEq;
    /// What a device call can fail with.
    type Error: std::error::Error + 'static;

    /// Description of a tensor.
    fn saved<'t>(&self, tensor: &'t Self::Tensor) -> &'t SavedTensor;

    /// Key under which the tensor is de-duplicated.
    fn storage_key(&self, tensor: &Self::Tensor) -> StorageKey {
        StorageKey::of(self.saved(tensor))
    }

    /// The device's default stream.
    fn default_stream(&self) -> Self::Stream;
    /// The stream on which work is being enqueued now.
    fn current_stream(&self) -> Self::Stream;
    /// A new side stream.
    ///
    /// # Errors
    /// When the device cannot make one.
    fn new_stream(&mut self) -> Result<Self::Stream, Self::Error>;

    /// Makes later work on `stream` wait for `event`.
    ///
    /// # Errors
    /// When the device refuses.
    fn wait_event(&mut self, stream: Self::Stream, event: &Self::Event) -> Result<(), Self::Error>;
    /// Makes later work on `waiter` wait for all work enqueued so far on `on`.
    ///
    /// # Errors
    /// When the device refuses.
    fn wait_stream(&mut self, waiter: Self::Stream, on: Self::Stream) -> Result<(), Self::Error>;
    /// Records an event after all work enqueued so far on `stream`.
    ///
    /// # Errors
    /// When the device refuses.
    fn record_event(&mut self, stream: Self::Stream) -> Result<Self::Event, Self::Error>;
    /// Blocks the host until `stream` has run dry.
    ///
    /// # Errors
    /// When earlier work failed; CUDA reports faults here.
    fn synchronize(&mut self, stream: Self::Stream) -> Result<(), Self::Error>;

    /// Copies a tensor into a new host buffer.
    ///
    /// # Errors
    /// When host memory runs out or the device refuses.
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
    /// The saved layout, known to be within bounds, over the bytes that came back from `host`.
    ///
    /// Where those are the elements of a view in logical order and the layout is another one, the
    /// tensor has other elements than the one that was packed.
    fn as_strided(
        &mut self,
        copied: Self::Tensor,
        host: &Self::Host,
        layout: &Layout,
    ) -> Self::Tensor;

    /// References to the tensor's storage (`torch._C._storage_Use_Count`).
    fn storage_use_count(&mut self, tensor: &Self::Tensor) -> u64;
    /// Tells the caching allocator that `stream` uses the tensor too.
    fn record_stream(&mut self, tensor: &Self::Tensor, stream: Self::Stream);

    /// The backward pass that is running now.
    fn current_graph_task(&self) -> GraphTask;
    /// The node that is running now.
    fn current_node(&self) -> Self::Node;
    /// Attaches a hook that runs after `node`'s kernels have been enqueued.
    fn register_post_hook(&mut self, node: &Self::Node, hook: super::PostHook);
    /// Queues the offloader's clean-up for the end of the running backward pass.
    fn queue_end_of_backward(&mut self);

    /// Returns cached, wholly free segments to the device.
    fn empty_cache(&mut self);
    /// Called once a run, at the first unpack with pinned memory: the place for a warning that
    /// host memory is more than 60 % full.
    fn check_host_memory(&mut self) {}
}
