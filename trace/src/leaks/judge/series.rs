//! What is computed of the levels of a site, and of the periods in which it grew.

use super::super::survivors::Kept;
use crate::growth::Line;

/// First steps that differ in many programs (optimizer state, workspaces).
pub(super) const FIRST_STEPS: usize = 2;

/// The longest distance between growths.
pub(super) fn longest_gap(births: &[usize]) -> Option<usize> {
    births.windows(2).map(|w| w[1] - w[0]).max()
}

/// If it has been quiet for longer than ever before, growth has ended (a warm-up, a buffer that is
/// full).
pub(super) fn has_ended(quiet: usize, longest: usize) -> bool {
    quiet > longest + longest / 2
}

/// For each end, the lowest level from there to the last end.
pub(super) fn from_the_right(live: &[u64]) -> Vec<u64> {
    let mut floor = live.to_vec();
    for i in (1..floor.len()).rev() {
        floor[i - 1] = floor[i - 1].min(floor[i]);
    }
    floor
}

/// Half of the 95 % interval of the slope of the level from `first` on; 0 if there are too few ends
/// to compute it.
pub(super) fn slope_error(kept: &Kept, first: usize) -> f64 {
    let line = Line::fit(&kept.live[first..]);
    line.and_then(|line| line.error).unwrap_or(0.0)
}
