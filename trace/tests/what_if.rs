//! What-if answers, compared with what the program did when it really ran with those settings.
//!
//! It is one program with the same sizes each time, recorded with several settings, with and
//! without a limit. The process counted its own peaks and retries. `tests/fixtures/settings` holds
//! one recording; the others are next to the repository.

use serde_json::Value;
use std::path::{Path, PathBuf};
use trace::allocator::conf;
use trace::reader::{Limits, read};
use trace::trace::Trace;
use trace::units::Bytes;
use trace::watch::Watch;
use trace::what_if::{self, Answer, Question};

fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the repository")
}

fn replayed(path: &Path) -> Trace {
    let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let bytes = zstd::decode_all(file).expect("zstd");
    trace::replay::run(read(&bytes, Limits::default()).expect("a snapshot"))
}

/// The counters of a process.
struct Truth {
    name: String,
    setting: String,
    limit: Option<Bytes>,
    peak_allocated: u64,
    peak_reserved: u64,
    retries: u64,
    oom_step: Option<u64>,
}

impl Truth {
    fn of(name: &str, truth: &Value) -> Truth {
        let number = |key: &str| {
            truth[key]
                .as_u64()
                .unwrap_or_else(|| panic!("{name}: {key}"))
        };
        let counted = match truth["steps"].as_array().and_then(|steps| steps.last()) {
            Some(last) => &last["retries"],
            None => &truth["retries"],
        };
        Truth {
            name: name.to_owned(),
            setting: truth["setting"].as_str().expect("a setting").to_owned(),
            limit: Some(Bytes(number("limit"))).filter(|limit| *limit > Bytes::ZERO),
            peak_allocated: number("peak_allocated"),
            peak_reserved: number("peak_reserved"),
            retries: counted.as_u64().expect("a number of retries"),
            oom_step: truth["oom_step"].as_u64(),
        }
    }
}

fn ask(trace: &Trace, setting: &str, limit: Option<Bytes>) -> Answer {
    let device = &trace.devices[0];
    let own = what_if::own_settings(&trace.format, device);
    let question = Question {
        settings: Some(conf::parse(setting).expect("settings")),
        limit,
        ..Question::default()
    };
    what_if::ask(device, &own, &question, Watch::nobody()).expect("nobody stops it")
}

/// Both peaks within 2 %, the same failure, and the number of retries within one.
fn check(from: &str, trace: &Trace, truths: &[Truth]) {
    for truth in truths {
        let answer = ask(trace, &truth.setting, truth.limit);
        let what_if = answer.what_if;
        let off = |is: Bytes, was: u64| 100.0 * (is.0 as f64 / was as f64 - 1.0);
        let reserved = off(what_if.peak_reserved, truth.peak_reserved);
        let allocated = off(what_if.peak_allocated, truth.peak_allocated);
        let Truth { name, retries, .. } = truth;
        println!(
            "{from:24} {name:24} {reserved:+8.3} % {allocated:+8.3} % {:3} of {retries:3}",
            what_if.retries
        );
        let failed = what_if.failed.map(|failed| u64::from(failed.step));
        assert_eq!(failed, truth.oom_step, "{from} to {name}");
        if answer.recorded.failed.is_some() && failed.is_none() {
            continue;
        }
        assert!(reserved.abs() <= 2.0, "{from} to {name}: {reserved} %");
        assert!(allocated.abs() <= 2.0, "{from} to {name}: {allocated} %");
        let difference = what_if.retries.abs_diff(*retries);
        assert!(
            difference <= 1,
            "{from} to {name}: {} retries",
            what_if.retries
        );
        assert_eq!(answer.calibration.peak_reserved_error, 0.0, "{from}");
    }
}

#[test]
fn one_recording_predicts_the_program_under_every_setting() {
    let folder = root().join("tests/fixtures/settings");
    let text = std::fs::read_to_string(folder.join("ragged.truth.json")).expect("the truths");
    let truths: Value = serde_json::from_str(&text).expect("JSON");
    let truths = truths.as_object().expect("by name").iter();
    let truths: Vec<Truth> = truths.map(|(name, truth)| Truth::of(name, truth)).collect();
    assert_eq!(truths.len(), 8);
    let name = "ragged_default_limit";
    check(
        name,
        &replayed(&folder.join(format!("{name}.pickle.zst"))),
        &truths,
    );
}

#[test]
#[ignore = "needs ../shared"]
fn every_recording_predicts_every_other() {
    let beside = root()
        .ancestors()
        .map(|folder| folder.join("shared/settings"));
    let folder = beside.into_iter().find(|folder| folder.is_dir());
    let folder = folder.expect("../shared with its folder `settings`");
    let mut programs: std::collections::BTreeMap<String, Vec<Truth>> = Default::default();
    for entry in std::fs::read_dir(&folder).expect("a folder") {
        let path: PathBuf = entry.expect("an entry").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("plain");
        let Some(name) = name.strip_suffix(".truth.json") else {
            continue;
        };
        let truth = std::fs::read_to_string(&path).expect("a truth");
        let truth: Value = serde_json::from_str(&truth).expect("JSON");
        let program = truth["program"].as_str().expect("a program").to_owned();
        programs
            .entry(program)
            .or_default()
            .push(Truth::of(name, &truth));
    }
    assert!(!programs.is_empty());
    for truths in programs.values() {
        for from in truths {
            let path = folder.join(format!("{}.pickle.zst", from.name));
            check(&from.name, &replayed(&path), truths);
        }
    }
}
