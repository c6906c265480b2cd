//! Each limit, at its bound and one past it.

use super::layouts::snapshot;
use super::pickle_writer::{Dialect, Filling, Py, json, pickle};
use super::{dict, event, int, list, shared, text, trace};
use crate::reader::{Limits, ReadErrorKind, Reader, read};

/// `root` is read under `limits` if `fits`; otherwise the limit `name` refuses it.
fn check(bytes: &[u8], limits: Limits, refused_by: Option<(&'static str, u64)>) {
    let got = read(bytes, limits);
    match refused_by {
        None => assert!(got.is_ok(), "{:?}", got.unwrap_err()),
        Some((name, value)) => {
            let error = got.unwrap_err();
            assert_eq!(error.kind, ReadErrorKind::Limit(name, value));
            assert!(error.to_string().contains(&format!("limited to {value}")));
        }
    }
}

fn stack(frames: usize) -> Py {
    let frame = |line| {
        shared(dict(vec![
            ("name", text("f")),
            ("filename", text("f.py")),
            ("line", int(line as i128)),
        ]))
    };
    list((0..frames).map(frame).collect())
}

#[test]
fn depth() {
    let limits = |depth| Limits {
        depth,
        ..Limits::default()
    };
    // Top, segments, segment, blocks, block, history, entry, frames: 2.0 is the deepest layout,
    // and a frame in it opens one more.
    let deepest = pickle(&snapshot(0), Dialect::CPP);
    check(&deepest, limits(9), None);
    check(&deepest, limits(8), Some(("nesting depth", 8)));
    let deepest = json(&snapshot(0));
    check(deepest.as_bytes(), limits(9), None);
    check(deepest.as_bytes(), limits(8), Some(("nesting depth", 8)));
    let marks = [&[0x80, 4][..], &[b'('; 300]].concat();
    let by_default = Some(("nesting depth", 256));
    check(&marks, Limits::default(), by_default);
    let brackets = ["{\"a\":", &"[".repeat(300)].concat();
    check(brackets.as_bytes(), Limits::default(), by_default);
}

#[test]
fn memo() {
    let limits = |memo| Limits {
        memo,
        ..Limits::default()
    };
    // The top, two keys, two lists, the list of events.
    let file = pickle(&trace(vec![]), Dialect::cpython(4));
    check(&file, limits(6), None);
    check(&file, limits(5), Some(("remembered objects", 5)));
}

#[test]
fn string() {
    let limits = |string| Limits {
        string,
        ..Limits::default()
    };
    let long = trace(vec![event(vec![("user_metadata", text(&"x".repeat(300)))])]);
    for file in [pickle(&long, Dialect::cpython(4)), json(&long).into_bytes()] {
        check(&file, limits(300), None);
        check(&file, limits(299), Some(("length of a string", 299)));
    }
    // If the file is shorter than a stated length, it is refused at once, without waiting for more
    // bytes.
    let huge = [&[0x80, 4, 0x8d][..], &u64::MAX.to_le_bytes()].concat();
    let by_default = Some(("length of a string", 16 << 20));
    check(&huge, Limits::default(), by_default);
}

#[test]
fn stack_frames() {
    let limits = |stack_frames| Limits {
        stack_frames,
        ..Limits::default()
    };
    // Beyond 1000 frames the list comes in batches.
    for frames in [1, 7, 1500] {
        let file = pickle(
            &trace(vec![event(vec![("frames", stack(frames))])]),
            Dialect::cpython(4),
        );
        check(&file, limits(frames), None);
        let refusal = Some(("frames of a stack", frames as u64 - 1));
        check(&file, limits(frames - 1), refusal);
    }
}

#[test]
fn events() {
    let limits = |events| Limits {
        events,
        ..Limits::default()
    };
    let two = trace(vec![event(vec![]), event(vec![])]);
    for file in [pickle(&two, Dialect::cpython(4)), json(&two).into_bytes()] {
        check(&file, limits(2), None);
        check(&file, limits(1), Some(("number of events", 1)));
    }
}

#[test]
fn memory() {
    let file = pickle(&snapshot(15), Dialect::cpython(4));
    let mut reader = Reader::new(Limits::default());
    reader.push(&file).unwrap();
    let memory = reader.memory_used();
    let limits = |memory| Limits {
        memory,
        ..Limits::default()
    };
    check(&file, limits(memory), None);
    let refusal = Some(("memory in bytes", memory as u64 - 1));
    check(&file, limits(memory - 1), refusal);
}

#[test]
fn a_list_that_is_referred_to_a_million_times_stays_small() {
    let frames = shared(stack(100));
    let file_of = |n| {
        let event = || event(vec![("frames", frames.clone())]);
        pickle(
            &trace((0..n).map(|_| event()).collect()),
            Dialect::cpython(4),
        )
    };
    // All events but the first have the same bytes, the part before `eau.`.
    let (two, three) = (file_of(2), file_of(3));
    let body = &two[..two.len() - 4];
    let event = &three[body.len()..three.len() - 4];
    let thousand = [&event.repeat(1000)[..], b"e("].concat();
    let file = [body, &thousand.repeat(1000), b"eau."].concat();
    let mut reader = Reader::new(Limits::default());
    reader.push(&file).unwrap();
    // 12 bytes a row and 4 in the memo, in columns of up to 2^20 rows; the frames themselves are
    // stored once.
    assert!(
        reader.memory_used() < 22_000_000,
        "{}",
        reader.memory_used()
    );
    let snapshot = reader.finish().unwrap();
    assert_eq!(snapshot.devices[0].kind.len(), 1_000_002);
    assert_eq!(snapshot.stacks.n_members(), 100);
}

#[test]
fn a_stack_built_frame_by_frame_costs_what_it_adds() {
    // 30,000 times: refers to the frame and appends it to the list.
    let mut file = vec![0x80, 4];
    let frame = pickle(
        &dict(vec![
            ("name", text("f")),
            ("filename", text("f.py")),
            ("line", int(1)),
        ]),
        Dialect::cpython(4),
    );
    file.extend(&frame[11..frame.len() - 1]);
    file.extend(b"]");
    file.extend(b"h\x00a".repeat(30_000));
    let empty = Reader::new(Limits::default()).memory_used();
    let mut reader = Reader::new(Limits::default());
    reader.push(&file).unwrap();
    // Four bytes a frame, in a column that doubles; the list is one, not 30,000.
    let more = reader.memory_used() - empty;
    assert!(more < 300_000, "{more}");
}

#[test]
fn a_deep_stack_is_taken_up_again_only_so_often() {
    // A list of a deep stack, which is remembered at 1 and its first frame at 2; then, in a few
    // bytes each, the same stack and one frame more.
    let in_one_batch = Dialect {
        filling: Filling::Batches(usize::MAX),
        ..Dialect::cpython(4)
    };
    let start = pickle(&list(vec![stack(3_000)]), in_one_batch);
    let file = |times: usize| {
        let more = b"h\x01h\x02a".repeat(times);
        [&start[..start.len() - 1], b"(", &more, b"e."].concat()
    };
    let refused = |times| match read(&file(times), Limits::default()).unwrap_err().kind {
        ReadErrorKind::Limit(name, _) => name,
        _ => "",
    };
    assert_eq!(refused(1000), "");
    let name = "number of long lists that are taken up again";
    assert_eq!(refused(1001), name);
}
