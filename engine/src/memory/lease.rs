//! What the allocator hands out, and what it writes down about it.

use trace::allocator::Slot;
use trace::units::{Bytes, DeviceAddr};

use super::label::Label;
use crate::device::StreamId;

/// Something that happened to a block or segment, in the order of PyTorch's trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoryEvent {
    /// What happened.
    pub action: MemoryAction,
    /// First address; for a refusal, the bytes that the device had left.
    pub start: DeviceAddr,
    /// Requested bytes of a block, real bytes of a segment, rounded bytes of a refusal.
    pub bytes: Bytes,
    /// The stream that its pool belongs to.
    pub stream: StreamId,
    /// The site of the allocation; 0 for segments.
    pub site: u32,
    /// The operation that allocated; empty for segments.
    pub op: &'static str,
    /// Host time of the device, microseconds.
    pub time: u64,
}

/// Kinds of [`MemoryEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryAction {
    /// A segment came from the device.
    SegmentAlloc,
    /// A segment went back to the device.
    SegmentFree,
    /// A block was handed out.
    Alloc,
    /// The program freed a block, which may still be in use on another stream.
    FreeRequested,
    /// The block may be reused.
    FreeCompleted,
    /// There was no memory for a block.
    OutOfMemory,
}

/// A block that was handed out.
#[derive(Debug)]
pub struct Lease {
    pub(super) slot: Slot,
    pub(super) start: DeviceAddr,
    /// Its rounded size.
    pub(super) bytes: Bytes,
    pub(super) requested: Bytes,
    pub(super) stream: StreamId,
    pub(super) label: Label,
    /// Step in which it was made.
    pub(super) step: Option<u32>,
    /// Its place among the kept allocations, if events were kept at that time.
    pub(super) kept: Option<u32>,
    /// Other streams that use it (`record_stream`).
    pub(super) users: Vec<StreamId>,
}

/// A block without a name, for callers that know what it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(super) slot: Slot,
    /// First address.
    pub start: DeviceAddr,
    /// Its rounded size.
    pub(super) bytes: Bytes,
    pub(super) requested: Bytes,
}

impl Lease {
    /// For a step that is written down: there is no block behind this lease.
    pub(super) fn written(start: DeviceAddr, requested: Bytes, stream: StreamId) -> Lease {
        Lease {
            slot: Slot::NONE,
            start,
            bytes: requested,
            requested,
            stream,
            label: Label::default(),
            step: None,
            kept: None,
            users: Vec::new(),
        }
    }

    /// First address.
    pub fn start(&self) -> DeviceAddr {
        self.start
    }

    /// Bytes of the block, rounding included.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// What it was made for.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// Step in which it was made, from 0; `None` before the first.
    pub fn step(&self) -> Option<u32> {
        self.step
    }

    /// `record_stream`: `stream` uses the block too.
    pub fn record_stream(&mut self, stream: StreamId) {
        if self.stream != stream && !self.users.contains(&stream) {
            self.users.push(stream);
        }
    }

    /// Everything that decides how it is freed, as numbers.
    pub(super) fn standing(&self) -> impl Iterator<Item = u64> + '_ {
        let (start, bytes) = (self.start.0, self.bytes.0);
        let known = [start, bytes, self.requested.0, u64::from(self.stream.0)];
        let users = self.users.iter().map(|user| u64::from(user.0));
        known
            .into_iter()
            .chain([self.users.len() as u64])
            .chain(users)
    }

    pub(super) fn event(&self, action: MemoryAction) -> MemoryEvent {
        MemoryEvent {
            action,
            start: self.start,
            bytes: self.requested,
            stream: self.stream,
            site: self.label.site,
            op: self.label.op,
            time: 0,
        }
    }
}
