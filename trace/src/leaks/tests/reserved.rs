//! *Reserved* that grows though nothing leaks, and what only looks like it.

use super::*;
use crate::trace::Action;

/// What the program of [`Program::run`] needs in each step, and more.
const ENOUGH: Bytes = Bytes::mib(100);
/// What a stream's first segment has, or what is reserved anew.
const MORE: Bytes = Bytes::mib(20);

impl Program {
    fn segment(&mut self, stream: u64, action: Action, size: Bytes) {
        self.n_events += 1;
        self.builder.segment_of(stream, action, size);
    }

    /// The first step reserves enough on the default stream.
    fn begin(&mut self, step: u32) {
        if step == 0 {
            self.segment(0, Action::SegmentAlloc, ENOUGH);
        }
    }

    /// What is told of *reserved* in so many steps.
    fn reserved(
        n: u32,
        expected: Verdict,
        more: impl Fn(&mut Program, u32),
    ) -> Option<ReservedGrowth> {
        let program = Program::run(n, |p, step| {
            p.begin(step);
            more(p, step);
        });
        let (report, _) = program.report();
        assert_eq!(report.verdict, expected, "{}", report.reason);
        report.reserved_growth
    }
}

#[test]
fn a_new_stream_in_each_step_is_told_beside_the_verdict() {
    let check = |n, expected: &str| {
        let found = Program::reserved(n, Verdict::Clean, |p, step| {
            // PyTorch begins again with the first of its streams.
            if step < 32 {
                p.segment(u64::from(step) + 1, Action::SegmentAlloc, MORE);
            }
        });
        let found = found.expect("it grows");
        assert!(found.by_streams);
        let because = "used a new stream, and what is freed on one stream serves no other; make \
                       the stream, or the object that makes it, only once";
        assert_eq!(found.sentence(), format!("{expected} {because}"));
    };
    check(
        12,
        "reserved memory grows by 20.0 MiB a step beyond what allocated memory needs, by 200 MiB \
         since step 2: each of these 10 steps",
    );
    check(
        40,
        "reserved memory grew by 20.0 MiB a step beyond what allocated memory needs, by 600 MiB \
         from step 2 to step 31: each of these 30 steps",
    );
}

#[test]
fn pieces_that_fit_nothing_are_told_if_they_do_not_converge() {
    let told = |rises: &[u32], n| {
        Program::reserved(n, Verdict::Clean, |p, step| {
            if rises.contains(&step) {
                p.segment(0, Action::SegmentAlloc, MORE);
            }
        })
    };
    let all: Vec<u32> = (0..20).collect();
    let found = told(&all, 20).expect("it grows");
    assert!(!found.by_streams);
    let expected = "reserved memory grows by 20.0 MiB a step beyond what allocated memory needs, \
                    by 360 MiB since step 2: what is free does not fit";
    assert!(found.seen.starts_with(expected), "{}", found.seen);
    assert_eq!(found.advice, "try `expandable_segments:True`");
    // It ends, becomes rarer, or comes too seldom to be sure.
    assert_eq!(told(&all[..12], 20), None);
    assert_eq!(told(&[2, 3, 4, 5, 7, 9, 12, 16, 22], 30), None);
    assert_eq!(told(&[2, 5, 8, 11, 14, 17], 20), None);
}

#[test]
fn what_rises_with_the_need_is_not_told() {
    let longer = Program::reserved(20, Verdict::Clean, |p, step| {
        p.segment(0, Action::SegmentAlloc, MORE);
        let data = p.alloc(&HOLD, MORE.0 * u64::from(step + 1));
        p.free(data);
    });
    assert_eq!(longer, None);
    let leak = Program::reserved(20, Verdict::Leak, |p, _| {
        p.segment(0, Action::SegmentAlloc, MORE);
        p.alloc(&KEEP, MORE.0);
    });
    assert_eq!(leak, None);
}

#[test]
fn streams_that_all_steps_share_and_segments_that_go_are_not_told() {
    let shared = Program::reserved(20, Verdict::Clean, |p, step| {
        if step < 8 {
            p.segment(u64::from(step) + 1, Action::SegmentAlloc, MORE);
        }
    });
    assert_eq!(shared, None);
    let given_back = Program::reserved(20, Verdict::Clean, |p, step| {
        let stream = u64::from(step) + 1;
        p.segment(stream, Action::SegmentAlloc, MORE);
        p.segment(stream, Action::SegmentFree, MORE);
    });
    assert_eq!(given_back, None);
}
