//! Whether a difference is for the better or the worse.

use super::failure::Failure;
use super::gate::Said;
use super::rates::Rates;
use super::{Change, Difference, LeakChange, Leaks, SeriesDelta, StepDelta, below_peak, noise};
use crate::leaks::Verdict;
use crate::trace::Series;
use crate::units::Bytes;
use std::cmp::Ordering;

/// Whether levels agree everywhere, without the allowance for differences between steps.
pub(super) fn levels_alike(series: &[SeriesDelta; 4], steps: &[StepDelta]) -> bool {
    let same = |base: Bytes, new: Bytes| {
        noise::delta(base, new).unsigned_abs() <= noise::level(base, new, Bytes::ZERO).0
    };
    let allocated = &series[Series::Allocated as usize];
    let steps_agree = steps.iter().all(|step| match (&step.base, &step.new) {
        (Some(base), Some(new)) => same(base.peak, new.peak) && same(base.end, new.end),
        _ => false,
    });
    let ends_agree = same(allocated.base.end, allocated.new.end);
    steps_agree && same(allocated.base.peak, allocated.new.peak) && ends_agree
}

/// Whether the ends of steps part more with every step, however little: one of the runs keeps
/// something that the other one does not. Of two runs of one program, each step's difference is
/// the same, or chance.
pub(super) fn ends_part(steps: &[StepDelta]) -> bool {
    let ends = steps.iter().filter_map(|step| {
        let (base, new) = (step.base.as_ref()?, step.new.as_ref()?);
        Some(noise::delta(base.end, new.end))
    });
    let ends: Vec<i64> = ends.collect();
    let rises = |pair: &[i64]| pair[0] < pair[1];
    let falls = |pair: &[i64]| pair[0] > pair[1];
    let pairs = || ends.windows(2);
    ends.len() >= LEAST_TO_PART && (pairs().all(rises) || pairs().all(falls))
}

/// How many steps must be compared: fewer part by chance too often.
const LEAST_TO_PART: usize = 3;

/// Whether both runs say the same of leaks.
pub(super) fn leaks_alike([base, new]: [&Leaks; 2], change: LeakChange) -> bool {
    let is_same = matches!(
        change,
        LeakChange::NeverLeaked | LeakChange::Same | LeakChange::CannotTell
    );
    base.verdict == new.verdict && is_same
}

pub(super) fn leak_change(base: &Leaks, new: &Leaks) -> LeakChange {
    match (base.verdict, new.verdict) {
        (Verdict::CannotTell, _) | (_, Verdict::CannotTell) => LeakChange::CannotTell,
        (Verdict::Clean, Verdict::Clean) => LeakChange::NeverLeaked,
        (Verdict::Clean, Verdict::Leak) => LeakChange::Appeared,
        (Verdict::Leak, Verdict::Clean) => LeakChange::Fixed,
        (Verdict::Leak, Verdict::Leak) => Rates::change(&base.rates(), &new.rates()),
    }
}

/// Growth differs by more than its errors and by more than the floor of a level.
fn growth_change(difference: &Difference) -> i8 {
    let (Some(base), Some(new)) = (difference.base.growth, difference.new.growth) else {
        return 0;
    };
    let (Some(error_b), Some(error_n)) = (base.error, new.error) else {
        return 0;
    };
    let tolerance = (error_b + error_n).max(noise::LEVEL_FLOOR.0 as f64);
    match new.slope - base.slope {
        more if more > tolerance => 1,
        less if less < -tolerance => -1,
        _ => 0,
    }
}

/// Whether the peak is higher (1), lower (−1), or the same. `saved` is the excess of the baseline
/// over the new run.
fn peak_change(difference: &Difference, saved: Option<f64>) -> i8 {
    let (base, new) = (&difference.base, &difference.new);
    let delta = noise::delta(base.common_peak, new.common_peak);
    let sign = delta.signum() as i8;
    // A run that fails in its first step needs more than it got.
    let lower = if sign > 0 { base } else { new };
    let is_unknown = difference.is_bounded() || difference.is_of_other_steps();
    if is_unknown || lower.oom.is_some() && lower.steps == 0 {
        return 0;
    }
    if difference.peaks_differ() {
        return sign;
    }
    // Where steps vary, the highest step is a matter of luck, but steps of equal work are not.
    let more = if sign > 0 { difference.excess } else { saved };
    let usual = noise::level(base.common_peak, new.common_peak, Bytes::ZERO);
    let is_more = more.is_some_and(|more| more > noise::EXCESS);
    match is_more && delta.unsigned_abs() > usual.0 {
        true => sign,
        false => 0,
    }
}

/// What is worse (1), better (−1), or the same: whether it runs out of memory, the peak, leaks,
/// growth, and what is kept between steps. `saved` is the excess of the baseline over the new run.
pub(super) fn signs(difference: &Difference, saved: Option<f64>, said: &Said) -> [i8; 5] {
    let failure = match Failure::of(difference) {
        Failure::Appeared | Failure::Both(Some(Ordering::Less)) => 1,
        Failure::Gone | Failure::Both(Some(Ordering::Greater)) => -1,
        Failure::None | Failure::Both(_) => 0,
    };
    if !difference.has_levels() {
        return [failure.max(0), 0, 0, 0, 0];
    }
    let peak = match peak_change(difference, saved) {
        // It is not known how high the peak of the new run is.
        -1 if said.lacks_levels() => 0,
        sign => sign,
    };
    let leaks = match difference.leaks {
        LeakChange::Appeared | LeakChange::Faster => 1,
        LeakChange::Fixed | LeakChange::Slower => -1,
        LeakChange::NeverLeaked | LeakChange::Same | LeakChange::CannotTell => 0,
    };
    let kept = difference
        .kept_besides()
        .map_or(0, |kept| kept.by().signum() as i8);
    [failure, peak, leaks, growth_change(difference), kept]
}

/// What has changed: by the gate's rules, in their order. What fails there is worse, and where the
/// gate cannot tell, nothing is called better.
pub(super) fn change(difference: &Difference, signs: [i8; 5], said: &Said) -> Change {
    let (worse, better) = (said.fails() || signs.contains(&1), signs.contains(&-1));
    if said.cannot_tell() || !worse && !difference.is_comparable() {
        return Change::NotComparable;
    }
    match (worse, better) {
        (false, false) if difference.is_bounded() || difference.is_of_other_steps() => {
            Change::NotComparable
        }
        (true, true) => Change::Mixed,
        (true, false) => Change::Worse,
        (false, true) => Change::Better,
        (false, false) if difference.sites.is_empty() && below_peak::told(difference).is_none() => {
            Change::None
        }
        (false, false) => Change::Moved,
    }
}
