//! Where the driver puts segments.
//!
//! `cudaMalloc` says nothing of where it puts memory, but among free blocks of one size the
//! allocator takes the lowest, so it matters a little. As long as segments are asked for and given
//! back as they were recorded, they lie where they lay. From the first difference on they lie where
//! CUDA was seen to put them (driver 580, in every recording at hand): memory is reserved 32 MiB
//! at a time, as high as there is room below all that came before; what is left of the newest such
//! chunk serves later segments that fit.

use std::collections::{BTreeMap, VecDeque};

/// Granule of reserved address space, bytes.
const CHUNK: u64 = 32 << 20;
/// Below this the first segment lies, unless something was recorded.
const TOP: u64 = 1 << 46;
/// Chunks whose rest is looked at for a segment, newest first.
const LOOKED_AT: usize = 256;

/// What was asked of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A segment of so many bytes, which lay here.
    Allocate {
        /// Its address.
        addr: u64,
        /// Its bytes.
        size: u64,
    },
    /// The segment that lay here was given back.
    Free {
        /// Its address.
        addr: u64,
    },
}

/// The address space of one process.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    recorded: VecDeque<Call>,
    /// By address.
    chunks: BTreeMap<u64, Chunk>,
    /// The chunks that have room, oldest first; some of them may be gone.
    with_room: Vec<u64>,
    /// Address space that was given back, and its end.
    holes: BTreeMap<u64, u64>,
    /// Below this nothing was reserved yet.
    floor: u64,
}

#[derive(Clone, Debug)]
struct Chunk {
    end: u64,
    /// Segments, and their ends.
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
    pub fn new(recorded: VecDeque<Call>) -> Driver {
        Driver {
            recorded,
            chunks: BTreeMap::new(),
            with_room: Vec::new(),
            holes: BTreeMap::new(),
            floor: TOP,
        }
    }

    /// Where a new segment lies.
    pub fn allocate(&mut self, size: u64) -> u64 {
        if let Some(&Call::Allocate { addr, size: asked }) = self.recorded.front()
            && asked == size
        {
            self.recorded.pop_front();
            self.occupy(addr, size);
            return addr;
        }
        self.recorded.clear();
        let addr = self.rest(size).unwrap_or_else(|| self.reserve(size));
        self.occupy(addr, size);
        addr
    }

    /// A segment is given back.
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
        } else if !self.with_room.contains(&base) {
            self.with_room.push(base);
        }
    }

    /// A segment lies here.
    pub fn occupy(&mut self, addr: u64, size: u64) {
        let end = addr.saturating_add(size);
        let below = self.chunks.range_mut(..=addr).next_back();
        if let Some((_, chunk)) = below.filter(|(_, chunk)| addr < chunk.end) {
            chunk.end = chunk.end.max(end);
            chunk.segments.insert(addr, end);
            return;
        }
        let base = addr - addr % CHUNK;
        let chunk_end = end.checked_next_multiple_of(CHUNK).unwrap_or(end);
        self.floor = match self.chunks.is_empty() && self.holes.is_empty() {
            true => base,
            false => self.floor.min(base),
        };
        let segments = BTreeMap::from([(addr, end)]);
        let end = chunk_end;
        self.chunks.insert(base, Chunk { end, segments });
        self.with_room.push(base);
    }

    /// Room in a chunk, of the newest first.
    fn rest(&mut self, size: u64) -> Option<u64> {
        let chunks = &self.chunks;
        let full = |base: &u64| {
            let chunk = chunks.get(base);
            chunk.is_none_or(|chunk| chunk.room(*base, super::SMALL_BUFFER).is_none())
        };
        self.with_room.retain(|base| !full(base));
        let newest = self.with_room.iter().rev().take(LOOKED_AT);
        newest
            .filter_map(|base| chunks.get(base)?.room(*base, size))
            .next()
    }

    /// New address space: the highest hole that is large enough, else below everything.
    fn reserve(&mut self, size: u64) -> u64 {
        let size = size.next_multiple_of(CHUNK);
        let fits = self
            .holes
            .iter()
            .rev()
            .find(|(base, end)| *end - *base >= size);
        let Some((&base, &end)) = fits else {
            self.floor = self.floor.saturating_sub(size);
            return self.floor;
        };
        self.holes.remove(&base);
        if end - base > size {
            self.holes.insert(base, end - size);
        }
        end - size
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
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Segments in MiB, and how far below the top they lie.
    fn below(driver: &mut Driver, size: u64) -> u64 {
        (TOP - driver.allocate(size * MIB)) / MIB
    }

    #[test]
    fn segments_lie_where_cuda_was_seen_to_put_them() {
        let mut driver = Driver::new(VecDeque::new());
        assert_eq!(below(&mut driver, 48), 64);
        assert_eq!(below(&mut driver, 48), 128);
        // The rest of the newest chunk, until it is full; then that of the one before.
        for at in (0..8).map(|n| 80 - 2 * n) {
            assert_eq!(below(&mut driver, 2), at);
        }
        assert_eq!(below(&mut driver, 2), 16);
        assert_eq!(below(&mut driver, 60), 192);
        // What is given back is taken from its upper end.
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
        let mut driver = Driver::new(VecDeque::from(calls));
        assert_eq!(driver.allocate(20 * MIB), 7 * CHUNK);
        // Something else: from here on below everything that is known.
        assert_eq!(driver.allocate(60 * MIB), 5 * CHUNK);
        assert_eq!(driver.allocate(40 * MIB), 3 * CHUNK);
        assert_eq!(driver.allocate(12 * MIB), 4 * CHUNK + 8 * MIB);
    }
}
