//! What the recorded allocator did by itself, and what that shows about its limit.
//!
//! Segments are given back in bursts, for one of three reasons. The program empties the cache. Or a
//! request fails, everything cached is given back, and the request is tried again. Or, with
//! `garbage_collection_threshold`, old segments are given back before a request asks for a new one.
//! The last two end in a new segment or in a failed allocation, and have the stack of the request.
//! Only the first is done by the program.
//!
//! A failed allocation also tells what the driver had free. If that was less than the segment, or
//! hardly more, the device was full, and the process could have reserved nearly that much more.

use crate::allocator::caching::{Limit, Refuser};
use crate::allocator::{Config, MIN_BLOCK};
use crate::oom::NEVER_GIVEN;
use crate::span::Span;
use crate::stacks::{FxHashMap, StackIdx};
use crate::trace::{Action, BlockIdx, BlockKind, DeviceTrace, NO_TARGET, PoolSize, Series};
use crate::units::{Bytes, DeviceAddr, EventIdx};
use crate::watch::{Stopped, Watch};

/// The limit of a recording, as far as it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSeen {
    /// This much was reserved; or it was reserved and free together when the device was full.
    pub at_least: Bytes,
    /// This much would have been too much.
    pub below: Bytes,
    /// Who refused.
    pub by: Refuser,
}

impl LimitSeen {
    /// The limit that is taken, with who refuses.
    pub fn limit(self) -> Limit {
        Limit {
            bytes: self.taken(),
            by: self.by,
        }
    }

    /// The smallest limit that fits what was seen, with who refuses.
    pub fn smallest(self) -> Limit {
        Limit {
            bytes: self.at_least,
            by: self.by,
        }
    }

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
    /// Those of them that may as well have been a request: nothing tells them apart.
    pub doubtful: Vec<EventIdx>,
    /// Events at which frees complete, because a request waits for all streams before it is tried
    /// again.
    pub awaited: Vec<Span<EventIdx>>,
    /// The limit, if something was refused or collected.
    pub limit: Option<LimitSeen>,
    /// The fewest bytes that a failed request may have asked for, where that is less than a block
    /// of the recorded size: that size is rounded up, by `roundup_power2_divisions` too.
    pub least: Vec<(EventIdx, Bytes)>,
}

/// Segments given back one after the other.
struct Burst {
    first: u32,
    /// The first event of the burst, including the frees that complete directly before it.
    from: u32,
    /// The stack, if all of them have the same; otherwise `None`.
    stack: Option<StackIdx>,
    /// Whether one of them was made with another stack than it was given back with. So the stack is
    /// that of whoever gave it back.
    is_own: bool,
    reserved_before: u64,
    /// Whether pages of expandable segments were among them.
    unmapped: bool,
    /// Stream and bytes of each.
    given_back: Vec<(u64, u64)>,
}

impl Burst {
    /// Whether something that went back would have served such a request. Then the request did not
    /// make it go back: it had asked for nothing new. A segment of the small pool has one size.
    fn would_serve(&self, request: &Request, own: &Config) -> bool {
        let pool = own.pool_size(request.rounded);
        let mut given_back = self.given_back.iter();
        given_back.any(|&(stream, size)| {
            let is_small = size <= own.page(PoolSize::Small);
            stream == request.stream
                && is_small == (pool == PoolSize::Small)
                && size >= request.rounded
                && !own.rejects(request.rounded, size)
        })
    }
}

/// The request behind a new segment.
#[derive(Clone, Copy)]
struct Request {
    rounded: u64,
    stream: u64,
}

/// What a request that nothing fits asks for.
#[derive(Clone, Copy, Default)]
struct Asked {
    /// What a memory fraction is checked with.
    segment: u64,
    /// What the driver must have.
    driver: u64,
    /// What it is asked for at once: a page, or the whole segment.
    at_once: u64,
}

impl Asked {
    /// How much more the process could have reserved on a device that was full with so much free,
    /// at least and at most. Where the driver had room for a page, but for nothing besides, it may
    /// have refused that page, or the next one.
    fn room(&self, free: u64) -> [u64; 2] {
        let most = free.min(self.driver.saturating_sub(1));
        let beside = free.checked_rem(self.at_once).unwrap_or(0);
        let least = match free >= self.at_once && beside < NEVER_GIVEN.0 {
            true => (free - beside).saturating_sub(1),
            false => most,
        };
        [least.min(most), most]
    }
}

/// The most that was granted, and the least that was refused.
#[derive(Clone, Copy)]
struct Bounds {
    granted: u64,
    below: u64,
}

impl Bounds {
    fn refuse(&mut self, too_much: u64) {
        // A limit below what was granted at another time is impossible.
        if too_much > self.granted {
            self.below = self.below.min(too_much);
        }
    }
}

/// The event directly after a burst.
enum Next {
    /// A new segment, with its stack and the request that it is for, if that is known.
    Segment(StackIdx, Option<Request>),
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
    /// As PyTorch checks a memory fraction: reserved memory plus the requested segment.
    process: Bounds,
    /// As the driver sees it: reserved memory. Expandable segments may map more, or less, than the
    /// requested segment.
    device_side: Bounds,
    /// Whether a memory fraction refused a request while the driver had enough.
    has_fraction: bool,
    /// Whether anything happened but that memory went back.
    has_begun: bool,
    /// The least reserved memory and segment together that a failed allocation shows to be too
    /// much; `None` if none failed.
    failed: Option<u64>,
    /// Whether what the program gives back has a stack, and its own.
    stacks_tell: bool,
    /// The stack of each segment that was made, while it lives: kept only where what is given back
    /// carries the stack that it was made with.
    made_by: Option<FxHashMap<DeviceAddr, StackIdx>>,
    burst: Option<Burst>,
    /// The first of an unbroken run of completing frees, up to now.
    completing: Option<u32>,
    /// What was there for the process when the device was full, at least and at most: the least of
    /// these.
    room: Option<[u64; 2]>,
    emptied: Vec<EventIdx>,
    doubtful: Vec<EventIdx>,
    awaited: Vec<Span<EventIdx>>,
    least: Vec<(EventIdx, Bytes)>,
}

impl Evidence {
    /// The same, if what may have been a request was one. `None` if nothing is doubtful.
    pub fn otherwise(&self) -> Option<Evidence> {
        let is_certain = |event: &&EventIdx| self.doubtful.binary_search(event).is_err();
        (!self.doubtful.is_empty()).then(|| Evidence {
            emptied: self.emptied.iter().filter(is_certain).copied().collect(),
            doubtful: Vec::new(),
            ..self.clone()
        })
    }

    /// Reads a recording that was made under the settings `own`.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn of(device: &DeviceTrace, own: &Config, watch: Watch<'_>) -> Result<Evidence, Stopped> {
        let summary = device.summary[Series::Reserved as usize];
        let carries = device.frees_carry_stacks_of_allocs();
        let mut reader = Reader {
            device,
            own,
            process: Bounds {
                granted: 0,
                below: u64::MAX,
            },
            device_side: Bounds {
                granted: summary.start.0,
                below: u64::MAX,
            },
            has_fraction: false,
            has_begun: false,
            failed: None,
            stacks_tell: !carries && has_stacks(device),
            made_by: carries.then(FxHashMap::default),
            burst: None,
            completing: None,
            room: None,
            emptied: Vec::new(),
            doubtful: Vec::new(),
            awaited: Vec::new(),
            least: Vec::new(),
        };
        reader.grant(summary.start.0);
        let mut reserved = summary.start.0;
        for event in 0..device.events.len() {
            watch.at_row(event as usize, || 0)?;
            reader.event(event, &mut reserved);
        }
        reader.end_burst(device.events.len(), Next::Other, Asked::default());
        Ok(Evidence {
            limit: reader.limit(),
            emptied: reader.emptied,
            doubtful: reader.doubtful,
            awaited: reader.awaited,
            least: reader.least,
        })
    }
}

impl Reader<'_> {
    fn limit(&self) -> Option<LimitSeen> {
        let (by, bounds) = match self.room.is_some() && !self.has_fraction {
            true => (Refuser::Device, self.device_side),
            false => (Refuser::Process, self.process),
        };
        let Bounds { granted, below } = bounds;
        if below == u64::MAX {
            return None;
        }
        let room = self.room.map(|room| room.map(|bytes| bytes.max(granted)));
        let below = room.map_or(below, |[_, most]| below.min(most.saturating_add(1)));
        Some(LimitSeen {
            at_least: Bytes(room.map_or(granted, |[least, _]| least.min(below - 1))),
            below: Bytes(below),
            by,
        })
    }

    /// Finds the most that was granted.
    fn grant(&mut self, start: u64) {
        let events = &self.device.events;
        let mut reserved = start;
        let (mut granted, mut most) = (0, start);
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
                        let asked = self.asked_at(event as u32);
                        let asked = asked.map_or_else(size, |asked| asked.segment);
                        granted = granted.max(reserved.saturating_add(asked));
                    }
                    reserved += size();
                    most = most.max(reserved);
                }
                Action::SegmentFree | Action::SegmentUnmap => {
                    reserved = reserved.saturating_sub(size());
                }
                Action::Oom => {
                    let failed = events.others.get(target as usize);
                    let asked = failed.map(|failed| self.asked(failed.size).segment);
                    let too_much = asked.map(|segment| reserved.saturating_add(segment));
                    self.failed = self.failed.into_iter().chain(too_much).min();
                }
                _ => {}
            }
            mapping = *action == Action::SegmentMap;
        }
        self.process.granted = granted;
        self.device_side.granted = most;
    }

    fn event(&mut self, event: u32, reserved: &mut u64) {
        let events = &self.device.events;
        let target = events.target[event as usize] as usize;
        let action = events.action[event as usize];
        if target == NO_TARGET as usize {
            self.end_burst(event, Next::Other, Asked::default());
            self.has_begun |= !gives_back(action);
            return;
        }
        let completing = self.completing.take();
        match action {
            Action::SegmentFree | Action::SegmentUnmap => {
                let segment = events.segments[target];
                let made_by = self.made_by.as_mut();
                let made_by = made_by.and_then(|made| made.remove(&segment.addr));
                let burst = self.burst.get_or_insert(Burst {
                    first: event,
                    from: completing.unwrap_or(event),
                    stack: Some(segment.stack),
                    is_own: false,
                    reserved_before: *reserved,
                    unmapped: false,
                    given_back: Vec::new(),
                });
                burst.given_back.push((segment.stream, segment.size.0));
                burst.unmapped |= action == Action::SegmentUnmap;
                burst.is_own |= made_by.is_some_and(|stack| stack != segment.stack);
                burst.stack = burst.stack.filter(|stack| *stack == segment.stack);
                *reserved = reserved.saturating_sub(segment.size.0);
            }
            Action::SegmentAlloc | Action::SegmentMap => {
                let segment = events.segments[target];
                // Pages are joined, and then carry the stack of one of them.
                let is_whole = action == Action::SegmentAlloc;
                if let Some(made_by) = self.made_by.as_mut().filter(|_| is_whole) {
                    made_by.insert(segment.addr, segment.stack);
                }
                let behind = self.behind(event);
                let asked = behind.map(|kind| self.asked(kind.requested));
                let asked = asked.unwrap_or(Asked {
                    segment: segment.size.0,
                    driver: segment.size.0,
                    at_once: segment.size.0,
                });
                let request = behind.map(|kind| Request {
                    rounded: self.own.round_size(kind.requested.0),
                    stream: kind.stream,
                });
                self.end_burst(event, Next::Segment(segment.stack, request), asked);
                *reserved += segment.size.0;
            }
            Action::Oom => self.oom(event, target, *reserved, completing),
            Action::Alloc => {
                let kind = self.device.blocks.kind(BlockIdx(target as u32));
                let asked = self.asked(kind.requested);
                self.end_burst(event, Next::Block(kind.alloc_stack), asked);
            }
            // Emptying the cache first completes pending frees.
            Action::FreeCompleted if self.burst.is_some() => {}
            Action::FreeCompleted if self.was_pending(event, target) => {
                self.completing = completing.or(Some(event));
            }
            _ => self.end_burst(event, Next::Other, Asked::default()),
        }
        self.has_begun |= !gives_back(action);
    }

    fn oom(&mut self, event: u32, row: usize, reserved: u64, completing: Option<u32>) {
        let failed = self.device.events.others[row];
        let asked = self.asked(failed.size);
        let least = self.own.least_request(failed.size.0);
        if least.next_multiple_of(MIN_BLOCK) < failed.size.0 {
            self.least.push((EventIdx(event), Bytes(least)));
        }
        if let Some(from) = completing.filter(|_| self.burst.is_none()) {
            self.awaited
                .push(Span::new(EventIdx(from), EventIdx(event)));
        }
        self.end_burst(event, Next::Oom(failed.stack), asked);
        self.refuse(reserved, asked);
        // The driver tells its free memory after the cache was emptied, and the events before this
        // one show that. Where the segment, or the pages, would have fit, a limit of the process
        // refused it. Where it does not tell, nobody knows which of the two it was.
        match failed.free() {
            None => {}
            Some(Bytes(free)) if free < asked.driver.saturating_add(NEVER_GIVEN.0) => {
                let room = asked.room(free).map(|more| reserved.saturating_add(more));
                let before = self.room.unwrap_or(room);
                self.room = Some([room[0].min(before[0]), room[1].min(before[1])]);
            }
            Some(_) => self.has_fraction = true,
        }
    }

    /// Whether a block that becomes free was given back earlier than at the event directly before.
    fn was_pending(&self, event: u32, block: usize) -> bool {
        let requested = self.device.blocks.free_requested.get(block);
        requested.is_some_and(|requested| requested + 1 < event)
    }

    fn asked(&self, requested: Bytes) -> Asked {
        let rounded = self.own.round_size(requested.0);
        let driver = self.own.driver_needs(rounded);
        let page = || self.own.page(self.own.pool_size(rounded));
        Asked {
            segment: self.own.segment_size(rounded),
            driver,
            at_once: match self.own.expandable_segments {
                true => page(),
                false => driver,
            },
        }
    }

    /// What the request behind a segment event asked for.
    fn asked_at(&self, event: u32) -> Option<Asked> {
        self.behind(event).map(|kind| self.asked(kind.requested))
    }

    /// The block that a segment event was for.
    fn behind(&self, event: u32) -> Option<&BlockKind> {
        let events = &self.device.events;
        let rest = events
            .action
            .iter()
            .zip(&events.target)
            .skip(event as usize);
        let is_alloc = |(action, _): &(&Action, &u32)| **action == Action::Alloc;
        let (_, &block) = rest.take(SOON).find(is_alloc)?;
        Some(self.device.blocks.kind(BlockIdx(block)))
    }

    fn refuse(&mut self, reserved: u64, asked: Asked) {
        self.process.refuse(reserved.saturating_add(asked.segment));
        self.device_side
            .refuse(reserved.saturating_add(asked.driver));
    }

    /// Whether a request gave back what a burst gave back, and not the program.
    fn is_of_request(&self, burst: &Burst, next: Next, segment: u64) -> bool {
        let too_much = burst.reserved_before.saturating_add(segment) > self.process.granted;
        // A request gives everything back with its own stack.
        let Some(of_burst) = burst.stack else {
            return false;
        };
        // What carries the stack that it was made with does not show who gave it back.
        let tells = self.made_by.is_none() || burst.is_own;
        match next {
            // The program may have emptied the cache directly before.
            Next::Oom(stack) => {
                of_burst == StackIdx::NONE || stack == StackIdx::NONE || of_burst == stack
            }
            Next::Other => false,
            Next::Block(stack) => stack != StackIdx::NONE && of_burst == stack && tells,
            // Requests of a backward pass have no Python stack, but the program has. Only near the
            // limit it can have been a request that failed.
            Next::Segment(..) if of_burst == StackIdx::NONE && self.stacks_tell => {
                too_much || self.own.garbage_collection_threshold > 0.0
            }
            // No stack shows who did it. Where what went back would have served the request, it was
            // the program. Where a failed allocation shows a limit, that limit decides.
            Next::Segment(_, request) if of_burst == StackIdx::NONE => {
                let is_idle = request.is_some_and(|request| burst.would_serve(&request, self.own));
                let reserved = burst.reserved_before;
                let collects = self.own.garbage_collection_threshold;
                !is_idle
                    && self.failed.map_or(too_much, |limit| {
                        let is_old = collects > 0.0 && reserved as f64 > collects * limit as f64;
                        reserved.saturating_add(segment) >= limit || is_old
                    })
            }
            Next::Segment(stack, _) => of_burst == stack && tells,
        }
    }

    fn end_burst(&mut self, event: u32, next: Next, asked: Asked) {
        let Some(burst) = self.burst.take() else {
            return;
        };
        let segment = asked.segment;
        let too_much = burst.reserved_before.saturating_add(segment) > self.process.granted;
        let collects = self.own.garbage_collection_threshold;
        let is_idle = |request: &Request| burst.would_serve(request, self.own);
        let looks_the_same = match &next {
            Next::Segment(_, request) if request.as_ref().is_some_and(is_idle) => false,
            Next::Segment(stack, _) => burst.stack == Some(*stack) || burst.stack == NO_STACK,
            Next::Block(stack) => burst.stack == Some(*stack),
            Next::Oom(_) | Next::Other => false,
        };
        if !self.is_of_request(&burst, next, segment) {
            self.doubtful
                .extend(looks_the_same.then_some(EventIdx(burst.first)));
            return self.emptied.push(EventIdx(burst.first));
        }
        // If the recording begins inside of the burst, it does not tell how much was reserved
        // before it, so not what was refused. What is collected, a replay decides again.
        if !self.has_begun {
            let emptied = (collects == 0.0 || burst.unmapped).then_some(EventIdx(burst.first));
            return self.emptied.extend(emptied);
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
        self.process.refuse(bound);
        // On a full device nothing is collected.
        let bound = burst.reserved_before.saturating_add(asked.driver);
        self.device_side.refuse(bound);
    }
}

/// Whether memory only goes back with such an event.
fn gives_back(action: Action) -> bool {
    matches!(
        action,
        Action::SegmentFree | Action::SegmentUnmap | Action::FreeCompleted
    )
}

/// Whether stacks were recorded.
fn has_stacks(device: &DeviceTrace) -> bool {
    let is_known =
        |kind: &BlockKind| kind.alloc_stack != StackIdx::NONE || kind.free_stack != StackIdx::NONE;
    device.blocks.kinds.iter().any(is_known)
}

/// The stack where none was recorded.
const NO_STACK: Option<StackIdx> = Some(StackIdx::NONE);

/// The allocation that a segment is for comes within this many events.
const SOON: usize = 64;
