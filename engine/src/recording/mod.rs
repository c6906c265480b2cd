//! Recordings: a run's allocator events as a PyTorch memory snapshot.
//!
//! The snapshot is the pickle that `torch.cuda.memory._dump_snapshot` would have written, so it is
//! read, stored and drawn like any upload. A real snapshot cannot know everything that the engine
//! knows. This goes where viewers look for stacks: operation and module as frames and, for each
//! live block of the final segments, the container that holds it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::device::{Ordinal, StreamId, micros};
use crate::memory::{Allocation, HostBlock, MemoryAction, MemoryEvent};
use crate::session::Session;
use crate::workload::Workload;
use trace::categories::Category;
use trace::units::{Bytes, DeviceAddr};

mod owners;
mod pickle;
mod tensors;

use owners::Owner;
use pickle::Pickle;
pub use tensors::TensorInfo;

/// One step of the recording, in microseconds of the device's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepMark {
    /// The number of the step, from 0.
    pub step: u32,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// What a block of the final segments is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockState {
    Free,
    Used,
    /// The program freed it, but another stream may still use it.
    PendingFree,
}

/// A block of the final segments.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    start: DeviceAddr,
    bytes: Bytes,
    /// Bytes asked for.
    requested: Bytes,
    state: BlockState,
    /// The container that holds it, and the step since which it is there.
    owner: Option<String>,
    /// For what purpose its owner keeps it.
    category: Option<Category>,
}

/// A segment at the end of the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    start: DeviceAddr,
    bytes: Bytes,
    stream: StreamId,
    blocks: Vec<Block>,
}

impl Segment {
    /// A block of pinned memory, which is a segment of its own.
    fn pinned(block: &HostBlock) -> Segment {
        let state = match block.used_for {
            Some(_) => BlockState::Used,
            None => BlockState::Free,
        };
        Segment {
            start: block.start,
            bytes: block.bytes,
            stream: StreamId::DEFAULT,
            blocks: vec![Block {
                start: block.start,
                bytes: block.bytes,
                requested: block.bytes,
                state,
                owner: None,
                category: None,
            }],
        }
    }
}

/// Events of some steps, and the memory at their end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    events: Vec<MemoryEvent>,
    allocations: Vec<Allocation>,
    owners: BTreeMap<DeviceAddr, Owner>,
    finished: bool,
    modules: Vec<String>,
    steps: Vec<StepMark>,
    segments: Vec<Segment>,
    /// What happened to the pinned memory of the host.
    host_events: Vec<MemoryEvent>,
    /// Its blocks at the end, each a segment of its own.
    host_segments: Vec<Segment>,
    /// The device that was recorded.
    device: Ordinal,
    /// Facts about the run, by name.
    labels: Vec<(&'static str, String)>,
}

impl Recording {
    /// Adds a fact about the run. It is written next to the allocator's settings, so that two runs
    /// with the same allocations give two different files.
    pub fn label(&mut self, name: &'static str, value: &str) {
        self.labels.push((name, value.to_owned()));
    }

    /// Sets which device of the host was recorded.
    pub(crate) fn of_device(&mut self, device: Ordinal) {
        self.device = device;
    }

    /// Adds the events of a step.
    pub(crate) fn add_step(&mut self, step: u32, start: u64, session: &Session) {
        let mut heap = session.heap().borrow_mut();
        let mut of_device = heap.caching.take_events();
        let mut of_host = heap.host.take_events();
        let end = micros(heap.device.host_time());
        let mark = StepMark { step, start, end };
        let (mark, later) = self.room_for(mark, &of_device, &of_host);
        for event in of_device.iter_mut().chain(&mut of_host) {
            event.time += later;
        }
        self.events.extend(of_device);
        self.host_events.extend(of_host);
        self.steps.push(mark);
    }

    /// The marks of a step, and by how much its events move, so that no event has the microsecond
    /// of a mark. A reader only has the times to tell which step an event belongs to.
    fn room_for(
        &self,
        at: StepMark,
        events: &[MemoryEvent],
        host: &[MemoryEvent],
    ) -> (StepMark, u64) {
        let before = self.steps.last();
        let start = before.map_or(at.start, |before| at.start.max(before.end + 1));
        let times = || [events, host].into_iter().flatten().map(|event| event.time);
        let first = times().min().unwrap_or(at.end);
        let later = (start + 1).saturating_sub(first);
        let last = times().max().map_or(start, |last| last + later);
        let end = (at.end + later).max(last + 1);
        (StepMark { start, end, ..at }, later)
    }

    /// Whether the memory at the end has been noted.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Adds the events of a program that could not be built. They are in no step.
    pub(crate) fn add_building(&mut self, session: &Session) {
        let mut heap = session.heap().borrow_mut();
        self.events.extend(heap.caching.take_events());
        self.host_events.extend(heap.host.take_events());
    }

    /// Notes segments, tensors and owners at the end of the last recorded step, or when the program
    /// could not be built; then there is no program.
    pub(crate) fn finish(&mut self, session: &Session, workload: Option<&dyn Workload>) {
        self.finished = true;
        self.modules = session.accelerator.site_names().to_vec();
        self.owners = owners::owners(session, workload);
        self.allocations = session.heap().borrow_mut().caching.take_allocations();
        let owners = &self.owners;
        let heap = session.heap().borrow();
        self.host_segments = heap.host.blocks().map(Segment::pinned).collect();
        let pending: BTreeMap<DeviceAddr, Bytes> = heap.caching.pending_frees().collect();
        // For blocks that the program holds: the bytes that it asked for, as in the events.
        let standing = owners.iter().map(|(&start, owner)| (start, owner.bytes));
        let kept = self.allocations.iter().filter(|made| made.freed.is_none());
        let made = kept.map(|made| (made.start, made.bytes));
        let mut requested: BTreeMap<DeviceAddr, Bytes> = standing.chain(made).collect();
        requested.extend(&pending);
        let mut blocks: Vec<(DeviceAddr, Bytes, bool)> = heap.caching.blocks().collect();
        blocks.sort_unstable();
        self.segments = heap
            .caching
            .segments()
            .map(|(start, bytes, stream)| {
                let from = blocks.partition_point(|block| block.0 < start);
                let to = blocks.partition_point(|block| block.0 < start + bytes);
                let describe = |&(start, bytes, used): &(DeviceAddr, Bytes, bool)| {
                    let state = match (used, pending.contains_key(&start)) {
                        (false, _) => BlockState::Free,
                        (true, false) => BlockState::Used,
                        (true, true) => BlockState::PendingFree,
                    };
                    let owner = owners.get(&start);
                    Block {
                        start,
                        bytes,
                        requested: requested.get(&start).copied().unwrap_or(bytes),
                        state,
                        owner: owner
                            .filter(|_| state == BlockState::Used)
                            .map(|owner| owner.text.clone()),
                        category: owner.map(|owner| owner.role.category()),
                    }
                };
                let blocks = blocks[from..to].iter().map(describe).collect();
                Segment {
                    start,
                    bytes,
                    stream,
                    blocks,
                }
            })
            .collect();
    }

    /// Number of events.
    pub fn events(&self) -> usize {
        self.events.len()
    }

    /// The steps.
    pub fn steps(&self) -> &[StepMark] {
        &self.steps
    }

    /// Writes the snapshot as a pickle of protocol 2.
    ///
    /// # Errors
    /// The errors of the writer.
    pub fn write_pickle(&self, out: impl Write) -> io::Result<()> {
        let mut pickle = Pickle::new(out)?;
        pickle.dict(6)?;
        self.write_segments(&mut pickle, "segments", &self.segments)?;
        if !self.host_segments.is_empty() {
            self.write_segments(&mut pickle, "host_segments", &self.host_segments)?;
            pickle.key("host_traces")?;
            pickle.list(self.host_events.len())?;
            for event in &self.host_events {
                self.write_event(&mut pickle, event, None)?;
            }
            pickle.end_list()?;
        }
        pickle.key("device_traces")?;
        // There is one trace for each device of the host; the traces before this one are empty.
        pickle.list(1 + usize::from(self.device.0))?;
        for _ in 0..self.device.0 {
            pickle.list(0)?;
            pickle.end_list()?;
        }
        pickle.list(self.events.len())?;
        let mut made = self.allocations.iter().peekable();
        for (index, event) in self.events.iter().enumerate() {
            // The purpose of a block may show only later, for example when it becomes a `.grad`.
            let made = made.next_if(|made| made.event as usize == index);
            self.write_event(
                &mut pickle,
                event,
                made.map(|made| made.label.role.category()),
            )?;
        }
        pickle.end_list()?;
        pickle.end_list()?;
        pickle.key("allocator_settings")?;
        pickle.dict(2 + self.labels.len())?;
        for (name, value) in &self.labels {
            pickle.key(name)?;
            pickle.text(value)?;
        }
        pickle.key("PYTORCH_CUDA_ALLOC_CONF")?;
        pickle.text("")?;
        pickle.key("expandable_segments")?;
        pickle.boolean(false)?;
        pickle.end_dict()?;
        pickle.key("external_annotations")?;
        self.write_steps(&mut pickle)?;
        pickle.end_dict()?;
        pickle.finish()
    }

    fn write_segments(
        &self,
        pickle: &mut Pickle<impl Write>,
        key: &str,
        segments: &[Segment],
    ) -> io::Result<()> {
        pickle.key(key)?;
        pickle.list(segments.len())?;
        for segment in segments {
            self.write_segment(pickle, segment)?;
        }
        pickle.end_list()
    }

    fn write_steps(&self, pickle: &mut Pickle<impl Write>) -> io::Result<()> {
        pickle.list(2 * self.steps.len())?;
        for mark in &self.steps {
            for (stage, time) in [("START", mark.start), ("END", mark.end)] {
                pickle.dict(4)?;
                pickle.key("stage")?;
                pickle.text(stage)?;
                pickle.key("name")?;
                pickle.text(&format!("## step {} ##", mark.step))?;
                pickle.key("device")?;
                pickle.integer(u64::from(self.device.0))?;
                pickle.key("time_us")?;
                pickle.integer(time)?;
                pickle.end_dict()?;
            }
        }
        pickle.end_list()
    }

    fn write_event(
        &self,
        pickle: &mut Pickle<impl Write>,
        event: &MemoryEvent,
        category: Option<Category>,
    ) -> io::Result<()> {
        pickle.dict(6 + usize::from(category.is_some()))?;
        pickle.key("action")?;
        pickle.text(match event.action {
            MemoryAction::SegmentAlloc => "segment_alloc",
            MemoryAction::SegmentFree => "segment_free",
            MemoryAction::Alloc => "alloc",
            MemoryAction::FreeRequested => "free_requested",
            MemoryAction::FreeCompleted => "free_completed",
            MemoryAction::OutOfMemory => "oom",
        })?;
        pickle.key(match event.action {
            MemoryAction::OutOfMemory => "device_free",
            _ => "addr",
        })?;
        pickle.integer(event.start.0)?;
        pickle.key("size")?;
        pickle.integer(event.bytes.0)?;
        pickle.key("stream")?;
        pickle.integer(u64::from(event.stream.0))?;
        pickle.key("time_us")?;
        pickle.integer(event.time)?;
        pickle.key("frames")?;
        let module = self
            .modules
            .get(event.site as usize)
            .map_or("unknown", String::as_str);
        pickle.frames(&[(event.op, "operation"), (module, "module")])?;
        // Written as in the export of torch.profiler.
        if let Some(category) = category {
            pickle.key("category")?;
            pickle.text(category.name())?;
        }
        pickle.end_dict()
    }

    fn write_segment(&self, pickle: &mut Pickle<impl Write>, segment: &Segment) -> io::Result<()> {
        let of = |states: &[BlockState], bytes: fn(&Block) -> Bytes| -> u64 {
            let blocks = segment.blocks.iter();
            let counted = blocks.filter(|b| states.contains(&b.state)).map(bytes);
            counted.sum::<Bytes>().0
        };
        let active = [BlockState::Used, BlockState::PendingFree];
        let small = segment.bytes.0 == trace::allocator::SMALL_BUFFER;
        pickle.dict(10)?;
        for (name, value) in [
            ("device", u64::from(self.device.0)),
            ("address", segment.start.0),
            ("total_size", segment.bytes.0),
            ("allocated_size", of(&[BlockState::Used], |b| b.bytes)),
            ("active_size", of(&active, |b| b.bytes)),
            ("requested_size", of(&active, |b| b.requested)),
            ("stream", u64::from(segment.stream.0)),
        ] {
            pickle.key(name)?;
            pickle.integer(value)?;
        }
        pickle.key("segment_type")?;
        pickle.text(if small { "small" } else { "large" })?;
        pickle.key("is_expandable")?;
        pickle.boolean(false)?;
        pickle.key("blocks")?;
        pickle.list(segment.blocks.len())?;
        for block in &segment.blocks {
            pickle.dict(5 + usize::from(block.category.is_some()))?;
            for (name, value) in [
                ("address", block.start.0),
                ("size", block.bytes.0),
                ("requested_size", block.requested.0),
            ] {
                pickle.key(name)?;
                pickle.integer(value)?;
            }
            pickle.key("state")?;
            pickle.text(match block.state {
                BlockState::Used => "active_allocated",
                BlockState::PendingFree => "active_pending_free",
                BlockState::Free => "inactive",
            })?;
            pickle.key("frames")?;
            match &block.owner {
                Some(owner) => pickle.frames(&[(owner, "owner")])?,
                None => pickle.frames(&[])?,
            }
            if let Some(category) = block.category {
                pickle.key("category")?;
                pickle.text(category.name())?;
            }
            pickle.end_dict()?;
        }
        pickle.end_list()?;
        pickle.end_dict()
    }
}
