//! PyTorch's caching allocator: rounding, pools, best fit, splitting, coalescing.
//!
//! Source: `c10/cuda/CUDACachingAllocator.cpp` and `AllocatorConfig`, as described in
//! docs/allocator.md. [`Arena`] holds the blocks and the rules. It does not know where segments
//! come from: the replay follows recorded addresses, the engine asks a device.

pub mod caching;
pub mod conf;
mod config;
mod driver;
mod fit;
mod free_list;
mod mapped;
mod order;
mod settings;

use crate::footprint::{of_map, of_vec_after};
use crate::stacks::FxHashMap;
use crate::trace::{BlockKind, PoolId, PoolSize};
pub use config::{
    Config, LARGE_BUFFER, MIN_BLOCK, MIN_LARGE_ALLOC, PADDING, ROUND_LARGE, SMALL_BUFFER,
    SMALL_SIZE, Ties,
};
pub use fit::Gaps;
use free_list::FreeList;
use mapped::Mapped;
use std::collections::BTreeMap;

/// A pool of free blocks. Blocks of different pools are never mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolKey {
    /// Default, graph or user pool.
    pub pool: PoolId,
    /// Small or large.
    pub size: PoolSize,
    /// Owner stream.
    pub stream: u64,
}

impl PoolKey {
    /// The pool of blocks of a kind.
    pub fn of(kind: &BlockKind) -> PoolKey {
        PoolKey {
            pool: kind.pool,
            size: kind.pool_size,
            stream: kind.stream,
        }
    }
}

/// A block of an [`Arena`]; valid until it is merged away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(u32);

impl Slot {
    /// Stands for no block.
    pub const NONE: Slot = Slot(u32::MAX);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Used,
    /// Merged away or returned to the driver; the entry can be used again.
    Vacant,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    addr: u64,
    size: u64,
    prev: Slot,
    next: Slot,
    pool: u16,
    state: State,
    /// Whether it lies in an expandable segment.
    expandable: bool,
    /// Whose number it is, [`Ties`] says: the segment's or the block's. Among free blocks of equal
    /// size the lowest may come first.
    age: u32,
    /// The value of [`Arena::searches`] when it became free.
    listed_at: u64,
}

#[derive(Clone, Debug)]
struct Pool {
    key: PoolKey,
    free: FreeList,
    /// Whose it is: a position in [`Arena::owners`].
    owner: u32,
    /// The next pool of the same owner and size, or [`NO_POOL`].
    next: u16,
    /// The age of its expandable segment, if it has one.
    expandable: Option<u32>,
}

/// Stands for no pool.
const NO_POOL: u16 = u16::MAX;

/// What one default, graph or user pool holds, of all streams and sizes.
#[derive(Clone, Debug)]
struct Owner {
    pool: PoolId,
    blocks: u32,
    used: u32,
    /// The first pool of small and of large blocks, or [`NO_POOL`].
    first: [u16; 2],
}

/// Why a segment cannot be changed as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// No such segment.
    #[error("no segment starts there")]
    Unknown,
    /// A block in it is in use.
    #[error("the range is not free as a whole")]
    InUse,
}

/// The blocks of one device: free and used, linked by address within their segment.
#[derive(Clone, Debug)]
pub struct Arena {
    config: Config,
    blocks: Vec<Block>,
    vacant: Vec<Slot>,
    pools: Vec<Pool>,
    pool_ids: FxHashMap<PoolKey, u16>,
    owners: Vec<Owner>,
    owner_ids: FxHashMap<PoolId, u32>,
    /// First block of each segment or mapped range. Merging keeps the lower block, so the entry
    /// stays right for the life of the segment.
    segments: BTreeMap<u64, Slot>,
    /// The addresses of all segments and mapped ranges.
    mapped: Mapped,
    /// Blocks looked at in search of an address.
    searched: u64,
    /// Blocks by address. Kept once searching has cost more than keeping this index.
    by_address: Option<BTreeMap<u64, Slot>>,
    /// Pools that have shelves.
    shelved: usize,
    /// The clock that the age of free blocks is counted in (`get_free_blocks_call_count`).
    searches: u64,
    /// How many segments, or blocks, were numbered ([`Ties`]).
    numbered: u32,
}

/// How many blocks are looked at in search of an address before an index is kept. Real traces stay
/// far below. In a hostile trace, every allocation may lie where the rules do not put it.
const SEARCH_BEFORE_INDEX: u64 = 30_000_000;

/// Bytes of the smallest free list.
const PER_LIST: usize = 256;

/// The most pools that have shelves.
const MOST_SHELVED: usize = 16;

impl Arena {
    /// An arena without segments.
    pub fn new(config: Config) -> Arena {
        Arena {
            config,
            blocks: Vec::new(),
            vacant: Vec::new(),
            pools: Vec::new(),
            pool_ids: FxHashMap::default(),
            owners: Vec::new(),
            owner_ids: FxHashMap::default(),
            segments: BTreeMap::new(),
            mapped: Mapped::default(),
            searched: 0,
            by_address: None,
            shelved: 0,
            searches: 0,
            numbered: 0,
        }
    }

    /// The rules in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Base of a block.
    pub fn addr(&self, slot: Slot) -> u64 {
        self.block(slot).addr
    }

    /// Bytes of a block.
    pub fn size(&self, slot: Slot) -> u64 {
        self.block(slot).size
    }

    /// Pool of a block.
    pub fn pool(&self, slot: Slot) -> PoolKey {
        self.pools[usize::from(self.block(slot).pool)].key
    }

    /// Whether a block is in use.
    pub fn is_used(&self, slot: Slot) -> bool {
        self.block(slot).state == State::Used
    }

    /// Base of the segment or mapped range that a block lies in.
    pub fn segment(&self, slot: Slot) -> u64 {
        let below = |slot: &Slot| Some(self.block(*slot).prev).filter(|&prev| prev != Slot::NONE);
        let lowest = std::iter::successors(Some(slot), below).last();
        self.addr(lowest.unwrap_or(slot))
    }

    /// Whether a block lies in an expandable segment.
    pub fn is_expandable(&self, slot: Slot) -> bool {
        self.block(slot).expandable
    }

    /// Whether a block is a whole segment or mapped range.
    pub fn is_whole(&self, slot: Slot) -> bool {
        let block = self.block(slot);
        block.prev == Slot::NONE && block.next == Slot::NONE
    }

    /// Counts a search: all free blocks are now older by one.
    pub fn count_search(&mut self) {
        self.searches += 1;
    }

    /// Searches counted since a block became free.
    pub fn age(&self, slot: Slot) -> u64 {
        self.searches - self.block(slot).listed_at
    }

    /// The free blocks of a pool, of all its streams: by stream, size, rank.
    pub fn free_blocks(&self, pool: PoolId, size: PoolSize) -> impl Iterator<Item = Slot> + '_ {
        let owner = self.owner_ids.get(&pool);
        let first = owner.map_or(NO_POOL, |&at| self.owners[at as usize].first[size as usize]);
        let pool = |id: u16| self.pools.get(usize::from(id)).filter(|_| id != NO_POOL);
        let all = std::iter::successors(pool(first), |one| pool(one.next));
        let mut pools: Vec<&Pool> = all.collect();
        pools.sort_unstable_by_key(|pool| pool.key.stream);
        pools.into_iter().flat_map(|pool| pool.free.fits(0))
    }

    /// The free blocks of one stream of a pool that have at least `size` bytes, smallest first.
    pub fn free_from(&self, key: PoolKey, size: u64) -> impl Iterator<Item = Slot> + '_ {
        let pool = self
            .pool_ids
            .get(&key)
            .map(|&id| &self.pools[usize::from(id)]);
        pool.into_iter().flat_map(move |pool| pool.free.fits(size))
    }

    /// Private pools that hold memory, none of it in use: nobody can need that memory any more.
    pub fn idle_pools(&self) -> Vec<PoolId> {
        let is_idle =
            |owner: &&Owner| owner.blocks > 0 && owner.used == 0 && owner.pool != PoolId::default();
        let idle = self.owners.iter().filter(is_idle);
        idle.map(|owner| owner.pool).collect()
    }

    fn block(&self, slot: Slot) -> &Block {
        &self.blocks[slot.0 as usize]
    }

    fn block_mut(&mut self, slot: Slot) -> &mut Block {
        &mut self.blocks[slot.0 as usize]
    }

    fn pool_id(&mut self, key: PoolKey) -> u16 {
        if let Some(&id) = self.pool_ids.get(&key) {
            return id;
        }
        // Streams and pools are handles of a running process. Thousands of them mean a
        // defective file. They then share the last pool, which only lowers the fidelity.
        let next = u16::try_from(self.pools.len()).ok();
        let own = next.filter(|&id| id < NO_POOL);
        let owner = self.owner(key.pool);
        let id = own.unwrap_or(NO_POOL - 1);
        let mut behind = NO_POOL;
        if own.is_some() {
            let first = &mut self.owners[owner as usize].first[key.size as usize];
            behind = std::mem::replace(first, id);
        }
        self.pools.push(Pool {
            key,
            free: FreeList::default(),
            owner,
            next: behind,
            expandable: None,
        });
        self.pool_ids.insert(key, id);
        id
    }

    /// The owner of a pool's memory.
    fn owner(&mut self, pool: PoolId) -> u32 {
        let owners = &mut self.owners;
        *self.owner_ids.entry(pool).or_insert_with(|| {
            owners.push(Owner {
                pool,
                blocks: 0,
                used: 0,
                first: [NO_POOL; 2],
            });
            (owners.len() - 1) as u32
        })
    }

    /// Changes what a block is, and counts it.
    fn become_now(&mut self, slot: Slot, state: State) {
        let block = &mut self.blocks[slot.0 as usize];
        let before = std::mem::replace(&mut block.state, state);
        let pool = &self.pools[usize::from(block.pool)];
        let owner = &mut self.owners[pool.owner as usize];
        owner.blocks -= u32::from(state == State::Vacant && before != State::Vacant);
        owner.used += u32::from(state == State::Used);
        owner.used -= u32::from(before == State::Used);
    }

    fn insert(&mut self, block: Block) -> Slot {
        let owner = self.pools[usize::from(block.pool)].owner;
        self.owners[owner as usize].blocks += 1;
        let slot = match self.vacant.pop() {
            Some(slot) => {
                *self.block_mut(slot) = block;
                slot
            }
            None => {
                let slot = Slot(u32::try_from(self.blocks.len()).expect("fewer than 2^32 blocks"));
                self.blocks.push(block);
                slot
            }
        };
        if let Some(index) = &mut self.by_address {
            index.insert(block.addr, slot);
        }
        slot
    }

    /// Whether memory can be added at `[addr, addr + size)`: it is not empty, and no segment or
    /// mapped range lies there.
    pub fn has_room(&self, addr: u64, size: u64) -> bool {
        size > 0 && self.mapped.within(addr, size).is_none()
    }

    /// Adds a segment as one free block (`cudaMalloc`), where there is room for it.
    pub fn add_segment(&mut self, key: PoolKey, addr: u64, size: u64) -> Slot {
        self.mapped.add(addr, size);
        let pool = self.pool_id(key);
        let age = self.next_age();
        self.add_range(addr, size, (pool, age, false))
    }

    /// Adds a range that no block lies next to.
    fn add_range(
        &mut self,
        addr: u64,
        size: u64,
        (pool, age, expandable): (u16, u32, bool),
    ) -> Slot {
        let slot = self.insert(Block {
            addr,
            size,
            prev: Slot::NONE,
            next: Slot::NONE,
            pool,
            state: State::Free,
            expandable,
            age,
            listed_at: 0,
        });
        self.list(slot);
        self.segments.insert(addr, slot);
        slot
    }

    /// Takes a wholly free segment away (`cudaFree`).
    ///
    /// # Errors
    /// When there is no such segment, or part of it is in use.
    pub fn remove_segment(&mut self, addr: u64) -> Result<(), SegmentError> {
        let slot = *self.segments.get(&addr).ok_or(SegmentError::Unknown)?;
        let block = *self.block(slot);
        if block.state != State::Free || block.next != Slot::NONE {
            return Err(SegmentError::InUse);
        }
        self.unlist(slot);
        self.vacate(slot);
        self.segments.remove(&addr);
        self.mapped.remove(addr, block.size);
        Ok(())
    }

    fn vacate(&mut self, slot: Slot) {
        self.leave_index(slot);
        self.become_now(slot, State::Vacant);
        self.vacant.push(slot);
    }

    /// Maps `[addr, addr + size)` of an expandable segment as free memory, joined to neighbours
    /// of the same pool. There is room for it.
    pub fn map(&mut self, key: PoolKey, addr: u64, size: u64) -> Slot {
        self.mapped.add(addr, size);
        let pool = self.pool_id(key);
        let below = self.block_where(addr.checked_sub(1), |b| b.addr + b.size == addr);
        let above = self.block_where(addr.checked_add(size), |b| b.addr == addr + size);
        let [below, above] = [below, above].map(|found| {
            let joins = found.filter(|&slot| self.block(slot).pool == pool);
            joins.unwrap_or(Slot::NONE)
        });
        let age = self.age_of_pages(pool);
        let slot = self.add_range(addr, size, (pool, age, true));
        if above != Slot::NONE {
            self.segments.remove(&(addr + size));
            self.block_mut(slot).next = above;
            self.block_mut(above).prev = slot;
        }
        if below != Slot::NONE {
            self.segments.remove(&addr);
            self.block_mut(slot).prev = below;
            self.block_mut(below).next = slot;
        }
        self.unlist(slot);
        self.coalesce(slot)
    }

    /// Unmaps a free range of an expandable segment.
    ///
    /// # Errors
    /// When no free block holds the whole range, or the range is empty.
    pub fn unmap(&mut self, addr: u64, size: u64) -> Result<(), SegmentError> {
        let slot = self.free_block_at(addr).filter(|_| size > 0);
        let slot = slot.ok_or(SegmentError::Unknown)?;
        let block = *self.block(slot);
        if addr + size > block.addr + block.size {
            return Err(SegmentError::InUse);
        }
        self.mapped.remove(addr, size);
        self.unlist(slot);
        let (head, tail) = (addr - block.addr, block.addr + block.size - addr - size);
        if tail > 0 {
            let age = self.age_of_pages(block.pool);
            let upper = self.add_range(addr + size, tail, (block.pool, age, true));
            self.relink(upper, Slot::NONE, block.next);
        } else if block.next != Slot::NONE {
            self.relink(block.next, Slot::NONE, self.block(block.next).next);
            self.segments.insert(addr + size, block.next);
        }
        if head > 0 {
            let lower = self.block_mut(slot);
            lower.size = head;
            lower.next = Slot::NONE;
            self.list(slot);
        } else {
            if block.prev == Slot::NONE {
                self.segments.remove(&block.addr);
            } else {
                self.block_mut(block.prev).next = Slot::NONE;
            }
            self.vacate(slot);
        }
        Ok(())
    }

    fn relink(&mut self, slot: Slot, prev: Slot, next: Slot) {
        let block = self.block_mut(slot);
        block.prev = prev;
        block.next = next;
        if next != Slot::NONE {
            self.block_mut(next).prev = slot;
        }
    }

    /// The free block that holds `addr`, for addresses the rules did not predict.
    pub fn free_block_at(&mut self, addr: u64) -> Option<Slot> {
        self.block_where(Some(addr), |block| {
            block.state == State::Free && block.addr <= addr && addr < block.addr + block.size
        })
    }

    /// The block for which `is` holds; only the block that holds `addr` can be it. Scans all
    /// blocks, as long as scans are rare; later an index is used.
    fn block_where(&mut self, addr: Option<u64>, is: impl Fn(&Block) -> bool) -> Option<Slot> {
        let addr = addr?;
        if let Some(index) = &self.by_address {
            let (_, &slot) = index.range(..=addr).next_back()?;
            return is(self.block(slot)).then_some(slot);
        }
        let live = |block: &Block| block.state != State::Vacant && is(block);
        let found = self.blocks.iter().position(live);
        self.searched += found.unwrap_or(self.blocks.len()) as u64;
        if self.searched > SEARCH_BEFORE_INDEX {
            self.keep_index();
        }
        found.map(|index| Slot(index as u32))
    }

    fn keep_index(&mut self) {
        let blocks = self.blocks.iter().enumerate();
        let live = blocks.filter(|(_, block)| block.state != State::Vacant);
        let index = live.map(|(at, block)| (block.addr, Slot(at as u32)));
        self.by_address = Some(index.collect());
    }

    /// If several blocks have the same address, the index has the last one.
    fn leave_index(&mut self, slot: Slot) {
        let addr = self.block(slot).addr;
        if let Some(index) = &mut self.by_address
            && index.get(&addr) == Some(&slot)
        {
            index.remove(&addr);
        }
    }

    /// About how many heap bytes this will use after `more` further blocks.
    pub fn heap_bytes_after(&self, more: usize) -> usize {
        let blocks = of_vec_after(&self.blocks, more);
        let index = self.by_address.as_ref().map_or(0, BTreeMap::len);
        // A free list needs three words for a block, and its runs are half full.
        let lists = blocks / size_of::<Block>() * 48 + self.pools.len() * PER_LIST;
        let shelves = self.pools.len().min(MOST_SHELVED) * FreeList::BYTES_OF_SHELVES;
        // A full table moves to a larger one: while it moves, both exist.
        let pools = of_vec_after(&self.pools, more) + 3 * of_map(&self.pool_ids);
        let pools = pools + of_vec_after(&self.owners, more) + 3 * of_map(&self.owner_ids);
        let trees = self.segments.len() + self.mapped.len() + index;
        blocks + lists + shelves + pools + trees * 32
    }

    /// The used block that ends where `slot` begins, in the same segment.
    pub fn used_below(&self, slot: Slot) -> Option<Slot> {
        let prev = self.block(slot).prev;
        (prev != Slot::NONE && self.is_used(prev)).then_some(prev)
    }

    /// The free block that begins where `slot` ends, in the same segment.
    pub fn free_above(&self, slot: Slot) -> Option<Slot> {
        let next = self.block(slot).next;
        (next != Slot::NONE && !self.is_used(next)).then_some(next)
    }

    /// Hands out a free block for a rounded request, and splits it by the rules.
    pub fn take(&mut self, slot: Slot, rounded: u64) -> Slot {
        let Block { size, pool, .. } = *self.block(slot);
        let key = &self.pools[usize::from(pool)].key;
        let remaining = size.saturating_sub(rounded);
        if self.config.splits(key, rounded, remaining) {
            let listed = self.key(slot);
            let upper = self.split(slot, rounded);
            self.relist(listed, upper);
        } else {
            self.unlist(slot);
        }
        self.become_now(slot, State::Used);
        slot
    }

    /// Leaves `size` bytes in `slot` and makes the rest a free block.
    fn cut(&mut self, slot: Slot, size: u64) {
        let upper = self.split(slot, size);
        self.list(upper);
    }

    /// Leaves `size` bytes in `slot`; the rest becomes a free block that is not listed yet. Each of
    /// the two has an age of its own where the age is that of a block: the lower part is a new
    /// block, and the rest goes on as the old one.
    fn split(&mut self, slot: Slot, size: u64) -> Slot {
        let block = *self.block(slot);
        let upper = self.insert(Block {
            addr: block.addr + size,
            size: block.size - size,
            prev: slot,
            next: block.next,
            pool: block.pool,
            state: State::Free,
            expandable: block.expandable,
            age: block.age,
            listed_at: 0,
        });
        if block.next != Slot::NONE {
            self.block_mut(block.next).prev = upper;
        }
        let lower = self.block_mut(slot);
        lower.size = size;
        lower.next = upper;
        if self.config.ties == Ties::BlockAge {
            self.block_mut(slot).age = self.next_age();
        }
        upper
    }

    /// Moves the border between a used block and the free block above it up by `bytes`. This is for
    /// a used block that turns out to contain a remainder that was never split off.
    pub fn grow_used(&mut self, used: Slot, bytes: u64) {
        let free = self.block(used).next;
        self.unlist(free);
        self.leave_index(free);
        self.block_mut(used).size += bytes;
        let above = self.block_mut(free);
        above.addr += bytes;
        above.size -= bytes;
        let addr = above.addr;
        if let Some(index) = &mut self.by_address {
            index.insert(addr, free);
        }
        self.list(free);
    }

    /// Makes exactly `[addr, addr + size)` of a free block a used block, whatever the rules say.
    /// This serves the state before a trace begins, and addresses that the rules cannot explain.
    /// The range is clipped to the free block. Nobody knows when a gap below it was made: it counts
    /// as requested just before the range, and given back.
    pub fn occupy(&mut self, slot: Slot, addr: u64, size: u64) -> Slot {
        let head = addr - self.block(slot).addr;
        self.unlist(slot);
        let slot = if head == 0 {
            slot
        } else {
            self.cut(slot, head);
            let upper = self.block(slot).next;
            self.unlist(upper);
            self.list(slot);
            upper
        };
        if self.block(slot).size > size {
            self.cut(slot, size);
        }
        self.become_now(slot, State::Used);
        slot
    }

    /// Returns a used block and joins it with free neighbours. The result is the block that now
    /// holds it.
    pub fn free(&mut self, slot: Slot) -> Slot {
        self.become_now(slot, State::Free);
        self.coalesce(slot)
    }

    /// Joins an unlisted free block with its free neighbours and lists the result. The lowest entry
    /// survives.
    fn coalesce(&mut self, slot: Slot) -> Slot {
        let Block {
            prev, next, age, ..
        } = *self.block(slot);
        let free = |arena: &Arena, slot: Slot| {
            slot != Slot::NONE && arena.block(slot).state == State::Free
        };
        let (joins_prev, joins_next) = (free(self, prev), free(self, next));
        // The entry of a neighbour becomes that of the whole.
        let listed = match (joins_prev, joins_next) {
            (true, _) => Some(self.key(prev)),
            (false, true) => Some(self.key(next)),
            (false, false) => None,
        };
        if joins_next {
            if joins_prev {
                self.unlist(next);
            }
            self.absorb_next(slot);
        }
        let lowest = if joins_prev {
            self.absorb_next(prev);
            prev
        } else {
            slot
        };
        if self.config.ties == Ties::BlockAge {
            // The block that was given back goes on; it takes in its neighbours.
            self.block_mut(lowest).age = age;
        }
        match listed {
            Some(listed) => self.relist(listed, lowest),
            None => self.list(lowest),
        }
        lowest
    }

    /// Joins a block with the one above it; neither is listed.
    fn absorb_next(&mut self, slot: Slot) {
        let upper = self.block(slot).next;
        let Block { size, next, .. } = *self.block(upper);
        let lower = self.block_mut(slot);
        lower.size += size;
        lower.next = next;
        if next != Slot::NONE {
            self.block_mut(next).prev = slot;
        }
        self.vacate(upper);
    }

    /// Every block: address, size, whether it is used; in no order.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, u64, bool)> + '_ {
        let live = self
            .blocks
            .iter()
            .filter(|block| block.state != State::Vacant);
        live.map(|block| (block.addr, block.size, block.state == State::Used))
    }
}

#[cfg(test)]
mod tests;
