//! Pages of the fixtures, and sentences by cause.

use super::{explain, page, words};
use api::contents::CategoryBytes;
use api::explain::{
    Basis, Cause, Explanation, LeakExplained, Leaks, Moment, OutOfMemory, Pin, PlaceBytes, Refusal,
    Remedy, Room,
};
use api::frames::FrameText;
use api::leaks::{Pattern, Verdict};
use std::path::Path;
use trace::categories::{Category, Named};
use trace::main_device;
use trace::phases::Phase;
use trace::reader::{Limits, Reader};
use trace::saved::Saved;
use trace::snapshot::Snapshot;
use trace::steps::Word;
use trace::trace::Trace;
use trace::units::{Bytes, EventIdx};
use trace::watch::{Stopped, Watch};

/// Recordings of the repository.
const FIXTURES: [&str; 10] = [
    "oom",
    "leak_hook_cache",
    "off_v1_moe",
    "streams",
    "plain/gan",
    "plain/serve_decode",
    "plain/single_forward",
    "plain/trainer_accumulation",
    "settings/ragged_default_limit",
    "categories/gpt_late_forward",
];

fn fixture(name: &str) -> Trace {
    trace::replay::run(snapshot(name))
}

fn snapshot(name: &str) -> Snapshot {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let bytes = std::fs::read(folder.join(format!("{name}.pickle.zst"))).expect("a fixture");
    let bytes = zstd::decode_all(&bytes[..]).expect("it is packed");
    let mut reader = Reader::new(Limits::default());
    reader.push(&bytes).expect("a snapshot");
    reader.finish().expect("a snapshot")
}

fn explained(name: &str) -> Explanation {
    let trace = fixture(name);
    told(&format!("{name}.pickle.zst"), &trace)
}

fn told(file: &str, trace: &Trace) -> Explanation {
    Watch::undisturbed(|watch| explain(file, trace, main_device::of(trace), watch))
}

/// Offloading is how memory gets there, and settings of a device's allocator do not change it.
#[test]
fn pinned_memory_of_the_host_gets_no_advice_for_a_device() {
    let trace = fixture("pinned_leak");
    let pinned = trace.pinned.as_ref().expect("it was recorded");
    let told = Watch::undisturbed(|watch| explain("pinned_leak", &trace, Some(pinned), watch));
    let device = told.device.expect("it is explained");
    let tried: Vec<&str> = device.to_try.iter().map(|a| &*a.sentence).collect();
    assert!(
        matches!(tried[..], [only] if only.starts_with("Fix the leak in")),
        "{tried:?}"
    );
}

fn to_try(name: &str) -> Vec<String> {
    let device = explained(name).device.expect("a device");
    device.to_try.into_iter().map(|a| a.sentence).collect()
}

/// `PYTORCH_CUDA_ALLOC_CONF` replaces what was set, so it is computed without that; and what was
/// set may be what costs most.
#[test]
fn settings_are_told_as_they_were_computed() {
    let of = |name: &str| to_try(&format!("settings/h100/{name}"));
    assert_eq!(
        of("frag_split128")[0],
        "Reserved memory peaks 4.29 GiB above allocated memory: under \
         `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` in place of `max_split_size_mb:128` it \
         would peak at 1.03 GiB instead of 5.18 GiB."
    );
    assert!(
        of("frag_expandable")
            .iter()
            .all(|told| !told.starts_with("Reserved"))
    );
}

/// A place is named with what it leaks itself, and what leaks is nothing to be computed in chunks.
#[test]
fn a_leak_is_told_by_place_and_not_once_more_as_a_category() {
    let told = to_try("off_v1_moe");
    assert_eq!(
        told[0],
        "Fix the leak in `unpack_tensor_with_streams off_v1.py:440`: what accumulates there holds \
         2.43 GiB at the end of the last step, and keeps growing; 2.43 GiB more accumulate at 2 \
         other places."
    );
    let is_category = |told: &String| told.contains("of the peak (inferred)");
    assert!(!told.iter().any(is_category), "{told:?}");
}

/// In a small program they are most of the peak, and nobody can compute them in chunks.
#[test]
fn workspaces_of_libraries_are_told_as_what_they_are() {
    let told = to_try("ended/lru");
    let about = "Workspaces of cuBLAS are ";
    assert!(told.iter().any(|told| told.starts_with(about)), "{told:?}");
    assert!(
        !told.iter().any(|told| told.contains("in chunks")),
        "{told:?}"
    );
}

/// Memory that waits for other streams is in use, though the program gave it back.
#[test]
fn what_waits_for_other_streams_is_told() {
    let text = page(&explained("streams"));
    let told = "28.0 MiB more had been given back, but waited for other streams";
    assert!(text.contains(told), "{text}");
    assert!(text.contains("| … more pools | 4.00 MiB |"), "{text}");
}

/// A state without events is told like any other moment.
#[test]
fn a_state_alone_is_told_whole() {
    let mut snapshot = snapshot("plain/single_forward");
    snapshot.devices.clear();
    let trace = trace::replay::run(snapshot);
    let told = told("state", &trace).device.expect("a device");
    assert_eq!(told.events, 0);
    let peak = told.peak.expect("memory");
    let sum: Bytes = peak.categories.iter().map(|c| c.bytes).sum();
    assert_eq!(sum, peak.allocated);
    assert!(!peak.places.is_empty());
    let room = told.room.expect("all segments are there");
    assert_eq!(room.free, peak.reserved - peak.allocated);
}

/// Whenever it is stopped, there is no answer: half an explanation would blame whatever it had
/// seen.
#[test]
fn what_is_stopped_is_not_told_by_half() {
    for name in ["oom", "leak_hook_cache"] {
        let trace = fixture(name);
        let stopped_after = |looks: u32| {
            let seen = std::cell::Cell::new(0);
            let go_on = |_| seen.replace(seen.get() + 1) < looks;
            explain(name, &trace, main_device::of(&trace), Watch::new(&go_on)).map(|_| seen.get())
        };
        let looks = stopped_after(u32::MAX).expect("nobody stops it");
        assert!(looks > 3, "{name}: {looks}");
        for after in [0, 1, looks / 2, looks - 1] {
            assert_eq!(stopped_after(after), Err(Stopped), "{name}: {after}");
        }
        assert_eq!(stopped_after(looks), Ok(looks));
    }
}

#[test]
fn pages_of_recordings() {
    for name in [
        "oom",
        "settings/ragged_default_limit",
        "plain/single_forward",
        "streams",
    ] {
        let file = name.replace('/', "_");
        insta::assert_snapshot!(file, page(&explained(name)));
    }
}

/// The page is short enough: a person reads it quickly, and a model takes it whole.
#[test]
fn a_page_stays_a_page_and_its_numbers_sum_up() {
    for name in FIXTURES {
        let explanation = explained(name);
        let text = page(&explanation);
        assert!(text.len() < 12 << 10, "{name}: {} bytes", text.len());
        let device = explanation.device.as_ref().expect("a device");
        let held = device.out_of_memory.as_ref().map(|oom| &oom.held);
        for moment in device.peak.iter().chain(held) {
            let sum: Bytes = moment.categories.iter().map(|c| c.bytes).sum();
            assert_eq!(
                sum, moment.allocated,
                "{name}: categories at {:?}",
                moment.event
            );
            let places: Bytes = moment.places.iter().map(|place| place.bytes).sum();
            match moment.places_left_out {
                0 => assert_eq!(places, moment.allocated, "{name}"),
                _ => assert!(places < moment.allocated, "{name}"),
            }
        }
        for room in device.room.iter() {
            assert_eq!(room.free, room.cached + room.split, "{name}");
            let peak = device.peak.as_ref().expect("memory");
            assert!(
                room.free <= peak.reserved.saturating_sub(peak.allocated),
                "{name}"
            );
        }
        let text = serde_json::to_string(&explanation).expect("plain data");
        let read: Explanation = serde_json::from_str(&text).expect("what was written");
        assert_eq!(read.file, explanation.file);
    }
}

/// Names of a recording are shown, but never act as markup.
#[test]
fn names_cannot_break_out_of_a_page() {
    let mut trace = fixture("oom");
    let hostile = "x`|<img src=x>\n# y";
    trace.format.torch_guess = Some(hostile.to_owned());
    let text = page(&told(hostile, &trace));
    assert!(!text.contains("<img") && !text.contains("\n# y"), "{text}");
}

#[test]
fn a_file_without_devices_is_said_to_be_empty() {
    let text = page(&told("empty.pickle", &Trace::default()));
    assert_eq!(
        text,
        "# GPU memory of empty.pickle\n\nNo device holds memory or events.\n"
    );
}

/// A failure with a cause: 100 MiB of 1 GiB asked for, 900 MiB in use, 960 MiB reserved.
fn failure(cause: Cause) -> OutOfMemory {
    OutOfMemory {
        held: Moment {
            event: Some(EventIdx(9)),
            step: None,
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
        retries_before: Some(0),
        leaked: Bytes::ZERO,
        later_failures: 0,
        cause,
        why: String::new(),
        what_would_have_helped: String::new(),
        remedies: Vec::new(),
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
    }
}

const FAILS: words::Replays<'_> = words::Replays {
    whole_step: None,
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
         leak fills what is left in 5 more steps. A batch 1/2 as large gets past it with about \
         950 MiB reserved (estimated: what grows with the batch shrinks, all else stays), but the \
         leak fills what is left in the next step. What would have been asked for next was not \
         recorded.",
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
        (13, "fills what is left in 13 more layers."),
        (1, "fills what is left in one more layer."),
        (0, "fills what is left in the next layer."),
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

/// Where the step needs more than the limit, a setting comes last, and what lowers the largest part
/// is told.
#[test]
fn a_step_that_needs_more_than_the_limit_is_no_matter_of_settings() {
    let oom = OutOfMemory {
        remedies: vec![
            remedy("1/2 of the batch", Basis::Estimated, None),
            remedy("expandable_segments:True", Basis::Computed, None),
        ],
        ..failure(Cause::Demand)
    };
    let replays = words::Replays {
        whole_step: Some(Bytes::gib(2)),
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
        "expandable_segments:True",
        "it needs about 2.00 GiB in all",
        "Activations are 70 %",
    ];
    assert!(parts.map(at).is_sorted(), "{told}");
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
