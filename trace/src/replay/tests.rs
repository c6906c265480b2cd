//! Compares the replay with a program that keeps its own counters.

mod left_out;

use super::*;
use crate::snapshot::{EventKind, RawBlock};
use crate::trace::{Action, PoolId};
use crate::units::Micros;
use proptest::prelude::*;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// A simple allocator of a program: segments, blocks in use, and a log of what happened.
#[derive(Debug, Default)]
struct Program {
    /// What it adds to each request.
    padding: u64,
    segments: BTreeMap<u64, u64>,
    /// Address -> (requested, size, given back).
    used: BTreeMap<u64, (u64, u64, bool)>,
    log: Vec<(Action, u64, u64)>,
    levels: Vec<[u64; 4]>,
}

impl Program {
    fn record(&mut self, action: Action, addr: u64, size: u64) {
        self.log.push((action, addr, size));
        let kept = || self.used.values().filter(|b| !b.2);
        self.levels.push([
            self.used.values().map(|b| b.0).sum(),
            kept().map(|b| b.1).sum(),
            self.used.values().map(|b| b.1).sum(),
            self.segments.values().sum(),
        ]);
    }

    fn gaps(&self) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        for (&base, &size) in &self.segments {
            let mut at = base;
            for (&addr, block) in self.used.range(base..base + size) {
                if addr > at {
                    gaps.push((at, addr - at));
                }
                at = addr + block.1;
            }
            if base + size > at {
                gaps.push((at, base + size - at));
            }
        }
        gaps
    }

    fn alloc(&mut self, requested: u64) {
        let config = Config {
            padding: self.padding,
            ..Config::default()
        };
        let rounded = config.round_size(requested);
        let small = rounded <= MIB;
        // Only the small pool has segments of 2 MiB.
        let pool_of = |addr: u64| {
            let (_, size) = self.segments.range(..=addr).next_back().unwrap();
            *size == 2 * MIB
        };
        let fits = self
            .gaps()
            .into_iter()
            .filter(|g| g.1 >= rounded && pool_of(g.0) == small);
        let (addr, gap) = fits
            .min_by_key(|&(addr, len)| (len, addr))
            .unwrap_or_else(|| {
                let base = self
                    .segments
                    .last_key_value()
                    .map_or(MIB, |(b, s)| b + s + 4 * MIB);
                let size = config.segment_size(rounded);
                self.segments.insert(base, size);
                self.record(Action::SegmentAlloc, base, size);
                (base, size)
            });
        let rest = gap - rounded;
        let split = if small { rest >= 512 } else { rest > MIB };
        self.used
            .insert(addr, (requested, if split { rounded } else { gap }, false));
        self.record(Action::Alloc, addr, requested);
    }

    fn nth(&self, index: prop::sample::Index, pending: bool) -> Option<u64> {
        let matching: Vec<u64> = self
            .used
            .iter()
            .filter(|(_, b)| b.2 == pending)
            .map(|(a, _)| *a)
            .collect();
        (!matching.is_empty()).then(|| matching[index.index(matching.len())])
    }

    fn request(&mut self, addr: u64) {
        let block = self.used.get_mut(&addr).unwrap();
        block.2 = true;
        let requested = block.0;
        self.record(Action::FreeRequested, addr, requested);
    }

    fn complete(&mut self, addr: u64) {
        let (requested, _, _) = self.used.remove(&addr).unwrap();
        self.record(Action::FreeCompleted, addr, requested);
    }

    fn release(&mut self) {
        for (base, size) in self.segments.clone() {
            if self.used.range(base..base + size).next().is_none() {
                self.segments.remove(&base);
                self.record(Action::SegmentFree, base, size);
            }
        }
    }

    /// The snapshot of a ring that holds the events from `from` on.
    fn snapshot(&self, from: usize) -> Snapshot {
        let mut snapshot = Snapshot {
            keys_seen: crate::snapshot::KeysSeen(crate::reader::keys::Key::Segments.bit()),
            ..Snapshot::default()
        };
        let mut events = RawEvents::default();
        for (index, &(action, addr, size)) in self.log.iter().enumerate().skip(from) {
            events.kind.push(snapshot.kinds.len() as u32);
            events.addr.push(addr);
            events.time.push(Micros(index as i64));
            snapshot.kinds.push(EventKind {
                action,
                size: Bytes(size),
                stream: 0,
                stack: StackIdx::NONE,
                forward_stack: StackIdx::NONE,
                pool: None,
                compile_context: None,
                metadata: None,
            });
        }
        snapshot.devices.push(events);
        for (&base, &size) in &self.segments {
            let first = snapshot.blocks.len();
            let inside = self.used.range(base..base + size);
            snapshot
                .blocks
                .extend(inside.map(|(&addr, &(requested, size, pending))| RawBlock {
                    addr: DeviceAddr(addr),
                    size: Bytes(size),
                    requested: Bytes(requested),
                    requested_known: true,
                    state: match pending {
                        true => BlockState::PendingFree,
                        false => BlockState::ActiveAllocated,
                    },
                    stack: StackIdx::NONE,
                    metadata: None,
                }));
            snapshot.segments.push(RawSegment {
                device: DeviceIdx(0),
                addr: DeviceAddr(base),
                total_size: Bytes(size),
                allocated_size: Bytes(0),
                stream: 0,
                pool_size: match size == 2 * MIB {
                    true => PoolSize::Small,
                    false => PoolSize::Large,
                },
                pool: PoolId::default(),
                is_expandable: false,
                blocks: first..snapshot.blocks.len(),
            });
        }
        snapshot
    }
}

#[derive(Clone, Debug)]
enum Op {
    Alloc(u64),
    Free(prop::sample::Index),
    Request(prop::sample::Index),
    Complete(prop::sample::Index),
    Release,
}

fn program() -> impl Strategy<Value = Program> {
    let index = || any::<prop::sample::Index>();
    let op = prop_oneof![
        3 => (1..24 * MIB).prop_map(Op::Alloc),
        2 => (1..2 * MIB).prop_map(Op::Alloc),
        3 => index().prop_map(Op::Free),
        1 => index().prop_map(Op::Request),
        1 => index().prop_map(Op::Complete),
        1 => Just(Op::Release),
    ];
    prop::collection::vec(op, 1..80).prop_map(|ops| {
        let mut program = Program::default();
        for op in ops {
            match op {
                Op::Alloc(n) => program.alloc(n),
                Op::Free(index) => {
                    if let Some(addr) = program.nth(index, false) {
                        program.request(addr);
                        program.complete(addr);
                    }
                }
                Op::Request(index) => {
                    if let Some(addr) = program.nth(index, false) {
                        program.request(addr);
                    }
                }
                Op::Complete(index) => {
                    if let Some(addr) = program.nth(index, true) {
                        program.complete(addr);
                    }
                }
                Op::Release => program.release(),
            }
        }
        program
    })
}

fn replayed(program: &Program, from: usize) -> Trace {
    run(program.snapshot(from))
}

proptest! {
    /// In a recording from the start, every level after every event is exact, and so is each
    /// address.
    #[test]
    fn a_whole_recording_is_exact(program in program()) {
        let trace = replayed(&program, 0);
        let Some(device) = trace.devices.first() else {
            prop_assert!(program.log.is_empty());
            return Ok(());
        };
        for (event, expected) in program.levels.iter().enumerate() {
            let levels = device.levels_at(EventIdx(event as u32));
            prop_assert_eq!(levels.0.map(Bytes::get), *expected, "event {}", event);
        }
        prop_assert_eq!(device.fidelity.predicted, device.fidelity.allocs);
        prop_assert_eq!(device.unmatched_frees, 0);
        prop_assert_eq!(&trace.quality.iter().map(|q| q.code.as_str()).collect::<Vec<_>>(),
            &["no_stacks"][..usize::from(device.fidelity.allocs > 0)]);
    }

    /// In a late recording, requested and reserved are exact everywhere, and all series are exact
    /// at the end. Allocated may lack at most the unknown remainder of each block from before.
    #[test]
    fn a_late_recording_is_exact_where_it_can_be(
        program in program(), at in any::<prop::sample::Index>(),
    ) {
        prop_assume!(!program.log.is_empty());
        let from = at.index(program.log.len());
        let trace = replayed(&program, from);
        let device = &trace.devices[0];
        let unknown = u64::from(device.blocks.n_preexisting) * MIB;
        for (event, expected) in program.levels[from..].iter().enumerate() {
            let levels = device.levels_at(EventIdx(event as u32)).0.map(Bytes::get);
            prop_assert_eq!(levels[0], expected[0], "requested at {}", event);
            prop_assert_eq!(levels[3], expected[3], "reserved at {}", event);
            prop_assert!(levels[1] <= expected[1] && expected[1] - levels[1] <= unknown);
            prop_assert!(levels[2] <= expected[2] && expected[2] - levels[2] <= unknown);
        }
        let end = device.summary.map(|s| s.end.get());
        prop_assert_eq!(end, *program.levels.last().unwrap());
    }
}

#[test]
fn a_block_from_before_has_the_stream_of_its_segment() {
    let mut program = Program::default();
    program.alloc(3 * MIB);
    program.alloc(100);
    let mut snapshot = program.snapshot(program.log.len() - 1);
    snapshot.segments.iter_mut().for_each(|s| s.stream = 7);
    let trace = run(snapshot);
    let blocks = &trace.devices[0].blocks;
    assert_eq!(blocks.n_preexisting, 1);
    assert_eq!(blocks.kind(crate::trace::BlockIdx(0)).stream, 7);
}

/// A program of `steps` equal steps; each gives back what the step before kept.
fn looping(steps: u64) -> Program {
    let mut program = Program::default();
    let mut kept = None;
    for step in 0..steps {
        program.alloc(3 * MIB + step);
        let (_, last, _) = *program.log.last().unwrap();
        if let Some(old) = kept.replace(last) {
            program.request(old);
            program.complete(old);
        }
    }
    program
}

fn codes(snapshot: Snapshot) -> Vec<String> {
    let trace = run(snapshot);
    trace.quality.into_iter().map(|note| note.code).collect()
}

#[test]
fn a_ring_that_wrapped_is_told_from_a_late_start() {
    let program = looping(2000);
    let cut = |from: usize| program.snapshot(from);
    let is = |snapshot: Snapshot, code: &str| {
        let codes = codes(snapshot);
        assert!(codes.iter().any(|c| c == code), "{code}: {codes:?}");
    };
    let n = program.log.len();
    let actions: Vec<Action> = program.log.iter().map(|event| event.0).collect();
    let at = |action: Action| {
        n - 999
            + actions[n - 999..]
                .iter()
                .position(|a| *a == action)
                .unwrap()
    };
    // A recording may begin with any call, including a free.
    is(cut(at(Action::Alloc)), "late_start");
    is(cut(at(Action::FreeRequested)), "late_start");
    // Only a ring can cut a free in two.
    is(cut(at(Action::FreeCompleted)), "ring_wrapped");
    // 1000 is a number that people type, 700 may be chance.
    is(cut(n - 1000), "ring_wrapped");
    let whole =
        (n - 750..).find(|&from| actions[from] == Action::Alloc && (n - from).is_multiple_of(10));
    is(cut(whole.unwrap()), "late_start");
    // The one event of a recording that keeps no history tells nothing of a ring.
    is(cut(n - 1), "state_only");
    assert!(!codes(cut(n - 1)).iter().any(|c| c == "ring_wrapped"));
    assert!(
        !codes(cut(0))
            .iter()
            .any(|c| c == "ring_wrapped" || c == "late_start")
    );
}

/// A recording may begin while a block waits for another stream, whose free it then cuts in two. Of
/// what a ring has lost, blocks keep their stacks.
#[test]
fn a_block_that_waits_at_the_beginning_is_no_sign_of_a_ring() {
    let mut program = Program::default();
    program.alloc(5 * MIB);
    for step in 0..50 {
        program.alloc(3 * MIB + step);
        let (_, last, _) = *program.log.last().unwrap();
        program.request(last);
        program.complete(last);
    }
    let from = program
        .log
        .iter()
        .position(|event| event.0 == Action::FreeCompleted);
    let check = |of_older: bool, expected: &str| {
        let mut snapshot = program.snapshot(from.unwrap());
        let name = snapshot.stacks.strings.push("f");
        let frame = crate::stacks::Frame {
            name,
            filename: name,
            line: 1,
        };
        let frame = snapshot.stacks.push_frame(frame);
        let stack = snapshot.stacks.push_stack(&[frame]);
        snapshot
            .kinds
            .iter_mut()
            .for_each(|kind| kind.stack = stack);
        if of_older {
            snapshot
                .blocks
                .iter_mut()
                .for_each(|block| block.stack = stack);
        }
        let codes = codes(snapshot);
        assert!(codes.iter().any(|code| code == expected), "{codes:?}");
    };
    check(true, "ring_wrapped");
    check(false, "late_start");
}

#[test]
fn scopes_that_lost_their_events_say_that_the_ring_wrapped() {
    let program = looping(500);
    let after = program.log.len() - 301;
    let is_alloc = |&from: &usize| program.log[from].0 == Action::Alloc;
    let from = (after..).find(is_alloc).unwrap();
    let with_scopes = |scopes: &[(&str, usize, usize)]| {
        let mut snapshot = program.snapshot(from);
        for &(name, from, to) in scopes {
            let name = snapshot.stacks.strings.push(name);
            for (stage, time) in [
                (crate::snapshot::Stage::Start, from),
                (crate::snapshot::Stage::End, to),
            ] {
                snapshot.annotations.push(crate::snapshot::RawAnnotation {
                    name,
                    stage,
                    device: DeviceIdx(0),
                    time: Micros(time as i64),
                });
            }
        }
        codes(snapshot)
    };
    let check = |scopes: &[(&str, usize, usize)], code: &str| {
        let codes = with_scopes(scopes);
        assert!(codes.contains(&code.to_owned()), "{scopes:?}: {codes:?}");
    };
    let (within, until) = (from + 10, from + 100);
    check(
        &[("step 1", 10, 20), ("step 2", within, until)],
        "ring_wrapped",
    );
    // A scope of another kind may never have held events.
    check(&[("load", 10, 20), ("step 2", within, until)], "late_start");
    // A first scope may have nothing to give back.
    let is_free = |&at: &usize| program.log[at].0 == Action::FreeRequested;
    let free = (within..).find(is_free).unwrap();
    let clear = |from, to| ("clear", from, to);
    check(&[clear(10, 20), clear(free, free + 1)], "late_start");
    check(
        &[clear(10, 20), clear(30, 40), clear(free, free + 1)],
        "ring_wrapped",
    );
}

#[test]
fn one_event_a_device_is_a_file_of_state_only() {
    let mut program = Program::default();
    program.alloc(3 * MIB);
    let of_two = |from: usize| {
        let mut snapshot = program.snapshot(from);
        let one = RawEvents {
            kind: vec![0],
            addr: program.snapshot(program.log.len() - 1).devices[0]
                .addr
                .clone(),
            time: program.snapshot(program.log.len() - 1).devices[0]
                .time
                .clone(),
        };
        snapshot.devices.push(one);
        codes(snapshot)
    };
    let state_only = "state_only".to_owned();
    assert!(of_two(program.log.len() - 1).contains(&state_only));
    assert!(!of_two(0).contains(&state_only));
}

/// Events of segments may have been left out (`skip_actions`): then all memory of the end seems to
/// have been there at the beginning, and the program left most of it alone.
#[test]
fn what_was_reserved_is_not_known_without_events_of_segments() {
    let mut program = Program::default();
    for _ in 0..12 {
        program.alloc(30 * MIB);
        let (_, first, _) = *program.log.last().unwrap();
        program.request(first);
        program.complete(first);
        program.alloc(12 * MIB);
        program.alloc(19 * MIB);
    }
    let code = "segments_not_recorded".to_owned();
    assert!(!codes(program.snapshot(0)).contains(&code));
    program.log.retain(|event| event.0 != Action::SegmentAlloc);
    assert!(codes(program.snapshot(0)).contains(&code));
    // A program that took all its memory before the recording began.
    assert!(!codes(program.snapshot(program.log.len() - 4)).contains(&code));
}

/// What came last may be the end of a free. Nothing waits for it.
#[test]
fn the_one_event_of_a_state_adds_nothing_to_it() {
    let mut program = Program::default();
    program.alloc(3 * MIB);
    program.alloc(5 * MIB);
    let (_, last, _) = *program.log.last().unwrap();
    program.request(last);
    program.complete(last);
    let trace = run(program.snapshot(program.log.len() - 1));
    let device = &trace.devices[0];
    for series in [Series::Requested, Series::Allocated, Series::Active] {
        let level = device.summary[series as usize];
        assert_eq!([level.start, level.peak], [level.end; 2], "{series:?}");
    }
    assert_eq!(device.blocks.n_preexisting, 1);
}

/// torch writes each snapshot into the events of all GPUs of the machine.
#[test]
fn a_gpu_that_has_only_snapshots_is_none_of_the_program() {
    let mut program = Program::default();
    program.alloc(3 * MIB);
    program.alloc(5 * MIB);
    let check = |snapshots: usize, with_program: bool, expected: &[u32]| {
        let mut snapshot = program.snapshot(0);
        let mut taken = snapshot.devices[0].part(0..snapshots);
        taken.kind.fill(snapshot.kinds.len() as u32);
        snapshot.kinds.push(EventKind {
            action: Action::Snapshot,
            ..snapshot.kinds[0]
        });
        snapshot.devices.push(taken.clone());
        if !with_program {
            snapshot.devices[0] = taken;
            snapshot.segments.clear();
        }
        let found: Vec<u32> = run(snapshot).devices.iter().map(|d| d.device.0).collect();
        assert_eq!(found, expected, "{snapshots} snapshots");
    };
    for snapshots in 0..4 {
        check(snapshots, true, &[0]);
    }
    // Nobody allocated anything.
    check(2, false, &[0, 1]);
}

#[test]
fn segments_without_any_block_of_the_trace_say_that_it_was_cut() {
    let mut program = Program::default();
    program.alloc(3 * MIB);
    program.alloc(5 * MIB);
    let check = |gone: usize, expected: &str| {
        let mut snapshot = program.snapshot(0);
        snapshot.blocks.iter_mut().take(gone).for_each(|block| {
            block.state = BlockState::Inactive;
        });
        let quality = run(snapshot).quality;
        let newer = quality.iter().find(|note| note.code == "segments_newer");
        let told = newer.map(|note| note.detail.as_str()).unwrap_or_default();
        assert!(told.contains(expected), "{gone}: {told}");
        assert_eq!(newer.is_some(), !expected.is_empty());
    };
    check(0, "");
    check(
        1,
        "1 block at the end of the trace differs from the segments: another thread",
    );
    check(
        usize::MAX,
        "these hold nothing, so the last events of the trace are missing",
    );
}

#[test]
fn a_size_that_the_file_leaves_out_contradicts_nothing() {
    let mut program = Program::default();
    program.alloc(1000);
    program.alloc(3 * MIB + 5);
    let check = |from: usize, expected: bool| {
        let mut snapshot = program.snapshot(from);
        for block in &mut snapshot.blocks {
            block.requested = block.size;
            block.requested_known = false;
        }
        let codes = codes(snapshot);
        let has = |code: &str| codes.iter().any(|one| one == code);
        assert_eq!(has("requested_unknown"), expected, "{codes:?}");
        assert!(!has("segments_newer") && !has("end_differs"), "{codes:?}");
    };
    // The events say how much was asked for, but not for blocks from before.
    check(0, false);
    check(program.log.len() - 1, true);
}

#[test]
fn an_empty_snapshot_has_no_device_and_says_so() {
    let trace = run(Snapshot::default());
    assert!(trace.devices.is_empty());
    assert_eq!(trace.quality[0].code, "no_events");
}

/// As torch_npu hands memory out: nothing in the file says so, but its addresses do.
#[test]
fn padded_requests_are_followed_where_only_they_explain_the_addresses() {
    let recording = |padding: u64, n: u64, still: u64| {
        let mut program = Program {
            padding,
            ..Program::default()
        };
        for block in 0..n {
            program.alloc(512 * (1 + block % 5));
            program.alloc(2 * MIB + 512 * block);
            if block % 2 == 1 {
                let addr = *program.used.first_key_value().unwrap().0;
                program.request(addr);
                program.complete(addr);
            }
        }
        while program.used.len() as u64 > still {
            let addr = *program.used.first_key_value().unwrap().0;
            program.request(addr);
            program.complete(addr);
        }
        program
    };
    let check = |padding, n, still, expected: u64| {
        let program = recording(padding, n, still);
        let mut snapshot = program.snapshot(0);
        snapshot.keys_seen.0 |= crate::reader::keys::Key::Action.bit();
        let trace = run(snapshot);
        let device = &trace.devices[0];
        let own = crate::what_if::own_settings(&trace.format, device);
        assert_eq!(own.padding, expected, "{padding} {n} {still}");
        let told = trace
            .quality
            .iter()
            .any(|note| note.code == "padded_requests");
        assert_eq!(told, expected > 0);
        // Keys of torch's versions say nothing about torch_npu.
        assert_eq!(trace.format.torch_guess.is_none(), expected > 0);
        if padding == expected {
            assert_eq!(device.fidelity.predicted, device.fidelity.allocs);
            let last = program.levels.len() - 1;
            for (event, level) in program.levels.iter().enumerate().skip(last / 2) {
                let levels = device.levels_at(EventIdx(event as u32));
                assert_eq!(levels.0.map(Bytes::get), *level, "event {event}");
            }
        }
    };
    check(32, 40, 30, 32);
    // Nothing is left in the segments of the end.
    check(32, 40, 0, 32);
    check(0, 40, 30, 0);
    // A few addresses do not tell.
    check(32, 3, 2, 0);
}

/// A program without Python lacks no Python frames; of one with Python, autograd's threads do.
#[test]
fn python_frames_are_missing_only_where_others_are_there() {
    let are_missing = |files: [&str; 2]| {
        let event = |(at, file): (u64, &str)| {
            let frame = format!(r#"{{"name": "f", "filename": "{file}", "line": 3}}"#);
            let addr = at * 512;
            format!(
                r#"{{"action": "alloc", "addr": {addr}, "size": 512, "stream": 0,
                    "frames": [{frame}]}}"#
            )
        };
        let events: Vec<String> = (1..).zip(files).map(event).collect();
        let file = format!(
            r#"{{"segments": [], "device_traces": [[{}]]}}"#,
            events.join(",")
        );
        let read = crate::reader::read(file.as_bytes(), crate::reader::Limits::default());
        let found = run(read.expect("a snapshot")).quality;
        let code = crate::quality_code::NO_PYTHON_FRAMES;
        found.iter().any(|finding| finding.code == code)
    };
    assert!(are_missing(["train.py", "engine.cpp"]));
    assert!(!are_missing(["fused_mlp", "engine.cpp"]));
    assert!(!are_missing(["train.py", "model.py"]));
}
