//! How the iterations of a loop are told from one another: at which spots one begins, and which one
//! it passes last.
//!
//! Which spot is the first? The one at which the region is entered. But if the recording starts in
//! the middle of an iteration, the region is entered there. If the lines from there to the end of
//! an iteration are passed once more than the smallest line, it did, and iterations begin at the
//! smallest line. So they do if it started in a loop inside an iteration. If it started after that
//! loop, they begin with the loop. Otherwise, the reading with less memory allocated at the
//! beginnings is right. But if it has more iterations than the loop has, it cuts some in two. Then
//! an iteration begins at the first spot that has no visit more than the others.

use super::calls::{Calls, SpotIdx};
use super::regions::{Region, Ways};
use crate::footprint::of_vec;

/// So many loops that run equally often are looked at in one region.
const MAX_TURNS: usize = 4;

/// How the iterations of a region are distinguished.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The region.
    pub region: usize,
    /// Which beat of the region counts.
    pub beat: usize,
    /// Which of the loops that run equally often, one after the other.
    pub turn: usize,
    /// How it is read.
    pub reading: Reading,
    /// An iteration begins at any of these spots (sorted) …
    pub starts: Vec<SpotIdx>,
    /// … once any of these spots (sorted) was passed.
    pub lasts: Vec<SpotIdx>,
    /// … but not where the program comes back to one of these (sorted) from what its line calls.
    pub returns: Vec<SpotIdx>,
}

/// How the first spot of an iteration is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Where the region is entered, or at its smallest line.
    Usual,
    /// At the first spot that has no visit more than the others. It is for recordings that start in
    /// the middle of an iteration: what they enter first is no beginning.
    AfterCut,
    /// At the smallest line, which has one visit less than where the recording begins; or at the
    /// loop inside, if the recording begins in or after it.
    Cut,
}

impl Mark {
    /// Ways to distinguish a region's iterations by one of its beats: one or two for each loop.
    pub fn of(region: &Region, index: usize, beat: usize, ways: &Ways, calls: &Calls) -> Vec<Mark> {
        let count = region.beats[beat].count;
        let exact = region.spots.iter().copied();
        let exact: Vec<SpotIdx> = exact
            .filter(|s| ways.visits[s.index()].count == count && ways.counts_passes(*s))
            .collect();
        let turns = turns(&exact, ways);
        // If there is no other line, the next pass follows.
        let has_lines = region.has_lines(calls);
        let returns = |starts: &[SpotIdx]| -> Vec<SpotIdx> {
            let starts = starts.iter().copied().filter(|_| has_lines);
            starts.filter(|s| ways.is_returned_to(*s)).collect()
        };
        let mut marks = Vec::new();
        let mut from = 0;
        for (turn, own) in turns.iter().enumerate() {
            let readings = Mark::of_turn(region, own, from, ways, calls);
            marks.extend(readings.map(|(reading, starts, lasts)| Mark {
                region: index,
                beat,
                turn,
                reading,
                returns: returns(&starts),
                starts,
                lasts,
            }));
            if turn == 0
                && let Some((starts, lasts)) = Mark::after_cut(region, beat, ways, calls)
            {
                marks.push(Mark {
                    region: index,
                    beat,
                    turn,
                    reading: Reading::Cut,
                    returns: returns(&starts),
                    starts,
                    lasts,
                });
            }
            from = ways.visits[own[0].index()].second;
        }
        marks
    }

    /// The beginnings and the end of iterations, if the recording begins in the middle of one. The
    /// end is the last spot that is passed before the first beginning.
    fn after_cut(
        region: &Region,
        beat: usize,
        ways: &Ways,
        calls: &Calls,
    ) -> Option<(Vec<SpotIdx>, Vec<SpotIdx>)> {
        let visits = |s: &SpotIdx| ways.visits[s.index()];
        let line = |s: &SpotIdx| calls.spot(*s).line;
        let beat = &region.beats[beat];
        let own = || region.spots.iter().filter(|s| beat.has(visits(s).count));
        let entered = region.spots.first().filter(|s| visits(s).begins)?;
        let top = own().min_by_key(|s| (line(s), visits(s).first))?;
        let to_top = |s: &SpotIdx| line(s) <= line(top);
        let more = |s: &SpotIdx| line(s) > line(top) && visits(s).count == visits(top).count + 1;
        let inner = |s: &SpotIdx| beat.is_rarer_than(visits(s).count);
        let inner_before = |s: &SpotIdx| inner(s) && line(s) < line(top);
        let any = |_: &SpotIdx| true;
        let has = |s: &SpotIdx| beat.has(visits(s).count);
        // Whole iterations would have as many of the loop inside as one another.
        let are_parts = || {
            let counts = region.spots.iter().filter(|s| inner_before(s));
            let least = counts.map(|s| visits(s).count).min();
            least.is_some_and(|count| count % visits(top).count > 0)
        };
        let (is_start, is_last): (Is<'_>, Is<'_>) = match (has(entered), to_top(entered)) {
            // The spots from there to the end of an iteration have one visit more.
            (true, _) if more(entered) => (&to_top, &more),
            // In a loop inside, before the first line of an iteration.
            (false, false) if inner(entered) => (&to_top, &any),
            // In a loop that comes first in an iteration, as micro-batches do; or after it, in
            // the optimizer's step.
            (is_after, _) if (is_after || inner(entered)) && are_parts() => (&inner_before, &has),
            _ => return None,
        };
        let starts = region.spots.iter().filter(|s| is_start(s));
        let mut starts: Vec<SpotIdx> = starts.copied().collect();
        let first = match (is_start(top), has(entered)) {
            (true, _) => visits(top).first,
            (false, true) => visits(starts.first()?).first,
            (false, false) => visits(top).second,
        };
        let before = region.spots.iter().take_while(|s| visits(s).first < first);
        let last = before.filter(|s| is_last(s)).last()?;
        starts.sort_unstable();
        Some((starts, vec![*last]))
    }

    /// The beginnings and the ends of iterations that pass the spots of `own`, in up to three
    /// readings. Before the allocation `from`, another loop ran.
    fn of_turn(
        region: &Region,
        own: &[SpotIdx],
        from: u32,
        ways: &Ways,
        calls: &Calls,
    ) -> impl Iterator<Item = (Reading, Vec<SpotIdx>, Vec<SpotIdx>)> {
        let visits = |s: &SpotIdx| ways.visits[s.index()];
        let first = &own[0];
        let second = visits(first).second;
        let in_first = own.iter().rev().find(|s| visits(s).first < second);
        let seldom = region.seldom_at_the_beginning(*first, ways, calls);
        let starts = region.spots.iter();
        let mut starts: Vec<SpotIdx> = starts
            .skip_while(|s| visits(s).first < from)
            .take_while(|s| visits(s).first <= visits(first).first)
            .filter(|s| !seldom.contains(s))
            .copied()
            .collect();
        let is_cut = |s: &SpotIdx| visits(s).count == visits(first).count + 1;
        let lasts = vec![*in_first.unwrap_or(first)];
        let after_cut = starts
            .iter()
            .any(is_cut)
            .then(|| (vec![*first], lasts.clone()));
        starts.sort_unstable();
        let entered = (starts, lasts);
        let line = |s: &&SpotIdx| (calls.spot(**s).line, visits(s).first);
        let top = own.iter().min_by_key(line);
        let top = top.filter(|top| calls.spot(**top).line < calls.spot(*first).line);
        let by_line = top.map(|top| {
            let mut lasts: Vec<SpotIdx> = own.iter().filter(|s| *s != top).copied().collect();
            lasts.sort_unstable();
            (vec![*top], lasts)
        });
        let usual = std::iter::once(entered).chain(by_line);
        let after_cut = after_cut.into_iter();
        usual
            .map(|(starts, lasts)| (Reading::Usual, starts, lasts))
            .chain(after_cut.map(|(starts, lasts)| (Reading::AfterCut, starts, lasts)))
    }

    /// Whether the walk enters contexts at one of the starts. Then the loop may belong to the
    /// caller.
    pub fn starts_at_entry(&self, ways: &Ways) -> bool {
        self.starts.iter().any(|s| ways.visits[s.index()].entry)
    }

    /// The smallest line at which an iteration begins.
    pub fn line(&self, calls: &Calls) -> u32 {
        let lines = self.starts.iter().map(|&s| calls.spot(s).line);
        lines.min().unwrap_or(0)
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.starts) + of_vec(&self.lasts) + of_vec(&self.returns)
    }
}

/// Spots that are visited equally often may stand in loops that take turns: an evaluation of as
/// many batches as an epoch trains. Each spot of a loop is visited for the first time before any of
/// them is visited twice.
fn turns<'s>(exact: &'s [SpotIdx], ways: &Ways) -> Vec<&'s [SpotIdx]> {
    let visits = |s: &SpotIdx| ways.visits[s.index()];
    let mut turns: Vec<&[SpotIdx]> = Vec::new();
    let mut rest = exact;
    while let Some(first) = rest.first()
        && turns.len() < MAX_TURNS
    {
        let again = visits(first).second;
        let (own, later) = rest.split_at(rest.partition_point(|s| visits(s).first < again));
        turns.push(own);
        rest = later;
    }
    turns
}

/// Whether something is true of a spot.
type Is<'a> = &'a dyn Fn(&SpotIdx) -> bool;
