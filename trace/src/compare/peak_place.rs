//! Where the change of a peak is: the function of the program in which most of it is allocated, and
//! the steps that reach higher.

use super::profile::Place;
use super::sites::{SiteDelta, SiteSide};
use super::{Difference, LeakChange, noise};
use crate::code;
use crate::stacks::FxHashMap;
use crate::trace::Series;
use crate::units::Bytes;
use std::collections::HashSet;

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
    let steps = match peak > 0 {
        true => steps(difference, usual).unwrap_or_default(),
        false => String::new(),
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
    if let Some(place) = function_of_most(&rows, difference, total, peak) {
        return Some(format!(", most of it in {}", place.told()));
    }
    let side = side_of(largest, peak)?;
    let place = side.place.as_ref()?;
    let share = largest.at_peak.unsigned_abs();
    let is_most = share.saturating_mul(2) > peak.unsigned_abs();
    let told = told_place(side, place);
    Some(match is_most {
        true => format!(", most of it in {told}"),
        false => format!(", {} of it in {told}", Bytes(share)),
    })
}

/// The innermost function of the program in whose calls most of the bytes are allocated. One that
/// is in no row of the other sign comes first: what both have need not be what changed. The
/// outermost function of a stack holds everything, and tells nothing.
fn function_of_most<'d>(
    rows: &[&'d SiteDelta],
    difference: &'d Difference,
    total: u64,
    peak: i64,
) -> Option<&'d Place> {
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
    let best = most.max_by_key(|(depth, weight, place)| {
        let only_here = !others.contains(&function(place));
        (only_here, std::cmp::Reverse(*depth), *weight)
    });
    best.map(|(_, _, place)| place)
}

/// Name and file.
type Function<'p> = (&'p str, &'p str);

fn function(place: &Place) -> Function<'_> {
    (&place.name, &place.filename)
}

fn told_place(side: &SiteSide, place: &Place) -> String {
    match own_frames(side).first().copied() {
        Some(own) if own != place => format!("{} of {}", place.name, own.told()),
        _ => place.told(),
    }
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

/// The steps of the new run that reach higher than all of the baseline, where they are few of many.
fn steps(difference: &Difference, usual: Bytes) -> Option<String> {
    let limit = difference.base.common_peak + usual;
    let new = || {
        let steps = difference.steps.iter();
        steps.filter_map(|step| Some((step.index, step.new.as_ref()?)))
    };
    let high: Vec<String> = new()
        .filter(|(_, step)| step.peak > limit)
        .map(|(index, _)| index.to_string())
        .collect();
    if high.len() > MOST_STEPS || high.len() * 2 >= new().count() {
        return None;
    }
    Some(match &high[..] {
        [] => return None,
        [one] => format!(", in step {one}"),
        [first @ .., last] => format!(", in steps {} and {last}", first.join(", ")),
    })
}
