//! The end of the program, which is no part of its last step.
//!
//! When the function that holds the loop returns, Python gives back what its variables hold: the
//! model, and the lists in which it kept results. Nothing is allocated after that, so it seems to
//! belong to the last step. Then memory that every step left behind would look as if a step had
//! given it back.

use crate::span::Span;
use crate::trace::{Action, DeviceTrace, Step};
use crate::units::EventIdx;

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

/// Ends the last step where the program begins to give back most of what outlives its steps, if no
/// allocation follows and the step before did no such thing. What only the last step made may be
/// given back first. So no more blocks are given back in it, after its last allocation, than in the
/// step before.
pub(super) fn without_ending(device: &DeviceTrace, steps: &mut [Step]) {
    let [.., before_previous, previous, last] = steps else {
        return;
    };
    if last.events.end().0 != device.events.len() {
        return;
    }
    let tail = Tail::of(device, last.events, previous.events.start());
    let usual = Tail::of(device, previous.events, before_previous.events.start());
    if tail.is_most() && !usual.is_most() {
        let more = tail.frees.get(usual.frees.len());
        let end = more.map_or(tail.first, |&more| more.min(tail.first));
        last.events = Span::new(last.events.start(), end);
    }
}
