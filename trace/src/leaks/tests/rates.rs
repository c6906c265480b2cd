//! How fast memory accumulates, in words that add up.

use super::*;
use std::collections::VecDeque;

const MIB: f64 = (1 << 20) as f64;

/// The report and the rates of its groups together, in MiB a step.
fn rates(program: Program) -> (LeakReport, f64) {
    let (report, _) = program.report();
    let sum: f64 = report.groups.iter().map(|group| group.bytes_per_step).sum();
    (report, sum / MIB)
}

#[test]
fn one_place_that_accounts_for_the_rest_is_named() {
    // It keeps something in most of some steps, and pauses.
    const SOME: [u32; 15] = [1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 23, 24, 25, 26, 39];
    let (report, sum) = rates(Program::run(40, |p, step| {
        p.alloc(&KEEP, 8 << 20);
        if SOME.contains(&step) {
            p.alloc(&["queue loss.py:7", "step train.py"], 4 << 20);
        }
    }));
    assert_eq!(sum, 8.0);
    assert!(report.bytes_per_step > 9.0 * MIB);
    let said = "are kept at queue (loss.py:7), too irregularly to be sure";
    assert!(report.reason.ends_with(said), "{}", report.reason);
}

#[test]
fn what_no_longer_grows_is_not_in_the_rate_but_named() {
    const GREW: [u32; 9] = [1, 2, 4, 5, 7, 8, 10, 11, 13];
    let (report, _) = rates(Program::run(18, |p, step| {
        p.alloc(&KEEP, 8 << 20);
        if GREW.contains(&step) {
            p.alloc(&["move offload.py:430", "step train.py"], 20 << 20);
        }
    }));
    let expected = "8.00 MiB a step accumulate over 18 steps and are never given back; memory at \
                    move (offload.py:430) grew until step 13 and then no more: 180 MiB of it are \
                    still held";
    assert_eq!(report.reason, expected);
    assert_eq!(report.bytes_per_step, 8.0 * MIB);
}

#[test]
fn a_rate_is_that_of_the_steps_after_the_first_if_these_kept_more() {
    let (report, sum) = rates(Program::run(24, |p, step| {
        let n = if step < 5 { 8 } else { 2 };
        for _ in 0..n {
            p.alloc(&KEEP, 1 << 20);
        }
    }));
    let expected = "2.00 MiB a step accumulate over 24 steps (more at first: 78.0 MiB in all) and \
                    are never given back";
    assert_eq!(report.reason, expected);
    assert!((sum - 2.0).abs() < 1e-6 && (report.bytes_per_step / MIB - sum).abs() < 1e-6);
}

/// A ring: while a place adds, it gives back what it held before the recording.
#[test]
fn what_goes_of_before_the_recording_is_taken_off_once() {
    let mut program = Program::default();
    let old = || block_of(Bytes(1 << 20));
    let before: Vec<BlockIdx> = (0..20)
        .map(|_| program.builder.preexisting(old()))
        .collect();
    for (step, &old) in before.iter().enumerate() {
        let start = program.n_events;
        let scratch = program.alloc(&BACKWARD, 4 << 20);
        program.free(scratch);
        program.free(old);
        for _ in 0..3 {
            program.alloc(&KEEP, 1 << 20);
        }
        // Many places keep something once.
        program.alloc(&[&format!("once{step} rest.py"), "step train.py"], 1 << 20);
        program.scope(format!("step {step}"), start, 0);
    }
    let (report, sum) = rates(program);
    assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
    assert!((sum - 2.0).abs() < 1e-6, "{sum}");
    let all = report.bytes_per_step / MIB;
    assert!((all - 3.0).abs() < 1e-6, "{all}: {}", report.reason);
}

#[test]
fn of_a_queue_it_is_said_that_more_is_added_than_given_back() {
    let check = |added: usize, taken: usize, rate: &str| {
        let mut queue = VecDeque::new();
        let (report, _) = rates(Program::run(30, move |p, _| {
            queue.extend((0..added).map(|_| p.alloc(&HOLD, 256 << 10)));
            queue.drain(..taken).for_each(|block| p.free(block));
        }));
        let expected = format!(
            "{rate} a step accumulate over 30 steps because more are added than are given back"
        );
        assert_eq!(report.reason, expected);
        assert_eq!(report.groups[0].pattern, Pattern::EveryStep);
    };
    check(6, 4, "512 KiB");
    check(6, 5, "256 KiB");
}

#[test]
fn a_list_that_is_full_and_stays_is_told() {
    let mut held = None;
    let program = Program::run(34, move |p, step| {
        let block = p.alloc(&HOLD, 512 << 10);
        // The loop's variable holds the newest.
        let old = held.replace((block, step < 12));
        if let Some((old, false)) = old {
            p.free(old);
        }
    });
    let expected = "memory grew until step 11 and then no more: 6.00 MiB of it are still held, and \
                    nothing accumulates over the 22 steps since";
    assert_eq!(program.is(Verdict::Clean), expected);
}

#[test]
fn growth_of_a_recording_in_which_it_has_ended_is_that_of_the_steps_since() {
    const GREW: [u32; 11] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 24];
    let (report, _) = rates(Program::run(40, |p, step| {
        if GREW.contains(&step) {
            p.alloc(&KEEP, 1 << 20);
        }
    }));
    assert_eq!(report.verdict, Verdict::Clean, "{}", report.reason);
    assert!(
        report.reason.contains("grew until step 24"),
        "{}",
        report.reason
    );
    let growth = report.growth.unwrap();
    assert_eq!((growth.from_step, growth.told()), (24, Some(0.0)));
}

#[test]
fn bursts_have_the_rate_of_whole_rounds() {
    let (report, sum) = rates(Program::run(36, |p, step| {
        if step % 6 < 3 {
            p.alloc(&KEEP, 256 << 10);
        }
    }));
    let expected = "128 KiB a step accumulate over 36 steps (3 times in 6 steps) and are never \
                    given back";
    assert_eq!(report.reason, expected);
    assert_eq!(sum, 0.125);
    assert!(report.caveats.is_empty(), "{:?}", report.caveats);
}
