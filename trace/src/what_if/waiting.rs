//! How much an answer depends on frees that wait for another stream.
//!
//! A block that another stream used is free only when that stream is done with it. When that is
//! depends on how the streams run, and the allocator looks only when more is requested. So in two
//! runs of one program such frees complete at other requests, and under other settings too. So the
//! requests are replayed again as if none had waited: no run frees earlier. One free may decide
//! whether a request fails; a peak differs only where many waited.

use super::run::{Conditions, Replay};
use super::{Outcome, Spread};
use crate::trace::DeviceTrace;
use crate::units::Bytes;
use crate::watch::Stopped;

/// So large a share of all frees is many.
const MANY: f64 = 0.05;

/// The peak differs if it does so by this share.
const DIFFERS: f64 = 0.02;

/// Frees that waited, where the answer depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// How many frees waited for another stream.
    pub waited: u64,
    /// How many frees there were.
    pub frees: u64,
    /// The peak of *reserved* if none had waited.
    pub peak_reserved: Bytes,
    /// Whether a request fails then.
    pub fails: bool,
}

impl Waiting {
    /// Of an outcome under these conditions. `None` if it depends little on such frees, and for the
    /// longest recordings.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(super) fn of(
        replay: Replay<'_>,
        conditions: &Conditions<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Waiting>, Stopped> {
        let (waited, frees) = count(replay.device);
        if waited == 0 || Spread::others(replay.device, 1) == 0 {
            return Ok(None);
        }
        let is_many = waited as f64 > MANY * frees as f64;
        let other = replay.without_waits(conditions)?;
        let peak = outcome.peak_reserved.0 as f64;
        let differs = is_many && (other.peak_reserved.0 as f64 - peak).abs() > DIFFERS * peak;
        let fails = other.failed.is_some();
        let depends = match outcome.failed {
            Some(_) => !fails,
            None => fails || differs,
        };
        Ok(depends.then_some(Waiting {
            waited,
            frees,
            peak_reserved: other.peak_reserved,
            fails,
        }))
    }
}

/// How many frees waited, and how many there were.
fn count(device: &DeviceTrace) -> (u64, u64) {
    let blocks = &device.blocks;
    let n = device.events.len();
    let frees = blocks.free_requested.iter().zip(&blocks.free_completed);
    let frees = frees.filter(|(requested, _)| **requested < n);
    frees.fold((0, 0), |(waited, frees), (requested, completed)| {
        let waits = *completed > requested + 1;
        (waited + u64::from(waits), frees + 1)
    })
}
