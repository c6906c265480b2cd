//! What a person should know of the comparison itself: which ranks it leaves out, and why ranks
//! that do the same may differ.

use super::begin::more_than_least;
use super::listed::{Extent, listed, lower, named};
use super::odd::groups;
use super::sites::{Found, Silent};
use super::{Rank, RankRow, Spread};
use crate::compare::noise;
use crate::median;
use crate::units::Bytes;

/// From more different settings than this on, only their number is told.
const SETTINGS: usize = 3;

/// What is said of ranks that are missing; `None` if none is.
pub(super) fn missing(ranks: &[Rank]) -> Option<String> {
    let are = match ranks.len() {
        0 => return None,
        1 => "is",
        _ => "are",
    };
    Some(format!("{} {are} missing.", listed(ranks)))
}

/// What is said first where ranks cannot be read, so that nobody takes those that can for all of
/// them; `None` if all can.
pub(super) fn unread(read: usize, unread: &[Rank]) -> Option<String> {
    let who = listed(unread);
    match (read, unread.len()) {
        (_, 0) => None,
        (0, _) => Some(format!("{who} could not be read.")),
        (read, n) => Some(format!(
            "{read} of {} ranks could be read; {} could not.",
            read + n,
            lower(&who)
        )),
    }
}

/// What is said of ranks whose sites could not be compared, a sentence for each reason.
pub(super) fn silent(ranks: &[(Rank, Silent)]) -> Vec<String> {
    let of = |why: Silent| {
        let ranks = ranks.iter().filter(|(_, own)| *own == why);
        let ranks: Vec<Rank> = ranks.map(|(rank, _)| *rank).collect();
        let (are, they, were) = match ranks.len() {
            0 => return None,
            1 => ("is", "it", "was"),
            _ => ("are", "they", "were"),
        };
        let why = match why {
            Silent::LostEvents => format!("{they} lost events"),
            Silent::NoStacks => format!("{they} {were} recorded without stacks"),
        };
        let who = listed(&ranks);
        Some(format!(
            "{who} {are} left out of the comparison by stack: {why}."
        ))
    };
    let all = [Silent::LostEvents, Silent::NoStacks].map(of);
    all.into_iter().flatten().collect()
}

/// What is said of ranks that peak at another moment than most; `None` if none does. Where one ran
/// out of memory is told, and stages of a pipeline peak where their layers do.
pub(super) fn elsewhere(rows: &[RankRow], elsewhere: &[Rank]) -> Option<String> {
    let is_news = |row: &&RankRow| row.oom.is_none() && !row.is_stage;
    let news = rows.iter().filter(is_news).map(|row| row.rank);
    let ranks: Vec<Rank> = news.filter(|rank| elsewhere.contains(rank)).collect();
    let peak = match ranks.len() {
        0 => return None,
        1 => "peaks at another moment",
        _ => "peak at other moments",
    };
    Some(format!(
        "{} {peak} of the program than most.",
        listed(&ranks)
    ))
}

/// What is said of ranks that hold more than others from before their recordings, where that
/// matters: sites are `unclear`, or they began later. `firsts` are the numbers of their first
/// steps.
pub(super) fn from_before(
    ranks: &[RankRow],
    firsts: &[Option<u32>],
    unclear: u32,
) -> Option<String> {
    // Of a ring that wrapped it is said that it lost events.
    let there: Vec<(&RankRow, Option<u32>)> = ranks.iter().zip(firsts.iter().copied()).collect();
    let there: Vec<_> = there.into_iter().filter(|(row, _)| !row.wrapped).collect();
    let held: Vec<Bytes> = there.iter().map(|(row, _)| row.from_before).collect();
    let more = more_than_least(&held);
    let with = |does: bool| {
        let rows = there.iter().zip(&more);
        rows.filter(move |(_, more)| (**more > Bytes::ZERO) == does)
            .map(|(row, _)| *row)
    };
    let rows: Vec<&RankRow> = with(true).map(|(row, _)| row).collect();
    let most = rows.iter().map(|row| row.from_before).max()?;
    let least = held.iter().min()?;
    let others = match ranks.len() {
        2 => "the other rank",
        _ => "others as little as",
    };
    let first = |does: bool| {
        with(does)
            .map(|(_, first)| first)
            .collect::<Option<Vec<u32>>>()
    };
    let began = match (first(true), first(false)) {
        (Some(own), Some(others)) => (others.iter().max() < own.iter().min()).then_some("began"),
        _ => {
            let ran = |does: bool| with(does).map(|(row, _)| row.steps).max();
            (ran(true) < ran(false)).then_some("may have begun")
        }
    };
    if unclear == 0 && began.is_none() {
        return None;
    }
    let who = named(&rows);
    let (they, up_to, their) = match rows.len() {
        1 => ("it", "", "its recording"),
        _ => ("they", "up to ", "their recordings"),
    };
    let rest = format!("{others} {least}, and what made that is not recorded");
    Some(match began {
        Some(began) => {
            format!("{who} {began} to record later: {they} held {up_to}{most} then, {rest}.")
        }
        None => format!("{who} held {up_to}{most} when {their} began, {rest}."),
    })
}

/// What is said of ranks whose allocators had other settings than those of the others; `None` if
/// none had, as far as that is recorded.
pub(super) fn settings(ranks: &[RankRow]) -> Option<String> {
    let mut groups: Vec<(&str, Vec<&RankRow>)> = Vec::new();
    for row in ranks {
        let Some(own) = row.settings.as_deref() else {
            continue;
        };
        match groups.iter_mut().find(|(known, _)| *known == own) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((own, vec![row])),
        }
    }
    if groups.len() < 2 {
        return None;
    }
    if groups.len() > SETTINGS {
        let n = groups.len();
        return Some(format!(
            "The ranks ran with {n} different allocator settings."
        ));
    }
    let known: usize = groups.iter().map(|(_, rows)| rows.len()).sum();
    let usual = groups.iter().position(|(_, rows)| 2 * rows.len() > known);
    let usual = usual.map(|at| groups.remove(at));
    let with = |own: &str| match own {
        "" => "with the allocator's default settings".to_owned(),
        own => format!("with {own}"),
    };
    let mut told: Vec<String> = Vec::new();
    for (own, rows) in &groups {
        let who = named(rows);
        let who = if told.is_empty() { who } else { lower(&who) };
        told.push(format!("{who} ran {}", with(own)));
    }
    let others = usual.map(|(own, rows)| {
        let others = if rows.len() == 1 {
            "the other"
        } else {
            "the others"
        };
        format!("{others} {}", with(own))
    });
    told.extend(others);
    Some(format!("{}.", told.join(", ")))
}

/// What is said where ranks run different code; `None` if all run the same.
pub(super) fn groups_apart(ranks: &[RankRow]) -> Option<String> {
    let of = |group| {
        let rows: Vec<&RankRow> = ranks.iter().filter(|row| row.group == group).collect();
        let peaks = rows.iter().map(|row| row.peak_allocated.0);
        (named(&rows), Bytes(median::mean(peaks).unwrap_or(0)))
    };
    let groups: Vec<_> = groups(ranks).into_iter().map(of).collect();
    match &groups[..] {
        [] | [_] => None,
        [(some, one), (others, other)] => Some(format!(
            "{some} and {} run different code: in the median they peak at {one} and {other}.",
            lower(others)
        )),
        more => Some(format!(
            "The ranks run {} kinds of code: only ranks that run the same are held against one \
             another.",
            more.len()
        )),
    }
}

/// What is said of the sites if none differs, of ranks that were compared.
pub(super) fn none_differs(ranks: &[RankRow], extent: Extent, found: &Found) -> Option<String> {
    if !found.rows.is_empty() {
        return None;
    }
    let rows = ranks
        .iter()
        .filter(|row| found.compared.contains(&row.rank));
    let peaks: Vec<_> = rows.map(|row| (row.rank, row.peak_allocated)).collect();
    let (same, unclear) = (found.same, found.unclear);
    let who = match found.silent.is_empty() {
        true => format!("all ranks{}", extent.that_were_read(ranks.len())),
        false => lower(&listed(&found.compared)),
    };
    let all = same + unclear;
    let why = "it is not known what ranks hold from before their recordings";
    Some(
        match (
            same,
            unclear,
            Spread::of(&peaks).as_ref().is_some_and(differ),
        ) {
            (0, 0, _) => "there is nothing to compare".to_owned(),
            (0, _, _) => format!("nothing can be compared: {why}"),
            (1, 0, false) => format!("the only site holds the same in {who}"),
            (n, 0, false) => format!("all {n} sites hold the same in {who}"),
            (n, 0, true) => {
                let sites = if n == 1 { "site" } else { "sites" };
                format!(
                    "the peaks differ, but none of {n} {sites} differs between ranks by more than \
                 between the steps of one"
                )
            }
            _ => format!("of {all} sites {same} hold the same in {who}, others may: {why}"),
        },
    )
}

/// Whether peaks differ by more than those of two runs of one program.
pub(super) fn differ(peaks: &Spread) -> bool {
    let tolerance = noise::level(peaks.median, peaks.median, Bytes::ZERO);
    peaks.max.saturating_sub(peaks.min) > tolerance
}
