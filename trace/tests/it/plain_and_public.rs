//! Verdicts on programs as people write and record them, compared with what is known of each
//! program.

use serde_json::Value;
use std::path::{Path, PathBuf};
use trace::leaks::{self, MIN_STEPS, Verdict};
use trace::reader::{Limits, read};
use trace::trace::Trace;

/// The folder next to the repository with the files of these tests.
fn shared() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let roots = here.ancestors().skip(1);
    let mut folders = roots.map(|root| root.join("shared"));
    let found = folders.find(|folder| folder.join("plain").is_dir());
    found.expect("../shared with its folder `plain`")
}

fn replayed(path: &Path) -> Trace {
    let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let bytes = zstd::decode_all(file).expect("zstd");
    trace::replay::run(read(&bytes, Limits::default()).expect("a snapshot"))
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

fn check(name: &str, trace: &Trace, truth: &Value) {
    let reports = leaks::of_trace(trace);
    let worst = leaks::worst(&reports).expect("a device");
    let (report, device) = (&reports[worst], &trace.devices[worst]);
    let said = format!("{name}: {:?}, {}", report.verdict, report.reason);
    match truth["leak"].as_bool() {
        Some(true) => {
            assert_eq!(report.verdict, Verdict::Leak, "{said}");
            let frame = report.groups[0].frame.expect("a leak has a place");
            let named = trace.stacks.str(frame.name);
            let mut may = truth["where"].as_str().expect("functions").split(',');
            assert!(may.any(|function| function == named), "{name}: {named}");
        }
        Some(false) => {
            assert_ne!(report.verdict, Verdict::Leak, "{said}");
            if device.steps.len() >= MIN_STEPS {
                assert_eq!(report.verdict, Verdict::Clean, "{said}");
            }
        }
        None => assert_eq!(report.verdict, Verdict::CannotTell, "{said}"),
    }
    if report.verdict == Verdict::CannotTell {
        assert!(
            report.reason.contains("record "),
            "it says what to do: {said}"
        );
    }
    for device in &trace.devices {
        assert_eq!(device.fidelity.predicted, device.fidelity.allocs, "{name}");
    }
    let wrapped = trace.quality.iter().any(|note| note.code == "ring_wrapped");
    assert!(!wrapped, "{name} did not wrap");
}

#[test]
#[ignore = "needs ../shared"]
fn plain_programs_get_the_verdict_that_is_true() {
    let plain = shared().join("plain");
    let mut n = 0;
    for entry in std::fs::read_dir(&plain).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if let Some(name) = name.strip_suffix(".pickle.zst") {
            let truth = json(&plain.join(format!("{name}.truth.json")));
            check(name, &replayed(&path), &truth);
            n += 1;
        }
    }
    assert!(n >= 12, "{n} programs");
}

#[test]
#[ignore = "needs ../shared"]
fn published_snapshots_get_the_verdict_that_is_true() {
    let public = shared().join("public");
    let truths = json(&public.join("truth.json"));
    let truths = truths.as_array().expect("a list");
    assert!(truths.len() >= 18);
    for truth in truths {
        let name = truth["name"].as_str().expect("a name");
        check(
            name,
            &replayed(&public.join(format!("{name}.pickle.zst"))),
            truth,
        );
    }
}
