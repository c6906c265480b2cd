//! Pages of the fixtures.

use super::{explain, page, refusal_of};
use api::explain::{Advice, Explanation};
use std::path::Path;
use trace::main_device;
use trace::reader::{Limits, Reader};
use trace::snapshot::Snapshot;
use trace::span::Span;
use trace::testing::{TraceBuilder, block_of};
use trace::trace::{Action, Step, Trace};
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
    Watch::undisturbed(|watch| explain(file, trace, main_device::of(trace), None, watch))
}

/// Offloading is how memory gets there, and settings of a device's allocator do not change it.
#[test]
fn pinned_memory_of_the_host_gets_no_advice_for_a_device() {
    let trace = fixture("pinned_leak");
    let pinned = trace.pinned.as_ref().expect("it was recorded");
    let told =
        Watch::undisturbed(|watch| explain("pinned_leak", &trace, Some(pinned), None, watch));
    let device = told.device.expect("it is explained");
    let tried: Vec<&str> = device.to_try.iter().map(|a| &*a.sentence).collect();
    assert!(
        matches!(tried[..], [only] if only.starts_with("Fix the leak in")),
        "{tried:?}"
    );
}

/// A recording as JSON, with one device and perhaps the CPU.
fn of_json(text: &str) -> Trace {
    let mut reader = Reader::new(Limits::default());
    reader.push(text.as_bytes()).expect("a snapshot");
    trace::replay::run(reader.finish().expect("a snapshot"))
}

/// What was before the dump is not known, so it is not told.
#[test]
fn a_state_is_told_as_its_end_alone() {
    let state = |traces: &str| {
        format!(
            r#"{{"segments": [{{"device": 0, "address": 4194304, "total_size": 20971520,
            "stream": 0, "segment_type": "large", "blocks": [
            {{"address": 4194304, "size": 8388608, "requested_size": 8388608,
              "state": "active_allocated", "frames": []}},
            {{"address": 12582912, "size": 12582912, "requested_size": 0, "state": "inactive",
              "frames": []}}]}}], "device_traces": [[{traces}]]}}"#
        )
    };
    let event = r#"{"action": "free_completed", "addr": 12582912, "size": 512, "stream": 0,
                    "frames": []}"#;
    for events in ["", event] {
        let trace = of_json(&state(events));
        let explanation = told("state.json", &trace);
        let page = page(&explanation);
        for part in [
            "| allocated | unknown | ≥ 8.00 MiB | 8.00 MiB |",
            "| reserved | unknown | ≥ 20.0 MiB | 20.0 MiB |",
            "## What is held",
            "The only state: 8.00 MiB allocated, 20.0 MiB reserved.",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        for part in ["peak,", "Before the first event", "0 of 0", "At the peak"] {
            assert!(!page.contains(part), "{part}: {page}");
        }
    }
}

/// No allocator wrote it: addresses of tensors, a segment that spans all of them, and the CPU.
#[test]
fn a_profile_does_not_tell_what_was_reserved() {
    let event = |action: &str, addr: u32| {
        let category = match action {
            "alloc" => r#", "category": "parameter""#,
            _ => "",
        };
        format!(
            r#"{{"action": "{action}", "addr": {addr}, "size": 4194304, "stream": 0, "frames": [
            {{"filename": "none", "line": 0, "name": "train.py(64): step"}}]{category}}}"#
        )
    };
    let text = format!(
        r#"{{"device_traces": [[{}, {}, {}, {}], [{}]], "segments": [
        {{"device": 0, "address": 4194304, "total_size": 4294967296, "stream": 0, "blocks": [
        {{"size": 4194304, "requested_size": 4194304, "state": "active_allocated", "frames": []}},
        {{"size": 4290772992, "state": "inactive"}}]}},
        {{"device": 1, "address": 8388608, "total_size": 4194304, "stream": 0, "blocks": [
        {{"size": 4194304, "requested_size": 4194304, "state": "active_allocated",
          "frames": []}}]}}]}}"#,
        event("alloc", 4_194_304),
        event("alloc", 1_073_741_824),
        event("free_requested", 1_073_741_824),
        event("free_completed", 1_073_741_824),
        event("alloc", 8_388_608),
    );
    let explanation = told("profile.json", &of_json(&text));
    let page = page(&explanation);
    for part in [
        "A recording, device 0:",
        "| allocated | 0 B | 8.00 MiB | 4.00 MiB |",
        "| reserved | unknown | unknown | unknown |",
        "Event 1: 8.00 MiB allocated.",
        "| `step train.py:64` | 8.00 MiB | 2 |",
        "device 1 is the CPU",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    for part in ["Fragmentation", "PyTorch 2.0", "predict"] {
        assert!(!page.contains(part), "{part}: {page}");
    }
    let codes: Vec<&str> = explanation.notes.iter().map(|note| &*note.code).collect();
    assert_eq!(codes, ["made_of_profile"]);
}

/// Nobody may take it that there was nothing to find.
#[test]
fn why_no_category_is_told_is_said() {
    let mut explanation = explained("plain/gan");
    let why = "finding it would take too much";
    let device = explanation.device.as_mut().expect("a device");
    assert_eq!(device.categories_unknown, None);
    device.categories_unknown = Some(why.to_owned());
    assert!(page(&explanation).contains("\nFinding it would take too much.\n"));
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

/// Other runs of a program with several streams reach other peaks.
#[test]
fn a_peak_that_depends_on_streams_is_told_with_its_range() {
    let told = &to_try("settings/h100/streams_default")[0];
    let range = "it would peak at 462 MiB (462 MiB to 522 MiB, depending on when other streams are \
                 done) instead of 858 MiB.";
    assert!(told.ends_with(range), "{told}");
}

/// A lower peak may be the error of the replay, where it does not give the recorded one either.
#[test]
fn no_setting_is_advised_where_those_of_the_recording_give_another_peak() {
    let mut trace = fixture("settings/h100/frag_default");
    let is_advised = |trace: &Trace| {
        let device = told("frag", trace).device.expect("a device");
        let mut to_try = device.to_try.iter();
        to_try.any(|advice| advice.sentence.starts_with("Reserved memory"))
    };
    assert!(is_advised(&trace));
    // What this program asks for takes up to half as much again under it.
    let divisions = (0..16).map(|n| {
        let name = format!("roundup_power2_divisions.{}", 1 << n);
        (name, "2".to_owned())
    });
    trace.format.settings = divisions.collect();
    assert!(!is_advised(&trace));
}

/// What changes next to nothing is nothing to try.
#[test]
fn a_setting_that_would_not_help_is_told_beside_the_pieces() {
    let explanation = explained("trainers/cgtrees");
    let page = page(&explanation);
    let device = explanation.device.expect("a device");
    let told = device.other_settings.expect("it was tried");
    assert!(told.ends_with("(computed)."), "{told}");
    let pieces = page.split("## Fragmentation").nth(1).expect("a part");
    let pieces = pieces.split("\n## ").next().expect("its text");
    assert!(pieces.contains(&told), "{page}");
    let is_of_settings = |told: &Advice| told.sentence.starts_with("Reserved memory");
    assert!(!device.to_try.iter().any(is_of_settings));
}

/// Where a phase has a name, and where the others peak, a person asks first.
#[test]
fn a_peak_is_told_with_its_phase_and_what_the_others_reach() {
    for (name, told) in [
        (
            "trainers/cgtrees",
            "in step 1, in the backward pass: 185 MiB allocated, 238 MiB reserved. Step 1 alone \
             peaks so high, the median step at 104 MiB.",
        ),
        (
            "mended/vae_ring",
            "That is before the first whole step; the steps peak at 82.9 MiB at most.",
        ),
    ] {
        let page = page(&explained(name));
        assert!(page.contains(told), "{name}: {page}");
    }
}

#[test]
fn what_is_told_to_lower_a_peak_is_of_the_optimizer_that_makes_it() {
    let some = |name: &str, part: &str| {
        let told = to_try(name);
        assert!(told.iter().any(|told| told.contains(part)), "{told:?}");
    };
    some(
        "settings/h100/lm_ckpt_default",
        "268 MiB are temporaries of the optimizer's step",
    );
    some("habits/lbfgs_clean", "a shorter history of L-BFGS");
    let told = to_try("habits/lbfgs_clean");
    assert!(!told.iter().any(|told| told.contains("fused")), "{told:?}");
}

/// A place is named with what it leaks itself, and what leaks is nothing to be computed in chunks.
#[test]
fn a_leak_is_told_by_place_and_not_once_more_as_a_category() {
    let told = to_try("off_v1_moe");
    assert_eq!(
        told[0],
        "Fix the leak in `unpack_tensor_with_streams off_v1.py:440`: what accumulates there holds \
         2.43 GiB at the end of the last whole step, and keeps growing; 2.43 GiB more accumulate \
         at 2 other places."
    );
    let is_category = |told: &String| told.contains("of the peak (inferred)");
    assert!(!told.iter().any(is_category), "{told:?}");
}

/// What a recorder noted, as the bench does, is known.
#[test]
fn only_what_no_recorder_noted_is_called_inferred() {
    let explained = |noted: &str| {
        let event = |at: u64| {
            let addr = at << 20;
            format!(r#"{{"action": "alloc", "addr": {addr}, "size": 1048576, "stream": 0{noted}}}"#)
        };
        let events: Vec<String> = (1..=8).map(event).collect();
        let file = format!(
            r#"{{"segments": [], "device_traces": [[{}]]}}"#,
            events.join(",")
        );
        let mut reader = Reader::new(Limits::default());
        reader.push(file.as_bytes()).expect("a snapshot");
        let snapshot = reader.finish().expect("a snapshot");
        told("plain.json", &trace::replay::run(snapshot))
    };
    let noted = explained(r#", "category": "parameter""#);
    let text = page(&noted);
    assert!(text.contains("| what for | bytes | share |"), "{text}");
    assert!(!text.contains("(inferred)"), "{text}");
    let device = noted.device.expect("it is explained");
    let advice = "Parameters are 100 % of the peak";
    let mut to_try = device.to_try.iter();
    assert!(
        to_try.any(|told| told.sentence.starts_with(advice)),
        "{text}"
    );
    let text = page(&explained(""));
    assert!(
        text.contains("| what for (inferred) | bytes | share |"),
        "{text}"
    );
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
            explain(
                name,
                &trace,
                main_device::of(&trace),
                None,
                Watch::new(&go_on),
            )
            .map(|_| seen.get())
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

/// A recording does not hold its limit. Where somebody tells it, it must fit, and the remedies are
/// judged against it.
#[test]
fn a_limit_that_is_told_is_that_of_the_failure() {
    let trace = fixture("settings/h100/moe_split128_limit");
    let device = main_device::of(&trace);
    let under = |limit: Bytes| {
        Watch::undisturbed(|watch| explain("moe", &trace, device, Some(limit), watch))
    };
    let failure = |told: &Explanation| {
        let device = told.device.clone().expect("a device");
        device.out_of_memory.expect("it ran out of memory")
    };
    let seen = failure(&explained("settings/h100/moe_split128_limit"));
    let (least, below) = (seen.limit_at_least.unwrap(), seen.limit_below.unwrap());
    assert!(below > Bytes(least.0 + 1), "it is not known exactly");
    let limit = Bytes((least.0 + below.0) / 2);
    let told = under(limit);
    let oom = failure(&told);
    let known = [Some(limit), Some(Bytes(limit.0 + 1))];
    assert_eq!([oom.limit_at_least, oom.limit_below], known);
    let page = page(&told);
    assert!(
        page.contains(&format!("The limit of the process was {limit}, as")),
        "{page}"
    );
    let refusal =
        |limit: Bytes| Watch::undisturbed(|watch| refusal_of(Some(limit), &trace, device, watch));
    assert_eq!(refusal(limit), None);
    let [small, large] = [Bytes(least.0 - 1), below].map(refusal).map(Option::unwrap);
    assert!(
        small.contains("the recorded process was not held to"),
        "{small}"
    );
    assert!(large.contains("nothing would have been refused"), "{large}");
}

/// Where nothing failed, the limit tells how long a leak has still to go.
#[test]
fn a_leak_is_said_to_fill_a_limit_that_is_told() {
    let trace = fixture("leak_hook_cache");
    let device = main_device::of(&trace);
    let limit = Some(Bytes::gib(1));
    let told = Watch::undisturbed(|watch| explain("leak", &trace, device, limit, watch));
    let tried = &told.device.expect("a device").to_try[0].sentence;
    assert!(
        tried.contains("At this rate it fills what is left below the limit of 1.00 GiB"),
        "{tried}"
    );
}

/// *Reserved* that grows without a leak is told beside the verdict, with its cause and what to do.
#[test]
fn streams_that_steps_bring_are_told_with_what_to_do() {
    let mut builder = TraceBuilder::default();
    for stream in 0..12 {
        builder.segment_of(stream, Action::SegmentAlloc, Bytes::mib(2));
        let block = builder.alloc(block_of(Bytes::kib(512)));
        builder.free_requested(block);
        builder.free_completed(block);
    }
    let mut trace = builder.finish();
    let step = |index: u32| Step {
        index,
        name: format!("step {index}"),
        events: Span::new(EventIdx(4 * index), EventIdx(4 * index + 4)),
    };
    trace.devices[0].steps = (0..12).map(step).collect();
    let told = told("streams", &trace);
    let page = page(&told);
    let device = told.device.expect("a device");
    let growth = device.leaks.reserved_growth.expect("it grows");
    assert!(growth.contains("each of these 10 steps"), "{growth}");
    assert!(
        page.contains("Reserved memory grows by 2.00 MiB a step"),
        "{page}"
    );
    let tried: Vec<&str> = device.to_try.iter().map(|a| &*a.sentence).collect();
    let advice = "Make the stream, or the object that makes it, only once: reserved memory grows \
                  with each new one.";
    assert_eq!(tried[0], advice);
}

/// Far more is free where *reserved* peaks.
#[test]
fn fragmentation_is_told_where_most_is_free() {
    let told = explained("settings/h100/lm_ckpt_default_limit");
    let page = page(&told);
    let device = told.device.expect("a device");
    let [then, at_peak] = [&device.room_at_reserved, &device.room]
        .map(|room| room.as_ref().expect("its segments are known"));
    assert!(then.free > at_peak.free + at_peak.free, "{page}");
    let pieces = page.split("## Fragmentation").nth(1).expect("a part");
    let expected = format!(
        "At the peak of *reserved* (event 10,147), {} are",
        then.free
    );
    assert!(pieces.trim().starts_with(&expected), "{page}");
}

/// Pieces of growing sizes fit nothing: *reserved* grows until the end, at both peaks alike.
#[test]
fn reserved_that_grows_in_pieces_is_told_beside_the_verdict() {
    let device = explained("settings/h100/frag_default").device;
    let device = device.expect("a device");
    assert_eq!(device.room_at_reserved, None);
    let growth = device.leaks.reserved_growth.expect("it grows");
    assert!(growth.starts_with("reserved memory grows by "), "{growth}");
    let advice = "; try `expandable_segments:True`";
    assert!(growth.ends_with(advice), "{growth}");
}
