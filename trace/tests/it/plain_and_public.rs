//! Verdicts on programs as people write and record them, compared with what is known of each
//! program.

use crate::recordings::{json, replayed, shared};
use serde_json::Value;
use trace::leaks::{self, MIN_STEPS, Verdict, Weight};
use trace::trace::Trace;

fn check(name: &str, trace: &Trace, truth: &Value) {
    let reports = leaks::of_trace(trace);
    let devices = trace.devices.iter().zip(&reports);
    let weights = devices.map(|(device, report)| Weight::of(device.device, report));
    let worst = leaks::worst(weights).expect("a device");
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
