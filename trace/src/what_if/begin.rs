//! The memory before the first event.
//!
//! If both settings lay memory out in the same way, it begins as recorded. Expandable and other
//! segments do not share memory. So when the setting for them changes, the blocks that were in use
//! are requested again, lowest address first; memory that was cached and free is left out.

use crate::allocator::caching::Caching;
use crate::allocator::{Config, PoolKey, Slot};
use crate::trace::{BlockIdx, DeviceTrace, SegmentBefore};
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};

/// How the memory from before the first event lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Before {
    /// As recorded, if the settings allow.
    #[default]
    AsRecorded,
    /// As recorded, as if the settings had been changed at the first event.
    Kept,
    /// As if all blocks in use were requested again, lowest address first: for a limit that is
    /// lower than what was reserved.
    RequestedAgain,
}

/// Gives the allocator the memory from before the first event, and each block its slot.
pub(super) fn begin(
    device: &DeviceTrace,
    allocator: &mut Caching,
    slots: &mut [Slot],
    how: Before,
    watch: Watch<'_>,
) -> Result<(), Stopped> {
    let blocks = &device.blocks;
    let mut before: Vec<u32> = (0..blocks.n_preexisting).collect();
    before.sort_unstable_by_key(|&block| blocks.addr[block as usize]);
    let segments = &device.segments_before;
    let alike = lies_alike(device, allocator.arena().config());
    let segments: &[SegmentBefore] = match how {
        Before::AsRecorded if alike => segments,
        Before::Kept => segments,
        _ => &[],
    };
    let mut next = 0;
    let mut homeless = Vec::new();
    for (row, segment) in segments.iter().enumerate() {
        watch.at_row(row, || allocator.heap_bytes_after(before.len()))?;
        // Only a defective recording has memory twice at an address.
        let (addr, size) = (segment.addr.0, segment.size.0);
        if !allocator.arena().has_room(addr, size) {
            continue;
        }
        let free = allocator.adopt(
            key(segment),
            segment.addr.0,
            segment.size,
            segment.expandable,
        );
        let end = segment.addr.0 + segment.size.0;
        let mut place = Place { free, end };
        while let Some(&block) = before.get(next) {
            let addr = blocks.addr[block as usize];
            if addr.0 >= end {
                break;
            }
            next += 1;
            let size = blocks.kind(BlockIdx(block)).size;
            match place.occupy(allocator, addr.0, size) {
                Some(slot) => slots[block as usize] = slot,
                None => homeless.push(block),
            }
        }
    }
    homeless.extend(&before[next..]);
    let mut shortages = allocator.shortages();
    for (row, block) in homeless.into_iter().enumerate() {
        watch.at_row(row, || allocator.heap_bytes_after(before.len()))?;
        // A request that finds nothing may take as long as many rows.
        if std::mem::replace(&mut shortages, allocator.shortages()) != allocator.shortages() {
            watch.look(allocator.heap_bytes_after(before.len()))?;
        }
        let kind = blocks.kind(BlockIdx(block));
        // Before the limit is set, only a request that no driver grants fails.
        if let Ok(slot) = allocator.malloc(kind.pool, kind.stream, kind.requested) {
            slots[block as usize] = slot;
        }
    }
    Ok(())
}

/// Whether these settings lay the memory from before the first event out in the same way.
pub(super) fn lies_alike(device: &DeviceTrace, settings: &Config) -> bool {
    let mut segments = device.segments_before.iter();
    segments.all(|segment| segment.expandable == settings.expands(segment.pool))
}

fn key(segment: &SegmentBefore) -> PoolKey {
    PoolKey {
        pool: segment.pool,
        size: segment.pool_size,
        stream: segment.stream,
    }
}

/// The free rest of a segment, above the blocks placed so far.
struct Place {
    free: Slot,
    end: u64,
}

impl Place {
    fn occupy(&mut self, allocator: &mut Caching, addr: u64, size: Bytes) -> Option<Slot> {
        let arena = allocator.arena();
        let fits = !arena.is_used(self.free)
            && addr >= arena.addr(self.free)
            && addr < self.end
            && size > Bytes::ZERO;
        if !fits {
            return None;
        }
        let slot = allocator.occupy(self.free, addr, size);
        if let Some(above) = allocator.arena().free_above(slot) {
            self.free = above;
        } else {
            self.free = slot;
        }
        Some(slot)
    }
}
