//! How often something happens, and whether it still does.

use super::super::report::Pattern;
use super::super::thresholds::{MAX_GAP_SPREAD, MIN_GROWTHS, MIN_LATE_GROWTHS};
use super::series::{has_ended, longest_gap};

/// So many growths at random moments are enough to know that they are at random.
const MIN_RANDOM_GROWTHS: usize = 20;

/// Growth whose mean distance is smaller happens in nearly every period.
const NEARLY_EVERY: f64 = 1.25;

/// Luck that is rarer than once in a hundred cases is no luck.
const LUCK: f64 = 0.01;

/// A sum of random numbers is so many standard deviations below its mean once in a hundred cases.
const ONCE_IN_100: f64 = 2.33;

/// The same, once in ten cases.
const ONCE_IN_10: f64 = 1.28;

/// The rhythm of something that happens in some periods.
pub(super) struct Rhythm {
    pub(super) first: usize,
    pub(super) last: usize,
    /// Mean distance, in periods.
    pub(super) mean_gap: f64,
    pub(super) growths: usize,
    pub(super) chances: usize,
}

impl Rhythm {
    /// The rhythm of growth, if it has one and goes on until period `end`.
    pub(super) fn of(births: &[usize], end: usize) -> Option<Rhythm> {
        let rhythm = Rhythm::spanning(births, end)?;
        let longest = longest_gap(births)?;
        let ended = has_ended(end.saturating_sub(rhythm.last), longest);
        // Few growths must have about equal distances; many may come at random.
        let spread = match births.len() {
            3 | 4 => 1.5,
            _ => MAX_GAP_SPREAD,
        };
        let irregular = longest as f64 > spread * rhythm.mean_gap.max(1.0) + 0.5;
        let settles = births.len() >= MIN_GROWTHS + 2 && rhythm.is_rarer(births, end, 0.25);
        (!ended && !irregular && !settles).then_some(rhythm)
    }

    /// The rhythm of growth that has none as [`Rhythm::of`] asks for, and whether it is sure to go
    /// on. `None` if it seems to have ended.
    ///
    /// The longest of `n` distances at random is about `ln n` times the mean, so it is the longer,
    /// the more there are. And growth that was in nearly every period has not ended for good if it
    /// is quiet for a few.
    pub(super) fn uneven(births: &[usize], end: usize) -> Option<(Rhythm, bool)> {
        let rhythm = Rhythm::spanning(births, end)?;
        let longest = longest_gap(births)?;
        if births.len() < MIN_LATE_GROWTHS || rhythm.is_rarer(births, end, 0.25) {
            return None;
        }
        let (quiet, span) = (end.saturating_sub(rhythm.last), rhythm.last - rhythm.first);
        if has_ended(quiet, longest) {
            let is_short = quiet <= (MIN_GROWTHS + 1).max(span / 10) && quiet * 2 <= span;
            return (is_short && rhythm.mean_gap < NEARLY_EVERY).then_some((rhythm, false));
        }
        // A cache that fills: fewer in the later half, and the longest distance there.
        let middle = rhythm.first + (end - rhythm.first) / 2;
        let mut gaps = births.windows(2).filter(|w| w[1] - w[0] == longest);
        let slows = gaps.all(|w| w[1] > middle) && rhythm.is_rarer(births, end, 0.4);
        if slows {
            return None;
        }
        let n = births.len();
        let spread = 2.0 * (n as f64).ln() + 1.0;
        let at_random = longest as f64 <= spread * rhythm.mean_gap.max(1.0);
        Some((rhythm, at_random && n >= MIN_RANDOM_GROWTHS))
    }

    /// Growth at uneven distances that has no rhythm as [`Rhythm::of`] or [`Rhythm::uneven`] ask
    /// for, but whose moments may be chance, and which may go on. `None` if luck alone would not
    /// make it as quiet at the end, or as rare in the later part.
    pub(super) fn at_random(births: &[usize], end: usize) -> Option<Rhythm> {
        let may_go_on = is_uneven(births)
            && chance_of_quiet(births, end) >= LUCK
            && earliness(births, end) < ONCE_IN_100;
        Rhythm::spanning(births, end).filter(|_| may_go_on)
    }

    /// Whether growth at uneven distances becomes rarer, as in a cache that fills: fewer than four
    /// of ten are in the later half, and chance makes them so early in one case of ten at most.
    pub(super) fn slows(&self, births: &[usize], end: usize) -> bool {
        is_uneven(births) && self.is_rarer(births, end, 0.4) && earliness(births, end) >= ONCE_IN_10
    }

    /// From the first growth to the last one; `None` if they are too few.
    pub(super) fn spanning(births: &[usize], end: usize) -> Option<Rhythm> {
        let [first, .., last] = *births else {
            return None;
        };
        if births.len() < MIN_GROWTHS {
            return None;
        }
        let mean_gap = (last - first) as f64 / (births.len() - 1) as f64;
        let chances = ((end - first) as f64 / mean_gap).floor() as usize + 1;
        Some(Rhythm {
            first,
            last,
            mean_gap,
            growths: births.len(),
            chances: chances.max(births.len()),
        })
    }

    /// Whether less than this share of the growths is in the later half of the time. Growth that
    /// becomes rarer and rarer will end (caches that fill).
    pub(super) fn is_rarer(&self, births: &[usize], end: usize, share: f64) -> bool {
        let middle = self.first + (end - self.first) / 2;
        let late = births.iter().filter(|&&p| p > middle).count();
        (late as f64) < share * births.len() as f64
    }

    /// Whether growth begins late and does not happen often after that. Perhaps it is a buffer that
    /// is not full yet.
    pub(super) fn is_late(&self, n: usize) -> bool {
        self.first > 2 && (self.last - self.first) * 2 < n && self.growths < MIN_LATE_GROWTHS
    }

    pub(super) fn pattern(&self) -> Pattern {
        match self.mean_gap {
            gap if gap < 1.5 => Pattern::EveryStep,
            gap => Pattern::EveryNth(gap.round() as u32),
        }
    }
}

/// Whether what happens in these periods, ascending, has a rhythm that goes on until period `end`
/// and does not become rarer.
pub fn goes_on(births: &[usize], end: usize) -> bool {
    Rhythm::of(births, end).is_some_and(|rhythm| !rhythm.is_rarer(births, end, 0.4))
}

/// Whether chance seems to decide when it grows: five growths or more, whose distances differ by
/// more than a period.
pub(super) fn is_uneven(births: &[usize]) -> bool {
    let gaps = || births.windows(2).map(|w| w[1] - w[0]);
    let differ = gaps().max() > gaps().min().map(|least| least + 1);
    births.len() >= MIN_GROWTHS + 2 && differ
}

/// By how many standard deviations the growths after the first are earlier than they would be at
/// random moments until `end`, on average (Wilcoxon's rank sum).
fn earliness(births: &[usize], end: usize) -> f64 {
    let [first, after @ ..] = births else {
        return 0.0;
    };
    let (m, n) = (after.len() as f64, end.saturating_sub(*first) as f64);
    if m == 0.0 || n <= m {
        return 0.0;
    }
    let mean = after.iter().map(|p| (p - first) as f64).sum::<f64>() / m;
    let deviation = ((n - m) * (n + 1.0) / (12.0 * m)).sqrt();
    ((n + 1.0) / 2.0 - mean) / deviation
}

/// How likely it is that none of the growths after the first is in the quiet time at the end, if
/// their moments are random.
fn chance_of_quiet(births: &[usize], end: usize) -> f64 {
    let [first, .., last] = *births else {
        return 1.0;
    };
    let (all, busy) = (end.saturating_sub(first), last - first);
    let places = (0..births.len() - 1).filter(|&i| i < busy);
    places
        .map(|i| (busy - i) as f64 / (all - i) as f64)
        .product()
}
