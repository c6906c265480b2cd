//! Whether the ring of events wrapped, or the recording began late.
//!
//! Nothing in the file says so, and in both cases there are frees whose allocation was not
//! recorded. These signs distinguish them:
//!
//! * **A free that is cut in two.** The allocator writes `free_requested` and, if it need not wait
//!   for anything, `free_completed` directly after it. A recording cannot begin between the two,
//!   but a ring can overwrite the first. It may also begin while a block waits for another stream.
//!   Then what is from before has no stack; of what a ring has lost, blocks keep theirs.
//! * **Scopes without their events.** Annotations have a ring of their own. If a scope ended before
//!   the first event, and later scopes of its kind hold events, then its own events were
//!   overwritten. But where the later ones only give back, the first one may have had nothing to
//!   give back: the first `zero_grad` of a program.
//! * **A round number.** A full ring holds exactly `max_entries` events. By chance, one number in
//!   [`ODDS`] is as round as that.

use super::{Evidence, note};
use crate::quality_code;
use crate::snapshot::Stage;
use crate::stacks::{FxHashMap, StackIdx, StrIdx, fx_hash};
use crate::steps::family_name;
use crate::trace::{Action, BlockIdx, DeviceTrace, Events, QualityNote};
use std::collections::HashSet;

/// A number counts as typed by a person if, by chance, only one number in so many is as round.
const ODDS: u64 = 1000;

/// The note about the beginning of the recording, if memory existed before it.
pub fn note_of(evidence: &Evidence<'_>) -> Option<QualityNote> {
    let trace = evidence.trace;
    let (n, unmatched) = (trace.events.len(), trace.unmatched_frees);
    // The one event of a recording that keeps no history says nothing of a ring.
    if unmatched == 0 || n <= 1 {
        return None;
    }
    let mut clues = Vec::new();
    if begins_inside_a_free(&trace.events) && !is_begun_late(trace) {
        clues.push("the first event completes a free whose request was not recorded".to_owned());
    }
    match scopes_without_events(evidence) {
        0 => {}
        1 => clues.push("a scope ended before the first event".to_owned()),
        lost => clues.push(format!("{lost} scopes ended before the first event")),
    }
    if odds_against(u64::from(n)) >= ODDS {
        clues.push(format!("there are exactly {n} events"));
    }
    if clues.is_empty() {
        let (blocks, were, they_were) = match unmatched {
            1 => ("block", "was", "it was"),
            _ => ("blocks", "were", "they were"),
        };
        let text = format!(
            "recording began after {unmatched} {blocks} had been allocated that {were} freed \
             later; where {they_were} allocated is unknown"
        );
        return Some(note(quality_code::LATE_START, text));
    }
    let frees = match unmatched {
        1 => "free has",
        _ => "frees have",
    };
    let text = format!(
        "the ring of events probably wrapped: {unmatched} {frees} no allocation; {}. What was \
         freed unseen before the first event is missing: raise max_entries",
        clues.join("; ")
    );
    Some(note(quality_code::RING_WRAPPED, text))
}

/// Whether the first event completes a free, in a trace in which frees usually complete at once.
fn begins_inside_a_free(events: &Events) -> bool {
    let completed = |&at: &usize| events.action[at] == Action::FreeCompleted;
    let at_once = |at: usize| {
        events.action[at - 1] == Action::FreeRequested && events.target[at - 1] == events.target[at]
    };
    events.action.first() == Some(&Action::FreeCompleted)
        && (1..events.action.len()).filter(completed).all(at_once)
}

/// Whether nothing that is from before the first event, and stays, has a stack, though what comes
/// later has. Had a ring lost its allocation, the block would have kept it.
fn is_begun_late(trace: &DeviceTrace) -> bool {
    let blocks = &trace.blocks;
    let (n, n_before) = (trace.events.len(), blocks.n_preexisting as usize);
    let has_stack = |at: &usize| blocks.kind(BlockIdx(*at as u32)).alloc_stack != StackIdx::NONE;
    let mut before = (0..n_before).filter(|&at| blocks.free_requested[at] >= n);
    let any = before.clone().next().is_some();
    any && !before.any(|at| has_stack(&at)) && (n_before..blocks.len()).any(|at| has_stack(&at))
}

/// Scopes that ended before the first event, although later ones of their kind hold events.
fn scopes_without_events(evidence: &Evidence<'_>) -> usize {
    let trace = evidence.trace;
    let first = trace.events.time.get(0);
    let mut began: FxHashMap<u32, u32> = FxHashMap::default();
    let mut ended: Vec<u32> = Vec::new();
    let early = evidence.annotations.iter().filter(|a| a.time < first);
    for annotation in early {
        let open = began.entry(annotation.name.0).or_default();
        match annotation.stage {
            Stage::Start => *open += 1,
            Stage::End if *open > 0 => {
                *open -= 1;
                ended.push(annotation.name.0);
            }
            Stage::End => {}
        }
    }
    if ended.is_empty() {
        return 0;
    }
    // Work that depends on the length of a name is done once for each name.
    let mut families: FxHashMap<u32, u64> = FxHashMap::default();
    let mut family = |name: u32| {
        let text = || evidence.stacks.str(StrIdx(name));
        *families
            .entry(name)
            .or_insert_with(|| fx_hash(&family_name(text())))
    };
    let mut lost: FxHashMap<u64, usize> = FxHashMap::default();
    for name in ended {
        *lost.entry(family(name)).or_default() += 1;
    }
    let (mut holding, mut allocating) = (HashSet::new(), HashSet::new());
    for annotation in &trace.annotations {
        let kind = family(annotation.name.0);
        let range = annotation.events.start().index()..annotation.events.end().index();
        if range.is_empty() || !lost.contains_key(&kind) || allocating.contains(&kind) {
            continue;
        }
        holding.insert(kind);
        if trace.events.action[range].contains(&Action::Alloc) {
            allocating.insert(kind);
        }
    }
    let known = lost.into_iter().filter(|(kind, _)| holding.contains(kind));
    known
        .map(|(kind, n)| n - usize::from(!allocating.contains(&kind)))
        .sum()
}

/// By chance, one number in so many ends in as many zeros or is a power of two.
fn odds_against(n: u64) -> u64 {
    let mut decimal = 1;
    while n > 0 && n.is_multiple_of(decimal * 10) {
        decimal *= 10;
    }
    match n.is_power_of_two() {
        true => decimal.max(n / 2),
        false => decimal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers_are_unlikely() {
        let check = |n: u64, typed: bool| assert_eq!(odds_against(n) >= ODDS, typed, "{n}");
        check(100_000, true);
        check(50_000, true);
        check(1_000, true);
        check(65_536, true);
        check(7_600, false);
        check(1_500, false);
        check(512, false);
        check(12_345, false);
        check(0, false);
    }
}
