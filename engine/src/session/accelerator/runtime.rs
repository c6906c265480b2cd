//! The accelerator as used by TRL's offloader.

use std::rc::Rc;

use crate::autograd::{NodeRef, Tensor};
use crate::device::{DeviceError, StreamId};
use crate::memory::Role;
use crate::offload::{GraphTask, HostCopyShape, PostHook, Runtime};
use crate::race::Lane;
use crate::tensor::{DType, Layout, SavedTensor};

use super::{Accelerator, AcceleratorEvent, HostCopy};

impl Runtime for Accelerator {
    type Tensor = Tensor;
    type Host = HostCopy;
    type Event = AcceleratorEvent;
    type Stream = StreamId;
    type Node = NodeRef;
    type Layout = Layout;
    type DType = DType;
    type Error = DeviceError;

    fn saved<'t>(&self, tensor: &'t Tensor) -> &'t SavedTensor {
        tensor.saved()
    }

    fn default_stream(&self) -> StreamId {
        StreamId::DEFAULT
    }

    fn current_stream(&self) -> StreamId {
        self.stream
    }

    fn new_stream(&mut self) -> Result<StreamId, DeviceError> {
        self.not_written()?;
        let stream = self.heap.borrow_mut().device.create_stream()?;
        self.streams += 1;
        if let Some(detector) = &mut self.detector {
            detector.add_lane();
        }
        Ok(stream)
    }

    fn wait_event(
        &mut self,
        stream: StreamId,
        event: &AcceleratorEvent,
    ) -> Result<(), DeviceError> {
        self.not_written()?;
        self.follow_allocator();
        self.heap.borrow_mut().device.wait_event(stream, event.id)?;
        if let (Some(detector), Some(clock)) = (&mut self.detector, &event.clock) {
            detector.wait_event(Lane(stream.0), clock);
        }
        Ok(())
    }

    fn wait_stream(&mut self, waiter: StreamId, on: StreamId) -> Result<(), DeviceError> {
        self.not_written()?;
        self.follow_allocator();
        {
            let mut heap = self.heap.borrow_mut();
            let event = heap.device.record_event(on)?;
            heap.device.wait_event(waiter, event)?;
            heap.device.drop_event(event);
        }
        if let Some(detector) = &mut self.detector {
            detector.wait_lane(Lane(waiter.0), Lane(on.0));
        }
        Ok(())
    }

    fn record_event(&mut self, stream: StreamId) -> Result<AcceleratorEvent, DeviceError> {
        self.not_written()?;
        let id = self.heap.borrow_mut().device.record_event(stream)?;
        let clock = self
            .detector
            .as_ref()
            .map(|detector| detector.record_event(Lane(stream.0)));
        Ok(AcceleratorEvent {
            id,
            clock,
            heap: Rc::clone(&self.heap),
        })
    }

    fn synchronize(&mut self, stream: StreamId) -> Result<(), DeviceError> {
        self.not_written()?;
        self.heap.borrow_mut().device.synchronize(stream)?;
        if let Some(detector) = &mut self.detector {
            detector.host_waited(Lane(stream.0));
        }
        Ok(())
    }

    fn copy_to_host(
        &mut self,
        tensor: &Tensor,
        shape: HostCopyShape,
        stream: StreamId,
    ) -> Result<HostCopy, DeviceError> {
        self.copied_out(tensor, shape, stream)
    }

    fn copy_to_device(&mut self, host: &HostCopy, stream: StreamId) -> Result<Tensor, DeviceError> {
        self.copied_back(host, stream)
    }

    fn clone_contiguous(
        &mut self,
        tensor: &Tensor,
        stream: StreamId,
    ) -> Result<Tensor, DeviceError> {
        self.gathered(tensor, Role::Clone, stream)
    }

    fn as_strided(&mut self, tensor: Tensor, host: &HostCopy, layout: &Layout) -> Tensor {
        if !host.lies_as(layout) {
            self.count_wrong_bytes();
        }
        tensor.view_as(*layout, None)
    }

    fn storage_use_count(&mut self, tensor: &Tensor) -> u64 {
        Rc::strong_count(tensor.storage()) as u64
    }

    fn record_stream(&mut self, tensor: &Tensor, stream: StreamId) {
        tensor.storage().record_stream(stream);
    }

    fn current_graph_task(&self) -> GraphTask {
        self.task
    }

    fn current_node(&self) -> NodeRef {
        self.node.clone()
    }

    fn register_post_hook(&mut self, node: &NodeRef, hook: PostHook) {
        if let Some(node) = &node.0 {
            node.hooks.borrow_mut().push(hook);
        }
    }

    fn queue_end_of_backward(&mut self) {
        self.callback_queued = true;
    }

    fn empty_cache(&mut self) {
        let mut heap = self.heap.borrow_mut();
        match &mut heap.writer {
            Some(writer) => writer.refuse("the program empties the cache"),
            None => heap.empty_cache(),
        }
    }
}
