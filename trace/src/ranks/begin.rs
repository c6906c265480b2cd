//! What ranks hold from before their recordings begin.
//!
//! A recording does not tell which code made that. A rank that begins to record later than others
//! has in it what they have at their sites. So its sites may hold that much more than is seen, and
//! what has no stack in it may belong to any site.

use super::RankRow;
use crate::categories;
use crate::compare::noise;
use crate::stacks::StackIdx;
use crate::trace::DeviceTrace;
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};

/// What a device holds without a stack when its recording begins.
///
/// # Errors
/// [`Stopped`].
pub(super) fn from_before(device: &DeviceTrace, watch: Watch<'_>) -> Result<Bytes, Stopped> {
    let mut held = Bytes::ZERO;
    for block in categories::alive(device, None) {
        watch.at_row(block.index(), || 0)?;
        let kind = device.blocks.kind(block);
        if kind.alloc_stack == StackIdx::NONE {
            held += kind.size;
        }
    }
    Ok(held)
}

/// How much more each rank holds from before than the rank that holds least, where that is more
/// than levels of one program differ by.
pub(super) fn more_than_least(held: &[Bytes]) -> Vec<Bytes> {
    let least = held.iter().copied().min().unwrap_or_default();
    let more = |&own: &Bytes| match is_more(own, least) {
        true => own.saturating_sub(least),
        false => Bytes::ZERO,
    };
    held.iter().map(more).collect()
}

/// Whether it is more by more than levels of one program differ by.
pub(super) fn is_more(own: Bytes, other: Bytes) -> bool {
    own.saturating_sub(other) > noise::level(own, other, Bytes::ZERO)
}

/// Lays the steps of ranks that lost their first ones, and have no numbers, over the last steps of
/// the others: all recordings of a job end together.
pub(super) fn lay_at_the_end(ranks: &[RankRow], firsts: &[Option<u32>], places: &mut [u32]) {
    let held: Vec<Bytes> = ranks.iter().map(|row| row.from_before).collect();
    let more = more_than_least(&held);
    let lost = |at: usize| ranks[at].wrapped || more[at] > Bytes::ZERO;
    let is_moved = |at: usize| firsts[at].is_none() && lost(at);
    let whole = (0..ranks.len()).filter(|&at| !is_moved(at));
    let Some(end) = whole.map(|at| places[at] + ranks[at].steps).max() else {
        return;
    };
    for at in (0..ranks.len()).filter(|&at| is_moved(at)) {
        places[at] = places[at].max(end.saturating_sub(ranks[at].steps));
    }
}
