//! The iterations of loops: a second pass over the walk, for the loops that are asked for.
//!
//! An iteration begins with the first spot of a region that comes after the last spot of the
//! previous iteration. It ends where the next one begins, or where the walk leaves the region. A
//! branch that is seldom taken (an evaluation, a checkpoint) belongs to the iteration that it is
//! in: if the walk comes back to the middle of an iteration, this one goes on. So it does if it
//! comes back below the line at which iterations begin.

use super::calls::{Calls, SpotIdx};
use super::mark::Mark;
use super::regions::Region;
use super::walk::{Move, NO_MOVE, Walk};
use super::work::{Clock, Tally, Works};
use crate::footprint::of_vec;
use crate::stacks::StackIdx;
use crate::trace::{DeviceTrace, Series};
use crate::watch::{EVERY, Stopped, Watch};

/// At how many beginnings the level is looked up, to choose between two readings.
const MAX_LEVELS: usize = 16;

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

/// What a move does to a mark.
#[derive(Clone, Copy)]
struct Deed {
    mark: u32,
    what: What,
}

/// A program may have very many deeds.
const _: () = assert!(size_of::<Deed>() <= 12);

#[derive(Clone, Copy)]
enum What {
    /// It leaves the spots of the region. If it stays in their context, it only pauses.
    Leaves { pauses: bool },
    /// It leads to one of these spots.
    Passes(Passing),
}

#[derive(Clone, Copy)]
struct Passing {
    /// The walk was outside of the region.
    enters: bool,
    /// It comes from another spot of the context.
    resumes: bool,
    /// An iteration may begin there.
    starts: bool,
    /// Below the smallest line at which an iteration begins.
    below: bool,
    /// It is the last spot of an iteration.
    is_last: bool,
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

/// One pass over the allocations, for some marks.
pub struct Pass<'a> {
    pub device: &'a DeviceTrace,
    pub calls: &'a Calls,
    pub walk: &'a Walk,
    pub regions: &'a [Region],
    pub marks: &'a [Mark],
    pub works: &'a Works,
}

impl Pass<'_> {
    /// The iterations of each mark.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn find(&self, watch: Watch<'_>) -> Result<Vec<Vec<Iteration>>, Stopped> {
        let per_mark = size_of::<State>() + size_of::<Vec<Iteration>>();
        let watch = watch.beside(self.marks.len() * per_mark);
        let deeds = Deeds::new(self, watch)?;
        let watch = watch.beside(of_vec(&deeds.deeds) + of_vec(&deeds.starts));
        // Number of iterations found, and of deeds done: one move may cause very many.
        let (mut found, mut done) = (0, 0);
        let mut states = vec![State::default(); self.marks.len()];
        let mut clock = Clock::new(self.device, self.works);
        let mut tally = Tally::default();
        for (alloc, &moved) in self.walk.of_alloc.iter().enumerate() {
            let alloc = alloc as u32;
            tally = clock.before(alloc);
            if moved != NO_MOVE {
                for deed in deeds.of(moved) {
                    found += states[deed.mark as usize].apply(deed.what, alloc, tally);
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
        let n = self.walk.of_alloc.len() as u32;
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
}

impl State {
    /// Applies the deed. Returns how many iterations it ended.
    fn apply(&mut self, what: What, alloc: u32, tally: Tally) -> usize {
        let before = self.found.len();
        match what {
            What::Leaves { pauses: true } if !self.whole && self.open.is_some() => {
                self.paused = self.paused.or(Some((alloc, tally)));
            }
            What::Leaves { .. } => self.close(alloc, tally, true),
            What::Passes(passing) => self.pass(passing, alloc, tally),
        }
        self.found.len() - before
    }

    fn pass(&mut self, passing: Passing, alloc: u32, tally: Tally) {
        if passing.enters {
            let begins = passing.starts && !passing.below;
            let goes_on = self.paused.is_some() && passing.resumes && !begins;
            match goes_on {
                true => self.paused = None,
                false => {
                    self.close_paused();
                    self.armed = true;
                }
            }
        }
        if passing.starts && self.armed {
            self.close(alloc, tally, false);
            self.open = Some((alloc, tally));
            (self.armed, self.whole) = (false, false);
        }
        if passing.is_last {
            (self.armed, self.whole) = (true, true);
        }
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

/// The deeds of each move, back to back.
struct Deeds {
    deeds: Vec<Deed>,
    starts: Vec<u32>,
}

impl Deeds {
    fn new(pass: &Pass<'_>, watch: Watch<'_>) -> Result<Deeds, Stopped> {
        let marked = Marked::new(pass, watch)?;
        let watch = watch.beside(marked.most_bytes);
        let mut all = Deeds {
            deeds: Vec::new(),
            starts: vec![0],
        };
        let mut looked_at = 0;
        for (at, one) in pass.walk.moves.iter().enumerate() {
            if at.is_multiple_of(EVERY) || all.deeds.len() >= looked_at + EVERY {
                looked_at = all.deeds.len();
                watch.look(2 * (of_vec(&all.deeds) + of_vec(&all.starts)))?;
            }
            marked.deeds(one, pass, &mut all.deeds);
            all.starts.push(all.deeds.len() as u32);
        }
        Ok(all)
    }

    fn of(&self, moved: u32) -> &[Deed] {
        let at = moved as usize;
        &self.deeds[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

/// Which marks each spot matters to.
struct Marked {
    /// Per spot, the marks in whose region it is, sorted.
    of_spot: Vec<Vec<u32>>,
    /// Per mark, the smallest line at which an iteration begins.
    first_line: Vec<u32>,
    /// What the lists take at most.
    most_bytes: usize,
}

impl Marked {
    fn new(pass: &Pass<'_>, watch: Watch<'_>) -> Result<Marked, Stopped> {
        let table = pass.calls.spots.len() * size_of::<Vec<u32>>();
        watch.look(table)?;
        let mut of_spot: Vec<Vec<u32>> = vec![Vec::new(); pass.calls.spots.len()];
        let mut cared = 0;
        // A list begins with room for four entries, and doubles.
        let bytes = |cared: usize| table + cared * 4 * size_of::<u32>();
        for (index, mark) in pass.marks.iter().enumerate() {
            let spots = &pass.regions[mark.region].spots;
            cared += spots.len();
            watch.look(bytes(cared))?;
            for spot in spots {
                of_spot[spot.index()].push(index as u32);
            }
        }
        let lines = pass.marks.iter().map(|mark| mark.line(pass.calls));
        Ok(Marked {
            of_spot,
            first_line: lines.collect(),
            most_bytes: bytes(cared),
        })
    }

    /// Whether a spot is in the region of a mark.
    fn cares(&self, spot: SpotIdx, mark: u32) -> bool {
        self.of_spot[spot.index()].binary_search(&mark).is_ok()
    }

    /// Adds the deeds of a move.
    fn deeds(&self, one: &Move, pass: &Pass<'_>, deeds: &mut Vec<Deed>) {
        let calls = pass.calls;
        let going = one.going(calls);
        let from = calls.path(one.from.unwrap_or(StackIdx::NONE));
        let to = calls.path(one.to);
        for spot in from.get(going.depth..).unwrap_or_default() {
            let is_left = going.left == Some(*spot);
            for &mark in &self.of_spot[spot.index()] {
                let now = to.get(going.depth);
                let stays = is_left && now.is_some_and(|now| self.cares(*now, mark));
                if !stays {
                    let pauses = is_left && to.len() > going.depth;
                    let what = What::Leaves { pauses };
                    deeds.push(Deed { mark, what });
                }
            }
        }
        for (depth, spot) in to.iter().enumerate().skip(going.depth) {
            // The spot before it in the same context.
            let left = going.left.filter(|_| depth == going.depth);
            for &mark in &self.of_spot[spot.index()] {
                let this = &pass.marks[mark as usize];
                // One line allocates several times: that begins no other iteration.
                let comes_back = this.returns.binary_search(spot).is_ok();
                let is_same_line =
                    |left| left == *spot || (comes_back && calls.returns_to_line(left, *spot));
                let goes_on = left.is_some_and(is_same_line);
                let what = What::Passes(Passing {
                    enters: !left.is_some_and(|left| self.cares(left, mark)),
                    resumes: left.is_some(),
                    starts: !goes_on && this.starts.binary_search(spot).is_ok(),
                    below: calls.spot(*spot).line > self.first_line[mark as usize],
                    is_last: this.lasts.binary_search(spot).is_ok(),
                });
                deeds.push(Deed { mark, what });
            }
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
