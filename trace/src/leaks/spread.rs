//! Growth that no site has alone.

use super::thresholds::MIN_BYTES;
use super::view::View;
use crate::growth::settled;

/// Share of the steps that must keep something, if no site alone has a rhythm.
pub(super) const SPREAD: f64 = 0.8;
/// The least number of such steps.
pub(super) const MIN_SPREAD_STEPS: usize = 8;

/// What nearly every step keeps, though no site keeps it with a rhythm: for example code that is
/// generated anew in each step.
pub(super) struct Spread {
    /// Bytes that such a step keeps, on average.
    pub(super) bytes_per_step: f64,
    /// How many sites keep something.
    pub(super) sites: usize,
}

impl Spread {
    /// `None` if too few steps keep anything.
    pub(super) fn of(view: &View<'_>) -> Option<Spread> {
        let n = view.ends.len();
        // What the last step keeps may be given back in the next one.
        let (from, to) = (settled(n), n - 1);
        let mut of_steps = vec![0_u64; to - from];
        let mut sites = 0;
        for kept in view.survey.kept.iter().flatten() {
            // Younger ones may be given back as others of the site were.
            let proven = (n - kept.longest_freed.min(n)).clamp(from, to);
            let own = &kept.survivors[from..proven];
            sites += usize::from(own.iter().any(|&bytes| bytes > 0));
            for (all, &bytes) in of_steps.iter_mut().zip(own) {
                *all = all.saturating_add(bytes);
            }
        }
        let keep = of_steps.iter().filter(|&&bytes| bytes >= MIN_BYTES.0);
        let keep = keep.count();
        let is_spread =
            sites > 1 && keep >= MIN_SPREAD_STEPS && keep as f64 >= SPREAD * of_steps.len() as f64;
        let bytes: f64 = of_steps.iter().map(|&bytes| bytes as f64).sum();
        is_spread.then(|| Spread {
            bytes_per_step: bytes / of_steps.len() as f64,
            sites,
        })
    }
}
