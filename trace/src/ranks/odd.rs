//! Which ranks are odd.
//!
//! * *Out of memory, leaks*: if some ranks do and others do not, the smaller group is odd; of two
//!   halves, those that do. A rank without a verdict counts for neither group.
//! * *Peak, rate of the leak*: from three ranks on, a rank is odd if it is further from the median
//!   than [`far`] allows. Of two ranks nobody can tell which is the odd one. The peak of a ring
//!   that wrapped is only known to be no lower: it is in no median, and it is never too low.
//! * The peaks of what was *requested* must differ, too: an allocator with other settings rounds
//!   otherwise. As much as the steps of most ranks differ by, peaks may, and a little of what the
//!   steps of the rank itself do.
//! * Peaks and steps are held against those of ranks that run the same code ([`super::roles`]).
//!   Peaks of a pipeline's stages differ by design.
//! * *Steps*: from three ranks on, if more than half have the same number, the others are odd. A
//!   recording whose ring wrapped has lost steps and does not count. Nor is a rank odd if it, or
//!   most, may have begun to record later: the one with fewer steps holds more from before.

use super::RankRow;
use super::begin;
use crate::compare::noise::{self, RATE_SHARE};
use crate::leaks::{Verdict, rate_unit};
use crate::median;
use crate::steps::Word;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A rank is odd from this many spreads from the median on: the usual bound of a modified z-score
/// (Iglewicz and Hoaglin 1993).
pub const FAR: f64 = 3.5;
/// The median absolute deviation times this is the standard deviation of normal values.
const NORMAL: f64 = 1.4826;
/// The largest number of reasons that a rank can have.
pub const KINDS: usize = 8;
/// Up to this share of a peak, a step of its rank alone may stand out by chance, as where what is
/// gathered for two layers is there at the same time.
const BY_CHANCE: f64 = 0.05;
/// With fewer ranks, nobody can tell which one is odd.
const FEWEST: usize = 3;

/// What sets a rank apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum OddKind {
    /// It ran out of memory, and others did not.
    OutOfMemory,
    /// It leaks, and others do not.
    Leaks,
    /// It leaks faster or slower than the others do.
    LeakRate,
    /// Its peak is higher than that of the others.
    PeakHigh,
    /// Its peak is lower than that of the others.
    PeakLow,
    /// It ran another number of steps.
    Steps,
    /// It does not leak, and the others do.
    NoLeak,
    /// It did not run out of memory, and the others did.
    NotOutOfMemory,
}

/// One reason why a rank is odd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Odd {
    /// What it is.
    pub kind: OddKind,
    /// In words.
    pub why: String,
    /// By how many bytes it differs; 0 where bytes are not the matter.
    pub bytes: Bytes,
}

/// How far from their median values may lie: [`FAR`] times their spread, and never less than
/// `least`. The spread is the median of the distances, so that odd values do not widen it.
pub fn far(values: &[u64], middle: u64, least: Bytes) -> Bytes {
    let distances = values.iter().map(|v| v.abs_diff(middle));
    let spread = median::mean(distances).unwrap_or(0) as f64 * NORMAL;
    Bytes((FAR * spread) as u64).max(least)
}

/// Finds for each rank why it is odd, and sorts the ranks by that.
pub(super) fn judge(ranks: &mut [RankRow], wobbles: &[Bytes]) {
    out_of_memory(ranks);
    leaks(ranks);
    rates(ranks);
    for group in groups(ranks) {
        peaks(ranks, wobbles, group);
        steps(ranks, group);
    }
    for row in ranks.iter_mut() {
        row.odd.sort_by_key(|odd| (odd.kind, Reverse(odd.bytes)));
    }
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_by_key(|&at| {
        let first = ranks[at]
            .odd
            .first()
            .map(|odd| (odd.kind, Reverse(odd.bytes)));
        (first.is_none(), first, ranks[at].rank)
    });
    for (position, at) in order.into_iter().enumerate() {
        ranks[at].by_oddness = position as u32;
    }
}

/// Whether the ranks that do it are the odd ones: the smaller group, and of two halves those that
/// do. `None` if all agree.
fn fewer(does: usize, does_not: usize) -> Option<bool> {
    match (does, does_not) {
        (0, _) | (_, 0) => None,
        _ => Some(does <= does_not),
    }
}

fn push(row: &mut RankRow, kind: OddKind, why: String, bytes: Bytes) {
    row.odd.push(Odd { kind, why, bytes });
}

fn out_of_memory(ranks: &mut [RankRow]) {
    let all = ranks.len();
    let n = ranks.iter().filter(|row| row.oom.is_some()).count();
    let others = all - n;
    let Some(are_odd) = fewer(n, others) else {
        return;
    };
    for row in ranks.iter_mut().filter(|row| row.oom.is_some() == are_odd) {
        match row.oom {
            Some(ref oom) => {
                let (when, what) = (oom.when(), oom.what());
                let others = others_do_not(others, all, "did not");
                let why = format!("ran out of memory{when}{what}; {others}");
                let wanted = oom.wanted;
                push(row, OddKind::OutOfMemory, why, wanted);
            }
            None => {
                let why = format!(
                    "did not run out of memory; {}",
                    others_do_not(n, all, "did")
                );
                push(row, OddKind::NotOutOfMemory, why, Bytes::ZERO);
            }
        }
    }
}

/// `n` of `all` ranks do otherwise. Of two ranks, one other is all that there are.
fn others_do_not(n: usize, all: usize, what: &str) -> String {
    match (n, all) {
        (1, 2) => format!("the other rank {what}"),
        (1, _) => format!("one other rank {what}"),
        (n, _) => format!("{n} others {what}"),
    }
}

fn leaks(ranks: &mut [RankRow]) {
    let all = ranks.len();
    let count = |verdict| ranks.iter().filter(|row| row.verdict == verdict).count();
    let (n, clean) = (count(Verdict::Leak), count(Verdict::Clean));
    let Some(are_odd) = fewer(n, clean) else {
        return;
    };
    for row in ranks.iter_mut() {
        match (row.verdict, are_odd) {
            (Verdict::Leak, true) => {
                let rate = rate(row);
                let unit = rate_unit(row.leaks_within());
                let do_not = if clean == 1 { "does not" } else { "do not" };
                let others = others_do_not(clean, all, do_not);
                push(
                    row,
                    OddKind::Leaks,
                    format!("leaks {rate} {unit}{}; {others}", row.on_which()),
                    rate,
                );
            }
            (Verdict::Clean, false) => {
                let others = others_do_not(n, all, if n == 1 { "does" } else { "do" });
                push(
                    row,
                    OddKind::NoLeak,
                    format!("does not leak; {others}"),
                    Bytes::ZERO,
                );
            }
            _ => {}
        }
    }
}

/// Bytes a step; bytes a part of a step where it leaks within steps only.
pub fn rate(row: &RankRow) -> Bytes {
    Bytes(row.leaked_per_step.max(0.0).round() as u64)
}

fn rates(ranks: &mut [RankRow]) {
    for within in [false, true] {
        rates_of(ranks, within);
    }
}

/// The rates of the ranks that leak within steps only, or of the others: each is counted by
/// something else.
fn rates_of(ranks: &mut [RankRow], within: bool) {
    let leaking = |row: &RankRow| row.verdict == Verdict::Leak && row.leaks_within() == within;
    let values: Vec<u64> = ranks
        .iter()
        .filter(|row| leaking(row))
        .map(|row| rate(row).0)
        .collect();
    if values.len() < FEWEST {
        return;
    }
    let middle = median::mean(values.iter().copied()).unwrap_or(0);
    let least = Bytes((middle as f64 * RATE_SHARE) as u64);
    let far = far(&values, middle, least);
    for row in ranks.iter_mut().filter(|row| leaking(row)) {
        let rate = rate(row);
        let off = Bytes(rate.0.abs_diff(middle));
        if off > far {
            let how = if rate.0 > middle { "faster" } else { "slower" };
            let median = Bytes(middle);
            let unit = rate_unit(within);
            let why = format!("leaks {off} {unit} {how} than the median of {median}");
            push(row, OddKind::LeakRate, why, off);
        }
    }
}

/// The peaks of a group that are known, which the others are held against.
pub(super) fn known_peaks(ranks: &[RankRow], group: u32) -> Vec<u64> {
    let known = of_group(ranks, group).filter(|row| !row.at_least);
    known.map(|row| row.peak_allocated.0).collect()
}

fn of_group(ranks: &[RankRow], group: u32) -> impl Iterator<Item = &RankRow> {
    ranks.iter().filter(move |row| row.group == group)
}

/// Whether all of these are stages of a pipeline: each holds what its layers need.
pub(super) fn are_stages<'r>(ranks: impl IntoIterator<Item = &'r RankRow>) -> bool {
    ranks.into_iter().all(|row| row.is_stage)
}

/// The groups of ranks that run the same code.
pub(super) fn groups(ranks: &[RankRow]) -> BTreeSet<u32> {
    ranks.iter().map(|row| row.group).collect()
}

fn peaks(ranks: &mut [RankRow], wobbles: &[Bytes], group: u32) {
    let values = known_peaks(ranks, group);
    if values.len() < FEWEST || are_stages(of_group(ranks, group)) {
        return;
    }
    let middle = median::mean(values.iter().copied()).unwrap_or(0);
    let own = ranks
        .iter()
        .zip(wobbles)
        .filter(|(row, _)| row.group == group);
    let together = median::upper(own.map(|(_, wobble)| *wobble)).unwrap_or_default();
    let known = of_group(ranks, group).filter(|row| !row.at_least);
    let asked = median::mean(known.map(|row| row.peak_requested.0)).unwrap_or(0);
    let of_group = |(row, _): &(&mut RankRow, &Bytes)| row.group == group;
    for (row, wobble) in ranks.iter_mut().zip(wobbles).filter(of_group) {
        if row.at_least && row.peak_allocated.0 < middle {
            continue;
        }
        // A step in which a rank alone stands high is no excuse for it, unless it is little.
        let by_chance = Bytes((middle as f64 * BY_CHANCE) as u64).min(*wobble);
        // The tolerance is a share of the median. A share of the larger value would let any large
        // value count as usual.
        let least = noise::level(Bytes(middle), Bytes(middle), together.max(by_chance));
        // The same was asked for: the settings of the allocator differ.
        if row.peak_requested.0.abs_diff(asked) <= least.0 {
            continue;
        }
        let off = Bytes(row.peak_allocated.0.abs_diff(middle));
        if off > far(&values, middle, least) {
            let (kind, side) = match row.peak_allocated.0 > middle {
                true => (OddKind::PeakHigh, "above"),
                false => (OddKind::PeakLow, "below"),
            };
            let median = Bytes(middle);
            let why = format!("its peak is {off} {side} the median of {median}");
            push(row, kind, why, off);
        }
    }
}

fn steps(ranks: &mut [RankRow], group: u32) {
    let counted = |row: &RankRow| row.group == group && !row.wrapped && row.steps > 0;
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for row in ranks.iter().filter(|row| counted(row)) {
        *counts.entry(row.steps).or_default() += 1;
    }
    let n: usize = counts.values().sum();
    let usual = counts.into_iter().find(|&(_, times)| 2 * times > n);
    let Some((usual, times)) = usual.filter(|_| n >= FEWEST) else {
        return;
    };
    let is_usual = |row: &&RankRow| counted(row) && row.steps == usual;
    let before = ranks.iter().filter(is_usual).map(|row| row.from_before.0);
    let before = Bytes(median::mean(before).unwrap_or(0));
    let began_later = |row: &RankRow| {
        let (few, many) = match row.steps < usual {
            true => (row.from_before, before),
            false => (before, row.from_before),
        };
        begin::is_more(few, many)
    };
    let is_odd = |row: &&mut RankRow| counted(row) && row.steps != usual && !began_later(row);
    for row in ranks.iter_mut().filter(is_odd) {
        let own = Word::Step.counted(row.steps as usize);
        let why = format!("ran {own}; {times} of {n} ranks ran {usual}");
        push(row, OddKind::Steps, why, Bytes::ZERO);
    }
}
