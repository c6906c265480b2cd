//! `tidemark compare` and `tidemark gate` on recordings of real runs.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const PASS: i32 = 0;
const REGRESSION: i32 = 1;
const BAD_INPUT: i32 = 2;
const CANNOT_TELL: i32 = 3;

struct Gated {
    code: i32,
    report: Value,
}

impl Gated {
    /// The one difference.
    fn difference(&self) -> &Value {
        &self.report["comparison"]["against"][0]["devices"][0]
    }
}

fn gate(base: &Path, new: &Path) -> Gated {
    let output = Command::new(tests::tidemark())
        .args(["gate", "--json"])
        .args([base, new])
        .output()
        .expect("tidemark runs");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let code = output.status.code().expect("it was not killed");
    if !report.is_null() {
        assert_eq!(
            report["exit_code"], code,
            "the document and the status agree"
        );
    }
    Gated { code, report }
}

fn check(base: &Path, new: &Path, expected: i32) -> Gated {
    let gated = gate(base, new);
    let (from, to) = (base.display(), new.display());
    assert_eq!(
        gated.code, expected,
        "{from} → {to}: {}",
        gated.report["reason"]
    );
    gated
}

fn snapshots(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("the folder can be listed");
    let paths = entries.map(|entry| entry.expect("the entry can be read").path());
    let mut found: Vec<_> = paths
        .filter(|path| path.to_string_lossy().ends_with(".pickle.zst"))
        .collect();
    found.sort();
    found
}

fn fixture(name: &str) -> PathBuf {
    tests::workspace_root().join(format!("tests/fixtures/{name}.pickle.zst"))
}

fn shared(name: &str) -> PathBuf {
    tests::recordings().join(format!("{name}.pickle.zst"))
}

/// The growth per step of one side of the difference, in decimal megabytes.
fn growth(side: &Value) -> f64 {
    side["growth"]["slope"].as_f64().expect("a slope") / 1e6
}

fn check_against_itself(folder: &Path) {
    let files = snapshots(folder);
    assert!(!files.is_empty(), "no recordings in {}", folder.display());
    for path in files {
        let gated = check(&path, &path, PASS);
        assert_eq!(gated.difference()["change"], "none", "{}", path.display());
    }
}

#[test]
fn every_fixture_passes_against_itself_as_no_change() {
    check_against_itself(&tests::workspace_root().join("tests/fixtures"));
}

#[test]
#[ignore = "needs ../shared"]
fn every_recording_passes_against_itself_as_no_change() {
    let kinds = [
        "snapshots",
        "plain",
        "public",
        "qwen9b",
        "categories",
        "settings",
    ];
    for kind in kinds {
        check_against_itself(&tests::recordings().join(kind));
    }
}

/// Recordings of one program with other settings of the allocator, with a limit, and dumped at
/// other moments: none of them is a regression from another one.
#[test]
#[ignore = "needs ../shared"]
fn recordings_of_one_program_are_no_regression_of_one_another() {
    let shared = tests::recordings();
    // This setting rounds sizes up, so the same program allocates 4 % more. Checked separately
    // below.
    let rounds_up = |path: &PathBuf| path.to_string_lossy().contains("_round");
    let mut settings = snapshots(&shared.join("settings"));
    let rounded: Vec<_> = settings.extract_if(.., |path| rounds_up(path)).collect();
    let mut groups = vec![settings.clone()];
    let moments = snapshots(&shared.join("categories"));
    for program in ["gpt_early", "gpt_late", "conv_early", "conv_late"] {
        let of_program = |path: &&PathBuf| path.to_string_lossy().contains(program);
        groups.push(moments.iter().filter(of_program).cloned().collect());
    }
    let mut pairs = 0;
    for group in groups {
        for (base, new) in group
            .iter()
            .flat_map(|base| group.iter().map(move |new| (base, new)))
        {
            check(base, new, PASS);
            pairs += 1;
        }
    }
    assert!(pairs >= 80, "{pairs} pairs");
    for (new, base) in rounded
        .iter()
        .flat_map(|new| settings.iter().map(move |b| (new, b)))
    {
        let gated = check(base, new, REGRESSION);
        let reason = gated.report["reason"].as_str().expect("a sentence");
        assert!(reason.contains("the program requests no more"), "{reason}");
    }
}

#[test]
#[ignore = "needs ../shared"]
fn a_forward_pass_cannot_be_judged_by_a_whole_step() {
    let (forward, whole) = (
        shared("plain/single_forward"),
        shared("plain/single_fullstep"),
    );
    for (base, new) in [(&forward, &whole), (&whole, &forward)] {
        let gated = check(base, new, CANNOT_TELL);
        let reason = gated.report["reason"].as_str().expect("a sentence");
        assert!(reason.contains("holds no"), "{reason}");
    }
}

#[test]
fn the_fixtures_leak_fails_and_its_fix_passes() {
    let (leak, fix) = (fixture("off_v1_moe"), fixture("off_v3_moe"));
    let gated = check(&fix, &leak, REGRESSION);
    let reason = gated.report["reason"].as_str().expect("a sentence");
    assert!(
        reason.contains("a leak that the baseline does not have"),
        "{reason}"
    );
    let gated = check(&leak, &fix, PASS);
    let difference = gated.difference();
    assert_eq!(
        (&difference["change"], &difference["leaks"]),
        (&"better".into(), &"fixed".into())
    );
}

#[test]
#[ignore = "needs ../shared"]
fn each_shared_leak_fails_against_its_clean_counterpart() {
    let pairs = [
        ("clean_plain", "leak_every_other"),
        ("clean_plain", "leak_hook_cache"),
        ("clean_plain", "leak_running_loss"),
        ("clean_plain", "leak_two_sites"),
        ("te_fix", "te_leak"),
        ("fastllm_detach", "fastllm_retain"),
        ("ddp_rank0", "ddp_rank1"),
        ("off_v4_moe", "off_v1_moe"),
        ("off_v4_moe", "off_v2_moe"),
        ("off_v2_moe", "off_v1_moe"),
    ];
    for (clean, leak) in pairs {
        let [clean, leak] = [clean, leak].map(|name| shared(&format!("snapshots/{name}")));
        let gated = check(&clean, &leak, REGRESSION);
        let findings = gated.report["findings"].as_array().expect("a list");
        let fails = |finding: &&Value| finding["code"] == "leak" && finding["weight"] == "fail";
        assert!(findings.iter().any(|f| fails(&f)), "{findings:?}");
        check(&leak, &clean, PASS);
    }
}

#[test]
#[ignore = "needs ../shared"]
fn null_pairs_are_told_from_patches() {
    let [plain, expandable, ring] =
        ["plain_lm", "expandable", "ring"].map(|name| shared(&format!("snapshots/{name}")));
    // The same program with another allocator setting: its requested bytes are equal.
    for (base, new) in [(&plain, &expandable), (&expandable, &plain)] {
        let gated = check(base, new, PASS);
        let requested = &gated.difference()["series"][0];
        assert_eq!(
            (&requested["peak"], &requested["end"]),
            (&0.into(), &0.into())
        );
        let first = &gated.difference()["conditions"][0];
        assert_eq!(first["kind"], "setting", "what differs is said first");
    }
    let gated = check(&plain, &ring, CANNOT_TELL);
    let reason = gated.report["reason"].as_str().expect("a sentence");
    assert!(
        reason.contains("the ring of the new run wrapped"),
        "{reason}"
    );
    // With C++ frames the backward functions have names, and the report says so.
    let cpp = shared("snapshots/cpp");
    let conditions = gate(&plain, &cpp).difference()["conditions"].to_string();
    assert!(conditions.contains("C++ frames recorded"), "{conditions}");
    // Without stacks the levels in the steps are the same, but too few of them are known.
    let stackless = shared("snapshots/nostack");
    let gated = check(&plain, &stackless, CANNOT_TELL);
    for step in gated.difference()["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .take(3)
    {
        assert_eq!(step["base"]["peak"], step["new"]["peak"]);
    }
}

#[test]
#[ignore = "needs ../shared"]
fn the_chain_of_patches_tells_its_story() {
    let versions = ["off_v1_moe", "off_v2_moe", "off_v3_moe", "off_v4_moe"];
    let files = versions.map(|name| shared(&format!("snapshots/{name}")));
    let output = Command::new(tests::tidemark())
        .args(["compare", "--json"])
        .args(&files)
        .output()
        .expect("tidemark runs");
    let comparison: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let against = comparison["against"].as_array().expect("three runs");
    let leaks: Vec<&Value> = against.iter().map(|a| &a["devices"][0]["leaks"]).collect();
    assert_eq!(leaks, ["slower", "fixed", "fixed"]);
    // Allocated after steps 1, 4, 7 and 10 in GB, from the table of measurements.
    let published = [
        [0.746, 2.333, 3.583, 4.960],
        [0.746, 1.367, 2.030, 2.752],
        [0.746, 0.738, 0.738, 0.738],
        [0.629, 0.629, 0.629, 0.629],
    ];
    for (run, row) in published.iter().enumerate() {
        let (at, side) = if run == 0 {
            (0, "base")
        } else {
            (run - 1, "new")
        };
        let steps = &against[at]["devices"][0]["steps"];
        for (gigabytes, step) in row.iter().zip([0, 3, 6, 9]) {
            let end = steps[step][side]["end"].as_f64().expect("a level") / 1e9;
            assert!(
                (end - gigabytes).abs() < 0.05,
                "run {run}, step {step}: {end}"
            );
        }
    }
    // The leak of v1 is the memory saved for backward; #5700 frees it.
    let site = &against[0]["devices"][0]["sites"][0];
    assert_eq!(
        (&site["change"], &site["matched"]),
        (&"shrunk".into(), &"inferred".into())
    );
    assert_eq!(site["new"]["place"]["name"], "unpack_tensor_with_streams");
}

#[test]
#[ignore = "needs ../shared"]
fn the_published_pair_grows_less_and_still_leaks() {
    let (baseline, patched) = (shared("qwen9b/vl_v0"), shared("qwen9b/vl_v0+P3"));
    let gated = check(&baseline, &patched, PASS);
    let difference = gated.difference();
    assert_eq!(
        (&difference["change"], &difference["leaks"]),
        (&"better".into(), &"slower".into())
    );
    // Only four steps, so wide bounds for the error of the fit. Over a hundred steps: 103.8 → 33.4
    // MB a step.
    let [before, after] = [growth(&difference["base"]), growth(&difference["new"])];
    assert!((95.0..120.0).contains(&before), "{before}");
    assert!((25.0..45.0).contains(&after), "{after}");
    let headline = difference["headline"].as_str().expect("a sentence");
    assert!(headline.contains("still leaking"), "{headline}");
    check(&patched, &baseline, REGRESSION);
}

#[test]
fn bad_input_is_neither_pass_nor_regression() {
    let folder = tempfile::tempdir().expect("a folder");
    let junk = folder.path().join("junk.pickle");
    std::fs::write(&junk, b"not a snapshot").expect("it can be written");
    check(&fixture("plain_lm"), &junk, BAD_INPUT);
    check(
        &folder.path().join("absent.pickle"),
        &fixture("plain_lm"),
        BAD_INPUT,
    );
}

#[test]
fn markdown_has_the_verdict_the_numbers_and_no_markup_of_the_files() {
    let output = Command::new(tests::tidemark())
        .args(["gate", "--markdown"])
        .args([fixture("off_v3_moe"), fixture("off_v1_moe")])
        .output()
        .expect("tidemark runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.starts_with("**❌ Regression:** the peak of allocated is"),
        "{text}"
    );
    assert!(
        text.contains("| peak allocated | 1.20 GiB | 6.00 GiB | +4.80 GiB |"),
        "{text}"
    );
    assert!(text.contains("off\\_v1\\_moe"), "{text}");
}
