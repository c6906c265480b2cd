//! Private pools that were given up before the end.
//!
//! Up to torch 2.11, no event names its pool: only the segments of the end do. A segment that a
//! graph or a `MemPool` had, and that was given back, counts as one of the default pool at first.
//! But the allocator asks the driver for memory only where nothing in the pool fits. So where it
//! passed over a free block that fits, this block and the one that it took are of two pools
//! ([`Passed`]). What the recording says of other segments decides which of the two is the private
//! one, from one segment to the next.
//!
//! All such segments count as one pool, [`PoolId::GONE`](crate::trace::PoolId::GONE).

use crate::footprint::of_vec;
use crate::stacks::{FxHashMap, FxHashSet};

/// So many pairs are kept in one round: many more than real recordings have.
const MOST_PASSED: usize = 1000;
/// A pair is looked for among the last ones: a loop passes over the same blocks again and again.
const LAST: usize = 32;

/// Memory of one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// A segment of the usual kind that was there before the first event, at this address.
    Before(u64),
    /// A segment of the usual kind that this event made.
    Made(u32),
    /// Pages of an expandable segment, in the area of addresses that begins here.
    Area(u64),
}

/// One of the two segments of a [`Passed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It is of the default pool, as the recording says.
    Default,
    /// Nothing says of which pool it is.
    Unnamed(Segment),
}

/// A free block that fits was passed over: its segment, and the one that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Where the block lay that the default pool would have used.
    pub over: Side,
    /// Where the block lies that was used.
    pub used: Side,
}

/// What was passed over in one round.
#[derive(Debug, Default)]
pub struct AllPassed(Vec<Passed>);

impl AllPassed {
    /// Notes one more.
    pub fn push(&mut self, passed: Passed) {
        let mut last = self.0.iter().rev().take(LAST);
        if self.0.len() < MOST_PASSED && last.all(|known| *known != passed) {
            self.0.push(passed);
        }
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.0)
    }

    /// Whether nothing was passed over.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Segments of pools that were given up.
#[derive(Clone, Debug, Default)]
pub struct Gone(FxHashSet<Segment>);

impl Gone {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is one of them.
    pub fn holds(&self, segment: Segment) -> bool {
        self.0.contains(&segment)
    }

    /// With the segments that these pairs show to be private: of each pair one is. Segments that no
    /// pair joins to a named one count as default in the order of their first pair.
    pub fn with(&self, passed: &AllPassed) -> Gone {
        let mut beside: FxHashMap<Segment, Vec<Segment>> = FxHashMap::default();
        let mut private: FxHashMap<Segment, bool> = FxHashMap::default();
        let mut known: Vec<Segment> = Vec::new();
        for pair in &passed.0 {
            match (pair.over, pair.used) {
                (Side::Unnamed(one), Side::Unnamed(other)) => {
                    beside.entry(one).or_default().push(other);
                    beside.entry(other).or_default().push(one);
                }
                (Side::Default, Side::Unnamed(one)) | (Side::Unnamed(one), Side::Default) => {
                    if private.insert(one, true).is_none() {
                        known.push(one);
                    }
                }
                (Side::Default, Side::Default) => {}
            }
        }
        let spread = |known: &mut Vec<Segment>, private: &mut FxHashMap<Segment, bool>| {
            while let Some(one) = known.pop() {
                let is_private = private[&one];
                for &other in beside.get(&one).into_iter().flatten() {
                    private.entry(other).or_insert_with(|| {
                        known.push(other);
                        !is_private
                    });
                }
            }
        };
        spread(&mut known, &mut private);
        for pair in &passed.0 {
            if let Side::Unnamed(one) = pair.over
                && !private.contains_key(&one)
            {
                private.insert(one, false);
                known.push(one);
                spread(&mut known, &mut private);
            }
        }
        let found = private.into_iter().filter(|(_, is_private)| *is_private);
        let found = found.map(|(segment, _)| segment);
        Gone(self.0.iter().copied().chain(found).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_has_one_private_segment() {
        let unnamed = |event| Side::Unnamed(Segment::Made(event));
        let check = |pairs: &[(Side, Side)], expected: &[u32]| {
            let pairs = pairs.iter().map(|&(over, used)| Passed { over, used });
            let gone = Gone::default().with(&AllPassed(pairs.collect()));
            let mut events: Vec<u32> = gone.0.iter().copied().map(event_of).collect();
            events.sort_unstable();
            assert_eq!(events, expected);
        };
        let default = Side::Default;
        check(&[], &[]);
        check(&[(default, unnamed(3))], &[3]);
        check(&[(unnamed(3), default)], &[3]);
        // Alone, a pair does not tell: what was passed over counts as default.
        check(&[(unnamed(3), unnamed(5))], &[5]);
        // What is known of one segment tells of the next.
        let chain = [(unnamed(3), unnamed(5)), (default, unnamed(3))];
        check(&chain, &[3]);
        let chain = [
            (unnamed(3), unnamed(5)),
            (unnamed(5), unnamed(7)),
            (unnamed(7), default),
        ];
        check(&chain, &[3, 7]);
        check(&[(default, default)], &[]);
    }

    fn event_of(segment: Segment) -> u32 {
        match segment {
            Segment::Made(event) => event,
            Segment::Before(_) | Segment::Area(_) => unreachable!(),
        }
    }
}
