//! The snapshot as the file has it, in columns. The reader makes it, and the replay uses it.

use crate::address::AddressColumn;
use crate::device::DeviceIdx;
use crate::footprint::of_vec;
use crate::stacks::{StackIdx, Stacks, StrIdx};
use crate::time::TimeColumn;
use crate::trace::{Action, PoolId, PoolSize};
use crate::units::{Bytes, DeviceAddr, Micros};
use std::ops::Range;

/// Everything about an event but its address and time; interned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventKind {
    /// What happened.
    pub action: Action,
    /// As the file has it: requested bytes for alloc and frees, true bytes for segments.
    pub size: Bytes,
    /// Raw stream handle.
    pub stream: u64,
    /// `frames`.
    pub stack: StackIdx,
    /// `forward_frames`, as a stack of nameless files.
    pub forward_stack: StackIdx,
    /// `pool_id` (torch 2.12 and later).
    pub pool: Option<PoolId>,
    /// `compile_context`, unless empty or `N/A`.
    pub compile_context: Option<StrIdx>,
    /// `user_metadata`, unless empty; else `category` or `internal_metadata`.
    pub metadata: Option<StrIdx>,
}

/// The trace of one device, as recorded: one row per event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawEvents {
    /// Index into [`Snapshot::kinds`].
    pub kind: Vec<u32>,
    /// `addr`, or `device_free` for `oom`, where the file may not say it
    /// ([`crate::trace::OtherEvent::NOT_KNOWN`]).
    pub addr: AddressColumn,
    /// `time_us`; 0 where the file has none.
    pub time: TimeColumn,
}

/// State of a block in the final segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// In use.
    ActiveAllocated,
    /// Given back, but other streams may still use it.
    PendingFree,
    /// Free.
    Inactive,
}

/// A block of the final segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawBlock {
    /// Base address; torch 2.0 has none, so it is derived from the segment's.
    pub addr: DeviceAddr,
    /// Bytes of the block.
    pub size: Bytes,
    /// Bytes asked for; stale when inactive. The size of the block where that is not known.
    pub requested: Bytes,
    /// Whether the file says how many bytes were asked for.
    pub requested_known: bool,
    /// In use, pending or free.
    pub state: BlockState,
    /// Where it was allocated.
    pub stack: StackIdx,
    /// `user_metadata`, unless empty; else `category`.
    pub metadata: Option<StrIdx>,
}

/// A segment at the moment of the dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawSegment {
    /// CUDA ordinal.
    pub device: DeviceIdx,
    /// Base.
    pub addr: DeviceAddr,
    /// Bytes obtained from the driver.
    pub total_size: Bytes,
    /// As the file states it: Σ sizes of allocated blocks.
    pub allocated_size: Bytes,
    /// Owner stream.
    pub stream: u64,
    /// Small or large.
    pub pool_size: PoolSize,
    /// Memory pool.
    pub pool: PoolId,
    /// One mapped range of an expandable segment.
    pub is_expandable: bool,
    /// Its blocks in [`Snapshot::blocks`], by address, tiling the segment.
    pub blocks: Range<usize>,
}

/// Start or end of a named scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawAnnotation {
    /// Name.
    pub name: StrIdx,
    /// Start or end.
    pub stage: Stage,
    /// CUDA ordinal it was recorded for.
    pub device: DeviceIdx,
    /// When.
    pub time: Micros,
}

/// Which end of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It begins.
    Start,
    /// It ends.
    End,
}

/// Which optional keys a file has: they show the torch version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeysSeen(pub(crate) u64);

/// A whole snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Pickle protocol; `None` for a file that is no pickle: JSON, or a page that holds one.
    pub pickle_protocol: Option<u8>,
    /// `allocator_settings`, flattened, in the file's order.
    pub settings: Vec<(String, String)>,
    /// Strings, frames, stacks.
    pub stacks: Stacks,
    /// The distinct kinds of event.
    pub kinds: Vec<EventKind>,
    /// `device_traces`: index is the CUDA ordinal.
    pub devices: Vec<RawEvents>,
    /// `segments`.
    pub segments: Vec<RawSegment>,
    /// Blocks of all segments.
    pub blocks: Vec<RawBlock>,
    /// `external_annotations`.
    pub annotations: Vec<RawAnnotation>,
    /// Keys that this version does not know, and how often each occurred.
    pub unknown_keys: Vec<(String, u64)>,
    /// Actions that this version does not know, and how often each occurred.
    pub unknown_actions: Vec<(String, u64)>,
    /// `host_traces`: events of the pinned memory of the host (torch 2.14 and later). The segments
    /// of `host_segments` are among `segments`, with the device number
    /// [`DeviceIdx::PINNED`].
    pub host: RawEvents,
    /// Entries of `host_segments` and `host_traces` that have a shape unknown to this version.
    pub host_unread: u64,
    /// Which optional keys there were.
    pub keys_seen: KeysSeen,
    /// Bytes after the end of the pickle or JSON document.
    pub trailing_bytes: u64,
}

impl RawEvents {
    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.kind) + self.addr.heap_bytes() + self.time.heap_bytes()
    }

    /// The rows of a range.
    pub(crate) fn part(&self, range: Range<usize>) -> RawEvents {
        let mut part = RawEvents {
            kind: self.kind[range.clone()].to_vec(),
            ..RawEvents::default()
        };
        let times = self.time.iter().skip(range.start).take(range.len());
        times.for_each(|time| part.time.push(time));
        self.addr.rows(range).for_each(|addr| part.addr.push(addr));
        part
    }

    /// Gives back memory for rows that never came.
    pub fn shrink(&mut self) {
        self.kind.shrink_to_fit();
        self.addr.shrink();
        self.time.shrink();
    }
}

impl Snapshot {
    /// Heap bytes that it uses, without a few small texts.
    pub fn heap_bytes(&self) -> usize {
        self.stacks.heap_bytes()
            + of_vec(&self.kinds)
            + self
                .devices
                .iter()
                .map(RawEvents::heap_bytes)
                .sum::<usize>()
            + self.host.heap_bytes()
            + of_vec(&self.segments)
            + of_vec(&self.blocks)
            + of_vec(&self.annotations)
    }

    /// Whether the file has a list of segments; an empty one says that nothing was reserved.
    pub fn has_segments(&self) -> bool {
        self.keys_seen.has_segments()
    }

    /// Whether the file was made of a profile: its segments and addresses are no allocator's.
    pub fn of_profile(&self) -> bool {
        self.keys_seen.of_profile()
    }

    /// Whether the file has a list of events. `torch.cuda.memory_snapshot()` never gives one.
    pub fn has_traces(&self) -> bool {
        self.keys_seen.has_traces()
    }
}
