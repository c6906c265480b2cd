//! The end of the program, which is no part of its last step.
//!
//! When the function that holds the loop returns, Python gives back what its variables hold: the
//! model, and the lists in which it kept results. Nothing is allocated after that, so it seems to
//! belong to the last step. Then memory that every step left behind would look as if a step had
//! given it back.
//!
//! Two things show where the program ends. The stacks of frees, if they were recorded, no longer
//! have the functions that everything before was called from. And most of what outlives steps is
//! given back.

use crate::code;
use crate::span::Span;
use crate::stacks::{StackIdx, Stacks};
use crate::trace::{Action, DeviceTrace, NO_TARGET, Step};
use crate::units::EventIdx;
use std::collections::HashSet;

/// What the last allocations of a step are followed by.
struct Tail {
    /// Blocks that outlived the step before, and were alive at the last allocation.
    old: u32,
    /// How many of them are given back before the step ends.
    given_back: u32,
    /// When the first of them is.
    first: EventIdx,
    /// When any block is given back, in order.
    frees: Vec<EventIdx>,
}

impl Tail {
    /// Of a step; blocks are old if they were allocated before the event `born`.
    fn of(device: &DeviceTrace, step: Span<EventIdx>, born: EventIdx) -> Tail {
        let (events, blocks) = (&device.events, &device.blocks);
        let range = step.start().index()..step.end().index();
        let last_alloc = events.action[range.clone()]
            .iter()
            .rposition(|action| *action == Action::Alloc);
        let from = last_alloc.map_or(range.start, |at| range.start + at + 1);
        let is_free = |at: &usize| events.action[*at] == Action::FreeRequested;
        let frees = (from..range.end).filter(is_free);
        let before = blocks.allocated_in(Span::new(EventIdx(0), born)).end;
        let gone = blocks.free_requested[..before as usize].iter();
        let mut tail = Tail {
            old: 0,
            given_back: 0,
            first: step.end(),
            frees: frees.map(|at| EventIdx(at as u32)).collect(),
        };
        for event in gone.map(|&event| EventIdx(event)) {
            tail.old += u32::from(event.index() >= from);
            if event.index() >= from && event < step.end() {
                tail.given_back += 1;
                tail.first = tail.first.min(event);
            }
        }
        tail
    }

    /// Whether most of what outlives steps is given back.
    fn is_most(&self) -> bool {
        self.given_back > 0 && self.given_back * 2 >= self.old
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
/// called from. And where the program begins to give back most of what outlives its steps, if no
/// allocation follows and the step before did no such thing. What only the last step made may be
/// given back first. So no more blocks are given back in it, after its last allocation, than in the
/// step before.
pub(super) fn without_ending(device: &DeviceTrace, stacks: &Stacks, steps: &mut [Step]) {
    let [.., before_previous, previous, last] = steps else {
        return;
    };
    if last.events.end().0 != device.events.len() {
        return;
    }
    let tail = Tail::of(device, last.events, previous.events.start());
    let usual = Tail::of(device, previous.events, before_previous.events.start());
    let mut end = last.events.end();
    if tail.is_most() && !usual.is_most() {
        let more = tail.frees.get(usual.frees.len());
        end = more.map_or(tail.first, |&more| more.min(tail.first));
    }
    let until = tail.frees.first().copied().unwrap_or(end);
    let both = Span::new(previous.events.start(), until);
    if let Some(callers) = Callers::of(device, stacks, both) {
        let mut seen = HashSet::new();
        let returned = tail.frees.iter().find(|&&event| {
            let stack = stack_of(device, event);
            seen.insert(stack) && callers.have_returned(stack)
        });
        end = returned.map_or(end, |&returned| returned.min(end));
    }
    last.events = Span::new(last.events.start(), end);
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
    let frames = stacks
        .frames(stack)
        .iter()
        .rev()
        .map(|&at| stacks.frame(at));
    frames.filter_map(|frame| {
        let file = stacks.str(frame.filename);
        code::is_python(file, frame.line).then(|| (stacks.str(frame.name), file))
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
