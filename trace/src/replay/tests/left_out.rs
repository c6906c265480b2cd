//! Events that are missing: whole kinds of them, or some.

use super::{MIB, Program};
use crate::replay::run;
use crate::snapshot::Snapshot;
use crate::trace::{Action, Series};
use crate::units::Bytes;

/// A program that hands out an address again and again, without events of some kinds.
fn without(left_out: &[Action]) -> Program {
    let mut program = Program::default();
    program.alloc(7 * MIB);
    for _ in 0..12 {
        program.alloc(5 * MIB);
        let (_, last, _) = *program.log.last().unwrap();
        program.request(last);
        program.complete(last);
    }
    program.log.retain(|event| !left_out.contains(&event.0));
    program
}

/// What is said of events that are missing, or that contradict others.
fn said(snapshot: Snapshot) -> Vec<String> {
    let quality = run(snapshot).quality.into_iter();
    let codes = [
        "contradictory",
        "double_allocs",
        "double_frees",
        "end_differs",
        "events_left_out",
        "frees_completed_at_once",
        "late_start",
        "outside_segments",
        "segment_frees_not_recorded",
        "segments_not_recorded",
    ];
    let codes = quality
        .map(|note| note.code)
        .filter(|code| codes.contains(&&code[..]));
    codes.collect()
}

/// Without allocations or frees nothing can be followed: what is left is the state at the end.
#[test]
fn without_one_side_of_a_history_there_is_none() {
    use Action::{Alloc, FreeCompleted, FreeRequested, SegmentAlloc};
    let check = |left_out: &[Action], expected: &[&str]| {
        let snapshot = without(left_out).snapshot(0);
        let allocated = run(snapshot.clone()).devices[0].summary[Series::Allocated as usize];
        assert_eq!(allocated.end, Bytes(7 * MIB), "{left_out:?}");
        assert_eq!(said(snapshot), expected, "{left_out:?}");
    };
    check(&[], &[]);
    check(&[FreeRequested], &[]);
    check(&[FreeCompleted], &["frees_completed_at_once"]);
    check(&[Alloc], &["events_left_out"]);
    check(&[Alloc, SegmentAlloc], &["events_left_out"]);
    check(&[Alloc, FreeCompleted, SegmentAlloc], &["events_left_out"]);
    check(&[FreeRequested, FreeCompleted], &["events_left_out"]);
}

/// A kind of event that is not there may never have happened.
#[test]
fn what_never_happened_is_not_left_out() {
    let none: &[&str] = &[];
    let mut program = Program::default();
    for _ in 0..12 {
        program.alloc(5 * MIB);
    }
    assert_eq!(said(program.snapshot(0)), none);
    let from = program.log.len();
    let all: Vec<u64> = program.used.keys().copied().collect();
    all.iter().for_each(|&addr| program.request(addr));
    assert_eq!(said(program.snapshot(0)), none);
    all.iter().for_each(|&addr| program.complete(addr));
    assert_eq!(said(program.snapshot(from)), ["late_start"]);
}

#[test]
fn segments_that_went_unseen_are_told() {
    let mut program = Program::default();
    program.alloc(7 * MIB);
    program.alloc(30 * MIB);
    let (_, last, _) = *program.log.last().unwrap();
    program.request(last);
    program.complete(last);
    program.release();
    let none: &[&str] = &[];
    assert_eq!(said(program.snapshot(0)), none);
    program.log.retain(|event| event.0 != Action::SegmentFree);
    let expected = ["end_differs", "segment_frees_not_recorded"];
    assert_eq!(said(program.snapshot(0)), expected);
}

#[test]
fn events_that_contradict_others_are_told() {
    let mut program = without(&[]);
    let mut frees = 0;
    program.log.retain(|event| {
        let is_free = matches!(event.0, Action::FreeRequested | Action::FreeCompleted);
        frees += u32::from(is_free);
        !is_free || frees > 20
    });
    let said = said(program.snapshot(0));
    assert!(said.contains(&"contradictory".to_owned()), "{said:?}");
}
