//! How the same requests end where something else is assumed that no recording tells.

use super::run::{Conditions, Refused, Replay};
use super::{Failed, Limit, Outcome, Reach, Refuser, Spread};
use crate::units::{Bytes, EventIdx};
use crate::watch::Stopped;

/// How a replay ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Highest *reserved*.
    pub peak_reserved: Bytes,
    /// The first request that fails.
    pub failed: Option<Failed>,
    /// How far it goes.
    pub reach: Reach,
}

impl Ending {
    fn of(outcome: &Outcome) -> Ending {
        Ending {
            peak_reserved: outcome.peak_reserved,
            failed: outcome.failed,
            reach: outcome.reach,
        }
    }

    /// If the program makes do without what it gives back at once, wherever that is refused. `None`
    /// where the request that fails is none of these.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(super) fn without_work_space(
        replay: Replay<'_>,
        conditions: &Conditions<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Ending>, Stopped> {
        if !outcome.failed.is_some_and(|failed| failed.at_once) {
            return Ok(None);
        }
        let other = replay.under(&Conditions {
            refused: Refused::DoneWithout,
            ..*conditions
        })?;
        Ok(Some(Ending::of(&other)))
    }

    /// If the limit is no memory fraction, but what a card has. Only with expandable segments the
    /// two refuse other requests. `None` where they do not, where the recording shows a memory
    /// fraction, and for the longest recordings.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(super) fn on_full_card(
        replay: Replay<'_>,
        conditions: &Conditions<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Ending>, Stopped> {
        let is_fraction = |by: Refuser| by == Refuser::Process;
        let limit = conditions.limit.filter(|limit| is_fraction(limit.by));
        let seen = replay.evidence.limit;
        let (Some(limit), true) = (limit, conditions.settings.expandable_segments) else {
            return Ok(None);
        };
        let is_shown = seen.is_some_and(|seen| is_fraction(seen.by));
        if is_shown || Spread::others(replay.device, 1) == 0 {
            return Ok(None);
        }
        let by = Refuser::Device;
        let other = replay.under(&Conditions {
            limit: Some(Limit { by, ..limit }),
            ..*conditions
        })?;
        let differs = failed_at(&other) != failed_at(outcome);
        Ok(differs.then(|| Ending::of(&other)))
    }
}

fn failed_at(outcome: &Outcome) -> Option<EventIdx> {
    outcome.failed.map(|failed| failed.event)
}
