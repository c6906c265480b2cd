//! When frees that wait for another stream complete: as recorded, or in another run.
//!
//! No recording tells how long they would wait in another run. In real runs of one program the
//! mean wait differed ten times: the program runs ahead of the device until it waits for it. How
//! far it may shows in how long the frees of a stream waited at most. So a wait is drawn: in some
//! orders up to twice as long as recorded; in others up to twice the longest of the stream, but
//! then not beyond the step, at the end of which most programs wait for the device. Either all
//! frees of a step wait alike, as where the program runs ahead; or each does so by itself.

use crate::stacks::{FxHashMap, fx_hash};
use crate::trace::{BlockIdx, DeviceTrace};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When frees that wait for another stream complete. A request that empties the cache waits for all
/// of them in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// At their recorded events.
    AsRecorded,
    /// At once: no run frees earlier.
    Never,
    /// As late as they are assumed to.
    Longest,
    /// At events that are drawn with this number.
    Drawn(u32),
}

impl Waits {
    /// So many others than the recorded ones.
    pub(super) fn others(count: u32) -> impl Iterator<Item = Waits> {
        let ends = [Waits::Never, Waits::Longest].into_iter();
        ends.chain((0..).map(Waits::Drawn)).take(count as usize)
    }
}

/// A free that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Free {
    /// Of this block.
    pub block: u32,
    /// The stream that it was allocated on.
    pub stream: u64,
    /// The event at which it was given back.
    pub given_back: u32,
    /// The event at which it became free when recorded.
    pub completed: u32,
}

/// For how many events the frees of each stream waited at most.
#[derive(Clone, Debug, Default)]
pub(super) struct Longest(FxHashMap<u64, u32>);

impl Longest {
    /// In a recording, if frees are to wait otherwise than they did there.
    pub(super) fn of(device: &DeviceTrace, waits: Waits) -> Longest {
        let mut longest = Longest::default();
        if matches!(waits, Waits::AsRecorded | Waits::Never) {
            return longest;
        }
        let (blocks, n) = (&device.blocks, device.events.len());
        let frees = blocks.free_requested.iter().zip(&blocks.free_completed);
        for (block, (&given_back, &completed)) in (0..).zip(frees) {
            // What still waited at the end shows how long at least.
            let wait = completed
                .min(n)
                .saturating_sub(given_back.saturating_add(1));
            if wait > 0 {
                let stream = blocks.kind(BlockIdx(block)).stream;
                let longest = longest.0.entry(stream).or_default();
                *longest = wait.max(*longest);
            }
        }
        longest
    }
}

/// The frees of a replay that wait until an event that was drawn.
#[derive(Debug)]
pub(super) struct Delays {
    waits: Waits,
    longest: Longest,
    /// The event at which each is over, and the block; the earliest first.
    ends: BinaryHeap<Reverse<(u32, u32)>>,
}

impl Delays {
    pub(super) fn new(waits: Waits, longest: Longest) -> Delays {
        Delays {
            waits,
            longest,
            ends: BinaryHeap::new(),
        }
    }

    pub(super) fn waits(&self) -> Waits {
        self.waits
    }

    /// Whether waits end at other events than those at which they did when recorded.
    pub(super) fn are_drawn(&self) -> bool {
        matches!(self.waits, Waits::Longest | Waits::Drawn(_))
    }

    /// Draws how long a free waits. `step` is the step in which the block was given back, with the
    /// event at which that ends.
    pub(super) fn begin(&mut self, free: Free, step: impl FnOnce() -> (u32, u32)) {
        if !self.are_drawn() {
            return;
        }
        let (step, step_end) = step();
        let first = free.given_back.saturating_add(1);
        let longest = || self.longest_of(&free, step_end.saturating_sub(first));
        let own = 2 * u64::from(free.completed.saturating_sub(first));
        let (most, drawn) = match self.waits {
            Waits::Drawn(order) => {
                let (draw, is_alike) = (2 * (order / 4) + order % 2, order % 2 == 0);
                let drawn = match is_alike {
                    true => fx_hash(&(draw, step)),
                    false => fx_hash(&(draw, free.block)),
                };
                let is_of_own = order % 4 < 2;
                (if is_of_own { own } else { own.max(longest()) }, drawn)
            }
            _ => (own.max(longest()), u64::MAX),
        };
        // The upper half of a hash is a share of 2^32.
        let wait = ((drawn >> 32) * (most + 1)) >> 32;
        let end = u32::try_from(u64::from(first) + wait).unwrap_or(u32::MAX);
        self.ends.push(Reverse((end, free.block)));
    }

    /// Twice as long as others of its stream waited at most, if the step has so many events left.
    fn longest_of(&self, free: &Free, left: u32) -> u64 {
        let longest = self.longest.0.get(&free.stream).copied().unwrap_or(0);
        (2 * u64::from(longest)).min(u64::from(left))
    }

    /// A block of which the wait is over when an event begins; each is told once.
    pub(super) fn over_at(&mut self, event: u32) -> Option<u32> {
        let Reverse((end, block)) = *self.ends.peek()?;
        (end <= event).then(|| {
            self.ends.pop();
            block
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Free = Free {
        block: 7,
        stream: 1,
        given_back: 10,
        completed: 21,
    };

    /// The event at which a free of step 3 is over, which ends at event 60.
    fn end(waits: Waits, free: Free, longest: u32) -> u32 {
        let longest = Longest([(1, longest)].into_iter().collect());
        let mut delays = Delays::new(waits, longest);
        delays.begin(free, || (3, 60));
        let mut events = 0..200;
        events
            .find(|&event| delays.over_at(event).is_some())
            .expect("it ends")
    }

    #[test]
    fn a_wait_is_at_most_twice_as_long_as_recorded() {
        let of = |order: u32| end(Waits::Drawn(order), FREE, 10);
        let ends: Vec<u32> = (0..400).map(of).collect();
        assert!(ends.iter().all(|end| (11..=31).contains(end)), "{ends:?}");
        let (sooner, later) = (ends.iter().any(|&e| e < 16), ends.iter().any(|&e| e > 26));
        assert!(sooner && later, "{ends:?}");
        assert_eq!(end(Waits::Longest, FREE, 10), 31);
    }

    /// A free that hardly waited may wait twice as long as another one of the stream did, but then
    /// not beyond its step.
    #[test]
    fn a_wait_may_be_as_long_as_others_of_its_stream_in_the_step() {
        let short = Free {
            completed: 12,
            ..FREE
        };
        let of_other = Free { stream: 2, ..short };
        let late = Free {
            completed: 59,
            ..FREE
        };
        let check = |free, longest, expected| {
            assert_eq!(end(Waits::Longest, free, longest), expected);
        };
        check(short, 1, 13);
        check(short, 20, 51);
        check(short, 40, 60);
        check(of_other, 40, 13);
        check(late, 48, 107);
    }

    #[test]
    fn the_frees_of_a_step_wait_alike_in_every_second_order() {
        let is_alike = |order: u32| {
            let of = |block: u32| end(Waits::Drawn(order), Free { block, ..FREE }, 10);
            (1..40).all(|block| of(block) == of(0))
        };
        assert_eq!([0, 1, 2, 3].map(is_alike), [true, false, true, false]);
    }

    #[test]
    fn the_first_of_the_others_are_the_ends() {
        let others = |count| Waits::others(count).collect::<Vec<_>>();
        assert!(others(0).is_empty());
        assert_eq!(others(1), [Waits::Never]);
        assert_eq!(others(3), [Waits::Never, Waits::Longest, Waits::Drawn(0)]);
        assert_eq!(
            Delays::new(Waits::Never, Longest::default()).over_at(5),
            None
        );
    }
}
