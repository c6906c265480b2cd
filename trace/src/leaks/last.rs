//! What the last step would have kept, had it ended where the others do.
//!
//! A step's last events give back what its variables held. In the last step of a recording, the
//! function of the loop may return there, or the program may end. Where such a step is cut, some of
//! that is given back before the cut, and some after it. What the steps before did with blocks of
//! the same place and size tells how many of them outlive a step.

use crate::stacks::{FxHashMap, StackIdx};
use crate::trace::{BlockIdx, Blocks};
use crate::units::Bytes;

/// In so many periods blocks of a place must have had the same fate to say that the next ones have
/// it, too.
const MIN_ALIKE: usize = 3;

/// What becomes of the blocks of one place and size at the ends of the periods that make them.
#[derive(Clone, Copy, Default)]
struct Fate {
    /// In how many periods some were made; the first period differs, and does not count.
    periods: usize,
    /// The last one of these.
    last: usize,
    /// How many were made in it, and how many of them outlived it.
    now: [u32; 2],
    /// The same in the periods before it.
    before: [u32; 2],
    /// Whether these differ.
    differs: bool,
    /// How many more outlive the last period than did, if it had ended as the others do.
    missing: i64,
}

impl Fate {
    fn add(&mut self, period: usize, outlives: bool) {
        if self.last != period {
            self.close();
            self.periods += 1;
            self.last = period;
            self.now = [0; 2];
        }
        self.now[0] += 1;
        self.now[1] += u32::from(outlives);
    }

    /// A period has ended.
    fn close(&mut self) {
        self.differs |= self.periods > 1 && self.now != self.before;
        self.before = self.now;
    }

    /// All blocks of the last period, `now`, are known.
    fn close_last(&mut self, last: usize) {
        // Where sizes change, as with data of any length, those of one size are few, and had their
        // fate by chance.
        let is_usual = self.periods > MIN_ALIKE && (self.periods - 1) * 4 >= (last - 1) * 3;
        let [made, outlived] = self.before;
        if self.last == last && is_usual && !self.differs && self.now[0] == made {
            self.missing = i64::from(outlived) - i64::from(self.now[1]);
        }
    }
}

/// What becomes of blocks at the ends of the periods in which they were made.
pub struct Fates {
    /// The last period.
    last: usize,
    /// From this event on nothing is allocated, if the last period is the last to allocate.
    tail: Option<u32>,
    /// Per kind, the position of its place and size in `fates`.
    of_kind: Vec<u32>,
    fates: Vec<Fate>,
    is_last: bool,
    /// Blocks that are alive at the last end, but which other periods give back. They ascend.
    pub held: Vec<BlockIdx>,
}

impl Fates {
    /// For `n` periods, of which the last one ends before the event `last_end`.
    pub fn new(blocks: &Blocks, n: usize, last_end: u32) -> Fates {
        let last_alloc = blocks.alloc.last().filter(|&&event| event < last_end);
        let mut places: FxHashMap<(StackIdx, Bytes), u32> = FxHashMap::default();
        let of_kind = blocks.kinds.iter().map(|kind| {
            let next = places.len() as u32;
            let place = (kind.alloc_stack, kind.requested);
            *places.entry(place).or_insert(next)
        });
        let of_kind: Vec<u32> = of_kind.collect();
        Fates {
            last: n.saturating_sub(1),
            tail: last_alloc.map(|event| event + 1),
            of_kind,
            fates: vec![Fate::default(); places.len()],
            is_last: false,
            held: Vec::new(),
        }
    }

    /// Whether a block outlives the period that makes it and that ends before event `end`. They
    /// must come in the order in which they are made.
    pub fn outlives(&mut self, blocks: &Blocks, block: usize, period: usize, end: u32) -> bool {
        let freed = blocks.free_requested[block];
        let outlives = freed >= end;
        let Some(tail) = self.tail.filter(|_| period > 0) else {
            return outlives;
        };
        if period < self.last {
            self.fate(blocks, block).add(period, outlives);
            return outlives;
        }
        if !self.is_last {
            self.begin_last(blocks, block, end);
        }
        let fate = self.fate(blocks, block);
        if outlives && fate.missing < 0 {
            fate.missing += 1;
            self.held.push(BlockIdx(block as u32));
            return false;
        }
        let is_missing = !outlives && freed >= tail && fate.missing > 0;
        fate.missing -= i64::from(is_missing);
        outlives || is_missing
    }

    fn fate(&mut self, blocks: &Blocks, block: usize) -> &mut Fate {
        let kind = blocks.kind[block].index();
        &mut self.fates[self.of_kind[kind] as usize]
    }

    /// Counts the blocks of the last period, which begins with the block `first`.
    fn begin_last(&mut self, blocks: &Blocks, first: usize, end: u32) {
        self.is_last = true;
        let n = blocks.alloc[first..].partition_point(|&event| event < end);
        for block in first..first + n {
            let outlives = blocks.free_requested[block] >= end;
            let last = self.last;
            self.fate(blocks, block).add(last, outlives);
        }
        let last = self.last;
        self.fates.iter_mut().for_each(|fate| fate.close_last(last));
    }
}
