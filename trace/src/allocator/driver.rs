//! Where the driver puts segments.
//!
//! PyTorch's allocator does not control where `cudaMalloc` puts memory. But among free blocks of
//! one size it takes the lowest, so the place matters a little. As long as segments are requested
//! and given back as in the recording, they get their recorded addresses. From the first difference
//! on, they lie where CUDA was seen to put them (driver 580, in every recording at hand). Address
//! space is reserved 32 MiB at a time, as high as there is room below all earlier chunks. The rest
//! of the newest such chunk serves later segments that fit.

use crate::stacks::fx_hash;
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Granule of reserved address space, bytes.
const CHUNK: u64 = 32 << 20;
/// The first segment lies below this address, unless something was recorded.
const TOP: u64 = 1 << 46;
/// How many chunks are searched for room for a segment, newest first.
const LOOKED_AT: usize = 256;
/// From this number on, an order is drawn at random.
const FIRST_DRAWN: u32 = 7;
/// How often a place is drawn before the usual one is taken.
const DRAWS: u32 = 8;
/// So many chunks are places to be drawn: a power of two, much more than a process has.
const PLACES: u64 = 1 << 20;

/// How new address space is chosen where the recording does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// As CUDA was seen to do it: as high as there is room below what was reserved before.
    #[default]
    Seen,
    /// Now above everything and now below. A process also maps files and host memory, and what it
    /// unmaps makes room above: in two runs of one program, segments do not lie in the same order.
    /// The number chooses the order, always the same; 0 is upwards only. From 7 on each chunk
    /// lies anywhere: CUDA also fills room between what it has, and goes both ways in turn. Every
    /// second order places the segments anew, too, of which the recording tells the addresses: in
    /// another run of the program they lie elsewhere.
    Other(u32),
}

impl Placement {
    /// Whether recorded addresses count.
    fn keeps_recorded(self) -> bool {
        match self {
            Placement::Seen => true,
            Placement::Other(order) => order % 2 == 0,
        }
    }

    /// Whether the chunk with this number lies above everything.
    fn is_above(self, chunk: u32) -> bool {
        match self {
            Placement::Seen => false,
            Placement::Other(0) => true,
            // A quarter, half or three quarters of all chunks.
            Placement::Other(order) => fx_hash(&(order, chunk)) >> 62 <= u64::from(order % 3),
        }
    }
}

/// A recorded call of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A segment of this size was requested and got this address.
    Allocate {
        /// Its address.
        addr: u64,
        /// Its bytes.
        size: u64,
    },
    /// The segment at this address was given back.
    Free {
        /// Its address.
        addr: u64,
    },
}

/// The address space of one process.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    recorded: VecDeque<Call>,
    placement: Placement,
    /// How many times address space was reserved.
    reserved: u32,
    /// Whether a segment lies where no recording says.
    is_guessed: bool,
    /// The chunk that drawn places lie around.
    around: Option<u64>,
    /// How many chunks were looked at in search of room.
    #[cfg(test)]
    looks: usize,
    /// By address.
    chunks: BTreeMap<u64, Chunk>,
    /// The chunks that have room, oldest first. Some of them may no longer exist.
    with_room: Vec<u64>,
    /// The same, to look one up.
    listed: HashSet<u64>,
    /// Address space that was given back: start and end.
    holes: BTreeMap<u64, u64>,
    /// Nothing was reserved below this address yet.
    floor: u64,
    /// Nothing was reserved above this address yet.
    ceiling: u64,
}

#[derive(Clone, Debug)]
struct Chunk {
    end: u64,
    /// Segments: start and end.
    segments: BTreeMap<u64, u64>,
}

impl Chunk {
    /// The lowest address at which `size` bytes are free.
    fn room(&self, base: u64, size: u64) -> Option<u64> {
        let mut at = base;
        for (&start, &end) in &self.segments {
            if start.saturating_sub(at) >= size {
                return Some(at);
            }
            at = at.max(end);
        }
        (self.end.saturating_sub(at) >= size).then_some(at)
    }
}

impl Driver {
    pub fn new(mut recorded: VecDeque<Call>, placement: Placement) -> Driver {
        if !placement.keeps_recorded() {
            recorded.clear();
        }
        Driver {
            recorded,
            placement,
            reserved: 0,
            is_guessed: false,
            around: None,
            #[cfg(test)]
            looks: 0,
            chunks: BTreeMap::new(),
            with_room: Vec::new(),
            listed: HashSet::new(),
            holes: BTreeMap::new(),
            floor: TOP,
            ceiling: TOP,
        }
    }

    /// Whether a segment lies where no recording says.
    pub fn is_guessed(&self) -> bool {
        self.is_guessed
    }

    /// The segments that the recording gives back next, before it requests one. `None` where the
    /// recording no longer tells.
    pub fn given_back_next(&self) -> Option<HashSet<u64>> {
        self.recorded.front()?;
        let frees = self.recorded.iter().map_while(|call| match call {
            Call::Free { addr } => Some(*addr),
            Call::Allocate { .. } => None,
        });
        Some(frees.collect())
    }

    /// Chooses the address of a new segment.
    pub fn allocate(&mut self, size: u64) -> u64 {
        if let Some(&Call::Allocate { addr, size: asked }) = self.recorded.front()
            && asked == size
        {
            self.recorded.pop_front();
            self.occupy(addr, size);
            return addr;
        }
        self.recorded.clear();
        self.is_guessed = true;
        let addr = self.rest(size).unwrap_or_else(|| self.reserve(size));
        self.occupy(addr, size);
        addr
    }

    /// Gives a segment back.
    pub fn free(&mut self, addr: u64) {
        match self.recorded.front() {
            Some(Call::Free { addr: at }) if *at == addr => {
                self.recorded.pop_front();
            }
            _ => self.recorded.clear(),
        }
        let Some((&base, chunk)) = self.chunks.range_mut(..=addr).next_back() else {
            return;
        };
        chunk.segments.remove(&addr);
        let end = chunk.end;
        if chunk.segments.is_empty() {
            self.chunks.remove(&base);
            self.give_back(base, end);
        } else if self.listed.insert(base) {
            self.with_room.push(base);
        }
    }

    /// Puts a segment at a recorded address. Recorded segments need not fit our chunks, because a
    /// simulated device puts them elsewhere. So chunks that would overlap become one, and a chunk
    /// that would reach into another ends there.
    pub fn occupy(&mut self, addr: u64, size: u64) {
        let end = addr.saturating_add(size);
        let below = self.chunks.range(..=addr).next_back();
        let below = below.map(|(&base, chunk)| (base, chunk.end));
        let known = below.filter(|(_, chunk_end)| addr < *chunk_end);
        let base = match known {
            Some((base, _)) => base,
            None => (addr - addr % CHUNK).max(below.map_or(0, |(_, end)| end)),
        };
        let chunk = self.chunks.remove(&base);
        let mut chunk = chunk.unwrap_or_else(|| Chunk {
            end,
            segments: BTreeMap::new(),
        });
        chunk.segments.insert(addr, end);
        chunk.end = chunk.end.max(end);
        while let Some((&next, _)) = self.chunks.range(base..chunk.end).next() {
            let other = self.chunks.remove(&next);
            let other = other.expect("it was found");
            chunk.end = chunk.end.max(other.end);
            chunk.segments.extend(other.segments);
        }
        if known.is_none() {
            let granules = end.checked_next_multiple_of(CHUNK).unwrap_or(end);
            let above = self.chunks.range(chunk.end..).next();
            let room = above.map_or(granules, |(&above, _)| above.min(granules));
            chunk.end = chunk.end.max(room);
            let is_first = self.chunks.is_empty() && self.holes.is_empty();
            (self.floor, self.ceiling) = match is_first {
                true => (base, base),
                false => (self.floor.min(base), self.ceiling),
            };
            self.with_room.push(base);
            self.listed.insert(base);
        }
        self.ceiling = self.ceiling.max(chunk.end);
        self.fill_holes(base, chunk.end);
        self.chunks.insert(base, chunk);
    }

    /// Removes `[from, to)` from the holes.
    fn fill_holes(&mut self, from: u64, to: u64) {
        let reached: Vec<(u64, u64)> = self
            .holes
            .range(..to)
            .rev()
            .map(|(&base, &end)| (base, end))
            .take_while(|&(_, end)| end > from)
            .collect();
        for (base, end) in reached {
            self.holes.remove(&base);
            for (base, end) in [(base, from.min(end)), (to.max(base), end)] {
                if base < end {
                    self.holes.insert(base, end);
                }
            }
        }
    }

    /// Room in a chunk; the newest chunk that has it. A chunk that is full, or gone, is taken from
    /// the list when it is met, and not looked for: there may be tens of thousands of chunks.
    fn rest(&mut self, size: u64) -> Option<u64> {
        let (mut at, mut looked_at) = (self.with_room.len(), 0);
        while at > 0 && looked_at < LOOKED_AT {
            at -= 1;
            #[cfg(test)]
            {
                self.looks += 1;
            }
            let base = self.with_room[at];
            let chunk = self.chunks.get(&base);
            let chunk = chunk.filter(|chunk| chunk.room(base, super::SMALL_BUFFER).is_some());
            let Some(chunk) = chunk else {
                // Behind it are only the few that were looked at.
                self.with_room.remove(at);
                self.listed.remove(&base);
                continue;
            };
            if let Some(addr) = chunk.room(base, size) {
                return Some(addr);
            }
            looked_at += 1;
        }
        None
    }

    /// New address space: the highest hole that is large enough, else below everything; or as the
    /// placement says.
    fn reserve(&mut self, size: u64) -> u64 {
        let size = size.next_multiple_of(CHUNK);
        self.reserved += 1;
        if let Some(base) = self.anywhere(size) {
            return base;
        }
        let above = self.ceiling.checked_next_multiple_of(CHUNK);
        let above = above.filter(|base| base.checked_add(size).is_some());
        if self.placement.is_above(self.reserved)
            && let Some(base) = above
        {
            return base;
        }
        let fits = self
            .holes
            .iter()
            .rev()
            .find(|(base, end)| *end - *base >= size);
        let Some((&base, &end)) = fits else {
            let Some(floor) = self.floor.checked_sub(size) else {
                return self.gap(size);
            };
            self.floor = floor;
            return floor;
        };
        self.holes.remove(&base);
        if end - base > size {
            self.holes.insert(base, end - size);
        }
        end - size
    }

    /// A place above, below or between what there is, where places are drawn.
    fn anywhere(&mut self, size: u64) -> Option<u64> {
        let Placement::Other(order @ FIRST_DRAWN..) = self.placement else {
            return None;
        };
        let around = *self.around.get_or_insert(self.ceiling / CHUNK);
        let places = (0..DRAWS).filter_map(|draw| {
            let drawn = fx_hash(&(order, self.reserved, draw)) % PLACES;
            let chunk = (around + drawn).checked_sub(PLACES / 2)?;
            chunk.checked_mul(CHUNK)
        });
        let mut places = places.filter_map(|base| Some((base, base.checked_add(size)?)));
        places.find_map(|(base, end)| {
            let below = self.chunks.range(..end).next_back();
            below
                .is_none_or(|(_, chunk)| chunk.end <= base)
                .then_some(base)
        })
    }

    /// The lowest room between chunks, for when there is none below all of them. Recordings may
    /// have any addresses.
    fn gap(&self, size: u64) -> u64 {
        let mut at = 0;
        for (&base, chunk) in &self.chunks {
            if base.saturating_sub(at) >= size {
                break;
            }
            at = at.max(chunk.end);
        }
        at
    }

    fn give_back(&mut self, mut base: u64, mut end: u64) {
        if let Some(above) = self.holes.remove(&end) {
            end = above;
        }
        let below = self.holes.range(..base).next_back();
        if let Some((&below, _)) = below.filter(|(_, to)| **to == base) {
            self.holes.remove(&below);
            base = below;
        }
        self.holes.insert(base, end);
    }
}

#[cfg(test)]
mod tests {
    use super::super::SMALL_BUFFER;
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    /// Allocates `size` MiB and tells how far below the top it lies, in MiB.
    fn below(driver: &mut Driver, size: u64) -> u64 {
        (TOP - driver.allocate(size * MIB)) / MIB
    }

    #[test]
    fn segments_lie_where_cuda_was_seen_to_put_them() {
        let mut driver = Driver::new(VecDeque::new(), Placement::Seen);
        assert_eq!(below(&mut driver, 48), 64);
        assert_eq!(below(&mut driver, 48), 128);
        // First the rest of the newest chunk is used, until it is full; then the rest of the chunk
        // before.
        for at in (0..8).map(|n| 80 - 2 * n) {
            assert_eq!(below(&mut driver, 2), at);
        }
        assert_eq!(below(&mut driver, 2), 16);
        assert_eq!(below(&mut driver, 60), 192);
        // Memory that was given back is used again from its upper end.
        driver.free(TOP - 192 * MIB);
        assert_eq!(below(&mut driver, 20), 160);
        assert_eq!(below(&mut driver, 32), 192);
        assert_eq!(below(&mut driver, 12), 140);
    }

    #[test]
    fn as_long_as_the_same_is_asked_the_answer_is_the_recorded_one() {
        let recorded = [(7 * CHUNK, 20), (3 * CHUNK, 40)];
        let calls = recorded.map(|(addr, mib)| Call::Allocate {
            addr,
            size: mib * MIB,
        });
        let mut driver = Driver::new(VecDeque::from(calls), Placement::Seen);
        assert_eq!(driver.allocate(20 * MIB), 7 * CHUNK);
        // This differs from the recording: from here on segments lie below everything that is
        // known.
        assert_eq!(driver.allocate(60 * MIB), 5 * CHUNK);
        assert_eq!(driver.allocate(40 * MIB), 3 * CHUNK);
        assert_eq!(driver.allocate(12 * MIB), 4 * CHUNK + 8 * MIB);
    }

    /// In another run of a program, what was recorded lies elsewhere, too.
    #[test]
    fn half_of_the_orders_place_anew_what_was_recorded() {
        let recorded = Call::Allocate {
            addr: 7 * CHUNK,
            size: 20 * MIB,
        };
        let is_kept = |order| {
            let mut driver = Driver::new([recorded].into(), Placement::Other(order));
            driver.allocate(20 * MIB) == 7 * CHUNK
        };
        assert_eq!(
            (0..4).map(is_kept).collect::<Vec<_>>(),
            [true, false, true, false]
        );
        let mut driver = Driver::new([recorded].into(), Placement::Seen);
        assert_eq!(driver.allocate(20 * MIB), 7 * CHUNK);
    }

    /// Some of what is drawn lies above what was recorded, and some below: in all orders of three.
    #[test]
    fn drawn_places_come_in_every_order() {
        let recorded = Call::Allocate {
            addr: 7 * PLACES * CHUNK,
            size: 20 * MIB,
        };
        let orders = (FIRST_DRAWN..FIRST_DRAWN + 56).map(|order| {
            let mut driver = Driver::new([recorded].into(), Placement::Other(order));
            let [was, one, other] = [20, 60, 60].map(|size| driver.allocate(size * MIB));
            [was < one, one < other, other < was]
        });
        let orders: HashSet<[bool; 3]> = orders.collect();
        assert_eq!(orders.len(), 6);
    }

    /// A program: segments in MiB that are allocated (with a gap in front of the recorded ones),
    /// and segments that are freed.
    #[derive(Clone, Debug)]
    enum Op {
        Come(u64, u64),
        Go(prop::sample::Index),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            3 => (1..90_u64, 0..40_u64).prop_map(|(size, gap)| Op::Come(size, gap)),
            2 => any::<prop::sample::Index>().prop_map(Op::Go),
        ];
        prop::collection::vec(op, 0..60)
    }

    /// The recording of a program on a device with other habits: it goes upwards and takes the
    /// first place that has room.
    fn recorded(ops: &[Op]) -> VecDeque<Call> {
        let mut live: Vec<(u64, u64)> = Vec::new();
        let mut calls = VecDeque::new();
        for op in ops {
            match op {
                Op::Come(size, gap) => {
                    let mut addr = (1000 + gap) * MIB;
                    live.sort_unstable();
                    for &(start, end) in &live {
                        if start < addr + size * MIB && addr < end {
                            addr = end;
                        }
                    }
                    live.push((addr, addr + size * MIB));
                    let size = size * MIB;
                    calls.push_back(Call::Allocate { addr, size });
                }
                Op::Go(_) if live.is_empty() => {}
                Op::Go(index) => {
                    let (addr, _) = live.swap_remove(index.index(live.len()));
                    calls.push_back(Call::Free { addr });
                }
            }
        }
        calls
    }

    /// The obvious way to find room: among all chunks that have some, the newest that has enough.
    fn rest_of_all(driver: &Driver, size: u64) -> Option<u64> {
        let with_room = driver.with_room.iter().rev().filter_map(|base| {
            let chunk = driver.chunks.get(base)?;
            chunk.room(*base, SMALL_BUFFER)?;
            Some(chunk.room(*base, size))
        });
        with_room.take(LOOKED_AT).flatten().next()
    }

    #[test]
    fn only_the_newest_of_many_chunks_are_looked_at() {
        let mut driver = Driver::new(VecDeque::new(), Placement::Seen);
        for _ in 0..4000 {
            driver.allocate(20 * MIB);
        }
        assert_eq!(driver.with_room.len(), 4000);
        assert!(driver.looks <= 4000 * LOOKED_AT, "{} looks", driver.looks);
        let newest = driver.with_room[3999];
        assert_eq!(driver.allocate(12 * MIB), newest + 20 * MIB);
    }

    proptest! {
        #[test]
        fn room_is_found_as_by_looking_at_every_chunk(is in ops(), order in 0..16_u32) {
            let mut driver = Driver::new(VecDeque::new(), Placement::Other(order));
            let mut live: Vec<u64> = Vec::new();
            for op in is {
                match op {
                    Op::Come(size, _) => {
                        let expected = rest_of_all(&driver, size * MIB);
                        prop_assert_eq!(driver.rest(size * MIB), expected);
                        live.push(driver.allocate(size * MIB));
                    }
                    Op::Go(index) if !live.is_empty() => {
                        driver.free(live.swap_remove(index.index(live.len())));
                    }
                    Op::Go(_) => {}
                }
            }
        }

        /// No two segments ever share an address, wherever the recorded ones lie and whenever the
        /// requests begin to differ.
        #[test]
        fn no_two_segments_share_an_address(
            was in ops(), same in 0..60_usize, is in ops(), order in prop::option::of(0..16_u32),
        ) {
            let placement = order.map_or(Placement::Seen, Placement::Other);
            let calls = recorded(&was);
            let mut driver = Driver::new(calls.clone(), placement);
            let mut live: BTreeMap<u64, u64> = BTreeMap::new();
            let begin = calls.into_iter().take(same);
            let begin = begin.map(|call| match call {
                Call::Allocate { size, .. } => Ok(size),
                Call::Free { addr } => Err(Some(addr)),
            });
            let mut rest = is.iter().map(|op| match op {
                Op::Come(size, _) => (Ok(size * MIB), None),
                Op::Go(index) => (Err(None), Some(*index)),
            });
            let all = begin.map(|ask| (ask, None)).chain(&mut rest);
            for (ask, index) in all {
                match ask {
                    Ok(size) => {
                        let addr = driver.allocate(size);
                        let below = live.range(..addr + size).next_back();
                        prop_assert!(below.is_none_or(|(_, end)| *end <= addr), "{addr:#x}");
                        live.insert(addr, addr + size);
                    }
                    Err(known) => {
                        let nth = |index: prop::sample::Index| {
                            let at = (!live.is_empty()).then(|| index.index(live.len()))?;
                            live.keys().nth(at).copied()
                        };
                        if let Some(addr) = known.or_else(|| nth(index?)) {
                            live.remove(&addr);
                            driver.free(addr);
                        }
                    }
                }
            }
        }
    }
}
