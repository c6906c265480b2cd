//! Recordings whose events contradict each other: the replay and every question about it go on, and
//! a note says what does not fit.

use trace::allocator::Config;
use trace::allocator::conf;
use trace::categories::Categories;
use trace::compare;
use trace::compare::profile::Profile;
use trace::layout::Layout;
use trace::leaks;
use trace::peaking::Peaking;
use trace::phases::Phases;
use trace::reader::{self, Limits};
use trace::replay;
use trace::trace::Trace;
use trace::units::{Bytes, EventIdx};
use trace::watch::Watch;
use trace::what_if::{self, Question};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// An event: action, address above 4 GiB, bytes, stream.
type Event<'a> = (&'a str, u64, u64, u64);

/// The recording of these events, as a JSON file.
fn recorded(events: &[Event<'_>]) -> Trace {
    let event = |&(action, at, size, stream): &Event<'_>| {
        let addr = (4 << 30) + at;
        format!(r#"{{"action":"{action}","addr":{addr},"size":{size},"stream":{stream}}}"#)
    };
    let events: Vec<String> = events.iter().map(event).collect();
    let file = format!(
        r#"{{"segments":[],"device_traces":[[{}]]}}"#,
        events.join(",")
    );
    let snapshot = reader::read(file.as_bytes(), Limits::default());
    replay::run(snapshot.expect("a snapshot"))
}

/// The notes about such a recording, after every question was asked.
fn notes(events: &[Event<'_>]) -> Vec<String> {
    let trace = recorded(events);
    let device = &trace.devices[0];
    let own = what_if::own_settings(&trace.format, device);
    let expandable = conf::parse("expandable_segments:True", None).expect("a setting");
    let all: u64 = events.iter().map(|(_, _, size, _)| size).sum();
    for settings in [None, Some(Config::default()), Some(expandable)] {
        for limit in [None, Some(Bytes::mib(5)), Some(Bytes::mib(32))] {
            let question = Question {
                settings: settings.clone(),
                limit,
                ..Question::default()
            };
            let answer = what_if::ask(device, &own, &question, Watch::nobody());
            let told = answer.expect("nobody stops it").what_if;
            assert!(told.peak_allocated <= Bytes(all + events.len() as u64 * 2 * MIB));
        }
    }
    let categories = Categories::of(device, &trace.stacks);
    let phases = Phases::of(device, &trace.stacks);
    for event in (0..events.len() as u32).map(EventIdx) {
        drop(Layout::at(device, event));
        drop(categories.alive(device, Some(event)));
        let both = (&categories, &phases);
        let work = Peaking::of(device, &trace.stacks, both, event, Watch::nobody());
        assert!(work.is_ok(), "nobody stops it");
    }
    drop(leaks::of_trace(&trace));
    let profile = Profile::of(&trace);
    let compared = compare::compare(&profile, &profile, Watch::nobody());
    assert!(compared.is_ok(), "nobody stops it");
    trace.quality.into_iter().map(|note| note.code).collect()
}

#[track_caller]
fn check(events: &[Event<'_>], expected: &[&str]) {
    let notes = notes(events);
    let about = ["segment_events_unexplained", "double_frees"];
    let found = notes.iter().map(String::as_str);
    let found: Vec<&str> = found.filter(|code| about.contains(code)).collect();
    assert_eq!(found, expected, "{notes:?}");
}

#[test]
fn segments_at_an_address_that_has_memory_are_left_out() {
    let unexplained = &["segment_events_unexplained"][..];
    // Pages are mapped inside of a segment that was there before.
    let late = [
        ("segment_free", 0, 8 * KIB, 0),
        ("segment_map", 7680, 8, 0),
        ("free_completed", 7680, 8, 0),
    ];
    check(&late, unexplained);
    // A segment is given back while a block in it is in use, and comes again.
    let in_use = [
        ("segment_alloc", 0, 20 * MIB, 0),
        ("alloc", 0, 4 * MIB, 0),
        ("segment_free", 0, 20 * MIB, 0),
        ("segment_alloc", 0, 20 * MIB, 0),
        ("alloc", 8 * MIB, 12 * MIB, 0),
        ("free_requested", 0, 4 * MIB, 0),
        ("free_completed", 0, 4 * MIB, 0),
        ("segment_map", 18 * MIB, 20 * MIB, 0),
        ("segment_alloc", 0, 0, 0),
    ];
    check(&in_use, unexplained);
    // Two unmapped ranges overlap: only one of them can have been there before.
    let before = [
        ("segment_unmap", 27 * MIB, 2 * MIB, 0),
        ("segment_unmap", 28 * MIB, 4 * MIB, 0),
        ("free_completed", 28 * MIB, 4 * MIB, 0),
    ];
    check(&before, unexplained);
    // The same events, where nothing overlaps.
    let sound = [
        ("segment_map", 0, 20 * MIB, 0),
        ("alloc", 0, 4 * MIB, 0),
        ("segment_unmap", 10 * MIB, 10 * MIB, 0),
        ("segment_map", 10 * MIB, 10 * MIB, 0),
        ("free_requested", 0, 4 * MIB, 0),
        ("free_completed", 0, 4 * MIB, 0),
        ("segment_unmap", 0, 20 * MIB, 0),
        ("segment_alloc", 0, 20 * MIB, 0),
        ("segment_free", 0, 20 * MIB, 0),
        ("segment_alloc", 0, 20 * MIB, 0),
    ];
    check(&sound, &[]);
}

#[test]
fn a_block_is_given_back_once() {
    let double = &["double_frees"][..];
    let again = [
        ("segment_alloc", 0, 20 * MIB, 0),
        ("alloc", 0, 4 * MIB, 0),
        ("free_requested", 0, 4 * MIB, 0),
        ("free_requested", 0, 4 * MIB, 0),
        ("alloc", 4 * MIB, 2 * MIB, 0),
        ("free_completed", 0, 4 * MIB, 0),
        ("alloc", 0, 2 * MIB, 0),
    ];
    check(&again, double);
    let trace = recorded(&again);
    let (blocks, events) = (&trace.devices[0].blocks, &trace.devices[0].events);
    assert_eq!(blocks.free_requested[0], 2, "the first request counts");
    assert_eq!(events.target[3], trace::trace::NO_TARGET);
    // The blocks were there before, and what comes between frees nothing.
    let before = [
        ("free_requested", 2 * MIB, 2 * MIB, 1),
        ("free_requested", 6 * MIB, 2 * MIB, 1),
        ("alloc", 0, 2 * MIB, 0),
        ("free_requested", 6 * MIB, 2 * MIB, 1),
        ("free_requested", 2 * MIB, 2 * MIB, 1),
        ("alloc", 40 * MIB, 30 * MIB, 0),
    ];
    check(&before, double);
    let foreign = [
        ("free_requested", 16 * MIB, 20 * MIB, 1),
        ("alloc", 12 * MIB, 20 * MIB, 2),
        ("free_requested", 16 * MIB, 512, 0),
        ("free_completed", 12 * MIB, 2 * MIB, 2),
    ];
    check(&foreign, double);
    // An address may be used again.
    let sound = [
        ("segment_alloc", 0, 20 * MIB, 0),
        ("alloc", 0, 4 * MIB, 0),
        ("free_requested", 0, 4 * MIB, 0),
        ("free_completed", 0, 4 * MIB, 0),
        ("alloc", 0, 4 * MIB, 0),
        ("free_requested", 0, 4 * MIB, 0),
    ];
    check(&sound, &[]);
}
