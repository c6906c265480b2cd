//! What the recorded allocator did by itself, and what that shows about its limit.
//!
//! Segments are given back in bursts, for one of three reasons. The program empties the cache. Or a
//! request fails, everything cached is given back, and the request is tried again. Or, with
//! `garbage_collection_threshold`, old segments are given back before a request asks for a new one.
//! The last two end in a new segment or in a failed allocation, and have the stack of the request.
//! Only the first is done by the program.
//!
//! A failed allocation also tells what the driver had free. If that was less than the segment, the
//! device was full, and the process could have reserved that much more.

use crate::allocator::Config;
use crate::span::Span;
use crate::stacks::StackIdx;
use crate::trace::{Action, BlockIdx, DeviceTrace, NO_TARGET, Series};
use crate::units::{Bytes, EventIdx};
use crate::watch::{Stopped, Watch};

/// The limit of a recording, as far as it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSeen {
    /// This much was reserved; or it was reserved and free together when the device was full.
    pub at_least: Bytes,
    /// This much would have been too much.
    pub below: Bytes,
}

impl LimitSeen {
    /// The largest limit that fits what was seen.
    pub fn taken(self) -> Bytes {
        self.below.saturating_sub(Bytes(1)).max(self.at_least)
    }
}

/// What a recording shows of its allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The first event of each time that the program emptied the cache.
    pub emptied: Vec<EventIdx>,
    /// Events at which frees complete, because a request waits for all streams before it is tried
    /// again.
    pub awaited: Vec<Span<EventIdx>>,
    /// The limit, if something was refused or collected.
    pub limit: Option<LimitSeen>,
}

/// Segments given back one after the other.
struct Burst {
    first: u32,
    /// The first event of the burst, including the frees that complete directly before it.
    from: u32,
    /// The stack, if all of them have the same; otherwise `None`.
    stack: Option<StackIdx>,
    reserved_before: u64,
    /// Whether pages of expandable segments were among them.
    unmapped: bool,
}

/// The event directly after a burst.
enum Next {
    /// A new segment, with its stack.
    Segment(StackIdx),
    /// A block without a new segment, with its stack. An expandable segment may still have had room
    /// for it after the burst.
    Block(StackIdx),
    /// A failed allocation, with its stack.
    Oom(StackIdx),
    Other,
}

struct Reader<'a> {
    device: &'a DeviceTrace,
    own: &'a Config,
    /// The most that was granted: reserved memory plus the requested segment. Expandable segments
    /// may map more than was requested.
    granted: u64,
    burst: Option<Burst>,
    /// The first of an unbroken run of completing frees, up to now.
    completing: Option<u32>,
    below: u64,
    /// What was there for the process when the device was full: the least of these.
    room: Option<u64>,
    emptied: Vec<EventIdx>,
    awaited: Vec<Span<EventIdx>>,
}

impl Evidence {
    /// Reads a recording that was made under the settings `own`.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn of(device: &DeviceTrace, own: &Config, watch: Watch<'_>) -> Result<Evidence, Stopped> {
        let summary = device.summary[Series::Reserved as usize];
        let mut reader = Reader {
            device,
            own,
            granted: 0,
            burst: None,
            completing: None,
            below: u64::MAX,
            room: None,
            emptied: Vec::new(),
            awaited: Vec::new(),
        };
        reader.granted = reader.most_granted(summary.start.0);
        let mut reserved = summary.start.0;
        for event in 0..device.events.len() {
            watch.at_row(event as usize, || 0)?;
            reader.event(event, &mut reserved);
        }
        reader.end_burst(device.events.len(), Next::Other, 0);
        Ok(Evidence {
            limit: reader.limit(),
            emptied: reader.emptied,
            awaited: reader.awaited,
        })
    }
}

impl Reader<'_> {
    fn limit(&self) -> Option<LimitSeen> {
        if self.below == u64::MAX {
            return None;
        }
        let room = self.room.map(|room| room.max(self.granted));
        let below = room.map_or(self.below, |room| self.below.min(room.saturating_add(1)));
        Some(LimitSeen {
            at_least: Bytes(room.map_or(self.granted, |room| room.min(below - 1))),
            below: Bytes(below),
        })
    }

    fn most_granted(&self, start: u64) -> u64 {
        let events = &self.device.events;
        let mut reserved = start;
        let mut granted = 0;
        let mut mapping = false;
        let rows = events.action.iter().zip(&events.target).enumerate();
        for (event, (action, &target)) in rows {
            let size = || {
                let segment = events.segments.get(target as usize);
                segment.map_or(0, |segment| segment.size.0)
            };
            match action {
                Action::SegmentAlloc | Action::SegmentMap => {
                    // If a request maps several ranges, only the first is checked against the
                    // limit.
                    if !mapping {
                        let asked = self.segment_asked(event as u32).unwrap_or_else(size);
                        granted = granted.max(reserved.saturating_add(asked));
                    }
                    reserved += size();
                }
                Action::SegmentFree | Action::SegmentUnmap => {
                    reserved = reserved.saturating_sub(size());
                }
                _ => {}
            }
            mapping = *action == Action::SegmentMap;
        }
        granted
    }

    fn event(&mut self, event: u32, reserved: &mut u64) {
        let events = &self.device.events;
        let target = events.target[event as usize] as usize;
        let action = events.action[event as usize];
        if target == NO_TARGET as usize {
            return self.end_burst(event, Next::Other, 0);
        }
        let completing = self.completing.take();
        match action {
            Action::SegmentFree | Action::SegmentUnmap => {
                let segment = events.segments[target];
                let burst = self.burst.get_or_insert(Burst {
                    first: event,
                    from: completing.unwrap_or(event),
                    stack: Some(segment.stack),
                    reserved_before: *reserved,
                    unmapped: false,
                });
                burst.unmapped |= action == Action::SegmentUnmap;
                burst.stack = burst.stack.filter(|stack| *stack == segment.stack);
                *reserved = reserved.saturating_sub(segment.size.0);
            }
            Action::SegmentAlloc | Action::SegmentMap => {
                let segment = events.segments[target];
                let size = self.segment_asked(event).unwrap_or(segment.size.0);
                self.end_burst(event, Next::Segment(segment.stack), size);
                *reserved += segment.size.0;
            }
            Action::Oom => {
                let failed = events.others[target];
                let asked = failed.size.0;
                let size = self.own.segment_size(self.own.round_size(asked));
                if let Some(from) = completing.filter(|_| self.burst.is_none()) {
                    self.awaited
                        .push(Span::new(EventIdx(from), EventIdx(event)));
                }
                self.end_burst(event, Next::Oom(failed.stack), size);
                self.refuse(*reserved, size);
                // The driver tells its free memory after the cache was emptied, and the events
                // before this one show that. Where a segment would have fit, a limit of the process
                // refused it.
                let free = failed.addr_or_free;
                if free < size {
                    let room = reserved.saturating_add(free);
                    self.room = Some(self.room.map_or(room, |least| least.min(room)));
                }
            }
            Action::Alloc => {
                let kind = self.device.blocks.kind(BlockIdx(target as u32));
                let size = self.own.segment_size(self.own.round_size(kind.requested.0));
                self.end_burst(event, Next::Block(kind.alloc_stack), size);
            }
            // Emptying the cache first completes pending frees.
            Action::FreeCompleted if self.burst.is_some() => {}
            Action::FreeCompleted if self.was_pending(event, target) => {
                self.completing = completing.or(Some(event));
            }
            _ => self.end_burst(event, Next::Other, 0),
        }
    }

    /// Whether a block that becomes free was given back earlier than at the event directly before.
    fn was_pending(&self, event: u32, block: usize) -> bool {
        let requested = self.device.blocks.free_requested.get(block);
        requested.is_some_and(|requested| requested + 1 < event)
    }

    /// The size of segment with which the limit is checked, for the request behind a segment event.
    fn segment_asked(&self, event: u32) -> Option<u64> {
        let events = &self.device.events;
        let rest = events
            .action
            .iter()
            .zip(&events.target)
            .skip(event as usize);
        let is_alloc = |(action, _): &(&Action, &u32)| **action == Action::Alloc;
        let (_, &block) = rest.take(SOON).find(is_alloc)?;
        let requested = self.device.blocks.kind(BlockIdx(block)).requested.0;
        Some(self.own.segment_size(self.own.round_size(requested)))
    }

    fn refuse(&mut self, reserved: u64, segment: u64) {
        let too_much = reserved.saturating_add(segment);
        // A limit below what was reserved at another time is impossible.
        if too_much > self.granted {
            self.below = self.below.min(too_much);
        }
    }

    fn end_burst(&mut self, event: u32, next: Next, segment: u64) {
        let Some(burst) = self.burst.take() else {
            return;
        };
        let too_much = burst.reserved_before.saturating_add(segment) > self.granted;
        let collects = self.own.garbage_collection_threshold;
        let of_request = match next {
            // The program may have emptied the cache directly before.
            Next::Oom(stack) => match burst.stack {
                Some(of_burst) if of_burst != StackIdx::NONE && stack != StackIdx::NONE => {
                    of_burst == stack
                }
                _ => true,
            },
            Next::Other => false,
            Next::Block(stack) => stack != StackIdx::NONE && burst.stack == Some(stack),
            Next::Segment(stack) => match burst.stack {
                Some(of_burst) if of_burst != StackIdx::NONE => of_burst == stack,
                // No stack shows who did it. Only near the limit it can have been a request that
                // failed.
                _ => too_much || collects > 0.0,
            },
        };
        if !of_request {
            return self.emptied.push(EventIdx(burst.first));
        }
        // With collection, frees may have completed just before for another reason.
        if collects == 0.0 {
            let awaited = Span::new(EventIdx(burst.from), EventIdx(event));
            self.awaited.push(awaited);
        }
        let mut bound = burst.reserved_before.saturating_add(segment);
        // Expandable segments are not collected. For other segments it was either a failed request
        // or collection. If the request stayed below what was reserved at another time, it must
        // have been collection.
        if collects > 0.0 && !burst.unmapped {
            let threshold = (burst.reserved_before as f64 / collects).ceil() as u64;
            bound = if too_much {
                bound.max(threshold)
            } else {
                threshold
            };
        }
        if bound > self.granted {
            self.below = self.below.min(bound);
        }
    }
}

/// The allocation that a segment is for comes within this many events.
const SOON: usize = 64;
