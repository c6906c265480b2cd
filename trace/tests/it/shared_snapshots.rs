//! Steps and leaks of real programs, compared with what the authors know of them.
//!
//! The files are next to the repository (`../shared`); without them these tests are ignored.

use crate::recordings::{self, json, shared};
use std::path::Path;
use trace::leaks::{self, LeakReport, Pattern, Verdict};
use trace::snapshot::Snapshot;
use trace::stacks::Stacks;
use trace::steps;
use trace::trace::{StepSource, Trace};

/// A snapshot such as `snapshots/frag`.
fn snapshot(shared: &Path, name: &str) -> Snapshot {
    recordings::snapshot(&shared.join(format!("{name}.pickle.zst")))
}

fn names(shared: &Path) -> Vec<String> {
    let folder = std::fs::read_dir(shared.join("snapshots")).expect("shared/snapshots");
    let files = folder.map(|entry| entry.expect("an entry").file_name());
    let files = files.map(|name| name.into_string().expect("a plain name"));
    let mut names: Vec<String> = files
        .filter_map(|name| Some(format!("snapshots/{}", name.strip_suffix(".pickle.zst")?)))
        .collect();
    names.sort();
    names
}

fn report(trace: &Trace) -> LeakReport {
    assert_eq!(trace.devices.len(), 1, "each file is of one process");
    leaks::find(&trace.devices[0], &trace.stacks, &trace.quality)
}

fn functions<'a>(report: &LeakReport, stacks: &'a Stacks) -> Vec<&'a str> {
    let frames = report.groups.iter().filter_map(|group| group.frame);
    frames.map(|frame| stacks.str(frame.name)).collect()
}

#[test]
#[ignore = "needs ../shared"]
fn labelled_programs_get_their_label() {
    let shared = shared();
    for name in names(&shared) {
        let truth = json(&shared.join(format!("{name}.truth.json")));
        let Some(leaks) = truth["label"]["leak"].as_bool() else {
            continue;
        };
        let trace = trace::replay::run(snapshot(&shared, &name));
        let report = report(&trace);
        let expected = if leaks { Verdict::Leak } else { Verdict::Clean };
        assert_eq!(report.verdict, expected, "{name}: {}", report.reason);
        let functions = functions(&report, &trace.stacks);
        for function in truth["label"]["where"]
            .as_str()
            .iter()
            .flat_map(|w| w.split(','))
        {
            let first_two = &functions[..functions.len().min(2)];
            assert!(
                first_two.contains(&function),
                "{name}: {function} in {functions:?}"
            );
        }
        if let Some(bytes) = truth["label"]["bytes_per_step"].as_f64() {
            assert_eq!(report.bytes_per_step, bytes, "{name}");
        }
    }
}

#[test]
#[ignore = "needs ../shared"]
fn measured_programs_read_as_measured() {
    let shared = shared();
    // `function` is the first function named; `mb` is the bytes a step as the process counted them,
    // in MB.
    let check = |name: &str, verdict, function: Option<&str>, mb: f64| {
        let trace = trace::replay::run(snapshot(&shared, name));
        let report = report(&trace);
        assert_eq!(report.verdict, verdict, "{name}: {}", report.reason);
        let named = functions(&report, &trace.stacks).first().copied();
        assert_eq!(named, function, "{name}");
        let off = (report.bytes_per_step / 1e6 - mb).abs();
        assert!(
            off <= 0.05 * mb,
            "{name}: {} B a step",
            report.bytes_per_step
        );
        report
    };
    let unpack = Some("unpack_tensor_with_streams");
    let forward = Some("forward");
    check("snapshots/off_v1_moe", Verdict::Leak, unpack, 445.0);
    check("snapshots/off_v2_moe", Verdict::Leak, forward, 223.6);
    check("snapshots/off_v3_moe", Verdict::Clean, None, 0.0);
    check("snapshots/off_v4_moe", Verdict::Clean, None, 0.0);
    check("snapshots/te_leak", Verdict::Leak, forward, 721.2);
    check("snapshots/te_fix", Verdict::Clean, None, 0.0);
    check("snapshots/oom", Verdict::Leak, forward, 15.4);
    check("snapshots/fastllm_detach", Verdict::Clean, None, 0.0);
    check("snapshots/ring", Verdict::CannotTell, None, 0.0);
    check("snapshots/cpp", Verdict::CannotTell, None, 0.0);
    check("qwen9b/vl_v0", Verdict::Leak, unpack, 106.0);
    let retain = check("snapshots/fastllm_retain", Verdict::Leak, forward, 0.0);
    assert!(
        retain
            .groups
            .iter()
            .all(|g| g.pattern == Pattern::WithinStep)
    );
}

#[test]
#[ignore = "needs ../shared"]
fn inferred_steps_end_where_annotated_ones_do() {
    let shared = shared();
    // In these, micro-batches are found: they repeat more often than steps, and have no optimizer.
    let of_parts = ["snapshots/fastllm_retain", "snapshots/fastllm_detach"];
    // In these, the inferred levels leave out memory that the next step frees first. That is
    // better, and gives lower levels.
    let lower = ["snapshots/off_v3_moe", "snapshots/off_v4_moe"];
    for name in names(&shared) {
        let with = snapshot(&shared, &name);
        let mut without = with.clone();
        without.annotations.clear();
        let (with, without) = (trace::replay::run(with), trace::replay::run(without));
        let (annotated, inferred) = (&with.devices[0], &without.devices[0]);
        if ["snapshots/frag", "snapshots/streams"].contains(&name.as_str()) {
            assert_eq!(inferred.step_source, StepSource::None, "{name} is random");
        }
        if inferred.step_source == StepSource::None
            || annotated.steps.len() < 4
            || of_parts.contains(&name.as_str())
        {
            continue;
        }
        assert_eq!(inferred.step_source, StepSource::Inferred);
        let off = inferred.steps.len().abs_diff(annotated.steps.len());
        assert!(off <= 1, "{name}: {} steps", inferred.steps.len());
        let (expected, got) = (steps::levels(annotated), steps::levels(inferred));
        for (step, (expected, got)) in expected.iter().zip(&got).enumerate() {
            let (expected, got) = (expected.allocated_end.0 as f64, got.allocated_end.0 as f64);
            assert!(
                got <= 1.02 * expected,
                "{name} step {step}: {got} for {expected}"
            );
            let enough = got >= 0.98 * expected || lower.contains(&name.as_str());
            assert!(enough, "{name} step {step}: {got} for {expected}");
        }
        let (expected, got) = (report(&with), report(&without));
        assert_eq!(got.verdict, expected.verdict, "{name}: {}", got.reason);
        assert!(got.caveats[0].contains("inferred"), "{name}");
        assert_eq!(
            functions(&got, &without.stacks).first(),
            functions(&expected, &with.stacks).first(),
            "{name}"
        );
    }
}

#[test]
#[ignore = "needs ../shared"]
fn sites_of_one_program_are_equal_across_traces() {
    let shared = shared();
    let sites = |name: &str| {
        let trace = trace::replay::run(snapshot(&shared, name));
        let groups = report(&trace).groups;
        groups.iter().map(|g| g.site).collect::<Vec<_>>()
    };
    let (leaking, fixed) = (sites("snapshots/off_v1_moe"), sites("snapshots/off_v2_moe"));
    assert!(
        fixed.iter().all(|site| leaking.contains(site)),
        "sites of one program are equal across traces"
    );
}
