//! How much an answer depends on frees that wait for another stream.
//!
//! A block that another stream used is free only when that stream is done with it. When that is
//! depends on how the streams run, and the allocator looks only when more is requested. So in two
//! runs of one program such frees complete at other requests, and under other settings too. So the
//! requests are replayed again as if none had waited, and with other waits ([`Waits`]).

use super::run::{Conditions, Replay};
use super::waits::Waits;
use super::{Outcome, Spread};
use crate::trace::DeviceTrace;
use crate::units::Bytes;
use crate::watch::Stopped;

/// How often the requests are replayed again.
pub(super) const OTHERS: u32 = 32;

/// Frees that waited, where the answer depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// How many frees waited for another stream.
    pub waited: u64,
    /// How many frees there were.
    pub frees: u64,
    /// The answer itself, those as if none had waited or all as long as may be, and those with
    /// other waits.
    pub spread: Spread,
}

impl Waiting {
    /// Of an outcome under these conditions. `None` if it depends little on such frees, and for the
    /// longest recordings.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn of(
        replay: Replay<'_>,
        conditions: &Conditions<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Waiting>, Stopped> {
        let (waited, frees) = count(replay.device);
        let others = Spread::others(replay.device, 1).min(OTHERS);
        if waited == 0 || others == 0 {
            return Ok(None);
        }
        let mut found = vec![*outcome];
        for waits in Waits::others(others) {
            let conditions = Conditions {
                waits,
                ..*conditions
            };
            found.push(replay.under(&conditions)?);
        }
        let found = Waiting {
            waited,
            frees,
            spread: Spread::over(outcome, found.iter()),
        };
        let limit = conditions.limit.map(|limit| limit.bytes);
        let depends = found.spread.is_wide() || found.decides(limit);
        Ok(depends.then_some(found))
    }

    /// Whether such frees decide if a request fails under this limit, or when, or how often the
    /// cache is emptied.
    pub fn decides(&self, limit: Option<Bytes>) -> bool {
        let is_near = limit.is_some_and(|limit| self.spread.is_near(limit));
        is_near || self.spread.is_torn() || self.spread.differs()
    }
}

/// How many frees waited, and how many there were.
pub(super) fn count(device: &DeviceTrace) -> (u64, u64) {
    let blocks = &device.blocks;
    let n = device.events.len();
    let frees = blocks.free_requested.iter().zip(&blocks.free_completed);
    let frees = frees.filter(|(requested, _)| **requested < n);
    frees.fold((0, 0), |(waited, frees), (requested, completed)| {
        let waits = *completed > requested + 1;
        (waited + u64::from(waits), frees + 1)
    })
}
