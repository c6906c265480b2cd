//! Runs the allocator along the recorded addresses, to find the true size of every block.

use super::areas::Areas;
use super::gone::{AllPassed, Passed, Segment, Side};
use super::initial::{Initial, Range};
use super::matching::Matched;
use crate::allocator::{Arena, Config, PoolKey, Slot};
use crate::footprint::{of_map, of_vec, of_vec_after};
use crate::snapshot::EventKind;
use crate::stacks::FxHashMap;
use crate::trace::{Action, Fidelity, NO_TARGET, PoolId, PoolSize};
use crate::watch::{EVERY, Stopped, Watch};

/// What the simulation could not follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Allocations at addresses that were not free in the simulation.
    pub outside: u64,
    /// Segment events that found no such segment, one in use, or other memory at the address.
    pub segments: u64,
}

/// What the simulation finds.
pub struct Simulated {
    /// Bytes of each block, in block order.
    pub size: Vec<u64>,
    /// Index into `pools` of each block.
    pub pool: Vec<u16>,
    /// The pools that occur.
    pub pools: Vec<(PoolId, PoolSize)>,
    pub fidelity: Fidelity,
    pub anomalies: Lost,
    /// Pre-existing blocks whose size a later allocation showed.
    pub resized_before: Vec<u32>,
    /// Free blocks that fit and were not used.
    pub passed: AllPassed,
}

struct Simulator<'a> {
    kinds: &'a [EventKind],
    /// Per event, its kind.
    rows: &'a [u32],
    matched: &'a Matched,
    arena: Arena,
    /// The slot of each block while it is in use or pending.
    slot: Vec<Slot>,
    /// The pre-existing block in a slot, for those whose size is not certain.
    uncertain: FxHashMap<Slot, u32>,
    /// The segment that the last event created.
    fresh: Option<Slot>,
    /// Segments of the usual kind that may be of another pool, by their address.
    unnamed: FxHashMap<u64, Segment>,
    /// Where expandable segments lie.
    areas: &'a Areas,
    /// Whether memory was given back to the driver since the last allocation.
    gave_back: bool,
    pool_ids: FxHashMap<(PoolId, PoolSize), u16>,
    /// The last pool of small blocks and the last one of large blocks, with their indexes.
    last_pools: [(PoolId, u16); 2],
    out: Simulated,
}

/// Runs the allocator's rules along the trace of one device.
pub fn run(
    config: &Config,
    kinds: &[EventKind],
    rows: &[u32],
    initial: &Initial,
    matched: &Matched,
    watch: Watch<'_>,
) -> Result<Simulated, Stopped> {
    let n_blocks = matched.blocks.len();
    watch.look(n_blocks * PER_BLOCK + matched.before.len() * PER_BEFORE)?;
    let watch = watch.beside(n_blocks * PER_BLOCK + matched.before.len() * PER_BEFORE);
    let mut simulator = Simulator {
        kinds,
        rows,
        matched,
        arena: Arena::new(config.clone()),
        slot: vec![Slot::NONE; n_blocks],
        uncertain: FxHashMap::default(),
        fresh: None,
        unnamed: FxHashMap::default(),
        areas: &initial.areas,
        gave_back: false,
        pool_ids: [PoolSize::Small, PoolSize::Large]
            .into_iter()
            .zip(0..)
            .map(|(size, index)| ((PoolId::default(), size), index))
            .collect(),
        last_pools: [(PoolId::default(), 0), (PoolId::default(), 1)],
        out: Simulated {
            size: vec![0; n_blocks],
            pool: vec![0; n_blocks],
            pools: vec![
                (PoolId::default(), PoolSize::Small),
                (PoolId::default(), PoolSize::Large),
            ],
            fidelity: Fidelity::default(),
            anomalies: Lost::default(),
            resized_before: Vec::new(),
            passed: AllPassed::default(),
        },
    };
    simulator.begin(initial);
    for event in 0..rows.len() {
        watch.at_row(event, || simulator.memory_soon())?;
        simulator.event(event, initial);
    }
    Ok(simulator.out)
}

/// Bytes of a block: its slot, size and pool.
const PER_BLOCK: usize = 4 + 8 + 2;
/// Bytes for a block that existed before the first event, in a list, a table and the arena.
const PER_BEFORE: usize = 160;

impl Simulated {
    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.size)
            + of_vec(&self.pool)
            + of_vec(&self.resized_before)
            + self.passed.heap_bytes()
    }

    /// Frees what is said of each block.
    pub fn forget_blocks(&mut self) {
        (self.size, self.pool) = (Vec::new(), Vec::new());
    }
}

impl Simulator<'_> {
    /// Bytes held besides those for each block, until the next check.
    fn memory_soon(&self) -> usize {
        let tables = of_map(&self.uncertain) + of_map(&self.pool_ids) + of_map(&self.unnamed);
        let found = of_vec_after(&self.out.pools, EVERY) + self.out.passed.heap_bytes();
        self.arena.heap_bytes_after(4 * EVERY) + 3 * tables + found
    }

    /// Sets up segments and the blocks that existed before the first event.
    fn begin(&mut self, initial: &Initial) {
        let mut before: Vec<u32> = (0..self.matched.blocks.n_preexisting).collect();
        before.sort_unstable_by_key(|&b| self.matched.before[b as usize].addr);
        let mut next = 0;
        for (&base, range) in &initial.segments {
            if !range.expandable && !range.pool_known {
                self.unnamed.insert(base, Segment::Before(base));
            }
            let free = match range.expandable {
                true => self.arena.map(range.key, base, range.size),
                false => self.arena.add_segment(range.key, base, range.size),
            };
            while next < before.len() && self.before_addr(before[next]) < base {
                self.homeless(before[next]);
                next += 1;
            }
            let first = next;
            while next < before.len() && self.before_addr(before[next]) < base + range.size {
                next += 1;
            }
            self.place_before(&before[first..next], base, range, free);
        }
        before[next..]
            .iter()
            .for_each(|&block| self.homeless(block));
    }

    fn before_addr(&self, block: u32) -> u64 {
        self.matched.before[block as usize].addr
    }

    /// The least size that a pre-existing block can have, and whether it is also the only possible
    /// size.
    fn known_size(&self, block: u32) -> (u64, bool) {
        let row = &self.matched.before[block as usize];
        match row.final_size {
            Some(size) => (size, true),
            None => (self.arena.config().round_size(row.requested), false),
        }
    }

    /// Places the pre-existing blocks of one segment, lowest first, inside of its free block.
    fn place_before(&mut self, blocks: &[u32], base: u64, range: &Range, mut free: Slot) {
        let unsplit = self.arena.config().largest_unsplit_remainder(&range.key);
        for (at, &block) in blocks.iter().enumerate() {
            let addr = self.before_addr(block);
            let end = match blocks.get(at + 1) {
                Some(&next) => self.before_addr(next),
                None => base + range.size,
            };
            let (known, certain) = self.known_size(block);
            let known = known.min(end - addr);
            // Every free block of the large pool is larger than 1 MiB. So a smaller gap is no free
            // block, but the remainder that stayed inside this block.
            let gap = end - addr - known;
            let size = if !certain && gap <= unsplit {
                end - addr
            } else {
                known
            };
            if self.arena.is_used(free) || addr < self.arena.addr(free) || size == 0 {
                self.homeless(block);
                continue;
            }
            let slot = self.arena.occupy(free, addr, size);
            self.settle(block, slot);
            if !certain && gap > unsplit {
                self.uncertain.insert(slot, block);
            }
            match self.arena.free_above(slot) {
                Some(above) => free = above,
                None => continue,
            }
        }
    }

    /// Records the slot of a block and its size.
    fn settle(&mut self, block: u32, slot: Slot) {
        let index = block as usize;
        self.slot[index] = slot;
        self.out.size[index] = self.arena.size(slot);
        let PoolKey { pool, size, .. } = self.arena.pool(slot);
        self.out.pool[index] = self.pool_index(pool, size);
    }

    fn pool_index(&mut self, pool: PoolId, size: PoolSize) -> u16 {
        let last = size as usize;
        if self.last_pools[last].0 != pool {
            self.last_pools[last] = (pool, self.known_pool(pool, size));
        }
        self.last_pools[last].1
    }

    fn known_pool(&mut self, pool: PoolId, size: PoolSize) -> u16 {
        if let Some(&known) = self.pool_ids.get(&(pool, size)) {
            return known;
        }
        // Only a hostile file has more than 65,536 pools; then the last one stands for all others.
        let index = u16::try_from(self.out.pools.len()).unwrap_or(u16::MAX);
        if self.out.pools.len() <= usize::from(u16::MAX) {
            self.out.pools.push((pool, size));
            self.pool_ids.insert((pool, size), index);
        }
        index
    }

    /// A block whose address is in no segment: it gets its rounded size.
    fn homeless(&mut self, block: u32) {
        let (size, _) = self.known_size(block);
        self.place_outside(block, size);
    }

    fn place_outside(&mut self, block: u32, size: u64) {
        self.out.anomalies.outside += 1;
        self.out.size[block as usize] = size;
        let pool = self.arena.config().pool_size(size);
        self.out.pool[block as usize] = self.pool_index(PoolId::default(), pool);
    }

    fn event(&mut self, event: usize, initial: &Initial) {
        let kind = &self.kinds[self.rows[event] as usize];
        let target = self.matched.events.target[event];
        let of_segment = || self.matched.events.segments[target as usize].addr.0;
        match kind.action {
            Action::Alloc => self.alloc(target, kind),
            Action::FreeCompleted if target != NO_TARGET => {
                let slot = std::mem::replace(&mut self.slot[target as usize], Slot::NONE);
                self.fresh = None;
                if slot != Slot::NONE {
                    if !self.uncertain.is_empty() {
                        self.uncertain.remove(&slot);
                    }
                    self.arena.free(slot);
                }
            }
            Action::SegmentAlloc | Action::SegmentMap => {
                let at = of_segment();
                let key = match initial.pool_of.get(&(event as u32)) {
                    Some(&(key, true)) => key,
                    Some(&(key, false)) => {
                        self.unnamed.insert(at, Segment::Made(event as u32));
                        key
                    }
                    None => initial.guess(kind, at),
                };
                self.fresh = self.more_memory(kind, key, at);
            }
            Action::SegmentFree => {
                (self.fresh, self.gave_back) = (None, true);
                self.unnamed.remove(&of_segment());
                let gone = self.arena.remove_segment(of_segment());
                self.out.anomalies.segments += u64::from(gone.is_err());
            }
            Action::SegmentUnmap => {
                (self.fresh, self.gave_back) = (None, true);
                let gone = self.arena.unmap(of_segment(), kind.size.0);
                self.out.anomalies.segments += u64::from(gone.is_err());
            }
            _ => {}
        }
    }

    /// The free block that a segment event makes, unless other memory lies at the address.
    fn more_memory(&mut self, kind: &EventKind, key: PoolKey, at: u64) -> Option<Slot> {
        if !self.arena.has_room(at, kind.size.0) {
            self.out.anomalies.segments += 1;
            return None;
        }
        Some(match kind.action {
            Action::SegmentAlloc => self.arena.add_segment(key, at, kind.size.0),
            _ => self.arena.map(key, at, kind.size.0),
        })
    }

    fn alloc(&mut self, block: u32, kind: &EventKind) {
        self.out.fidelity.allocs += 1;
        let at = self.matched.blocks.addr[block as usize].0;
        let rounded = self.arena.config().round_size(kind.size.0);
        // For nearly every allocation this is the right pool: the default pool of the event's
        // stream.
        let usual = PoolKey {
            pool: kind.pool.unwrap_or_default(),
            size: self.arena.config().pool_size(rounded),
            stream: kind.stream,
        };
        let fits = self.arena.best_fit(usual, rounded);
        // A new segment serves the request that it was asked for, oversize or not. With pages that
        // were mapped for the request, best fit may now choose another block.
        let fresh = self.fresh.take();
        let config = self.arena.config();
        let chosen = match config.expandable_segments && config.max_split_size.is_some() {
            true => fresh.or(fits),
            false => fits.or(fresh),
        };
        let chosen = chosen.or_else(|| self.arena.grown(usual, rounded));
        let gave_back = std::mem::take(&mut self.gave_back);
        if let Some(slot) = chosen
            && self.arena.addr(slot) == at
        {
            self.out.fidelity.predicted += 1;
            let slot = self.arena.take(slot, rounded);
            return self.settle(block, slot);
        }
        let Some(free) = self.arena.free_block_at(at) else {
            return self.place_outside(block, rounded);
        };
        // A request that waits for other streams asks only the driver afterwards, though blocks
        // may have become free (docs/allocator.md).
        if let Some(over) = chosen.filter(|_| kind.pool.is_none() && !gave_back) {
            self.pass(over, free, usual);
        }
        self.alloc_elsewhere(block, at, rounded, free);
    }

    /// Notes that a free block of the usual pool was passed over for one that counts as of this
    /// pool, too.
    fn pass(&mut self, over: Slot, used: Slot, usual: PoolKey) {
        let is_usual = |slot| self.arena.pool(slot) == usual;
        if !is_usual(over) || !is_usual(used) {
            return;
        }
        let side = |slot| {
            let unnamed = match self.arena.is_expandable(slot) {
                true => self.areas.unnamed(self.arena.addr(slot)).map(Segment::Area),
                false => self.unnamed.get(&self.arena.segment(slot)).copied(),
            };
            unnamed.map_or(Side::Default, Side::Unnamed)
        };
        let (over, used) = (side(over), side(used));
        self.out.passed.push(Passed { over, used });
    }

    /// An allocation that the usual pool would not have put at `at`.
    fn alloc_elsewhere(&mut self, block: u32, at: u64, rounded: u64, free: Slot) {
        let start = self.arena.addr(free);
        if start == at {
            // Another pool of the same allocator (for example a graph's) may still predict the
            // address.
            let predicted = self.arena.best_fit_like(free, rounded) == Some(free);
            self.out.fidelity.predicted += u64::from(predicted);
            let slot = self.arena.take(free, rounded);
            return self.settle(block, slot);
        }
        let gap = at - start;
        let unsplit = self
            .arena
            .config()
            .largest_unsplit_remainder(&self.arena.pool(free));
        let below = self.arena.used_below(free);
        let uncertain = below.and_then(|slot| self.uncertain.get(&slot).copied());
        match (below, uncertain) {
            (Some(below), Some(owner)) if gap <= unsplit => {
                // The block below kept a remainder that no event showed: now its size is known.
                self.arena.grow_used(below, gap);
                self.out.size[owner as usize] += gap;
                self.out.resized_before.push(owner);
                self.uncertain.remove(&below);
                let slot = self.arena.take(free, rounded);
                self.settle(block, slot);
            }
            _ => {
                let slot = self.arena.occupy(free, at, rounded);
                self.settle(block, slot);
            }
        }
    }
}
