//! A difference in one sentence.

use super::failure::{self, Failure, Reached};
use super::gate::Said;
use super::leak_places::half_gone;
use super::rates::{Counted, Rates};
use super::words::{growth_told, levels, signed, without_history};
use super::{Change, Difference, LeakChange, LeakPlace, Leaks, below_peak, noise, peak_place};
use crate::growth::Growth;
use crate::leaks::Verdict;
use crate::trace::Series;
use crate::units::Bytes;
use std::cmp::Ordering;

/// A difference of *reserved* that is worth a word where *allocated* is the same.
const MUCH_RESERVED: Bytes = Bytes::mib(64);

/// The headline of a difference, with what is worse or better ([`super::judge::signs`]). What the
/// gate cannot tell is told in its words, and so is what is worse in runs without common levels.
pub(super) fn of(difference: &Difference, signs: [i8; 5], said: &Said) -> String {
    let n_sites = difference.sites_same;
    let parts = match difference.change {
        Change::None => vec![
            no_change(difference, ""),
            match n_sites {
                1 => "the one allocation site holds the same".to_owned(),
                n => format!("{n} allocation sites hold the same"),
            },
        ],
        Change::Moved => moved(difference),
        Change::NotComparable => return not_comparable(difference, signs, said),
        _ if !difference.has_levels() => return without_levels(difference, said),
        Change::Better | Change::Worse | Change::Mixed => {
            vec![levels(difference) + &peak_place::told(difference)]
        }
    };
    let (kept, reserved) = (kept(difference), reserved(difference));
    let phases = said.worse_by("phase").map(str::to_owned);
    let (growth, leak) = (growth(difference), leaks(difference, said));
    let parts = failed(difference)
        .into_iter()
        .chain(parts)
        .chain(phases)
        .chain(kept)
        .chain(reserved);
    let both = match Failure::of(difference) {
        Failure::Both(None | Some(Ordering::Equal)) => Some("both ran out of memory".to_owned()),
        _ => None,
    };
    let work = (difference.facts.resized.as_ref()).filter(|_| difference.peaks_differ());
    let work = work.map(|times| format!("with most tensors {times} as large: perhaps other work"));
    let parts = parts.chain(growth).chain(leak).chain(both).chain(work);
    parts.collect::<Vec<_>>().join(", ")
}

/// A peak that is the same, and what is not.
fn moved(difference: &Difference) -> Vec<String> {
    let below = below_peak::told(difference).map(|steps| format!("but {steps}"));
    let sites = match difference.sites.len() {
        0 => None,
        1 => Some("one allocation site differs".to_owned()),
        n => Some(format!("{n} allocation sites differ")),
    };
    let peak = no_change(difference, " of peak and growth");
    [Some(peak), below, sites].into_iter().flatten().collect()
}

/// What is worse in runs whose levels say nothing of one another, and then why they do not.
fn without_levels(difference: &Difference, said: &Said) -> String {
    let leak = leaks(difference, said).filter(|_| said.worse_by("leak").next().is_some());
    // A run that got further than another program is not worse for it.
    let failed = failed(difference).filter(|_| said.worse_by("out_of_memory").next().is_some());
    let news: Vec<String> = failed.into_iter().chain(leak).collect();
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

fn not_comparable(difference: &Difference, signs: [i8; 5], said: &Said) -> String {
    let (base, new) = (&difference.base, &difference.new);
    let why = match () {
        () if difference.lacks_history() => return without_history(difference),
        () if difference.facts.is_other_program && said.cannot_tell() => return said.not_known(),
        () if difference.is_of_other_steps() => format!(
            "{}: {}, and memory grows with each step",
            levels(difference),
            difference.why_other_steps()
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
fn but_for_leaks(difference: &Difference, signs: [i8; 5], why: &str) -> String {
    let levels = match signs {
        [0, 0, 0, 0, 0] => no_change(difference, " of peak and growth"),
        _ => levels(difference),
    };
    let told: Vec<String> = failed(difference)
        .into_iter()
        .chain([levels])
        .chain(kept(difference))
        .chain(growth(difference))
        .collect();
    let told = told.join(", ");
    match difference.new.leaks.verdict {
        Verdict::Leak => format!("{told}; {why}"),
        _ => format!("{told}, but whether it leaks is not known: {why}"),
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

/// What is kept between steps, where the peak does not tell it.
fn kept(difference: &Difference) -> Option<String> {
    let kept = difference.kept_besides()?;
    let (base, new) = (kept.base, kept.new);
    let by = signed(kept.by() as f64);
    Some(format!("at the ends of steps {by} ({base} → {new})"))
}

/// *Reserved*, where it differs by a quarter or more and the peak of *allocated* does not: that is
/// what the driver counts, and what runs out.
fn reserved(difference: &Difference) -> Option<String> {
    let reserved = difference.series(Series::Reserved);
    let [base, new] = [reserved.base, reserved.new].map(|of| of.peak);
    let by = Bytes(base.0.abs_diff(new.0));
    // What a ring still holds is not all.
    let is_known = !difference.base.wrapped && !difference.new.wrapped;
    let is_news = is_known && !difference.peaks_differ();
    let is_much = by >= MUCH_RESERVED && by.0 >= base.max(new).0 / 4;
    (is_news && is_much).then(|| {
        let way = if new < base { "lower" } else { "higher" };
        format!("reserved peaks {by} {way} ({base} → {new})")
    })
}

fn growth(difference: &Difference) -> Option<String> {
    let (base, new) = (difference.base.growth?, difference.new.growth?);
    let says_nothing =
        |growth: Growth| growth.told().is_none() || super::beginnings::is_flat(growth);
    if [base, new].into_iter().all(says_nothing) {
        return None;
    }
    let [base, new] = [base, new].map(growth_told);
    Some(match base == new {
        true => format!("growth {new} a step in both"),
        false => format!("growth {base} → {new} a step"),
    })
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
            if difference.facts.is_other_program =>
        {
            Some(format!("leaks {}", new.told_where()))
        }
        LeakChange::NeverLeaked => None,
        LeakChange::Appeared => {
            // Where growth is told, its rate is.
            let rate = match growth(difference) {
                Some(_) => String::new(),
                None => format!(", {}", new.told()),
            };
            Some(format!("a new leak{}{rate}", place(new)))
        }
        LeakChange::Fixed => Some(format!("the leak{} is gone", place(base))),
        LeakChange::Faster => {
            let gone = half_gone(base, new).map_or_else(String::new, |gone| format!(", {gone}"));
            Some(format!("leaking faster{}{gone}", place(new)))
        }
        LeakChange::Slower | LeakChange::Same if is_worse => Some(format!(
            "leaking{}, where the baseline does not leak",
            fresh()
        )),
        LeakChange::Slower | LeakChange::Same => {
            let told = half_gone(base, new);
            Some(told.unwrap_or_else(|| format!("still leaking{}", place(new))))
        }
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
