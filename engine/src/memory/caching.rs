//! The caching allocator on a device: what `malloc` and `free` do besides the rules for blocks.
//!
//! [`trace::allocator::Arena`] does the rounding, best fit, splitting and merging; the same code
//! simulates uploads again. This file has the parts that need a device: segments, frees that wait
//! for other streams, and the retry after the cache was emptied (docs/allocator.md,
//! "What malloc does").

use std::collections::BTreeMap;

use serde::Serialize;
use trace::allocator::{Arena, Config, PoolKey, Slot};
use trace::trace::{PoolId, PoolSize};
use trace::units::{Bytes, DeviceAddr};

use super::label::{Allocation, Label, Role};
use super::lease::{Block, Lease, MemoryAction, MemoryEvent};
use super::pending::PendingFrees;
use crate::deviation::Deviation;
use crate::device::{Device, DeviceError, EventId, StreamId, micros};

/// The four figures of memory over time, with two peaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct MemoryStats {
    /// Sizes of blocks that the program holds.
    pub allocated: Bytes,
    /// `allocated`, plus blocks whose free is pending.
    pub active: Bytes,
    /// Sizes of all segments.
    pub reserved: Bytes,
    /// Bytes the program asked for.
    pub requested: Bytes,
    /// Highest `allocated` since the last reset.
    pub peak_allocated: Bytes,
    /// Highest `reserved` since the last reset.
    pub peak_reserved: Bytes,
}

/// What the allocator's waits say about the order of work, for the race detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderNote {
    /// A free waits for everything enqueued on a stream so far.
    Awaited(EventId, StreamId),
    /// The host has seen this event, so all work that it enqueues later comes after.
    Seen(EventId),
    /// A segment went back to the device, which waits for all work.
    Idle,
}

/// The allocator's state; callers pass in the device.
#[derive(Debug)]
pub struct CachingAllocator {
    arena: Arena,
    segments: BTreeMap<DeviceAddr, (Bytes, StreamId)>,
    pending: PendingFrees,
    stats: MemoryStats,
    events: Option<Vec<MemoryEvent>>,
    /// Events that were taken before the ones in `events`.
    taken: u32,
    /// What the allocator has waited for since the last question, while this is watched.
    order: Option<Vec<OrderNote>>,
    kept: Vec<Allocation>,
    /// Allocations that were forgotten, whose leases still have a place.
    forgotten: u32,
    step: Option<u32>,
    retries: u64,
    highest_reserved: Bytes,
    highest_allocated: Bytes,
    highest_active: Bytes,
    /// Time of the call in progress, microseconds.
    now: u64,
    /// A rule that is broken on purpose.
    deviation: Option<Deviation>,
}

impl CachingAllocator {
    /// An allocator without segments, in PyTorch's default configuration.
    pub fn new() -> CachingAllocator {
        CachingAllocator {
            arena: Arena::new(Config::default()),
            segments: BTreeMap::new(),
            pending: PendingFrees::default(),
            stats: MemoryStats::default(),
            events: None,
            taken: 0,
            order: None,
            kept: Vec::new(),
            forgotten: 0,
            step: None,
            retries: 0,
            highest_reserved: Bytes::ZERO,
            highest_allocated: Bytes::ZERO,
            highest_active: Bytes::ZERO,
            now: 0,
            deviation: None,
        }
    }

    /// Breaks a rule on purpose, for negative controls.
    pub fn deviate(&mut self, deviation: Option<Deviation>) {
        self.deviation = deviation;
    }

    /// From now on, keeps events.
    pub fn record_events(&mut self) {
        self.events.get_or_insert_default();
    }

    /// Takes the events that were kept.
    pub fn take_events(&mut self) -> Vec<MemoryEvent> {
        let events = self.events.as_mut().map(std::mem::take).unwrap_or_default();
        self.taken += events.len() as u32;
        events
    }

    /// From now on, notes what waits for what.
    pub fn watch_order(&mut self) {
        self.order = Some(Vec::new());
    }

    /// Whether anything was noted since the last question.
    pub fn has_order(&self) -> bool {
        self.order.as_ref().is_some_and(|order| !order.is_empty())
    }

    /// Takes what was noted since the last question.
    pub fn take_order(&mut self) -> Vec<OrderNote> {
        self.order.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn note_order(&mut self, what: OrderNote) {
        if let Some(order) = &mut self.order {
            order.push(what);
        }
    }

    /// Takes the allocations that were made while events were kept.
    pub fn take_allocations(&mut self) -> Vec<Allocation> {
        std::mem::take(&mut self.kept)
    }

    /// From now on, allocations belong to this step.
    pub fn begin_step(&mut self, step: u32) {
        self.step = Some(step);
    }

    /// Stops keeping events.
    pub fn stop_recording(&mut self) {
        self.events = None;
    }

    /// Stops keeping events, and forgets those that were not taken with their allocations.
    pub fn forget_recording(&mut self) {
        self.events = None;
        self.forgotten += self.kept.len() as u32;
        self.kept.clear();
    }

    fn kept_at(&mut self, place: u32) -> Option<&mut Allocation> {
        let place = place.checked_sub(self.forgotten)?;
        self.kept.get_mut(place as usize)
    }

    /// The present figures.
    pub fn stats(&self) -> MemoryStats {
        self.stats
    }

    /// How often the cache had to be emptied to get a segment.
    pub fn retries(&self) -> u64 {
        self.retries
    }

    /// Highest reserved memory of the whole run.
    pub fn highest_reserved(&self) -> Bytes {
        self.highest_reserved
    }

    /// Highest allocated memory of the whole run.
    pub fn highest_allocated(&self) -> Bytes {
        self.highest_allocated.max(self.stats.peak_allocated)
    }

    /// Highest memory of the whole run that was in use or had a pending free.
    pub fn highest_active(&self) -> Bytes {
        self.highest_active
    }

    /// Starts new peaks at the present level.
    pub fn reset_peaks(&mut self) {
        self.highest_allocated = self.highest_allocated();
        self.stats.peak_allocated = self.stats.allocated;
        self.stats.peak_reserved = self.stats.reserved;
    }

    /// Segments with their lengths and streams.
    pub fn segments(&self) -> impl Iterator<Item = (DeviceAddr, Bytes, StreamId)> + '_ {
        self.segments
            .iter()
            .map(|(&start, &(bytes, stream))| (start, bytes, stream))
    }

    /// Every block, in no particular order: address, bytes, whether it is in use.
    pub fn blocks(&self) -> impl Iterator<Item = (DeviceAddr, Bytes, bool)> + '_ {
        let blocks = self.arena.blocks();
        blocks.map(|(start, bytes, used)| (DeviceAddr(start), Bytes(bytes), used))
    }

    /// Blocks that the program has freed and other streams may still use: address and requested
    /// bytes.
    pub fn pending_frees(&self) -> impl Iterator<Item = (DeviceAddr, Bytes)> + '_ {
        let leases = self.pending.iter().map(|pending| &pending.lease);
        leases.map(|lease| (lease.start, lease.requested))
    }

    /// Everything that decides what later calls do, as numbers.
    pub(crate) fn standing(&self) -> Vec<u64> {
        let stats = self.stats;
        let mut standing = vec![
            stats.allocated.0,
            stats.active.0,
            stats.reserved.0,
            stats.requested.0,
            stats.peak_allocated.0,
            stats.peak_reserved.0,
            self.retries,
            self.highest_reserved.0,
            self.highest_allocated().0,
            self.highest_active.0,
            self.segments.len() as u64,
        ];
        for (start, (bytes, stream)) in &self.segments {
            standing.extend([start.0, bytes.0, u64::from(stream.0)]);
        }
        let mut blocks: Vec<_> = self.arena.blocks().collect();
        blocks.sort_unstable();
        for (start, bytes, used) in blocks {
            standing.extend([start, bytes, u64::from(used)]);
        }
        for pending in self.pending.iter() {
            standing.extend(pending.lease.standing());
            standing.push(pending.events.len() as u64);
            standing.extend(pending.events.iter().map(|(_, stream)| u64::from(stream.0)));
        }
        standing
    }

    /// The events that frees wait for, in order.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = EventId> + '_ {
        let events = self.pending.iter().flat_map(|pending| &pending.events);
        events.map(|(event, _)| *event)
    }

    /// Whether events are kept.
    pub(crate) fn keeps_events(&self) -> bool {
        self.events.is_some()
    }

    /// Whether anything that the program does is still being recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Gives out a block of at least `requested` bytes from `stream`'s pool. `label` is only the
    /// name of the allocation.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], if emptying the cache did not help either.
    pub fn malloc(
        &mut self,
        requested: Bytes,
        stream: StreamId,
        label: Label,
        device: &mut dyn Device,
    ) -> Result<Lease, DeviceError> {
        self.tick(device);
        let block = self.take_block(requested, stream, device);
        let block = block.inspect_err(|error| {
            let rounded = Bytes(self.arena.config().round_size(requested.0));
            self.refused(rounded, stream, label, error);
        })?;
        let Block {
            slot, start, bytes, ..
        } = block;
        let lease = Lease {
            slot,
            start,
            bytes,
            requested,
            stream,
            label,
            step: self.step,
            kept: self.keep(requested, start, label),
            users: Vec::new(),
        };
        self.emit(lease.event(MemoryAction::Alloc));
        Ok(lease)
    }

    /// [`CachingAllocator::malloc`] without a name, for times when no events are kept.
    ///
    /// # Errors
    /// As for [`CachingAllocator::malloc`].
    pub(crate) fn take_block(
        &mut self,
        requested: Bytes,
        stream: StreamId,
        device: &mut dyn Device,
    ) -> Result<Block, DeviceError> {
        self.process_events(device);
        let rounded = self.arena.config().round_size(requested.0);
        let key = PoolKey {
            pool: PoolId::default(),
            size: self.arena.config().pool_size(rounded),
            stream: if Deviation::IgnoreStream.is(self.deviation) {
                0
            } else {
                u64::from(stream.0)
            },
        };
        let free = match self.arena.best_fit(key, rounded) {
            Some(slot) => slot,
            None => self.new_segment(key, Bytes(rounded), stream, device)?,
        };
        let slot = self.arena.take(free, rounded);
        let start = DeviceAddr(self.arena.addr(slot));
        let bytes = Bytes(self.arena.size(slot));
        let stats = &mut self.stats;
        stats.allocated += bytes;
        stats.active += bytes;
        stats.requested += requested;
        stats.peak_allocated = stats.peak_allocated.max(stats.allocated);
        self.highest_active = self.highest_active.max(stats.active);
        Ok(Block {
            slot,
            start,
            bytes,
            requested,
        })
    }

    /// Frees a block that no other stream uses.
    pub(crate) fn give_block(&mut self, block: Block) {
        self.stats.allocated -= block.bytes;
        self.stats.active -= block.bytes;
        self.stats.requested -= block.requested;
        self.arena.free(block.slot);
    }

    /// Sets the role of a block, if it becomes known only later.
    pub fn relabel(&mut self, lease: &mut Lease, role: Role) {
        lease.label.role = role;
        let kept = lease.kept.and_then(|place| self.kept_at(place));
        if let Some(allocation) = kept {
            allocation.label.role = role;
        }
    }

    /// Notes that there was no memory for a block.
    fn refused(&mut self, rounded: Bytes, stream: StreamId, label: Label, error: &DeviceError) {
        if let DeviceError::OutOfMemory { free, .. } = error {
            self.emit(MemoryEvent {
                action: MemoryAction::OutOfMemory,
                start: DeviceAddr(free.0),
                bytes: rounded,
                stream,
                site: label.site,
                op: label.op,
                time: 0,
            });
        }
    }

    /// Notes an allocation, if events are kept.
    fn keep(&mut self, bytes: Bytes, start: DeviceAddr, label: Label) -> Option<u32> {
        let event = self.taken + self.events.as_ref()?.len() as u32;
        let place = self.forgotten + self.kept.len() as u32;
        self.kept.push(Allocation {
            event,
            freed: None,
            start,
            bytes,
            step: self.step,
            label,
        });
        Some(place)
    }

    /// Frees a block. If other streams use it, a later malloc completes the free.
    pub fn free(&mut self, lease: Lease, device: &mut dyn Device) {
        self.tick(device);
        self.stats.allocated -= lease.bytes;
        let event = self
            .events
            .as_ref()
            .map(|events| self.taken + events.len() as u32);
        if let (Some(place), Some(event)) = (lease.kept, event)
            && let Some(allocation) = self.kept_at(place)
        {
            allocation.freed = Some(event);
        }
        self.emit(lease.event(MemoryAction::FreeRequested));
        if lease.users.is_empty() {
            return self.complete_free(&lease);
        }
        // If a device refuses an event, it has failed; its next launch reports that.
        let record = |&user: &StreamId| Some((device.record_event(user).ok()?, user));
        let events: Vec<(EventId, StreamId)> = lease.users.iter().filter_map(record).collect();
        for &(event, user) in &events {
            self.note_order(OrderNote::Awaited(event, user));
        }
        if events.is_empty() {
            return self.complete_free(&lease);
        }
        self.pending.add(lease, events);
    }

    /// Returns all wholly free segments to the device. Frees that wait are completed first: the
    /// host waits for their events, not for later work of the streams, as PyTorch's
    /// `synchronize_and_free_events` does.
    pub fn empty_cache(&mut self, device: &mut dyn Device) {
        for pending in self.pending.take_all() {
            for (event, _) in pending.events {
                // If the device has failed, it reports that at the next launch.
                let _ = device.synchronize_event(event);
                device.drop_event(event);
                self.note_order(OrderNote::Seen(event));
            }
            self.complete_free(&pending.lease);
        }
        for start in self.free_segments() {
            if self.arena.remove_segment(start.0).is_err() {
                continue;
            }
            let Some((bytes, stream)) = self.segments.remove(&start) else {
                continue;
            };
            device.free_segment(start, bytes);
            self.note_order(OrderNote::Idle);
            self.stats.reserved -= bytes;
            self.emit(MemoryEvent {
                action: MemoryAction::SegmentFree,
                start,
                bytes,
                stream,
                site: 0,
                op: "",
                time: 0,
            });
        }
    }

    /// The segments that are free as a whole, in the order in which PyTorch gives them back: those
    /// of the large pool first, and in each pool by stream, size and address.
    fn free_segments(&self) -> Vec<DeviceAddr> {
        let pools = [PoolSize::Large, PoolSize::Small].into_iter();
        let free = pools.flat_map(|size| self.arena.free_blocks(PoolId::default(), size));
        let whole = free.filter(|&slot| self.arena.is_whole(slot));
        whole
            .map(|slot| DeviceAddr(self.arena.addr(slot)))
            .collect()
    }

    fn emit(&mut self, event: MemoryEvent) {
        if let Some(events) = &mut self.events {
            events.push(MemoryEvent {
                time: self.now,
                ..event
            });
        }
    }

    fn tick(&mut self, device: &dyn Device) {
        if self.events.is_some() {
            self.now = micros(device.host_time());
        }
    }

    /// Completes frees when the other streams have come past them.
    fn process_events(&mut self, device: &mut dyn Device) {
        let done = self.pending.take_done(device);
        for lease in &done.leases {
            self.complete_free(lease);
        }
        for event in done.events {
            self.note_order(OrderNote::Seen(event));
        }
    }

    fn complete_free(&mut self, lease: &Lease) {
        self.stats.active -= lease.bytes;
        self.stats.requested -= lease.requested;
        self.emit(lease.event(MemoryAction::FreeCompleted));
        self.arena.free(lease.slot);
    }

    fn new_segment(
        &mut self,
        key: PoolKey,
        rounded: Bytes,
        stream: StreamId,
        device: &mut dyn Device,
    ) -> Result<Slot, DeviceError> {
        let bytes = if Deviation::ExactFitSegments.is(self.deviation) {
            rounded
        } else {
            Bytes(self.arena.config().segment_size(rounded.0))
        };
        let start = match device.allocate_segment(bytes) {
            Ok(start) => start,
            Err(DeviceError::OutOfMemory { .. }) => {
                self.retries += 1;
                self.empty_cache(device);
                device.allocate_segment(bytes)?
            }
            Err(other) => return Err(other),
        };
        self.segments.insert(start, (bytes, stream));
        self.stats.reserved += bytes;
        self.stats.peak_reserved = self.stats.peak_reserved.max(self.stats.reserved);
        self.highest_reserved = self.highest_reserved.max(self.stats.reserved);
        self.emit(MemoryEvent {
            action: MemoryAction::SegmentAlloc,
            start,
            bytes,
            stream,
            site: 0,
            op: "",
            time: 0,
        });
        Ok(self.arena.add_segment(key, start.0, bytes.0))
    }
}

impl Default for CachingAllocator {
    fn default() -> CachingAllocator {
        CachingAllocator::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::{SimDevice, SimSpec};

    /// `release_blocks(large_blocks)` comes before `release_blocks(small_blocks)`, and each set is
    /// in order of stream, size and address. A segment of which a part is in use stays.
    /// The free waits for a second of work. The stream has another second to do after that, and no
    /// segment goes back, which would wait for all work.
    #[test]
    fn emptying_the_cache_waits_for_events_only() {
        let mut device = SimDevice::new(SimSpec::default());
        let mut caching = CachingAllocator::new();
        let side = device.create_stream().unwrap();
        let mut malloc = |device: &mut SimDevice| {
            let bytes = Bytes::mib(4);
            let lease = caching.malloc(bytes, StreamId::DEFAULT, Label::default(), device);
            lease.unwrap()
        };
        let (mut used, kept) = (malloc(&mut device), malloc(&mut device));
        used.record_stream(side);
        device.launch_for(side, 1.0);
        caching.free(used, &mut device);
        device.launch_for(side, 1.0);
        caching.empty_cache(&mut device);
        let host = device.host_time();
        assert!((1.0..1.5).contains(&host), "the host waited until {host}");
        assert_eq!(caching.stats().active, Bytes::mib(4));
        caching.free(kept, &mut device);
    }

    #[test]
    fn segments_go_back_in_pytorch_s_order() {
        let mut device = SimDevice::new(SimSpec::default());
        let mut caching = CachingAllocator::new();
        let side = device.create_stream().unwrap();
        let asked = [
            (Bytes(512), StreamId::DEFAULT),
            (Bytes::mib(64), side),
            (Bytes::mib(48), StreamId::DEFAULT),
            (Bytes::mib(32), StreamId::DEFAULT),
            (Bytes::mib(2), side),
            (Bytes::mib(2), StreamId::DEFAULT),
            (Bytes::mib(32), StreamId::DEFAULT),
        ];
        let leases = asked.map(|(bytes, stream)| {
            let lease = caching.malloc(bytes, stream, Label::default(), &mut device);
            lease.unwrap()
        });
        let starts = leases.each_ref().map(Lease::start);
        let mut leases = Vec::from(leases);
        let used = leases.remove(5);
        for lease in leases {
            caching.free(lease, &mut device);
        }
        caching.record_events();
        caching.empty_cache(&mut device);
        let events = caching.take_events().into_iter();
        let freed: Vec<DeviceAddr> = events.map(|event| event.start).collect();
        assert_eq!(freed, [3, 6, 2, 4, 1, 0].map(|place| starts[place]));
        caching.free(used, &mut device);
        assert_eq!(caching.stats().reserved, Bytes::mib(20));
    }
}
