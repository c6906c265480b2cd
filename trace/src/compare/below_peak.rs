//! Steps of two runs that differ below a peak that is the same.
//!
//! The highest step of a run may be one of a kind: the first one, in which cuDNN tries its
//! algorithms, or an evaluation. Then all other steps may need more or less, and the peaks are the
//! same.

use super::{Difference, noise};
use crate::median;
use crate::units::Bytes;

/// So many steps that differ in the same direction are no luck.
const LEAST: usize = 3;

/// `11 of 12 steps peak higher (300 MiB → 400 MiB at the median)`.
pub(super) fn told(difference: &Difference) -> Option<String> {
    let both = difference.steps.iter().filter_map(|step| {
        let [base, new] = step.of_whole_steps()?;
        Some([base.peak, new.peak])
    });
    let both: Vec<[Bytes; 2]> = both.collect();
    let differ = |[base, new]: &&[Bytes; 2]| {
        let usual = noise::level(*base, *new, Bytes::ZERO);
        noise::delta(*base, *new).unsigned_abs() > usual.0
    };
    let steps: Vec<[Bytes; 2]> = both.iter().filter(differ).copied().collect();
    if steps.len() < LEAST || steps.len() * 2 < both.len() {
        return None;
    }
    let is_higher = steps[0][0] < steps[0][1];
    if steps.iter().any(|[base, new]| (base < new) != is_higher) {
        return None;
    }
    // What the steps of one run differ by may be what the steps of two runs differ by.
    let peaks = |run: usize| steps.iter().map(move |step| step[run]);
    let varies = |run| Some(peaks(run).max()? - peaks(run).min()?);
    let by = steps.iter().map(|[base, new]| noise::delta(*base, *new));
    if by.map(i64::unsigned_abs).min()? <= varies(0)?.max(varies(1)?).0 {
        return None;
    }
    let (base, new) = (median::upper(peaks(0))?, median::upper(peaks(1))?);
    let way = if is_higher { "higher" } else { "lower" };
    let (n, of) = (steps.len(), both.len());
    Some(format!(
        "{n} of {of} steps peak {way} ({base} → {new} at the median)"
    ))
}
