//! Every layout of torch 2.0 to 2.15 (docs/snapshot-format.md, "Keys by torch version"), by every
//! pickler and as JSON.

use super::pickle_writer::{Author, Dialect, Filling, Py, json, pickle};
use super::{describe, dict, int, list, read_all, shared, text};
use crate::reader::{Limits, read};
use crate::snapshot::Snapshot;

const KIB: i128 = 1 << 10;

/// What `torch.cuda.memory._snapshot()` of torch 2.`minor` gives for a small program: a segment,
/// two allocations of one stack, one of them freed.
pub fn snapshot(minor: u32) -> Py {
    let frame = |name: &str, line: i128| {
        let fields = vec![
            ("name", text(name)),
            ("filename", text("/srv/train.py")),
            ("line", int(line)),
        ];
        shared(dict(fields))
    };
    let (inner, outer) = (frame("forward", 12), frame("<module>", 40));
    let alloc_stack = shared(list(vec![inner.clone(), outer.clone()]));
    let free_stack = shared(list(vec![outer]));
    let empty = shared(text(""));
    let event = |action: &str, addr: i128, size: i128, time: i128, stack: &Py| {
        let addr_key = if action == "oom" {
            "device_free"
        } else {
            "addr"
        };
        let mut fields = vec![
            ("action", text(action)),
            (addr_key, int(addr)),
            ("size", int(size)),
            ("stream", int(0)),
        ];
        let since = |version: u32, fields: &mut Vec<_>, key: &'static str, value: Py| {
            if minor >= version {
                fields.push((key, value));
            }
        };
        since(2, &mut fields, "time_us", int(1_700_000_000_000_000 + time));
        since(8, &mut fields, "compile_context", text("N/A"));
        since(10, &mut fields, "user_metadata", empty.clone());
        let pool = Py::Tuple(vec![int(0), int(1)]);
        since(12, &mut fields, "pool_id", pool);
        if minor >= 15 && action == "segment_alloc" {
            fields.push(("internal_metadata", text("mallocWithAddress")));
        }
        fields.push(("frames", stack.clone()));
        dict(fields)
    };
    let base = 0x7f00_0000_0000;
    let mut events = vec![
        event("segment_alloc", base, 2048 * KIB, 0, &alloc_stack),
        event("alloc", base, 1000, 1, &alloc_stack),
        event("alloc", base + 1024, 300, 5, &list(vec![inner])),
        event("free_requested", base + 1024, 300, 9, &free_stack),
        event("free_completed", base + 1024, 300, 9, &free_stack),
        event("oom", 77 * KIB, 1 << 40, 20, &free_stack),
    ];
    if minor >= 14 {
        events.push(event("annotate", base, 1000, 21, &list(vec![])));
    }
    let mut top = vec![
        ("segments", list(vec![segment(minor, base, &alloc_stack)])),
        ("device_traces", list(vec![list(events), list(vec![])])),
    ];
    if minor >= 3 {
        top.push(("allocator_settings", settings(minor)));
    }
    if minor >= 5 {
        top.push(("external_annotations", annotations()));
    }
    if minor >= 14 {
        let pinned = ["segment_alloc", "alloc"];
        let pinned = pinned.map(|action| event(action, 4096, 512, 2, &alloc_stack));
        top.extend(host(&alloc_stack, pinned));
    }
    dict(top)
}

fn segment(minor: u32, base: i128, stack: &Py) -> Py {
    let block = |at: i128, size: i128, state: &str| {
        let mut fields = vec![("size", int(size)), ("requested_size", int(size - 24))];
        if minor >= 1 {
            fields.insert(0, ("address", int(base + at)));
        }
        fields.push(("state", text(state)));
        let frames = if state == "inactive" {
            list(vec![])
        } else {
            stack.clone()
        };
        if minor >= 1 {
            fields.push(("frames", frames));
        } else if state != "inactive" {
            // 2.0: the requested size and the stack are in the newest entry of a history.
            fields.retain(|(key, _)| *key != "requested_size");
            let entry = |size: i128, frames: &Py| {
                dict(vec![
                    ("addr", int(base + at)),
                    ("real_size", int(size)),
                    ("frames", frames.clone()),
                ])
            };
            let older = entry(7, &list(vec![]));
            fields.push(("history", list(vec![entry(size - 24, &frames), older])));
        }
        dict(fields)
    };
    let blocks = vec![
        block(0, KIB, "active_allocated"),
        block(KIB, KIB, "active_pending_free"),
        block(2 * KIB, 2046 * KIB, "inactive"),
    ];
    let mut fields = vec![
        ("device", int(0)),
        ("address", int(base)),
        ("total_size", int(2048 * KIB)),
        ("allocated_size", int(KIB)),
        ("active_size", int(2 * KIB)),
        ("requested_size", int(1000)),
        ("stream", int(0)),
        ("segment_type", text("small")),
    ];
    if minor >= 1 {
        fields.push(("segment_pool_id", Py::Tuple(vec![int(0), int(1)])));
        fields.push(("is_expandable", Py::Bool(false)));
        fields.push(("frames", stack.clone()));
    }
    fields.push(("blocks", list(blocks)));
    dict(fields)
}

/// Pinned memory as torch 2.14.1 writes it: one block, and these events.
fn host(stack: &Py, events: [Py; 2]) -> [(&'static str, Py); 2] {
    let block = dict(vec![
        ("address", int(4096)),
        ("size", int(512)),
        ("requested_size", int(512)),
        ("state", text("active_allocated")),
        ("frames", stack.clone()),
    ]);
    let segment = dict(vec![
        ("device", int(-1)),
        ("address", int(4096)),
        ("total_size", int(512)),
        ("allocated_size", int(512)),
        ("active_size", int(512)),
        ("requested_size", int(512)),
        ("stream", int(0)),
        ("segment_type", text("small")),
        ("segment_pool_id", Py::Tuple(vec![int(0), int(0)])),
        ("is_expandable", Py::Bool(false)),
        ("frames", stack.clone()),
        ("blocks", list(vec![block])),
    ]);
    let traces = list(events.to_vec());
    [
        ("host_segments", list(vec![segment])),
        ("host_traces", traces),
    ]
}

fn settings(minor: u32) -> Py {
    let divisions = dict(vec![("1", int(0)), ("256", int(4))]);
    let mut fields = vec![
        ("PYTORCH_CUDA_ALLOC_CONF", text("")),
        ("max_split_size", int(-1)),
        ("garbage_collection_threshold", Py::Float(0.5)),
        ("expandable_segments", Py::Bool(false)),
        ("roundup_power2_divisions", divisions),
    ];
    if minor >= 9 {
        fields.push(("graph_capture_record_stream_reuse", Py::Bool(true)));
    }
    if minor >= 13 {
        fields.push(("max_cached_size", int(-1)));
    }
    dict(fields)
}

fn annotations() -> Py {
    let entry = |stage: &str, time: i128| {
        dict(vec![
            ("name", text("Optimizer.step#AdamW.step")),
            ("stage", text(stage)),
            ("device", int(0)),
            ("time_us", int(time)),
        ])
    };
    list(vec![
        entry("START", 1_700_000_000_000_002),
        entry("END", 1_700_000_000_000_008),
    ])
}

/// The dialects in which a snapshot may come.
pub fn dialects() -> Vec<Dialect> {
    let mut dialects: Vec<Dialect> = (2..=5).map(Dialect::cpython).collect();
    dialects.push(Dialect::CPP);
    dialects.extend([Author::CPython, Author::Cpp].map(|author| Dialect {
        filling: Filling::OneByOne,
        author,
        ..Dialect::CPP
    }));
    dialects
}

#[test]
fn every_layout_gives_the_same_program() {
    let check = |minor: u32, guess: &str, expected_extra: &[&str]| {
        let snapshot = read_all(&snapshot(minor));
        assert_eq!(snapshot.keys_seen.torch_guess().as_deref(), Some(guess));
        let text = describe(&snapshot);
        // The host's lines are looked at below.
        let of_devices = text.lines().filter(|line| !line.contains("0x1000 "));
        let lines: Vec<&str> = of_devices.collect();
        for (at, expected) in PROGRAM.iter().enumerate() {
            assert!(
                lines[at].starts_with(expected),
                "2.{minor}:\n{text}\nwanted {expected}"
            );
        }
        for expected in expected_extra {
            assert!(
                lines.contains(expected),
                "2.{minor}:\n{text}\nwanted {expected}"
            );
        }
        let has = |word: &str| text.contains(word);
        assert_eq!(has("@1700000000000001"), minor >= 2, "2.{minor}:\n{text}");
        assert_eq!(
            snapshot.kinds[0].pool.is_some(),
            minor >= 12,
            "2.{minor}:\n{text}"
        );
        assert_eq!(has(" Annotate "), minor >= 14, "2.{minor}:\n{text}");
        assert_eq!(snapshot.host_unread, 0);
        assert_eq!(
            has("segment 128:0x1000 512"),
            minor >= 14,
            "2.{minor}:\n{text}"
        );
        assert_eq!(
            has("\nhost\n SegmentAlloc 0x1000 512"),
            minor >= 14,
            "2.{minor}:\n{text}"
        );
        assert_eq!(has("mallocWithAddress"), minor >= 15, "2.{minor}:\n{text}");
        assert!(
            snapshot.unknown_keys.is_empty(),
            "{:?}",
            snapshot.unknown_keys
        );
    };
    let settings = &[
        "setting PYTORCH_CUDA_ALLOC_CONF=",
        "setting max_split_size=-1",
        "setting garbage_collection_threshold=0.5",
        "setting expandable_segments=false",
        "setting roundup_power2_divisions.1=0",
        "setting roundup_power2_divisions.256=4",
    ];
    let annotated = &[
        "Start Optimizer.step#AdamW.step on 0 @1700000000000002",
        "End Optimizer.step#AdamW.step on 0 @1700000000000008",
    ];
    check(0, "2.0", &[]);
    check(1, "2.1", &[]);
    check(2, "2.2", &[]);
    check(3, "2.3 to 2.4", settings);
    check(5, "2.5 to 2.7", annotated);
    check(8, "2.8 to 2.9", annotated);
    check(10, "2.10 to 2.11", annotated);
    check(12, "2.12", annotated);
    check(13, "2.13", annotated);
    check(14, "2.14 or later", annotated);
    check(15, "2.15 or later", settings);
}

/// The lines that all layouts begin with; a layout may add text to a line.
const PROGRAM: [&str; 11] = [
    "segment 0:0x7f0000000000 2097152 allocated 1024 Small stream 0 pool (0, ",
    " block 0x7f0000000000 1024 of 1000 ActiveAllocated forward:12<<module>:40",
    " block 0x7f0000000400 1024 of 1000 PendingFree forward:12<<module>:40",
    " block 0x7f0000000800 2095104 of 2095080 Inactive -",
    "device 0",
    " SegmentAlloc 0x7f0000000000 2097152 stream 0 forward:12<<module>:40",
    " Alloc 0x7f0000000000 1000 stream 0 forward:12<<module>:40",
    " Alloc 0x7f0000000400 300 stream 0 forward:12",
    " FreeRequested 0x7f0000000400 300 stream 0 <module>:40",
    " FreeCompleted 0x7f0000000400 300 stream 0 <module>:40",
    " Oom 0x13400 1099511627776 stream 0 <module>:40",
];

#[test]
fn every_pickler_and_json_give_the_same_snapshot() {
    for minor in [0, 1, 2, 3, 5, 8, 10, 12, 14, 15] {
        let program = snapshot(minor);
        let expected = read_all(&program);
        for dialect in dialects() {
            let got = read(&pickle(&program, dialect), Limits::default()).unwrap();
            assert_eq!(
                describe(&got),
                describe(&expected),
                "2.{minor}, {dialect:?}"
            );
            // When a list is filled one by one, each prefix of a stack is a stack too.
            if dialect.filling != Filling::OneByOne {
                let expected = Snapshot {
                    pickle_protocol: Some(dialect.protocol),
                    ..expected.clone()
                };
                assert_eq!(got, expected, "2.{minor}, {dialect:?}");
            }
        }
        let got = read(json(&program).as_bytes(), Limits::default()).unwrap();
        let expected = Snapshot {
            pickle_protocol: None,
            ..expected
        };
        assert_eq!(describe(&got), describe(&expected), "2.{minor} as JSON");
        assert_eq!(got, expected, "2.{minor} as JSON");
    }
}
