//! A difference in one sentence.

use super::failure::{self, Failure, Reached};
use super::gate::Said;
use super::rates::{Counted, Rates};
use super::{Change, Difference, LeakChange, LeakPlace, Leaks, noise};
use crate::growth::Growth;
use crate::leaks::Verdict;
use crate::trace::Series;
use crate::units::Bytes;
use std::cmp::Ordering;

/// The headline of a difference, with what is worse or better ([`super::judge::signs`]). What the
/// gate cannot tell is told in its words, and so is what is worse in runs without common levels.
pub(super) fn of(difference: &Difference, signs: [i8; 4], said: &Said) -> String {
    let n_sites = difference.sites_same;
    let parts = match difference.change {
        Change::None => vec![
            no_change(difference, ""),
            match n_sites {
                1 => "the one allocation site holds the same".to_owned(),
                n => format!("{n} allocation sites hold the same"),
            },
        ],
        Change::Moved => {
            let sites = match difference.sites.len() {
                1 => "one allocation site differs".to_owned(),
                n => format!("{n} allocation sites differ"),
            };
            let levels = no_change(difference, " of peak and growth");
            [Some(levels), step_ends(difference), Some(sites)]
                .into_iter()
                .flatten()
                .collect()
        }
        Change::NotComparable => return not_comparable(difference, signs, said),
        _ if !difference.has_levels() => return without_levels(difference, said),
        Change::Better | Change::Worse | Change::Mixed => vec![levels(difference)],
    };
    let phases = said.worse_by("phase").map(str::to_owned);
    let (growth, leak) = (growth(difference), leaks(difference, said));
    let parts = failed(difference).into_iter().chain(parts).chain(phases);
    let both = match Failure::of(difference) {
        Failure::Both(None | Some(Ordering::Equal)) => Some("both ran out of memory".to_owned()),
        _ => None,
    };
    let parts = parts.chain(growth).chain(leak).chain(both);
    parts.collect::<Vec<_>>().join(", ")
}

/// What is worse in runs whose levels say nothing of one another, and then why they do not.
fn without_levels(difference: &Difference, said: &Said) -> String {
    let leak = leaks(difference, said).filter(|_| said.worse_by("leak").next().is_some());
    let news: Vec<String> = failed(difference).into_iter().chain(leak).collect();
    if news.is_empty() || difference.lacks_history() {
        return said.told();
    }
    let news = news.join(", ");
    match said.not_known() {
        none if none.is_empty() => news,
        why => format!("{news}; {why}"),
    }
}

/// Levels that count as the same.
fn no_change(difference: &Difference, of: &str) -> String {
    let (steps_differ, levels) = (as_steps_differ(difference), levels(difference));
    format!("no change{of}{steps_differ}: {levels}")
}

/// Where every step but the first ends at another level: what a run keeps from step to step need
/// not show in its peak.
fn step_ends(difference: &Difference) -> Option<String> {
    let ends = difference.steps.iter().filter_map(|step| {
        let (base, new) = (step.base.as_ref()?, step.new.as_ref()?);
        Some((base.end, new.end))
    });
    let settled: Vec<(Bytes, Bytes)> = ends.skip(1).collect();
    let &(base, new) = settled.last()?;
    let wobble = difference.base.wobble.max(difference.new.wobble);
    let is_elsewhere = |&(from, to): &(Bytes, Bytes)| {
        let beyond = noise::delta(from, to).unsigned_abs() > noise::level(from, to, wobble).0;
        beyond && (to > from) == (new > base)
    };
    let told = || {
        let change = signed(noise::delta(base, new) as f64);
        format!("steps end at {change} ({base} → {new})")
    };
    (settled.len() > 1 && settled.iter().all(is_elsewhere)).then(told)
}

fn not_comparable(difference: &Difference, signs: [i8; 4], said: &Said) -> String {
    let (base, new) = (&difference.base, &difference.new);
    let why = match () {
        () if difference.lacks_history() => return without_history(difference),
        () if difference.is_other_program && said.cannot_tell() => return said.not_known(),
        () if difference.is_of_other_steps() => format!(
            "{}: {} wrapped, and memory grows with each step",
            levels(difference),
            difference.wrapped_rings()
        ),
        () if !difference.is_comparable() => format!(
            "the recordings hold different parts of the program (peaks {} and {}): record the \
             same part in both",
            base.common_peak, new.common_peak
        ),
        () if difference.is_bounded() || !said.cannot_tell() => {
            let side = if base.wrapped && base.common_peak < new.common_peak {
                "baseline"
            } else {
                "new run"
            };
            format!(
                "{}, but the ring of the {side} wrapped: its peak is not known",
                levels(difference)
            )
        }
        () if said.lacks_levels() => said.not_known(),
        () => return but_for_leaks(difference, signs, &said.not_known()),
    };
    // Without the peak it is not known whether that makes it better.
    let leak = match difference.leaks {
        LeakChange::CannotTell => None,
        _ => leaks(difference, said),
    };
    let news: Vec<String> = failed(difference).into_iter().chain(leak).collect();
    match news.is_empty() {
        true => why,
        false => format!("{why}; {}", news.join(", ")),
    }
}

/// Levels of which the gate knows, where it does not know whether the new run leaks, or since when.
fn but_for_leaks(difference: &Difference, signs: [i8; 4], why: &str) -> String {
    let levels = match signs {
        [0, 0, 0, 0] => no_change(difference, " of peak and growth"),
        _ => levels(difference),
    };
    let told: Vec<String> = failed(difference)
        .into_iter()
        .chain([levels])
        .chain(growth(difference))
        .collect();
    let told = told.join(", ");
    match difference.new.leaks.verdict {
        Verdict::Leak => format!("{told}; {why}"),
        _ => format!("{told}, but whether it leaks is not known: {why}"),
    }
}

/// What can be said of states without events.
pub(super) fn without_history(difference: &Difference) -> String {
    let (base, new) = (&difference.base, &difference.new);
    match (base.events, new.events) {
        (0, 0) => format!(
            "{}, but neither recording has a history, so no peak is known",
            levels(difference)
        ),
        (0, _) => "the baseline holds no history, so its peak is not known".to_owned(),
        _ => "the new run holds no history, so its peak is not known".to_owned(),
    }
}

/// A peak that is told with a difference, which counts as none: then what counts as none is told,
/// too. It may be as much as the run's own steps differ by.
fn as_steps_differ(difference: &Difference) -> &'static str {
    let (base, new) = (difference.base.common_peak, difference.new.common_peak);
    let usual = noise::level(base, new, Bytes::ZERO);
    match noise::delta(base, new).unsigned_abs() {
        by if by > usual.0 => " beyond what the steps of a run differ by",
        by if by > noise::LEVEL_FLOOR.0 => " beyond what runs of one program differ by",
        _ => "",
    }
}

/// Which run failed, if that is news.
fn failed(difference: &Difference) -> Option<String> {
    let [base, new] = failure::reached(difference);
    let [base, new] = [base, new].map(|reached| reached.map_or_else(String::new, Reached::told));
    match Failure::of(difference) {
        Failure::Appeared => Some(format!("ran out of memory{new}, the baseline did not")),
        Failure::Gone => Some("the baseline ran out of memory, this did not".to_owned()),
        Failure::Both(Some(Ordering::Less | Ordering::Greater)) => {
            Some(format!("ran out of memory{new}, the baseline{base}"))
        }
        Failure::None | Failure::Both(_) => None,
    }
}

fn levels(difference: &Difference) -> String {
    let (base, new) = (difference.base.common_peak, difference.new.common_peak);
    if difference.is_of_other_steps() {
        return format!("peaks {base} and {new}, which may be of other steps");
    }
    let delta = noise::delta(base, new);
    let level = match difference.is_of_states() {
        true => "held at the dump:",
        false => "peak",
    };
    match delta {
        _ if delta.unsigned_abs() <= difference.tolerance.0.min(noise::LEVEL_FLOOR.0) => {
            format!("{level} {new}{}", over(difference))
        }
        _ => {
            let over = over(difference);
            let [base, new] = [(base, delta > 0), (new, delta < 0)].map(|(peak, is_lower)| {
                let bounded = is_lower && difference.is_bounded();
                let least = if bounded { "at least " } else { "" };
                format!("{least}{peak}")
            });
            format!("{level} {} ({base} → {new}{over})", signed(delta as f64))
        }
    }
}

fn growth(difference: &Difference) -> Option<String> {
    let (base, new) = (difference.base.growth?, difference.new.growth?);
    if [base, new].into_iter().all(super::judge::is_flat) {
        return None;
    }
    let [base, new] = [base, new].map(growth_told);
    Some(match base == new {
        true => format!("growth {new} a step in both"),
        false => format!("growth {base} → {new} a step"),
    })
}

/// Over which steps the peaks are compared, if those are not the peaks of both runs.
pub(super) fn over(difference: &Difference) -> String {
    let series = difference.series(Series::Allocated);
    let (base, new) = (&difference.base, &difference.new);
    match (base.common_peak, new.common_peak) == (series.base.peak, series.new.peak) {
        true => String::new(),
        false => format!(" over {}", difference.over.told()),
    }
}

fn leaks(difference: &Difference, said: &Said) -> Option<String> {
    let (base, new) = (&difference.base.leaks, &difference.new.leaks);
    // The first place of the kind that the news are about.
    let place = |leaks: &Leaks| {
        let [before, after] = [base, new].map(Leaks::rates);
        let is_news =
            |counted: &Counted| Rates::change_of(*counted, &before, &after) == difference.leaks;
        let news = Counted::ALL.into_iter().find(is_news);
        let first = news.map_or_else(
            || leaks.places.first(),
            |counted| leaks.places_of(counted).next(),
        );
        first.map(LeakPlace::within).unwrap_or_default()
    };
    // Only the new run leaks there.
    let fresh = || {
        let mut places = new.places.iter().filter(|place| !place.in_both);
        places.next().map(LeakPlace::within).unwrap_or_default()
    };
    let is_worse = said.worse_by("leak").next().is_some();
    match difference.leaks {
        // How fast another program leaks is no measure for this one.
        LeakChange::Faster | LeakChange::Slower | LeakChange::Same
            if difference.is_other_program =>
        {
            Some(format!("leaks {}", new.told_where()))
        }
        LeakChange::NeverLeaked => None,
        LeakChange::Appeared => Some(format!("a new leak{}", place(new))),
        LeakChange::Fixed => Some(format!("the leak{} is gone", place(base))),
        LeakChange::Faster => Some(format!("leaking faster{}", place(new))),
        LeakChange::Slower | LeakChange::Same if is_worse => Some(format!(
            "leaking{}, where the baseline does not leak",
            fresh()
        )),
        LeakChange::Slower | LeakChange::Same => Some(format!("still leaking{}", place(new))),
        LeakChange::CannotTell if is_worse => Some(format!(
            "a leak{}, where the baseline allocates nothing",
            fresh()
        )),
        LeakChange::CannotTell if difference.change == Change::None => None,
        LeakChange::CannotTell if difference.is_of_single_passes() => None,
        LeakChange::CannotTell if new.verdict == Verdict::Clean => {
            Some("the new run does not leak".to_owned())
        }
        LeakChange::CannotTell => Some("cannot tell whether it leaks".to_owned()),
    }
}

/// Growth a step as it is told everywhere: 0 within its error, and a sign only if it shrinks.
pub fn growth_told(growth: Growth) -> String {
    rate(growth.told())
}

/// The same with its error, where it has one: `5.02 MiB ± 1.00 MiB`.
pub fn growth_with_error(growth: Growth) -> String {
    let told = growth_told(growth);
    match growth.error {
        Some(error) if error >= 0.5 => format!("{told} ± {}", Bytes(error.round() as u64)),
        _ => told,
    }
}

/// By how much more the new run grows than the baseline, of what is told, bytes a step.
pub fn growth_by(base: Growth, new: Growth) -> f64 {
    new.told() - base.told()
}

/// Bytes a step; a small number has no sign.
fn rate(slope: f64) -> String {
    match slope {
        s if s <= -0.5 => signed(s),
        s => Bytes(s.max(0.0).round() as u64).to_string(),
    }
}

/// Bytes with a sign: `+1.50 GiB`, `−7.00 GiB`. What is no number is not known.
pub fn signed(bytes: f64) -> String {
    if !bytes.is_finite() {
        return "not known".to_owned();
    }
    let sign = if bytes < 0.0 { '\u{2212}' } else { '+' };
    format!("{sign}{}", Bytes(bytes.abs().round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_a_sign_or_is_not_known() {
        let check = |bytes: f64, expected: &str| assert_eq!(signed(bytes), expected);
        check(1536.0, "+1.50 KiB");
        check(-1024.0, "−1.00 KiB");
        check(f64::NAN, "not known");
        check(f64::NEG_INFINITY, "not known");
    }
}
