//! The accelerator as program and offloader use it: tensors, streams, events, and their order.

use std::collections::HashMap;
use std::rc::Rc;

use crate::autograd::{NodeRef, Tensor};
use crate::device::{
    Device, DeviceError, EventId, Fingerprint, Kernel, Span, StreamId, Touched, View,
};
use crate::memory::{Heap, HostLease, Label, Ordering, Role, SharedHeap, Storage};
use crate::offload::{GraphTask, HostCopyShape, PostHook, Runtime};
use crate::race::{self, Access, Clock, Detector, Lane, Range};
use crate::tensor::{DType, Dims, Layout, Placement, SavedTensor, StorageInfo, TensorClass};
use trace::units::{Bytes, DeviceAddr};

/// Bytes copied in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
    /// Device to host.
    pub to_host: Bytes,
    /// Host to device.
    pub to_device: Bytes,
}

impl Copied {
    /// Both.
    pub(crate) fn and(self, more: Copied) -> Copied {
        Copied {
            to_host: self.to_host + more.to_host,
            to_device: self.to_device + more.to_device,
        }
    }

    /// What has been copied since.
    pub(crate) fn since(self, earlier: Copied) -> Copied {
        Copied {
            to_host: self.to_host - earlier.to_host,
            to_device: self.to_device - earlier.to_device,
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
    /// What streams had done when the allocator began to wait for them.
    awaited: HashMap<EventId, Clock>,
    /// Streams made so far, the default one included.
    streams: u16,
    site: Site,
    /// Operation that allocates now, for recordings.
    op: &'static str,
    keeps_contents: bool,
}

/// Place in the program that work is attributed to.
#[derive(Debug, Default)]
struct Site {
    names: Vec<String>,
    /// Places by name.
    ids: HashMap<String, u32>,
    /// What the race detector calls each place, where it has met it.
    watched: Vec<Option<race::Site>>,
    current: u32,
}

impl Site {
    /// A new place; its number.
    fn add(&mut self, name: &str) -> u32 {
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.ids.insert(name.to_owned(), number);
        number
    }

    /// What the race detector calls the current place.
    fn watched_by(&mut self, detector: &mut Detector) -> race::Site {
        let at = self.current as usize;
        if self.watched.len() <= at {
            self.watched.resize(self.names.len(), None);
        }
        *self.watched[at].get_or_insert_with(|| detector.site(&self.names[at]))
    }
}

/// A host copy of an offloaded tensor.
pub struct HostCopy {
    lease: HostLease,
    /// The tensor it was copied from.
    source: SavedTensor,
    shape: HostCopyShape,
    /// Dense layout of the copy.
    layout: Layout,
}

impl HostCopy {
    /// The tensor it was copied from.
    pub(super) fn source(&self) -> &SavedTensor {
        &self.source
    }

    /// Whether it holds the whole storage, not the elements of the view.
    pub(super) fn is_whole_storage(&self) -> bool {
        self.shape == HostCopyShape::WholeStorage
    }

    /// What decides how it comes back, as numbers.
    pub(crate) fn standing(&self) -> impl Iterator<Item = u64> {
        let known = [self.lease.buffer().bytes.0, self.source.dtype as u64];
        known.into_iter().chain(self.layout.numbers())
    }
}

/// An event, forgotten by the device when the last holder drops it.
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

    /// What it orders, where races are watched for.
    pub(crate) fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref()
    }
}

impl Drop for AcceleratorEvent {
    fn drop(&mut self) {
        self.heap.borrow_mut().device.drop_event(self.id);
    }
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
            site: Site {
                names: vec!["program".to_owned()],
                ids: HashMap::from([("program".to_owned(), 0)]),
                watched: Vec::new(),
                current: 0,
            },
            op: "",
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
        std::mem::replace(&mut self.stream, stream)
    }

    /// Watches all accesses from now on for races.
    pub fn watch_races(&mut self) {
        let mut detector = Detector::new();
        for _ in 0..self.streams {
            detector.add_lane();
        }
        self.site.watched.clear();
        self.detector = Some(detector);
        self.heap.borrow_mut().caching.watch_order();
    }

    /// Tells the detector what the allocator has waited for. Streams' clocks must not have moved
    /// since: every method that moves one calls this first.
    fn follow_allocator(&mut self) {
        let Some(detector) = &mut self.detector else {
            return;
        };
        for what in self.heap.borrow_mut().caching.take_order() {
            match what {
                Ordering::Awaited(event, stream) => {
                    let clock = detector.record_event(Lane(stream.0));
                    self.awaited.insert(event, clock);
                }
                Ordering::Seen(event) => {
                    if let Some(clock) = self.awaited.remove(&event) {
                        detector.host_saw(&clock);
                    }
                }
                Ordering::Idle => detector.host_waited_for_all(),
            }
        }
    }

    /// What decides what later calls do beside memory, as numbers; `None` while a node runs or a
    /// callback waits. The allocator is followed first, as any work would.
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

    /// Counts what is copied and spoilt in steps that are written down.
    pub(crate) fn add(&mut self, copied: Copied, spoilt: u64) {
        self.copied = self.copied.and(copied);
        if let Some(detector) = &mut self.detector {
            detector.add_spoilt(spoilt);
        }
    }

    /// Counts a restored tensor whose elements are known to be others than were packed.
    pub(super) fn count_wrong_bytes(&mut self) {
        if let Some(detector) = &mut self.detector {
            detector.add_spoilt(1);
        }
    }

    /// The race detector, where one has been watching.
    pub fn detector(&self) -> Option<&Detector> {
        self.detector.as_ref()
    }

    /// Attributes work from now on to a named place; returns the place before.
    pub fn enter_site(&mut self, name: &str) -> u32 {
        let known = self.site.ids.get(name).copied();
        let index = known.unwrap_or_else(|| self.site.add(name));
        std::mem::replace(&mut self.site.current, index)
    }

    /// Attributes work to a backward node, as long as races are watched for.
    pub(crate) fn enter_node_site(&mut self, name: &'static str) -> u32 {
        if self.detector.is_some() {
            self.enter_site(name)
        } else {
            self.site.current
        }
    }

    /// Attributes work to a place known by number.
    pub fn restore_site(&mut self, site: u32) {
        self.site.current = site;
    }

    /// Names the operation that allocates from now on; returns the one before.
    pub(crate) fn set_op(&mut self, op: &'static str) -> &'static str {
        std::mem::replace(&mut self.op, op)
    }

    /// Names of all places.
    pub fn site_names(&self) -> &[String] {
        &self.site.names
    }

    /// Name of a place.
    pub fn site_name(&self, site: u32) -> &str {
        &self.site.names[site as usize]
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

    pub(super) fn launch(
        &mut self,
        reads: &[&Tensor],
        writes: &[&Tensor],
        kernel: Kernel,
    ) -> Result<(), DeviceError> {
        if self.keeps_contents {
            let spans = |tensors: &[&Tensor]| -> Vec<Span> {
                tensors.iter().map(|tensor| span_of(tensor)).collect()
            };
            let (reads, writes) = (spans(reads), spans(writes));
            let touched = Touched {
                reads: &reads,
                writes: &writes,
            };
            let device = &mut self.heap.borrow_mut().device;
            device.launch(self.stream, kernel, touched)?;
        } else {
            let device = &mut self.heap.borrow_mut().device;
            device.launch(self.stream, kernel, Touched::default())?;
        }
        self.watch_launch(reads, writes);
        Ok(())
    }

    /// Shows the race detector what a kernel of the program reads and writes.
    fn watch_launch(&mut self, reads: &[&Tensor], writes: &[&Tensor]) {
        self.follow_allocator();
        let Some(detector) = &mut self.detector else {
            return;
        };
        detector.begin_operation();
        let place = self.site.watched_by(detector);
        let lane = Lane(self.stream.0);
        for tensor in reads {
            detector.access(lane, Access::Read, range_of(tensor.saved()), place);
        }
        for tensor in writes {
            detector.access(lane, Access::Write, range_of(tensor.saved()), place);
        }
    }

    /// Whether memory holds bytes on this device.
    pub fn keeps_contents(&self) -> bool {
        self.keeps_contents
    }

    /// Writes a tensor that the program fills from outside: real bytes, but no time.
    pub(super) fn initialise(&mut self, tensor: &Tensor) -> Result<(), DeviceError> {
        let mut heap = self.heap.borrow_mut();
        heap.device.initialise(self.stream, span_of(tensor))
    }

    /// A checksum of the tensor as the current stream sees it.
    pub(super) fn fingerprint(
        &mut self,
        tensor: &Tensor,
    ) -> Result<Option<Fingerprint>, DeviceError> {
        let mut heap = self.heap.borrow_mut();
        heap.device.fingerprint(self.stream, &view_of(tensor))
    }

    /// Compares the tensor, as the current stream sees it, with an earlier checksum.
    pub(super) fn verify(
        &mut self,
        tensor: &Tensor,
        packed: Fingerprint,
    ) -> Result<(), DeviceError> {
        let mut heap = self.heap.borrow_mut();
        heap.device.verify(self.stream, &view_of(tensor), packed)
    }

    /// Forgets a checksum.
    pub(super) fn forget(&mut self, print: Fingerprint) {
        self.heap.borrow_mut().device.forget(print);
    }

    /// Shows the race detector what a copy reads and writes.
    fn note(&mut self, stream: StreamId, accesses: &[(Access, Range, &str)]) {
        self.follow_allocator();
        let Some(detector) = &mut self.detector else {
            return;
        };
        detector.begin_operation();
        for &(access, range, name) in accesses {
            let site = detector.site(name);
            detector.access(Lane(stream.0), access, range, site);
        }
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

    pub(super) fn take_callback(&mut self) -> bool {
        std::mem::take(&mut self.callback_queued)
    }

    /// A dense copy of a view, made on `stream`.
    fn gathered(
        &mut self,
        tensor: &Tensor,
        role: Role,
        stream: StreamId,
    ) -> Result<Tensor, DeviceError> {
        let layout = Layout::contiguous(tensor.layout().shape);
        let storage = self.allocate(layout.shape, tensor.dtype(), role, stream)?;
        let copy = self.tensor_over(storage, layout, tensor.dtype());
        let kernel = Kernel {
            flops: 0.0,
            traffic: tensor.bytes() * 2,
        };
        let (from, to) = (view_of(tensor), span_of(&copy));
        self.heap
            .borrow_mut()
            .device
            .gather(stream, kernel, &from, to)?;
        let (read, written) = (range_of(tensor.saved()), range_of(copy.saved()));
        self.note(
            stream,
            &[
                (Access::Read, read, "pack: clone reads"),
                (Access::Write, written, "pack: clone writes"),
            ],
        );
        Ok(copy)
    }
}

/// The bytes between the first and the last element of a tensor.
fn span_of(tensor: &Tensor) -> Span {
    let range = range_of(tensor.saved());
    Span {
        start: range.start,
        bytes: range.end - range.start,
    }
}

fn view_of(tensor: &Tensor) -> View {
    let saved = tensor.saved();
    View {
        storage: Span {
            start: tensor.storage().start(),
            bytes: saved.storage.bytes,
        },
        layout: saved.layout,
        width: saved.dtype.size(),
    }
}

fn range_of(saved: &SavedTensor) -> Range {
    let size = saved.dtype.size();
    let base = saved.storage.base.unwrap_or_default();
    let first = base + size * saved.layout.offset;
    // Views inside models carry dense layouts even where PyTorch's are strided: never past the end.
    let end = base + saved.storage.bytes;
    let last = (base + size * saved.layout.required_elements()).min(end);
    if saved.layout.elements() == 0 || saved.placement == Placement::Host {
        return Range {
            start: DeviceAddr(0),
            end: DeviceAddr(0),
        };
    }
    Range {
        start: first.min(end),
        end: last,
    }
}

impl Runtime for Accelerator {
    type Tensor = Tensor;
    type Host = HostCopy;
    type Event = AcceleratorEvent;
    type Stream = StreamId;
    type Node = NodeRef;
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
        self.follow_allocator();
        self.heap.borrow_mut().device.wait_event(stream, event.id)?;
        if let (Some(detector), Some(clock)) = (&mut self.detector, &event.clock) {
            detector.wait_event(Lane(stream.0), clock);
        }
        Ok(())
    }

    fn wait_stream(&mut self, waiter: StreamId, on: StreamId) -> Result<(), DeviceError> {
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
        let source = *tensor.saved();
        if shape == HostCopyShape::View && !source.layout.is_contiguous() {
            // `copy_` between devices: what has gaps is gathered into a temporary first, on the
            // stream of the copy, and freed as soon as the copy is enqueued
            // (docs/offloader-rules.md, "Copies of views").
            let dense = self.gathered(tensor, Role::Workspace, stream)?;
            let copy = self.copy_to_host(&dense, shape, stream)?;
            return Ok(HostCopy { source, ..copy });
        }
        let base = source.storage.base.unwrap_or_default();
        let (start, bytes, layout) = match shape {
            HostCopyShape::View => {
                let start = base + source.dtype.size() * source.layout.offset;
                (
                    start,
                    source.bytes(),
                    Layout::contiguous(source.layout.shape),
                )
            }
            HostCopyShape::WholeStorage => {
                let elements = source.storage.bytes / source.dtype.size();
                (base, source.storage.bytes, Layout::contiguous(&[elements]))
            }
        };
        let lease = HostLease::allocate(&self.heap, bytes)?;
        let from = Span { start, bytes };
        self.heap
            .borrow_mut()
            .device
            .copy_to_host(stream, from, lease.buffer())?;
        self.copied.to_host += bytes;
        let range = Range {
            start,
            end: start + bytes,
        };
        self.note(stream, &[(Access::Read, range, "pack: copy to host")]);
        Ok(HostCopy {
            lease,
            source,
            shape,
            layout,
        })
    }

    fn copy_to_device(&mut self, host: &HostCopy, stream: StreamId) -> Result<Tensor, DeviceError> {
        let bytes = host.source.dtype.size() * host.layout.elements();
        let before = self.set_op("offload: restore");
        let (shape, dtype) = (host.layout.shape, host.source.dtype);
        let storage = self.allocate(shape, dtype, Role::Restored, stream);
        self.set_op(before);
        let storage = storage?;
        let to = Span {
            start: storage.start(),
            bytes,
        };
        self.heap
            .borrow_mut()
            .device
            .copy_to_device(stream, host.lease.buffer(), to)?;
        self.copied.to_device += bytes;
        let range = Range {
            start: to.start,
            end: to.start + bytes,
        };
        self.note(stream, &[(Access::Write, range, "unpack: copy to device")]);
        Ok(self.tensor_over(storage, host.layout, host.source.dtype))
    }

    fn clone_contiguous(
        &mut self,
        tensor: &Tensor,
        stream: StreamId,
    ) -> Result<Tensor, DeviceError> {
        self.gathered(tensor, Role::Clone, stream)
    }

    fn as_strided(&mut self, tensor: Tensor, layout: &Layout) -> Tensor {
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
        self.heap.borrow_mut().empty_cache();
    }
}
