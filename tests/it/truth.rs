//! Compares `tidemark inspect` with the memory counters of the recorded processes themselves.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `NAME.pickle.zst` files of a folder that have a `NAME.truth.json` beside them.
fn recorded(dir: &Path) -> Vec<(PathBuf, PathBuf)> {
    let entries = std::fs::read_dir(dir).expect("the folder can be listed");
    let paths = entries.map(|entry| entry.expect("the entry can be read").path());
    let mut pairs: Vec<_> = paths
        .filter_map(|path| {
            let name = path
                .file_name()?
                .to_str()?
                .strip_suffix(".pickle.zst")?
                .to_owned();
            let truth = path.with_file_name(format!("{name}.truth.json"));
            truth.is_file().then_some((path, truth))
        })
        .collect();
    pairs.sort();
    assert!(!pairs.is_empty(), "no recordings in {}", dir.display());
    pairs
}

fn json(text: &[u8], what: &Path) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|why| panic!("{}: {why}", what.display()))
}

fn inspect(path: &Path) -> Value {
    let output = Command::new(tests::tidemark())
        .args(["inspect", "--json"])
        .arg(path)
        .output()
        .expect("tidemark runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {log}", path.display());
    json(&output.stdout, path)
}

/// Fewest steps that a recording must hold if its process ran at least as many.
const FEWEST: usize = 3;

/// Compares every step that both know, to the byte. A file may hold fewer steps than its process
/// ran (the first four of a hundred), or one more (a step that ended in an out-of-memory error).
fn check_steps(path: &Path, inspected: &Value, truth: &Value) {
    let has_note = |code: &str| {
        let notes = inspected["quality"].as_array().expect("a list of notes");
        notes.iter().any(|note| note["code"] == code)
    };
    let name = path.display();
    if has_note("ring_wrapped") {
        return;
    }
    let steps = inspected["steps"]["items"]
        .as_array()
        .expect("a list of steps");
    let counted = truth["steps"].as_array().expect("a list of steps");
    let both = steps.len().min(counted.len());
    assert!(
        both >= 2 && both >= FEWEST.min(counted.len()),
        "{name}: {} steps of {}",
        steps.len(),
        counted.len()
    );
    for (step, counted) in steps.iter().zip(counted) {
        for (ours, theirs) in [
            ("allocated_end", "allocated"),
            ("reserved_end", "reserved"),
            ("requested_end", "requested"),
            ("allocated_peak", "peak_allocated"),
        ] {
            assert_eq!(
                step[ours], counted[theirs],
                "{name}: {ours} of {}",
                step["name"]
            );
        }
    }
}

fn check_folder(dir: &Path) {
    for (snapshot, truth_file) in recorded(dir) {
        let truth = json(
            &std::fs::read(&truth_file).expect("the truth is there"),
            &truth_file,
        );
        check_steps(&snapshot, &inspect(&snapshot), &truth);
    }
}

#[test]
fn every_step_of_the_fixtures_equals_the_process_s_own_counters() {
    check_folder(&tests::workspace_root().join("tests/fixtures"));
}

#[test]
#[ignore = "needs ../shared"]
fn every_step_of_the_shared_recordings_equals_the_process_s_own_counters() {
    let shared = tests::recordings();
    for folder in ["snapshots", "qwen9b"] {
        check_folder(&shared.join(folder));
    }
}

#[test]
#[ignore = "needs ../shared"]
fn a_ring_that_wrapped_is_said_to_have() {
    let shared = tests::recordings();
    let inspected = inspect(&shared.join("snapshots/ring.pickle.zst"));
    let notes = inspected["quality"].to_string();
    assert!(notes.contains("ring_wrapped"), "{notes}");
}
