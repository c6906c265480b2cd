//! How much an answer depends on what the program had done before its recording began.
//!
//! A recording that begins after some steps has a cache at its start, and the settings of that time
//! decided how large it is. Others would have left more or less. So the requests are replayed again
//! with the other reading of that cache: without it where the answer takes it over, and with it
//! where the answer leaves it out. What other settings would have left is in neither: the answer is
//! not certain where the program had been as high before, even if both readings agree.

use super::Outcome;
use super::begin::{Before, lies_alike};
use super::run::{Conditions, Replay};
use crate::trace::Series;
use crate::units::{Bytes, EventIdx};
use crate::watch::Stopped;

/// The cache decides nothing if it was so small a share of the recorded peak of *reserved*.
const LITTLE: f64 = 0.02;

/// The peak differs if it does so by this share.
const DIFFERS: f64 = 0.02;

/// A program that had reserved this share of its recorded peak before had run steps before.
const HAD_RUN: f64 = 0.5;

/// So had one that had cached this share of it.
const MUCH: f64 = 0.1;

/// What was cached and free before the first event, where the answer depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// How much that was.
    pub cached: Bytes,
    /// Whether the answer counts it.
    pub is_counted: bool,
    /// The peak of *reserved* by the other reading.
    pub peak_reserved: Bytes,
    /// The request that fails by that.
    pub failed: Option<EventIdx>,
    /// What was reserved before the first event.
    pub reserved: Bytes,
}

impl Earlier {
    /// Of an outcome under these conditions. `None` if hardly anything was cached, or if nothing
    /// says that the answer depends on it.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(super) fn of(
        replay: Replay<'_>,
        conditions: &Conditions<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Earlier>, Stopped> {
        let summary = |series: Series| replay.device.summary[series as usize];
        let reserved = summary(Series::Reserved);
        let cached = reserved.start.saturating_sub(summary(Series::Active).start);
        let share = |bytes: Bytes| bytes.0 as f64 / reserved.peak.0.max(1) as f64;
        if share(cached) <= LITTLE {
            return Ok(None);
        }
        let is_counted = lies_alike(replay.device, conditions.settings);
        let other = replay.under(&Conditions {
            before: match is_counted {
                true => Before::RequestedAgain,
                false => Before::Kept,
            },
            ..*conditions
        })?;
        let peak = outcome.peak_reserved.0 as f64;
        let differs = (other.peak_reserved.0 as f64 - peak).abs() > DIFFERS * peak;
        let [failed, of_other] = [outcome, &other].map(failed_at);
        let depends = differs || failed != of_other;
        let had_run = share(reserved.start) >= HAD_RUN || share(cached) >= MUCH;
        Ok((depends || had_run).then_some(Earlier {
            cached,
            is_counted,
            peak_reserved: other.peak_reserved,
            failed: of_other,
            reserved: reserved.start,
        }))
    }

    /// Whether it decides if a request fails under this limit, or which one: `outcome` is the one
    /// that is told. Both readings take over what was in use from a program that ran without this
    /// limit. So where they agree on a failure, it is certain only if what was reserved before
    /// fits under the limit.
    pub fn decides(&self, outcome: &Outcome, limit: Option<Bytes>) -> bool {
        let failed = failed_at(outcome);
        let fits = limit.is_none_or(|limit| self.reserved <= limit);
        failed.is_none() || self.failed != failed || !fits
    }
}

/// The request that fails.
fn failed_at(outcome: &Outcome) -> Option<EventIdx> {
    outcome.failed.map(|failed| failed.event)
}
