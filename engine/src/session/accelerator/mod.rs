//! The accelerator as used by program and offloader: tensors, streams, events, and their order.

mod copies;
mod runtime;
mod site;
mod work;

use std::collections::HashMap;
use std::rc::Rc;

use crate::autograd::{Node, NodeRef, Tensor};
use crate::device::{Device, DeviceError, EventId, StreamId};
use crate::memory::{Heap, Label, OrderNote, Role, SharedHeap, Storage};
use crate::offload::GraphTask;
use crate::race::{Clock, Detector, Lane};
use crate::script::Op;
use crate::tensor::{DType, Dims, Layout, Placement, SavedTensor, StorageInfo, TensorClass};
use trace::units::Bytes;

pub use copies::HostCopy;
use site::Site;
pub(in crate::session) use work::{range_of, span_of};

/// Bytes copied in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
    /// Device to host.
    pub to_host: Bytes,
    /// Host to device.
    pub to_device: Bytes,
}

impl Copied {
    /// The sums of both.
    pub(crate) fn and(self, more: Copied) -> Copied {
        Copied {
            to_host: self.to_host + more.to_host,
            to_device: self.to_device + more.to_device,
        }
    }

    /// What has been copied since `earlier`.
    pub(crate) fn since(self, earlier: Copied) -> Copied {
        Copied {
            to_host: self.to_host - earlier.to_host,
            to_device: self.to_device - earlier.to_device,
        }
    }

    /// The share of one of so many steps.
    pub(crate) fn over(self, steps: u64) -> Copied {
        Copied {
            to_host: self.to_host / steps,
            to_device: self.to_device / steps,
        }
    }
}

/// Device, streams and memory of a session.
pub struct Accelerator {
    heap: SharedHeap,
    stream: StreamId,
    task: GraphTask,
    next_task: u64,
    callback_queued: bool,
    node: NodeRef,
    copied: Copied,
    detector: Option<Detector>,
    /// What each stream had done when the allocator began to wait for it.
    awaited: HashMap<EventId, Clock>,
    /// How many streams exist, including the default one.
    streams: u16,
    site: Site,
    /// The operation that allocates now, for recordings.
    op: &'static str,
    keeps_contents: bool,
    /// Whether the detector also looks for races in pinned memory.
    watches_pinned: bool,
}

/// An event; the device forgets it when the last holder drops it.
pub struct AcceleratorEvent {
    id: EventId,
    clock: Option<Clock>,
    heap: SharedHeap,
}

impl AcceleratorEvent {
    /// Its name on the device.
    pub(crate) fn id(&self) -> EventId {
        self.id
    }

    /// What it orders, if races are watched.
    pub(crate) fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref()
    }
}

impl Drop for AcceleratorEvent {
    fn drop(&mut self) {
        self.heap.borrow_mut().device.drop_event(self.id);
    }
}

/// Where a program is between two steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlaceInProgram {
    stream: StreamId,
    task: GraphTask,
    site: u32,
    op: &'static str,
    callback_queued: bool,
}

impl Accelerator {
    pub(super) fn new(device: Box<dyn Device>) -> Accelerator {
        Accelerator {
            keeps_contents: device.keeps_contents(),
            heap: Heap::new(device),
            stream: StreamId::DEFAULT,
            task: GraphTask(0),
            next_task: 1,
            callback_queued: false,
            node: NodeRef(None),
            copied: Copied::default(),
            detector: None,
            awaited: HashMap::new(),
            streams: 1,
            site: Site::program(),
            op: "",
            watches_pinned: false,
        }
    }

    /// The heap.
    pub fn heap(&self) -> &SharedHeap {
        &self.heap
    }

    /// Bytes copied so far.
    pub fn copied(&self) -> Copied {
        self.copied
    }

    /// The stream that operations run on.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Moves operations to another stream.
    pub fn set_stream(&mut self, stream: StreamId) -> StreamId {
        if let Some(writer) = &mut self.heap.borrow_mut().writer {
            writer.push(Op::Stream(stream));
        }
        std::mem::replace(&mut self.stream, stream)
    }

    /// From now on, watches all accesses for races.
    pub fn watch_races(&mut self) {
        let mut detector = Detector::new();
        for _ in 0..self.streams {
            detector.add_lane();
        }
        self.site.watched.clear();
        self.detector = Some(detector);
        self.heap.borrow_mut().caching.watch_order();
    }

    /// Also looks for races in pinned memory. The stored results of other offloaders were made
    /// without this.
    pub fn watch_pinned_memory(&mut self) {
        self.watches_pinned = true;
    }

    /// Tells the detector what the allocator has waited for. No stream's clock may have moved since
    /// then, so every method that moves one calls this first.
    fn follow_allocator(&mut self) {
        let Some(detector) = &mut self.detector else {
            return;
        };
        let caching = &mut self.heap.borrow_mut().caching;
        if !caching.has_order() {
            return;
        }
        for what in caching.take_order() {
            match what {
                OrderNote::Awaited(event, stream) => {
                    let clock = detector.record_event(Lane(stream.0));
                    self.awaited.insert(event, clock);
                }
                OrderNote::Seen(event) => {
                    if let Some(clock) = self.awaited.remove(&event) {
                        detector.host_saw(&clock);
                    }
                }
                OrderNote::Idle => detector.host_waited_for_all(),
            }
        }
    }

    /// Everything besides memory that decides what later calls do, as numbers; `None` while a node
    /// runs or a callback waits. It first follows the allocator, as any work would.
    pub(crate) fn standing(&mut self) -> Option<Vec<u64>> {
        self.follow_allocator();
        let is_idle = self.task == GraphTask(0) && !self.callback_queued && self.node.0.is_none();
        is_idle.then(|| {
            vec![
                u64::from(self.stream.0),
                u64::from(self.streams),
                u64::from(self.site.current),
                self.site.names.len() as u64,
                self.op.as_ptr() as u64,
                self.op.len() as u64,
                self.awaited.len() as u64,
            ]
        })
    }

    /// What a stream had done when the allocator began to wait for this event.
    pub(crate) fn awaited(&self, event: EventId) -> Option<&Clock> {
        self.awaited.get(&event)
    }

    /// Adds the copied bytes and wrong operations of steps that are written down.
    pub(crate) fn add(&mut self, copied: Copied, spoilt: u64) {
        self.copied = self.copied.and(copied);
        if let Some(detector) = &mut self.detector {
            detector.add_spoilt(spoilt);
        }
    }

    /// Counts a restored tensor that is known to have other elements than the packed one.
    pub(super) fn count_wrong_bytes(&mut self) {
        if let Some(detector) = &mut self.detector {
            detector.add_spoilt(1);
        }
    }

    /// The race detector, if races are watched.
    pub fn detector(&self) -> Option<&Detector> {
        self.detector.as_ref()
    }

    pub(super) fn next_object(&mut self) -> u64 {
        self.heap.borrow_mut().next_object()
    }

    /// Memory that is not a tensor.
    pub(super) fn allocate_raw(
        &mut self,
        bytes: Bytes,
        stream: StreamId,
    ) -> Result<Rc<Storage>, DeviceError> {
        let label = Label {
            site: self.site.current,
            op: self.op,
            role: Role::Workspace,
            ..Label::default()
        };
        Storage::allocate(&self.heap, bytes, stream, label)
    }

    /// Memory of a dense tensor.
    pub(super) fn allocate(
        &mut self,
        shape: Dims,
        dtype: DType,
        role: Role,
        stream: StreamId,
    ) -> Result<Rc<Storage>, DeviceError> {
        let label = Label {
            site: self.site.current,
            op: self.op,
            role,
            shape,
            dtype: Some(dtype),
        };
        let bytes = dtype.size() * shape.product();
        Storage::allocate(&self.heap, bytes, stream, label)
    }

    pub(super) fn tensor_over(
        &mut self,
        storage: Rc<Storage>,
        layout: Layout,
        dtype: DType,
    ) -> Tensor {
        let saved = SavedTensor {
            storage: StorageInfo {
                base: Some(storage.start()),
                bytes: storage.bytes(),
            },
            layout,
            dtype,
            placement: Placement::Accelerator,
            class: TensorClass::Plain,
            object: self.next_object(),
        };
        Tensor::new(saved, storage, None, None)
    }

    pub(super) fn task(&self) -> GraphTask {
        self.task
    }

    pub(super) fn begin_task(&mut self) -> GraphTask {
        let task = GraphTask(self.next_task);
        self.next_task += 1;
        std::mem::replace(&mut self.task, task)
    }

    pub(super) fn end_task(&mut self, outer: GraphTask) {
        self.task = outer;
    }

    pub(super) fn set_node(&mut self, node: NodeRef) -> NodeRef {
        std::mem::replace(&mut self.node, node)
    }

    /// The number of the next backward pass.
    pub(super) fn tasks_begun(&self) -> u64 {
        self.next_task
    }

    /// Takes the numbers of this many backward passes; returns the first one.
    pub(super) fn skip_tasks(&mut self, tasks: u64) -> u64 {
        self.next_task += tasks;
        self.next_task - tasks
    }

    /// The node that runs now.
    pub(super) fn running_node(&self) -> Option<Rc<Node>> {
        self.node.0.clone()
    }

    /// Where the program is; a step must end where it began.
    pub(super) fn place_in_program(&self) -> PlaceInProgram {
        PlaceInProgram {
            stream: self.stream,
            task: self.task,
            site: self.site.current,
            op: self.op,
            callback_queued: self.callback_queued,
        }
    }

    /// Goes back to this place. Returns whether the program was already there; the name of its last
    /// operation does not count.
    pub(super) fn return_to(&mut self, place: PlaceInProgram) -> bool {
        let now = PlaceInProgram {
            op: place.op,
            ..self.place_in_program()
        };
        let returned = now == place && self.node.0.is_none();
        self.stream = place.stream;
        self.task = place.task;
        self.site.current = place.site;
        self.op = place.op;
        self.callback_queued = place.callback_queued;
        self.node = NodeRef(None);
        returned
    }

    pub(super) fn take_callback(&mut self) -> bool {
        std::mem::take(&mut self.callback_queued)
    }
}
