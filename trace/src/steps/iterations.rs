//! The iterations of loops: a second pass over the walk, for the loops that are asked for.
//!
//! An iteration begins with the first spot of a region that comes after the last spot of the
//! previous iteration. It ends where the next one begins, or where the walk leaves the region. A
//! branch that is seldom taken (an evaluation, a checkpoint) belongs to the iteration that it is
//! in: if the walk comes back to the middle of an iteration, this one goes on. So it does if it
//! comes back below the line at which iterations begin.
//!
//! Which spot is the first? The one at which the region is entered. But if the recording starts in
//! the middle of an iteration, the region is entered there. If the lines from there to the end of
//! an iteration are passed once more than the smallest line, it did, and iterations begin at the
//! smallest line. So they do if it started in a loop inside an iteration. If it started after that
//! loop, they begin with the loop. Otherwise, the reading with less memory allocated at the
//! beginnings is right. But if it has more iterations than the loop has, it cuts some in two. Then
//! an iteration begins at the first spot that has no visit more than the others.

use super::calls::{Calls, SpotIdx};
use super::frames::Work;
use super::regions::{Region, Ways};
use super::walk::{Move, NO_MOVE, Walk};
use crate::footprint::of_vec;
use crate::stacks::StackIdx;
use crate::trace::{Blocks, DeviceTrace, Series};
use crate::units::EventIdx;
use crate::watch::{EVERY, Stopped, Watch};

/// At how many beginnings the level is looked up, to choose between two readings.
const MAX_LEVELS: usize = 16;

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
    starts: Vec<SpotIdx>,
    /// … once any of these spots (sorted) was passed.
    lasts: Vec<SpotIdx>,
    /// … but not where the program comes back to one of these (sorted) from what its line calls.
    returns: Vec<SpotIdx>,
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

/// Allocations of each kind of work so far; an optimizer's scopes count as optimizer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls of modules.
    pub forward: u32,
    /// Autograd.
    pub backward: u32,
    /// Optimizers.
    pub optimizer: u32,
}

/// The kind of work of each allocation.
#[derive(Debug)]
pub struct Works {
    /// Per kind of block.
    pub of_kind: Vec<Work>,
    /// The first events before which a scope of an optimizer's step has begun. What is allocated
    /// first in a scope begins before that: so an iteration that begins there has the scope in it.
    pub scopes: Vec<EventIdx>,
}

/// One iteration, as half-open range of allocations.
#[derive(Clone, Copy, Debug)]
pub struct Iteration {
    /// Its first allocation.
    pub start: u32,
    /// The first allocation after it.
    pub end: u32,
    /// The work in it.
    pub work: Tally,
    /// Whether the last spot of the loop was passed.
    pub whole: bool,
    /// Whether the program left the loop after it, or the recording ended.
    pub left: bool,
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

/// What a move does to a mark.
#[derive(Clone, Copy)]
struct Deed {
    mark: u32,
    leaves: bool,
    /// The context is not left, only the spots of the region.
    pauses: bool,
    enters: bool,
    /// It comes from another spot of the context.
    resumes: bool,
    starts: bool,
    /// Below the smallest line at which an iteration begins.
    below: bool,
    passes_last: bool,
    inside: bool,
}

/// The state of a mark during the pass.
#[derive(Clone, Default)]
struct State {
    armed: bool,
    open: Option<(u32, Tally)>,
    /// Where the walk went from within an iteration to a branch that is no part of the region.
    paused: Option<(u32, Tally)>,
    whole: bool,
    found: Vec<Iteration>,
}

/// The iterations of each mark, in one pass over the allocations.
pub fn find(
    device: &DeviceTrace,
    calls: &Calls,
    walk: &Walk,
    regions: &[Region],
    marks: &[Mark],
    work: &Works,
    watch: Watch<'_>,
) -> Result<Vec<Vec<Iteration>>, Stopped> {
    let per_mark = size_of::<State>() + size_of::<Vec<Iteration>>();
    let watch = watch.beside(marks.len() * per_mark);
    let deeds = Deeds::new(calls, walk, regions, marks, watch)?;
    let watch = watch.beside(of_vec(&deeds.deeds) + of_vec(&deeds.starts));
    // Number of iterations found, and of deeds done: one move may cause very many.
    let (mut found, mut done) = (0, 0);
    let mut states = vec![State::default(); marks.len()];
    let mut clock = Clock::new(device, work);
    let mut tally = Tally::default();
    for (alloc, &moved) in walk.of_alloc.iter().enumerate() {
        let alloc = alloc as u32;
        tally = clock.before(alloc);
        if moved != NO_MOVE {
            for deed in deeds.of(moved) {
                found += states[deed.mark as usize].apply(deed, alloc, tally);
            }
            done += deeds.of(moved).len();
        }
        done += 1;
        if done >= EVERY {
            done = 0;
            watch.look(found * 2 * size_of::<Iteration>())?;
        }
        clock.count(alloc);
    }
    let n = walk.of_alloc.len() as u32;
    if n > 0 {
        tally = clock.at_end();
    }
    let states = states.into_iter().map(|mut state| {
        state.close_paused();
        state.close(n, tally, true);
        state.found
    });
    Ok(states.collect())
}

impl State {
    /// Applies the deed. Returns how many iterations it ended.
    fn apply(&mut self, deed: &Deed, alloc: u32, tally: Tally) -> usize {
        let before = self.found.len();
        if deed.leaves {
            match deed.pauses && !self.whole && self.open.is_some() {
                true => self.paused = self.paused.or(Some((alloc, tally))),
                false => self.close(alloc, tally, true),
            }
        }
        if deed.enters {
            let begins = deed.starts && !deed.below;
            let goes_on = self.paused.is_some() && deed.resumes && !begins;
            match goes_on {
                true => self.paused = None,
                false => {
                    self.close_paused();
                    self.armed = true;
                }
            }
        }
        if deed.starts && self.armed {
            self.close(alloc, tally, false);
            self.open = Some((alloc, tally));
            (self.armed, self.whole) = (false, false);
        }
        if deed.passes_last && deed.inside {
            (self.armed, self.whole) = (true, true);
        }
        self.found.len() - before
    }

    fn close_paused(&mut self) {
        if let Some((end, then)) = self.paused.take() {
            self.close(end, then, true);
        }
    }

    fn close(&mut self, end: u32, now: Tally, left: bool) {
        if let Some((start, then)) = self.open.take() {
            self.found.push(Iteration {
                start,
                end,
                work: now.since(then),
                whole: self.whole,
                left,
            });
        }
    }
}

impl Tally {
    fn since(self, then: Tally) -> Tally {
        Tally {
            forward: self.forward - then.forward,
            backward: self.backward - then.backward,
            optimizer: self.optimizer - then.optimizer,
        }
    }

    /// This without a part of it.
    pub fn less(self, part: Tally) -> Tally {
        Tally {
            forward: self.forward.saturating_sub(part.forward),
            backward: self.backward.saturating_sub(part.backward),
            optimizer: self.optimizer.saturating_sub(part.optimizer),
        }
    }

    /// The sum of both.
    pub fn plus(self, more: Tally) -> Tally {
        Tally {
            forward: self.forward + more.forward,
            backward: self.backward + more.backward,
            optimizer: self.optimizer + more.optimizer,
        }
    }
}

/// The deeds of each move, back to back.
struct Deeds {
    deeds: Vec<Deed>,
    starts: Vec<u32>,
}

impl Deeds {
    fn new(
        calls: &Calls,
        walk: &Walk,
        regions: &[Region],
        marks: &[Mark],
        watch: Watch<'_>,
    ) -> Result<Deeds, Stopped> {
        // The marks that need to know about a spot, sorted.
        let table = calls.spots.len() * size_of::<Vec<u32>>();
        watch.look(table)?;
        let mut of_spot: Vec<Vec<u32>> = vec![Vec::new(); calls.spots.len()];
        let mut cared = 0;
        for (index, mark) in marks.iter().enumerate() {
            let spots = &regions[mark.region].spots;
            cared += spots.len();
            // A list begins with room for four entries, and doubles.
            watch.look(table + cared * 4 * size_of::<u32>())?;
            for spot in spots {
                of_spot[spot.index()].push(index as u32);
            }
        }
        let watch = watch.beside(table + cared * 4 * size_of::<u32>());
        let mut all = Deeds {
            deeds: Vec::new(),
            starts: vec![0],
        };
        let first_line: Vec<u32> = marks.iter().map(|mark| mark.line(calls)).collect();
        let mut looked_at = 0;
        for (at, one) in walk.moves.iter().enumerate() {
            if at.is_multiple_of(EVERY) || all.deeds.len() >= looked_at + EVERY {
                looked_at = all.deeds.len();
                watch.look(2 * (of_vec(&all.deeds) + of_vec(&all.starts)))?;
            }
            all.push(one, calls, (marks, &first_line), &of_spot);
            all.starts.push(all.deeds.len() as u32);
        }
        Ok(all)
    }

    fn push(
        &mut self,
        one: &Move,
        calls: &Calls,
        (marks, first_line): (&[Mark], &[u32]),
        of_spot: &[Vec<u32>],
    ) {
        let going = one.going(calls);
        let (from, to) = (one.from.unwrap_or(StackIdx::NONE), calls.path(one.to));
        let from = calls.path(from);
        for spot in from.get(going.depth..).unwrap_or_default() {
            for &mark in &of_spot[spot.index()] {
                let stays = to.get(going.depth).is_some_and(|now| {
                    going.left == Some(*spot) && cares(&of_spot[now.index()], mark)
                });
                if !stays {
                    self.deeds.push(Deed {
                        mark,
                        leaves: true,
                        pauses: going.left == Some(*spot) && to.len() > going.depth,
                        enters: false,
                        resumes: false,
                        starts: false,
                        below: false,
                        passes_last: false,
                        inside: false,
                    });
                }
            }
        }
        for (depth, spot) in to.iter().enumerate().skip(going.depth) {
            for &mark in &of_spot[spot.index()] {
                let was_inside = depth == going.depth
                    && going.left.is_some_and(|l| cares(&of_spot[l.index()], mark));
                let this = &marks[mark as usize];
                // One line allocates several times: that begins no other iteration.
                let comes_back = this.returns.binary_search(spot).is_ok();
                let is_same_line =
                    |left| left == *spot || (comes_back && calls.returns_to_line(left, *spot));
                let goes_on = depth == going.depth && going.left.is_some_and(is_same_line);
                self.deeds.push(Deed {
                    mark,
                    leaves: false,
                    pauses: false,
                    enters: !was_inside,
                    resumes: depth == going.depth && going.left.is_some(),
                    starts: !goes_on && this.starts.binary_search(spot).is_ok(),
                    below: calls.spot(*spot).line > first_line[mark as usize],
                    passes_last: this.lasts.binary_search(spot).is_ok(),
                    inside: true,
                });
            }
        }
    }

    fn of(&self, moved: u32) -> &[Deed] {
        let at = moved as usize;
        &self.deeds[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

/// Whether a mark is in a sorted list.
fn cares(marks: &[u32], mark: u32) -> bool {
    marks.binary_search(&mark).is_ok()
}

/// Counts work along the allocations.
struct Clock<'a> {
    blocks: &'a Blocks,
    works: &'a Works,
    tally: Tally,
    passed: usize,
    n_events: u32,
}

impl<'a> Clock<'a> {
    fn new(device: &'a DeviceTrace, works: &'a Works) -> Clock<'a> {
        Clock {
            blocks: &device.blocks,
            works,
            tally: Tally::default(),
            passed: 0,
            n_events: device.events.len(),
        }
    }

    fn before(&mut self, alloc: u32) -> Tally {
        self.pass(self.blocks.nth_event(alloc).0);
        self.tally
    }

    fn at_end(&mut self) -> Tally {
        self.pass(self.n_events);
        self.tally
    }

    fn pass(&mut self, event: u32) {
        while self
            .works
            .scopes
            .get(self.passed)
            .is_some_and(|s| s.0 <= event)
        {
            self.passed += 1;
            self.tally.optimizer += 1;
        }
    }

    fn count(&mut self, alloc: u32) {
        let kind = self.blocks.made_kinds()[alloc as usize];
        match self.works.of_kind[kind.index()] {
            Work::Forward => self.tally.forward += 1,
            Work::Backward => self.tally.backward += 1,
            Work::Optimizer => self.tally.optimizer += 1,
            Work::Setup | Work::Other => {}
        }
    }
}

/// The mean level of allocated at the beginnings.
pub fn level_at_starts(device: &DeviceTrace, iterations: &[Iteration]) -> u64 {
    let every = iterations.len().div_ceil(MAX_LEVELS).max(1);
    // The first iteration begins before anything else was done, so it is left out.
    let sample = iterations.iter().skip(1).step_by(every);
    let levels = sample.map(|iteration| {
        let event = device.blocks.nth_event(iteration.start);
        device.levels_before(event).get(Series::Allocated).0
    });
    let (sum, n) = levels.fold((0, 0), |(sum, n), level| (sum + u128::from(level), n + 1));
    u128::checked_div(sum, n).map_or(u64::MAX, |mean| mean as u64)
}
