//! The runtime of a replayed tape: it allocates nothing and answers from the recording.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;

use super::passes::Passes;
use super::tensor::{TapeLayout, TapeTensor, TapeType};
use crate::offload::{GraphTask, HostCopyShape, PostHook, Runtime};
use crate::tensor::{Placement, StorageInfo, TensorClass};

/// The two streams of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapeStream {
    /// The default stream.
    Compute,
    /// The offloader's own.
    Side,
}

/// State that the driver sets before each call and reads after it.
#[derive(Debug, Default)]
pub struct TapeRuntime {
    /// The backward passes that are running.
    pub passes: Passes,
    /// Recorded use counts, in the order in which they were read.
    pub use_counts: VecDeque<u64>,
    /// Whether the restore before has already taken the next recorded use count.
    pub skip_next_use_count: bool,
    /// Whether what is unpacked now is read while no backward pass runs.
    pub is_outside: bool,
    /// How often a use count was read for which the recording has none.
    pub unrecorded_reads: u64,
}

impl Runtime for TapeRuntime {
    type Tensor = Rc<TapeTensor>;
    type Host = Rc<TapeTensor>;
    type Event = ();
    type Stream = TapeStream;
    type Node = u64;
    type Layout = TapeLayout;
    type DType = TapeType;
    type Error = Infallible;

    fn saved<'t>(&self, tensor: &'t Rc<TapeTensor>) -> &'t TapeTensor {
        tensor
    }

    fn default_stream(&self) -> TapeStream {
        TapeStream::Compute
    }

    fn current_stream(&self) -> TapeStream {
        TapeStream::Compute
    }

    fn new_stream(&mut self) -> Result<TapeStream, Infallible> {
        Ok(TapeStream::Side)
    }

    fn wait_event(&mut self, _: TapeStream, (): &()) -> Result<(), Infallible> {
        Ok(())
    }

    fn wait_stream(&mut self, _: TapeStream, _: TapeStream) -> Result<(), Infallible> {
        Ok(())
    }

    fn record_event(&mut self, _: TapeStream) -> Result<(), Infallible> {
        Ok(())
    }

    fn synchronize(&mut self, _: TapeStream) -> Result<(), Infallible> {
        Ok(())
    }

    fn copy_to_host(
        &mut self,
        tensor: &Rc<TapeTensor>,
        _: HostCopyShape,
        _: TapeStream,
    ) -> Result<Rc<TapeTensor>, Infallible> {
        Ok(Rc::clone(tensor))
    }

    fn copy_to_device(
        &mut self,
        host: &Rc<TapeTensor>,
        _: TapeStream,
    ) -> Result<Rc<TapeTensor>, Infallible> {
        Ok(Rc::new(dense_copy(host)))
    }

    fn clone_contiguous(
        &mut self,
        tensor: &Rc<TapeTensor>,
        _: TapeStream,
    ) -> Result<Rc<TapeTensor>, Infallible> {
        Ok(Rc::new(dense_copy(tensor)))
    }

    fn as_strided(
        &mut self,
        tensor: Rc<TapeTensor>,
        _: &Rc<TapeTensor>,
        layout: &TapeLayout,
    ) -> Rc<TapeTensor> {
        Rc::new(TapeTensor {
            layout: *layout,
            ..*tensor
        })
    }

    fn storage_use_count(&mut self, _: &Rc<TapeTensor>) -> u64 {
        self.use_counts.pop_front().unwrap_or_else(|| {
            self.unrecorded_reads += 1;
            0
        })
    }

    fn record_stream(&mut self, _: &Rc<TapeTensor>, _: TapeStream) {}

    fn is_in_backward(&self) -> bool {
        !self.is_outside
    }

    fn current_graph_task(&self) -> GraphTask {
        GraphTask(self.passes.graph())
    }

    fn current_node(&self) -> u64 {
        self.passes.node()
    }

    fn register_post_hook(&mut self, _: &u64, hook: PostHook) {
        self.passes.register(hook);
    }

    fn queue_end_of_backward(&mut self) {
        self.passes.queue_callback();
    }

    fn empty_cache(&mut self) {}
}

/// A separate copy, at an address that is not in the recording.
fn dense_copy(source: &TapeTensor) -> TapeTensor {
    TapeTensor {
        storage: StorageInfo {
            base: None,
            bytes: source.bytes(),
        },
        layout: source.layout.dense(),
        dtype: source.dtype,
        placement: Placement::Accelerator,
        class: TensorClass::Plain,
        object: source.object,
    }
}
