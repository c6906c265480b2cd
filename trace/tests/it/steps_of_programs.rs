//! The number of steps of real programs without annotations, compared with the known number.
//!
//! A few recordings are in `plain`, `ended`, `trainers`, `habits`, `mended` and `drawn` of
//! `tests/fixtures`. The others are next to the repository (`../shared`), and their tests are
//! ignored without them.

use crate::recordings::{fixtures, json, replayed, shared, truth};
use serde_json::Value;
use std::path::{Path, PathBuf};
use trace::leaks::{self, Verdict};
use trace::series::Series;
use trace::trace::DeviceTrace;

/// A recording and the step counts that are right for it; 0 and 1 mean a single pass.
struct Case {
    path: PathBuf,
    right: Vec<u64>,
}

/// `NAME.pickle.zst` files that have a `NAME.truth.json` beside them.
fn with_truths(folder: &Path) -> Vec<Case> {
    let entries = std::fs::read_dir(folder).expect("the folder can be listed");
    let truths = entries.map(|entry| entry.expect("an entry").path());
    let truths = truths.filter(|path| path.to_string_lossy().ends_with(".truth.json"));
    let case = |truth: PathBuf| {
        let name = truth
            .to_string_lossy()
            .replace(".truth.json", ".pickle.zst");
        let right = json(&truth)["iterations"].as_array().cloned();
        Case {
            path: PathBuf::from(name),
            right: right
                .expect("iterations")
                .iter()
                .filter_map(Value::as_u64)
                .collect(),
        }
    };
    truths.map(case).collect()
}

/// The published files; one list has the truth of all of them.
fn published(folder: &Path) -> Vec<Case> {
    let truths = json(&folder.join("truth.json"));
    let case = |truth: &Value| {
        let name = truth["name"].as_str().expect("a name");
        let right = match truth["iterations_recorded"].as_u64().expect("a number") {
            0 | 1 => vec![0, 1],
            n => vec![n],
        };
        Case {
            path: folder.join(format!("{name}.pickle.zst")),
            right,
        }
    };
    truths
        .as_array()
        .expect("a list")
        .iter()
        .map(case)
        .collect()
}

/// No number may be wrong, and of the loops at least four in five must be found.
fn check(cases: &[Case]) {
    let (mut loops, mut found, mut wrong) = (0, 0, Vec::new());
    for case in cases {
        let trace = replayed(&case.path);
        let steps = trace.devices.iter().map(|d| d.steps.len() as u64).max();
        let steps = steps.unwrap_or(0);
        let is_loop = !case.right.contains(&0);
        loops += u32::from(is_loop);
        found += u32::from(is_loop && case.right.contains(&steps));
        if steps != 0 && !case.right.contains(&steps) {
            let name = case.path.file_name().unwrap_or_default().to_string_lossy();
            wrong.push(format!("{name}: {steps} steps, not {:?}", case.right));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(found * 5 >= loops * 4, "{found} of {loops} loops");
}

#[test]
fn the_fixtures_have_their_steps() {
    check(&with_truths(&fixtures().join("plain")));
}

/// Whether the snapshot was taken before or after the function with the loop returned: steps and
/// verdict are the same, and right.
#[test]
fn the_end_of_a_program_changes_nothing() {
    let cases = with_truths(&fixtures().join("ended"));
    assert_eq!(cases.len(), 18);
    check(&cases);
    for case in &cases {
        let (name, truth) = truth_of(case);
        let leaks = truth["leak"].as_bool().expect("known");
        let report = &leaks::of_trace(&replayed(&case.path))[0];
        let expected = match leaks {
            true => Verdict::Leak,
            false => Verdict::Clean,
        };
        assert_eq!(report.verdict, expected, "{name}: {}", report.reason);
    }
}

/// What the process counted on a device, and what was found in its recording. Where a ring wrapped,
/// the peaks are not known.
fn check_levels(device: &DeviceTrace, counted: &Value, name: &str) {
    for (series, counter) in [
        (Series::Allocated, "allocated"),
        (Series::Reserved, "reserved"),
    ] {
        let found = &device.summary[series as usize];
        let end = counted[counter].as_u64().expect("bytes");
        let peak = counted[format!("peak_{counter}")].as_u64();
        let right = (end, peak.unwrap_or(found.peak.0));
        let found = (found.end.0, found.peak.0);
        assert_eq!(found, right, "{name}, device {} {counter}", device.device);
    }
}

/// The recording's path, for messages, and what is known of it.
fn truth_of(case: &Case) -> (String, Value) {
    (case.path.display().to_string(), truth(&case.path))
}

/// Libraries that call the program's code, and several devices: steps, levels and verdicts of each
/// device are right.
#[test]
fn trainers_and_programs_on_two_devices_are_judged_right() {
    let cases = with_truths(&fixtures().join("trainers"));
    assert_eq!(cases.len(), 11);
    check(&cases);
    for case in &cases {
        let (name, truth) = truth_of(case);
        let trace = replayed(&case.path);
        let leaking = truth["leaking"].as_array().expect("known");
        let counted = truth["devices"].as_object().expect("known");
        assert_eq!(trace.devices.len(), counted.len(), "{name}");
        for (device, report) in trace.devices.iter().zip(leaks::of_trace(&trace)) {
            let number = device.device;
            let expected = match leaking.contains(&Value::from(number.0)) {
                true => Verdict::Leak,
                false => Verdict::Clean,
            };
            let reason = &report.reason;
            assert_eq!(
                report.verdict, expected,
                "{name}, device {number}: {reason}"
            );
            check_levels(device, &counted[&number.to_string()], &name);
        }
    }
}

/// Steps, levels and verdicts of recordings of one device. Of some programs nobody can tell: see
/// the notes beside the recordings.
fn check_judged(folder: &str, n: usize) {
    let cases = with_truths(&fixtures().join(folder));
    assert_eq!(cases.len(), n);
    check(&cases);
    for case in &cases {
        let (name, truth) = truth_of(case);
        let trace = replayed(&case.path);
        let report = &leaks::of_trace(&trace)[0];
        let expected = match truth["verdict"].as_str() {
            Some("leak") => Verdict::Leak,
            Some("clean") => Verdict::Clean,
            Some("cannot_tell") => Verdict::CannotTell,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(report.verdict, expected, "{name}: {}", report.reason);
        check_levels(&trace.devices[0], &truth["devices"]["0"], &name);
    }
}

/// What programs keep, replace, bound and forget.
#[test]
fn habits_of_programs_are_judged_right() {
    check_judged("habits", 15);
}

/// What steps or verdicts were wrong of once.
#[test]
fn recordings_that_were_judged_wrong_once_are_judged_right() {
    check_judged("mended", 12);
}

#[test]
fn programs_drawn_at_random_are_judged_right() {
    check_judged("drawn", 7);
}

#[test]
#[ignore = "needs ../shared"]
fn the_shared_programs_have_their_steps() {
    check(&with_truths(&shared().join("plain")));
}

#[test]
#[ignore = "needs ../shared"]
fn the_published_recordings_have_their_steps() {
    check(&published(&shared().join("public")));
}
