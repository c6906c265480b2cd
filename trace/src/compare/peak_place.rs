//! Where the change of a peak is: the function of the program in which most of it is allocated, and
//! the steps that reach higher.

use super::peak_lines::{self, Lines, PeakLine, is_half};
use super::profile::Place;
use super::sites::{SiteDelta, SiteSide};
use super::{Difference, LeakChange, StepDelta, StepSide, noise};
use crate::categories::{Category, Named};
use crate::code;
use crate::stacks::FxHashMap;
use crate::trace::Series;
use crate::units::Bytes;
use std::cmp::Reverse;
use std::collections::HashSet;

/// A part of a line's bytes that is less than one in so many is not told.
const MOST: u64 = 10;
/// Steps that are named one by one.
const MOST_STEPS: usize = 3;

/// `, most of it in evaluate (train.py:34), in steps 3 and 7`; empty where it is not known.
pub(super) fn told(difference: &Difference) -> String {
    // A leak that is news has a place of its own.
    let is_leak = !matches!(
        difference.leaks,
        LeakChange::NeverLeaked | LeakChange::Same | LeakChange::CannotTell
    );
    if is_leak || difference.is_of_other_steps() || difference.is_of_states() {
        return String::new();
    }
    let peak = noise::delta(difference.base.common_peak, difference.new.common_peak);
    let usual = noise::level(
        difference.base.common_peak,
        difference.new.common_peak,
        Bytes::ZERO,
    );
    if peak.unsigned_abs() <= usual.0 {
        return String::new();
    }
    let place = place(difference, peak).unwrap_or_default();
    let steps = match &difference.facts.rhythm {
        Some(rhythm) => in_steps(rhythm, difference.steps.len()) + " only",
        None if peak > 0 => steps(difference, usual).unwrap_or_default(),
        None => String::new(),
    };
    place + &steps
}

/// The rows tell the peaks of whole recordings.
fn place(difference: &Difference, peak: i64) -> Option<String> {
    let series = difference.series(Series::Allocated);
    let is_whole = (series.base.peak, series.new.peak)
        == (difference.base.common_peak, difference.new.common_peak);
    if !is_whole || difference.sites_left_out > 0 {
        return None;
    }
    let of_sign = |row: &&SiteDelta| row.at_peak != 0 && (row.at_peak > 0) == (peak > 0);
    let rows: Vec<&SiteDelta> = difference.sites.iter().filter(of_sign).collect();
    let total: u64 = rows.iter().map(|row| row.at_peak.unsigned_abs()).sum();
    // What is not in the table, or is taken back elsewhere, has no place.
    let largest = *rows.iter().max_by_key(|row| row.at_peak.unsigned_abs())?;
    if total < peak.unsigned_abs() / 2 {
        return None;
    }
    let lines = lines(difference, peak);
    let of_function = functions_of_most(&rows, difference, total, peak)
        .into_iter()
        .find_map(|place| line_of(lines, place, peak.unsigned_abs()));
    if let Some(told) = of_function {
        return Some(format!(", most of it in {told}"));
    }
    if let Some(told) = category(difference, peak) {
        return Some(told);
    }
    if let Some(told) = own_line(lines, peak) {
        return Some(format!(", most of it in {told}"));
    }
    let share = largest.at_peak.unsigned_abs();
    let told = of_row(largest, lines, peak)?;
    Some(match share.saturating_mul(2) > peak.unsigned_abs() {
        true => format!(", most of it in {told}"),
        false => format!(", {} of it in {told}", Bytes(share)),
    })
}

/// The lines of both runs, the one that peaks higher first.
fn lines(difference: &Difference, peak: i64) -> Lines<'_> {
    let [base, new] = &difference.facts.lines;
    match peak > 0 {
        true => Lines {
            more: new,
            less: base,
        },
        false => Lines {
            more: base,
            less: new,
        },
    }
}

/// The line of a function that holds half of a change or more: this one, or another one that does.
/// Where only several lines of the function do, none is told. Where no lines are known, the place
/// itself.
fn line_of(lines: Lines<'_>, place: &Place, change: u64) -> Option<String> {
    let change = Bytes(change);
    let is_of = |other: &Place| peak_lines::function(other) == peak_lines::function(place);
    let this = |other: &Place| other.line == place.line && is_of(other);
    let is_most = |found: &(&PeakLine, u64)| is_half(found.1, change);
    if lines.more.is_empty() {
        return Some(place.told());
    }
    let this = lines.most(this, |held| held.all).filter(is_most);
    let line = this.or_else(|| lines.most(is_of, |held| held.all).filter(is_most));
    match line {
        Some((line, _)) => Some(line.place.told()),
        None => is_half(lines.sum(is_of), change).then(|| {
            let whole = Place {
                line: 0,
                ..place.clone()
            };
            whole.told()
        }),
    }
}

/// The line that asked for half of a change or more, with what its backward pass made.
fn own_line(lines: Lines<'_>, peak: i64) -> Option<String> {
    let (line, more) = lines.most(|_| true, |held| held.own)?;
    if !is_half(more, Bytes(peak.unsigned_abs())) {
        return None;
    }
    let (told, backward) = (line.place.told(), line.held.backward);
    Some(match line.held.own {
        own if backward.saturating_mul(MOST) >= own.saturating_mul(MOST - 1) => {
            format!("the backward pass of {told}")
        }
        own if backward.saturating_mul(MOST) > own => format!("{told} and its backward pass"),
        _ => told,
    })
}

/// Where the row is that holds most; nothing if no line of its function holds half of that at the
/// peak.
fn of_row(row: &SiteDelta, lines: Lines<'_>, peak: i64) -> Option<String> {
    let side = side_of(row, peak)?;
    let place = side.place.as_ref()?;
    let Some(own) = own_frames(side).first().copied() else {
        return Some(place.told());
    };
    let line = line_of(lines, own, row.at_peak.unsigned_abs())?;
    Some(match line == own.told() && own != place {
        true => format!("{} of {line}", place.name),
        false => line,
    })
}

/// What most of a change is for, if that lasts: which line made it says less.
fn category(difference: &Difference, peak: i64) -> Option<String> {
    const LAST: [Category; 3] = [
        Category::Parameter,
        Category::Gradient,
        Category::OptimizerState,
    ];
    let lasts = |category: Named| LAST.map(Named::Ours).contains(&category);
    let changes = difference.category_changes().into_iter();
    let told = changes.filter(|(category, by)| (*by > 0) == (peak > 0) && lasts(*category));
    let (category, by) = told.max_by_key(|(_, by)| by.unsigned_abs())?;
    let is_most = is_half(by.unsigned_abs(), Bytes(peak.unsigned_abs()));
    is_most.then(|| {
        let inferred = difference.inferred_in(&[category]).mark();
        format!(", most of it {}{inferred}", category.label())
    })
}

/// The functions of the program in whose calls most of the bytes are allocated, the innermost
/// first. Those that are in no row of the other sign come first: what both have need not be what
/// changed. The outermost function of a stack holds everything, and tells nothing.
fn functions_of_most<'d>(
    rows: &[&'d SiteDelta],
    difference: &'d Difference,
    total: u64,
    peak: i64,
) -> Vec<&'d Place> {
    let is_other = |row: &&SiteDelta| row.at_peak != 0 && (row.at_peak > 0) != (peak > 0);
    let others = difference.sites.iter().filter(is_other);
    let sides = others.flat_map(|row| row.new.iter().chain(&row.base));
    let others: HashSet<Function<'_>> = sides.flat_map(own_frames).map(function).collect();
    let mut held: FxHashMap<Function<'_>, u64> = FxHashMap::default();
    let own = |row: &&'d SiteDelta| side_of(row, peak).map(own_frames).unwrap_or_default();
    for row in rows {
        let named: HashSet<Function<'_>> = own(row).into_iter().map(function).collect();
        for name in named {
            *held.entry(name).or_default() += row.at_peak.unsigned_abs();
        }
    }
    let found = rows.iter().flat_map(|row| {
        let (frames, weight) = (own(row), row.at_peak.unsigned_abs());
        let inner = frames.len().saturating_sub(1).max(1);
        let numbered = frames.into_iter().take(inner).enumerate();
        numbered.map(move |(depth, place)| (depth, weight, place))
    });
    let most = found.filter(|(_, _, place)| held[&function(place)] * 2 > total);
    let mut most: Vec<(usize, u64, &Place)> = most.collect();
    // Of equals, the last.
    most.reverse();
    most.sort_by_key(|(depth, weight, place)| {
        let is_elsewhere = others.contains(&function(place));
        (is_elsewhere, *depth, Reverse(*weight))
    });
    let mut told: HashSet<Function<'_>> = HashSet::new();
    most.retain(|(_, _, place)| told.insert(function(place)));
    most.into_iter().map(|(_, _, place)| place).collect()
}

/// Name and file.
type Function<'p> = (&'p str, &'p str);

fn function(place: &Place) -> Function<'_> {
    (&place.name, &place.filename)
}

/// The side whose bytes are more.
fn side_of(row: &SiteDelta, peak: i64) -> Option<&SiteSide> {
    match peak > 0 {
        true => row.new.as_ref(),
        false => row.base.as_ref(),
    }
}

/// The program's own functions in a stack, innermost first. Those of a workspace have nothing to do
/// with it; it is called by no file.
fn own_frames(side: &SiteSide) -> Vec<&Place> {
    let has_file = (side.place.as_ref()).is_none_or(|place| !place.filename.is_empty());
    let frames = side.frames.iter().filter(|_| has_file);
    let own = frames.filter(|frame| !code::is_framework(&frame.filename, frame.line));
    own.collect()
}

/// The steps of the new run that reach higher than all of the baseline, where they are few of many
/// and the others are not higher as well.
fn steps(difference: &Difference, usual: Bytes) -> Option<String> {
    let limit = difference.base.common_peak + usual;
    let new = || {
        let steps = difference.steps.iter();
        steps.filter_map(|step| Some((step, step.new.as_ref()?)))
    };
    let (high, others): (Vec<_>, Vec<_>) = new().partition(|(_, step)| step.peak > limit);
    let is_higher = |(step, new): &(&StepDelta, &StepSide)| {
        let base = step.base.as_ref().filter(|base| !base.is_cut);
        base.is_some_and(|base| {
            let usual = noise::level(base.peak, new.peak, Bytes::ZERO);
            noise::delta(base.peak, new.peak) > usual.0 as i64
        })
    };
    let high: Vec<u32> = high.into_iter().map(|(step, _)| step.index).collect();
    let is_told = high.len() <= MOST_STEPS && !others.iter().any(is_higher);
    let is_few = !high.is_empty() && high.len() * 2 < new().count();
    (is_told && is_few).then(|| in_steps(&high, new().count()))
}

/// `, in steps 3, 7 and 11`; `, in 6 of 30 steps`.
fn in_steps(steps: &[u32], all: usize) -> String {
    match steps {
        [one] => format!(", in step {one}"),
        [first @ .., last] if first.len() < MOST_STEPS => {
            let first: Vec<String> = first.iter().map(u32::to_string).collect();
            format!(", in steps {} and {last}", first.join(", "))
        }
        steps => format!(", in {} of {all} steps", steps.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::compare::profile::{DeviceProfile, Profile};
    use crate::watch::Watch;

    const WEIGHTS: Named = Named::Ours(Category::Parameter);

    /// A run that holds so much of the weights, and whether its recorder noted that.
    fn run(bytes: u64, is_noted: bool) -> Profile {
        let inferred = (!is_noted).then_some(WEIGHTS);
        Profile {
            devices: vec![DeviceProfile {
                at_peak: vec![(WEIGHTS, Bytes(bytes))],
                inferred: inferred.into_iter().collect(),
                ..DeviceProfile::default()
            }],
            ..Profile::default()
        }
    }

    #[test]
    fn what_a_bench_recorded_is_not_called_inferred() {
        for (noted, expected) in [
            ([true, true], ", most of it parameters"),
            (
                [true, false],
                ", most of it parameters (inferred in the new run)",
            ),
            (
                [false, true],
                ", most of it parameters (inferred in the baseline)",
            ),
            ([false, false], ", most of it parameters (inferred)"),
        ] {
            let (base, new) = (run(100, noted[0]), run(300, noted[1]));
            let found = Watch::undisturbed(|watch| compare(&base, &new, watch));
            let told = category(&found[0], 200);
            assert_eq!(told.as_deref(), Some(expected));
        }
    }
}
