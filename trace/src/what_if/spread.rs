//! How much an answer depends on where the driver puts segments.
//!
//! Among free blocks of one size the allocator takes the one with the lowest address, so the
//! addresses of segments decide a little. Where other settings ask for other segments, no recording
//! tells their addresses. So the requests are replayed again with segments in other orders.

use super::run::{Conditions, Replay};
use super::{Failed, Outcome, Reach};
use crate::allocator::caching::Placement;
use crate::trace::DeviceTrace;
use crate::units::Bytes;
use crate::watch::Stopped;

/// How many other orders are tried. A peak that is reached in few orders of a hundred is not met by
/// a few guesses.
const OTHERS: usize = 63;

/// How many where many questions are asked.
const FEW: usize = 7;

/// The most allocations that are replayed for this: fewer than the recordings have for which one
/// replay takes a second or more.
const MOST_ALLOCS: usize = 2_000_000;

/// From this share on, the range of a peak is told with it, and two peaks are far from each other.
const WIDE: f64 = 0.02;

/// The same answer, replayed in several ways: with segments in several orders, or with other waits
/// for streams. Lowest and highest are of those replays that go as far as the answer that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// How many replays there are, with the one of the answer itself.
    pub orders: u32,
    /// In how many of them a request fails.
    pub failed: u32,
    /// Where one fails, the earliest and the latest of these.
    pub failed_at: Option<[Failed; 2]>,
    /// Lowest and highest peak of *allocated*.
    pub peak_allocated: [Bytes; 2],
    /// Lowest and highest peak of *reserved*.
    pub peak_reserved: [Bytes; 2],
    /// Fewest and most retries.
    pub retries: [u64; 2],
}

impl Spread {
    /// How many other orders are tried where so many questions are asked about a device.
    pub(super) fn others(device: &DeviceTrace, questions: usize) -> u32 {
        let replays = MOST_ALLOCS / (device.blocks.len() * questions).max(1);
        let most = if questions == 1 { OTHERS } else { FEW };
        most.min(replays) as u32
    }

    /// Of an outcome under these conditions, with the order to tell: that of these conditions, or
    /// the middle one of those that go as far as most do, where it is a rare one.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(super) fn of(
        replay: Replay<'_>,
        conditions: &Conditions<'_>,
        outcome: &Outcome,
    ) -> Result<Option<(Spread, Placement)>, Stopped> {
        let others = Spread::others(replay.device, 1);
        if !outcome.is_guessed || others == 0 {
            return Ok(None);
        }
        let mut found = vec![(conditions.placement, *outcome)];
        for order in 0..others {
            let placement = Placement::Other(order);
            let conditions = Conditions {
                placement,
                ..*conditions
            };
            found.push((placement, replay.under(&conditions)?));
        }
        let (placement, told) = typical(&found);
        let outcomes = found.iter().map(|(_, outcome)| outcome);
        Ok(Some((Spread::over(&told, outcomes), placement)))
    }

    /// Of all these outcomes, of which one is told.
    pub(super) fn over<'o>(told: &Outcome, outcomes: impl Iterator<Item = &'o Outcome>) -> Spread {
        let mut spread = Spread {
            orders: 0,
            failed: 0,
            failed_at: None,
            peak_allocated: [told.peak_allocated; 2],
            peak_reserved: [told.peak_reserved; 2],
            retries: [told.retries; 2],
        };
        for outcome in outcomes {
            spread.add(outcome, told.reach);
        }
        spread
    }

    fn add(&mut self, outcome: &Outcome, reach: Reach) {
        self.orders += 1;
        if let Some(failed) = outcome.failed {
            self.failed += 1;
            let [first, last] = self.failed_at.get_or_insert([failed; 2]);
            if failed.event < first.event {
                *first = failed;
            }
            if failed.event > last.event {
                *last = failed;
            }
        }
        if outcome.reach == reach {
            widen(&mut self.peak_allocated, outcome.peak_allocated);
            widen(&mut self.peak_reserved, outcome.peak_reserved);
            widen(&mut self.retries, outcome.retries);
        }
    }

    /// Whether a request fails in some orders and none in others.
    pub fn is_torn(&self) -> bool {
        (1..self.orders).contains(&self.failed)
    }

    /// Whether requests fail at different events, or after different numbers of retries.
    pub fn differs(&self) -> bool {
        let [fewest, most] = self.retries;
        let is_elsewhere = |[first, last]: [Failed; 2]| first.event != last.event;
        fewest != most || self.failed_at.is_some_and(is_elsewhere)
    }

    /// Whether the peak of *reserved* is known less well than an answer should be.
    pub fn is_wide(&self) -> bool {
        is_wide(self.peak_reserved)
    }

    /// Whether nothing fails, but the limit is no further from the highest peak than the peaks are
    /// from each other: then it may fail in an order that was not tried.
    pub fn is_near(&self, limit: Bytes) -> bool {
        let [low, high] = self.peak_reserved;
        self.failed == 0 && low < high && limit.saturating_sub(high) < high - low
    }
}

/// Whether lowest and highest differ by so much that both are told.
pub fn is_wide(range: [Bytes; 2]) -> bool {
    let [low, high] = range.map(|peak| peak.0 as f64);
    high > (1.0 + WIDE) * low
}

/// The outcome to tell: that of the first order, which is the driver's usual one, unless it is a
/// rare one for this program and far from others. Then it is the middle one of those that go as far
/// as most of them: by where a request fails, then by the peak of *reserved*.
fn typical(found: &[(Placement, Outcome)]) -> (Placement, Outcome) {
    let as_far = |reach: Reach| found.iter().filter(move |(_, other)| other.reach == reach);
    let reaches = found.iter().map(|(_, outcome)| outcome.reach);
    let most = reaches.rev().max_by_key(|&reach| as_far(reach).count());
    let rank = |&(_, outcome): &(Placement, Outcome)| {
        let at = outcome.failed.map(|failed| failed.event);
        (at, outcome.peak_reserved, outcome.retries)
    };
    let mut of_most: Vec<_> = most.into_iter().flat_map(as_far).copied().collect();
    of_most.sort_by_key(rank);
    let quarter = of_most.len() / 4;
    let common = rank(&of_most[quarter])..=rank(&of_most[of_most.len() - 1 - quarter]);
    let (usual, middle) = (found[0], of_most[of_most.len() / 2]);
    let [low, high] = {
        let [a, b] = [usual, middle].map(|(_, outcome)| outcome.peak_reserved.0 as f64);
        [a.min(b), a.max(b)]
    };
    let is_far = usual.1.reach != middle.1.reach || high > (1.0 + WIDE) * low;
    match is_far && !common.contains(&rank(&usual)) {
        true => middle,
        false => usual,
    }
}

fn widen<T: Ord + Copy>([low, high]: &mut [T; 2], value: T) {
    *low = value.min(*low);
    *high = value.max(*high);
}
