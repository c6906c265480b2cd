//! Random programs run through the allocator and are recorded. A replay under the settings of the
//! run must give what happened. A replay under other settings must give what happens when the
//! program runs under those.

mod cases;
mod properties;
mod remedies;

use super::*;
use crate::allocator::caching::Caching;
use crate::allocator::conf;
use crate::allocator::{PoolKey, Slot, Ties};
use crate::device::DeviceIdx;
use crate::levels::GivenBack;
use crate::reader::keys::Key;
use crate::snapshot::{BlockState, EventKind, KeysSeen, RawBlock, RawEvents, RawSegment, Snapshot};
use crate::stacks::{Frame, StackIdx};
use crate::trace::{Action, BlockIdx, PoolId, PoolSize};
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
                device: DeviceIdx(0),
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
    let replay = Replay::new(device, evidence, Watch::nobody());
    replay
        .under(&Conditions::as_recorded(settings, limit))
        .unwrap()
}

fn peaks(process: &Process) -> (u64, u64) {
    (process.peak_allocated, process.peak_reserved)
}
