//! Hostile, damaged and foreign files: the error message, and its byte offset.

use super::pickle_writer::{Dialect, Py, pickle};
use super::{dict, event, int, list, text, trace};
use crate::reader::{Limits, ReadError, ReadErrorKind, Reader, read};

fn check(bytes: &[u8], offset: u64, expected: &str) {
    let error = read(bytes, Limits::default()).unwrap_err();
    let said = error.to_string();
    assert!(said.contains(expected), "said: {said}\nwanted: {expected}");
    assert_eq!(error.offset, offset, "{said}");
    // The message is the same however the file is cut into pieces.
    let mut reader = Reader::new(Limits::default());
    let pushed = bytes.iter().try_for_each(|&byte| reader.push(&[byte]));
    assert_eq!(
        pushed.and_then(|()| reader.finish().map(|_| ())),
        Err(error)
    );
}

/// A pickle whose first `prefix` bytes are harmless, then `rest`.
fn after_a_dict(rest: &[u8]) -> Vec<u8> {
    [&[0x80, 4, b'}', 0x94], rest].concat()
}

#[test]
fn code_is_refused_where_it_stands() {
    for (opcode, name) in [
        (b'c', "GLOBAL"),
        (0x93, "STACK_GLOBAL"),
        (b'R', "REDUCE"),
        (b'b', "BUILD"),
        (b'i', "INST"),
        (b'o', "OBJ"),
        (0x81, "NEWOBJ"),
        (0x92, "NEWOBJ_EX"),
        (0x82, "EXT1"),
        (0x83, "EXT2"),
        (0x84, "EXT4"),
        (b'P', "PERSID"),
        (b'Q', "BINPERSID"),
    ] {
        let file = after_a_dict(&[opcode, b'x', b'\n', b'y', b'\n', b'.']);
        check(&file, 4, &format!("opcode {name} at byte 4 would run code"));
        let error = read(&file, Limits::default()).unwrap_err();
        assert_eq!(error.kind, ReadErrorKind::Code(name));
    }
    // What an attacker would send: os.system("true") instead of a value.
    let attack = after_a_dict(b"(\x8c\x06frames\x94cposix\nsystem\n\x8c\x04true\x85R");
    check(&attack, 14, "opcode GLOBAL at byte 14");
}

/// `torch.cuda.memory_stats()` is an `OrderedDict`. It is refused, too, but not as an attack.
#[test]
fn a_class_of_collections_is_named() {
    let file = after_a_dict(b"\x8c\x0bcollections\x8c\x0bOrderedDict\x93)R.");
    check(&file, 30, "an object of Python's `collections`");
    let other = after_a_dict(b"\x8c\x05posix\x8c\x06system\x93)R.");
    check(&other, 19, "opcode STACK_GLOBAL at byte 19 would run code");
}

#[test]
fn other_opcodes_are_refused_with_a_reason() {
    for opcode in [b'C', b'B', 0x8e, 0x96, b'T', b'U'] {
        check(&after_a_dict(&[opcode]), 4, "raw bytes");
    }
    for opcode in [0x97, 0x98] {
        check(&after_a_dict(&[opcode]), 4, "out-of-band buffers");
    }
    for opcode in [0x8f, 0x90, 0x91] {
        check(&after_a_dict(&[opcode]), 4, "a set");
    }
    for opcode in *b"FILSVgp" {
        check(&after_a_dict(&[opcode]), 4, "text opcodes of protocol 0");
    }
    check(
        &after_a_dict(&[0xff]),
        4,
        "byte 4 (0xff) is not a pickle opcode",
    );
}

#[test]
fn foreign_files_are_named() {
    check(b"", 0, "the file is empty");
    check(b" \n\n", 3, "the file is empty");
    check(b"<!DOCTYPE html><p>404", 0, "byte 0 starts HTML");
    check(b"\n<html>", 1, "byte 1 starts HTML");
    check(b"PK\x03\x04model/data.pkl", 0, "a zip archive");
    check(b"\x1f\x8b\x08\x00", 0, "gzip");
    check(b"\x28\xb5\x2f\xfd\x00", 0, "zstd");
    check(b"\xfd7zXZ\x00", 0, "starts xz data, which is not read here");
    check(b"BZh91AY", 0, "starts bzip2 data, which is not read here");
    check(b"\xff\xfe{\x00", 0, "UTF-16: save it as UTF-8");
    check(b"\xef\xbb\xbf", 3, "the file is empty");
    check(b"\xef\xbb\xbf{}", 5, "the dictionary has neither");
    check(b"\x89HDF\r\n", 0, "HDF5");
    check(b"SQLite format 3\0", 0, "a database of SQLite");
    check(
        b"[1, 2]",
        6,
        "no dictionary at the top, and no list of segments",
    );
    for (json, end) in [("{}", 2), ("{\"a\": 1}", 8), ("{\"lr\": {}}", 10)] {
        check(json.as_bytes(), end, "the dictionary has neither");
    }
    check(b"(dp0\nS'segments'\n", 0, "protocol 0 or 1");
    check(b"}q\x00(X", 0, "dump it with protocol=4");
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0";
    check(pointer, 0, "a pointer of Git LFS");
    check(b"x", 0, "neither a pickle nor JSON");
    check(&[0x80, 6, b'}', b'.'], 0, "pickle protocol 6 at byte 0");
    check(&[0x80, 1, b'}', b'.'], 0, "pickle protocol 1 at byte 0");
    // The magic number of torch.save before 1.6.
    let torch_save = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    check(torch_save, 2, "like a model of an old torch.save");
}

#[test]
fn well_formed_files_that_are_no_snapshot() {
    let check = |root: &Py, expected: &str| {
        let file = pickle(root, Dialect::cpython(4));
        check(&file, file.len() as u64, expected);
    };
    check(&list(vec![]), "no dictionary at the top");
    check(&int(7), "no dictionary at the top");
    let neither = "the dictionary has neither `segments` nor `device_traces`";
    check(&event(vec![]), neither);
    check(&dict(vec![]), neither);
    let config = dict(vec![("lr", int(1)), ("epochs", int(3))]);
    check(&config, "`device_traces`, but `lr`, `epochs` (at");
    let keys = ["a\n", "b", "c", "d", "e"].map(|key| (key, int(1)));
    check(&dict(keys.to_vec()), "but `a\\n`, `b`, `c`, `d`, … (at");
    let snapshot = || {
        dict(vec![
            ("segments", list(vec![])),
            ("device_traces", list(vec![])),
        ])
    };
    let named = dict(vec![("rank", int(0)), ("snapshot", snapshot())]);
    check(
        &named,
        "one lies in it, under `snapshot`: write that dictionary alone",
    );
    check(
        &list(vec![snapshot(), snapshot()]),
        "one lies in it, as item 0 of a list",
    );
    let events = || {
        list(vec![event(vec![
            ("action", text("alloc")),
            ("addr", int(512)),
        ])])
    };
    check(&events(), "the file holds only a list of events");
    check(
        &list(vec![events()]),
        "the file holds only a list of events",
    );
    let stats = dict(vec![
        ("active.all.current", int(1)),
        ("num_alloc_retries", int(0)),
    ]);
    check(&stats, "counters, as torch.cuda.memory_stats() gives them");
    let numbers = list([1, 2, 3].map(int).to_vec());
    check(
        &list(vec![numbers.clone(), list(vec![numbers])]),
        "export_memory_timeline",
    );
    let no_events = |traces| dict(vec![("segments", list(vec![])), ("device_traces", traces)]);
    check(&no_events(int(3)), "not a list of lists of events");
    check(
        &no_events(list(vec![int(3)])),
        "not a list of lists of events",
    );
    check(
        &no_events(list(vec![event(vec![])])),
        "not a list of lists of events",
    );
    let segments = dict(vec![("segments", int(1)), ("device_traces", list(vec![]))]);
    check(&segments, "`segments` is not a list of segments");
    let devices = list((0..129).map(|_| list(vec![])).collect());
    check(&no_events(devices), "number of devices is limited to 128");
}

#[test]
fn broken_opcodes() {
    let underflow = "finds the stack empty";
    for opcode in [b'0', b'2', 0x94, b'.', 0x85, b'a', b's'] {
        check(&[0x80, 4, opcode], 2, underflow);
    }
    for opcode in *b"uet1ld" {
        check(&[0x80, 4, opcode], 2, "a mark is missing");
    }
    check(b"\x80\x04N(0u", 5, underflow);
    check(
        b"\x80\x04N(K\x01K\x02u",
        8,
        "keys are set in something that is not a dictionary",
    );
    check(
        b"\x80\x04N(K\x01e",
        6,
        "appended to something that is not a list",
    );
    check(b"\x80\x04}(K\x01u", 6, "a key without a value");
    // The memo: forward references, jumps, and references to objects that became rows.
    check(b"\x80\x04h\x00", 2, "was never remembered");
    check(b"\x80\x04j\xff\xff\xff\xff", 2, "was never remembered");
    check(b"\x80\x04}\x94h\x01", 4, "was never remembered");
    check(
        b"\x80\x04}r\xff\xff\xff\x7f",
        3,
        "remembers objects out of order",
    );
    check(b"\x80\x04}q\x01", 3, "remembers objects out of order");
}

#[test]
fn an_event_in_two_places_is_refused() {
    let event = pickle(&event(vec![]), Dialect::cpython(4));
    let body = &event[11..event.len() - 1];
    let file = [&[0x80, 4, b']', b'('][..], body, b"h\x00e."].concat();
    let at = file.len() as u64 - 4;
    check(
        &file,
        at,
        "one event, block or segment is used in two places",
    );
    let file = [&[0x80, 4, b']', b'('][..], body, b"2e."].concat();
    check(&file, file.len() as u64 - 2, "holds one twice");
    let file = [&[0x80, 4][..], body, b"\x8c\x04line\x94K\x01s"].concat();
    check(
        &file,
        file.len() as u64 - 1,
        "a finished dictionary is changed later",
    );
}

#[test]
fn numbers_out_of_range() {
    let check = |fields: Vec<(&str, Py)>, expected: &str| {
        let error = super::try_read(&trace(vec![event(fields)])).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(vec![("size", int(-1))], "a size is negative");
    check(vec![("size", int((1 << 48) + 1))], "a size exceeds 256 TiB");
    check(vec![("size", int(1 << 63))], "a size exceeds 256 TiB");
    check(vec![("size", Py::Float(1e30))], "a number was expected");
    check(vec![("size", Py::Float(0.5))], "a number was expected");
    check(vec![("size", text("512"))], "a number was expected");
    check(vec![("addr", text("0x7f"))], "a number was expected");
    check(vec![("addr", int(1 << 64))], "longer than 64 bits");
    check(vec![("addr", int(-(1 << 63) - 1))], "longer than 64 bits");
    check(vec![("addr", int(1 << 100))], "longer than 64 bits");
    check(
        vec![("action", int(1))],
        "an event's action is not a string",
    );
}

#[test]
fn memory_where_no_device_has_any() {
    let check = |addr: i128, size: i128, is_read: bool| {
        let of = |key: &'static str, more: Vec<(&'static str, Py)>| {
            dict([vec![(key, int(addr)), ("size", int(size))], more].concat())
        };
        let event = |action| trace(vec![of("addr", vec![("action", text(action))])]);
        let segments = |at: i128, blocks| {
            let total = vec![("address", int(at)), ("total_size", int(size))];
            let fields = [total, vec![("blocks", list(blocks))]].concat();
            dict(vec![("segments", list(vec![dict(fields)]))])
        };
        let block = of("address", vec![("state", text("inactive"))]);
        // torch 2.0 gives blocks no address.
        let placed = dict(vec![("size", int(size)), ("state", text("inactive"))]);
        let actions = ["alloc", "free_requested", "free_completed", "segment_alloc"];
        let mut files: Vec<Py> = actions.map(event).to_vec();
        files.extend(["segment_free", "segment_map", "segment_unmap"].map(event));
        files.push(segments(addr, vec![]));
        files.push(segments(0, vec![block]));
        files.push(segments(addr - size, vec![placed.clone(), placed]));
        for file in &files {
            let read = super::try_read(file).map_err(|error| error.to_string());
            let said = read.as_ref().err().map_or("", String::as_str);
            assert_eq!(read.is_ok(), is_read, "{addr:#x} {size}: {said}");
            assert!(is_read || said.contains("an address that no device has"));
        }
        // What changes nothing may say anything.
        for action in ["snapshot", "annotate", "new_in_torch_9"] {
            assert!(super::try_read(&event(action)).is_ok());
        }
    };
    check((1 << 60) - 512, 512, true);
    check((1 << 60) - 512, 513, false);
    check(1 << 62, 512, false);
    check((1 << 63) + 512, 512, true);
    check((1 << 63) - 512, 512, false);
    check((1 << 64) - (1 << 56), 512, true);
    check((1 << 64) - 512, 512, false);
    check((1 << 64) - 512, 1 << 20, false);
    check(-1, 1, false);
}

#[test]
fn sizes_that_nobody_can_add_up() {
    let sized = |n: usize| (0..n).map(|_| event(vec![("size", int(1 << 48))]));
    assert!(super::try_read(&trace(sized(1 << 14).collect())).is_ok());
    let error = super::try_read(&trace(sized((1 << 14) + 1).collect())).unwrap_err();
    assert!(error.to_string().contains("exceed 4 EiB"), "{error}");
}

#[test]
fn objects_that_hold_themselves_end() {
    // segments = [ ]; segments.append(segments), and settings that contain themselves.
    let key = |name: &str| [&[0x8c, name.len() as u8][..], name.as_bytes(), &[0x94]].concat();
    let file = [
        &b"\x80\x04}\x94("[..],
        &key("device_traces"),
        b"]\x94",
        &key("allocator_settings"),
        b"}\x94(",
        &key("a"),
        b"K\x01",
        &key("b"),
        b"h\x04u",
        &key("self"),
        b"]\x94(h\x02K\x01eh\x07h\x07au.",
    ]
    .concat();
    // `allocator_settings` is memo 4 while it is filled; the inner one is an empty dictionary.
    let got = read(&file, Limits::default());
    assert!(matches!(got, Ok(_) | Err(ReadError { .. })));
    let file = [
        &b"\x80\x04}\x94("[..],
        &key("device_traces"),
        b"]\x94",
        &key("allocator_settings"),
        b"}\x94(",
        &key("a"),
        b"K\x01",
        &key("b"),
        b"K\x02uh\x05h\x04s",
        b"u.",
    ]
    .concat();
    let snapshot = read(&file, Limits::default()).unwrap();
    assert!(snapshot.settings.len() < 100, "{}", snapshot.settings.len());
    let list = b"\x80\x04]\x94h\x00ah\x00ah\x00h\x00a.";
    check(list, list.len() as u64, "no dictionary at the top");
}

#[test]
fn broken_json() {
    check(b"{\"a\" 1}", 5, "cannot stand here");
    check(b"{\"a\": 1,}", 8, "cannot stand here");
    check(b"{\"a\": [1,]}", 9, "cannot stand here");
    check(b"{\"a\": [1}", 8, "closes something else");
    check(b"{\"a\": nan}", 6, "not a JSON value");
    check(b"{\"a\": 1e999}", 6, "not a JSON value");
    check(b"{\"a\": -}", 6, "not a JSON value");
    check(b"{\"a\": \"\\x\"}", 6, "bad escape");
    check(b"{1: 2}", 1, "cannot stand here");
    check(
        b"{'segments': []}",
        1,
        "is a single quote, as in what Python prints",
    );
    check(b"[{\"a\": 1}, 'b']", 11, "is a single quote");
    check(b"[2026-11-29 10:00:00] loss 3", 1, "goes on as text");
    check(b"[rank0]: Traceback", 1, "goes on as text");
    let profile = br#"{"schemaVersion": 1, "traceEvents": [{"ph": "#;
    check(profile, 21, "a trace of torch.profiler");
    check(b"{\"a\": 1", 7, "ends at byte 7");
}
