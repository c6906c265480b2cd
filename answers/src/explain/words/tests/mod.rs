//! Sentences by cause, of failures that are made up; `unsure`: where a recording does not tell.

mod unsure;

use super::super::words;
use api::contents::CategoryBytes;
use api::explain::{
    Basis, Cause, LeakExplained, Leaks, Moment, OutOfMemory, Pin, PlaceBytes, Refusal, Remedy,
    Room, WholePass,
};
use api::frames::FrameText;
use api::leaks::{Pattern, Verdict};
use trace::categories::{Category, Named};
use trace::failing::Saved;
use trace::phases::Phase;
use trace::steps::Word;
use trace::units::{Bytes, EventIdx};

/// A failure with a cause: 100 MiB of 1 GiB asked for, 900 MiB in use, 960 MiB reserved.
fn failure(cause: Cause) -> OutOfMemory {
    OutOfMemory {
        held: Moment {
            event: Some(EventIdx(9)),
            step: None,
            phase: Phase::Forward,
            scope: None,
            allocated: Bytes::mib(900),
            reserved: Bytes::mib(960),
            categories: [
                (Category::Activation, 700),
                (Category::Parameter, 150),
                (Category::Input, 50),
            ]
            .map(|(category, mib)| CategoryBytes {
                category: category.into(),
                bytes: Bytes::mib(mib),
                inferred: Bytes::mib(mib),
            })
            .into(),
            places: vec![PlaceBytes {
                place: "forward model.py:12".to_owned(),
                frame: Some(frame("forward", "/srv/model.py", 12)),
                count: 7,
                bytes: Bytes::mib(700),
            }],
            places_left_out: 2,
        },
        room: Some(Room {
            event: Some(EventIdx(9)),
            free: Bytes::mib(60),
            cached: Bytes::ZERO,
            split: Bytes::mib(60),
            kept: Bytes::ZERO,
            largest_gap: Bytes::mib(20),
            pools: Vec::new(),
            pins: vec![Pin {
                place: "norm model.py:30".to_owned(),
                segments: 3,
                used: Bytes::kib(2),
                free: Bytes::mib(58),
            }],
        }),
        phase: Phase::Forward,
        asked: Bytes::mib(100),
        segment: Some(Bytes::mib(100)),
        free: Some(Bytes::mib(10)),
        refused_by: Refusal::Device,
        limit_at_least: Some(Bytes::mib(970)),
        limit_below: Some(Bytes::mib(1060)),
        is_limit_narrowed: false,
        retries_before: Some(0),
        leaked: Bytes::ZERO,
        later_failures: 0,
        cause,
        why: String::new(),
        what_would_have_helped: String::new(),
        remedies: Vec::new(),
        settings_perhaps: Vec::new(),
        whole_pass: None,
        outgrown: None,
    }
}

fn frame(name: &str, filename: &str, line: u32) -> FrameText {
    FrameText {
        name: name.to_owned(),
        filename: filename.to_owned(),
        line,
    }
}

fn no_leaks() -> Leaks {
    Leaks {
        verdict: Verdict::Clean,
        reason: String::new(),
        caveats: Vec::new(),
        reserved_growth: None,
        bytes_per_step: 0.0,
        rate: 0.0,
        groups: Vec::new(),
        groups_left_out: 0,
    }
}

fn a_leak() -> Leaks {
    Leaks {
        verdict: Verdict::Leak,
        bytes_per_step: 4e6,
        rate: 4e6,
        groups: vec![LeakExplained {
            made_in: None,
            place: "forward llama.py:7".to_owned(),
            pattern: Pattern::EveryStep,
            bytes_per_step: 3e6,
            requested_per_step: None,
            counted_by: "a step".to_owned(),
            count_per_step: 1.0,
            live_bytes: Bytes::mib(30),
            confidence: 0.9,
            forward: None,
            stack: vec![
                frame("forward", "/v/site-packages/llm/llama.py", 7),
                frame("train", "/srv/train.py", 40),
            ],
            caller: Some(frame("train", "/srv/train.py", 40)),
        }],
        ..no_leaks()
    }
}

fn remedy(change: &str, basis: Basis, steps_until_full: Option<u64>) -> Remedy {
    Remedy {
        change: change.to_owned(),
        basis,
        peak_reserved: Bytes::mib(950),
        left: Bytes::mib(20),
        steps_until_full,
        steps_until_full_at_most: steps_until_full,
    }
}

const FAILS: words::Replays<'_> = words::Replays {
    grows: Bytes::mib(700),
    lowers: None,
    fails: true,
    expands: false,
    saved: NOTHING,
    step: Word::Step,
};
const NOTHING: Saved = Saved {
    bytes: Bytes::ZERO,
    usual: None,
};
const NOBODY: words::Request<'_> = words::Request {
    peak_before: Bytes::ZERO,
    place: "",
    operation: None,
    line: None,
    is_rounded: false,
    optimizer_made: Bytes::ZERO,
    step: Word::Step,
};

#[test]
fn why_says_who_asked_what_refused_it_and_the_cause() {
    let check = |oom: &OutOfMemory, leaks: &Leaks, request: &words::Request<'_>, expected: &str| {
        assert_eq!(words::why(oom, leaks, request), expected);
    };
    let known = words::Request {
        place: "in step 3, in the forward pass",
        operation: Some("mm"),
        line: Some("forward model.py:12"),
        ..NOBODY
    };
    check(
        &failure(Cause::Demand),
        &no_leaks(),
        &known,
        "In step 3, in the forward pass, `mm`, called by `forward model.py:12`, asked for 100 \
         MiB: the device had 10.0 MiB free, and the process 960 MiB reserved. The program needed \
         more than there was: 900 MiB were in use, mostly activations (700 MiB) and parameters \
         (150 MiB), the largest part asked for by `forward model.py:12` (700 MiB); only 60.0 MiB \
         of what was reserved were free, and it was short by up to 90.0 MiB.",
    );
    let rounded = words::Request {
        is_rounded: true,
        ..NOBODY
    };
    let told = words::why(&failure(Cause::Demand), &no_leaks(), &rounded);
    assert!(
        told.starts_with("The program asked for up to 100 MiB: "),
        "{told}"
    );
    let limited = OutOfMemory {
        refused_by: Refusal::ProcessLimit,
        free: Some(Bytes::gib(40)),
        retries_before: Some(2),
        ..failure(Cause::Fragmentation)
    };
    check(
        &limited,
        &no_leaks(),
        &NOBODY,
        "The program asked for 100 MiB: a memory limit of the process between 970 MiB and 1.04 \
         GiB, as `set_per_process_memory_fraction` sets one, refused it; the device had 40.0 GiB \
         free. The cause is fragmentation: 60.0 MiB of the 960 MiB reserved were not in use, but \
         in pieces of 20.0 MiB at most, and it was short by up to 90.0 MiB; 58.0 MiB lie in \
         segments that a few blocks keep from being given back, the most behind 2.00 KiB of \
         `norm model.py:30`. The cache had been emptied for a request 2 times before.",
    );
    let silent = OutOfMemory {
        refused_by: Refusal::NotKnown,
        free: None,
        ..failure(Cause::Demand)
    };
    let told = words::why(&silent, &no_leaks(), &NOBODY);
    let says = "100 MiB: the process had 960 MiB reserved; the recording does not say what the \
                device had free. The program needed";
    assert!(told.contains(says), "{told}");
    let leaked = OutOfMemory {
        leaked: Bytes::mib(30),
        ..failure(Cause::Leak)
    };
    check(
        &leaked,
        &a_leak(),
        &NOBODY,
        "The program asked for 100 MiB: the device had 10.0 MiB free, and the process 960 MiB \
         reserved. The cause is a leak: 30.0 MiB of the 900 MiB in use had been left behind by \
         earlier steps, 3.81 MiB more with each, most of it made by `forward llama.py:7` (called \
         by `train train.py:40`).",
    );
}

#[test]
fn leaks_of_one_line_are_told_by_what_makes_them() {
    let mut leak = a_leak().groups.remove(0);
    assert_eq!(words::made_in(&leak), "");
    let file = "/v/site-packages/torch/nn/functional.py";
    leak.made_in = Some(frame("gelu", file, 7));
    let told = words::made_in(&leak);
    assert_eq!(told, ", in `gelu torch/nn/functional.py:7`");
}

/// All figures are of the leak that is told, in what it is counted by.
#[test]
fn a_leak_within_steps_is_told_by_the_part_of_a_step() {
    let leak = a_leak();
    let group = LeakExplained {
        made_in: None,
        pattern: Pattern::WithinStep,
        counted_by: "a part of a step".to_owned(),
        ..leak.groups[0].clone()
    };
    let within = |rate| Leaks {
        bytes_per_step: 0.0,
        rate,
        groups: vec![group.clone()],
        ..no_leaks()
    };
    let oom = OutOfMemory {
        leaked: Bytes::mib(30),
        ..failure(Cause::Leak)
    };
    for (rate, how) in [
        (3e6, "made by"),
        (5e6, "most of it made by"),
        (9e6, "the largest part"),
    ] {
        let told = words::why(&oom, &within(rate), &NOBODY);
        let each = format!(
            "had been left behind, {} more with each part of a step, {how}",
            Bytes(rate as u64)
        );
        assert!(told.contains(&each), "{told}");
    }
}

/// Where a limit was set late, and where nobody can tell whether pieces were to blame.
#[test]
fn less_is_said_of_the_cause_where_less_is_known() {
    let limited = OutOfMemory {
        refused_by: Refusal::ProcessLimit,
        ..failure(Cause::Fragmentation)
    };
    // More was in use before than this limit lets.
    let before = |mib: u64| words::Request {
        peak_before: Bytes::mib(mib),
        ..NOBODY
    };
    let lowered = "Before, up to 2.00 GiB had been in use: the limit was set, or lowered, since";
    let told = words::why(&limited, &no_leaks(), &before(2048));
    assert!(told.contains(lowered), "{told}");
    let told = words::why(&limited, &no_leaks(), &before(1000));
    assert!(!told.contains("Before, "), "{told}");
    // Pieces that would have served the request, and next to nothing else.
    let mut little = failure(Cause::NotKnown);
    little.room.as_mut().expect("it has one").free = Bytes::mib(110);
    let told = words::why(&little, &no_leaks(), &NOBODY);
    let nearly = "Nearly all of the 960 MiB reserved was in use: 900 MiB, mostly activations (700 \
                  MiB) and parameters (150 MiB), the largest part asked for by `forward \
                  model.py:12` (700 MiB). The 110 MiB that were not lay in pieces of 20.0 MiB at \
                  most.";
    assert!(told.ends_with(nearly), "{told}");
}

/// A full device tells how much was there, and a small request needs a segment that is larger.
#[test]
fn how_much_was_missing_is_said_as_exactly_as_it_is_known() {
    let full = |oom: OutOfMemory| OutOfMemory {
        limit_at_least: Some(Bytes::mib(1000)),
        limit_below: Some(Bytes::mib(1000) + Bytes(1)),
        ..oom
    };
    let small = OutOfMemory {
        asked: Bytes::mib(8),
        segment: Some(Bytes::mib(20)),
        limit_at_least: Some(Bytes::mib(976)),
        // Pieces of the same pool that are as large would have served it.
        room: None,
        ..failure(Cause::Demand)
    };
    let pools = |oom: OutOfMemory, gap: Bytes| OutOfMemory {
        room: oom.room.map(|room| Room {
            largest_gap: gap,
            pins: Vec::new(),
            ..room
        }),
        ..oom
    };
    let check = |oom: OutOfMemory, expected: &str| {
        let told = words::why(&oom, &no_leaks(), &NOBODY);
        assert!(told.ends_with(expected), "{told}");
    };
    check(
        full(failure(Cause::Demand)),
        "only 60.0 MiB of what was reserved were free, and it was short by 60.0 MiB.",
    );
    check(
        small,
        "were free, and it was short by up to 4.00 MiB of the segment of 20.0 MiB that the request \
         needed.",
    );
    check(
        pools(full(failure(Cause::Fragmentation)), Bytes::mib(20)),
        "60.0 MiB of the 960 MiB reserved were not in use, but in pieces of 20.0 MiB at most, and \
         it was short by 60.0 MiB.",
    );
    let elsewhere = OutOfMemory {
        asked: Bytes::mib(30),
        ..failure(Cause::Fragmentation)
    };
    check(
        pools(elsewhere, Bytes::mib(40)),
        "but in pieces of 40.0 MiB at most in other pools.",
    );
    let beside_a_leak = OutOfMemory {
        asked: Bytes::mib(30),
        ..failure(Cause::Leak)
    };
    let told = words::why(&pools(beside_a_leak, Bytes::mib(40)), &a_leak(), &NOBODY);
    let expected = "but in pieces of 40.0 MiB at most in other pools.";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn what_would_have_helped_is_ranked_and_labelled() {
    let check = |oom: &OutOfMemory, leaks: &Leaks, expected: &str| {
        assert_eq!(words::helped(oom, leaks, FAILS), expected);
    };
    let leaking = OutOfMemory {
        phase: Phase::Backward,
        remedies: vec![
            remedy("no leaks", Basis::Computed, None),
            remedy("expandable_segments:True", Basis::Computed, Some(5)),
            remedy("max_split_size_mb:128", Basis::Computed, Some(1)),
            remedy("1/2 of the batch", Basis::Estimated, Some(0)),
        ],
        ..failure(Cause::Leak)
    };
    check(
        &leaking,
        &a_leak(),
        "Fix the leak at `forward llama.py:7` (called by `train train.py:40`): had what leaks \
         been given back at the end of each step, the program would have got past this with 950 \
         MiB reserved, 20.0 MiB below the limit (computed). \
         `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` alone gets past it with 950 MiB \
         reserved under a limit of 970 MiB (computed); so does `max_split_size_mb:128`, but the \
         leak fills what is left in about 5 more steps, if they are like those before. A batch 1/2 \
         as large gets past it with about 950 MiB reserved (estimated: what grows with the batch \
         shrinks, all else stays), but the leak fills what is left in the next step, if it is like \
         those before. What would have been asked for next was not recorded.",
    );
    let defaults = OutOfMemory {
        remedies: vec![
            remedy("default settings", Basis::Computed, None),
            remedy("max_split_size_mb:64", Basis::Computed, None),
        ],
        ..failure(Cause::Fragmentation)
    };
    let told = words::helped(&defaults, &no_leaks(), FAILS);
    let begin = "Without settings, by its defaults, the allocator gets past it with 950 MiB \
                 reserved under a limit of 970 MiB (computed); so does `max_split_size_mb:64`.";
    assert!(told.starts_with(begin), "{told}");
    // Under the largest limit that fits the recording there may have been room.
    let told = words::helped(&failure(Cause::Demand), &no_leaks(), FAILS);
    let begin = "No allocator setting that was tried is sure to get past it. That depends on the \
                 limit, which the recording does not tell exactly: ask *What if*";
    assert!(told.starts_with(begin), "{told}");
    let known = OutOfMemory {
        limit_below: Some(Bytes(Bytes::mib(970).0 + 1)),
        ..failure(Cause::Demand)
    };
    check(
        &known,
        &no_leaks(),
        "No allocator setting that was tried gets past it: the memory was in use, not in pieces. \
         A quarter of the batch would not have been enough (estimated). What lowers demand: a \
         smaller batch or sequence with gradient accumulation, activation checkpointing or \
         offloading, sharding or a lower precision of what lasts.",
    );
}

/// Another loop may be chosen as the steps.
#[test]
fn a_leak_is_told_by_what_the_steps_are() {
    let step = Word::Layer;
    let leaking = |steps_until_full| OutOfMemory {
        leaked: Bytes::mib(30),
        remedies: vec![
            remedy("no leaks", Basis::Computed, None),
            remedy(
                "expandable_segments:True",
                Basis::Computed,
                steps_until_full,
            ),
        ],
        ..failure(Cause::Leak)
    };
    let leaks = a_leak();
    let request = words::Request { step, ..NOBODY };
    for cause in [Cause::Leak, Cause::Demand] {
        let oom = OutOfMemory {
            cause,
            ..leaking(None)
        };
        let told = words::why(&oom, &leaks, &request);
        assert!(told.contains("left behind by earlier layers"), "{told}");
    }
    let replays = words::Replays { step, ..FAILS };
    for (until, expected) in [
        (
            13,
            "left in about 13 more layers, if they are like those before.",
        ),
        (
            1,
            "left in about one more layer, if they are like those before.",
        ),
        (0, "left in the next layer, if it is like those before."),
    ] {
        let told = words::helped(&leaking(Some(until)), &leaks, replays);
        assert!(told.contains(expected), "{told}");
        assert!(told.contains("at the end of each layer,"), "{told}");
        assert!(!told.contains("step"), "{told}");
    }
}

/// What forward passes keep for a backward pass that may never come.
#[test]
fn an_evaluation_that_keeps_its_graphs_is_told_how_not_to() {
    let check = |bytes: u64, usual: Option<u64>, expected: &str| {
        let saved = Saved {
            bytes: Bytes::mib(bytes),
            usual: usual.map(Bytes::mib),
        };
        let replays = words::Replays { saved, ..FAILS };
        let told = words::helped(&failure(Cause::Demand), &no_leaks(), replays);
        let says = told.contains("`torch.no_grad()`");
        assert_eq!(says, !expected.is_empty(), "{told}");
        assert!(told.contains(expected), "{told}");
    };
    check(
        600,
        Some(200),
        "600 MiB of activations for another one, 3.0 times as much",
    );
    check(300, Some(200), "");
    check(
        600,
        None,
        "No backward pass was recorded before this: if none is to follow",
    );
    check(300, None, "");
}

/// A larger batch is the cause, and the whole step is told.
#[test]
fn a_step_that_asked_for_more_at_the_same_lines_is_told() {
    let oom = OutOfMemory {
        whole_pass: Some(WholePass {
            least: Bytes::gib(7),
            times_as_large: Some(38.2),
            is_too_much: true,
            batch: None,
            with_batch: None,
        }),
        ..failure(Cause::Demand)
    };
    let why = words::why(&oom, &no_leaks(), &NOBODY);
    let expected = "needed more than there was, for this step asked for 38 times as much at the \
                    same lines as the largest before: ";
    assert!(why.contains(expected), "{why}");
    let told = words::helped(&oom, &no_leaks(), FAILS);
    let expected = "All of this step needs about 7.00 GiB (estimated), more than the limit.";
    assert!(told.contains(expected), "{told}");
}

/// Where the step needs more than the limit, a setting comes last, and what lowers the largest part
/// is told.
#[test]
fn a_step_that_needs_more_than_the_limit_is_no_matter_of_settings() {
    let oom = OutOfMemory {
        remedies: vec![
            remedy("1/2 of the batch", Basis::Estimated, None),
            remedy("expandable_segments:True", Basis::Computed, None),
        ],
        whole_pass: Some(WholePass {
            least: Bytes::gib(2),
            times_as_large: None,
            is_too_much: true,
            batch: Some("1/4 of the batch".to_owned()),
            with_batch: Some(Bytes::mib(870)),
        }),
        ..failure(Cause::Demand)
    };
    let replays = words::Replays {
        lowers: Some("Activations are 70 % of it."),
        ..FAILS
    };
    let told = words::helped(&oom, &no_leaks(), replays);
    let at = |part: &str| {
        told.find(part)
            .unwrap_or_else(|| panic!("{part} in {told}"))
    };
    let parts = [
        "A batch 1/2",
        "For the whole pass rather take 1/4: one like the largest before then needs about 870 MiB \
         (estimated).",
        "expandable_segments:True",
        "it needs about 2.00 GiB in all",
        "Activations are 70 %",
    ];
    assert!(parts.map(at).is_sorted(), "{told}");
}

/// Where somebody tells the limit, nothing depends on it any more.
#[test]
fn what_depends_on_the_limit_is_certain_where_it_is_told() {
    let told = |below: Bytes| {
        let oom = OutOfMemory {
            asked: Bytes::mib(40),
            limit_at_least: Some(Bytes::mib(960)),
            limit_below: Some(below),
            refused_by: Refusal::ProcessLimit,
            ..failure(Cause::Fragmentation)
        };
        let oom = OutOfMemory { room: None, ..oom };
        let why = words::why(&oom, &no_leaks(), &NOBODY);
        (why, words::helped(&oom, &no_leaks(), FAILS))
    };
    let (why, helped) = told(Bytes::mib(1060));
    assert!(why.contains("between 960 MiB and 1.04 GiB"), "{why}");
    assert!(helped.contains("ask *What if*"), "{helped}");
    // So it is of memory in pieces that would have served the request together.
    let mut pieces = failure(Cause::Fragmentation);
    pieces.room.as_mut().expect("it has one").free = Bytes::mib(110);
    let helped_of_pieces = words::helped(&pieces, &no_leaks(), FAILS);
    assert!(
        helped_of_pieces.contains("ask *What if*"),
        "{helped_of_pieces}"
    );
    let (why, helped) = told(Bytes(Bytes::mib(960).0 + 1));
    assert!(
        why.contains("a memory limit of the process of 960 MiB, as"),
        "{why}"
    );
    assert!(!helped.contains("ask *What if*"), "{helped}");
    let says = "No allocator setting that was tried is sure to get past it.";
    assert!(helped.contains(says), "{helped}");
}

#[test]
fn a_batch_that_is_not_known_is_not_judged() {
    let check = |grows: u64, expected: &str| {
        let replays = words::Replays {
            grows: Bytes::mib(grows),
            ..FAILS
        };
        let told = words::helped(&failure(Cause::Demand), &no_leaks(), replays);
        assert!(told.contains(expected), "{told}");
    };
    check(700, "A quarter of the batch would not have been enough");
    check(100, "cannot be estimated: only 100 MiB of what was in use");
    let mut lasts = failure(Cause::Demand);
    lasts.held.categories = vec![CategoryBytes {
        category: Named::Ours(Category::OptimizerState),
        bytes: Bytes::mib(800),
        inferred: Bytes::mib(800),
    }];
    let replays = words::Replays {
        grows: Bytes::mib(100),
        ..FAILS
    };
    let told = words::helped(&lasts, &no_leaks(), replays);
    let says = "A smaller batch would save little: only 100 MiB of what was in use grow with it.";
    assert!(told.contains(says), "{told}");
}

#[test]
fn an_optimizer_that_makes_its_state_is_told() {
    let request = words::Request {
        optimizer_made: Bytes::mib(64),
        ..NOBODY
    };
    let told = words::why(&failure(Cause::Demand), &no_leaks(), &request);
    assert!(
        told.contains("making its state, of which 64.0 MiB were there"),
        "{told}"
    );
}

/// Expandable segments are no advice where they were in use, or were tried in vain.
/// 970 MiB are all that there was for this process, whatever it held.
#[test]
fn what_the_process_held_is_not_to_blame_where_nothing_would_have_fitted() {
    let told = |asked: u64, refused_by| {
        let oom = OutOfMemory {
            asked: Bytes::mib(asked),
            refused_by,
            ..failure(Cause::Demand)
        };
        words::helped(&oom, &no_leaks(), FAILS)
    };
    let hopeless = "Nothing that the process held: with nothing else in memory the request would \
                    not have fitted either, since the device had 970 MiB for this process.";
    assert!(told(980, Refusal::Device).starts_with(hopeless));
    assert!(!told(960, Refusal::Device).contains("nothing else in memory"));
    assert!(!told(980, Refusal::ProcessLimit).contains("nothing else in memory"));
}

#[test]
fn what_did_not_help_is_no_advice() {
    let check = |fails: bool, expands: bool, advised: bool| {
        let replays = words::Replays {
            fails,
            expands,
            ..FAILS
        };
        let told = words::helped(&failure(Cause::Fragmentation), &no_leaks(), replays);
        assert_eq!(
            told.contains("`expandable_segments:True`"),
            advised,
            "{told}"
        );
        assert!(told.ends_with("(padding to a few lengths)."), "{told}");
        let begin = "Which change would have got past it cannot be computed";
        assert_eq!(told.starts_with(begin), !fails, "{told}");
    };
    check(false, false, true);
    check(false, true, false);
    check(true, false, false);
    check(true, true, false);
}
