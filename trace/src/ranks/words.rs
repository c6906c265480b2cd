//! What a person should know first.

use super::failure::RankFailure;
use super::leaking_place::RankPlace;
use super::listed::{Extent, all_ranks, lower, named, others};
use super::notes::{differ, groups_apart, settings};
use super::odd::{OddKind, are_stages, groups, known_peaks, rate};
use super::other_devices;
use super::sites::SiteAcross;
use super::{Rank, RankRow, Spread};
use crate::code::is_of_inductor;
use crate::compare::noise;
use crate::compare::profile::Place;
use crate::device::DeviceIdx;
use crate::leaks::{Verdict, rate_unit};
use crate::median;
use crate::site::size_of_id;
use crate::steps::Word;
use crate::units::Bytes;
use std::cmp::Reverse;

/// From more places of leaks than this on, only that of the fastest is told.
const PLACES: usize = 3;
/// A place is told if it makes this share of what a peak differs by.
const LARGE: u64 = 4;
/// What ranks may reserve more than others, whatever it is of all: one large segment.
const RESERVED_FLOOR: Bytes = Bytes::mib(20);
/// The sentences, the most serious first. There is always one if there are ranks. `sites` are
/// those that differ; `extent` says whether the job has other ranks.
pub(super) fn sentences(
    ranks: &[RankRow],
    extent: Extent,
    peaks: Option<&Spread>,
    sites: &[SiteAcross],
) -> Vec<String> {
    let Some(peaks) = peaks else {
        return Vec::new();
    };
    let mut odd = Vec::new();
    odd.extend(odd_peaks(ranks, sites));
    odd.extend(odd_steps(ranks));
    let mut found = Vec::new();
    found.extend(out_of_memory(ranks, extent));
    found.extend(leaks(ranks, extent));
    found.extend(other_devices::leak_too(ranks));
    if found.is_empty() && odd.is_empty() {
        found.push(alike(ranks, extent, peaks, sites));
        found.extend(settings(ranks));
        found.extend(groups_apart(ranks));
        found.extend(spread_of_groups(ranks).filter(|_| groups(ranks).len() > 1));
    } else {
        // Other settings may be why peaks differ.
        found.extend(settings(ranks));
        found.extend(odd);
        found.extend(groups_apart(ranks));
        if ranks.len() > 1 && !ranks.iter().any(has_odd_peak) {
            found.extend(match groups(ranks).len() {
                1 => Some(spread(ranks, extent, peaks)),
                _ => spread_of_groups(ranks),
            });
        }
    }
    found.extend(other_devices::used(ranks));
    found.extend(reserves(ranks, peaks));
    found.extend(unknown(ranks));
    found
}

fn has_odd_peak(row: &RankRow) -> bool {
    let is_peak = |kind| matches!(kind, OddKind::PeakHigh | OddKind::PeakLow);
    row.odd.iter().any(|odd| is_peak(odd.kind))
}

/// Where a rank leaks.
#[derive(PartialEq)]
struct Spot {
    place: Option<Place>,
    /// The device, if it is another than the one that is compared.
    device: Option<DeviceIdx>,
    /// Whether within its steps only.
    is_within: bool,
}

fn where_it_leaks(row: &RankRow) -> Spot {
    // What Inductor wrote is called by its content, and that differs from rank to rank.
    let place = row.leaks.first().map(|leak| {
        let mut place = leak.place.clone();
        if is_of_inductor(&place.filename) {
            place.filename.clear();
        }
        place
    });
    Spot {
        place,
        device: row.leaks_on,
        is_within: row.leaks_within(),
    }
}

/// Whether ranks leak as fast, as far as two runs of one program are alike.
fn leak_as_fast(rows: &[&RankRow]) -> bool {
    let rates = || rows.iter().map(|row| rate(row));
    let (Some(most), Some(least)) = (rates().max(), rates().min()) else {
        return true;
    };
    least.0 as f64 >= most.0 as f64 * (1.0 - noise::RATE_SHARE)
}

fn out_of_memory(ranks: &[RankRow], extent: Extent) -> Option<String> {
    let failed: Vec<&RankRow> = ranks.iter().filter(|row| row.oom.is_some()).collect();
    let who = match failed.len() {
        0 => return None,
        n if n == ranks.len() && n > 1 => all_ranks(n, extent),
        _ => named(&failed),
    };
    let of = |text: fn(&RankFailure) -> String| {
        let mut told = failed.iter().flat_map(|row| &row.oom).map(text);
        // What not all of them have in common is in their rows.
        let first = told.next().unwrap_or_default();
        told.all(|other| other == first).then_some(first)
    };
    let (when, what) = (of(RankFailure::when), of(RankFailure::what));
    Some(format!(
        "{who} ran out of memory{}{}{}.",
        when.unwrap_or_default(),
        what.unwrap_or_default(),
        others(ranks.len() - failed.len(), extent, ["did not", "did not"])
    ))
}

/// Who leaks, how fast and where: a part for each place, if they are few.
fn leaks(ranks: &[RankRow], extent: Extent) -> Option<String> {
    let with = |verdict| {
        let rows = ranks.iter().filter(move |row| row.verdict == verdict);
        rows.collect::<Vec<_>>()
    };
    let (leaking, clean) = (with(Verdict::Leak), with(Verdict::Clean));
    let rest = others(clean.len(), extent, ["does not", "do not"]);
    let mut places: Vec<(Spot, Vec<&RankRow>)> = Vec::new();
    for row in &leaking {
        let own = where_it_leaks(row);
        match places.iter_mut().find(|(known, _)| *known == own) {
            Some((_, rows)) => rows.push(row),
            None => places.push((own, vec![row])),
        }
    }
    // What grows from step to step is the graver.
    places.sort_by_key(|(spot, _)| spot.is_within);
    // Another sentence names the ranks without a verdict.
    let all = leaking.len() == ranks.len() && leaking.len() > 1;
    let parts: Vec<String> = match places.len() {
        0 => return None,
        1 if all => vec![leak(&leaking, &all_ranks(leaking.len(), extent))],
        n if n > PLACES && all => vec![leak(&leaking, &all_ranks(leaking.len(), extent))],
        n if n > PLACES => vec![leak(&leaking, &named(&leaking))],
        _ => {
            let parts = places.iter().enumerate();
            let who = |at: usize, rows: &[&RankRow]| match at {
                0 => named(rows),
                _ => lower(&named(rows)),
            };
            parts
                .map(|(at, (_, rows))| leak(rows, &who(at, rows)))
                .collect()
        }
    };
    Some(format!("{}{rest}.", parts.join("; ")))
}

/// How fast these ranks leak, and where the fastest of them does.
fn leak(rows: &[&RankRow], who: &str) -> String {
    let by_speed = |row: &&RankRow| (!row.leaks_within(), rate(row), Reverse(row.rank));
    let Some(fastest) = rows.iter().copied().max_by_key(by_speed) else {
        return String::new();
    };
    let what = format!(
        "{} {}{}{}",
        rate(fastest),
        rate_unit(fastest.leaks_within()),
        fastest.on_which(),
        fastest.leaks.first().map_or_else(String::new, place)
    );
    let first = where_it_leaks(fastest);
    let is_alike = leak_as_fast(rows) && rows.iter().all(|row| where_it_leaks(row) == first);
    match (rows.len(), is_alike) {
        (1, _) => format!("{who} leaks {what}"),
        (_, true) => format!("{who} leak {what}"),
        (_, false) => format!("{who} leak, rank {} fastest: {what}", fastest.rank),
    }
}

/// ` in keep (train.py:41)`; with the line of the program that called it, if it is in a package.
fn place(leak: &RankPlace) -> String {
    let of = |place: &Place, word: &str| match place.name.as_str() {
        "" => String::new(),
        _ => format!("{word} {}", place.told()),
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
    let known = ranks.iter().filter(|row| !row.at_least);
    let known = known.map(|row| row.peak_allocated).max();
    match (known, some_are_least(ranks)) {
        (None, _) => format!("reach at least {}", peaks.min),
        (Some(known), true) => format!("peak at about {known}, as far as is known"),
        (Some(_), false) => format!("peak at about {}", peaks.max),
    }
}

/// A sentence for each group of ranks that run the same code.
fn odd_peaks(ranks: &[RankRow], sites: &[SiteAcross]) -> Vec<String> {
    let of = |group| {
        let peers: Vec<&RankRow> = ranks.iter().filter(|row| row.group == group).collect();
        let odd = peers.iter().copied().filter(|row| has_odd_peak(row));
        let odd: Vec<&RankRow> = odd.collect();
        let known = known_peaks(ranks, group);
        let n = known.len();
        let median = Bytes(median::mean(known).unwrap_or(0));
        match odd[..] {
            [] => None,
            [one] => Some(format!(
                "Rank {} {}; the median of {n} ranks is {median}.{}",
                one.rank,
                one.peaks(),
                most_of(one, (&peers, median), sites, ranks.len()).unwrap_or_default()
            )),
            _ => {
                let peaks: Vec<_> = odd
                    .iter()
                    .map(|row| (row.rank, row.peak_allocated))
                    .collect();
                let ends = Spread::of(&peaks).map(|peaks| ends(ranks, &peaks, "to"));
                Some(format!(
                    "{} peak far from the median of {median}: from {}.",
                    named(&odd),
                    ends.unwrap_or_default()
                ))
            }
        }
    };
    groups(ranks).into_iter().filter_map(of).collect()
}

/// The site that makes the largest part of what a peak differs by from that of its `peers`: ` At
/// its peak, main (train.py:14) holds 32.4 MiB, against a median of 0 B.`
fn most_of(
    row: &RankRow,
    (peers, usual_peak): (&[&RankRow], Bytes),
    sites: &[SiteAcross],
    ranks: usize,
) -> Option<String> {
    let off = row.peak_allocated.0.abs_diff(usual_peak.0);
    let is_high = row.peak_allocated > usual_peak;
    let of_rank = |site: &SiteAcross| {
        let of = |rank: Rank| site.farthest.iter().find(|holds| holds.rank == rank);
        let held = of(row.rank)?.at_peak;
        // That of all ranks says nothing of those that run the same code.
        let usual = match peers.len() == ranks {
            true => site.at_peak[1],
            false => {
                let peers = peers.iter().map(|peer| Some(of(peer.rank)?.at_peak.0));
                Bytes(median::mean(peers.collect::<Option<Vec<_>>>()?).unwrap_or(0))
            }
        };
        let more = match is_high {
            true => held.saturating_sub(usual),
            false => usual.saturating_sub(held),
        };
        Some((more, held, usual))
    };
    // Whose place is inferred says less: blocks of one size are in one rank alone by chance.
    let sites = sites.iter().filter(|site| size_of_id(&site.id).is_none());
    let sites = sites.filter(|site| site.place.is_some());
    let sites = sites.filter_map(|site| Some((site, of_rank(site)?)));
    let (site, (more, held, usual)) = sites.max_by_key(|(_, (more, ..))| *more)?;
    let place = site.place.as_ref()?.told();
    // What others do not hold at all, they may come to by another way.
    let caller = site.caller.as_ref().filter(|_| usual == Bytes::ZERO);
    let caller = caller.map_or_else(String::new, |by| format!(", called by {},", by.told()));
    (more.0.saturating_mul(LARGE) >= off).then(|| {
        format!(" At its peak, {place}{caller} holds {held}, against a median of {usual}.")
    })
}

/// The same of two ranks, none of which is the usual one.
fn most_of_two(peaks: &Spread, sites: &[SiteAcross]) -> Option<String> {
    let off = peaks.max.saturating_sub(peaks.min);
    let of_rank = |site: &SiteAcross, rank: Rank| {
        let mut named = site.farthest.iter();
        Some(named.find(|holds| holds.rank == rank)?.at_peak)
    };
    let sites = sites.iter().filter(|site| size_of_id(&site.id).is_none());
    let sites = sites.filter_map(|site| {
        let more = of_rank(site, peaks.max_rank)?;
        let less = of_rank(site, peaks.min_rank)?;
        Some((site.place.as_ref()?, more, less))
    });
    let (place, more, less) = sites.max_by_key(|(_, more, less)| more.saturating_sub(*less))?;
    (more.saturating_sub(less).0.saturating_mul(LARGE) >= off.0).then(|| {
        let (least, most) = (peaks.min_rank, peaks.max_rank);
        let place = place.told();
        format!(" At their peaks, {place} holds {less} (rank {least}) and {more} (rank {most}).")
    })
}

fn odd_steps(ranks: &[RankRow]) -> Vec<String> {
    let is_odd = |row: &&RankRow| row.odd.iter().any(|odd| odd.kind == OddKind::Steps);
    // A recording that wrapped has lost steps, and is not odd for it.
    let counts = |row: &&RankRow| !is_odd(row) && !row.wrapped && row.steps > 0;
    let of = |group| {
        let own = || ranks.iter().filter(move |row| row.group == group);
        let odd: Vec<&RankRow> = own().filter(is_odd).collect();
        let usual = own().find(counts)?.steps;
        match odd[..] {
            [] => None,
            [one] => Some(format!(
                "Rank {} ran {}; most ran {usual}.",
                one.rank,
                Word::Step.counted(one.steps as usize)
            )),
            _ => Some(format!(
                "{} did not run {} as most did.",
                named(&odd),
                Word::Step.counted(usual as usize)
            )),
        }
    };
    groups(ranks).into_iter().filter_map(of).collect()
}

fn spread(ranks: &[RankRow], extent: Extent, peaks: &Spread) -> String {
    match differ(peaks) {
        false => {
            let all = match (extent, ranks.len()) {
                (Extent::Part, _) => "Those that were read",
                (Extent::Whole, 2) => "Both",
                (Extent::Whole, _) => "All",
            };
            format!("{all} {}.", about(ranks, peaks))
        }
        true if ranks.len() == 2 => format!("Their peaks are {}.", ends(ranks, peaks, "and")),
        true => {
            let of = match are_stages(ranks) {
                true => " of a pipeline's stages",
                false => "",
            };
            format!("Peaks{of} lie between {}.", ends(ranks, peaks, "and"))
        }
    }
}

/// The same of ranks that run different code: what one kind holds says nothing of another. Those
/// that are alike, or alone, are told by their median elsewhere.
fn spread_of_groups(ranks: &[RankRow]) -> Option<String> {
    let of = |group| {
        let own: Vec<RankRow> = ranks
            .iter()
            .filter(|row| row.group == group)
            .cloned()
            .collect();
        let peaks: Vec<_> = own
            .iter()
            .map(|row| (row.rank, row.peak_allocated))
            .collect();
        let peaks = Spread::of(&peaks)?;
        let named = lower(&named(&own.iter().collect::<Vec<_>>()));
        differ(&peaks).then(|| format!("{named} between {}", ends(&own, &peaks, "and")))
    };
    let told: Vec<String> = groups(ranks).into_iter().filter_map(of).collect();
    let (first, others) = told.split_first()?;
    let (from, to) = first.split_once(" between ")?;
    let others = others.iter().map(|own| format!(", those of {own}"));
    let others: String = others.collect();
    Some(format!("Peaks of {from} lie between {to}{others}."))
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

fn alike(ranks: &[RankRow], extent: Extent, peaks: &Spread, sites: &[SiteAcross]) -> String {
    let read = extent.that_were_read(1);
    let clean = ranks.iter().all(|row| row.verdict == Verdict::Clean);
    let leaks = match (clean, other_devices::some_are_unknown(ranks)) {
        (false, _) => "",
        (true, false) => ", and none leaks",
        (true, true) => ", and none leaks on the device that is compared",
    };
    match (ranks.len(), differ(peaks)) {
        (1, _) => format!(
            "One rank, which {}{}.",
            ranks[0].peaks(),
            match clean {
                true => " and does not leak",
                false => "",
            }
        ),
        (n, false) => format!("{} {}{leaks}.", all_ranks(n, extent), about(ranks, peaks)),
        (2, true) => format!(
            "The {} {}{leaks}; {}.{}",
            match some_are_least(ranks) {
                true => "peaks of the two ranks are",
                false => "two ranks peak at",
            },
            ends(ranks, peaks, "and"),
            match are_stages(ranks) {
                true => "stages of a pipeline differ by design",
                false => "of two that differ nobody can tell which is the odd one",
            },
            most_of_two(peaks, sites).unwrap_or_default()
        ),
        (_, true) if groups(ranks).len() > 1 => format!("No rank{read} is odd{leaks}."),
        (n, true) => format!(
            "No rank{read} is odd: the peaks of {n} {} lie between {}{leaks}.",
            match are_stages(ranks) {
                true => "stages of a pipeline",
                false => "ranks",
            },
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
        1 => Some(match unknown[0].reason.as_str() {
            "" => format!(
                "Of rank {} it cannot be told whether it leaks.",
                unknown[0].rank
            ),
            why => format!(
                "Of rank {} it cannot be told whether it leaks: {why}.",
                unknown[0].rank
            ),
        }),
        _ => Some(format!("Of {n} ranks it cannot be told whether they leak.")),
    }
}
