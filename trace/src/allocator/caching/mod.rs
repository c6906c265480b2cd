//! The allocator as a whole: what it does when no free block fits, under any settings and limit.
//!
//! Source: `malloc`, `alloc_block`, `garbage_collect_cached_blocks`,
//! `release_available_cached_blocks`, `release_cached_blocks`, `try_allocate_expandable_block` of
//! `c10/cuda/CUDACachingAllocator.cpp`. [`Arena`] has the blocks and their rules; `driver` decides
//! where segments lie.

mod collect;

use super::driver::Driver;
pub use super::driver::{Call, Placement};
use super::{Arena, Config, PoolKey, Slot};
use crate::footprint::of_map;
use crate::stacks::FxHashMap;
use crate::trace::{Action, PoolId, PoolSize};
use crate::units::Bytes;
pub use collect::Threshold;
use collect::{COLLECTED, Learnt};
use std::collections::VecDeque;

/// A request that still failed after the allocator had given back everything that it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of memory: {segment} more than the limit allows")]
pub struct OutOfMemory {
    /// The segment that the driver refused.
    pub segment: Bytes,
}

/// Who refuses what exceeds a [`Limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuser {
    /// PyTorch itself, because a memory fraction was set. It checks the segment that would be made
    /// without expandable segments, and collects garbage above a share of the limit.
    Process,
    /// The driver, because the device is full. It refuses what would be mapped; nothing is
    /// collected before.
    Device,
}

/// How much memory the process may reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// This much.
    pub bytes: Bytes,
    /// Who refuses more.
    pub by: Refuser,
}

impl Limit {
    /// A memory fraction of so many bytes.
    pub fn of_process(bytes: Bytes) -> Limit {
        Limit {
            bytes,
            by: Refuser::Process,
        }
    }
}

/// The allocator of one device.
#[derive(Clone, Debug)]
pub struct Caching {
    arena: Arena,
    limit: Option<Limit>,
    reserved: u64,
    retries: u64,
    /// How often there was more to do than to hand out a free block.
    shortages: u64,
    /// Blocks that were given back but may still be in use on another stream, each with its owner.
    pending: FxHashMap<Slot, u32>,
    driver: Driver,
    /// Where the expandable segment of each pool begins.
    bases: FxHashMap<PoolKey, u64>,
    /// Where what was recorded as collected tells of the threshold: what it told so far.
    learnt: Option<Learnt>,
    /// What a recorder would have written about segments: action, pool, address, bytes.
    #[cfg(test)]
    pub(crate) noted: Vec<(Action, PoolKey, u64, u64)>,
}

/// No driver grants more in all, even without a limit.
const ADDRESS_SPACE: u64 = 1 << 48;

/// The first address of expandable segments, which no recording tells; and the address space of
/// each, which is more than any device has.
const EXPANDABLE: u64 = 1 << 60;
const SPACE: u64 = 1 << 44;

impl Caching {
    /// An allocator that holds nothing and has no limit. As long as it asks the driver for the same
    /// segments as in the recording, it gets the recorded addresses.
    pub fn new(config: Config, recorded: VecDeque<Call>) -> Caching {
        Caching::placing(config, recorded, Placement::Seen)
    }

    /// The same, with segments of which the recording says nothing at other places.
    pub fn placing(config: Config, recorded: VecDeque<Call>, placement: Placement) -> Caching {
        Caching {
            arena: Arena::new(config),
            limit: None,
            reserved: 0,
            retries: 0,
            shortages: 0,
            pending: FxHashMap::default(),
            driver: Driver::new(recorded, placement),
            bases: FxHashMap::default(),
            learnt: None,
            #[cfg(test)]
            noted: Vec::new(),
        }
    }

    /// Changes the limit on reserved memory from now on.
    pub fn set_limit(&mut self, limit: Option<Limit>) {
        self.limit = limit;
    }

    /// From now on collects what the recording collected, as far as it tells. Reserved memory up to
    /// `granted` was refused to no request.
    pub fn learn(&mut self, granted: Bytes) {
        let threshold = Threshold {
            at_least: 0,
            below: u64::MAX,
        };
        let granted = granted.0;
        self.learnt = Some(Learnt { threshold, granted });
    }

    /// What was learnt of the threshold above which garbage is collected.
    pub fn learnt(&self) -> Option<Threshold> {
        self.learnt.map(|learnt| learnt.threshold)
    }

    /// The blocks.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Bytes of all segments.
    pub fn reserved(&self) -> Bytes {
        Bytes(self.reserved)
    }

    /// Whether a segment lies at an address that the recording does not tell.
    pub fn is_guessed(&self) -> bool {
        self.driver.is_guessed()
    }

    /// How often a request failed at first and was tried again with an empty cache
    /// (`num_alloc_retries`).
    pub fn retries(&self) -> u64 {
        self.retries
    }

    /// How often no free block did, or all that was free was given back. Each time may have taken a
    /// look at every block, so whoever watches should look then.
    pub fn shortages(&self) -> u64 {
        self.shortages
    }

    /// About how many heap bytes this will use after `more` further blocks.
    pub fn heap_bytes_after(&self, more: usize) -> usize {
        self.arena.heap_bytes_after(more) + 3 * of_map(&self.pending) + of_map(&self.bases)
    }

    /// Takes over a segment, or a mapped range of an expandable one, as one free block. Call this
    /// for the lower ranges of a pool first.
    pub fn adopt(&mut self, key: PoolKey, addr: u64, size: Bytes, expandable: bool) -> Slot {
        self.reserved += size.0;
        match expandable {
            true => {
                self.bases.entry(key).or_insert(addr);
                self.arena.map(key, addr, size.0)
            }
            false => {
                self.driver.occupy(addr, size.0);
                self.arena.add_segment(key, addr, size.0)
            }
        }
    }

    /// Makes a range of a free block a block in use ([`Arena::occupy`]).
    pub fn occupy(&mut self, free: Slot, addr: u64, size: Bytes) -> Slot {
        self.arena.occupy(free, addr, size.0)
    }

    /// Hands out a block.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the request still fails with an empty cache.
    pub fn malloc(
        &mut self,
        pool: PoolId,
        stream: u64,
        requested: Bytes,
    ) -> Result<Slot, OutOfMemory> {
        let rounded = self.arena.config().round_size(requested.0);
        let key = PoolKey {
            pool,
            size: self.arena.config().pool_size(rounded),
            stream,
        };
        if self.collects().is_some() && (pool, key.size) == COLLECTED {
            self.arena.count_search();
        }
        let free = match self.arena.best_fit(key, rounded) {
            Some(free) => free,
            None => self.more_memory(key, rounded)?,
        };
        Ok(self.arena.take(free, rounded))
    }

    /// Makes a block free.
    pub fn free(&mut self, slot: Slot) {
        self.arena.free(slot);
    }

    /// The program has given a block back, but another stream may still use it.
    pub fn wait(&mut self, slot: Slot, owner: u32) {
        self.pending.insert(slot, owner);
    }

    /// No stream uses the block any more. It may be free already, because emptying the cache waits
    /// for all streams.
    pub fn complete(&mut self, slot: Slot, owner: u32) {
        if self.pending.get(&slot) == Some(&owner) {
            self.pending.remove(&slot);
            self.arena.free(slot);
        }
    }

    /// Gives back all segments that are free as a whole. This is `torch.cuda.empty_cache()`, and
    /// the last resort of a request that fails.
    pub fn empty_cache(&mut self) {
        self.shortages += 1;
        // In an order that is the same in every process.
        let mut pending: Vec<Slot> = std::mem::take(&mut self.pending).into_keys().collect();
        pending.sort_unstable_by_key(|&slot| self.arena.addr(slot));
        for slot in pending {
            // Only a defective recording gives a block back twice.
            if self.arena.is_used(slot) {
                self.arena.free(slot);
            }
        }
        self.release_pool(PoolId::default(), PoolSize::Large);
        self.release_pool(PoolId::default(), PoolSize::Small);
        for pool in self.arena.idle_pools() {
            self.release_pool(pool, PoolSize::Small);
            self.release_pool(pool, PoolSize::Large);
        }
    }

    /// Reserved memory above which cached segments are given back.
    fn collects(&self) -> Option<u64> {
        let threshold = self.arena.config().garbage_collection_threshold;
        let limit = self.limit.filter(|_| threshold > 0.0)?;
        let is_fraction = limit.by == Refuser::Process;
        is_fraction.then_some((threshold * limit.bytes.0 as f64) as u64)
    }

    fn more_memory(&mut self, key: PoolKey, rounded: u64) -> Result<Slot, OutOfMemory> {
        self.shortages += 1;
        self.collect(self.arena.config().segment_size(rounded));
        if let Some(free) = self.segment(key, rounded) {
            return Ok(free);
        }
        if self.release_oversize(key, rounded)
            && let Some(free) = self.segment(key, rounded)
        {
            return Ok(free);
        }
        let failed = OutOfMemory {
            segment: Bytes(self.arena.config().segment_size(rounded)),
        };
        // What is requested in a private pool is captured, and during a capture nothing is given
        // back.
        if key.pool != PoolId::default() {
            return Err(failed);
        }
        self.empty_cache();
        self.retries += 1;
        self.segment(key, rounded).ok_or(failed)
    }

    /// A free block that is large enough, from new memory of the driver, unless that would exceed
    /// the limit. Expandable segments map less, but a memory fraction is checked with the size of a
    /// normal segment, as PyTorch does; a full device refuses what would be mapped.
    fn segment(&mut self, key: PoolKey, rounded: u64) -> Option<Slot> {
        let size = self.arena.config().segment_size(rounded);
        let expandable = self.arena.config().expands(key.pool);
        let checked = self.limit.filter(|limit| match limit.by {
            Refuser::Process => true,
            Refuser::Device => !expandable,
        });
        let most = checked.map_or(ADDRESS_SPACE, |limit| limit.bytes.0.min(ADDRESS_SPACE));
        if self.reserved.saturating_add(size) > most {
            return None;
        }
        if expandable {
            return self.expand(key, rounded);
        }
        let addr = self.place(size);
        self.reserved += size;
        self.note(Action::SegmentAlloc, key, addr, size);
        Some(self.arena.add_segment(key, addr, size))
    }

    /// The address of a new segment. A defective recording may name one at which other memory lies,
    /// and the driver knows nothing of expandable segments: then it is asked again.
    fn place(&mut self, size: u64) -> u64 {
        loop {
            let addr = self.driver.allocate(size);
            match self.arena.mapped.within(addr, size) {
                None => return addr,
                Some((start, end)) => self.driver.occupy(start, end - start),
            }
        }
    }

    /// Maps pages behind the lowest free memory of the pool's expandable segment that can grow to
    /// `rounded` bytes; maps nothing if none can. What a full device refuses ends it; what was
    /// mapped before stays.
    fn expand(&mut self, key: PoolKey, rounded: u64) -> Option<Slot> {
        let page = self.arena.config().page(key.size);
        let base = self.base(key);
        let gaps = self.arena.gaps(key, base, base + SPACE, rounded);
        // Best fit may have refused an oversize block that is large enough: it is handed out here
        // without mapping anything.
        let mut grown = Some(gaps.free_before).filter(|&slot| slot != Slot::NONE);
        let mut have = grown.map_or(0, |slot| self.arena.size(slot));
        if gaps.reach(have) < rounded {
            return None;
        }
        for (addr, size) in gaps.unmapped {
            if have >= rounded {
                break;
            }
            let mapped = (rounded - have).next_multiple_of(page).min(size);
            if self.is_full(mapped) || !self.arena.has_room(addr, mapped) {
                return None;
            }
            self.reserved += mapped;
            self.note(Action::SegmentMap, key, addr, mapped);
            let slot = self.arena.map(key, addr, mapped);
            have = self.arena.size(slot);
            grown = Some(slot);
        }
        grown
    }

    /// Whether the device has no room for so many bytes.
    fn is_full(&self, more: u64) -> bool {
        let device = self.limit.filter(|limit| limit.by == Refuser::Device);
        device.is_some_and(|limit| self.reserved + more > limit.bytes.0)
    }

    /// Where the expandable segment of a pool begins.
    fn base(&mut self, key: PoolKey) -> u64 {
        let next = EXPANDABLE + self.bases.len() as u64 * SPACE;
        *self.bases.entry(key).or_insert(next)
    }

    /// Gives back a segment that is one free block. Returns its bytes.
    fn release(&mut self, slot: Slot) -> u64 {
        let (addr, size) = (self.arena.addr(slot), self.arena.size(slot));
        let key = self.arena.pool(slot);
        if self.arena.remove_segment(addr).is_err() {
            return 0;
        }
        self.note(Action::SegmentFree, key, addr, size);
        self.driver.free(addr);
        self.reserved -= size;
        size
    }

    /// Only tests write down what they run.
    fn note(&mut self, action: Action, key: PoolKey, addr: u64, size: u64) {
        #[cfg(test)]
        self.noted.push((action, key, addr, size));
        #[cfg(not(test))]
        let _ = (action, key, addr, size);
    }

    fn whole_and_free(&self, pool: PoolId, size: PoolSize) -> Vec<Slot> {
        let free = self.arena.free_blocks(pool, size);
        free.filter(|&slot| self.arena.is_whole(slot)).collect()
    }

    /// Gives back one cached oversize block that is large enough, or several that are together.
    /// Returns whether that was enough.
    fn release_oversize(&mut self, key: PoolKey, rounded: u64) -> bool {
        let Some(oversize) = self.arena.config().max_split_size else {
            return false;
        };
        let wanted = rounded.max(oversize);
        let fits = self.arena.free_from(key, wanted).next();
        if let Some(slot) = fits.filter(|&slot| !self.arena.is_expandable(slot)) {
            self.release(slot);
            return true;
        }
        let smaller = self.arena.free_from(key, oversize);
        let smaller = smaller.take_while(|&slot| self.arena.size(slot) < wanted);
        let smaller: Vec<Slot> = smaller.collect();
        let mut released = 0;
        for slot in smaller.into_iter().rev() {
            if released >= wanted {
                break;
            }
            if !self.arena.is_expandable(slot) {
                released += self.release(slot);
            }
        }
        released >= wanted
    }

    /// Gives back the segments of a pool that are free as a whole, and the free pages of expandable
    /// ones.
    fn release_pool(&mut self, pool: PoolId, size: PoolSize) {
        let free: Vec<Slot> = self.arena.free_blocks(pool, size).collect();
        let (expandable, plain): (Vec<Slot>, Vec<Slot>) = free
            .into_iter()
            .partition(|&slot| self.arena.is_expandable(slot));
        for slot in plain {
            if self.arena.is_whole(slot) {
                self.release(slot);
            }
        }
        let page = self.arena.config().page(size);
        for slot in expandable {
            let key = self.arena.pool(slot);
            let base = self.bases.get(&key).copied();
            let base = base.unwrap_or_default();
            let (start, end) = (
                self.arena.addr(slot),
                self.arena.addr(slot) + self.arena.size(slot),
            );
            let first = base + (start - base).next_multiple_of(page);
            let last = base + (end - base) / page * page;
            if first < last && self.arena.unmap(first, last - first).is_ok() {
                self.reserved -= last - first;
                self.note(Action::SegmentUnmap, key, first, last - first);
            }
        }
    }
}
