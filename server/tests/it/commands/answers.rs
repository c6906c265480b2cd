//! What commands answer: about which device, on which stream, and what they say where a question
//! has no effect.

use super::{fixture, said, tidemark_in};
use serde_json::{Value, json};
use std::path::Path;

/// An event of a snapshot.
fn event(action: &str, at: u64, size: u64) -> Value {
    let name = "at::_ops::_log_softmax_backward_data::redispatch(c10::DispatchKeySet, long)";
    json!({
        "action": action, "addr": 0x7f00_0000_0000_u64 + at * (64 << 20), "size": size, "stream": 0,
        "device_free": 0, "time_us": at,
        "frames": [{"name": name, "filename": "??", "line": 0}],
    })
}

/// Two devices: the first has more events, the second runs out of memory.
fn two_devices(folder: &Path) -> String {
    let first: Vec<Value> = (0..6).map(|at| event("alloc", at, 1 << 20)).collect();
    let second = [
        event("segment_alloc", 0, 20 << 20),
        event("alloc", 0, 20 << 20),
        event("oom", 1, 200 << 20),
    ];
    let segment = json!({
        "device": 1, "address": 0x7f00_0000_0000_u64, "total_size": 20 << 20, "stream": 0,
        "segment_type": "large", "allocated_size": 20 << 20, "active_size": 20 << 20,
        "blocks": [{
            "address": 0x7f00_0000_0000_u64, "size": 20 << 20, "requested_size": 20 << 20,
            "state": "active_allocated",
        }],
    });
    let snapshot = json!({"segments": [segment], "device_traces": [first, second]});
    let path = folder.join("two.json");
    std::fs::write(&path, snapshot.to_string()).unwrap();
    path.display().to_string()
}

#[test]
fn what_if_answers_about_the_device_that_explain_explains() {
    let folder = tempfile::tempdir().unwrap();
    let two = two_devices(folder.path());
    let asked = |args: &[&str]| {
        let (out, error, status) = said(&tidemark_in(folder.path(), args));
        assert_eq!(status, 0, "{args:?}: {error}");
        out
    };
    let document = |args: &[&str]| -> Value { serde_json::from_str(&asked(args)).unwrap() };
    let explained = document(&["explain", &two, "--json"]);
    assert_eq!(explained["device"]["device"], 1);
    assert_eq!(document(&["what-if", &two, "--json"])["device"], 1);
    let of_first = document(&["what-if", &two, "--json", "--device", "0"]);
    assert_eq!(of_first["device"], 0);
    let text = asked(&["inspect", &two]);
    assert!(
        text.contains("`tidemark what-if --device 1` tries"),
        "{text}"
    );
    assert!(
        text.contains("asked by _log_softmax_backward_data\n"),
        "{text}"
    );
    assert!(
        !text.contains("??") && !text.contains("DispatchKeySet"),
        "{text}"
    );
}

#[test]
fn what_if_says_where_a_question_has_no_effect() {
    let folder = tempfile::tempdir().unwrap();
    let check = |file: &str, args: &[&str], status: i32, says: &str| {
        let file = fixture(file);
        let args = [&["what-if", file.as_str()], args].concat();
        let (out, error, ended) = said(&tidemark_in(folder.path(), &args));
        assert_eq!(ended, status, "{args:?}: {error}");
        assert!(
            format!("{out}{error}").contains(says),
            "{args:?}: {out}{error}"
        );
    };
    let (oom, clean) = ("oom.pickle.zst", "plain_lm.pickle.zst");
    check(oom, &["--without", "zzz"], 2, "at zzz: `explain` lists");
    // One of two is misspelt.
    check(
        oom,
        &["--without", "zzz", "--without", "gen.py"],
        2,
        "at zzz: ",
    );
    check(
        clean,
        &["--without-leaks"],
        0,
        "nothing was found that leaks",
    );
    let (out, _, _) = said(&tidemark_in(
        folder.path(),
        &["what-if", &fixture(oom), "--without-leaks"],
    ));
    assert!(!out.contains("nothing was found"), "{out}");
}

#[test]
fn a_group_without_a_stack_has_no_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = fixture("drawn/bank_without_stacks.pickle.zst");
    let (out, _, _) = said(&tidemark_in(folder.path(), &["inspect", &file]));
    assert!(out.contains("whole step: no stack recorded\n"), "{out}");
}

/// A baseline whose first allocations were overwritten, and a run that needs more.
fn of_a_ring_that_wrapped(folder: &Path) -> [String; 2] {
    [("short.json", 512, true), ("long.json", 8 << 20, false)].map(|(name, size, is_cut)| {
        let lost = is_cut.then(|| event("free_completed", 0, size));
        let actions = ["alloc", "free_requested", "free_completed"];
        let loops = (1..40).flat_map(|at| actions.map(|action| event(action, at, size)));
        let events: Vec<Value> = lost.into_iter().chain(loops).collect();
        let path = folder.join(name);
        let snapshot = json!({"segments": [], "device_traces": [events]});
        std::fs::write(&path, snapshot.to_string()).unwrap();
        path.display().to_string()
    })
}

#[test]
fn the_verdict_of_a_gate_is_on_the_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let [short, long] = of_a_ring_that_wrapped(folder.path());
    let check = |base: &str, new: &str, format: &[&str], status: i32, begins: &str| {
        let files = [base, new].map(|name| match name.ends_with(".json") {
            true => name.to_owned(),
            false => fixture(&format!("{name}.pickle.zst")),
        });
        let args = [&["gate", files[0].as_str(), &files[1]], format].concat();
        let (out, error, ended) = said(&tidemark_in(folder.path(), &args));
        assert_eq!(ended, status, "{out}{error}");
        match format {
            [] => {
                assert!(out.starts_with(begins), "{out}");
                assert_eq!(error, "", "it is said once");
            }
            // A log shows no document.
            _ => assert_eq!(error.contains(begins), status != 0, "{error}"),
        }
    };
    for format in [&[][..], &["--json"], &["--markdown"]] {
        check("off_v1_moe", "off_v3_moe", format, 0, "pass: ");
        check(
            "off_v3_moe",
            "off_v1_moe",
            format,
            1,
            "regression: the peak",
        );
        check(&short, &long, format, 3, "cannot tell: ");
    }
}

#[test]
fn files_that_can_be_read_are_answered_about() {
    let folder = tempfile::tempdir().unwrap();
    let good = fixture("plain_lm.pickle.zst");
    std::fs::write(folder.path().join("bad.pickle"), "no snapshot").unwrap();
    std::fs::write(folder.path().join("team"), "x function=*\n").unwrap();
    let check = |args: &[&str], files: usize| {
        let (out, error, status) = said(&tidemark_in(folder.path(), args));
        assert_eq!(status, 2, "{args:?}");
        assert!(
            error.contains("bad.pickle: ") && error.contains("gone: "),
            "{error}"
        );
        assert!(
            error.lines().all(|line| line.starts_with("tidemark: ")),
            "{error}"
        );
        match args.contains(&"--json") {
            true => {
                let found: Vec<Value> = serde_json::from_str(&out).expect("one document");
                assert_eq!(found.len(), files, "{args:?}");
            }
            false => assert_eq!(out.contains("plain_lm"), files > 0, "{out}"),
        }
    };
    for json in [&[][..], &["--json"]] {
        for command in [&["inspect"][..], &["categories", "team"]] {
            let of = |files: &[&str]| {
                let args = [command, json, files].concat();
                check(&args, files.len() - 2);
            };
            of(&["bad.pickle", &good, "gone"]);
            of(&["gone", &good, "bad.pickle", &good]);
            of(&["gone", "bad.pickle"]);
        }
    }
}

#[test]
fn a_rule_that_takes_nothing_comes_with_one_that_would() {
    let folder = tempfile::tempdir().unwrap();
    let file = fixture("plain_lm.pickle.zst");
    let found = tidemark_in(folder.path(), &["explain", "--json", &file]);
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    let frame = found["device"]["peak"]["places"][0]["frame"].clone();
    let path = frame["filename"].as_str().expect("the place has a file");
    let name = path.rsplit('/').next().unwrap();
    let check = |rule: &str, expected: Option<&str>| {
        std::fs::write(folder.path().join("team"), format!("# ours\n{rule}\n")).unwrap();
        let (out, error, status) =
            said(&tidemark_in(folder.path(), &["categories", "team", &file]));
        assert_eq!(status, 0, "{error}");
        match expected {
            Some(hint) => {
                let says =
                    format!("line 2: `file=` must match the whole path; `{hint}` would take ");
                assert!(out.contains(&says), "{rule}: {out}");
            }
            None => assert!(!out.contains("must match"), "{rule}: {out}"),
        }
    };
    check(&format!("ours file={name}"), Some(&format!("file=*{name}")));
    check(
        &format!("ours \"file={name}\" size>=1"),
        Some(&format!("file=*{name}")),
    );
    check(&format!("ours file=*{name}"), None);
    check(&format!("ours file={path}"), None);
    check("ours file=nowhere.py", None);
    check("ours function=nobody", None);
}

/// A leak of pinned memory is told whichever way two recordings are compared.
#[test]
fn a_comparison_tells_of_leaks_beside_the_devices() {
    let folder = tempfile::tempdir().unwrap();
    let leaking = fixture("pinned_leak.pickle.zst");
    let clean = fixture("pinned_late.pickle.zst");
    for [base, new] in [[&clean, &leaking], [&leaking, &clean], [&leaking, &leaking]] {
        let check = |more: &[&str], says: &str| {
            let args = [&["compare", base.as_str(), new.as_str()], more].concat();
            let (out, error, status) = said(&tidemark_in(folder.path(), &args));
            assert_eq!(status, 0, "{args:?}: {error}");
            assert!(out.contains(says), "{args:?}: {out}");
        };
        check(&[], "pinned host memory leaks: ");
        check(&["--markdown"], "| leaks, pinned host memory | ");
        check(&["--json"], "\"beside\":");
    }
}
