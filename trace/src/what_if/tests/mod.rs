//! Random programs run through the allocator and are recorded. A replay under the settings of the
//! run must give what happened. A replay under other settings must give what happens when the
//! program runs under those.

use super::*;
use crate::allocator::caching::Caching;
use crate::allocator::conf;
use crate::allocator::{PoolKey, Slot, Ties};
use crate::levels::GivenBack;
use crate::reader::keys::Key;
use crate::snapshot::{BlockState, EventKind, KeysSeen, RawBlock, RawEvents, RawSegment, Snapshot};
use crate::stacks::{Frame, StackIdx};
use crate::trace::{BlockIdx, PoolId, PoolSize};
use crate::units::{DeviceAddr, Micros};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const MIB: u64 = 1 << 20;

/// What a program does.
#[derive(Clone, Debug)]
enum Op {
    Alloc(u64, u64),
    Free(prop::sample::Index),
    FreeNewest,
    Request(prop::sample::Index),
    Complete(prop::sample::Index),
    Empty,
}

/// Who caused a segment event.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Request,
    Program,
}

/// A block that the program holds, or that waits for a stream.
#[derive(Clone, Copy)]
struct Held {
    slot: Slot,
    addr: u64,
    requested: u64,
    stream: u64,
    name: u32,
    waits: bool,
}

/// A running program, and what a recorder would write.
struct Process {
    allocator: Caching,
    held: Vec<Held>,
    log: Vec<(Action, u64, u64, u64, By)>,
    allocated: u64,
    peak_allocated: u64,
    peak_reserved: u64,
    names: u32,
    /// Segments, or pages of expandable ones, by address.
    segments: BTreeMap<u64, (u64, PoolKey, bool)>,
    /// How many allocations were requested before the first that failed.
    failed: Option<usize>,
    asked: usize,
    /// The card, if it is as small as the limit; otherwise it has plenty.
    card: Option<Bytes>,
}

impl Process {
    fn run(ops: &[Op], settings: &Config, limit: Option<Bytes>) -> Process {
        Process::run_on(None, ops, settings, limit)
    }

    fn run_on(card: Option<Bytes>, ops: &[Op], settings: &Config, limit: Option<Bytes>) -> Process {
        let mut allocator = Caching::new(settings.clone(), VecDeque::new());
        let by = match card {
            Some(_) => Refuser::Device,
            None => Refuser::Process,
        };
        allocator.set_limit(limit.map(|bytes| Limit { bytes, by }));
        let mut process = Process {
            allocator,
            held: Vec::new(),
            log: Vec::new(),
            allocated: 0,
            peak_allocated: 0,
            peak_reserved: 0,
            names: 0,
            segments: BTreeMap::new(),
            failed: None,
            asked: 0,
            card,
        };
        for op in ops {
            process.step(op);
            if process.failed.is_some() {
                break;
            }
        }
        process
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Alloc(size, stream) => self.alloc(*size, *stream),
            Op::Free(index) => {
                if let Some(at) = self.nth(*index, false) {
                    self.request(at);
                    self.complete(at);
                }
            }
            Op::FreeNewest => {
                if let Some(at) = self.held.len().checked_sub(1) {
                    self.request(at);
                    self.complete(at);
                }
            }
            Op::Request(index) => {
                if let Some(at) = self.nth(*index, false) {
                    self.request_and_wait(at);
                }
            }
            Op::Complete(index) => {
                if let Some(at) = self.nth(*index, true) {
                    self.complete(at);
                }
            }
            Op::Empty => {
                for at in (0..self.held.len()).rev() {
                    if self.held[at].waits {
                        self.complete(at);
                    }
                }
                self.allocator.empty_cache();
                self.note(By::Program);
            }
        }
    }

    fn nth(&self, index: prop::sample::Index, waits: bool) -> Option<usize> {
        let those: Vec<usize> = (0..self.held.len())
            .filter(|&at| self.held[at].waits == waits)
            .collect();
        (!those.is_empty()).then(|| *index.get(&those))
    }

    fn alloc(&mut self, requested: u64, stream: u64) {
        self.asked += 1;
        let retries = self.allocator.retries();
        let given = self
            .allocator
            .malloc(PoolId::default(), stream, Bytes(requested));
        if self.allocator.retries() > retries {
            // The allocator has waited for all streams.
            for at in (0..self.held.len()).rev() {
                if self.held[at].waits {
                    self.completed(at);
                }
            }
        }
        self.note(By::Request);
        match given {
            Ok(slot) => {
                let addr = self.allocator.arena().addr(slot);
                self.log
                    .push((Action::Alloc, addr, requested, stream, By::Request));
                self.allocated += self.allocator.arena().size(slot);
                self.names += 1;
                self.held.push(Held {
                    slot,
                    addr,
                    requested,
                    stream,
                    name: self.names,
                    waits: false,
                });
                self.peak_allocated = self.peak_allocated.max(self.allocated);
                self.peak_reserved = self.peak_reserved.max(self.allocator.reserved().0);
            }
            Err(_) => {
                let size = self.allocator.arena().config().round_size(requested);
                let reserved = self.allocator.reserved();
                let free = self.card.map(|card| card.saturating_sub(reserved).0);
                let free = free.unwrap_or(1 << 40);
                self.log
                    .push((Action::Oom, free, size, stream, By::Request));
                self.failed = Some(self.asked);
            }
        }
    }

    fn request(&mut self, at: usize) {
        let held = &mut self.held[at];
        held.waits = true;
        self.allocated -= self.allocator.arena().size(held.slot);
        let row = (
            Action::FreeRequested,
            held.addr,
            held.requested,
            held.stream,
            By::Program,
        );
        self.log.push(row);
    }

    fn request_and_wait(&mut self, at: usize) {
        self.request(at);
        let Held { slot, name, .. } = self.held[at];
        self.allocator.wait(slot, name);
        // A free that completes with the very next event would look like one that did not wait.
        self.log.push((Action::Snapshot, 0, 0, 0, By::Program));
    }

    fn complete(&mut self, at: usize) {
        let Held { slot, name, .. } = self.held[at];
        self.allocator.wait(slot, name);
        self.allocator.complete(slot, name);
        self.completed(at);
    }

    fn completed(&mut self, at: usize) {
        let held = self.held.remove(at);
        self.log.push((
            Action::FreeCompleted,
            held.addr,
            held.requested,
            held.stream,
            By::Program,
        ));
    }

    fn note(&mut self, by: By) {
        for (action, key, addr, size) in std::mem::take(&mut self.allocator.noted) {
            self.log.push((action, addr, size, key.stream, by));
            let page = self.allocator.arena().config().page(key.size);
            let pages = || (addr..addr + size).step_by(page as usize);
            let segments = &mut self.segments;
            match action {
                Action::SegmentAlloc => _ = segments.insert(addr, (size, key, false)),
                Action::SegmentMap => segments.extend(pages().map(|at| (at, (page, key, true)))),
                Action::SegmentFree => _ = segments.remove(&addr),
                _ => pages().for_each(|at| _ = segments.remove(&at)),
            }
        }
    }

    /// The segments as a snapshot lists them: mapped pages that lie side by side are one.
    fn final_segments(&self, snapshot: &mut Snapshot) {
        let mut joined: Vec<(u64, u64, PoolKey, bool)> = Vec::new();
        for (&addr, &(size, key, expandable)) in &self.segments {
            match joined.last_mut() {
                Some(last) if expandable && last.0 + last.1 == addr && last.2 == key => {
                    last.1 += size;
                }
                _ => joined.push((addr, size, key, expandable)),
            }
        }
        let mut held = self.held.clone();
        held.sort_by_key(|held| held.addr);
        for (addr, size, key, is_expandable) in joined {
            let first = snapshot.blocks.len();
            let inside = held
                .iter()
                .filter(|held| (addr..addr + size).contains(&held.addr));
            snapshot.blocks.extend(inside.map(|held| RawBlock {
                addr: DeviceAddr(held.addr),
                size: Bytes(self.allocator.arena().size(held.slot)),
                requested: Bytes(held.requested),
                requested_known: true,
                state: match held.waits {
                    true => BlockState::PendingFree,
                    false => BlockState::ActiveAllocated,
                },
                stack: StackIdx::NONE,
                metadata: None,
            }));
            snapshot.segments.push(RawSegment {
                device: 0,
                addr: DeviceAddr(addr),
                total_size: Bytes(size),
                allocated_size: Bytes::ZERO,
                stream: key.stream,
                pool_size: key.size,
                pool: key.pool,
                is_expandable,
                blocks: first..snapshot.blocks.len(),
            });
        }
    }

    /// The recording; `None` if nothing happened.
    fn trace(&self) -> Option<DeviceTrace> {
        self.trace_since(0)
    }

    /// A recording that begins after some of what happened.
    fn trace_since(&self, first: usize) -> Option<DeviceTrace> {
        let mut snapshot = Snapshot::default();
        let frame = Frame {
            name: snapshot.stacks.strings.push("f"),
            filename: snapshot.stacks.strings.push("f.py"),
            line: 1,
        };
        let frame = snapshot.stacks.push_frame(frame);
        let stacks = [&[frame][..], &[frame, frame][..]].map(|s| snapshot.stacks.push_stack(s));
        let mut events = RawEvents::default();
        for (index, &(action, addr, size, stream, by)) in self.log.iter().skip(first).enumerate() {
            events.kind.push(index as u32);
            events.addr.push(addr);
            events.time.push(Micros(index as i64));
            snapshot.kinds.push(EventKind {
                action,
                size: Bytes(size),
                stream,
                stack: stacks[usize::from(by == By::Program)],
                forward_stack: StackIdx::NONE,
                pool: None,
                compile_context: None,
                metadata: None,
            });
        }
        snapshot.devices.push(events);
        self.final_segments(&mut snapshot);
        let config = self.allocator.arena().config();
        snapshot.settings = settings_of(config);
        snapshot.keys_seen = keys_of(config.ties);
        crate::replay::run(snapshot).devices.into_iter().next()
    }
}

/// The settings in the form of a snapshot.
fn settings_of(config: &Config) -> Vec<(String, String)> {
    let mut settings = vec![
        (
            "expandable_segments".to_owned(),
            config.expandable_segments.to_string(),
        ),
        (
            "garbage_collection_threshold".to_owned(),
            config.garbage_collection_threshold.to_string(),
        ),
    ];
    if let Some(max) = config.max_split_size {
        settings.push(("max_split_size".to_owned(), max.to_string()));
    }
    for (at, divisions) in config.roundup_power2_divisions.iter().enumerate() {
        let name = format!("roundup_power2_divisions.{}", 1 << at);
        settings.push((name, divisions.to_string()));
    }
    settings
}

/// Keys of a file by which its version of torch is told.
fn keys_of(ties: Ties) -> KeysSeen {
    let newest = match ties {
        Ties::Address => Key::UserMetadata,
        Ties::BlockAge => Key::PoolId,
        Ties::SegmentAge => Key::MaxCachedSize,
    };
    let keys = KeysSeen(Key::Action.bit() | newest.bit());
    assert_eq!(Ties::of_torch(keys.torch_guess().as_deref()), ties);
    keys
}

fn settings() -> impl Strategy<Value = Config> {
    let ties = prop_oneof![
        Just(Ties::Address),
        Just(Ties::BlockAge),
        Just(Ties::SegmentAge)
    ];
    let split = prop::option::of((20..200_u64).prop_map(|mib| mib * MIB));
    let divisions = prop_oneof![Just(0_u64), Just(4), Just(8)];
    let collect = prop_oneof![Just(0.0), Just(0.5), Just(0.8)];
    (split, divisions, collect, any::<bool>(), ties).prop_map(
        |(max_split_size, divisions, garbage_collection_threshold, expandable_segments, ties)| {
            Config {
                ties,
                max_split_size,
                roundup_power2_divisions: [divisions; 16],
                garbage_collection_threshold,
                expandable_segments,
                ..Config::default()
            }
        },
    )
}

fn limit() -> impl Strategy<Value = Option<Bytes>> {
    prop::option::of((150..700_u64).prop_map(|mib| Bytes(mib * MIB)))
}

fn ops(streams: u64, waits: bool) -> impl Strategy<Value = Vec<Op>> {
    let index = || any::<prop::sample::Index>();
    let stream = move || (0..streams).prop_map(|stream| stream * 7);
    let rare = u32::from(waits);
    let op = prop_oneof![
        5 => (1..180 * MIB, stream()).prop_map(|(n, s)| Op::Alloc(n, s)),
        4 => (1..12 * MIB, stream()).prop_map(|(n, s)| Op::Alloc(n, s)),
        4 => (1..2 * MIB, stream()).prop_map(|(n, s)| Op::Alloc(n, s)),
        12 => index().prop_map(Op::Free),
        2 * rare => index().prop_map(Op::Request),
        2 * rare => index().prop_map(Op::Complete),
        rare => Just(Op::Empty),
    ];
    prop::collection::vec(op, 1..160)
}

fn outcome(
    device: &DeviceTrace,
    evidence: &Evidence,
    settings: &Config,
    limit: Option<Limit>,
) -> Outcome {
    let conditions = Conditions {
        settings,
        limit,
        early: &Early::default(),
        batch: None,
        placement: Placement::Seen,
    };
    replay(device, evidence, &conditions, Watch::nobody()).unwrap()
}

fn peaks(process: &Process) -> (u64, u64) {
    (process.peak_allocated, process.peak_reserved)
}

proptest! {
    // One of the properties leaves out programs that run out of memory under the first settings.
    #![proptest_config(ProptestConfig {
        cases: 256,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    })]

    /// Without a limit, a recording replayed under its own settings gives itself: the levels that
    /// the replay measured, and what happened.
    #[test]
    fn under_its_own_settings_a_recording_gives_itself(ops in ops(2, true), own in settings()) {
        let process = Process::run(&ops, &own, None);
        let Some(device) = process.trace() else { return Ok(()) };
        let answer = ask(&device, &own, &Question::default(), Watch::nobody()).unwrap();
        prop_assert_eq!(answer.calibration.addresses.predicted, device.fidelity.allocs);
        prop_assert_eq!(answer.calibration.peak_reserved_error, 0.0);
        let what_if = answer.what_if;
        prop_assert_eq!(what_if.peak_allocated, answer.recorded.peak_allocated);
        prop_assert_eq!((what_if.peak_allocated.0, what_if.peak_reserved.0), peaks(&process));
        prop_assert_eq!((what_if.retries, what_if.failed), (0, None));
    }

    /// The curves reach the peaks, whatever the columns are; *allocated* is as recorded at each
    /// event.
    #[test]
    fn curves_hide_no_peak(ops in ops(2, true), own in settings(), columns in 1..40_u32) {
        let Some(device) = Process::run(&ops, &own, None).trace() else { return Ok(()) };
        let question = |columns| Question { columns, ..Question::default() };
        let ask = |columns| ask(&device, &own, &question(columns), Watch::nobody()).unwrap();
        let answer = ask(columns);
        let curves = answer.curves.unwrap();
        let peak = |levels: &[Bytes]| levels.iter().copied().max();
        let is = |curve: &Curve, allocated, reserved| {
            prop_assert_eq!(peak(&curve.allocated), Some(allocated));
            prop_assert_eq!(peak(&curve.reserved), Some(reserved));
            prop_assert!(curve.reserved.len() <= columns as usize);
            Ok(())
        };
        let (recorded, what_if) = (answer.recorded, answer.what_if);
        is(&curves.recorded, recorded.peak_allocated, recorded.peak_reserved)?;
        is(&curves.what_if, what_if.peak_allocated, what_if.peak_reserved)?;
        let every_event = ask(device.events.len()).curves.unwrap();
        prop_assert_eq!(every_event.recorded.events_per_column, 1);
        prop_assert_eq!(every_event.recorded.allocated, every_event.what_if.allocated);
    }

    /// Blocks that are never requested take nothing, and the others are served as in a program that
    /// never requested them.
    #[test]
    fn what_is_gone_was_never_asked_for(ops in ops(1, false), own in settings()) {
        let asked = ops.iter().filter(|op| matches!(op, Op::Alloc(..)));
        let asked: Vec<Op> = asked.cloned().collect();
        let is_gone = |size: u64| size.is_multiple_of(3);
        let rest: Vec<Op> = asked.iter()
            .filter(|op| matches!(op, Op::Alloc(size, _) if !is_gone(*size)))
            .cloned()
            .collect();
        let Some(device) = Process::run(&asked, &own, None).trace() else { return Ok(()) };
        let early = Early::default().without(&device, |kind| is_gone(kind.requested.0));
        prop_assert_eq!(early.n_gone(), asked.len() - rest.len());
        let question = Question { early, ..Question::default() };
        let answer = ask(&device, &own, &question, Watch::nobody()).unwrap();
        let alone = Process::run(&rest, &own, None);
        let what_if = answer.what_if;
        prop_assert_eq!((what_if.peak_allocated.0, what_if.peak_reserved.0), peaks(&alone));
    }

    /// The same with the limit of the recording, including retries and the failure. If nothing was
    /// collected, the limit that the recording shows is as good as the true one.
    #[test]
    fn under_its_own_limit_too(mut ops in ops(2, true), own in settings(), limit in limit()) {
        // Blocks whose frees complete may be given back before the allocator waits for anything,
        // and no event shows that.
        if own.garbage_collection_threshold > 0.0 || own.max_split_size.is_some() {
            ops.retain(|op| !matches!(op, Op::Request(_)));
        }
        let process = Process::run(&ops, &own, limit);
        let Some(device) = process.trace() else { return Ok(()) };
        let evidence = Evidence::of(&device, &own, Watch::nobody()).unwrap();
        let check = |outcome: Outcome| {
            prop_assert_eq!((outcome.peak_allocated.0, outcome.peak_reserved.0), peaks(&process));
            prop_assert_eq!(outcome.retries, process.allocator.retries());
            let failed = process.failed.map(|_| process.log.len() as u32 - 1);
            prop_assert_eq!(outcome.failed.map(|f| f.event.0), failed);
            Ok(())
        };
        check(outcome(&device, &evidence, &own, limit.map(Limit::of_process)))?;
        if let (Some(seen), Some(limit)) = (evidence.limit, limit) {
            prop_assert!(seen.at_least <= limit && limit < seen.below, "{seen:?} {limit:?}");
        }
        if own.garbage_collection_threshold == 0.0 {
            let seen = evidence.limit.map(LimitSeen::limit);
            check(outcome(&device, &evidence, &own, seen))?;
        }
    }

    /// A recording that begins later, even while memory goes back, shows no limit that is too low.
    #[test]
    fn wherever_it_begins_no_limit_is_too_low(
        ops in ops(2, false),
        own in settings(),
        limit in (150..700_u64).prop_map(|mib| Bytes(mib * MIB)),
        first in any::<prop::sample::Index>(),
    ) {
        let process = Process::run(&ops, &own, Some(limit));
        if process.log.is_empty() { return Ok(()) }
        let device = process.trace_since(first.index(process.log.len()));
        let Some(device) = device else { return Ok(()) };
        let evidence = Evidence::of(&device, &own, Watch::nobody()).unwrap();
        if let Some(seen) = evidence.limit {
            prop_assert!(seen.below > limit, "{seen:?} {limit:?}");
        }
    }

    /// A full card tells how much of it there was for the process.
    #[test]
    fn a_full_card_is_as_large_as_it_says(
        ops in ops(2, false),
        own in settings(),
        limit in (150..700_u64).prop_map(|mib| Bytes(mib * MIB)),
    ) {
        let process = Process::run_on(Some(limit), &ops, &own, Some(limit));
        let failed = process.failed.and(process.trace());
        let Some(device) = failed else { return Ok(()) };
        let evidence = Evidence::of(&device, &own, Watch::nobody()).unwrap();
        let seen = evidence.limit.unwrap();
        prop_assert_eq!((seen.at_least, seen.taken(), seen.by), (limit, limit, Refuser::Device));
        let failure = oom::failures(&device)[0];
        prop_assert_eq!(failure.limit_under(&own), None);
        // So the failure is found again, and what gets past it fits the card.
        let again = outcome(&device, &evidence, &own, Some(seen.limit()));
        prop_assert_eq!(again.failed.map(|failed| failed.event), Some(failure.event));
        let found = remedies(&device, &own, Tried::default(), Watch::nobody()).unwrap();
        for remedy in found.unwrap().remedies {
            prop_assert!(remedy.outcome.peak_reserved <= limit, "{remedy:?}");
            let text = remedy.change.to_string();
            let collects = own.garbage_collection_threshold > 0.0;
            prop_assert!(collects || !text.contains("garbage"), "{text}");
        }
    }

    /// What gets past a failure is told whole: set as it is told, it does.
    #[test]
    fn a_setting_that_is_told_was_computed(
        ops in ops(1, false),
        own in settings(),
        limit in (150..700_u64).prop_map(|mib| Bytes(mib * MIB)),
    ) {
        let process = Process::run(&ops, &own, Some(limit));
        let failed = process.failed.and(process.trace());
        let Some(device) = failed else { return Ok(()) };
        let found = remedies(&device, &own, Tried::default(), Watch::nobody()).unwrap();
        let evidence = Evidence::of(&device, &own, Watch::nobody()).unwrap();
        for remedy in found.iter().flat_map(|found| &found.remedies) {
            let Change::Settings(text) = &remedy.change else { continue };
            let told = Config { ties: own.ties, ..conf::parse(text, None).unwrap() };
            let limit = evidence.limit.map(LimitSeen::smallest);
            prop_assert_eq!(outcome(&device, &evidence, &told, limit), remedy.outcome);
            // It gets past with the largest limit, too.
            let limit = evidence.limit.map(LimitSeen::limit);
            let at_largest = outcome(&device, &evidence, &told, limit);
            prop_assert_eq!(at_largest.reach, remedy.outcome.reach);
            prop_assert_ne!(&told, &own);
        }
    }

    /// Nothing fits that does not: neither what was requested nor what was there before.
    #[test]
    fn what_fits_stays_below_the_limit(
        ops in ops(2, true),
        first in any::<prop::sample::Index>(),
        own in settings(),
        to in settings(),
        limit in (1..700_u64).prop_map(|mib| Bytes(mib * MIB)),
    ) {
        // PyTorch checks the limit with the size of a normal segment, then maps whole pages.
        let to = Config { expandable_segments: false, ties: own.ties, ..to };
        let process = Process::run(&ops, &own, None);
        let first = first.index(process.log.len() + 1);
        let Some(device) = process.trace_since(first) else { return Ok(()) };
        let evidence = Evidence::of(&device, &own, Watch::nobody()).unwrap();
        let outcome = outcome(&device, &evidence, &to, Some(Limit::of_process(limit)));
        match outcome.failed {
            None => prop_assert!(outcome.peak_reserved <= limit, "{outcome:?}"),
            Some(failed) => {
                let before = failed.segment.is_none();
                prop_assert_eq!(before, failed.reserved > limit, "{:?}", failed);
                prop_assert!(!before || failed.event == EventIdx(0), "{:?}", failed);
            }
        }
    }

    /// A recording may begin late, with gaps of equal size in what was there before. Nothing is
    /// handed out twice: lists are checked after each event.
    #[test]
    fn gaps_from_before_are_handed_out_once(
        before in prop::collection::vec(1..1024_u64, 8..60),
        given_back in prop::collection::vec(any::<prop::sample::Index>(), 4..30),
        ops in ops(1, false),
        own in settings(),
    ) {
        let before: Vec<Op> = before.into_iter().map(|size| Op::Alloc(size, 0)).collect();
        let mut process = Process::run(&before, &own, None);
        given_back.into_iter().for_each(|index| process.step(&Op::Free(index)));
        let first = process.log.len();
        ops.iter().for_each(|op| process.step(op));
        let Some(device) = process.trace_since(first) else { return Ok(()) };
        let evidence = Evidence::of(&device, &own, Watch::nobody()).unwrap();
        let outcome = outcome(&device, &evidence, &own, None);
        let recorded = device.summary[Series::Allocated as usize].peak;
        prop_assert_eq!((outcome.failed, outcome.peak_allocated), (None, recorded));
    }

    /// A recording under any settings predicts what happens to the program under any others.
    #[test]
    fn from_any_settings_to_any_others(
        ops in ops(2, false),
        from in settings(),
        from_limit in limit(),
        to in settings(),
        to_limit in limit(),
    ) {
        let recorded = Process::run(&ops, &from, from_limit);
        prop_assume!(recorded.failed.is_none());
        // The version of torch stays the same.
        let to = Config { ties: from.ties, ..to };
        let Some(device) = recorded.trace() else { return Ok(()) };
        let evidence = Evidence::of(&device, &from, Watch::nobody()).unwrap();
        prop_assert_eq!(&evidence.emptied, &[]);
        let outcome = outcome(&device, &evidence, &to, to_limit.map(Limit::of_process));
        let there = Process::run(&ops, &to, to_limit);
        prop_assert_eq!((outcome.peak_allocated.0, outcome.peak_reserved.0), peaks(&there));
        prop_assert_eq!(outcome.retries, there.allocator.retries());
        let actions = device.events.action.iter();
        let asked = outcome.failed.map(|failed| {
            let before = actions.take(failed.event.index() + 1);
            before.filter(|action| **action == Action::Alloc).count()
        });
        prop_assert_eq!(asked, there.failed);
        let reach = if there.failed.is_some() { Reach::Failure } else { Reach::End };
        prop_assert_eq!(outcome.reach, reach);
    }
}

/// What is never requested counts against no limit, though it was there before the recording.
#[test]
fn what_is_gone_leaves_room_before_the_first_event() {
    let sizes = [100 * MIB, MIB, MIB];
    let ops = sizes.map(|size| Op::Alloc(size, 0));
    let process = Process::run(&ops, &Config::default(), None);
    let device = process.trace_since(process.log.len() - 1).unwrap();
    let check = |early: Early, fits: bool| {
        let question = Question {
            limit: Some(Bytes(50 * MIB)),
            early,
            ..Question::default()
        };
        let answer = ask(&device, &Config::default(), &question, Watch::nobody()).unwrap();
        assert_eq!(
            answer.what_if.failed.is_none(),
            fits,
            "{:?}",
            answer.what_if
        );
    };
    check(Early::default(), false);
    let large = |kind: &crate::trace::BlockKind| kind.requested == Bytes(100 * MIB);
    check(Early::default().without(&device, large), true);
}

/// What was given back before the recording, and was still in use by another stream then, is not
/// counted as allocated: leaving it out takes nothing away from that.
#[test]
fn what_is_gone_may_have_been_given_back_before_the_first_event() {
    let mut process = Process::run(&[Op::Alloc(100 * MIB, 0)], &Config::default(), None);
    process.request_and_wait(0);
    // A mark follows the request.
    let first = process.log.len() - 1;
    process.alloc(4 * MIB, 0);
    process.complete(0);
    let device = process.trace_since(first).unwrap();
    let waits = BlockIdx(0);
    assert_eq!(device.given_back(waits), GivenBack::Before);
    let peaks = |early: Early| {
        let question = Question {
            limit: Some(Bytes(1 << 40)),
            early,
            ..Question::default()
        };
        let answer = ask(&device, &Config::default(), &question, Watch::nobody()).unwrap();
        let told = answer.what_if;
        (told.peak_allocated, told.peak_reserved)
    };
    let as_recorded = peaks(Early::default());
    assert_eq!(as_recorded, (Bytes(4 * MIB), Bytes(120 * MIB)));
    let large = |kind: &crate::trace::BlockKind| kind.requested == Bytes(100 * MIB);
    let early = Early::default().without(&device, large);
    assert_eq!(early.n_gone(), 1);
    // The request fits into what is left.
    assert_eq!(peaks(early), (Bytes(4 * MIB), Bytes(100 * MIB)));
}

/// As many bytes can be pages of either pool; what lay in them tells.
#[test]
fn pages_that_only_went_back_are_of_the_pool_of_what_lay_in_them() {
    let own = Config {
        expandable_segments: true,
        ..Config::default()
    };
    let check = |request: u64, count: usize, expected: PoolSize| {
        let mut ops = vec![Op::Alloc(request, 0); count];
        ops.extend((0..count).map(|_| Op::FreeNewest));
        ops.push(Op::Empty);
        let process = Process::run(&ops, &own, None);
        let is_free = |row: &(Action, u64, u64, u64, By)| row.0 == Action::FreeRequested;
        let first = process.log.iter().position(is_free).unwrap();
        let device = process.trace_since(first).unwrap();
        let before = device.segments_before.iter();
        let found: Vec<_> = before.map(|s| (s.size, s.pool_size)).collect();
        assert_eq!(found, [(Bytes(20 * MIB), expected)], "{request}");
    };
    check(MIB / 2, 40, PoolSize::Small);
    check(10 * MIB, 2, PoolSize::Large);
}

/// Under `context="alloc"` what goes back carries the stack with which it was requested. So it does
/// not show that a request gave it back.
#[test]
fn stacks_of_allocations_do_not_show_who_gave_back() {
    let ops = [
        Op::Alloc(300 * MIB, 0),
        Op::Alloc(500 * MIB, 0),
        Op::FreeNewest,
        Op::Empty,
        Op::Alloc(502 * MIB, 0),
    ];
    let own = Config::default();
    let mut process = Process::run(&ops, &own, None);
    process.log.iter_mut().for_each(|row| row.4 = By::Request);
    let device = process.trace().unwrap();
    let found = Evidence::of(&device, &own, Watch::nobody()).unwrap();
    assert_eq!((found.emptied.len(), found.limit), (1, None));
}

/// A request in a private pool is captured: it neither finds what is free elsewhere nor empties the
/// cache.
#[test]
fn a_failure_in_a_private_pool_is_replayed_there() {
    let ops = [
        Op::Alloc(600 * MIB, 0),
        Op::Alloc(200 * MIB, 0),
        Op::FreeNewest,
        Op::Alloc(500 * MIB, 0),
    ];
    let own = Config::default();
    let limit = Some(Bytes(1000 * MIB));
    let process = Process::run(&ops, &own, limit);
    let mut device = process.trace().unwrap();
    let evidence = Evidence::default();
    let check = |device: &DeviceTrace, retries: u64| {
        let limit = limit.map(Limit::of_process);
        let found = outcome(device, &evidence, &own, limit);
        let failed = found.failed.map(|failed| (failed.event.0, failed.retries));
        assert_eq!(failed, Some((device.events.len() - 1, retries)));
    };
    check(&device, 1);
    device.events.failed_in = vec![(0, PoolId(0, 1))];
    check(&device, 0);
}

#[test]
fn an_answer_can_be_stopped() {
    let process = Process::run(&[Op::Alloc(MIB, 0)], &Config::default(), None);
    let device = process.trace().unwrap();
    let stopped = ask(
        &device,
        &Config::default(),
        &Question::default(),
        Watch::new(&|_| false),
    );
    assert_eq!(stopped, Err(Stopped));
}
