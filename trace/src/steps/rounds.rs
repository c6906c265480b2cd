//! Rounds: a loop around another one in the same function.
//!
//! If a loop allocates on lines before and after the loop in it, the way through its lines shows
//! both ([`super::regions`]). If it does so only before or only after it, its lines look like a
//! branch that is seldom taken. What they do shows that there are rounds:
//!
//! * They have a backward pass and an optimizer's step of their own: a generator's update after
//!   those of the critic. A branch that is taken in the first iteration and in every n-th one
//!   after it has a first round of one iteration.
//! * They make anew what each iteration of the inner loop replaces: the noise that an image is made
//!   of, step by step.

use super::MIN_STEPS;
use super::calls::{ContextIdx, SpotIdx};
use super::iterations::Iteration;
use super::loops::{Analysis, Loop, NEARLY_EACH};
use super::work::Tally;
use crate::median;
use crate::trace::Action;
use crate::units::Bytes;
use std::ops::Range;

/// Rounds of more iterations are epochs.
const LONGEST: usize = 32;
/// What a round does of its own has at most so many times the backward pass of an iteration.
const MOST_OF_ITS_OWN: u32 = 4;
/// How many rounds are looked at.
const MAX_LOOKED_AT: usize = 16;

/// A loop with the loop in it.
#[derive(Clone, Copy)]
pub struct Rounds<'l> {
    /// The loop around.
    pub outer: &'l Loop,
    /// The loop inside.
    pub inner: &'l Loop,
}

/// One iteration of the loop around.
pub struct Round<'l> {
    pub this: &'l Iteration,
    /// Those of the loop inside.
    pub inside: &'l [Iteration],
    /// The work outside of the inner loop.
    own: Tally,
}

/// What a line calls something to allocate.
#[derive(Clone, Copy)]
struct Called<'c> {
    /// The spots of what it calls, outermost first; none without a stack.
    spots: &'c [SpotIdx],
    size: Bytes,
}

impl Round<'_> {
    /// The allocations outside of the inner loop.
    fn gaps(&self) -> impl Iterator<Item = Range<u32>> {
        let starts = self.inside.iter().map(|i| i.start).chain([self.this.end]);
        let ends = [self.this.start].into_iter();
        let ends = ends.chain(self.inside.iter().map(|i| i.end));
        ends.zip(starts).map(|(from, to)| from..to)
    }
}

impl<'l> Rounds<'l> {
    /// Each of them.
    pub fn each(&self) -> impl Iterator<Item = Round<'l>> + use<'l> {
        let (outer, mut rest) = (self.outer, self.inner.iterations.as_slice());
        outer.iterations.iter().map(move |this| {
            let (_, from) = rest.split_at(rest.partition_point(|i| i.start < this.start));
            let (inside, after) = from.split_at(from.partition_point(|i| i.end <= this.end));
            rest = after;
            let work = inside.iter().map(|i| i.work);
            let own = work.fold(this.work, Tally::less);
            Round { this, inside, own }
        })
    }

    /// Whether nearly each round has a backward pass and an optimizer's step of its own, beside
    /// those of the inner loop.
    pub fn have_own_updates(&self) -> bool {
        let usual = self.inner.work.backward / self.inner.iterations.len().max(1) as u32;
        let most = usual.max(1).saturating_mul(MOST_OF_ITS_OWN);
        let updates = self.each().filter(|round| {
            let own = (1..=most).contains(&round.own.backward);
            own && round.own.optimizer > 0 && round.inside.len() > 1 && !self.cuts_in_two(round)
        });
        updates.count() as f64 >= NEARLY_EACH * self.outer.iterations.len() as f64
    }

    /// Whether a round begins within an iteration of the inner loop: then it is a branch in that
    /// iteration, whose work is not the round's own.
    fn cuts_in_two(&self, round: &Round<'_>) -> bool {
        let (all, start) = (&self.inner.iterations, round.this.start);
        let begun = all.partition_point(|i| i.start < start);
        begun > 0 && all[begun - 1].end > start
    }

    /// Whether the first round shows no branch, and rounds are no epochs.
    pub fn are_short(&self) -> bool {
        let counts = || self.each().map(|round| round.inside.len());
        let first = counts().next().unwrap_or(0);
        first > 1 && median::upper(counts()).unwrap_or(0) <= LONGEST
    }

    /// Whether all rounds have as many iterations.
    pub fn are_equal(&self) -> bool {
        let mut counts = self.each().map(|round| round.inside.len());
        let first = counts.next().unwrap_or(0);
        let n = self.outer.iterations.len();
        let all = n * first == self.inner.iterations.len();
        first > 1 && n >= MIN_STEPS && all && counts.all(|n| n == first)
    }

    /// Whether all rounds have as many iterations, which train, and none begins within one: so many
    /// updates follow what each round collects.
    pub fn train_what_they_collect(&self) -> bool {
        let trains = |work: Tally| work.backward > 0;
        self.are_equal()
            && self.inner.each(trains)
            && !self.each().any(|round| self.cuts_in_two(&round))
            && self
                .each()
                .all(|round| round.inside[0].start > round.this.start)
    }
}

impl Analysis<'_> {
    /// The loop with the largest loop that stands in the same function, inside it; `None` if there
    /// is none.
    pub fn rounds<'l>(&self, loops: &'l [Loop], outer: &'l Loop) -> Option<Rounds<'l>> {
        let region = &self.regions[outer.region];
        let (from, to) = (outer.first, outer.iterations.last()?.end);
        let is_inside = |inner: &Loop| {
            inner.iterations.len() >= 2 * outer.iterations.len()
                && (from..to).contains(&inner.first)
                && region.has_within(&self.regions[inner.region])
        };
        // The reading on which most of its spots agree.
        let is_best = |inner: &Loop| {
            let beats = &self.regions[inner.region].beats;
            beats
                .iter()
                .all(|beat| beat.support <= beats[inner.beat].support)
        };
        let inside = loops.iter().filter(|inner| is_inside(inner));
        let inner = inside.max_by_key(|inner| (is_best(inner), inner.allocs))?;
        Some(Rounds { outer, inner })
    }

    /// Whether nearly each round updates something that the iterations in it do not update.
    pub fn update_another_model(&self, rounds: &Rounds<'_>) -> bool {
        rounds.have_own_updates() && !self.try_again(rounds)
    }

    /// Whether nearly each round does of its own what the iterations in it do: it calls the same
    /// function, once or more, which allocates the same. Something failed there, and is tried again
    /// after them.
    fn try_again(&self, rounds: &Rounds<'_>) -> bool {
        let context = self.regions[rounds.outer.region].context;
        let every = rounds.outer.iterations.len().div_ceil(MAX_LOOKED_AT).max(1);
        let looked_at: Vec<Round<'_>> = rounds.each().step_by(every).collect();
        let again = looked_at.iter().filter(|round| {
            let own = || self.called(context, round.gaps().flatten());
            let function = own().find_map(|called| self.function(called));
            let last = round.inside.iter().rfind(|i| i.work.backward > 0);
            let (Some(function), Some(last)) = (function, last) else {
                return false;
            };
            let is_of_it =
                |called: &Called<'_>| self.function(*called).is_none_or(|f| f == function);
            let usual = || self.called(context, last.start..last.end).filter(is_of_it);
            let n = usual().count();
            let repeated = std::iter::repeat_with(usual).flatten();
            n > 0
                && own().count().is_multiple_of(n)
                && own().zip(repeated).all(|(a, b)| self.is_alike(a, b))
        });
        again.count() as f64 >= NEARLY_EACH * looked_at.len() as f64
    }

    /// What is allocated in some allocations by what the lines of a context call.
    fn called(
        &self,
        context: ContextIdx,
        allocs: impl Iterator<Item = u32>,
    ) -> impl Iterator<Item = Called<'_>> {
        let blocks = &self.device.blocks;
        allocs.filter_map(move |alloc| {
            let kind = blocks.kind(blocks.nth_made(alloc));
            let path = self.calls.path(kind.alloc_stack);
            let at = path
                .iter()
                .position(|&s| self.calls.spot(s).context == context);
            let spots = at.map_or(&path[path.len()..], |at| &path[at + 1..]);
            let size = kind.size;
            // A line's own allocation is no call.
            (at.is_none() || !spots.is_empty()).then_some(Called { spots, size })
        })
    }

    /// The function that a line calls.
    fn function(&self, called: Called<'_>) -> Option<u32> {
        let spot = self.calls.spot(*called.spots.first()?);
        Some(self.calls.context(spot.context).function)
    }

    /// Whether two lines call the same, to allocate as much.
    fn is_alike(&self, one: Called<'_>, other: Called<'_>) -> bool {
        let place = |&spot: &SpotIdx| {
            let spot = self.calls.spot(spot);
            (self.calls.context(spot.context).function, spot.line)
        };
        let mut pairs = one.spots.iter().zip(other.spots);
        one.size == other.size
            && one.spots.len() == other.spots.len()
            && pairs.all(|(a, b)| place(a) == place(b))
    }

    /// Whether nearly each round makes anew what the iterations in it replace. At the end of some
    /// line, the first iteration of a round gives back what the round made before it, and nothing
    /// older. There, the second one gives back what that line made in the first one. Another line
    /// may have made it, if it is one block that goes from iteration to iteration. A branch within
    /// an iteration does not begin a round.
    pub fn renew(&self, rounds: &Rounds<'_>) -> bool {
        let context = self.regions[rounds.outer.region].context;
        let every = rounds.outer.iterations.len().div_ceil(MAX_LOOKED_AT).max(1);
        let looked_at: Vec<Round<'_>> = rounds.each().skip(1).step_by(every).collect();
        let renewed = looked_at.iter().filter(|round| {
            let [one, two, ..] = round.inside else {
                return false;
            };
            if rounds.cuts_in_two(round) {
                return false;
            }
            let (before, then) = (self.passed(context, one), self.passed(context, two));
            let takes_over = |gone: &GivenBack| {
                let older = before.older_at(gone.line);
                let is_of_the_round = older.iter().all(|gone| gone.made >= round.this.start);
                let is_own = before.line_of(gone.made) == Some(gone.line);
                let is_one = older.len() == 1 && then.older_at(gone.line).len() == 1;
                is_of_the_round && older.iter().any(|gone| gone.at_end) && (is_own || is_one)
            };
            let replaced = then.given_back.iter().filter(|gone| gone.at_end);
            let mut replaced = replaced.filter(|gone| before.line_of(gone.made).is_some());
            replaced.any(takes_over)
        });
        renewed.count() as f64 >= NEARLY_EACH * looked_at.len() as f64 && !looked_at.is_empty()
    }

    /// The lines of a context that an iteration passes, and what it gives back there.
    fn passed(&self, context: ContextIdx, iteration: &Iteration) -> Passed {
        let (blocks, events) = (&self.device.blocks, &self.device.events);
        let first = blocks.n_preexisting;
        let mut passed = Passed {
            start: iteration.start,
            lines: Vec::new(),
            given_back: Vec::new(),
        };
        // What was given back since the last allocation.
        let mut recent = 0;
        let mut line = 0;
        let range = self.event(iteration.start)..self.event(iteration.end);
        for at in range.start as usize..range.end as usize {
            let target = events.target[at];
            match events.action[at] {
                Action::Alloc => {
                    let kind = blocks.kind[target as usize].index();
                    let path = self.calls.path(blocks.kinds[kind].alloc_stack).iter();
                    let mut spots = path.map(|&spot| self.calls.spot(spot));
                    let here = spots.find(|spot| spot.context == context);
                    let now = here.map_or(line, |spot| spot.line);
                    for gone in &mut passed.given_back[recent..] {
                        gone.at_end = now != line;
                    }
                    recent = passed.given_back.len();
                    line = now;
                    passed.lines.push(line);
                }
                Action::FreeRequested if target >= first => passed.given_back.push(GivenBack {
                    line,
                    made: target - first,
                    at_end: true,
                }),
                _ => {}
            }
        }
        passed
    }
}

/// What an iteration does on the lines of a function.
struct Passed {
    /// The first allocation.
    start: u32,
    /// Of each allocation, the line.
    lines: Vec<u32>,
    given_back: Vec<GivenBack>,
}

/// A block that is given back.
struct GivenBack {
    /// The line at which the program is.
    line: u32,
    /// Its allocation.
    made: u32,
    /// Whether nothing more is allocated before the program goes on to another line.
    at_end: bool,
}

impl Passed {
    /// The line of an allocation; `None` if it is of another iteration.
    fn line_of(&self, alloc: u32) -> Option<u32> {
        let at = alloc.checked_sub(self.start)?;
        self.lines.get(at as usize).copied()
    }

    /// What a line gives back of what was made before this iteration.
    fn older_at(&self, line: u32) -> Vec<&GivenBack> {
        let here = self.given_back.iter().filter(|gone| gone.line == line);
        here.filter(|gone| gone.made < self.start).collect()
    }
}
