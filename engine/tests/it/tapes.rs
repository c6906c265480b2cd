//! Replays recordings of the real offloader, and checks what happens if a tape is wrong.

use std::path::{Path, PathBuf};

use engine::tape::{self, TapeVersion};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tapes")
}

fn tapes_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".jsonl.zst"))
        .collect();
    paths.sort();
    paths
}

fn text_of(name: &str) -> String {
    let bytes = std::fs::read(fixtures().join(name)).unwrap();
    String::from_utf8(zstd::decode_all(bytes.as_slice()).unwrap()).unwrap()
}

fn version(label: &str) -> TapeVersion {
    TapeVersion::from_label(label).unwrap()
}

#[test]
fn every_fixture_replays_without_a_mismatch() {
    let paths = tapes_in(&fixtures());
    assert!(paths.len() >= 21, "fixtures are missing: {paths:?}");
    for path in paths {
        let tape::Replayed {
            version, report, ..
        } = tape::replay_file(&path, None).unwrap();
        assert!(report.calls > 50, "{path:?}: only {} calls", report.calls);
        assert_eq!(
            report.mismatches, 0,
            "{path:?} as {version}: {:?}",
            report.first
        );
    }
}

/// Programs that raise exceptions soon, have one step, or do not declare their parameters.
#[test]
fn every_small_fixture_replays_without_a_mismatch() {
    let paths = tapes_in(&fixtures().join("small"));
    assert!(paths.len() >= 8, "fixtures are missing: {paths:?}");
    for path in paths {
        let report = tape::replay_file(&path, None).unwrap().report;
        assert!(report.calls >= 8, "{path:?}: only {} calls", report.calls);
        assert_eq!(report.mismatches, 0, "{path:?}: {:?}", report.first);
    }
}

/// Since trl-1.5 the ids of a forward pass name the tensors of the next one. The gradients of this
/// recording were wrong, and every call agrees.
#[test]
fn restores_of_ids_that_two_forward_passes_had_are_counted() {
    let check = |name: &str, expected: u64| {
        let report = tape::replay_file(&fixtures().join(name), None).unwrap();
        assert_eq!(report.report.reused_ids, expected, "{name}");
    };
    check("small/trl-1.16_two_withs.jsonl.zst", 5);
    for path in tapes_in(&fixtures()) {
        check(&path.to_string_lossy(), 0);
    }
}

/// A recorder that wraps only the class cannot know when `backward()` returns.
#[test]
fn a_tape_without_lines_for_the_end_of_backward_replays_too() {
    let check = |name: &str| {
        let text = text_of(name);
        let is_kept = |line: &&str| !line.contains("\"op\":\"backward_end\"");
        let kept: Vec<&str> = text.lines().filter(is_kept).collect();
        assert!(kept.len() < text.lines().count(), "{name}");
        let label = name.split('_').next().unwrap();
        let report = tape::replay(kept.join("\n").as_bytes(), version(label)).unwrap();
        assert_eq!(report.mismatches, 0, "{name}: {:?}", report.first);
    };
    check("trl-0.18_dense.jsonl.zst");
    check("trl-0.24_dense.jsonl.zst");
    check("v0_dense.jsonl.zst");
    check("v2_out.jsonl.zst");
    check("trl-1.14_dense.jsonl.zst");
}

#[test]
fn a_tape_disagrees_with_another_version() {
    let stale = text_of("v1_stale.jsonl.zst");
    let report = tape::replay(stale.as_bytes(), version("v2")).unwrap();
    // #5700 empties the backward stash on exit. The recording was made without it, so three tensors
    // are in the stash there.
    let first = report.first.unwrap();
    assert_eq!((first.op, first.field), ("exit", "bwd_ev"));
    assert!(report.mismatches > 10, "{}", report.mismatches);

    let views = text_of("v4_views.jsonl.zst");
    let report = tape::replay(views.as_bytes(), version("v3")).unwrap();
    assert_eq!(
        report.first.unwrap().op,
        "pack",
        "#6241 releases keys that v3 still holds"
    );
}

#[test]
fn an_unnamed_tape_is_recognised_by_its_content_as_far_as_it_can_be() {
    let folder = std::env::temp_dir().join(format!("tape-unnamed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("recording.jsonl");
    let check = |name: &str, expected: &[&str]| {
        std::fs::write(&path, text_of(&format!("{name}.jsonl.zst"))).unwrap();
        let found = tape::replay_file(&path, None).unwrap();
        assert_eq!(found.report.mismatches, 0, "{name}");
        let equal = found.equally_good.iter();
        let labels: Vec<String> = [&found.version]
            .into_iter()
            .chain(equal)
            .map(TapeVersion::to_string)
            .collect();
        assert_eq!(labels, expected, "{name}");
    };
    check("v1_views", &["trl-0.29+P4"]);
    check("v3_stale", &["trl-1.5"]);
    check("v4_views", &["trl-1.8", "trl-1.14"]);
    check("trl-1.14_dense", &["trl-1.8", "trl-1.14"]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_changed_decision_origin_or_size_is_reported_where_it_is() {
    let original = text_of("v3_stale.jsonl.zst");
    let changes = [
        (
            r#""id":1,"offloaded":true"#,
            r#""id":1,"offloaded":false"#,
            "pack",
            "offloaded",
        ),
        (
            r#""from":"fwd_stash""#,
            r#""from":"host""#,
            "unpack",
            "from",
        ),
        (
            r#""bwd_stash":2,"#,
            r#""bwd_stash":3,"#,
            "unpack",
            "bwd_stash",
        ),
    ];
    for (from, to, op, field) in changes {
        assert!(original.contains(from), "{from}");
        let changed = original.replacen(from, to, 1);
        let report = tape::replay(changed.as_bytes(), version("v3")).unwrap();
        let first = report.first.expect("the change must be noticed");
        assert_eq!((report.mismatches, first.op, first.field), (1, op, field));
        let line = original
            .lines()
            .position(|line| line.contains(from))
            .unwrap()
            + 1;
        assert_eq!(first.line, line);
    }
}

#[test]
fn a_hook_too_many_and_a_missing_reading_are_reported() {
    let original = text_of("v3_stale.jsonl.zst");
    let without_count: String = {
        let mut dropped = false;
        original
            .lines()
            .filter(|line| {
                let drop = !dropped && line.contains("use_count");
                dropped |= drop;
                !drop
            })
            .map(|line| format!("{line}\n"))
            .collect()
    };
    assert!(
        tape::replay(without_count.as_bytes(), version("v3"))
            .unwrap()
            .mismatches
            > 0
    );
    let hook = original
        .lines()
        .find(|line| line.contains("node_hook"))
        .unwrap();
    let doubled = original.replacen(hook, &format!("{hook}\n{hook}"), 1);
    assert!(
        tape::replay(doubled.as_bytes(), version("v3"))
            .unwrap()
            .mismatches
            > 0
    );
}

#[test]
fn the_report_has_the_documented_fields() {
    let path = fixtures().join("v3_stale.jsonl.zst");
    let json = serde_json::to_value(tape::replay_file(&path, None).unwrap()).unwrap();
    let mut keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    keys.sort();
    let expected = [
        "calls",
        "equally_good",
        "first",
        "mismatches",
        "reused_ids",
        "version",
    ];
    assert_eq!(keys, expected);
    assert_eq!(json["version"], "trl-1.5");
    assert!(json["first"].is_null());
}

#[test]
fn a_broken_tape_is_an_error_with_its_line() {
    let error = tape::replay("{\"op\":\"step\"}\n".as_bytes(), version("v3")).unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
    let text = text_of("v3_stale.jsonl.zst").replacen("\"stride\":[", "\"stride\":[1,", 1);
    let error = tape::replay(text.as_bytes(), version("v3")).unwrap_err();
    assert!(error.to_string().contains("different lengths"), "{error}");
    for text in ["", "\n\n", "{\"op\":\"header\"}\n{\"op\":\"enter\"}\n"] {
        let error = tape::replay(text.as_bytes(), version("v3")).unwrap_err();
        assert!(
            error.to_string().contains("expected exactly one init"),
            "{error}"
        );
    }
}

/// What the offloader did is known without the rest.
#[test]
fn a_tape_of_another_recorder_replays_too() {
    let original = text_of("v3_stale.jsonl.zst");
    let check = |from: &str, to: &str| {
        assert!(original.contains(from), "{from}");
        let changed = original.replace(from, to);
        let report = tape::replay(changed.as_bytes(), version("v3")).unwrap();
        assert_eq!(report.mismatches, 0, "{from} as {to}: {:?}", report.first);
        assert!(report.calls > 50, "{from} as {to}: {} calls", report.calls);
    };
    check("torch.float32", "torch.uint32");
    check("torch.float32", "torch.float8_e8m0fnu");
    check("\"device\":\"cuda\"", "\"device\":\"cuda:0\"");
    check("\"after\":", "\"sizes\":");
    check("\"min_offload_size\":1024", "\"device\":\"cuda\"");
    check(
        "{\"op\":\"init\"",
        "\u{feff}{\"op\":\"header\"}\n\n{\"op\":\"init\"",
    );
}

/// The stride of a dimension of size 1 may be anything, because nothing steps over it.
#[test]
fn dimensions_of_size_one_change_nothing() {
    let lead = |list: &str, value: u64, times: usize| {
        format!("{list}{}", format!("{value},").repeat(times))
    };
    for (dims, stride) in [(1, u64::MAX), (1, 1 << 32), (7, 1 << 40), (61, 5)] {
        let text = text_of("v3_stale.jsonl.zst")
            .replace("\"shape\":[", &lead("\"shape\":[", 1, dims))
            .replace("\"stride\":[", &lead("\"stride\":[", stride, dims));
        let report = tape::replay(text.as_bytes(), version("v3")).unwrap();
        assert_eq!(
            report.mismatches, 0,
            "{dims} of {stride}: {:?}",
            report.first
        );
    }
}

/// Found by fuzzing: elements or positions of such a tensor are too large for any number.
#[test]
fn a_tensor_too_large_to_be_counted_is_an_error() {
    let text = text_of("v3_stale.jsonl.zst");
    let pack = text
        .lines()
        .position(|line| line.contains("\"op\":\"pack\""));
    let pack = pack.expect("something is packed");
    let check = |shape: &str, stride: &str, offset: u64| {
        let lines = text.lines().enumerate().map(|(at, line)| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            if at == pack {
                line["shape"] = serde_json::from_str(shape).unwrap();
                line["stride"] = serde_json::from_str(stride).unwrap();
                line["offset"] = offset.into();
            }
            format!("{line}\n")
        });
        let tape: String = lines.collect();
        for version in tape::TapeVersion::candidates() {
            let error = tape::replay(tape.as_bytes(), version).unwrap_err();
            let line = format!("line {}", pack + 1);
            assert!(error.to_string().contains(&line), "{shape}: {error}");
        }
    };
    check("[4,2522222226,1024,64]", "[262144,1024,1,1]", 0);
    check("[4294967295,4294967295]", "[4294967295,1]", 0);
    check("[4294967295,4294967295,0]", "[1,1,1]", 0);
    check("[2]", "[1]", u64::MAX);
}

#[test]
fn endless_numbers_end_in_a_report_or_an_error() {
    let original = text_of("v4_views.jsonl.zst");
    let check = |field: &str| {
        let endless = |line: &str| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            if line.get(field).is_some() {
                line[field] = u64::MAX.into();
            }
            format!("{line}\n")
        };
        let text: String = original.lines().map(endless).collect();
        assert_ne!(text.matches(&u64::MAX.to_string()).count(), 0, "{field}");
        for version in TapeVersion::candidates() {
            // The result may be anything: in a test an overflow is a panic.
            let _ = tape::replay(text.as_bytes(), version);
        }
    };
    check("max_fwd_stash_size");
    check("min_offload_size");
    check("storage");
    check("storage_bytes");
    check("bytes");
    check("offset");
    check("id");
    check("graph");
}
