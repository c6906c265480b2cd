//! Chooses the loop of a recording that is the step.
//!
//! If there is a backward pass, a loop is a candidate when most of the backward passes and of the
//! optimizer's steps lie in it, and nearly every iteration has both (or a backward pass, if the
//! optimizer allocates only in its first step). If there is none (serving,
//! sampling, evaluation), a loop is a candidate when most of what is allocated after loading lies
//! in it, and its iterations do more than fill memory: they call a module, or are long, and they
//! give memory back, or each hands new data to a model.
//!
//! If an optimizer allocates nothing, the loop of batches shows nothing of its own between the
//! micro-batches and the epochs. Then the optimizer's scopes are the steps, not the epochs.
//!
//! From the candidates that cover about the same, training takes the loop with the most iterations
//! (the batches, not the epochs around them). Everything else takes the loop with the fewest (the
//! requests, not the tokens in them), unless those are too few to judge and an inner loop has
//! enough.

use super::MIN_STEPS;
use super::calls::ContextIdx;
use super::frames::Work;
use super::iterations::Iteration;
use super::loops::{Analysis, Loop, NEARLY_EACH};
use super::rounds::Rounds;
use crate::trace::{KindIdx, PoolId};
use crate::units::Bytes;
use std::collections::HashSet;

/// A step's loop must hold this share of the backward passes and of the optimizer's work.
const MOST_OF_TRAINING: f64 = 0.6;
/// If nothing is trained, a loop must cover this share of what is allocated.
const MOST_OF_THE_REST: f64 = 0.7;
/// Loops that cover at least this share of what the largest loop covers count as about the same.
const ABOUT_THE_SAME: f64 = 0.9;
/// The same for a loop that holds nearly all training, twice or more in each iteration of another
/// loop. What it leaves out are evaluations after each epoch: less work than the training.
const BESIDE_EVALUATIONS: f64 = 0.5;
/// A loop must give back this share of what it allocates; otherwise it only fills memory.
pub const GIVEN_BACK: f64 = 0.25;
/// So many of the bytes that a module's iterations make they must give back, if nothing but the
/// calls of the module shows that its caller loops.
pub const MOST_GIVEN_BACK: f64 = 0.5;
/// So many blocks of an iteration are looked at, to see whether it begins with new data.
const MOST_DATA: usize = 8;
/// So many of a caller's iterations call a function once, if each call is an iteration.
const MOST_ONCE: f64 = 0.5;
/// The same, if the calls are of different sizes.
const SOME_ONCE: f64 = 0.15;
/// Then so many of the calls are smaller than the one before.
const OFTEN_SMALLER: f64 = 0.25;
/// If its iterations are short and call no module, a loop must be the only one and have so many.
const MANY: usize = 16;
/// The same, if a CUDA graph was captured, which such iterations replay.
const MANY_REPLAYS: usize = 8;

/// What a loop that does not train may stand beside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// The making and loading of a model.
    Setup,
    /// The same, and a few iterations that train.
    WarmUp,
}

impl Analysis<'_> {
    /// The position of the loop whose iterations are the steps.
    pub fn choose(&self, loops: &[Loop]) -> Option<usize> {
        if self.total.backward == 0 {
            return self.choose_working(loops, Beside::Setup);
        }
        let training = self.choose_training(loops);
        let captured = self.captured();
        let until = match training {
            // The optimizer may step between the replays, so that most of its work is there.
            None => captured,
            Some(at) => loops[at].iterations.last().and_then(|last| {
                let is_short = loops[at].iterations.len() < MIN_STEPS;
                (is_short || captured > Some(last.start)).then_some(last.end)
            }),
        };
        let after = until.and_then(|end| self.choose_after(loops, end));
        after.or(training)
    }

    /// The first allocation after the last backward pass that was captured as a part of a CUDA
    /// graph; `None` if none was.
    fn captured(&self) -> Option<u32> {
        let blocks = &self.device.blocks;
        let made = blocks.made_kinds();
        let is_captured = |kind: &KindIdx| {
            self.works.of_kind[kind.index()] == Work::Backward
                && blocks.kinds[kind.index()].pool != PoolId::default()
        };
        let last = made.iter().rposition(is_captured)?;
        Some(last as u32 + 1)
    }

    /// The loop after iterations that train, which end at an allocation: those warm up, and it
    /// replays their graph. What calls a module is no replay, but an evaluation.
    fn choose_after(&self, loops: &[Loop], end: u32) -> Option<usize> {
        let trains_later = |l: &Loop| l.work.backward > 0 && l.iterations[0].start >= end;
        let chosen = self.choose_working(loops, Beside::WarmUp)?;
        let later = &loops[chosen];
        let is_later = later.iterations[0].start >= end;
        let is_long = later.iterations.len() >= self.many();
        let replays = self.has_graph || !later.each(|work| work.forward > 0);
        (is_later && is_long && replays && !loops.iter().any(trains_later)).then_some(chosen)
    }

    /// So many iterations show that a loop that allocates little is the step.
    fn many(&self) -> usize {
        match self.has_graph {
            true => MANY_REPLAYS,
            false => MANY,
        }
    }

    /// Whether a loop holds this share of the training.
    fn holds(&self, this: &Loop, share: f64) -> bool {
        is_most(this.work.backward, self.total.backward, share)
            && is_most(this.work.optimizer, self.total.optimizer, share)
    }

    /// The loops that train: one of them may be the step.
    fn training(&self, loops: &[Loop]) -> Vec<usize> {
        let trains = (0..loops.len())
            .filter(|&i| self.holds(&loops[i], MOST_OF_TRAINING))
            .filter(|&i| loops[i].each(|work| work.backward > 0) || loops[i].trains_or_fails());
        let candidates: Vec<usize> = trains
            .clone()
            .filter(|&i| loops[i].each(|work| work.optimizer > 0) || loops[i].trains_or_fails())
            .collect();
        // Some optimizers allocate nothing, or only their state, in the first step. Then their
        // scopes would show their steps.
        if !self.works.scopes.is_empty() {
            return candidates;
        }
        let is_first = |inner: &usize| {
            candidates.iter().any(|&i| {
                let (around, inner) = (&loops[i], &loops[*inner]);
                self.makes_state_first(around, inner) || self.goes_on_as(around, inner)
            })
        };
        let first: Vec<usize> = trains.clone().filter(is_first).collect();
        let found = [first, candidates, trains.collect()];
        if let Some(found) = found.into_iter().find(|found| !found.is_empty()) {
            return found;
        }
        // That first step may have been made before the loop: to warm up, or to compile.
        let optimizer = |l: &Loop| l.work.optimizer + self.optimized_before(l);
        let holds = |l: &Loop| {
            is_most(l.work.backward, self.total.backward, MOST_OF_TRAINING)
                && is_most(optimizer(l), self.total.optimizer, MOST_OF_TRAINING)
        };
        (0..loops.len())
            .filter(|&i| holds(&loops[i]) && loops[i].each(|work| work.backward > 0))
            .collect()
    }

    fn choose_training(&self, loops: &[Loop]) -> Option<usize> {
        let candidates = self.without_cut_by_branches(loops, self.training(loops));
        let largest = |measure: fn(&Loop) -> u32| {
            let all = candidates.iter().map(|&i| measure(&loops[i]));
            all.max().unwrap_or(0)
        };
        // What makes a model is no part of a step.
        let steps = |l: &Loop| l.allocs.saturating_sub(l.work.setup);
        let (allocs, forward) = (largest(steps), largest(|l| l.work.forward));
        let by_iterations = |&i: &usize| loops[i].iterations.len();
        // Of two readings of one loop, the one with what is done now and then at its end.
        let by_size = |&i: &usize| (loops[i].iterations.len(), loops[i].allocs);
        let covers = |i: usize, share: f64| {
            is_most(steps(&loops[i]), allocs, share)
                && is_most(loops[i].work.forward, forward, share)
        };
        let same = candidates.iter().copied();
        let same = same.filter(|&i| covers(i, ABOUT_THE_SAME));
        let is_in_parts = |i: usize| same.clone().any(|j| self.cuts(&loops[i], &loops[j]));
        let best = same
            .clone()
            .filter(|&i| !is_in_parts(i))
            .max_by_key(by_size);
        let best = best.or_else(|| same.clone().max_by_key(by_size))?;
        // These may be epochs with an evaluation each. Then take the batches.
        let enough = loops[best].iterations.len() >= MIN_STEPS;
        let inner = candidates.iter().copied();
        let inner = inner
            .filter(|&i| {
                self.holds(&loops[i], ABOUT_THE_SAME) || !enough && self.is_cut_off(&loops[i])
            })
            .filter(|&i| !enough || covers(i, BESIDE_EVALUATIONS))
            .filter(|&i| !is_in_parts(i))
            .max_by_key(by_size);
        let chosen = inner
            .filter(|i| by_iterations(i) >= MIN_STEPS)
            .filter(|i| !enough || by_iterations(i) >= 2 * loops[best].iterations.len())
            .unwrap_or(best);
        let chosen = self
            .around_with_own_updates(loops, &candidates, chosen)
            .unwrap_or(chosen);
        let count = by_iterations(&chosen);
        let is_innermost = candidates.iter().all(|i| by_iterations(i) <= count);
        (!is_innermost || !self.optimizes_within(loops, count)).then_some(chosen)
    }

    /// Loops without those that are another one of them again, cut by a branch.
    fn without_cut_by_branches(&self, loops: &[Loop], found: Vec<usize>) -> Vec<usize> {
        let is_cut = |i: usize| {
            let mut others = found.iter().filter(|&&j| self.is_best_beat(loops, j));
            others.any(|&j| self.is_cut_by_a_branch(&loops[i], &loops[j]))
        };
        let whole = found.iter().copied().filter(|&i| !is_cut(i));
        whole.collect()
    }

    /// Whether a loop is another one again, without the lines of a branch that is taken now and
    /// then: the walk leaves it there, and seems to begin an iteration when it comes back. So it
    /// has more iterations than the other reading, but no more of them train: each of the others is
    /// the first piece of one, and the next piece begins elsewhere. (What failed is begun anew.)
    fn is_cut_by_a_branch(&self, this: &Loop, other: &Loop) -> bool {
        let trains = |one: &Iteration| one.work.backward > 0;
        let trained = |l: &Loop| l.iterations.iter().filter(|one| trains(one)).count();
        let blocks = &self.device.blocks;
        let begins = |one: &Iteration| blocks.kind(blocks.nth_made(one.start)).alloc_stack;
        let mut pairs = this.iterations.windows(2);
        self.regions[other.region].has_within(&self.regions[this.region])
            && this.line == other.line
            && this.iterations.len() > other.iterations.len()
            && this.allocs < other.allocs
            && trained(this) <= trained(other)
            && !pairs.any(|pair| !trains(&pair[0]) && begins(&pair[0]) == begins(&pair[1]))
    }

    /// Whether a loop holds nearly all training but the pieces of iterations that the recording
    /// begins and ends with: in a ring of a few steps these are much.
    fn is_cut_off(&self, this: &Loop) -> bool {
        let (Some(first), Some(last)) = (this.iterations.first(), this.iterations.last()) else {
            return false;
        };
        let blocks = &self.device.blocks;
        let made = blocks.made_kinds();
        let trained = |range: &[KindIdx]| {
            let works = range.iter().map(|kind| self.works.of_kind[kind.index()]);
            works.filter(|work| *work == Work::Backward).count() as u32
        };
        let (before, from) = made.split_at(first.start as usize);
        let (between, after) = from.split_at((last.end - first.start) as usize);
        let of_one = this.work.backward / this.iterations.len() as u32;
        is_most(this.work.backward, trained(between), ABOUT_THE_SAME)
            && [before, after].map(trained).iter().all(|&n| n <= of_one)
    }

    /// Whether a loop cuts each iteration of another one of its function into parts: it begins in
    /// the middle of its lines, and what trains in one part is on other lines than what trains in
    /// the next. So do two calls of a critic, each of which seems to begin an iteration: one before
    /// its own update, and one before the actor's.
    fn cuts(&self, this: &Loop, other: &Loop) -> bool {
        let context = self.regions[this.region].context;
        let n = other.iterations.len();
        let parts = this.iterations.len();
        if context != self.regions[other.region].context
            || n < MIN_STEPS
            || parts + 1 < 2 * n
            || this.line <= other.line
        {
            return false;
        }
        let trains: Vec<HashSet<u32>> = this
            .iterations
            .iter()
            .map(|one| self.trained(one, context))
            .collect();
        let differ = trains.windows(2).filter(|pair| {
            let are_known = pair.iter().all(|lines| !lines.is_empty());
            are_known && pair[0].is_disjoint(&pair[1])
        });
        differ.count() as f64 >= NEARLY_EACH * (parts - 1) as f64
    }

    /// The lines of a context that train in an iteration: from which it comes to a backward pass or
    /// to an optimizer.
    fn trained(&self, one: &Iteration, context: ContextIdx) -> HashSet<u32> {
        let blocks = &self.device.blocks;
        let kinds = blocks.made_kinds()[one.start as usize..one.end as usize].iter();
        let trains = kinds.filter(|kind| {
            matches!(
                self.works.of_kind[kind.index()],
                Work::Backward | Work::Optimizer
            )
        });
        let stacks = trains.map(|kind| blocks.kinds[kind.index()].alloc_stack);
        let lines = stacks.filter_map(|stack| {
            let mut path = self
                .calls
                .path(stack)
                .iter()
                .map(|&spot| self.calls.spot(spot));
            path.find(|spot| spot.context == context)
                .map(|spot| spot.line)
        });
        lines.collect()
    }

    /// Whether each iteration around makes an optimizer, as a fold of a cross-validation does: it
    /// allocates its state in the first iteration inside, keeps it, and allocates nothing later.
    fn makes_state_first(&self, around: &Loop, inside: &Loop) -> bool {
        let blocks = &self.device.blocks;
        let rounds = Rounds {
            outer: around,
            inner: inside,
        };
        rounds.each().all(|round| {
            let [first, .., last] = round.inside else {
                return false;
            };
            let kept = (first.start..first.end).filter(|&alloc| {
                let block = blocks.nth_made(alloc).index();
                let work = self.works.of_kind[blocks.kind[block].index()];
                work == Work::Optimizer && blocks.free_requested[block] >= self.event(last.start)
            });
            first.work.optimizer == round.this.work.optimizer
                && 2 * kept.count() >= first.work.optimizer as usize
        })
    }

    /// Whether nearly each iteration of a loop with an optimizer's work is one of another loop that
    /// has more of them: before or after, the optimizer allocates nothing, as SGD in place of Adam.
    fn goes_on_as(&self, optimized: &Loop, trained: &Loop) -> bool {
        let n = optimized.iterations.len();
        let counts = optimized.counts_of(trained);
        let same = counts.iter().filter(|&&count| count == 1).count();
        let all = ABOUT_THE_SAME * f64::from(self.total.backward);
        trained.iterations.len() >= n + MIN_STEPS
            && f64::from(trained.work.backward) >= all
            && same as f64 >= ABOUT_THE_SAME * n as f64
    }

    /// The loop around the chosen one, where it updates another model than the iterations in it
    /// do: the critic's updates are parts of a step.
    fn around_with_own_updates(
        &self,
        loops: &[Loop],
        candidates: &[usize],
        chosen: usize,
    ) -> Option<usize> {
        let inner = &loops[chosen];
        let context = |l: &Loop| self.regions[l.region].context;
        let around = candidates.iter().copied().filter(|&i| {
            let n = loops[i].iterations.len();
            (MIN_STEPS..inner.iterations.len()).contains(&n)
                && context(&loops[i]) == context(inner)
                && f64::from(loops[i].allocs) >= ABOUT_THE_SAME * f64::from(inner.allocs)
        });
        let mut around = around.filter(|&i| {
            let rounds = self.rounds(loops, &loops[i]);
            rounds.is_some_and(|rounds| self.update_another_model(&rounds) && rounds.are_short())
        });
        around.next()
    }

    /// Whether the optimizer's scopes show twice as many steps as there are iterations, or more,
    /// and each of these is made of micro-batches. Then the loop between has no allocation of its
    /// own.
    fn optimizes_within(&self, loops: &[Loop], n_iterations: usize) -> bool {
        let nearly_all =
            |part: u32| f64::from(part) >= ABOUT_THE_SAME * f64::from(self.total.backward);
        let optimizes = |l: &Loop| l.iterations.iter().filter(|i| i.work.optimizer > 0).count();
        !self.works.scopes.is_empty()
            && loops
                .iter()
                .filter(|l| nearly_all(l.work.backward) && l.each(|work| work.backward > 0))
                .any(|l| optimizes(l) >= 2 * n_iterations)
    }

    /// The optimizer's allocations before a loop.
    fn optimized_before(&self, this: &Loop) -> u32 {
        let blocks = &self.device.blocks;
        let kinds = &blocks.made_kinds()[..this.iterations[0].start as usize];
        kinds
            .iter()
            .filter(|kind| self.works.of_kind[kind.index()] == Work::Optimizer)
            .count() as u32
    }

    fn choose_working(&self, loops: &[Loop], beside: Beside) -> Option<usize> {
        let n = self.walk.of_alloc.len() as u32;
        let covers = |i: usize| loops[i].allocs + loops[i].begun;
        let mut candidates: Vec<usize> = (0..loops.len())
            .filter(|&i| {
                let after = n - loops[i].iterations[0].start + loops[i].begun;
                // What is captured allocates once, and its replays hardly anything.
                let all = match beside {
                    Beside::WarmUp if self.has_graph => after,
                    _ => after.max((n - self.total.setup) / 2),
                };
                f64::from(covers(i)) >= MOST_OF_THE_REST * f64::from(all)
            })
            .filter(|&i| {
                self.is_best_beat(loops, i) || self.has_rounds_that_renew(loops, &loops[i])
            })
            .filter(|&i| self.is_more_than_a_line(&loops[i]))
            .filter(|&i| self.gives_back(&loops[i]) || self.takes_data(&loops[i]))
            .filter(|&i| !self.may_be_layers(&loops[i]))
            .collect();
        let working = |i: &usize| loops[*i].each(|work| work.forward > 0) || loops[*i].is_long();
        let is_any = candidates.iter().any(working);
        // A compiled function, or the replay of a graph, allocates little. If nothing else can be
        // the step, and it is done again and again, it is.
        let is_only = candidates.windows(2).all(|two| {
            let starts = |i: usize| loops[i].iterations.iter().map(|one| one.start);
            starts(two[0]).eq(starts(two[1]))
        });
        candidates.retain(|i| match is_any {
            true => working(i),
            false => {
                is_only && loops[*i].iterations.len() >= self.many() && self.are_alike(&loops[*i])
            }
        });
        let most = candidates.iter().map(|&i| covers(i)).max()?;
        let same = candidates
            .iter()
            .copied()
            .filter(|&i| f64::from(covers(i)) >= ABOUT_THE_SAME * f64::from(most));
        let count = |i: &usize| loops[*i].iterations.len();
        // A part of a loop's lines, read as a loop that goes round less often, is none.
        let is_part = |i: &usize| {
            let around = same.clone().filter(|j| count(i) < count(j));
            let mut around = around.map(|j| &self.regions[loops[j].region]);
            around.any(|region| region.has_within(&self.regions[loops[*i].region]))
        };
        let same = same.clone().filter(|i| !is_part(i));
        let enough = same
            .clone()
            .filter(|i| count(i) >= MIN_STEPS)
            .min_by_key(count);
        let chosen = enough.or_else(|| same.clone().min_by_key(count))?;
        let called = same.filter(|&i| self.is_called_once(&loops[i], &loops[chosen]));
        Some(called.min_by_key(count).unwrap_or(chosen))
    }

    /// Whether a loop is a function that most iterations of the caller's loop call once. Some seem
    /// to call it twice: in between, the caller allocated nothing, as where it finds in a cache
    /// what it makes otherwise. So each call is an iteration. What is in a cache stays, and a
    /// request may be smaller than the one before. What a request's tokens are made of goes with
    /// it, and they are as large as one another, or grow.
    fn is_called_once(&self, called: &Loop, by: &Loop) -> bool {
        let caller = self.regions[by.region].context;
        let (Some(first), Some(last)) = (by.iterations.first(), by.iterations.last()) else {
            return false;
        };
        let within = |i: &&Iteration| i.start >= first.start && i.end <= last.end;
        let n = called.iterations.iter().filter(within).count();
        let counts = by.counts_of(called);
        let once = counts.iter().filter(|&&n| n == 1).count() as f64;
        let are_once = |share: f64| once >= share * counts.len() as f64;
        self.calls.context(called.owner).parent == Some(caller)
            && !counts.contains(&0)
            && n > counts.len()
            && counts.iter().sum::<usize>() == n
            && (are_once(MOST_ONCE) || are_once(SOME_ONCE) && self.shrink(called, by))
            && self.fills_a_cache(called, by)
    }

    /// Whether the iterations of a loop are often smaller than the one before, in the same
    /// iteration of the loop around.
    fn shrink(&self, inner: &Loop, around: &Loop) -> bool {
        let (mut all, mut shrunk) = (0, 0);
        for one in &around.iterations {
            let sizes = inner.within(one).iter().map(|i| self.bytes(i));
            let sizes: Vec<u64> = sizes.collect();
            all += sizes.len().saturating_sub(1);
            shrunk += sizes.windows(2).filter(|pair| pair[1] < pair[0]).count();
        }
        shrunk as f64 >= OFTEN_SMALLER * all as f64 && all > 0
    }

    /// Whether nearly each iteration makes something, outside of the loop in it, that is still
    /// there when the next iteration ends.
    fn fills_a_cache(&self, inner: &Loop, around: &Loop) -> bool {
        let blocks = &self.device.blocks;
        let pairs = around.iterations.windows(2);
        let fills = pairs.clone().filter(|pair| {
            let until = self.event(pair[1].end);
            let calls = inner.within(&pair[0]);
            let is_inside = |alloc: u32| {
                let begun = calls.partition_point(|call| call.start <= alloc);
                begun > 0 && alloc < calls[begun - 1].end
            };
            let stays = |alloc: u32| {
                let block = blocks.nth_made(alloc).index();
                blocks.free_requested[block] >= until
            };
            let mut own = pair[0].start..pair[0].end;
            own.any(|alloc| stays(alloc) && !is_inside(alloc))
        });
        fills.count() as f64 >= NEARLY_EACH * pairs.len() as f64
    }

    fn has_rounds_that_renew(&self, loops: &[Loop], this: &Loop) -> bool {
        let rounds = self.rounds(loops, this);
        rounds.is_some_and(|rounds| self.renew(&rounds))
    }

    /// Whether this may be a loop around another one of its function, though its lines look like a
    /// branch that is seldom taken.
    pub fn is_around(&self, loops: &[Loop], this: &Loop) -> bool {
        self.rounds(loops, this)
            .is_some_and(|rounds| match self.total.backward {
                0 => rounds.are_equal() || self.renew(&rounds),
                _ => rounds.have_own_updates() || rounds.train_what_they_collect(),
            })
    }

    /// Whether this is the beat of its region that most spots agree on, or of a loop around it.
    pub fn is_best_beat(&self, loops: &[Loop], which: usize) -> bool {
        let beat = |l: &Loop| &self.regions[l.region].beats[l.beat];
        let support = |l: &Loop| (beat(l).support, beat(l).count);
        let this = &loops[which];
        let region = &self.regions[this.region];
        let around = |other: &Loop| {
            beat(this).count < beat(other).count
                && self
                    .ways
                    .surrounds(region, beat(this), beat(other), &self.calls)
        };
        let mut others = loops.iter().filter(|l| l.region == this.region);
        others.all(|other| support(other) <= support(this) || around(other))
    }

    /// Two calls on one line may be just two calls; three are a loop. So may two calls of a module,
    /// between which the caller allocates nothing.
    fn is_more_than_a_line(&self, this: &Loop) -> bool {
        let region = &self.regions[this.region];
        if this.owner != region.context {
            return this.iterations.len() > 2;
        }
        let spots = &region.spots;
        let line = |i: usize| self.calls.spot(spots[i]).line;
        let lines_differ = (1..spots.len()).any(|i| line(i) != line(0));
        lines_differ || this.iterations.len() > 2
    }

    /// Whether iterations give back a part of what they allocate before the next one ends. Loading
    /// a model does not do that, and neither does memory that comes and goes at random.
    fn gives_back(&self, this: &Loop) -> bool {
        let blocks = &self.device.blocks;
        let (mut all, mut freed) = (0_u32, 0_u32);
        for (at, iteration) in this.iterations.iter().enumerate() {
            let next = this.iterations.get(at + 1).unwrap_or(iteration);
            let until = self.event(next.end);
            for alloc in iteration.start..iteration.end {
                all += 1;
                let freed_at = blocks.free_requested[blocks.nth_made(alloc).index()];
                freed += u32::from(freed_at < until);
            }
        }
        f64::from(freed) >= GIVEN_BACK * f64::from(all)
    }

    /// Whether these may be the layers of one pass rather than calls of a module: the caller
    /// allocates nothing in between, which would show that it loops, and most of what an iteration
    /// makes stays, as it waits for a backward pass.
    fn may_be_layers(&self, this: &Loop) -> bool {
        if this.owner == self.regions[this.region].context {
            return false;
        }
        let blocks = &self.device.blocks;
        let (mut all, mut freed) = (0_u64, 0_u64);
        for pair in this.iterations.windows(2) {
            let until = self.event(pair[1].end);
            for alloc in pair[0].start..pair[0].end {
                let block = blocks.nth_made(alloc);
                let size = blocks.kind(block).size.0;
                all += size;
                if blocks.free_requested[block.index()] < until {
                    freed += size;
                }
            }
        }
        (freed as f64) < MOST_GIVEN_BACK * all as f64
    }

    /// Whether nearly each iteration hands new data to a model: before it calls a module, it
    /// allocates something that is as large as nothing that its modules make. So do the batches of
    /// an evaluation that keeps its graphs, and gives back hardly anything. The layers of a model
    /// are handed what the layer before has made, or as much as that.
    fn takes_data(&self, this: &Loop) -> bool {
        let blocks = &self.device.blocks;
        let made = |alloc: u32| {
            let kind = blocks.made_kinds()[alloc as usize];
            let requested = blocks.kinds[kind.index()].requested;
            (self.works.of_kind[kind.index()], requested)
        };
        let takes = this.iterations.iter().filter(|one| {
            let all = || (one.start..one.end).map(made);
            let before = all().take_while(|(work, _)| *work != Work::Forward);
            let inside = || all().filter(|(work, _)| *work == Work::Forward);
            let data = before.filter(|(work, _)| *work == Work::Other);
            let is_new = |size: Bytes| inside().all(|(_, made)| made != size);
            inside().next().is_some() && data.take(MOST_DATA).any(|(_, size)| is_new(size))
        });
        takes.count() as f64 >= NEARLY_EACH * this.iterations.len() as f64
            && this.iterations.len() >= MIN_STEPS
            && self.total.backward == 0
    }

    /// Whether nearly all iterations allocate the same number of bytes.
    fn are_alike(&self, one: &Loop) -> bool {
        let mut all: Vec<u64> = one.iterations.iter().map(|i| self.bytes(i)).collect();
        all.sort_unstable();
        let most = all.chunk_by(|a, b| a == b).map(<[u64]>::len).max();
        most.is_some_and(|most| most as f64 >= NEARLY_EACH * all.len() as f64)
    }

    /// The bytes that an iteration allocates.
    fn bytes(&self, iteration: &Iteration) -> u64 {
        let blocks = &self.device.blocks;
        let kinds = blocks.made_kinds();
        let size = |kind: &KindIdx| blocks.kinds[kind.index()].size.0;
        let kinds = &kinds[iteration.start as usize..iteration.end as usize];
        kinds.iter().map(size).sum()
    }
}

/// Whether a part is at least this share of all.
fn is_most(part: u32, all: u32, share: f64) -> bool {
    f64::from(part) >= share * f64::from(all)
}
