//! The end of the program, which is no part of its last step.
//!
//! When the function that holds the loop returns, Python gives back what its variables hold: the
//! model, and the lists in which it kept results. Nothing is allocated after that, so it seems to
//! belong to the last step. Then memory that every step left behind would look as if a step had
//! given it back.
//!
//! Two things show where the program ends. The stacks of frees, if they were recorded, no longer
//! have the functions that everything before was called from. And most of what outlives steps is
//! given back, more than steps give back anyway.

use crate::code;
use crate::span::Span;
use crate::stacks::{FxHashMap, StackIdx, Stacks};
use crate::trace::{Action, DeviceTrace, NO_TARGET, Step};
use crate::units::EventIdx;
use std::collections::HashSet;

/// Steps in which is looked what steps give back anyway.
const LOOKED_AT: usize = 32;

/// What follows the last allocation of a step.
struct Tail<'a> {
    device: &'a DeviceTrace,
    step: Span<EventIdx>,
    /// The first event after the last allocation.
    from: usize,
    /// Where the step before begins.
    before: EventIdx,
}

/// A block that is given back there.
struct Free {
    event: EventIdx,
    made: Made,
    /// The stack that allocated it.
    site: StackIdx,
    /// Events since then.
    age: u32,
}

/// When a block was allocated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    InStep,
    InStepBefore,
    /// It outlived the step before.
    Earlier,
}

impl<'a> Tail<'a> {
    fn of(device: &'a DeviceTrace, previous: &Step, step: &Step) -> Tail<'a> {
        let step = step.events;
        let range = step.start().index()..step.end().index();
        let last_alloc = device.events.action[range.clone()]
            .iter()
            .rposition(|action| *action == Action::Alloc);
        Tail {
            device,
            step,
            from: last_alloc.map_or(range.start, |at| range.start + at + 1),
            before: previous.events.start(),
        }
    }

    /// What is given back, in order.
    fn frees(&self) -> impl Iterator<Item = Free> {
        let (events, blocks) = (&self.device.events, &self.device.blocks);
        let range = self.from..self.step.end().index();
        let is_free = |at: &usize| events.action[*at] == Action::FreeRequested;
        range.filter(is_free).map(move |at| {
            let block = events.target[at] as usize;
            let (made, site) = match events.target[at] {
                NO_TARGET => (at as u32, StackIdx::NONE),
                _ => {
                    let kind = blocks.kinds[blocks.kind[block].index()];
                    (blocks.alloc[block], kind.alloc_stack)
                }
            };
            let is_preexisting = block < blocks.n_preexisting as usize;
            Free {
                event: EventIdx(at as u32),
                made: match EventIdx(made) {
                    made if is_preexisting || made < self.before => Made::Earlier,
                    made if made < self.step.start() => Made::InStepBefore,
                    _ => Made::InStep,
                },
                site,
                age: at as u32 - made,
            }
        })
    }

    /// Whether most of the old blocks that are alive at the last allocation are given back.
    fn is_most(&self) -> bool {
        let blocks = &self.device.blocks;
        let old = blocks.allocated_in(Span::new(EventIdx(0), self.before)).end;
        let gone = blocks.free_requested[..old as usize].iter();
        let alive = gone.filter(|&&event| event as usize >= self.from).count();
        let given_back = self
            .frees()
            .filter(|free| free.made == Made::Earlier)
            .count();
        given_back > 0 && given_back * 2 >= alive
    }

    /// When the last block is given back that the step before made at one of these places.
    fn replaced(&self, places: &HashSet<StackIdx>) -> Option<EventIdx> {
        let replaced = self
            .frees()
            .filter(|free| free.made == Made::InStepBefore && places.contains(&free.site));
        replaced.last().map(|free| free.event)
    }
}

/// How many old blocks of one place steps give back after their last allocation.
#[derive(Default)]
struct Habit {
    /// The most, and the second most.
    most: [u32; 2],
    /// The greatest age of such a block, in events.
    oldest: u32,
}

impl Habit {
    /// Of each place, in steps that are not the last one. Once is no habit, but the last of these
    /// steps counts twice.
    fn of(device: &DeviceTrace, steps: &[Step]) -> FxHashMap<StackIdx, Habit> {
        let mut habits: FxHashMap<StackIdx, Habit> = FxHashMap::default();
        let mut counts: FxHashMap<StackIdx, u32> = FxHashMap::default();
        let pairs = steps.windows(2).rev().take(LOOKED_AT);
        for (back, pair) in pairs.enumerate() {
            let tail = Tail::of(device, &pair[0], &pair[1]);
            for free in tail.frees().filter(|free| free.made == Made::Earlier) {
                *counts.entry(free.site).or_default() += 1;
                let habit = habits.entry(free.site).or_default();
                habit.oldest = habit.oldest.max(free.age);
            }
            for (site, count) in counts.drain() {
                let habit = habits.entry(site).or_default();
                let second = if back == 0 {
                    count
                } else {
                    habit.most[0].min(count)
                };
                habit.most = [habit.most[0].max(count), habit.most[1].max(second)];
            }
        }
        habits
    }

    /// Takes a block for one that steps give back anyway, if it can be.
    fn takes(&mut self, free: &Free) -> bool {
        let is_one = self.most[1] > 0 && free.age / 2 <= self.oldest;
        self.most[1] -= u32::from(is_one);
        is_one
    }
}

/// The statement that makes the last allocation. What it gives back itself belongs to its step: a
/// list of results that it makes longer, and cuts.
struct Statement<'a> {
    device: &'a DeviceTrace,
    stacks: &'a Stacks,
    /// Where it is: functions with their lines, outermost first.
    frames: Vec<(Function<'a>, u32)>,
    /// Whether it has ended, or the stacks of frees are not known.
    is_over: bool,
}

impl<'a> Statement<'a> {
    /// Of the allocation before the event `from`.
    fn of(device: &'a DeviceTrace, stacks: &'a Stacks, from: usize) -> Self {
        let last = EventIdx(from.saturating_sub(1) as u32);
        Statement {
            device,
            stacks,
            frames: lines_of(stacks, stack_of(device, last)).collect(),
            is_over: device.frees_carry_stacks_of_allocs(),
        }
    }

    /// Whether it gives back a block, as the stack of that shows, if it was recorded.
    fn gives_back(&mut self, free: &Free) -> bool {
        let stack = stack_of(self.device, free.event);
        let mut freed_at = lines_of(self.stacks, stack).peekable();
        let is_known = freed_at.peek().is_some();
        let mut frames = self.frames.iter();
        self.is_over |= !is_known || !freed_at.all(|frame| frames.next() == Some(&frame));
        !self.is_over
    }
}

/// The functions that a part of a program is called from, outermost first.
struct Callers<'a> {
    stacks: &'a Stacks,
    functions: Vec<Function<'a>>,
}

/// Its name and its file.
type Function<'a> = (&'a str, &'a str);

impl<'a> Callers<'a> {
    /// Of all events in `events` whose stack begins like that of the last allocation. `None` if no
    /// allocation has a Python stack.
    fn of(device: &DeviceTrace, stacks: &'a Stacks, events: Span<EventIdx>) -> Option<Self> {
        let range = || (events.start().0..events.end().0).map(EventIdx);
        // Each stack is read once: a file may have very deep ones.
        let mut seen = HashSet::new();
        let allocs = range().rev().filter(|event| is_alloc(device, *event));
        let mut made_at = allocs.map(|event| stack_of(device, event));
        let has_python = |stack: &StackIdx| functions_of(stacks, *stack).next().is_some();
        let last = made_at.find(|stack| seen.insert(*stack) && has_python(stack))?;
        let functions = functions_of(stacks, last).collect();
        let mut callers = Callers { stacks, functions };
        seen.clear();
        for stack in range().map(|event| stack_of(device, event)) {
            if seen.insert(stack) && callers.is_same_thread(stack) {
                let common = functions_in_common(&callers.functions, functions_of(stacks, stack));
                callers.functions.truncate(common);
            }
        }
        Some(callers)
    }

    /// Whether it begins with the same function. Other threads begin elsewhere.
    fn is_same_thread(&self, stack: StackIdx) -> bool {
        functions_of(self.stacks, stack).next() == self.functions.first().copied()
    }

    /// Whether a stack of the same thread lacks some of the functions.
    fn have_returned(&self, stack: StackIdx) -> bool {
        let common = functions_in_common(&self.functions, functions_of(self.stacks, stack));
        self.is_same_thread(stack) && common < self.functions.len()
    }
}

/// Ends the last step where the functions have returned that all of it and of the step before was
/// called from. And where the program gives up what outlives its steps.
pub(super) fn without_ending(device: &DeviceTrace, stacks: &Stacks, steps: &mut [Step]) {
    let [.., _, previous, last] = &*steps else {
        return;
    };
    if last.events.end().0 != device.events.len() {
        return;
    }
    let tail = Tail::of(device, previous, last);
    let mut end = gives_up(device, stacks, steps).unwrap_or(last.events.end());
    let until = tail.frees().next().map_or(end, |free| free.event);
    let both = Span::new(previous.events.start(), until);
    if let Some(callers) = Callers::of(device, stacks, both) {
        let mut seen = HashSet::new();
        let mut frees = tail.frees().map(|free| free.event);
        let returned = frees.find(|&event| {
            let stack = stack_of(device, event);
            seen.insert(stack) && callers.have_returned(stack)
        });
        end = returned.map_or(end, |returned| returned.min(end));
    }
    let start = last.events.start();
    if let Some(last) = steps.last_mut() {
        last.events = Span::new(start, end);
    }
}

/// Where the program begins to give back most of what outlives its steps, if no allocation follows
/// and the step before did no such thing.
///
/// What earlier steps give back, too, is no sign of that: old blocks of a place in two of them, or
/// in the step before; and all up to where a step has replaced what the step before made. What only
/// the last step made may be given back first. So no more young blocks are given back in it after
/// that than in the step before.
fn gives_up(device: &DeviceTrace, stacks: &Stacks, steps: &[Step]) -> Option<EventIdx> {
    let [earlier @ .., last] = steps else {
        return None;
    };
    let [.., before_previous, previous] = earlier else {
        return None;
    };
    let tail = Tail::of(device, previous, last);
    let usual = Tail::of(device, before_previous, previous);
    if !tail.is_most() || usual.is_most() {
        return None;
    }
    let replaced = usual.frees().filter(|free| free.made == Made::InStepBefore);
    let places: HashSet<StackIdx> = replaced.map(|free| free.site).collect();
    let settled = tail.replaced(&places);
    let usually = settled.and_then(|_| usual.replaced(&places));
    let is_young = |free: &Free| free.made != Made::Earlier;
    let after = usual.frees().filter(|free| Some(free.event) > usually);
    let mut young = after.filter(is_young).count();
    let mut habits = Habit::of(device, earlier);
    let mut made_last = Statement::of(device, stacks, tail.from);
    let first = tail.frees().find(|free| match free.made {
        _ if made_last.gives_back(free) => false,
        Made::Earlier => {
            let habit = habits.get_mut(&free.site);
            !habit.is_some_and(|habit| habit.takes(free))
        }
        _ if Some(free.event) <= settled => false,
        _ if young == 0 => true,
        _ => {
            young -= 1;
            false
        }
    });
    first.map(|free| free.event)
}

fn is_alloc(device: &DeviceTrace, event: EventIdx) -> bool {
    device.events.action[event.index()] == Action::Alloc
}

/// The stack of an allocation or of a free; none for other events.
fn stack_of(device: &DeviceTrace, event: EventIdx) -> StackIdx {
    let target = device.events.target[event.index()];
    let kind = || device.blocks.kinds[device.blocks.kind[target as usize].index()];
    match device.events.action[event.index()] {
        Action::Alloc if target != NO_TARGET => kind().alloc_stack,
        Action::FreeRequested if target != NO_TARGET => kind().free_stack,
        _ => StackIdx::NONE,
    }
}

/// The Python functions of a stack, outermost first.
fn functions_of(stacks: &Stacks, stack: StackIdx) -> impl Iterator<Item = Function<'_>> {
    lines_of(stacks, stack).map(|(function, _)| function)
}

/// The same, with the lines that they are at.
fn lines_of(stacks: &Stacks, stack: StackIdx) -> impl Iterator<Item = (Function<'_>, u32)> {
    let frames = stacks
        .frames(stack)
        .iter()
        .rev()
        .map(|&at| stacks.frame(at));
    frames.filter_map(|frame| {
        let file = stacks.str(frame.filename);
        let function = (stacks.str(frame.name), file);
        code::is_python(file, frame.line).then_some((function, frame.line))
    })
}

/// How many of the outermost functions are the same.
fn functions_in_common<'a>(
    these: &[Function<'a>],
    others: impl Iterator<Item = Function<'a>>,
) -> usize {
    these
        .iter()
        .zip(others)
        .take_while(|(a, b)| **a == *b)
        .count()
}
