//! The loops of a recording that may be its steps, with their iterations.
//!
//! Never a step: a loop inside the call of a module (layers), inside an optimizer or a backward
//! pass (parameters), inside PyTorch or Python's own code, and one that loads a model.
//!
//! An iteration that the recording cuts, or in which memory ran out, is left out: nobody knows
//! where it began or would have ended. [`super::choose`] takes one of the loops.

use super::MIN_STEPS;
use super::calls::{Calls, ContextIdx};
use super::ending::without_ending;
use super::frames::{Frames, Place, Work};
use super::iterations::{self, Iteration};
use super::mark::{Mark, Reading};
use super::regions::{Region, Ways};
use super::walk::Walk;
use super::word::Word;
use super::work::{Tally, Works};
use crate::footprint::of_vec;
use crate::median;
use crate::span::Span;
use crate::stacks::{StackIdx, Stacks};
use crate::trace::{Action, DeviceTrace, KindIdx, PoolId, Step};
use crate::units::EventIdx;
use crate::watch::{Stopped, Watch};

/// This share of the iterations must have a backward pass and a step of the optimizer.
pub const NEARLY_EACH: f64 = 0.75;
/// If the last iteration did not reach its end and is shorter than this share of a usual one, it
/// was cut off. So was the first one, if it had begun before the recording did.
const CUT_OFF: f64 = 0.7;
/// This share of the iterations must be trained, if each of the others fails before its backward
/// pass. In a loop that is read twice in each iteration, it is half of them.
const TRAINED: f64 = 0.6;
/// An iteration that calls no module needs this many allocations. With fewer, it is a loop inside
/// something.
const LONG: usize = 8;

/// A loop with its iterations.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Its region.
    pub region: usize,
    /// Which beat of the region.
    pub beat: usize,
    /// Which of the loops with that beat that take turns.
    pub turn: usize,
    /// The context in which it stands.
    pub owner: ContextIdx,
    /// The smallest line at which an iteration begins.
    pub line: u32,
    /// Its iterations.
    pub iterations: Vec<Iteration>,
    /// Where it begins: perhaps with a part of an iteration, which is none of `iterations`.
    pub first: u32,
    /// The work in all of them.
    pub work: Tally,
    /// Allocations in them.
    pub allocs: u32,
    /// Allocations of the part of an iteration that it begins with.
    pub begun: u32,
}

/// What the recording shows about its loops.
pub struct Analysis<'a> {
    /// The device.
    pub device: &'a DeviceTrace,
    /// The stacks of its events.
    stacks: &'a Stacks,
    /// What is known about each frame.
    pub frames: Frames,
    /// The calls.
    pub calls: Calls,
    /// The walk.
    pub walk: Walk,
    /// Its graph.
    pub ways: Ways,
    /// The regions in which it goes round.
    pub regions: Vec<Region>,
    /// The kind of work of each allocation.
    pub works: Works,
    /// Allocations of each kind of work in all.
    pub total: Tally,
    /// Whether a CUDA graph was captured: it has a pool of its own.
    pub has_graph: bool,
    /// Per context, how many of its spots are visited.
    n_spots: Vec<u32>,
    /// The events at which memory ran out.
    ooms: Vec<u32>,
    watch: Watch<'a>,
}

impl<'a> Analysis<'a> {
    /// Reads the stacks; `None` if hardly any allocation has a Python stack.
    ///
    /// # Errors
    /// [`Stopped`], here and wherever loops are searched.
    pub fn new(
        device: &'a DeviceTrace,
        stacks: &'a Stacks,
        watch: Watch<'a>,
    ) -> Result<Option<Analysis<'a>>, Stopped> {
        let blocks = &device.blocks;
        let frames = Frames::new(stacks, watch)?;
        let watch = watch.beside(frames.heap_bytes());
        let calls = Calls::new(stacks, &frames, watch)?;
        let watch = watch.beside(calls.heap_bytes());
        let walk = Walk::new(blocks, &calls, watch)?;
        let watch = watch.beside(walk.heap_bytes());
        if !walk.has_enough_stacks() {
            return Ok(None);
        }
        let ways = Ways::new(&walk, &calls, watch)?;
        let watch = watch.beside(ways.heap_bytes());
        let regions = ways.regions(&calls, watch)?;
        let watch = watch.beside(regions.iter().map(Region::heap_bytes).sum());
        let works = Works::new(device, stacks, &frames, watch)?;
        let watch = watch.beside(works.heap_bytes());
        let mut n_spots = vec![0; calls.contexts.len()];
        for (spot, visits) in calls.spots.iter().zip(&ways.visits) {
            n_spots[spot.context.index()] += u32::from(visits.count > 0);
        }
        let watch = watch.beside(of_vec(&n_spots));
        let actions = &device.events.action;
        let ooms = (0..)
            .zip(actions.iter())
            .filter(|(_, a)| **a == Action::Oom);
        let ooms: Vec<u32> = ooms.map(|(at, _)| at).collect();
        let watch = watch.beside(2 * of_vec(&ooms));
        let mut total = Tally::default();
        for kind in blocks.made_kinds() {
            match works.of_kind[kind.index()] {
                Work::Forward => total.forward += 1,
                Work::Backward => total.backward += 1,
                Work::Optimizer => total.optimizer += 1,
                Work::Setup => total.setup += 1,
                Work::Other => {}
            }
        }
        total.optimizer += works.scopes.len() as u32;
        Ok(Some(Analysis {
            device,
            stacks,
            frames,
            calls,
            walk,
            ways,
            regions,
            works,
            total,
            has_graph: has_graph(device),
            n_spots,
            ooms,
            watch,
        }))
    }

    /// The event of an allocation; the number of events after the last one.
    pub fn event(&self, alloc: u32) -> u32 {
        let blocks = &self.device.blocks;
        let event = blocks.alloc.get(blocks.nth_made(alloc).index());
        event.map_or(self.device.events.len(), |&event| event)
    }

    /// The context in which a region's loop stands, if it can be a step's: the region's own; or,
    /// where each iteration enters it anew and it is a module's, no matter who calls the module.
    pub fn owner(&self, region: &Region, mark: &Mark) -> Option<ContextIdx> {
        let mut owner = region.context;
        if !mark.starts_at_entry(&self.ways) {
            return self.can_own(owner).then_some(owner);
        }
        loop {
            if self.can_own(owner) {
                return Some(owner);
            }
            let context = self.calls.context(owner);
            if self.is_part_of_a_step(context.place) {
                return None;
            }
            let is_wrapper = owner == region.context || context.place.is_framework;
            // A module that does something else, too, would have been entered anew itself: so it
            // is the module that loops. As torch's containers do.
            let loops = owner != region.context
                && (context.place.is_container || self.n_spots[owner.index()] > 1);
            if loops || !is_wrapper {
                return None;
            }
            owner = context.parent?;
        }
    }

    /// Whether a context can be called a step's.
    pub fn can_own(&self, context: ContextIdx) -> bool {
        let place = self.calls.context(context).place;
        !place.in_module && !place.is_framework && !self.is_part_of_a_step(place)
    }

    fn is_part_of_a_step(&self, place: Place) -> bool {
        let setup = place.in_setup && self.total.backward == 0;
        place.in_optimizer || place.in_backward || setup
    }

    /// The loops that may be steps, with their iterations.
    pub fn loops(&self) -> Result<Vec<Loop>, Stopped> {
        self.loops_owned(|region, mark| self.owner(region, mark))
    }

    /// The loops that are never steps: those in modules and optimizers.
    pub fn inner_loops(&self) -> Result<Vec<Loop>, Stopped> {
        self.loops_owned(|region, mark| {
            let place = self.calls.context(region.context).place;
            // What a compiled graph is called from is no layer of the program.
            let is_torch = place.is_framework && !place.is_container;
            let shown = place.in_module && !is_torch || place.in_optimizer;
            let stands = self.owner(region, mark).is_none() && !place.in_setup;
            (shown && stands).then_some(region.context)
        })
    }

    fn loops_owned(
        &self,
        owner: impl Fn(&Region, &Mark) -> Option<ContextIdx>,
    ) -> Result<Vec<Loop>, Stopped> {
        let mut marks: Vec<Mark> = Vec::new();
        let mut owners = Vec::new();
        let mut held = 0;
        for (index, region) in self.regions.iter().enumerate() {
            self.watch.look(held + 2 * of_vec(&marks))?;
            for beat in 0..region.beats.len() {
                for mark in Mark::of(region, index, beat, &self.ways, &self.calls) {
                    if let Some(owner) = owner(region, &mark) {
                        held += mark.heap_bytes() + size_of::<ContextIdx>();
                        marks.push(mark);
                        owners.push(owner);
                    }
                }
            }
        }
        let found = self.iterations(&marks, self.watch.beside(held + of_vec(&marks)))?;
        let mut loops: Vec<Loop> = Vec::new();
        for ((mark, owner), mut iterations) in marks.iter().zip(owners).zip(found) {
            self.add_first_updates(&mut iterations);
            let line = mark.line(&self.calls);
            let mut one = Loop::new(mark, line, owner, iterations);
            if mark.reading == Reading::Cut {
                let entered = self.regions[mark.region].spots[0];
                one.first = self.ways.visits[entered.index()].first;
                let whole = one.iterations.first().map_or(one.first, |i| i.start);
                one.begun = whole.saturating_sub(one.first);
            }
            match loops.last_mut() {
                // These are two readings of the iterations of one loop.
                Some(last) if last.is_same(&one) => {
                    if self.is_better(&one, mark.reading, last) {
                        *last = one;
                    }
                }
                _ => loops.push(one),
            }
        }
        for one in &mut loops {
            self.leave_out_begun(&mut one.iterations);
            self.leave_out_failed(&mut one.iterations);
            self.leave_out_attempts(one);
            self.leave_out_unfinished(&mut one.iterations);
        }
        loops.retain(|l| l.iterations.len() > 1);
        Ok(loops)
    }

    /// Adds to iterations that train the state that an optimizer makes right after them, if that is
    /// all until the next one. It is made once, at a place that other iterations do not pass, so
    /// the walk seems to leave the loop there; but it belongs to the gradients of the pass before.
    /// What is given back before the next iteration ends is no state: that may be the step of an
    /// optimizer after the last micro-batch.
    fn add_first_updates(&self, iterations: &mut [Iteration]) {
        let blocks = &self.device.blocks;
        for at in 1..iterations.len() {
            let next = iterations[at];
            let over = self.event(next.end);
            let is_state = |alloc: u32| {
                let block = blocks.nth_made(alloc).index();
                let work = self.works.of_kind[blocks.kind[block].index()];
                work == Work::Optimizer && blocks.free_requested[block] >= over
            };
            let this = &mut iterations[at - 1];
            let mut between = this.end..next.start;
            let n = between.len() as u32;
            if n > 0 && this.work.backward > 0 && between.all(is_state) {
                this.work.optimizer += n;
                (this.end, this.left) = (next.start, false);
            }
        }
    }

    /// Whether a reading is better than the one before of the same loop.
    fn is_better(&self, one: &Loop, reading: Reading, before: &Loop) -> bool {
        let level = |l: &Loop| iterations::level_at_starts(self.device, &l.iterations);
        match (self.is_cut_in_two(one), self.is_cut_in_two(before), reading) {
            (false, _, Reading::Cut) | (false, true, _) => true,
            (true, false, _) | (_, _, Reading::AfterCut) => false,
            // Among equal ones, the one that begins at the smallest line.
            _ => level(one) <= level(before),
        }
    }

    /// Whether there are more iterations than visits, but for one that the recording cuts. Then
    /// some begin where the recording did: in the middle of an iteration.
    fn is_cut_in_two(&self, this: &Loop) -> bool {
        let visits = self.regions[this.region].beats[this.beat].count;
        this.iterations.len() > visits as usize + 1
    }

    /// Leaves out a first iteration that had begun before the recording did, unless most of it is
    /// there: it is shorter than others, and begins with another stack than they do, or after a
    /// part of a backward pass.
    fn leave_out_begun(&self, iterations: &mut Vec<Iteration>) {
        let Some((first, others)) = iterations.split_first() else {
            return;
        };
        let blocks = &self.device.blocks;
        let stack = |i: &Iteration| blocks.kind(blocks.nth_made(i.start)).alloc_stack;
        let allocs = |i: &Iteration| i.end - i.start;
        let events = |i: &Iteration| self.event(i.end) - self.event(i.start);
        let usual =
            |len: &dyn Fn(&Iteration) -> u32| median::upper(others.iter().map(len)).unwrap_or(0);
        let moved = self.walk.of_alloc[first.start as usize];
        let begins = self.walk.moves.get(moved as usize);
        let begins = begins.is_some_and(|one| one.from.is_none());
        // The first iteration of a program gives back less than others.
        let is_whole = allocs(first) >= usual(&allocs)
            || f64::from(events(first)) >= CUT_OFF * f64::from(usual(&events));
        if others.len() < 2 || !begins || is_whole {
            return;
        }
        let mut stacks: Vec<StackIdx> = others.iter().map(stack).collect();
        stacks.sort_unstable();
        let same = stacks.chunk_by(|a, b| a == b).max_by_key(|same| same.len());
        let differs = same.is_some_and(|s| s[0] != stack(first) && s.len() * 2 >= others.len());
        let before = &blocks.made_kinds()[..first.start as usize];
        let trains = |kind: &KindIdx| self.works.of_kind[kind.index()] == Work::Backward;
        if differs || before.iter().any(trains) {
            iterations.remove(0);
        }
    }

    /// Leaves out a last iteration that ran out of memory: nobody knows where it would have ended.
    fn leave_out_failed(&self, iterations: &mut Vec<Iteration>) {
        let Some(last) = iterations.last() else {
            return;
        };
        let from = self.event(last.start);
        let ran_out = self.ooms.last().is_some_and(|&at| at >= from);
        if last.left && ran_out && !self.is_done(iterations) {
            iterations.pop();
        }
    }

    /// Whether memory ran out only after all that the last iteration allocates: at the same places
    /// as most others, from the first to the last.
    fn is_done(&self, iterations: &[Iteration]) -> bool {
        let Some((last, others)) = iterations.split_last() else {
            return false;
        };
        let from = self.ooms.partition_point(|&at| at < self.event(last.start));
        let is_after = |&at: &u32| at > self.event(last.end - 1);
        let blocks = &self.device.blocks;
        let stacks = |of: &Iteration| {
            let kinds = blocks.made_kinds()[of.start as usize..of.end as usize].iter();
            kinds.map(|kind| blocks.kinds[kind.index()].alloc_stack)
        };
        let same = others.iter().filter(|one| stacks(one).eq(stacks(last)));
        self.ooms[from..].iter().all(is_after) && 2 * same.count() >= others.len()
    }

    /// The first event after an allocation at which memory ran out.
    fn ran_out_after(&self, alloc: u32) -> Option<u32> {
        let from = self.event(alloc);
        let first = self.ooms.partition_point(|&at| at < from);
        self.ooms.get(first).copied()
    }

    /// Leaves out iterations that ran out of memory and after which the loop was begun anew, as in
    /// a search for the largest batch: they lack a kind of work that nearly each other one has.
    fn leave_out_attempts(&self, one: &mut Loop) {
        let iterations = &one.iterations;
        let ran_out = |i: &Iteration| {
            let from = self.ooms.partition_point(|&at| at < self.event(i.start));
            self.ooms
                .get(from)
                .is_some_and(|&at| at < self.event(i.end))
        };
        if self.ooms.is_empty() || !iterations.iter().any(ran_out) {
            return;
        }
        let others = iterations.iter().filter(|i| !ran_out(i));
        let have = |work: fn(&Tally) -> u32| {
            let have = others.clone().filter(|i| work(&i.work) > 0).count();
            have > 0 && have as f64 >= NEARLY_EACH * others.clone().count() as f64
        };
        let (trained, optimized) = (have(|w| w.backward), have(|w| w.optimizer));
        let lacks = |work: Tally| trained && work.backward == 0 || optimized && work.optimizer == 0;
        let is_attempt = |at: usize| {
            let this = &iterations[at];
            let next = iterations.get(at + 1);
            let anew = || this.left || next.is_some_and(|next| self.begins_anew(one, next));
            lacks(this.work) && ran_out(this) && anew()
        };
        let kept = (0..iterations.len()).filter(|&at| !is_attempt(at));
        one.iterations = kept.map(|at| iterations[at]).collect();
    }

    /// Whether an iteration of a loop begins at a spot that is passed less often than the others:
    /// before the loop.
    fn begins_anew(&self, one: &Loop, iteration: &Iteration) -> bool {
        let region = &self.regions[one.region];
        let blocks = &self.device.blocks;
        let kind = blocks.kind(blocks.nth_made(iteration.start));
        let path = self.calls.path(kind.alloc_stack);
        let spot = path
            .iter()
            .find(|&&s| self.calls.spot(s).context == region.context);
        let count = spot.map(|spot| self.ways.visits[spot.index()].count);
        count.is_some_and(|count| region.beats[one.beat].is_more_frequent_than(count))
    }

    /// Leaves out a last iteration that lacks a kind of work that each other one has, if the
    /// recording ends in it.
    fn leave_out_unfinished(&self, iterations: &mut Vec<Iteration>) {
        let n = self.walk.of_alloc.len() as u32;
        let Some((last, others)) = iterations.split_last() else {
            return;
        };
        let lacks = |work: fn(&Tally) -> u32| {
            work(&last.work) == 0 && others.iter().all(|other| work(&other.work) > 0)
        };
        let is_unfinished = lacks(|work| work.backward) || lacks(|work| work.optimizer);
        if last.end == n && others.len() + 1 >= MIN_STEPS && is_unfinished {
            iterations.pop();
        }
    }

    /// The iterations of some loops.
    fn iterations(&self, marks: &[Mark], watch: Watch<'_>) -> Result<Vec<Vec<Iteration>>, Stopped> {
        let pass = iterations::Pass {
            device: self.device,
            calls: &self.calls,
            walk: &self.walk,
            regions: &self.regions,
            marks,
            works: &self.works,
        };
        pass.find(watch)
    }

    /// Makes steps of a loop's iterations, named after what they are.
    pub fn steps(&self, iterations: &[Iteration], word: Word) -> Vec<Step> {
        let n = self.walk.of_alloc.len() as u32;
        // Frees between the last allocation of an iteration and the next allocation.
        let tail = |i: &Iteration| self.event(i.end) - self.event(i.end - 1) - 1;
        let inner = iterations.iter().filter(|i| !i.left);
        let tail = median::upper(inner.map(tail)).unwrap_or(0);
        let spans = iterations.iter().enumerate();
        let mut steps: Vec<Step> = spans
            .map(|(index, iteration)| {
                let mut end = self.event(iteration.end);
                // What follows the loop does not belong to the last step; the end of the recording
                // does.
                if iteration.left && iteration.end < n && iterations.len() > 1 {
                    end = end.min(self.event(iteration.end - 1) + 1 + tail);
                }
                // Nor does what follows once memory has run out.
                if iteration.left {
                    end = end.min(self.ran_out_after(iteration.end - 1).unwrap_or(end));
                }
                Step {
                    index: index as u32,
                    name: word.nth(index as u32),
                    events: Span::new(EventIdx(self.event(iteration.start)), EventIdx(end)),
                }
            })
            .collect();
        without_ending(self.device, self.stacks, &mut steps);
        steps
    }
}

impl Loop {
    fn new(mark: &Mark, line: u32, owner: ContextIdx, iterations: Vec<Iteration>) -> Loop {
        let work = iterations
            .iter()
            .fold(Tally::default(), |sum, i| sum.plus(i.work));
        let allocs = iterations.iter().map(|i| i.end - i.start).sum();
        Loop {
            region: mark.region,
            beat: mark.beat,
            turn: mark.turn,
            owner,
            line,
            first: iterations.first().map_or(0, |i| i.start),
            iterations: without_cut_off(iterations),
            work,
            allocs,
            begun: 0,
        }
    }

    /// Whether both are one loop.
    pub fn is_same(&self, other: &Loop) -> bool {
        let of = |l: &Loop| (l.region, l.beat, l.turn);
        of(self) == of(other)
    }

    /// Whether an iteration is more than a few allocations.
    pub fn is_long(&self) -> bool {
        self.allocs as usize >= LONG * self.iterations.len()
    }

    /// Whether something is true of nearly every iteration.
    pub fn each(&self, is_true: impl Fn(Tally) -> bool) -> bool {
        let n = self.iterations.iter().filter(|i| is_true(i.work)).count();
        n as f64 >= NEARLY_EACH * self.iterations.len() as f64
    }

    /// How many iterations of another loop begin in each iteration.
    pub fn counts_of(&self, inner: &Loop) -> Vec<usize> {
        let own = self.iterations.iter();
        own.map(|one| inner.within(one).len()).collect()
    }

    /// The iterations that begin in an iteration of another loop.
    pub fn within(&self, one: &Iteration) -> &[Iteration] {
        let upto = |alloc: u32| self.iterations.partition_point(|own| own.start < alloc);
        &self.iterations[upto(one.start)..upto(one.end)]
    }

    /// Whether most iterations have a backward pass and a step of the optimizer, and each of the
    /// others has a forward pass and nothing more: it was given up.
    pub fn trains_or_fails(&self) -> bool {
        let n = |is: fn(&Tally) -> bool| self.iterations.iter().filter(|i| is(&i.work)).count();
        let trained = n(|work| work.backward > 0 && work.optimizer > 0);
        let failed = n(|w| w.backward == 0 && w.optimizer == 0 && w.forward > 0);
        let all = self.iterations.len();
        trained + failed == all && trained as f64 >= TRAINED * all as f64
    }
}

/// Leaves out a last iteration that the end of the recording cut off.
fn without_cut_off(mut iterations: Vec<Iteration>) -> Vec<Iteration> {
    let len = |i: &Iteration| i.end - i.start;
    let usual = median::upper(iterations.iter().map(len)).unwrap_or(0);
    if let Some(last) = iterations.last()
        && !last.whole
        && f64::from(len(last)) < CUT_OFF * f64::from(usual)
    {
        iterations.pop();
    }
    iterations
}

/// Whether a CUDA graph was captured. Its blocks lie in a pool of its own.
pub fn has_graph(device: &DeviceTrace) -> bool {
    let mut kinds = device.blocks.kinds.iter();
    kinds.any(|kind| kind.pool != PoolId::default())
}
