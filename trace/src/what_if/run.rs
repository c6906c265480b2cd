//! Sends the requests of a recording through the allocator, one by one.

use super::batch::{Batch, Share};
use super::begin::{Before, begin};
use super::curve::Curve;
use super::early::{self, Early};
use super::recorded::Evidence;
use super::waits::{Delays, Free, Longest, Waits};
use super::{Failed, Outcome, Reach, step_at};
use crate::allocator::caching::{Caching, Call, Limit, OutOfMemory, Placement, Threshold};
use crate::allocator::{Config, Slot};
use crate::levels::GivenBack;
use crate::oom;
use crate::trace::{Action, BlockIdx, DeviceTrace, NO_TARGET};
use crate::units::{Bytes, EventIdx};
use crate::watch::{EVERY, Stopped, Watch};
use std::collections::VecDeque;
use std::iter::Peekable;
use std::slice::Iter;

/// What becomes of a program that is refused what it would give back at once, as a library does
/// with work space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is out of memory.
    Ends,
    /// It makes do without.
    DoneWithout,
}

/// The conditions of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    /// The allocator's settings.
    pub settings: &'a Config,
    /// The limit of what the process may reserve.
    pub limit: Option<Limit>,
    /// What is given back early.
    pub early: &'a Early,
    /// What grows with the batch, and how much of the batch is computed.
    pub batch: Option<(&'a Batch, Share)>,
    /// Where segments lie if the recording does not tell.
    pub placement: Placement,
    /// How the memory from before the first event lies.
    pub before: Before,
    /// When frees that wait for another stream complete.
    pub waits: Waits,
    /// What becomes of it without work space.
    pub refused: Refused,
}

impl<'a> Conditions<'a> {
    /// Those of the recording, under these settings and this limit.
    pub fn as_recorded(settings: &'a Config, limit: Option<Limit>) -> Conditions<'a> {
        Conditions {
            settings,
            limit,
            early: &early::NOTHING,
            batch: None,
            placement: Placement::Seen,
            before: Before::AsRecorded,
            waits: Waits::AsRecorded,
            refused: Refused::Ends,
        }
    }
}

/// What is replayed, and who may stop it.
#[derive(Clone, Copy)]
pub struct Replay<'a> {
    /// Whose requests.
    pub device: &'a DeviceTrace,
    /// What the recorded allocator did of its own accord.
    pub evidence: &'a Evidence,
    /// Who waits.
    pub watch: Watch<'a>,
}

impl<'a> Replay<'a> {
    /// Of a device's requests.
    pub fn new(device: &'a DeviceTrace, evidence: &'a Evidence, watch: Watch<'a>) -> Replay<'a> {
        Replay {
            device,
            evidence,
            watch,
        }
    }

    /// Replays the requests under these conditions.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn under(self, conditions: &Conditions<'_>) -> Result<Outcome, Stopped> {
        Ok(self.drawn(conditions, 0)?.0)
    }

    /// The same, with the levels in a curve of at most so many columns.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn drawn(
        self,
        conditions: &Conditions<'_>,
        columns: u32,
    ) -> Result<(Outcome, Curve), Stopped> {
        let mut run = Run::new(self, conditions, columns)?;
        run.go(self, conditions)?;
        Ok((run.outcome, run.curve))
    }

    /// What the segments that were collected tell of the threshold, if these are the conditions of
    /// the recording. Reserved memory up to `granted` was refused to no request.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(super) fn threshold(
        self,
        conditions: &Conditions<'_>,
        granted: Bytes,
    ) -> Result<Option<Threshold>, Stopped> {
        let mut run = Run::new(self, conditions, 0)?;
        run.learns = Some(granted);
        run.go(self, conditions)?;
        Ok(run.allocator.learnt())
    }
}

/// The recorded calls of the driver.
fn segment_calls(device: &DeviceTrace) -> VecDeque<Call> {
    let events = &device.events;
    let calls = events.action.iter().zip(&events.target);
    let calls = calls.filter_map(|(action, &target)| {
        let is_segment = matches!(action, Action::SegmentAlloc | Action::SegmentFree);
        let segment = is_segment.then(|| events.segments.get(target as usize))??;
        let (addr, size) = (segment.addr.0, segment.size.0);
        Some(match action {
            Action::SegmentAlloc => Call::Allocate { addr, size },
            _ => Call::Free { addr },
        })
    });
    calls.collect()
}

struct Run<'a> {
    device: &'a DeviceTrace,
    allocator: Caching,
    /// The slot of each block while it is in use or pending.
    slots: Vec<Slot>,
    allocated: u64,
    /// Blocks that a request will wait for if it must empty the cache; otherwise they complete
    /// after the request.
    awaited: Vec<u32>,
    /// When frees that wait for other streams complete.
    delays: Delays,
    /// What becomes of the program without work space.
    refused: Refused,
    /// What no request was refused, where the threshold of collection is to be learnt.
    learns: Option<Bytes>,
    batch: Option<(&'a Batch, Share)>,
    /// Recorded failures after which the program went on at once.
    passed_over: Vec<EventIdx>,
    /// Whether the last request was one of these, and was served: then those that failed directly
    /// after it would not have been made.
    is_served: bool,
    /// What failed requests may have asked for at least.
    least: &'a [(EventIdx, Bytes)],
    /// The remaining blocks that are never requested.
    gone: Peekable<Iter<'a, BlockIdx>>,
    curve: Curve,
    outcome: Outcome,
}

/// Bytes of the slots of all blocks.
fn heap_of_slots(device: &DeviceTrace) -> usize {
    device.blocks.len() * size_of::<Slot>()
}

/// An allocator that holds nothing.
fn new_allocator(device: &DeviceTrace, conditions: &Conditions<'_>) -> Caching {
    let settings = conditions.settings.clone();
    Caching::placing(settings, segment_calls(device), conditions.placement)
}

impl<'a> Run<'a> {
    fn new(
        replay: Replay<'a>,
        conditions: &Conditions<'a>,
        columns: u32,
    ) -> Result<Run<'a>, Stopped> {
        let device = replay.device;
        replay.watch.look(heap_of_slots(device))?;
        Ok(Run {
            device,
            allocator: new_allocator(device, conditions),
            slots: vec![Slot::NONE; device.blocks.len()],
            allocated: 0,
            awaited: Vec::new(),
            delays: Delays::new(conditions.waits, Longest::of(device, conditions.waits)),
            refused: conditions.refused,
            learns: None,
            batch: conditions.batch,
            passed_over: oom::passed_over(device),
            is_served: false,
            least: &[],
            gone: conditions.early.gone.iter().peekable(),
            curve: Curve::over(device.events.len(), columns),
            outcome: Outcome::NOTHING,
        })
    }

    /// Lays out what was there before the first event. Returns whether it fits. Under a lower limit
    /// than what was reserved then, the program would have reserved less, if it could.
    fn lay_out(&mut self, conditions: &Conditions<'_>, watch: Watch<'_>) -> Result<bool, Stopped> {
        let (device, limit) = (self.device, conditions.limit);
        let (allocator, slots) = (&mut self.allocator, &mut self.slots);
        begin(device, allocator, slots, conditions.before, watch)?;
        if self.exceeds(limit) {
            self.allocator.empty_cache();
        }
        if self.exceeds(limit) {
            self.allocator = new_allocator(device, conditions);
            self.slots.fill(Slot::NONE);
            let (allocator, slots) = (&mut self.allocator, &mut self.slots);
            begin(device, allocator, slots, Before::RequestedAgain, watch)?;
        }
        self.begin(limit);
        Ok(!self.exceeds(limit))
    }

    /// Replays the events.
    fn go(&mut self, replay: Replay<'a>, conditions: &Conditions<'_>) -> Result<(), Stopped> {
        let (device, evidence) = (self.device, replay.evidence);
        let watch = replay.watch.beside(heap_of_slots(device));
        self.least = &evidence.least;
        if !self.lay_out(conditions, watch)? {
            self.fail(0, None);
            self.outcome.reach = Reach::Failure;
            return Ok(());
        }
        self.allocator.set_limit(conditions.limit);
        if let Some(granted) = self.learns {
            self.allocator.learn(granted);
        }
        let mut early = conditions.early.given_back.iter().peekable();
        let mut emptied = evidence.emptied.iter().peekable();
        let mut awaited = evidence.awaited.iter().peekable();
        let mut shortages = self.allocator.shortages();
        for event in 0..device.events.len() {
            watch.at_row(event as usize, || {
                self.allocator.heap_bytes_after(4 * EVERY)
            })?;
            // A request that finds nothing may take as long as many rows.
            let now = self.allocator.shortages();
            if now != shortages {
                shortages = now;
                watch.look(self.allocator.heap_bytes_after(4 * EVERY))?;
            }
            while let Some((_, block)) = early.next_if(|(at, _)| at.0 <= event) {
                self.give_back_early(*block);
            }
            while let Some(block) = self.delays.over_at(event) {
                self.end_wait(block);
            }
            if emptied.next_if(|at| at.0 == event).is_some() {
                self.allocator.empty_cache();
            }
            while awaited.next_if(|span| span.end().0 <= event).is_some() {}
            let is_awaited = awaited.peek().is_some_and(|span| span.start().0 <= event);
            let end = self.event(event, is_awaited);
            self.draw(event);
            if let Some(reach) = end {
                self.outcome.reach = reach;
                break;
            }
        }
        self.outcome.retries = self.allocator.retries();
        self.outcome.is_guessed = self.allocator.is_guessed();
        Ok(())
    }
}

impl Run<'_> {
    /// The levels before the first event, and the blocks that were pending then.
    fn begin(&mut self, limit: Option<Limit>) {
        for block in 0..self.device.blocks.n_preexisting {
            let slot = self.slots[block as usize];
            if slot == Slot::NONE {
                continue;
            }
            match self.pending_before(block) {
                true => self.allocator.wait(slot, block),
                false => self.allocated += self.allocator.arena().size(slot),
            }
        }
        let before = self.device.blocks.n_preexisting;
        while let Some(block) = self.gone.next_if(|block| block.0 < before) {
            match self.pending_before(block.0) {
                // It was not counted, and waits for other streams.
                true => _ = self.complete(0, block.0),
                false => self.give_back_early(*block),
            }
        }
        // What is never requested has left room.
        if self.exceeds(limit) {
            self.allocator.empty_cache();
        }
        self.measure();
        self.draw(0);
    }

    fn exceeds(&self, limit: Option<Limit>) -> bool {
        limit.is_some_and(|limit| self.allocator.reserved() > limit.bytes)
    }

    /// Whether a block was given back before the first event.
    fn pending_before(&self, block: u32) -> bool {
        self.device.given_back(BlockIdx(block)) == GivenBack::Before
    }

    fn measure(&mut self) {
        let outcome = &mut self.outcome;
        outcome.peak_allocated = outcome.peak_allocated.max(Bytes(self.allocated));
        outcome.peak_reserved = outcome.peak_reserved.max(self.allocator.reserved());
    }

    /// Draws the levels after an event.
    fn draw(&mut self, event: u32) {
        #[cfg(test)]
        self.allocator.arena().check_lists();
        let reserved = self.allocator.reserved();
        self.curve
            .reach(EventIdx(event), Bytes(self.allocated), reserved);
    }

    /// Replays one event. Returns where the answer ends, if it ends here.
    fn event(&mut self, event: u32, is_awaited: bool) -> Option<Reach> {
        let target = self.device.events.target[event as usize];
        if target == NO_TARGET {
            return None;
        }
        match self.device.events.action[event as usize] {
            Action::Alloc => {
                self.is_served = false;
                let reach = self.alloc(event, target);
                self.complete_awaited(event);
                reach
            }
            Action::FreeRequested => {
                self.is_served = false;
                self.give_back(event, target)
            }
            Action::FreeCompleted if is_awaited => {
                self.awaited.push(target);
                None
            }
            Action::FreeCompleted => self.complete(event, target),
            Action::Oom => {
                let reach = self.recorded_oom(event, target);
                self.complete_awaited(event);
                reach
            }
            _ => None,
        }
    }

    fn alloc(&mut self, event: u32, block: u32) -> Option<Reach> {
        if self.gone.next_if(|gone| gone.0 == block).is_some() {
            return None;
        }
        let kind = self.device.blocks.kind(BlockIdx(block));
        let size = kind.requested;
        let size = self
            .batch
            .map_or(size, |(batch, share)| batch.size(share, block, size));
        match self.allocator.malloc(kind.pool, kind.stream, size) {
            Ok(slot) => {
                self.slots[block as usize] = slot;
                self.allocated += self.allocator.arena().size(slot);
                self.measure();
                None
            }
            Err(_) if self.refused == Refused::DoneWithout && self.at_once(EventIdx(event)) => None,
            Err(why) => {
                self.fail(event, Some(why));
                Some(Reach::Failure)
            }
        }
    }

    /// Gives a block back early; its recorded frees will then find it gone.
    fn give_back_early(&mut self, block: BlockIdx) {
        let slot = std::mem::replace(&mut self.slots[block.index()], Slot::NONE);
        if slot != Slot::NONE {
            self.lower(slot);
            self.allocator.free(slot);
        }
    }

    /// Counts a block as given back. In a defective recording that may happen twice.
    fn lower(&mut self, slot: Slot) {
        let size = self.allocator.arena().size(slot);
        self.allocated = self.allocated.saturating_sub(size);
    }

    fn give_back(&mut self, event: u32, block: u32) -> Option<Reach> {
        let slot = self.slots[block as usize];
        if slot != Slot::NONE {
            self.lower(slot);
            let completed = self.device.blocks.free_completed[block as usize];
            if self.delays.waits() == Waits::Never {
                self.slots[block as usize] = Slot::NONE;
                self.allocator.free(slot);
            // Most frees complete immediately.
            } else if completed != event + 1 {
                self.allocator.wait(slot, block);
                let free = Free {
                    block,
                    stream: self.device.blocks.kind(BlockIdx(block)).stream,
                    given_back: event,
                    completed: completed.min(self.device.events.len()),
                };
                self.delays
                    .begin(free, || step_with_end(self.device, event));
            }
        }
        None
    }

    /// Whether a block waited for another stream, and was given back after the recording began.
    fn waited(&self, block: u32) -> bool {
        let blocks = &self.device.blocks;
        let requested = blocks.free_requested[block as usize];
        let waits = blocks.free_completed[block as usize] > requested.saturating_add(1);
        waits && !self.pending_before(block)
    }

    /// The other streams are done with a block, in another run than the recorded one.
    fn end_wait(&mut self, block: u32) {
        let slot = std::mem::replace(&mut self.slots[block as usize], Slot::NONE);
        if slot != Slot::NONE {
            self.allocator.complete(slot, block);
        }
    }

    fn complete(&mut self, event: u32, block: u32) -> Option<Reach> {
        if self.delays.are_drawn() && self.waited(block) {
            return None;
        }
        let slot = std::mem::replace(&mut self.slots[block as usize], Slot::NONE);
        if slot == Slot::NONE {
            return None;
        }
        let requested = self.device.blocks.free_requested[block as usize];
        if requested == event && event > 0 {
            self.lower(slot);
            self.allocator.free(slot);
        } else if requested + 1 == event && !self.pending_before(block) {
            self.allocator.free(slot);
        } else {
            self.allocator.complete(slot, block);
        }
        None
    }

    fn complete_awaited(&mut self, event: u32) {
        while let Some(block) = self.awaited.pop() {
            self.complete(event, block);
        }
    }

    /// The recorded program ran out of memory here: checks whether this one does too.
    fn recorded_oom(&mut self, event: u32, row: u32) -> Option<Reach> {
        let is_passed_over = self.passed_over.binary_search(&EventIdx(event)).is_ok();
        if is_passed_over && self.is_served {
            return None;
        }
        let pool = self.device.events.failed_in(row);
        let row = self.device.events.others.get(row as usize)?;
        let size = self
            .batch
            .map_or(row.size, |(batch, share)| batch.failed(share, row.size));
        let found = self.allocator.malloc(pool, row.stream, size);
        // The program went on without it. What it asked for instead follows, so what it gets here
        // is given back.
        if is_passed_over {
            if let Ok(slot) = found {
                self.is_served = true;
                self.allocated += self.allocator.arena().size(slot);
                self.measure();
                self.allocated -= self.allocator.arena().size(slot);
                self.allocator.free(slot);
            }
            return None;
        }
        match found {
            Ok(slot) => {
                self.allocated += self.allocator.arena().size(slot);
                self.measure();
                Some(Reach::Recorded(EventIdx(event)))
            }
            Err(why) => {
                self.fail(event, Some(why));
                if self.batch.is_none()
                    && let Some(failed) = &mut self.outcome.failed
                    && failed.event == EventIdx(event)
                    && let Ok(known) = self.least.binary_search_by_key(&failed.event, |one| one.0)
                {
                    // In a copy, because the program did not ask for it.
                    let mut allocator = self.allocator.clone();
                    let served = allocator.malloc(pool, row.stream, self.least[known].1);
                    failed.may_be_less = served.is_ok();
                }
                None
            }
        }
    }

    /// Whether what was requested at an event is given back at the next one.
    fn at_once(&self, event: EventIdx) -> bool {
        let events = &self.device.events;
        let row = |at: usize| Some((*events.action.get(at)?, *events.target.get(at)?));
        let Some((Action::Alloc, block)) = row(event.index()) else {
            return false;
        };
        row(event.index() + 1) == Some((Action::FreeRequested, block))
    }

    /// `why` is `None` if no request fails, but what was there before already exceeds the limit.
    fn fail(&mut self, event: u32, why: Option<OutOfMemory>) {
        let event = EventIdx(event);
        let failed = Failed {
            event,
            step: step_at(self.device, event),
            segment: why.map(|why| why.segment),
            allocated: Bytes(self.allocated),
            reserved: self.allocator.reserved(),
            retries: self.allocator.retries(),
            at_once: self.at_once(event),
            may_be_less: false,
        };
        self.outcome.failed.get_or_insert(failed);
    }
}

/// The step that an event lies in, as in [`step_at`], and the event at which it ends: the last one,
/// after the last step.
fn step_with_end(device: &DeviceTrace, event: u32) -> (u32, u32) {
    let step = step_at(device, EventIdx(event));
    let end = device.steps.get(step as usize);
    let end = end.map_or(device.events.len(), |step| step.events.end().0);
    (step, end)
}
