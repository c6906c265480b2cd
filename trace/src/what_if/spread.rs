//! How much an answer depends on where the driver puts segments.
//!
//! Among free blocks of one size the allocator takes the one with the lowest address, so the
//! addresses of segments decide a little. Where other settings ask for other segments, no recording
//! tells their addresses. So the requests are replayed again with segments in other orders.

use super::recorded::Evidence;
use super::run::{Conditions, replay};
use super::{Outcome, Reach};
use crate::allocator::caching::Placement;
use crate::trace::DeviceTrace;
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};

/// How many other orders are tried. A peak that is reached in few orders of a hundred is not met by
/// a few guesses.
const OTHERS: usize = 63;

/// How many where many questions are asked.
const FEW: usize = 7;

/// The most allocations that are replayed for this: fewer than the recordings have for which one
/// replay takes a second or more.
const MOST_ALLOCS: usize = 2_000_000;

/// The same answer with segments in several orders. Lowest and highest are of those orders for
/// which the answer goes as far as the one that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// How many orders there are, with the one of the answer itself.
    pub orders: u32,
    /// In how many of them a request fails.
    pub failed: u32,
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

    /// Of an outcome under these conditions.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(super) fn of(
        device: &DeviceTrace,
        evidence: &Evidence,
        conditions: &Conditions<'_>,
        outcome: &Outcome,
        watch: Watch<'_>,
    ) -> Result<Option<Spread>, Stopped> {
        let others = Spread::others(device, 1);
        if !outcome.is_guessed || others == 0 {
            return Ok(None);
        }
        let mut spread = Spread {
            orders: 1,
            failed: u32::from(outcome.failed.is_some()),
            peak_allocated: [outcome.peak_allocated; 2],
            peak_reserved: [outcome.peak_reserved; 2],
            retries: [outcome.retries; 2],
        };
        for order in 0..others {
            let conditions = Conditions {
                placement: Placement::Other(order),
                ..*conditions
            };
            let other = replay(device, evidence, &conditions, watch)?;
            spread.add(&other, outcome.reach);
        }
        Ok(Some(spread))
    }

    fn add(&mut self, other: &Outcome, reach: Reach) {
        self.orders += 1;
        self.failed += u32::from(other.failed.is_some());
        if other.reach == reach {
            widen(&mut self.peak_allocated, other.peak_allocated);
            widen(&mut self.peak_reserved, other.peak_reserved);
            widen(&mut self.retries, other.retries);
        }
    }

    /// Whether a request fails in some orders and none in others.
    pub fn is_torn(&self) -> bool {
        (1..self.orders).contains(&self.failed)
    }

    /// Whether nothing fails, but the limit is no further from the highest peak than the peaks are
    /// from each other: then it may fail in an order that was not tried.
    pub fn is_near(&self, limit: Bytes) -> bool {
        let [low, high] = self.peak_reserved;
        self.failed == 0 && low < high && limit.saturating_sub(high) < high - low
    }
}

fn widen<T: Ord + Copy>([low, high]: &mut [T; 2], value: T) {
    *low = value.min(*low);
    *high = value.max(*high);
}
