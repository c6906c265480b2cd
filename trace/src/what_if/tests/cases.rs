//! Single programs.

use super::*;
use crate::oom;
use crate::testing::{TraceBuilder, block_of};
use crate::trace::BlockKind;

/// More was reserved once than when it failed: the limit is at least as large.
#[test]
fn the_limit_that_refused_a_request_is_that_of_the_whole_recording() {
    let limit = |segments: &[(Action, u64)]| {
        let mut builder = TraceBuilder::default();
        for &(action, mib) in segments {
            builder.segment(action, Bytes::mib(mib));
        }
        builder.out_of_memory(Bytes::mib(64));
        let mut device = builder.finish().devices.remove(0);
        device.events.others[0].addr_or_free = Bytes::gib(4).0;
        let (own, failures) = (Config::default(), oom::failures(&device));
        let limits = LimitSeen::of_refusals(&device, &own, &failures, Watch::nobody());
        let seen = limits.unwrap()[0].expect("the driver had enough");
        [seen.at_least, seen.below].map(|bytes| bytes.0 / MIB)
    };
    let (made, freed) = (Action::SegmentAlloc, Action::SegmentFree);
    assert_eq!(limit(&[(made, 1000)]), [1000, 1064]);
    assert_eq!(
        limit(&[(made, 1000), (made, 20), (freed, 20)]),
        [1020, 1064]
    );
    // It was lowered, perhaps below what is reserved.
    assert_eq!(limit(&[(made, 1000), (made, 90), (freed, 90)]), [0, 1064]);
    assert_eq!(limit(&[]), [0, 64]);
}

/// A driver with 21 MiB free may refuse a page of 20 MiB.
#[test]
fn a_card_is_full_before_the_last_of_its_memory_is_used() {
    let pages = Config {
        expandable_segments: true,
        ..Config::default()
    };
    let check = |own: &Config, asked: u64, free: u64, by: Refuser, expected: [u64; 2]| {
        let mut builder = TraceBuilder::default();
        builder.segment(Action::SegmentAlloc, Bytes::mib(1000));
        builder.out_of_memory(Bytes::mib(asked));
        let mut device = builder.finish().devices.remove(0);
        device.events.others[0].addr_or_free = Bytes::mib(free).0;
        let evidence = evidence(&device, own, Watch::nobody()).unwrap();
        let seen = evidence.limit.expect("it failed");
        let told = [seen.at_least, seen.below].map(|bytes| bytes.0.div_ceil(MIB));
        assert_eq!((seen.by, told), (by, expected));
    };
    let (device, process) = (Refuser::Device, Refuser::Process);
    // The page was refused, or the second one of two.
    check(&pages, 12, 21, device, [1020, 1020]);
    check(&pages, 24, 21, device, [1020, 1022]);
    check(&pages, 24, 26, device, [1026, 1027]);
    check(&pages, 12, 15, device, [1015, 1016]);
    check(&pages, 12, 24, process, [1000, 1012]);
    check(&Config::default(), 24, 21, device, [1021, 1022]);
    check(&Config::default(), 24, 26, device, [1024, 1024]);
    check(&Config::default(), 24, 28, process, [1000, 1024]);
}

/// A request of little more than 20 MiB is recorded as 24 MiB: in four divisions it is rounded up.
#[test]
fn a_failed_request_may_have_asked_for_less_than_its_recorded_size() {
    let own = Config {
        roundup_power2_divisions: [4; 16],
        ..Config::default()
    };
    let check = |limit: u64, settings: &Config, expected: bool| {
        let ops = [20 * MIB, 20 * MIB + 8192].map(|size| Op::Alloc(size, 0));
        let process = Process::run(&ops, &own, Some(Bytes(limit * MIB)));
        let device = process.trace_since(0).unwrap();
        let question = Question {
            settings: Some(settings.clone()),
            limit: Some(Bytes(limit * MIB)),
            ..Question::default()
        };
        let answer = ask(&device, &own, &question, Watch::nobody()).unwrap();
        let failed = answer.what_if.failed.expect("it fails");
        assert_eq!(failed.may_be_less, expected);
        let said = words::sentence(&answer, &device.steps);
        assert_eq!(said.contains("rounded up"), expected, "{said}");
        assert_eq!(said.starts_with("It might"), expected, "{said}");
    };
    check(43, &Config::default(), true);
    check(41, &Config::default(), false);
    check(43, &own, false);
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

/// A line that is left out has a backward pass, too, which has no stack of its own: what it asks
/// for is known by what it gives back, the input of its operation. Other operations keep theirs.
#[test]
fn a_backward_pass_belongs_to_the_operations_that_are_gone() {
    let mut builder = TraceBuilder::default();
    let mut kind = |name: &str, bytes| BlockKind {
        alloc_stack: builder.stack(name, "net.py", 3),
        ..block_of(Bytes(bytes))
    };
    let [embedding, norm, gelu] = [("embedding", 4096), ("norm", 8192), ("gelu", 1024)]
        .map(|(name, bytes)| kind(name, bytes));
    let other = kind("step", 512);
    let [embedded, normed, made] = [embedding, norm, gelu].map(|kind| builder.alloc(kind));
    let mut backward_of = |saved: BlockIdx, bytes: u64| {
        let gradient = builder.alloc(block_of(Bytes(bytes)));
        builder.free_requested(saved);
        builder.free_completed(saved);
        // Far enough from the next operation.
        for _ in 0..8 {
            builder.alloc(other);
        }
        gradient
    };
    let of_gelu = backward_of(normed, 8192);
    let of_norm = backward_of(embedded, 4096);
    let trace = builder.finish();
    let (device, stacks) = (&trace.devices[0], &trace.stacks);
    let check = |gone: BlockKind, expected: Option<[BlockIdx; 2]>| {
        let early = Early::default().without(device, |kind| kind.alloc_stack == gone.alloc_stack);
        let found = early.without_their_backward(device, stacks, Watch::nobody());
        assert_eq!(
            found.unwrap().map(|early| early.gone),
            expected.map(Vec::from)
        );
    };
    check(gelu, Some([made, of_gelu]));
    check(norm, Some([normed, of_norm]));
    let nowhere = BlockKind {
        alloc_stack: StackIdx(99),
        ..gelu
    };
    check(nowhere, None);
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
    // It may have been the request.
    assert_eq!(found.otherwise().unwrap().emptied, []);
}

/// How much was collected, and what was not, tells the limit.
#[test]
fn what_was_collected_shows_the_limit() {
    let cached = [60, 100, 130, 144].map(|mib| [Op::Alloc(mib * MIB, 0), Op::FreeNewest]);
    let kept = [300, 320].map(|mib| Op::Alloc(mib * MIB, 0));
    let ops: Vec<Op> = cached.into_iter().flatten().chain(kept).collect();
    let own = Config {
        garbage_collection_threshold: 0.5,
        ..Config::default()
    };
    let process = Process::run(&ops, &own, Some(Bytes(1000 * MIB)));
    let device = process.trace().unwrap();
    let peak = |evidence: &Evidence| {
        let limit = evidence.limit.map(LimitSeen::limit);
        outcome(&device, evidence, &own, limit).peak_reserved
    };
    let refused = Evidence::of(&device, &own, Watch::nobody()).unwrap();
    assert_eq!(peak(&refused), Bytes(894 * MIB));
    let collected = evidence(&device, &own, Watch::nobody()).unwrap();
    assert_eq!(peak(&collected), Bytes(764 * MIB));
    let seen = collected.limit.unwrap();
    // Of 734 MiB, 160 were not enough and 290 were: the threshold lies between 444 and 574.
    let range = [seen.at_least, seen.below];
    assert_eq!(range, [888, 1148].map(|mib| Bytes(mib * MIB)));
}

/// Without stacks, a program that empties its cache looks like a request that was refused. So no
/// card is said to be full where the request would have been served by what went back, however much
/// was reserved.
#[test]
fn without_stacks_an_emptied_cache_shows_no_limit() {
    let check = |limit: u64, sizes: [u64; 3], by: By, below: Option<u64>, emptied: usize| {
        let [first, second, last] = sizes.map(|gib| Op::Alloc(gib * 1024 * MIB, 0));
        let mut ops = vec![first, Op::FreeNewest, second, Op::FreeNewest, last];
        if by == By::Program {
            ops.insert(2, Op::Empty);
        }
        let limit = Some(Bytes(limit * 1024 * MIB)).filter(|limit| *limit > Bytes::ZERO);
        let own = Config::default();
        let mut device = Process::run(&ops, &own, limit).trace().unwrap();
        let segments = device.events.segments.iter_mut();
        segments.for_each(|segment| segment.stack = StackIdx::NONE);
        for kind in &mut device.blocks.kinds {
            (kind.alloc_stack, kind.free_stack) = (StackIdx::NONE, StackIdx::NONE);
        }
        let found = Evidence::of(&device, &own, Watch::nobody()).unwrap();
        let seen = found.limit.map(|seen| seen.below.0 >> 30);
        assert_eq!((seen, found.emptied.len()), (below, emptied));
    };
    check(0, [20, 20, 1], By::Program, None, 1);
    check(0, [20, 16, 1], By::Program, None, 1);
    // A failure shows a limit. It says nothing of what would have been served.
    check(24, [20, 20, 30], By::Program, Some(30), 1);
    // Under the limit of the failure, nothing had to go back.
    check(60, [20, 21, 70], By::Program, Some(70), 1);
    check(24, [20, 21, 30], By::Request, Some(30), 0);
    // Nothing that went back would have served the request.
    check(24, [20, 21, 1], By::Request, Some(41), 0);
}

/// Up to torch 2.5, private pools have segments of the usual kind whatever the settings say.
#[test]
fn private_pools_have_expandable_segments_in_newer_versions() {
    let settings = [("expandable_segments".to_owned(), "true".to_owned())];
    let check = |torch: &str, pool: PoolId, expected: u64| {
        let config = Config::from_settings(&settings, Some(torch));
        let mut allocator = Caching::new(config, VecDeque::new());
        allocator.malloc(pool, 0, Bytes(30 * MIB)).unwrap();
        assert_eq!(allocator.reserved(), Bytes(expected * MIB), "{torch}");
    };
    let private = PoolId(0, 1);
    check("2.5 to 2.7", PoolId::default(), 40);
    check("2.5 to 2.7", private, 30);
    check("2.8 to 2.9", private, 40);
    check("2.15 or later", private, 40);
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

/// A library that is refused work space asks for less, and the program goes on.
#[test]
fn a_failure_that_was_passed_over_ends_no_answer() {
    let own = Config::default();
    let limit = Bytes(1000 * MIB);
    let ops = [600, 500].map(|mib| Op::Alloc(mib * MIB, 0));
    let mut process = Process::run(&ops, &own, Some(limit));
    (0..2).for_each(|_| process.step(&Op::Alloc(100 * MIB, 0)));
    let mut device = process.trace().unwrap();
    let last = device.events.len() - 1;
    let check = |device: &DeviceTrace, limit: Option<Bytes>, expected: (bool, u64)| {
        let limit = limit.map(Limit::of_process);
        let found = outcome(device, &Evidence::default(), &own, limit);
        let reserved = found.peak_reserved.0 / MIB;
        assert_eq!((found.failed.is_some(), reserved), expected, "{found:?}");
    };
    device.steps.clear();
    check(&device, Some(limit), (true, 800));
    device.steps = vec![crate::trace::Step {
        index: 0,
        name: "step 0".to_owned(),
        events: crate::span::Span::new(EventIdx(last), EventIdx(last + 1)),
    }];
    check(&device, Some(limit), (false, 800));
    // Where there is room, it is served and given back.
    check(&device, None, (false, 1100));
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

/// Four blocks, one after the other, each given back before the next one: at once, or when another
/// stream is done with it.
fn one_after_the_other(waits: bool) -> DeviceTrace {
    let mut process = Process::run(&[], &Config::default(), None);
    for _ in 0..4 {
        process.step(&Op::Alloc(30 * MIB, 0));
        match waits {
            true => process.request_and_wait(process.held.len() - 1),
            false => process.step(&Op::FreeNewest),
        }
    }
    process.trace().unwrap()
}

/// Blocks that wait for another stream are in the way of others; in another run they may not be.
#[test]
fn an_answer_that_depends_on_waiting_frees_says_so() {
    let check = |waits: bool, limit: u64, expected: Option<(u32, [u64; 2])>, begin: &str| {
        let own = Config::default();
        let device = one_after_the_other(waits);
        let question = Question {
            settings: Some(Config {
                max_split_size: Some(512 * MIB),
                ..own.clone()
            }),
            limit: Some(Bytes(limit * MIB)),
            ..Question::default()
        };
        let answer = ask(&device, &own, &question, Watch::nobody()).unwrap();
        let found = answer.what_if.waiting.map(|found| found.spread);
        let told = found.map(|found| (found.failed, found.peak_reserved.map(|b| b.0 / MIB)));
        assert_eq!(told, expected);
        let said = words::sentence(&answer, &device.steps);
        assert!(said.starts_with(begin), "{said}");
        let trust = words::trust(&answer);
        assert_eq!(
            trust.contains("waited for another stream"),
            waits,
            "{trust}"
        );
    };
    check(false, 200, None, "It would fit");
    check(true, 400, Some((0, [30, 120])), "It would fit");
    // As near to the limit as the runs are to each other.
    check(true, 200, Some((0, [30, 120])), "It might fit");
}

/// In another run a free waits less or more, also something between nothing and the recorded time.
#[test]
fn waits_are_drawn() {
    let (own, device) = (Config::default(), one_after_the_other(true));
    let evidence = evidence(&device, &own, Watch::nobody()).unwrap();
    let replay = Replay::new(&device, &evidence, Watch::nobody());
    let peak = |waits: Waits| {
        let conditions = Conditions {
            waits,
            ..Conditions::as_recorded(&own, None)
        };
        replay.under(&conditions).unwrap().peak_reserved.0 / MIB
    };
    assert_eq!(peak(Waits::AsRecorded), 120);
    assert_eq!(peak(Waits::Never), 30);
    let drawn: Vec<u64> = (0..40).map(|order| peak(Waits::Drawn(order))).collect();
    assert!(
        drawn.iter().all(|peak| (30..=120).contains(peak)),
        "{drawn:?}"
    );
    assert!(
        drawn.iter().any(|&peak| 30 < peak && peak < 120),
        "{drawn:?}"
    );
}

/// One free of many that waited is enough to decide whether a request fails.
#[test]
fn a_failure_that_one_waiting_free_decides_is_no_certain_one() {
    let own = Config::default();
    let mut process = Process::run(&[], &own, None);
    for _ in 0..40 {
        process.step(&Op::Alloc(4096, 0));
        process.step(&Op::FreeNewest);
    }
    process.step(&Op::Alloc(30 * MIB, 0));
    process.request_and_wait(process.held.len() - 1);
    // Had the first block been free, this would lie in its segment.
    process.step(&Op::Alloc(20 * MIB, 0));
    process.step(&Op::Alloc(40 * MIB, 0));
    let device = process.trace().unwrap();
    let question = Question {
        settings: Some(Config {
            max_split_size: Some(512 * MIB),
            ..own.clone()
        }),
        limit: Some(Bytes(64 * MIB)),
        ..Question::default()
    };
    let answer = ask(&device, &own, &question, Watch::nobody()).unwrap();
    let said = words::sentence(&answer, &device.steps);
    assert!(answer.what_if.waiting.is_some(), "{said}");
    assert!(said.contains(" might "), "{said}");
}

/// What the recorded settings had cached before a late recording is no part of what others need.
#[test]
fn a_cache_from_before_the_recording_leaves_a_doubt() {
    let own = Config::default();
    let ops = [Op::Alloc(300 * MIB, 0), Op::FreeNewest];
    let mut process = Process::run(&ops, &own, None);
    let first = process.log.len();
    process.alloc(4 * MIB, 0);
    let asked = |device: &DeviceTrace, settings: &Config| {
        let question = Question {
            settings: Some(settings.clone()),
            ..Question::default()
        };
        let answer = ask(device, &own, &question, Watch::nobody()).unwrap();
        let said = words::sentence(&answer, &device.steps);
        (answer.what_if.earlier, said)
    };
    let split = Config {
        max_split_size: Some(Bytes::mib(64).0),
        ..own.clone()
    };
    let late = process.trace_since(first).unwrap();
    let (earlier, said) = asked(&late, &split);
    let earlier = earlier.expect("300 MiB were cached");
    assert_eq!(
        (earlier.cached, earlier.is_counted),
        (Bytes::mib(300), true)
    );
    assert_eq!(earlier.peak_reserved, Bytes::mib(20));
    let expected = "Reserved memory might peak at 320 MiB (20 MiB without what was";
    assert!(said.starts_with(expected), "{said}");
    // Nothing else is asked for; and nothing is cached when a program begins.
    assert_eq!(asked(&late, &own).0, None);
    assert_eq!(asked(&process.trace().unwrap(), &split).0, None);
}

/// What a request that fails is for is given back at once, and a library may make do without.
#[test]
fn a_program_may_make_do_without_work_space() {
    let own = Config::default();
    let check = |last: u64, expected: &str| {
        let mut process = Process::run(&[600, 500].map(|mib| Op::Alloc(mib * MIB, 0)), &own, None);
        process.step(&Op::FreeNewest);
        process.step(&Op::Alloc(last * MIB, 0));
        let device = process.trace().unwrap();
        let question = Question {
            limit: Some(Bytes(1000 * MIB)),
            ..Question::default()
        };
        let answer = ask(&device, &own, &question, Watch::nobody()).unwrap();
        let said = words::sentence(&answer, &device.steps);
        let begin = "It might run out of memory under a limit of 1000 MiB";
        assert!(said.starts_with(begin), "{said}");
        let end = format!(" makes do with less. If it does, the program would {expected}");
        assert!(said.contains(&end), "{said}");
    };
    check(100, "fit, with a peak of reserved memory of 700 MiB.");
    check(450, "run out of memory ");
}

/// A memory fraction is checked with a segment of 30 MiB, a card with two pages of 20 MiB.
#[test]
fn a_full_card_may_refuse_what_a_memory_fraction_does_not() {
    let pages = Config {
        expandable_segments: true,
        ..Config::default()
    };
    let check = |own: &Config, limit: u64, differs: bool| {
        let process = Process::run(&[Op::Alloc(30 * MIB, 0)], own, None);
        let device = process.trace().unwrap();
        let question = Question {
            limit: Some(Bytes(limit * MIB)),
            ..Question::default()
        };
        let answer = ask(&device, own, &question, Watch::nobody()).unwrap();
        let said = words::sentence(&answer, &device.steps);
        assert!(said.starts_with("It would fit under a limit"), "{said}");
        let end = " That is under a memory fraction; on a card that is full at this limit it would \
                   run out of memory at event ";
        assert_eq!(said.contains(end), differs, "{said}");
    };
    check(&pages, 35, true);
    check(&pages, 45, false);
    check(&Config::default(), 35, false);
}
