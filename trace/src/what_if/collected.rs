//! What the segments that were collected tell of the limit.
//!
//! With `garbage_collection_threshold`, cached segments go back above a share of the limit, until
//! reserved memory is below it. So what was collected, and what could have been and was not, bounds
//! the limit far better than what was granted and refused.

use super::recorded::{Evidence, LimitSeen};
use super::run::{Conditions, Replay};
use crate::allocator::Config;
use crate::allocator::caching::{Refuser, Threshold};
use crate::trace::DeviceTrace;
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};

/// A recording is replayed so often at most.
const MOST_REPLAYS: u32 = 4;

/// What a recording shows of its allocator, with what was collected.
///
/// # Errors
/// [`Stopped`].
pub fn evidence(device: &DeviceTrace, own: &Config, watch: Watch<'_>) -> Result<Evidence, Stopped> {
    let mut evidence = Evidence::of(device, own, watch)?;
    let share = own.garbage_collection_threshold;
    let seen = evidence.limit.filter(|seen| seen.by == Refuser::Process);
    let Some(seen) = seen.filter(|_| share > 0.0) else {
        return Ok(evidence);
    };
    // What is learnt shows that more requests were not refused, and they tell more.
    let mut known = seen;
    for _ in 0..MOST_REPLAYS {
        let replay = Replay::new(device, &evidence, watch);
        let conditions = Conditions::as_recorded(own, Some(known.limit()));
        let learnt = replay.threshold(&conditions, known.at_least)?;
        let before = known;
        known = learnt.map_or(known, |learnt| narrowed(known, learnt, share));
        if known == before {
            break;
        }
    }
    evidence.limit = Some(known);
    Ok(evidence)
}

/// The limits under which that share of them lies where a threshold does. What contradicts the rest
/// is not believed.
fn narrowed(seen: LimitSeen, learnt: Threshold, share: f64) -> LimitSeen {
    let at_least = lowest_limit(learnt.at_least, share);
    let narrow = LimitSeen {
        at_least: seen.at_least.max(Bytes(at_least)),
        below: seen.below.min(Bytes(lowest_limit(learnt.below, share))),
        ..seen
    };
    if narrow.at_least < narrow.below {
        narrow
    } else {
        seen
    }
}

/// The lowest limit of which this share, rounded down as PyTorch does, reaches a threshold.
fn lowest_limit(threshold: u64, share: f64) -> u64 {
    let reaches = |limit: u64| (share * limit as f64) as u64 >= threshold;
    let mut limit = (threshold as f64 / share) as u64;
    while limit > 0 && reaches(limit - 1) {
        limit -= 1;
    }
    while limit < u64::MAX && !reaches(limit) {
        limit += 1;
    }
    limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_limit_tells_the_limit_to_the_byte() {
        for (share, threshold) in [
            (0.6, 3_719_299_072),
            (0.8, 1),
            (0.5, 0),
            (0.95, 85_899_345_920),
        ] {
            let limit = lowest_limit(threshold, share);
            let is_reached = |limit: u64| (share * limit as f64) as u64 >= threshold;
            assert!(is_reached(limit));
            assert!(limit == 0 || !is_reached(limit - 1));
        }
        assert_eq!(lowest_limit(u64::MAX, 0.6), u64::MAX);
    }
}
