//! Unusual shapes that are still a snapshot.

use super::pickle_writer::{Dialect, Py, json, pickle};
use super::{describe, dict, event, int, list, read_all, shared, text, trace};
use crate::reader::{Limits, read};
use crate::stacks::StackIdx;

/// Reads `root` as pickle and as JSON; both must be described by exactly these lines.
fn check(root: &Py, expected: &[&str]) {
    let expected: String = expected.iter().map(|line| format!("{line}\n")).collect();
    assert_eq!(describe(&read_all(root)), expected);
    let from_json = read(json(root).as_bytes(), Limits::default()).unwrap();
    assert_eq!(describe(&from_json), expected);
}

#[test]
fn a_part_may_be_missing_or_empty() {
    check(&dict(vec![("segments", list(vec![]))]), &[]);
    check(&dict(vec![("device_traces", list(vec![]))]), &[]);
    let none = vec![("segments", Py::None), ("device_traces", list(vec![]))];
    check(&dict(none.clone()), &[]);
    // An empty list says that nothing was reserved; `None` does not say anything.
    assert!(!read_all(&dict(none)).has_segments());
    assert!(read_all(&trace(vec![])).has_segments());
    check(&trace(vec![]), &["device 0"]);
    let traces = list(vec![list(vec![]), list(vec![event(vec![])]), list(vec![])]);
    check(
        &dict(vec![("device_traces", traces)]),
        &[
            "device 0",
            "device 1",
            " Alloc 0x0 512 stream 0 -",
            "device 2",
        ],
    );
}

#[test]
fn several_devices_may_be_busy() {
    let events = |from: i128, n: i128| {
        let event = |at| event(vec![("addr", int(at)), ("time_us", int(1000 + at))]);
        list((from..from + n).map(event).collect())
    };
    let traces = list(vec![events(1, 1), list(vec![]), events(2, 3), events(9, 1)]);
    // Host events are in the same table. In case a version has several lists, they become one.
    let host = list(vec![events(23, 2), list(vec![]), events(20, 2)]);
    check(
        &dict(vec![("host_traces", host), ("device_traces", traces)]),
        &[
            "device 0",
            " Alloc 0x1 512 stream 0 - @1001",
            "device 1",
            "device 2",
            " Alloc 0x2 512 stream 0 - @1002",
            " Alloc 0x3 512 stream 0 - @1003",
            " Alloc 0x4 512 stream 0 - @1004",
            "device 3",
            " Alloc 0x9 512 stream 0 - @1009",
            "host",
            " Alloc 0x14 512 stream 0 - @1020",
            " Alloc 0x15 512 stream 0 - @1021",
            " Alloc 0x17 512 stream 0 - @1023",
            " Alloc 0x18 512 stream 0 - @1024",
        ],
    );
}

#[test]
fn pinned_memory_of_an_unknown_shape_is_counted_not_refused() {
    let strange = dict(vec![("address", int(4096)), ("size", int(512))]);
    let file = dict(vec![
        ("device_traces", list(vec![])),
        ("host_segments", list(vec![strange.clone(), strange])),
        ("host_traces", list(vec![int(1)])),
    ]);
    assert_eq!(read_all(&file).host_unread, 3);
}

#[test]
fn host_and_device_do_not_share_events() {
    let events = shared(list(vec![event(vec![("addr", int(1))])]));
    let file = dict(vec![
        ("device_traces", list(vec![events.clone()])),
        ("host_traces", events),
    ]);
    let refused = read(&pickle(&file, Dialect::CPP), Limits::default());
    let refused = refused.map(drop).unwrap_err().to_string();
    assert!(refused.contains("used in two places"), "{refused}");
}

#[test]
fn unknown_keys_are_counted_not_refused() {
    let nested = dict(vec![
        ("deep", list(vec![int(1), text("x")])),
        ("er", int(1)),
    ]);
    let frame = dict(vec![
        ("name", text("f")),
        ("filename", text("f.py")),
        ("line", int(3)),
        ("column", int(7)),
        ("fx_node_op", text("call")),
    ]);
    let events = vec![
        event(vec![("new_thing", nested), ("frames", list(vec![frame]))]),
        event(vec![
            ("new_thing", Py::None),
            ("other", list(vec![text("a"), int(1)])),
        ]),
        event(vec![("action", text("teleport"))]),
        event(vec![("action", text("teleport"))]),
    ];
    let root = dict(vec![
        ("device_traces", list(vec![list(events)])),
        ("version", int(3)),
    ]);
    check(
        &root,
        &[
            "device 0",
            " Alloc 0x0 512 stream 0 f:3",
            " Alloc 0x0 512 stream 0 -",
            " Unknown 0x0 512 stream 0 -",
            " Unknown 0x0 512 stream 0 -",
            "unknown column: 1",
            "unknown new_thing: 2",
            "unknown other: 1",
            "unknown version: 1",
            "unknown action teleport: 2",
        ],
    );
}

#[test]
fn what_nobody_asks_for_may_be_anything() {
    // {1: 2, "device_traces": [[{"action": "alloc", "size": 512, "new": X, 3: X}]]}
    let file = |more: &[u8]| {
        let key = |name: &str| [&[0x8c, name.len() as u8][..], name.as_bytes(), &[0x94]].concat();
        let event = [
            &b"}\x94("[..],
            &key("action"),
            &key("alloc"),
            &key("size"),
            b"M\x00\x02",
            &key("new"),
            more,
            b"K\x03",
            more,
            b"u",
        ];
        let start = [&b"\x80\x04}\x94(K\x01K\x02"[..], &key("device_traces")];
        [&start.concat()[..], b"]\x94]\x94", &event.concat(), b"aau."].concat()
    };
    let check = |more: &[u8]| {
        let snapshot = read(&file(more), Limits::default()).unwrap();
        let expected = "device 0\n Alloc 0x0 512 stream 0 -\nunknown a key that is no string: 2\n\
                        unknown new: 1\n";
        assert_eq!(describe(&snapshot), expected, "{more:?}");
    };
    check(b"}K\x01K\x02s");
    check(b"}(K\x01K\x02K\x03K\x04u");
    check(&[&[0x8a, 9][..], &[0x7f; 9]].concat());
    check(&[&[0x8a, 40][..], &[0xff; 40]].concat());
}

#[test]
fn a_deep_stack_is_kept_once_however_it_comes() {
    let frame = |line: i128| {
        let fields = vec![
            ("name", text("f")),
            ("filename", text("f.py")),
            ("line", int(line)),
        ];
        shared(dict(fields))
    };
    let frames: Vec<Py> = (0..2_500).map(frame).collect();
    let twice = shared(list(frames.clone()));
    let other = list([&frames[..], &[frame(7)]].concat());
    let stacks = [
        list(frames.clone()),
        twice.clone(),
        other,
        twice,
        list(frames),
    ];
    let events = stacks.map(|stack| event(vec![("frames", stack)]));
    let root = trace(events.to_vec());
    let files = [
        pickle(&root, Dialect::cpython(4)),
        pickle(&root, Dialect::cpython(2)),
        json(&root).into_bytes(),
    ];
    for file in files {
        let snapshot = read(&file, Limits::default()).unwrap();
        let kinds = snapshot.devices[0].kind.iter();
        let stacks: Vec<StackIdx> = kinds.map(|&k| snapshot.kinds[k as usize].stack).collect();
        let len = |at: usize| snapshot.stacks.frames(stacks[at]).len();
        assert_eq!((len(0), len(2)), (2_500, 2_501));
        assert!(
            [1, 3, 4].iter().all(|&at| stacks[at] == stacks[0]),
            "{stacks:?}"
        );
        // The first batch of each is a stack, too; other beginnings are not.
        assert!(
            snapshot.stacks.n_members() < 2 * 2_501 + 2 * 1_001,
            "{stacks:?}"
        );
    }
}

#[test]
fn fields_of_unusual_types() {
    let check = |fields: Vec<(&str, Py)>, expected: &str| {
        check(&trace(vec![event(fields)]), &["device 0", expected]);
    };
    check(vec![("frames", Py::None)], " Alloc 0x0 512 stream 0 -");
    check(
        vec![("addr", Py::Float(1.4e14))],
        " Alloc 0x7f544a44c000 512 stream 0 -",
    );
    check(
        vec![("size", Py::Float(1024.0))],
        " Alloc 0x0 1024 stream 0 -",
    );
    check(
        vec![("time_us", Py::Float(17.0))],
        " Alloc 0x0 512 stream 0 - @17",
    );
    // A pointer of 2^63 or more takes nine bytes (#115234); C++ would write it negative.
    check(
        vec![("addr", int(1 << 63))],
        " Alloc 0x8000000000000000 512 stream 0 -",
    );
    check(
        vec![("addr", int((1 << 64) - (1 << 56)))],
        " Alloc 0xff00000000000000 512 stream 0 -",
    );
    check(
        vec![("addr", int(-(1 << 56)))],
        " Alloc 0xff00000000000000 512 stream 0 -",
    );
    check(
        vec![("stream", int(0x7fff_dead_beef))],
        " Alloc 0x0 512 stream 140736929316591 -",
    );
    // As in Python, the last of equal keys counts.
    check(
        vec![("size", int(1)), ("size", int(2))],
        " Alloc 0x0 2 stream 0 -",
    );
    check(
        vec![("compile_context", text("0/1"))],
        " Alloc 0x0 512 stream 0 - \"0/1\"",
    );
    check(
        vec![("category", text("GRADIENT"))],
        " Alloc 0x0 512 stream 0 - \"GRADIENT\"",
    );
    let pool = Py::Tuple(vec![int(3), int(0)]);
    check(
        vec![("pool_id", pool)],
        " Alloc 0x0 512 stream 0 - pool (3, 0)",
    );
    let forward = list(vec![text("model.py:3"), text("train.py:9")]);
    check(
        vec![("forward_frames", forward)],
        " Alloc 0x0 512 stream 0 - forward model.py:3:0<train.py:9:0",
    );
}

#[test]
fn long_lists_come_in_batches() {
    let name = |n: i128| text(&format!("f{n}"));
    let forward = list((0..2_500).map(name).collect());
    let frame = |n| {
        shared(dict(vec![
            ("name", name(n)),
            ("filename", text("f.py")),
            ("line", int(n)),
        ]))
    };
    let frames = list((0..2_001).map(frame).collect());
    let with_stack = event(vec![("frames", frames), ("forward_frames", forward)]);
    let mut events = vec![with_stack];
    events.extend((1..5_001).map(|addr| event(vec![("addr", int(addr))])));
    let root = trace(events);
    let snapshot = read_all(&root);
    let first = snapshot.kinds[snapshot.devices[0].kind[0] as usize];
    assert_eq!(snapshot.stacks.frames(first.stack).len(), 2_001);
    assert_eq!(snapshot.stacks.frames(first.forward_stack).len(), 2_500);
    let addresses: Vec<u64> = snapshot.devices[0].addr.iter().collect();
    assert_eq!(addresses, (0..5_001).collect::<Vec<u64>>());
    let from_json = read(json(&root).as_bytes(), Limits::default()).unwrap();
    assert_eq!(from_json.devices, snapshot.devices);
}

#[test]
fn equal_stacks_of_different_lists_are_one() {
    let frame = |line| {
        dict(vec![
            ("name", text("f")),
            ("filename", text("")),
            ("line", int(line)),
        ])
    };
    let stack = || list(vec![frame(1), frame(2)]);
    let events = vec![
        event(vec![("frames", stack())]),
        event(vec![("frames", stack())]),
        event(vec![("frames", list(vec![frame(2), frame(1)]))]),
    ];
    let snapshot = read_all(&trace(events));
    assert_eq!(snapshot.devices[0].kind, [0, 0, 1]);
    assert_eq!((snapshot.stacks.len(), snapshot.stacks.n_frames()), (3, 2));
}

#[test]
fn segments_of_unusual_kinds() {
    let segment = |more: Vec<(&str, Py)>| {
        let fields = vec![("address", int(4096)), ("total_size", int(8192))];
        dict(vec![(
            "segments",
            list(vec![dict([fields, more].concat())]),
        )])
    };
    check(
        &segment(vec![("is_expandable", Py::Bool(true)), ("stream", int(-1))]),
        &[
            "segment 0:0x1000 8192 allocated 0 Large stream 18446744073709551615 pool (0, 0) \
           expandable",
        ],
    );
    let block = |state: &str| dict(vec![("state", text(state)), ("size", int(4096))]);
    let blocks = list(vec![block("active_awaiting_free"), block("inactive")]);
    check(
        &segment(vec![("device", int(3)), ("blocks", blocks)]),
        &[
            "segment 3:0x1000 8192 allocated 0 Large stream 0 pool (0, 0)",
            " block 0x1000 4096 of 4096 PendingFree -",
            " block 0x2000 4096 of 0 Inactive -",
        ],
    );
}

#[test]
fn a_list_of_segments_alone_is_a_snapshot() {
    // What `torch.cuda.memory_snapshot()` returns.
    let block = dict(vec![
        ("state", text("active_allocated")),
        ("size", int(4096)),
        ("requested_size", int(4000)),
    ]);
    let segment = |at: i128| {
        dict(vec![
            ("device", int(0)),
            ("address", int(at)),
            ("total_size", int(4096)),
            ("blocks", list(vec![block.clone()])),
        ])
    };
    let root = list(vec![segment(4096), segment(8192)]);
    check(
        &root,
        &[
            "segment 0:0x1000 4096 allocated 0 Large stream 0 pool (0, 0)",
            " block 0x1000 4096 of 4000 ActiveAllocated -",
            "segment 0:0x2000 4096 allocated 0 Large stream 0 pool (0, 0)",
            " block 0x2000 4096 of 4000 ActiveAllocated -",
        ],
    );
    let trace = crate::replay::run(read_all(&root));
    assert_eq!(
        trace.devices[0].summary.map(|s| s.end.0),
        [8000, 8192, 8192, 8192]
    );
    assert_eq!(trace.quality[0].code, "no_events");
    let why = "torch.cuda.memory_snapshot() gives none";
    let told = &trace.quality[0].detail;
    assert!(told.contains(why), "{told}");
    assert_eq!(crate::redact::note(&trace.quality[0]).detail, *told);
}

#[test]
fn hostile_settings_are_clipped() {
    let name = "n".repeat(5_000);
    let inner = (0..3_000)
        .map(|n| (format!("{name}{n}"), text(&name)))
        .collect();
    let settings = dict(vec![("a", shared(Py::Dict(inner))), ("b", int(1))]);
    let root = dict(vec![
        ("segments", list(vec![])),
        ("allocator_settings", settings),
    ]);
    let snapshot = read_all(&root);
    let bytes: usize = snapshot
        .settings
        .iter()
        .map(|(k, v)| k.len() + v.len())
        .sum();
    assert!(bytes < 4 << 20, "{bytes}");
}

#[test]
fn bytes_after_the_end_are_counted() {
    let root = trace(vec![]);
    let mut file = pickle(&root, Dialect::cpython(4));
    file.extend(b"\x80\x04garbage");
    let snapshot = read(&file, Limits::default()).unwrap();
    assert_eq!(snapshot.trailing_bytes, 9);
    let snapshot = read((json(&root) + "\n ]x").as_bytes(), Limits::default()).unwrap();
    assert_eq!(snapshot.trailing_bytes, 2);
}

#[test]
fn names_that_are_no_unicode_are_replaced() {
    // Python writes half of a surrogate pair as three bytes.
    let root = trace(vec![event(vec![("user_metadata", text("a???b"))])]);
    let mut file = pickle(&root, Dialect::cpython(4));
    let at = file.windows(3).position(|bytes| bytes == b"???").unwrap();
    file[at..at + 3].copy_from_slice(b"\xed\xa0\x80");
    let snapshot = read(&file, Limits::default()).unwrap();
    assert!(describe(&snapshot).contains("\"a\u{fffd}\u{fffd}\u{fffd}b\""));
}

#[test]
fn texts_that_differ_by_a_zero_byte_differ() {
    let with = |name: &str| event(vec![("user_metadata", text(name))]);
    let names = ["a", "a\0", "", "\0", "é\"\\\n😀"];
    let snapshot = read_all(&trace(names.iter().map(|name| with(name)).collect()));
    assert_eq!(snapshot.devices[0].kind, [0, 1, 2, 3, 4]);
    let root = trace(vec![with(names[4])]);
    check(
        &root,
        &["device 0", " Alloc 0x0 512 stream 0 - \"é\\\"\\\\\\n😀\""],
    );
}

#[test]
fn what_no_device_can_have_free_is_not_known() {
    let oom = |free: i128| dict(vec![("action", text("oom")), ("device_free", int(free))]);
    let free = [4096, 1 << 48, (1 << 48) + 1, (1 << 64) - 1, -5, 0];
    let mut events = free.map(oom).to_vec();
    // One that does not say, alone and after an event of the same shape.
    let silent = || dict(vec![("action", text("oom")), ("size", int(512))]);
    events.extend([silent(), silent()]);
    let trace = crate::replay::run(read_all(&trace(events)));
    let others = trace.devices[0].events.others.iter();
    let read: Vec<Option<u64>> = others.map(|oom| oom.free().map(|free| free.0)).collect();
    let known = [Some(4096), Some(1 << 48)];
    assert_eq!(read[..2], known);
    assert_eq!(read[2..], [None, None, None, Some(0), None, None]);
}

#[test]
fn a_refused_request_may_have_any_size() {
    let oom = |size: i128| {
        dict(vec![
            ("action", text("oom")),
            ("size", int(size)),
            ("device_free", int(4096)),
        ])
    };
    let sizes = [1 << 60, 1 << 62, 1 << 63, (1 << 64) - 512, -512, 1 << 60];
    let events = sizes.map(oom).to_vec();
    let snapshot = read_all(&trace([vec![event(vec![])], events].concat()));
    let kinds = snapshot.devices[0].kind.iter();
    let read: Vec<u64> = kinds.map(|&k| snapshot.kinds[k as usize].size.0).collect();
    let most = 1 << 62;
    assert_eq!(read, [512, 1 << 60, most, most, most, most, 1 << 60]);
}
