//! The trace: the data that everything after the replay uses, as columns.
//!
//! From here on, an uploaded snapshot and a recording of the engine are the same thing.
//!
//! **Positions.** Event `i` takes the device from the state before it to the state after it. The
//! *level at* event `i` is the level after event `i`; the level before event 0 is the *start*. A
//! block counts as allocated at event `i` when `alloc <= i < free_requested`, and as active when
//! `alloc <= i < free_completed`. These intervals are half-open, and the number of events stands
//! for "never". A trace without events has one more number for `free_requested`, see
//! [`never_requested`].

use crate::device::DeviceIdx;
use crate::footprint::{of_vec, of_vec_after};
use crate::pyramid::Pyramid;
pub use crate::series::{Levels, Series, SeriesSummary};
use crate::span::Span;
use crate::stacks::{StackIdx, Stacks, StrIdx, dense_index};
use crate::time::TimeColumn;
use crate::units::{Bytes, DeviceAddr, EventIdx, Micros};
use serde::{Deserialize, Serialize};
use std::ops::Range;

dense_index!(
    /// A block (one allocation's lifetime) of a [`DeviceTrace`].
    BlockIdx
);
dense_index!(
    /// A kind of block: everything about it except its time and address.
    KindIdx
);

/// What happened, as the snapshot names it (`TraceEntry::action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Action {
    /// A block was handed out.
    Alloc,
    /// The program gave the block back; other streams may still use it.
    FreeRequested,
    /// The block can be reused.
    FreeCompleted,
    /// `cudaMalloc`.
    SegmentAlloc,
    /// `cudaFree`.
    SegmentFree,
    /// `cuMemMap` on an expandable segment.
    SegmentMap,
    /// `cuMemUnmap` on an expandable segment.
    SegmentUnmap,
    /// A snapshot was taken.
    Snapshot,
    /// An allocation failed.
    Oom,
    /// A tensor was annotated (torch 2.14 and later).
    Annotate,
    /// An action this version does not know; counted in the quality record.
    Unknown,
}

impl Action {
    /// All actions, in the order of their stored byte.
    pub const ALL: [Action; 11] = [
        Action::Alloc,
        Action::FreeRequested,
        Action::FreeCompleted,
        Action::SegmentAlloc,
        Action::SegmentFree,
        Action::SegmentMap,
        Action::SegmentUnmap,
        Action::Snapshot,
        Action::Oom,
        Action::Annotate,
        Action::Unknown,
    ];
}

/// Small or large pool of the caching allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PoolSize {
    /// Requests up to 1 MiB, from 2 MiB segments.
    Small,
    /// Larger requests.
    Large,
}

/// A pool: `(0, 0)` is the default one, others are graph or user pools.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PoolId(pub u64, pub u64);

impl PoolId {
    /// Stands for all private pools that were given up before the end of a recording that names
    /// no pools: only where their memory lay shows that they were there.
    pub const GONE: PoolId = PoolId(u64::MAX, u64::MAX);
}

/// Everything about a block except its time and address. Kinds are stored once, because a training
/// run repeats the same few thousand kinds for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlockKind {
    /// Bytes the program asked for.
    pub requested: Bytes,
    /// Bytes of the block: rounded, and with the remainder that was too small to split off.
    pub size: Bytes,
    /// Raw stream handle; 0 is the default stream.
    pub stream: u64,
    /// Pool.
    pub pool: PoolId,
    /// Small or large.
    pub pool_size: PoolSize,
    /// Where it was allocated ([`StackIdx::NONE`]: unknown).
    pub alloc_stack: StackIdx,
    /// Where it was freed, when the trace has it.
    pub free_stack: StackIdx,
    /// `compile_context`, when there is one.
    pub compile_context: Option<StrIdx>,
    /// `user_metadata` or `category`, or an engine's description of the tensor.
    pub metadata: Option<StrIdx>,
}

/// Where knowledge of a block comes from (snapshot-format: populations A, B, C).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Origin {
    /// A: existed before the first event, freed inside the window.
    FreedInWindow,
    /// B: existed before the first event, still there at the end.
    Preexisting,
    /// C: allocated by an event.
    Allocated,
}

/// What `free_requested` holds for a block that the program never gave back: the number of events.
/// Without events it is 1, because 0 is the block that was given back before the trace.
pub const fn never_requested(n_events: u32) -> u32 {
    match n_events {
        0 => 1,
        n => n,
    }
}

/// All blocks of a device: first those that existed before the first event, then by alloc event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// How many existed before the first event; their `alloc` is 0.
    pub n_preexisting: u32,
    /// The event that allocated it.
    pub alloc: Vec<u32>,
    /// The event at which the program gave it back; [`never_requested`] when never.
    pub free_requested: Vec<u32>,
    /// The event at which it became reusable; the number of events when never.
    pub free_completed: Vec<u32>,
    /// Address.
    pub addr: Vec<DeviceAddr>,
    /// Index into `kinds`.
    pub kind: Vec<KindIdx>,
    /// The distinct kinds.
    pub kinds: Vec<BlockKind>,
}

impl Blocks {
    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.alloc.len()
    }

    /// Whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.alloc.is_empty()
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.alloc)
            + of_vec(&self.free_requested)
            + of_vec(&self.free_completed)
            + of_vec(&self.addr)
            + of_vec(&self.kind)
            + of_vec(&self.kinds)
    }

    /// Heap bytes after `more` further rows, without kinds, which are not known yet.
    pub(crate) fn heap_bytes_after(&self, more: usize) -> usize {
        of_vec_after(&self.alloc, more)
            + of_vec_after(&self.free_requested, more)
            + of_vec_after(&self.free_completed, more)
            + of_vec_after(&self.addr, more)
    }

    /// Everything about a block except its time and address.
    pub fn kind(&self, block: BlockIdx) -> &BlockKind {
        &self.kinds[self.kind[block.index()].index()]
    }

    /// How the block is known; `n_events` is that of the same device.
    pub fn origin(&self, block: BlockIdx, n_events: u32) -> Origin {
        if block.0 >= self.n_preexisting {
            Origin::Allocated
        } else if self.free_completed[block.index()] < n_events {
            Origin::FreedInWindow
        } else {
            Origin::Preexisting
        }
    }

    /// The blocks that were made in the recording: all but the pre-existing ones.
    pub fn made(&self) -> Range<u32> {
        self.n_preexisting..self.len() as u32
    }

    /// Their kinds: per allocation, counted from the first one of the recording.
    pub fn made_kinds(&self) -> &[KindIdx] {
        &self.kind[self.n_preexisting as usize..]
    }

    /// The block of an allocation, counted in the same way.
    pub fn nth_made(&self, alloc: u32) -> BlockIdx {
        BlockIdx(self.n_preexisting + alloc)
    }

    /// The event of an allocation, counted in the same way.
    pub fn nth_event(&self, alloc: u32) -> EventIdx {
        EventIdx(self.alloc[self.nth_made(alloc).index()])
    }

    /// How many allocations came before an event.
    pub fn made_before(&self, event: EventIdx) -> u32 {
        let events = &self.alloc[self.n_preexisting as usize..];
        events.partition_point(|&e| e < event.0) as u32
    }

    /// The blocks whose alloc event lies in `events`, oldest first, without the pre-existing ones.
    pub fn allocated_in(&self, events: Span<EventIdx>) -> Range<u32> {
        let [start, end] = [events.start(), events.end()].map(|event| self.made_before(event));
        self.nth_made(start).0..self.nth_made(end).0
    }
}

/// A `segment_alloc`, `segment_free`, `segment_map` or `segment_unmap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEvent {
    /// Base.
    pub addr: DeviceAddr,
    /// Bytes.
    pub size: Bytes,
    /// Raw stream handle.
    pub stream: u64,
    /// Stack of the call.
    pub stack: StackIdx,
}

/// A segment, or one mapped range of an expandable segment, that was there before the first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentBefore {
    /// Base.
    pub addr: DeviceAddr,
    /// Bytes.
    pub size: Bytes,
    /// Raw stream handle.
    pub stream: u64,
    /// Pool.
    pub pool: PoolId,
    /// Small or large.
    pub pool_size: PoolSize,
    /// Whether it belongs to an expandable segment.
    pub expandable: bool,
}

/// A `snapshot`, `oom`, `annotate` or unknown event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherEvent {
    /// Address, or for `oom` the bytes that the driver had free ([`OtherEvent::free`]).
    pub addr_or_free: u64,
    /// The event's size (for `oom` the requested bytes).
    pub size: Bytes,
    /// Raw stream handle.
    pub stream: u64,
    /// Stack of the call.
    pub stack: StackIdx,
    /// `user_metadata`.
    pub metadata: Option<StrIdx>,
}

impl OtherEvent {
    /// Stands for free bytes that are not known.
    pub const NOT_KNOWN: u64 = u64::MAX;

    /// Of an `oom`, the bytes that the driver had free. `None` where the recording does not say, or
    /// says more than 256 TiB, which no device has.
    pub fn free(&self) -> Option<Bytes> {
        const MOST: u64 = 1 << 48;
        (self.addr_or_free <= MOST).then_some(Bytes(self.addr_or_free))
    }
}

/// No block, segment event or other event belongs to this event, for example a free of unknown
/// memory.
pub const NO_TARGET: u32 = u32::MAX;

/// One row per event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// What happened: an [`Action`] as its byte.
    pub action: Vec<Action>,
    /// The row it belongs to: a [`BlockIdx`] for alloc and frees, an index into `segments` or
    /// `others` for the other actions, or [`NO_TARGET`].
    pub target: Vec<u32>,
    /// Time in microseconds since the epoch; only a label.
    pub time: TimeColumn,
    /// Rows of the segment events.
    pub segments: Vec<SegmentEvent>,
    /// Rows of the remaining events.
    pub others: Vec<OtherEvent>,
    /// The first requests that failed in a private pool: row in `others` and pool, ascending. At
    /// most [`MAX_PRIVATE_FAILURES`].
    pub failed_in: Vec<(u32, PoolId)>,
}

/// So many failed requests keep their private pool: nobody asks for more.
pub const MAX_PRIVATE_FAILURES: usize = 64;

impl Events {
    /// The pool of a failed request; the default pool if the recording names none.
    pub fn failed_in(&self, other: u32) -> PoolId {
        let found = self.failed_in.binary_search_by_key(&other, |(row, _)| *row);
        found.map_or(PoolId::default(), |at| self.failed_in[at].1)
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.action)
            + of_vec(&self.target)
            + self.time.heap_bytes()
            + of_vec(&self.segments)
            + of_vec(&self.others)
            + of_vec(&self.failed_in)
    }

    /// Number of events.
    pub fn len(&self) -> u32 {
        self.action.len() as u32
    }

    /// The first event that is not earlier than `time`; the number of events if there is none.
    pub fn first_at(&self, time: Micros) -> EventIdx {
        let before = time.0.checked_sub(1).map(Micros);
        EventIdx(before.map_or(0, |before| self.time.first_after(before)) as u32)
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.action.is_empty()
    }
}

/// How well the allocator's rules reproduced the recorded addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Fidelity {
    /// Allocations in the trace.
    pub allocs: u64,
    /// Those whose address the simulated allocator would have chosen too.
    pub predicted: u64,
}

/// Where the steps come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum StepSource {
    /// Annotations name them.
    Annotations,
    /// Inferred from the repeating sequence of allocations.
    Inferred,
    /// There are none.
    #[default]
    None,
}

/// One training step, as the half-open interval of its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Step {
    /// Position among the steps, from 0.
    pub index: u32,
    /// As annotated; or what it is, with its number: `step 3`, `request 3`.
    pub name: String,
    /// Its events.
    #[cfg_attr(feature = "openapi", schema(value_type = [u32; 2]))]
    pub events: Span<EventIdx>,
}

/// A named scope (`record_function`), mapped to events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    /// Its name.
    pub name: StrIdx,
    /// The events inside it.
    pub events: Span<EventIdx>,
    /// How many scopes enclose it.
    pub depth: u16,
}

/// One device of a trace.
#[derive(Clone, Debug, Default)]
pub struct DeviceTrace {
    /// Which one it is.
    pub device: DeviceIdx,
    /// Its events.
    pub events: Events,
    /// Its blocks.
    pub blocks: Blocks,
    /// Segments before the first event, by address; none in traces that older versions stored.
    pub segments_before: Vec<SegmentBefore>,
    /// Min, max and last of the four series over buckets of events.
    pub pyramid: Pyramid,
    /// Start, peak and end, in the order of [`Series::ALL`].
    pub summary: [SeriesSummary; 4],
    /// How well the allocator's rules reproduced the trace.
    pub fidelity: Fidelity,
    /// Frees whose block was not known, because it existed before the first event.
    pub unmatched_frees: u64,
    /// Where the steps come from.
    pub step_source: StepSource,
    /// The steps.
    pub steps: Vec<Step>,
    /// Named scopes, by first event.
    pub annotations: Vec<Annotation>,
}

impl DeviceTrace {
    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        let names: usize = self.steps.iter().map(|step| step.name.capacity()).sum();
        self.events.heap_bytes()
            + self.blocks.heap_bytes()
            + self.pyramid.heap_bytes()
            + of_vec(&self.segments_before)
            + of_vec(&self.steps)
            + names
            + of_vec(&self.annotations)
    }

    /// Whether everything that was given back carries the stack with which it was requested, as
    /// `context="alloc"` records it.
    pub fn frees_carry_stacks_of_allocs(&self) -> bool {
        let kinds = self.blocks.kinds.iter();
        let mut freed = kinds
            .filter(|kind| kind.free_stack != StackIdx::NONE && kind.alloc_stack != StackIdx::NONE);
        let is_alike = |kind: &BlockKind| kind.free_stack == kind.alloc_stack;
        freed.next().is_some_and(is_alike) && freed.all(is_alike)
    }
}

impl Trace {
    /// Heap bytes that it uses, without a few small texts.
    pub fn heap_bytes(&self) -> usize {
        let devices: usize = self.with_pinned().map(DeviceTrace::heap_bytes).sum();
        self.stacks.heap_bytes() + devices
    }

    /// The devices, and the pinned memory of the host if the file has it.
    pub fn with_pinned(&self) -> impl Iterator<Item = &DeviceTrace> + Clone {
        self.devices.iter().chain(&self.pinned)
    }

    /// [`Trace::with_pinned`], to change them.
    pub fn with_pinned_mut(&mut self) -> impl Iterator<Item = &mut DeviceTrace> {
        self.devices.iter_mut().chain(&mut self.pinned)
    }
}

/// A finding about the data itself, shown as a badge wherever the trace is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QualityNote {
    /// Stable code, such as `ring_wrapped`.
    pub code: String,
    /// One sentence for a person; with several devices it begins with that it is about.
    pub detail: String,
}

impl QualityNote {
    /// This note as a note about one of several devices.
    pub fn of_device(self, device: DeviceIdx) -> QualityNote {
        QualityNote {
            detail: format!("{}: {}", device.name(), self.detail),
            ..self
        }
    }

    /// Whether the note concerns a device: it is about this device, or about the whole file.
    pub fn concerns(&self, device: DeviceIdx) -> bool {
        self.device().is_none_or(|(about, _)| about == device)
    }

    /// Whether it is about the pinned memory of the host only.
    pub fn is_of_pinned(&self) -> bool {
        self.device().is_some_and(|(about, _)| about.is_pinned())
    }

    /// The sentence without the name of its device.
    pub fn sentence(&self) -> &str {
        self.device().map_or(&self.detail, |(_, sentence)| sentence)
    }

    fn device(&self) -> Option<(DeviceIdx, &str)> {
        let (about, sentence) = self.detail.split_once(": ")?;
        if about == DeviceIdx::PINNED.name() {
            return Some((DeviceIdx::PINNED, sentence));
        }
        let number = about.strip_prefix("device ")?;
        Some((number.parse().ok()?, sentence))
    }
}

/// What the file says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatInfo {
    /// Pickle protocol; `None` for JSON and recordings.
    pub pickle_protocol: Option<u8>,
    /// The torch versions that write these keys, such as `2.10 to 2.11`.
    pub torch_guess: Option<String>,
    /// `allocator_settings`, flattened, in the file's order.
    pub settings: Vec<(String, String)>,
}

/// What a recording of this project's engine has beside the allocator's settings.
pub const ENGINE_SETTING: &str = "tidemark.config";

/// Whether this project's engine wrote a file with these settings. It writes the newest layout
/// without any torch.
pub fn is_of_engine(settings: &[(String, String)]) -> bool {
    settings.iter().any(|(name, _)| name == ENGINE_SETTING)
}

/// A whole trace.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// What the file says about itself.
    pub format: FormatInfo,
    /// Strings, frames, stacks.
    pub stacks: Stacks,
    /// Devices that hold memory or events.
    pub devices: Vec<DeviceTrace>,
    /// The pinned memory of the host, as [`DeviceIdx::PINNED`], where the file has it.
    /// No ordinary device question counts it.
    pub pinned: Option<DeviceTrace>,
    /// Findings about the data.
    pub quality: Vec<QualityNote>,
}
