//! Allocations counted by the kind of work that makes them.

use super::frames::{Frames, Work};
use crate::footprint::of_vec;
use crate::optimizer::is_step_scope;
use crate::span::Span;
use crate::stacks::{StackIdx, Stacks};
use crate::trace::{Blocks, DeviceTrace};
use crate::units::EventIdx;
use crate::watch::{Stopped, Watch};

/// Allocations of each kind of work so far; an optimizer's scopes count as optimizer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls of modules.
    pub forward: u32,
    /// Autograd.
    pub backward: u32,
    /// Optimizers.
    pub optimizer: u32,
    /// Models that are made, moved or loaded.
    pub setup: u32,
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

impl Tally {
    /// What was done since `then`.
    pub fn since(self, then: Tally) -> Tally {
        Tally {
            forward: self.forward - then.forward,
            backward: self.backward - then.backward,
            optimizer: self.optimizer - then.optimizer,
            setup: self.setup - then.setup,
        }
    }

    /// This without a part of it.
    pub fn less(self, part: Tally) -> Tally {
        Tally {
            forward: self.forward.saturating_sub(part.forward),
            backward: self.backward.saturating_sub(part.backward),
            optimizer: self.optimizer.saturating_sub(part.optimizer),
            setup: self.setup.saturating_sub(part.setup),
        }
    }

    /// The sum of both.
    pub fn plus(self, more: Tally) -> Tally {
        Tally {
            forward: self.forward + more.forward,
            backward: self.backward + more.backward,
            optimizer: self.optimizer + more.optimizer,
            setup: self.setup + more.setup,
        }
    }
}

/// The kind of work at a stack. If the recording has Python frames, a stack without any is
/// autograd's.
pub fn at_stack(stacks: &Stacks, frames: &Frames, stack: StackIdx) -> Work {
    match frames.has_python(stacks, stack) {
        true => frames.work(stacks, stack),
        false => Work::Backward,
    }
}

impl Works {
    /// Of a device's allocations.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn new(
        device: &DeviceTrace,
        stacks: &Stacks,
        frames: &Frames,
        watch: Watch<'_>,
    ) -> Result<Works, Stopped> {
        // Very many kinds may have the same deep stack.
        watch.look(stacks.len() + device.blocks.kinds.len())?;
        let mut of_stack: Vec<Work> = Vec::with_capacity(stacks.len());
        for stack in (0..stacks.len() as u32).map(StackIdx) {
            watch.at_row(stack.index(), || stacks.len() + device.blocks.kinds.len())?;
            of_stack.push(at_stack(stacks, frames, stack));
        }
        let kinds = device.blocks.kinds.iter();
        let of_kind = kinds.map(|kind| of_stack[kind.alloc_stack.index()]);
        let scopes = device.annotations.iter();
        // Those from before a ring's first event are in no loop.
        let scopes = scopes
            .filter(|a| a.events.end() > EventIdx(0))
            .filter(|a| is_step_scope(stacks.str(a.name)));
        let begun = |events: Span<EventIdx>| events.end().min(EventIdx(events.start().0 + 1));
        Ok(Works {
            of_kind: of_kind.collect(),
            scopes: scopes.map(|a| begun(a.events)).collect(),
        })
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.of_kind) + of_vec(&self.scopes)
    }
}

/// Counts work along the allocations.
pub struct Clock<'a> {
    blocks: &'a Blocks,
    works: &'a Works,
    tally: Tally,
    passed: usize,
    n_events: u32,
}

impl<'a> Clock<'a> {
    /// At the first allocation.
    pub fn new(device: &'a DeviceTrace, works: &'a Works) -> Clock<'a> {
        Clock {
            blocks: &device.blocks,
            works,
            tally: Tally::default(),
            passed: 0,
            n_events: device.events.len(),
        }
    }

    /// The work before an allocation. They are asked for in their order.
    pub fn before(&mut self, alloc: u32) -> Tally {
        self.pass(self.blocks.nth_event(alloc).0);
        self.tally
    }

    /// All work.
    pub fn at_end(&mut self) -> Tally {
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

    /// Counts an allocation.
    pub fn count(&mut self, alloc: u32) {
        let kind = self.blocks.made_kinds()[alloc as usize];
        match self.works.of_kind[kind.index()] {
            Work::Forward => self.tally.forward += 1,
            Work::Backward => self.tally.backward += 1,
            Work::Optimizer => self.tally.optimizer += 1,
            Work::Setup => self.tally.setup += 1,
            Work::Other => {}
        }
    }
}
