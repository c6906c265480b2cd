//! Where memory lies at a moment: segments, the blocks in use in each of them, and the gaps
//! between.
//!
//! This is read from the recording, not replayed: events add and remove segments, and every block
//! has an address. The pool of a segment is known if the segment is from before the recording;
//! otherwise the blocks that it ever held tell (`owners`). For a segment that never held a block,
//! only the size tells.
//!
//! A private pool, of a CUDA graph for example, keeps its segments as long as it lives: emptying
//! the cache gives none of them back. It lives if anything in it is in use.

mod over_time;
mod owners;

pub use over_time::{MOST_MOMENTS, Room, over_time};

use crate::allocator::SMALL_BUFFER;
use crate::trace::{Action, BlockIdx, DeviceTrace, PoolId, PoolSize, Series};
use crate::units::{Bytes, EventIdx};
use owners::{Owner, Owners};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A segment, or the mapped ranges of an expandable one that lie side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub size: Bytes,
    /// Pool and stream that it belongs to.
    pub place: Place,
    /// Whether it is part of an expandable segment.
    pub expandable: bool,
    /// Bytes in use, including blocks that another stream may still use.
    pub used: Bytes,
    /// The largest free range in it.
    pub largest_gap: Bytes,
    /// Its blocks in use, as a range of [`Layout::blocks`].
    pub blocks: Range<usize>,
}

impl Segment {
    /// Bytes that are not in use.
    pub fn free(&self) -> Bytes {
        self.size.saturating_sub(self.used)
    }

    /// What its free bytes are, if these private pools live.
    fn rest(&self, living: &BTreeSet<PoolId>) -> Rest {
        let free = self.free();
        match (self.used, living.contains(&self.place.pool)) {
            (Bytes::ZERO, false) => Rest {
                cached: free,
                ..Rest::default()
            },
            (Bytes::ZERO, true) => Rest {
                split: free,
                kept: free,
                ..Rest::default()
            },
            _ => Rest {
                split: free,
                ..Rest::default()
            },
        }
    }
}

/// What the free bytes of a segment are.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    /// They can be given back.
    cached: Bytes,
    /// They cannot.
    split: Bytes,
    /// Of these, those of a whole segment.
    kept: Bytes,
}

/// Memory that serves the same requests: that of one pool and one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Default, graph or user pool.
    pub pool: PoolId,
    /// Raw stream handle.
    pub stream: u64,
    /// Small or large.
    pub pool_size: PoolSize,
}

/// What a pool of a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRoom {
    /// Which pool and stream.
    pub place: Place,
    /// Bytes of its segments.
    pub reserved: Bytes,
    /// Bytes in use.
    pub used: Bytes,
    /// Bytes of segments nothing of which is in use: they can be given back.
    pub cached: Bytes,
    /// Free bytes of segments that are partly in use, or of a private pool that is. The former are
    /// `inactive_split_bytes`, except that PyTorch leaves expandable segments out of that counter.
    pub split: Bytes,
    /// Of these, bytes of whole segments: a private pool keeps them.
    pub kept: Bytes,
    /// The largest free range.
    pub largest_gap: Bytes,
}

impl PoolRoom {
    /// Bytes that are reserved and not in use.
    pub fn free(&self) -> Bytes {
        self.cached + self.split
    }
}

/// Where memory lay at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// By address.
    pub segments: Vec<Segment>,
    /// The blocks in use, by address.
    pub blocks: Vec<BlockIdx>,
}

/// A range that was mapped, or allocated.
#[derive(Clone, Copy)]
struct Mapped {
    size: u64,
    stream: u64,
    /// The pool and its size class, if known.
    pool: Option<Owner>,
    expandable: bool,
}

impl Layout {
    /// Where memory lay after an event. `None` if the recording lacks segments, so that they do not
    /// sum to *reserved*.
    pub fn at(device: &DeviceTrace, at: EventIdx) -> Option<Layout> {
        let mut ranges = Ranges::before(device, Owners::until(device, at));
        ranges.advance(device, at);
        let reserved = device.levels_at(at).get(Series::Reserved);
        Layout::of(device, reserved, &ranges, in_use(device, at))
    }

    /// Where memory lay before the first event.
    pub fn before(device: &DeviceTrace) -> Option<Layout> {
        let mut blocks: Vec<BlockIdx> = (0..device.blocks.n_preexisting).map(BlockIdx).collect();
        blocks.sort_unstable_by_key(|block| device.blocks.addr[block.index()]);
        let reserved = device.summary[Series::Reserved as usize].start;
        let ranges = Ranges::before(device, Owners::default());
        Layout::of(device, reserved, &ranges, blocks)
    }

    /// The same, from the mapped ranges and the blocks in use, both by address.
    fn of(
        device: &DeviceTrace,
        reserved: Bytes,
        ranges: &Ranges,
        blocks: Vec<BlockIdx>,
    ) -> Option<Layout> {
        let sizes = ranges.mapped.values().map(|mapped| mapped.size);
        let sum = sizes.fold(0_u64, u64::saturating_add);
        if Bytes(sum) != reserved {
            return None;
        }
        let mut next = 0;
        let segments = joined(&ranges.mapped).into_iter();
        let segments = segments.map(|(addr, m)| segment(device, &blocks, &mut next, addr, m));
        Some(Layout {
            segments: segments.collect(),
            blocks,
        })
    }

    /// The pools of each stream, the largest first.
    pub fn pools(&self) -> Vec<PoolRoom> {
        let living = self.living();
        let mut pools: BTreeMap<Place, PoolRoom> = BTreeMap::new();
        for segment in &self.segments {
            let pool = pools.entry(segment.place).or_insert(PoolRoom {
                place: segment.place,
                reserved: Bytes::ZERO,
                used: Bytes::ZERO,
                cached: Bytes::ZERO,
                split: Bytes::ZERO,
                kept: Bytes::ZERO,
                largest_gap: Bytes::ZERO,
            });
            pool.reserved += segment.size;
            pool.used += segment.used;
            let rest = segment.rest(&living);
            pool.cached += rest.cached;
            pool.split += rest.split;
            pool.kept += rest.kept;
            pool.largest_gap = pool.largest_gap.max(segment.largest_gap);
        }
        let mut pools: Vec<PoolRoom> = pools.into_values().collect();
        pools.sort_by_key(|pool| (std::cmp::Reverse(pool.reserved), pool.place));
        pools
    }

    /// The private pools in which something is in use.
    fn living(&self) -> BTreeSet<PoolId> {
        let used = self.segments.iter().filter(|s| s.used > Bytes::ZERO);
        let pools = used.map(|segment| segment.place.pool);
        pools.filter(|pool| *pool != PoolId::default()).collect()
    }

    /// Segments of which less than half is in use: if the blocks in them were gone, they could be
    /// given back. Expandable segments are left out, because their free pages can be given back
    /// anyway.
    pub fn pinned(&self) -> impl Iterator<Item = &Segment> {
        let segments = self.segments.iter();
        segments.filter(|s| !s.expandable && s.used > Bytes::ZERO && s.used.0 * 2 < s.size.0)
    }
}

/// The ranges that are mapped or allocated at a moment.
struct Ranges {
    /// By address.
    mapped: BTreeMap<u64, Mapped>,
    /// The first event that has not been looked at.
    next: usize,
    /// Which pools the segments are of that events make.
    owners: Owners,
}

impl Ranges {
    /// The ranges that were there before the first event.
    fn before(device: &DeviceTrace, owners: Owners) -> Ranges {
        let before = device.segments_before.iter().map(|segment| {
            let mapped = Mapped {
                size: segment.size.0,
                stream: segment.stream,
                pool: Some((segment.pool, segment.pool_size)),
                expandable: segment.expandable,
            };
            (segment.addr.0, mapped)
        });
        Ranges {
            mapped: before.collect(),
            next: 0,
            owners,
        }
    }

    /// Moves on to the state after an event.
    fn advance(&mut self, device: &DeviceTrace, at: EventIdx) {
        use Action::{SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap};
        let events = &device.events;
        let rows = events.action.iter().zip(&events.target);
        let end = at.index() + 1;
        let rows = rows.take(end).skip(self.next);
        for (action, &target) in rows {
            if !matches!(
                action,
                SegmentAlloc | SegmentFree | SegmentMap | SegmentUnmap
            ) {
                continue;
            }
            let Some(event) = events.segments.get(target as usize) else {
                continue;
            };
            let (addr, size) = (event.addr.0, event.size.0);
            match action {
                SegmentAlloc | SegmentMap => {
                    let mapped = Mapped {
                        size,
                        stream: event.stream,
                        pool: self.owners.of(target),
                        expandable: *action == SegmentMap,
                    };
                    self.mapped.insert(addr, mapped);
                }
                SegmentFree => _ = self.mapped.remove(&addr),
                _ => unmap(&mut self.mapped, addr, addr.saturating_add(size)),
            }
        }
        self.next = self.next.max(end);
    }
}

/// Removes `[from, to)`; ranges that reach beyond it keep the part outside.
fn unmap(ranges: &mut BTreeMap<u64, Mapped>, from: u64, to: u64) {
    let reached: Vec<(u64, Mapped)> = ranges
        .range(..to)
        .rev()
        .map(|(addr, mapped)| (*addr, *mapped))
        .take_while(|(addr, mapped)| addr.saturating_add(mapped.size) > from)
        .collect();
    for (addr, mapped) in reached {
        ranges.remove(&addr);
        let end = addr.saturating_add(mapped.size);
        for rest in [addr..from.min(end), to.max(addr)..end] {
            if rest.start < rest.end {
                let size = rest.end - rest.start;
                ranges.insert(rest.start, Mapped { size, ..mapped });
            }
        }
    }
}

/// Joins ranges of expandable segments that lie side by side.
fn joined(ranges: &BTreeMap<u64, Mapped>) -> Vec<(u64, Mapped)> {
    let mut all: Vec<(u64, Mapped)> = Vec::with_capacity(ranges.len());
    for (&addr, &mapped) in ranges {
        match all.last_mut() {
            Some((start, last))
                if last.expandable
                    && mapped.expandable
                    && last.stream == mapped.stream
                    && start.saturating_add(last.size) == addr =>
            {
                last.size += mapped.size;
                last.pool = last.pool.or(mapped.pool);
            }
            _ => all.push((addr, mapped)),
        }
    }
    all
}

/// The blocks in use after an event, by address.
fn in_use(device: &DeviceTrace, at: EventIdx) -> Vec<BlockIdx> {
    let blocks = &device.blocks;
    let lives = |&index: &usize| blocks.alloc[index] <= at.0 && at.0 < blocks.free_completed[index];
    let used = (0..blocks.len()).filter(lives);
    let mut used: Vec<BlockIdx> = used.map(|index| BlockIdx(index as u32)).collect();
    used.sort_unstable_by_key(|block| blocks.addr[block.index()]);
    used
}

/// A segment with the blocks in it; `next` is the first block that can lie in it.
fn segment(
    device: &DeviceTrace,
    used: &[BlockIdx],
    next: &mut usize,
    addr: u64,
    mapped: Mapped,
) -> Segment {
    let blocks = &device.blocks;
    let end = addr.saturating_add(mapped.size);
    let start_of = |at: usize| blocks.addr[used[at].index()].0;
    while *next < used.len() && start_of(*next) < addr {
        *next += 1;
    }
    let first = *next;
    let (mut up_to, mut largest, mut held) = (addr, 0, 0);
    while *next < used.len() && start_of(*next) < end {
        let (from, size) = (start_of(*next), blocks.kind(used[*next]).size.0);
        let to = from.saturating_add(size).min(end);
        largest = largest.max(from.saturating_sub(up_to));
        held += to.saturating_sub(from.max(up_to));
        up_to = up_to.max(to);
        *next += 1;
    }
    let inside = used.get(first).filter(|_| *next > first);
    let of_block = inside.map(|&block| (blocks.kind(block).pool, blocks.kind(block).pool_size));
    let guessed = match mapped.size <= SMALL_BUFFER {
        true => PoolSize::Small,
        false => PoolSize::Large,
    };
    let (pool, pool_size) = mapped
        .pool
        .or(of_block)
        .unwrap_or((PoolId::default(), guessed));
    Segment {
        addr,
        size: Bytes(mapped.size),
        place: Place {
            pool,
            stream: mapped.stream,
            pool_size,
        },
        expandable: mapped.expandable,
        used: Bytes(held),
        largest_gap: Bytes(largest.max(end - up_to)),
        blocks: first..*next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TraceBuilder, block_of};
    use crate::trace::BlockKind;
    use crate::units::DeviceAddr;
    use proptest::prelude::*;

    /// Two segments of a graph's pool, with a block each; the second block is given back, and then
    /// the first.
    #[test]
    fn segments_of_a_private_pool_stay_its_own_and_are_kept_while_it_lives() {
        let mut builder = TraceBuilder::default();
        let kind = BlockKind {
            pool: PoolId(1, 0),
            ..block_of(Bytes::mib(2))
        };
        let mut held = Vec::new();
        for _ in 0..2 {
            builder.segment(Action::SegmentAlloc, Bytes::mib(20));
            held.push(builder.alloc(kind));
        }
        for &block in held.iter().rev() {
            builder.free_requested(block);
            builder.free_completed(block);
        }
        let mut device = builder.finish().devices.remove(0);
        let second = DeviceAddr(device.events.segments[0].addr.0 + (64 << 20));
        device.events.segments[1].addr = second;
        device.blocks.addr[0] = device.events.segments[0].addr;
        device.blocks.addr[1] = second;
        let check = |at: u32, cached: u64, split: u64, kept: u64| {
            let pools = Layout::at(&device, EventIdx(at)).expect("a layout").pools();
            let told: Vec<_> = pools
                .iter()
                .map(|pool| (pool.place.pool, [pool.cached, pool.split, pool.kept]))
                .collect();
            let expected = (PoolId(1, 0), [cached, split, kept].map(Bytes::mib));
            assert_eq!(told, [expected], "after event {at}");
            let moments = over_time(&device).into_iter();
            for room in moments.filter(|room| room.event.0 == at) {
                let told = [room.cached, room.split, room.kept];
                assert_eq!(told, [cached, split, kept].map(Bytes::mib));
            }
        };
        // Before the block for which it is made lies in it.
        check(0, 20, 0, 0);
        check(3, 0, 36, 0);
        check(5, 0, 38, 20);
        check(7, 40, 0, 0);
    }

    fn of_size(size: u64) -> Mapped {
        Mapped {
            size,
            stream: 0,
            pool: None,
            expandable: true,
        }
    }

    proptest! {
        /// Compared with a model that has one entry for each byte.
        #[test]
        fn what_is_unmapped_is_gone_and_the_rest_stays(
            steps in prop::collection::vec((0..40_u64, 1..12_u64, any::<bool>()), 0..30),
        ) {
            let mut ranges = BTreeMap::new();
            let mut model = [false; 64];
            for (from, size, maps) in steps {
                let bytes = from as usize..(from + size) as usize;
                // The driver never maps an address twice.
                if maps && model[bytes.clone()].contains(&true) {
                    continue;
                }
                match maps {
                    true => _ = ranges.insert(from, of_size(size)),
                    false => unmap(&mut ranges, from, from + size),
                }
                model[bytes].fill(maps);
            }
            let mut found = [false; 64];
            for (addr, mapped) in joined(&ranges) {
                found[addr as usize..(addr + mapped.size) as usize].fill(true);
            }
            prop_assert_eq!(found, model);
        }
    }
}
