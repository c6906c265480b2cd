//! What a person should know first.

use super::odd::{OddKind, known_peaks, median, rate};
use super::profile::RankPlace;
use super::{Rank, RankRow, Spread};
use crate::code::{file_name, is_of_inductor};
use crate::compare::noise;
use crate::compare::profile::Place;
use crate::leaks::{Verdict, rate_unit};
use crate::steps::Word;
use crate::units::Bytes;
use std::cmp::Reverse;

/// What ranks may reserve more than others, whatever it is of all: one large segment.
const RESERVED_FLOOR: Bytes = Bytes::mib(20);
/// How many ranks are named one by one.
const NAMED: usize = 4;

/// The sentences, the most serious first. There is always one if there are ranks.
pub(super) fn sentences(ranks: &[RankRow], peaks: Option<&Spread>) -> Vec<String> {
    let Some(peaks) = peaks else {
        return Vec::new();
    };
    let mut found = Vec::new();
    found.extend(out_of_memory(ranks));
    found.extend(leaks(ranks));
    found.extend(odd_peaks(ranks, peaks));
    found.extend(odd_steps(ranks));
    if found.is_empty() {
        found.push(alike(ranks, peaks));
    } else if ranks.len() > 1 && !ranks.iter().any(has_odd_peak) {
        found.push(spread(ranks, peaks));
    }
    found.extend(reserves(ranks, peaks));
    found.extend(unknown(ranks));
    found
}

fn has_odd_peak(row: &RankRow) -> bool {
    let is_peak = |kind| matches!(kind, OddKind::PeakHigh | OddKind::PeakLow);
    row.odd.iter().any(|odd| is_peak(odd.kind))
}

fn named(rows: &[&RankRow]) -> String {
    let ranks: Vec<Rank> = rows.iter().map(|row| row.rank).collect();
    listed(&ranks)
}

/// `Rank 3`, `Ranks 1, 2 and 7`, `12 ranks (0, 1, 2, 3, …)`.
fn listed(ranks: &[Rank]) -> String {
    match ranks {
        [] => "No rank".to_owned(),
        [one] => format!("Rank {one}"),
        [first @ .., last] if ranks.len() <= NAMED => {
            let first: Vec<String> = first.iter().map(Rank::to_string).collect();
            format!("Ranks {} and {last}", first.join(", "))
        }
        _ => {
            let first: Vec<String> = ranks.iter().take(NAMED).map(Rank::to_string).collect();
            format!("{} ranks ({}, …)", ranks.len(), first.join(", "))
        }
    }
}

/// What is said of ranks that are missing; `None` if none is.
pub(super) fn missing(ranks: &[Rank]) -> Option<String> {
    let are = match ranks.len() {
        0 => return None,
        1 => "is",
        _ => "are",
    };
    Some(format!("{} {are} missing.", listed(ranks)))
}

/// What is said of ranks whose sites could not be compared; `None` if there are none.
pub(super) fn silent(ranks: &[Rank]) -> Option<String> {
    let (are, they) = match ranks.len() {
        0 => return None,
        1 => ("is", "it"),
        _ => ("are", "they"),
    };
    Some(format!(
        "{} {are} left out of the comparison by stack: {they} lost events, or {} recorded without \
         stacks.",
        listed(ranks),
        if ranks.len() == 1 { "was" } else { "were" }
    ))
}

/// What is said of ranks that peak at another moment than most; `None` if none does.
pub(super) fn elsewhere(ranks: &[Rank]) -> Option<String> {
    let peak = match ranks.len() {
        0 => return None,
        1 => "peaks at another moment",
        _ => "peak at other moments",
    };
    Some(format!(
        "{} {peak} of the program than most.",
        listed(ranks)
    ))
}

/// What is said where no site differs.
pub(super) fn none_differs(same: u32, peaks: Option<&Spread>) -> String {
    let by_steps = "differs between ranks by more than between the steps of one";
    match (same, peaks.is_some_and(differ)) {
        (0, _) => "there is nothing to compare".to_owned(),
        (1, false) => "the only site holds the same in all ranks".to_owned(),
        (n, false) => format!("all {n} sites hold the same in all ranks"),
        (n, true) => {
            let sites = if n == 1 { "site" } else { "sites" };
            format!("the peaks differ, but none of {n} {sites} {by_steps}")
        }
    }
}

/// What the other ranks do: `the other rank does not`, `the other 7 ranks do not`.
fn others(n: usize, [one, several]: [&str; 2]) -> String {
    match n {
        0 => String::new(),
        1 => format!("; the other rank {one}"),
        n => format!("; the other {n} ranks {several}"),
    }
}

fn all_ranks(n: usize) -> String {
    match n {
        2 => "Both ranks".to_owned(),
        n => format!("All {n} ranks"),
    }
}

/// Whether two ranks leak as fast, as far as two runs of one program are alike, in the same place.
fn leaks_like(a: &RankRow, b: &RankRow) -> bool {
    // What Inductor wrote is called by its content, and that differs from rank to rank.
    let place = |row: &RankRow| {
        let place = row.leaks.first().map(|leak| leak.place.clone())?;
        Some(match is_of_inductor(&place.filename) {
            true => Place {
                filename: String::new(),
                ..place
            },
            false => place,
        })
    };
    let (more, less) = (rate(a).max(rate(b)), rate(a).min(rate(b)));
    let is_same = place(a) == place(b) && a.leaks_within() == b.leaks_within();
    is_same && less.0 as f64 >= more.0 as f64 * (1.0 - noise::RATE_SHARE)
}

fn out_of_memory(ranks: &[RankRow]) -> Option<String> {
    let failed: Vec<&RankRow> = ranks.iter().filter(|row| row.oom.is_some()).collect();
    let first = failed.first()?;
    if failed.len() == ranks.len() && ranks.len() > 1 {
        return Some(format!("{} ran out of memory.", all_ranks(ranks.len())));
    }
    let step = match (failed.len(), first.oom.and_then(|oom| oom.step)) {
        (1, Some(step)) => format!(" in step {step}"),
        _ => String::new(),
    };
    let others = others(ranks.len() - failed.len(), ["did not", "did not"]);
    Some(format!(
        "{} ran out of memory{step}{others}.",
        named(&failed)
    ))
}

fn leaks(ranks: &[RankRow]) -> Option<String> {
    let with = |verdict| {
        let rows = ranks.iter().filter(move |row| row.verdict == verdict);
        rows.collect::<Vec<_>>()
    };
    let (mut leaking, clean) = (with(Verdict::Leak), with(Verdict::Clean));
    let n = leaking.len();
    let fastest = *leaking
        .iter()
        .max_by_key(|row| (!row.leaks_within(), rate(row), Reverse(row.rank)))?;
    leaking.sort_by_key(|row| row.rank);
    let what = format!(
        "{} {}{}",
        rate(fastest),
        rate_unit(fastest.leaks_within()),
        fastest.leaks.first().map_or_else(String::new, place)
    );
    let rest = others(clean.len(), ["does not", "do not"]);
    let alike = leaking.iter().all(|row| leaks_like(row, fastest));
    // Another sentence names the ranks without a verdict.
    let all = n == ranks.len() && n > 1;
    Some(match n {
        1 => format!("{} leaks {what}{rest}.", named(&leaking)),
        _ if all && alike => format!("{} leak {what}.", all_ranks(n)),
        _ if alike => format!("{} leak {what}{rest}.", named(&leaking)),
        _ if all => format!(
            "{} leak, rank {} fastest: {what}.",
            all_ranks(n),
            fastest.rank
        ),
        _ => format!(
            "{} leak, rank {} fastest: {what}{rest}.",
            named(&leaking),
            fastest.rank
        ),
    })
}

/// ` in keep (train.py:41)`; with the line of the program that called it, if it is in a package.
fn place(leak: &RankPlace) -> String {
    let of = |place: &Place, word: &str| {
        let file = file_name(&place.filename);
        match (place.name.as_str(), file, place.line) {
            ("", _, _) => String::new(),
            (name, "", _) => format!("{word} {name}"),
            (name, file, 0) => format!("{word} {name} ({file})"),
            (name, file, line) => format!("{word} {name} ({file}:{line})"),
        }
    };
    let caller = leak.caller.as_ref();
    of(&leak.place, " in") + &caller.map_or_else(String::new, |by| of(by, ", called by"))
}

/// Whether some peaks are only known to be no lower.
fn some_are_least(ranks: &[RankRow]) -> bool {
    ranks.iter().any(|row| row.at_least)
}

/// From which rank to which the peaks lie, with a word between: `2 GiB (rank 0) and 3 GiB (rank
/// 1)`.
fn ends(ranks: &[RankRow], peaks: &Spread, word: &str) -> String {
    let end = |rank: Rank, peak: Bytes| {
        let row = ranks.iter().find(|row| row.rank == rank);
        let told = row.map_or_else(|| peak.to_string(), RankRow::peak);
        format!("{told} (rank {rank})")
    };
    let (least, most) = (
        end(peaks.min_rank, peaks.min),
        end(peaks.max_rank, peaks.max),
    );
    format!("{least} {word} {most}")
}

/// Where several ranks peak that are alike.
fn about(ranks: &[RankRow], peaks: &Spread) -> String {
    match some_are_least(ranks) {
        true => format!("reach at least {}", peaks.min),
        false => format!("peak at about {}", peaks.max),
    }
}

fn odd_peaks(ranks: &[RankRow], peaks: &Spread) -> Option<String> {
    let mut odd: Vec<&RankRow> = ranks.iter().filter(|row| has_odd_peak(row)).collect();
    odd.sort_by_key(|row| row.by_oddness);
    let mut known = known_peaks(ranks);
    let (n, median) = (known.len(), Bytes(median(&mut known)));
    match odd[..] {
        [] => None,
        [one] => Some(format!(
            "Rank {} {}; the median of {n} ranks is {median}.",
            one.rank,
            one.peaks()
        )),
        _ => Some(format!(
            "{} peak far from the median of {median}: from {}.",
            named(&odd),
            ends(ranks, peaks, "to")
        )),
    }
}

fn whole_steps(n: u32) -> String {
    match n {
        1 => "1 whole step".to_owned(),
        n => format!("{n} whole steps"),
    }
}

fn odd_steps(ranks: &[RankRow]) -> Option<String> {
    let is_odd = |row: &&RankRow| row.odd.iter().any(|odd| odd.kind == OddKind::Steps);
    let odd: Vec<&RankRow> = ranks.iter().filter(is_odd).collect();
    // A recording that wrapped has lost steps, and is not odd for it.
    let counts = |row: &&RankRow| !is_odd(row) && !row.wrapped && row.steps > 0;
    let others = ranks.iter().find(counts)?;
    let usual = others.steps;
    match odd[..] {
        [] => None,
        [one] => Some(format!(
            "Rank {} ran {}; most ran {usual}.",
            one.rank,
            whole_steps(one.steps)
        )),
        _ => Some(format!(
            "{} did not run {} as most did.",
            named(&odd),
            Word::Step.counted(usual as usize)
        )),
    }
}

fn differ(peaks: &Spread) -> bool {
    let tolerance = noise::level(peaks.median, peaks.median, Bytes::ZERO);
    peaks.max.saturating_sub(peaks.min) > tolerance
}

fn spread(ranks: &[RankRow], peaks: &Spread) -> String {
    match differ(peaks) {
        false => {
            let all = if ranks.len() == 2 { "Both" } else { "All" };
            format!("{all} {}.", about(ranks, peaks))
        }
        true if ranks.len() == 2 => format!("Their peaks are {}.", ends(ranks, peaks, "and")),
        true => format!("Peaks lie between {}.", ends(ranks, peaks, "and")),
    }
}

/// What is said of *reserved* where it differs and *allocated* does not: other pieces of memory lie
/// unused, and a rank may run out of memory alone.
fn reserves(ranks: &[RankRow], peaks: &Spread) -> Option<String> {
    let of = |row: &RankRow| (row.rank, row.peak_reserved);
    let reserved = Spread::of(&ranks.iter().map(of).collect::<Vec<_>>())?;
    let more = reserved.max.saturating_sub(reserved.min);
    let share = Bytes((reserved.max.0 as f64 * noise::RESERVED_SHARE) as u64);
    let counts = more > share.max(RESERVED_FLOOR);
    if !counts || differ(peaks) || some_are_least(ranks) {
        return None;
    }
    let Spread { min, max, .. } = reserved;
    let (least, most) = (reserved.min_rank, reserved.max_rank);
    let between = if ranks.len() == 2 {
        "is"
    } else {
        "lies between"
    };
    Some(format!(
        "Reserved {between} {min} (rank {least}) and {max} (rank {most})."
    ))
}

fn alike(ranks: &[RankRow], peaks: &Spread) -> String {
    let clean = ranks.iter().all(|row| row.verdict == Verdict::Clean);
    let leaks = if clean { ", and none leaks" } else { "" };
    match (ranks.len(), differ(peaks)) {
        (1, _) => format!(
            "One rank, which {}{}.",
            ranks[0].peaks(),
            match clean {
                true => " and does not leak",
                false => "",
            }
        ),
        (n, false) => format!("{} {}{leaks}.", all_ranks(n), about(ranks, peaks)),
        (2, true) => format!(
            "The {} {}{leaks}; of two that differ nobody can tell which is the odd one.",
            match some_are_least(ranks) {
                true => "peaks of the two ranks are",
                false => "two ranks peak at",
            },
            ends(ranks, peaks, "and")
        ),
        (n, true) => format!(
            "No rank is odd: the peaks of {n} ranks lie between {}{leaks}.",
            ends(ranks, peaks, "and")
        ),
    }
}

fn unknown(ranks: &[RankRow]) -> Option<String> {
    let is_unknown = |row: &&RankRow| row.verdict == Verdict::CannotTell;
    let unknown: Vec<&RankRow> = ranks.iter().filter(is_unknown).collect();
    let n = unknown.len();
    match n {
        0 => None,
        _ if n == ranks.len() => Some("Of no rank can it be told whether it leaks.".to_owned()),
        1 => Some(format!(
            "Of rank {} it cannot be told whether it leaks.",
            unknown[0].rank
        )),
        _ => Some(format!("Of {n} ranks it cannot be told whether they leak.")),
    }
}
