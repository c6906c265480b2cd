//! Where the walk goes round: the loops that each context's spots show.
//!
//! In one context the program goes from spot to spot; if it can come back to a spot, there is a
//! loop. So the spots and the ways between them are a graph. Its strongly connected parts are the
//! *regions* in which there is a loop. How often a loop runs is read from how often its spots are
//! visited. Spots that are visited once in each iteration agree with each other (a *beat*). A
//! function that is called twice in each iteration is visited twice as often, a branch that is
//! seldom taken less often. A region has a beat for each such number; [`super::choose`] knows more
//! and decides which of them counts the iterations. If the spots of a beat are taken out of a
//! region, the rest may be a region again: an inner loop.
//!
//! A statement of several lines may jump back to an earlier line without being a loop.

use super::calls::{Calls, ContextIdx, SpotIdx};
use super::walk::Walk;
use crate::footprint::of_vec;
use crate::stacks::FxHashMap;
use crate::watch::{Stopped, Watch};
use std::collections::HashSet;

/// How many different numbers of visits are looked at in one region.
const MAX_BEATS: usize = 6;
/// Bytes for a spot during the search for parts of a graph.
const PER_SPOT: usize = 160;

/// A spot in the walk.
#[derive(Clone, Copy, Debug)]
pub struct Visits {
    /// How often it is visited.
    pub count: u32,
    /// The first allocation that visits it.
    pub first: u32,
    /// The second one; `u32::MAX` if there is none.
    pub second: u32,
    /// Whether the context was entered at this spot.
    pub entry: bool,
    /// Whether the recording of its thread begins at this spot.
    pub begins: bool,
    /// How often the program came back to it from a function that its line called, within one pass
    /// of the line.
    returns: u32,
    /// Whether the line comes to it several times in a pass, as the call in it shows.
    repeats: bool,
}

/// Spots of one context between which the program goes round.
#[derive(Clone, Debug)]
pub struct Region {
    /// The context.
    pub context: ContextIdx,
    /// The spots, by first visit.
    pub spots: Vec<SpotIdx>,
    /// The numbers of visits that several of the spots agree on, the smallest first.
    pub beats: Vec<Beat>,
}

/// Spots of a region that are visited about equally often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The number of visits that most of them agree on.
    pub count: u32,
    /// How many agree.
    pub support: usize,
    /// The fewest and the most visits of its spots.
    least: u32,
    most: u32,
}

/// The graph of the walk.
#[derive(Debug)]
pub struct Ways {
    /// Per spot.
    pub visits: Vec<Visits>,
    /// Per spot, the spots of its context that follow it.
    next: Vec<Vec<SpotIdx>>,
}

/// Regions as they are found.
struct Search<'w> {
    watch: Watch<'w>,
    found: Vec<Region>,
    /// The parts of the graph that were looked at already. The same part is met again and again:
    /// removing the spots of a beat leaves less than removing those of a smaller beat.
    seen: HashSet<Vec<SpotIdx>>,
    /// Heap bytes of both.
    held: usize,
}

impl Ways {
    /// Computes the visits of spots, and the ways between spots, from the moves.
    pub fn new(walk: &Walk, calls: &Calls, watch: Watch<'_>) -> Result<Ways, Stopped> {
        let none = Visits {
            count: 0,
            first: u32::MAX,
            second: u32::MAX,
            entry: false,
            begins: false,
            returns: 0,
            repeats: false,
        };
        let mut ways = Ways {
            visits: vec![none; calls.spots.len()],
            next: vec![Vec::new(); calls.spots.len()],
        };
        let per_spot = size_of::<Visits>() + size_of::<Vec<SpotIdx>>();
        // A list of the smallest size is made for the first way from a spot.
        let held = calls.spots.len() * per_spot + walk.moves.len() * 4 * size_of::<SpotIdx>();
        for (at, one) in walk.moves.iter().enumerate() {
            watch.at_row(at, || held)?;
            let going = one.going(calls);
            let path = calls.path(one.to);
            for (depth, &spot) in path.iter().enumerate().skip(going.depth) {
                // One line allocates several times: it is visited once.
                if depth == going.depth && going.left == Some(spot) {
                    continue;
                }
                let anew = depth > going.depth || going.left.is_none();
                let visits = &mut ways.visits[spot.index()];
                visits.add(one.count, one.first, one.second, anew);
                visits.begins |= one.from.is_none();
                let returns = |&left: &SpotIdx| calls.returns_to_line(left, spot);
                if depth == going.depth && going.left.as_ref().is_some_and(returns) {
                    visits.returns += one.count;
                }
            }
            if let Some(left) = going.left {
                ways.next[left.index()].push(path[going.depth]);
            }
        }
        for next in &mut ways.next {
            next.sort_unstable();
            next.dedup();
        }
        // A table of lines, and another one after it.
        watch.look(held + calls.spots.len() * 64)?;
        ways.tell_passes_from_returns(calls);
        ways.find_repeats(calls);
        Ok(ways)
    }

    /// A line that allocates what it calls something with, as `model(randn(16))` does, seems to be
    /// come back to where its next pass follows. But it is visited no more often than what it
    /// calls. What allocates again after the call is visited more often.
    fn tell_passes_from_returns(&mut self, calls: &Calls) {
        let mut called: FxHashMap<(ContextIdx, u32), u32> = FxHashMap::default();
        for (spot, visits) in calls.spots.iter().zip(&self.visits) {
            if !spot.is_allocation {
                let most = called.entry((spot.context, spot.line)).or_default();
                *most = visits.count.max(*most);
            }
        }
        for (spot, visits) in calls.spots.iter().zip(&mut self.visits) {
            let most = called.get(&(spot.context, spot.line));
            let is_pass = most.is_some_and(|&most| visits.count <= most);
            if visits.returns < visits.count && is_pass {
                visits.returns = 0;
            }
        }
    }

    /// In `(f - x).pow(2).mean() + (gram(f) - y).pow(2).mean()` the program comes back from `gram`
    /// to the second difference. That tells how often the line is passed, and so that both powers
    /// and both means are of one pass.
    fn find_repeats(&mut self, calls: &Calls) {
        let mut passes: FxHashMap<(ContextIdx, u32), u32> = FxHashMap::default();
        for (spot, visits) in calls.spots.iter().zip(&self.visits) {
            if visits.returns > 0 && visits.returns < visits.count {
                let own = visits.count - visits.returns;
                let fewest = passes.entry((spot.context, spot.line)).or_insert(own);
                *fewest = own.min(*fewest);
            }
        }
        for (spot, visits) in calls.spots.iter().zip(&mut self.visits) {
            let passes = passes.get(&(spot.context, spot.line));
            let is_more = passes.is_some_and(|&passes| visits.count > passes);
            visits.repeats = spot.is_allocation && visits.returns == 0 && is_more;
        }
    }

    /// Whether the program comes back to a spot from what its line calls.
    pub fn is_returned_to(&self, spot: SpotIdx) -> bool {
        self.visits[spot.index()].returns > 0
    }

    /// Whether a spot is visited once in each pass of its line: not before and after a call, nor
    /// for two terms of one sum.
    pub fn counts_passes(&self, spot: SpotIdx) -> bool {
        let visits = self.visits[spot.index()];
        !visits.repeats && (visits.returns == 0 || visits.returns == visits.count)
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        let next: usize = self.next.iter().map(of_vec).sum();
        of_vec(&self.visits) + of_vec(&self.next) + next
    }

    /// Whether one beat of a region is that of a loop around the loop of another beat: its lines
    /// stand before and after those of the other, and the program comes from the lines before and
    /// goes on to the lines after. A branch that is seldom taken is passed by.
    pub fn surrounds(&self, region: &Region, outer: &Beat, inner: &Beat, calls: &Calls) -> bool {
        let of = |beat: &Beat| {
            let counts = beat.least..=beat.most;
            let spots = region.spots.iter().copied();
            let spots = spots.filter(|s| counts.contains(&self.visits[s.index()].count));
            spots.collect::<Vec<SpotIdx>>()
        };
        let line = |spot: &SpotIdx| calls.spot(*spot).line;
        let (around, within) = (of(outer), of(inner));
        let lines = within.iter().map(line);
        let (Some(first), Some(last)) = (lines.clone().min(), lines.max()) else {
            return false;
        };
        let before: Vec<SpotIdx> = around.iter().filter(|s| line(s) < first).copied().collect();
        let after: Vec<SpotIdx> = around.iter().filter(|s| line(s) > last).copied().collect();
        let leads = |from: &[SpotIdx], to: &[SpotIdx]| {
            let mut next = from.iter().flat_map(|spot| &self.next[spot.index()]);
            next.any(|spot| to.contains(spot))
        };
        !before.is_empty()
            && !after.is_empty()
            && !leads(&after, &within)
            && !leads(&within, &before)
    }

    /// All regions, outer ones before those within them.
    pub fn regions(&self, calls: &Calls, watch: Watch<'_>) -> Result<Vec<Region>, Stopped> {
        // Every spot may have a context of its own, and a list.
        let held = calls.spots.len() * 96;
        watch.look(held)?;
        let mut of_context: FxHashMap<u32, Vec<SpotIdx>> = FxHashMap::default();
        for (index, spot) in calls.spots.iter().enumerate() {
            if self.visits[index].count > 0 {
                let spots = of_context.entry(spot.context.0).or_default();
                spots.push(SpotIdx(index as u32));
            }
        }
        let mut contexts: Vec<(u32, Vec<SpotIdx>)> = of_context.into_iter().collect();
        contexts.sort_unstable_by_key(|(context, _)| *context);
        let mut search = Search {
            watch: watch.beside(held),
            found: Vec::new(),
            seen: HashSet::new(),
            held: 0,
        };
        for (at, (context, spots)) in contexts.into_iter().enumerate() {
            search.watch.at_row(at, || search.held)?;
            self.regions_of(ContextIdx(context), &spots, &mut search)?;
            search.seen.clear();
        }
        Ok(search.found)
    }

    /// Regions among some spots of a context, and those within them.
    fn regions_of(
        &self,
        context: ContextIdx,
        spots: &[SpotIdx],
        search: &mut Search<'_>,
    ) -> Result<(), Stopped> {
        // The search for parts needs some words for each spot.
        let looking = spots.len() * PER_SPOT;
        search.watch.look(search.held + looking)?;
        let mut parts = strongly_connected(&self.next, spots, search.watch)?;
        for part in &mut parts {
            part.sort_unstable_by_key(|s| self.visits[s.index()].first);
        }
        for part in parts {
            let beats = self.beats(&part);
            if beats.is_empty() || !search.seen.insert(part.clone()) {
                continue;
            }
            search.held += 2 * of_vec(&part) + of_vec(&beats) + size_of::<(Region, [u64; 8])>();
            search.found.push(Region {
                context,
                spots: part.clone(),
                beats: beats.clone(),
            });
            for beat in &beats {
                let more = |s: &&SpotIdx| self.visits[s.index()].count > beat.most;
                let rest: Vec<SpotIdx> = part.iter().filter(more).copied().collect();
                if rest.len() < part.len() {
                    self.regions_of(context, &rest, search)?;
                }
            }
        }
        Ok(())
    }

    /// The numbers of visits that several spots agree on. The first or the last iteration may lack
    /// a spot, so numbers that differ by one, or by little, count as one beat.
    ///
    /// A line that allocates before and after it calls something is passed once, but its own
    /// allocation is visited twice. What it calls counts the iterations, and other lines do. The
    /// visits that are no returns agree with them.
    fn beats(&self, spots: &[SpotIdx]) -> Vec<Beat> {
        let visits = |s: &SpotIdx| self.visits[s.index()].count;
        let counts = spots.iter().filter(|s| self.counts_passes(**s)).map(visits);
        // A spot that is passed once (a first iteration's workspace) does not count iterations.
        let mut counts: Vec<u32> = counts.filter(|&count| count > 1).collect();
        counts.sort_unstable();
        let mut beats: Vec<Vec<u32>> = Vec::new();
        for count in counts {
            match beats.last_mut() {
                Some(beat) if count - beat[0] <= (beat[0] / 16).max(1) => beat.push(count),
                _ => beats.push(vec![count]),
            }
        }
        let mut beats: Vec<Beat> = beats.iter().map(|counts| Beat::of(counts)).collect();
        for spot in spots.iter().filter(|s| !self.counts_passes(**s)) {
            let visits = self.visits[spot.index()];
            let passes = visits.count - visits.returns;
            let at = beats.partition_point(|beat| beat.most < passes);
            if let Some(beat) = beats.get_mut(at).filter(|beat| beat.has(passes)) {
                beat.support += 1;
            }
        }
        // If there are very many numbers, those that most spots agree on.
        if beats.len() > MAX_BEATS {
            beats.sort_by_key(|b| (std::cmp::Reverse(b.support), b.count));
            beats.truncate(MAX_BEATS);
            beats.sort_by_key(|b| b.count);
        }
        beats
    }
}

/// Whether some spots of a context stand in more than one line.
fn have_lines(spots: &[SpotIdx], calls: &Calls) -> bool {
    let mut lines = spots.iter().map(|s| calls.spot(*s).line);
    lines
        .next()
        .is_some_and(|first| lines.any(|line| line != first))
}

impl Region {
    /// Whether another region is a part of this one, without some of its lines.
    pub fn has_within(&self, other: &Region) -> bool {
        other.context == self.context
            && other.spots.len() < self.spots.len()
            && self.spots.contains(&other.spots[0])
    }

    /// Whether it has more than one line.
    pub fn has_lines(&self, calls: &Calls) -> bool {
        have_lines(&self.spots, calls)
    }

    /// The spots of a branch that is seldom taken, in the middle of which the recording begins:
    /// what the end of an iteration does now and then, as a checkpoint. It lies below the first
    /// spot that each iteration passes. Where lines above that spot are passed as seldom, it is no
    /// branch, but a loop goes round there.
    pub fn seldom_at_the_beginning(
        &self,
        first: SpotIdx,
        ways: &Ways,
        calls: &Calls,
    ) -> Vec<SpotIdx> {
        let visits = |s: &SpotIdx| ways.visits[s.index()];
        let line = |s: &SpotIdx| calls.spot(*s).line;
        let (count, top) = (visits(&first).count, line(&first));
        let above = self.spots.iter().filter(|s| line(s) < top);
        let above: Vec<u32> = above.map(|s| visits(s).count).collect();
        let is_seldom = |s: &&SpotIdx| {
            let own = visits(s).count;
            line(s) > top && own < count && above.iter().all(|other| other.abs_diff(own) > 1)
        };
        let begins = self.spots.first().is_some_and(|s| visits(s).begins);
        let spots = self.spots.iter().take_while(|_| begins);
        spots.filter(is_seldom).copied().collect()
    }

    /// Heap bytes that it uses, including its own size.
    pub fn heap_bytes(&self) -> usize {
        size_of::<Region>() + of_vec(&self.spots) + of_vec(&self.beats)
    }
}

impl Visits {
    fn add(&mut self, count: u32, first: u32, second: u32, entry: bool) {
        self.count += count;
        self.entry |= entry;
        for at in [first, second] {
            if at < self.first {
                self.second = self.first;
                self.first = at;
            } else if at < self.second {
                self.second = at;
            }
        }
    }
}

impl Beat {
    /// Whether a spot with so many visits is one of its spots.
    pub fn has(&self, count: u32) -> bool {
        (self.least..=self.most).contains(&count)
    }

    /// Whether a spot with so many visits is visited more often than each of its spots.
    pub fn is_rarer_than(&self, count: u32) -> bool {
        self.most < count
    }

    /// Whether a spot with so many visits is visited less often than each of its spots.
    pub fn is_more_frequent_than(&self, count: u32) -> bool {
        self.least > count
    }

    /// From sorted numbers.
    fn of(counts: &[u32]) -> Beat {
        let equal = counts.chunk_by(|a, b| a == b);
        // Among equal ones the larger number: iterations that were cut short visit fewer spots.
        let most = equal.max_by_key(|same| (same.len(), same[0]));
        Beat {
            count: most.map_or(0, |same| same[0]),
            support: counts.len(),
            least: counts.first().copied().unwrap_or(0),
            most: counts.last().copied().unwrap_or(0),
        }
    }
}

/// The parts of a graph in which every spot can be reached from every other (Tarjan's algorithm,
/// with a stack of its own, because programs can be deep). Single spots are left out.
fn strongly_connected(
    next: &[Vec<SpotIdx>],
    spots: &[SpotIdx],
    watch: Watch<'_>,
) -> Result<Vec<Vec<SpotIdx>>, Stopped> {
    const UNSEEN: u32 = u32::MAX;
    let position: FxHashMap<SpotIdx, u32> = spots.iter().copied().zip(0..).collect();
    let (mut index, mut low) = (vec![UNSEEN; spots.len()], vec![0_u32; spots.len()]);
    let mut on_stack = vec![false; spots.len()];
    let (mut stack, mut parts, mut counter) = (Vec::new(), Vec::new(), 0);
    let mut passed = 0;
    for root in 0..spots.len() {
        if index[root] != UNSEEN {
            continue;
        }
        // A spot, and the next of its ways to follow.
        let mut open = vec![(root, 0_usize)];
        while let Some((at, way)) = open.pop() {
            passed += 1;
            watch.at_row(passed, || spots.len() * PER_SPOT)?;
            if way == 0 {
                (index[at], low[at]) = (counter, counter);
                counter += 1;
                stack.push(at);
                on_stack[at] = true;
            }
            let ways = &next[spots[at].index()];
            if let Some(to) = ways.get(way) {
                open.push((at, way + 1));
                match position.get(to).map(|&p| p as usize) {
                    Some(to) if index[to] == UNSEEN => open.push((to, 0)),
                    Some(to) if on_stack[to] => low[at] = low[at].min(index[to]),
                    _ => {}
                }
                continue;
            }
            if let Some(&(parent, _)) = open.last() {
                low[parent] = low[parent].min(low[at]);
            }
            if low[at] == index[at] {
                let from = stack.iter().rposition(|&s| s == at).unwrap_or(0);
                let part: Vec<usize> = stack.split_off(from);
                part.iter().for_each(|&s| on_stack[s] = false);
                if part.len() > 1 {
                    parts.push(part.into_iter().map(|s| spots[s]).collect());
                }
            }
        }
    }
    Ok(parts)
}
