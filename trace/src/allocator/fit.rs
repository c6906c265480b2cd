//! Best fit: which free block the allocator would hand out, and where an expandable segment grows.

use super::free_list::FreeList;
use super::{Arena, PoolKey, Slot, State};

/// So many pools are looked through faster than looked up.
const FEW_POOLS: usize = 4;

/// How many expandable blocks best fit compares, and how many segments it looks at for each. In a
/// real trace the mapped ranges of a pool lie next to each other.
const EXPANDABLE_WEIGHED: usize = 64;
const SEGMENTS_BEHIND: usize = 64;

/// Memory of an expandable segment that could become one free block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gaps {
    /// The free block in front of the unmapped memory, or [`Slot::NONE`].
    pub free_before: Slot,
    /// Unmapped ranges: address and bytes, lowest first. Between two of them lies a free range.
    pub unmapped: Vec<(u64, u64)>,
    /// Bytes of the free ranges between them.
    free_between: u64,
}

impl Gaps {
    const NONE: Gaps = Gaps {
        free_before: Slot::NONE,
        unmapped: Vec::new(),
        free_between: 0,
    };

    /// The most bytes that the free block can grow to if it has so many now.
    pub fn reach(&self, free_before: u64) -> u64 {
        let unmapped = self.unmapped.iter().map(|(_, size)| size);
        free_before + self.free_between + unmapped.sum::<u64>()
    }
}

impl Arena {
    /// The free block that the allocator would hand out: the smallest that fits, of the request's
    /// own stream. [`Ties`] says which one among those of equal size.
    pub fn best_fit(&self, key: PoolKey, rounded: u64) -> Option<Slot> {
        // An engine has a handful, and asks for them all the time.
        let mut few = self.pools.iter().take(FEW_POOLS);
        let known = few.position(|pool| pool.key == key);
        let pool = match known {
            Some(pool) => pool as u16,
            None => *self.pool_ids.get(&key)?,
        };
        self.best_fit_in(pool, rounded)
    }

    /// [`Arena::best_fit`] in the pool that `like` belongs to.
    pub fn best_fit_like(&self, like: Slot, rounded: u64) -> Option<Slot> {
        self.best_fit_in(self.block(like).pool, rounded)
    }

    fn best_fit_in(&self, pool: u16, rounded: u64) -> Option<Slot> {
        let free = &self.pools[usize::from(pool)].free;
        let (_, slot) = free.best_fit(rounded)?;
        let slot = match (self.block(slot).expandable, self.config.expandable_segments) {
            (false, _) => slot,
            (true, true) => self.least_expandable(free, rounded)?,
            // The setting was switched off later: expandable blocks are left alone.
            (true, false) => free.fits(rounded).find(|&s| !self.block(s).expandable)?,
        };
        let size = self.block(slot).size;
        (!self.config.rejects(rounded, size)).then_some(slot)
    }

    /// Best fit counts an expandable block at the size that it could grow to. It goes on to larger
    /// blocks as long as each next one could grow to less than the one before. So it fills gaps
    /// first, and leaves memory that can still grow.
    fn least_expandable(&self, free: &FreeList, rounded: u64) -> Option<Slot> {
        let mut fits = free.fits(rounded);
        let mut best = fits.next()?;
        let mut room = self.room(best);
        for next in fits.take(EXPANDABLE_WEIGHED) {
            let more = self.room(next);
            if !self.block(best).expandable || more >= room {
                break;
            }
            (best, room) = (next, more);
        }
        Some(best)
    }

    /// The free block in front of unmapped memory that an expandable segment hands out when best
    /// fit refuses every block. PyTorch then looks for room to grow, and finds that this block is
    /// large enough already.
    pub fn grown(&self, key: PoolKey, rounded: u64) -> Option<Slot> {
        let pool = *self.pool_ids.get(&key)?;
        if !self.config.expandable_segments || self.config.max_split_size.is_none() {
            return None;
        }
        let mut ranges = self.segments.iter();
        let (&base, _) = ranges.find(|(_, slot)| self.block(**slot).pool == pool)?;
        let slot = self.gaps(key, base, u64::MAX, rounded).free_before;
        (slot != Slot::NONE && self.size(slot) >= rounded).then_some(slot)
    }

    /// Where the expandable segment of a pool can grow to a free block of `size` bytes. The segment
    /// lies in `[base, end)`. The answer is the lowest memory that is free or unmapped and large
    /// enough.
    pub fn gaps(&self, key: PoolKey, base: u64, end: u64, size: u64) -> Gaps {
        let pool = self.pool_ids.get(&key).copied();
        let mut gaps = Gaps::NONE;
        let mut room = 0;
        let mut mapped_to = base;
        for (&start, &first) in self.segments.range(base..end) {
            let block = self.block(first);
            if Some(block.pool) != pool || !block.expandable {
                continue;
            }
            if start > mapped_to {
                gaps.unmapped.push((mapped_to, start - mapped_to));
                room += start - mapped_to;
            }
            let mut slot = first;
            while slot != Slot::NONE {
                if !gaps.unmapped.is_empty() && room >= size {
                    return gaps;
                }
                let block = self.block(slot);
                if block.state == State::Used {
                    (gaps, room) = (Gaps::NONE, 0);
                } else if gaps.unmapped.is_empty() {
                    (gaps.free_before, room) = (slot, block.size);
                } else {
                    gaps.free_between += block.size;
                    room += block.size;
                }
                mapped_to = block.addr + block.size;
                slot = block.next;
            }
        }
        gaps.unmapped
            .push((mapped_to, end.saturating_sub(mapped_to)));
        gaps
    }

    /// Bytes of a block and of the unmapped memory behind it. Behind the last mapped range of a
    /// pool there is more address space than the device has memory.
    fn room(&self, slot: Slot) -> u64 {
        const ALL_THE_REST: u64 = 1 << 56;
        let block = self.block(slot);
        if !block.expandable || block.next != Slot::NONE {
            return block.size;
        }
        let end = block.addr + block.size;
        let mut later = self.segments.range(end..).take(SEGMENTS_BEHIND);
        let next = later.find(|(_, first)| {
            let first = self.block(**first);
            first.pool == block.pool && first.expandable
        });
        block.size + next.map_or(ALL_THE_REST, |(base, _)| base - end)
    }
}
