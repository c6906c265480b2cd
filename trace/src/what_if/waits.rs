//! When frees that wait for another stream complete: as recorded, or in another run.
//!
//! No recording tells how long they would wait in another run, so that is drawn: up to twice as
//! long as recorded. Either all frees of a step wait longer or shorter than recorded, as where the
//! program runs ahead of the device; or each does so by itself.

use crate::stacks::fx_hash;
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
    /// At events that are drawn with this number.
    Drawn(u32),
}

impl Waits {
    /// So many others than the recorded ones.
    pub(super) fn others(count: u32) -> impl Iterator<Item = Waits> {
        let drawn = (0..count.saturating_sub(1)).map(Waits::Drawn);
        let never = (count > 0).then_some(Waits::Never);
        never.into_iter().chain(drawn)
    }
}

/// The frees of a replay that wait until an event that was drawn.
#[derive(Debug)]
pub(super) struct Delays {
    waits: Waits,
    /// The event at which each is over, and the block; the earliest first.
    ends: BinaryHeap<Reverse<(u32, u32)>>,
}

impl Delays {
    pub(super) fn new(waits: Waits) -> Delays {
        Delays {
            waits,
            ends: BinaryHeap::new(),
        }
    }

    pub(super) fn waits(&self) -> Waits {
        self.waits
    }

    /// Whether waits end at events that were drawn, and not where they did when recorded.
    pub(super) fn are_drawn(&self) -> bool {
        matches!(self.waits, Waits::Drawn(_))
    }

    /// Draws how long a block waits that was given back at an event and became free at another one
    /// when recorded. `step` is the step in which it was given back.
    pub(super) fn begin(
        &mut self,
        block: u32,
        given_back: u32,
        completed: u32,
        step: impl FnOnce() -> u32,
    ) {
        let Waits::Drawn(order) = self.waits else {
            return;
        };
        let drawn = match order % 2 {
            0 => fx_hash(&(order, step())),
            _ => fx_hash(&(order, block)),
        };
        let most = 2 * u64::from(completed.saturating_sub(given_back + 1)) + 1;
        // The upper half of a hash is a share of 2^32.
        let wait = ((drawn >> 32) * most) >> 32;
        let end = u64::from(given_back + 1) + wait;
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        self.ends.push(Reverse((end, block)));
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

    /// Block 7 is given back at event 10 and was free at event 21.
    fn end(order: u32, block: u32, step: u32) -> u32 {
        let mut delays = Delays::new(Waits::Drawn(order));
        delays.begin(block, 10, 21, || step);
        let mut events = 0..100;
        events
            .find(|&event| delays.over_at(event).is_some())
            .expect("it ends")
    }

    #[test]
    fn a_wait_is_at_most_twice_as_long_as_recorded() {
        let ends: Vec<u32> = (0..400).map(|order| end(order, 7, 3)).collect();
        assert!(ends.iter().all(|end| (11..=31).contains(end)), "{ends:?}");
        let (sooner, later) = (ends.iter().any(|&e| e < 16), ends.iter().any(|&e| e > 26));
        assert!(sooner && later, "{ends:?}");
    }

    #[test]
    fn the_frees_of_a_step_wait_alike_in_every_second_order() {
        let is_alike = |order: u32| {
            let first = end(order, 0, 3);
            (1..40).all(|block| end(order, block, 3) == first)
        };
        assert_eq!([0, 1, 2, 3].map(is_alike), [true, false, true, false]);
    }

    #[test]
    fn the_first_of_the_others_is_that_without_waits() {
        let others = |count| Waits::others(count).collect::<Vec<_>>();
        assert!(others(0).is_empty());
        assert_eq!(others(1), [Waits::Never]);
        assert_eq!(others(3), [Waits::Never, Waits::Drawn(0), Waits::Drawn(1)]);
        assert_eq!(Delays::new(Waits::Never).over_at(5), None);
    }
}
