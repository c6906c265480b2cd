//! What may grow though no place is seen to grow.

use super::edges::of_ring;
use super::*;

/// Steps after a part of one.
fn after_a_part(n: u32, kept_in: &[u32]) -> Program {
    let mut program = Program::default();
    program.alloc(&KEEP, 1 << 20);
    for step in 0..n {
        let start = program.n_events;
        let scratch = program.alloc(&["forward model.py", "step train.py"], 4 << 20);
        program.free(scratch);
        if kept_in.contains(&step) {
            program.alloc(&KEEP, 1 << 20);
            // A scalar that the variables of the last step hold.
            if step + 1 == n {
                program.alloc(&KEEP, 4);
            }
        }
        program.scope(format!("step {step}"), start, 0);
    }
    program
}

/// Every second or fifth request makes an adapter, and a ring begins in the middle of one.
#[test]
fn what_a_ring_holds_of_the_step_before_its_first_whole_one_came_earlier() {
    let (verdict, reason) = of_ring(after_a_part(4, &[1]));
    assert_eq!(verdict, Verdict::CannotTell, "{reason}");
    let expected = "1.00 MiB were kept before step 0 and again at step 1: the 4 steps recorded";
    assert!(reason.starts_with(expected), "{reason}");
    assert_eq!(of_ring(after_a_part(5, &[4])).0, Verdict::CannotTell);
    // It has been quiet for longer than between the two, or nothing followed.
    assert_eq!(of_ring(after_a_part(6, &[1])).0, Verdict::Clean);
    assert_eq!(of_ring(after_a_part(6, &[])).0, Verdict::Clean);
    // The program began there: it made what it needs.
    after_a_part(4, &[1]).is(Verdict::Clean);
}

/// An evaluation after each fifth step: its input is replaced by the next one, and what its other
/// line makes stays.
#[test]
fn what_a_function_gives_back_on_one_line_says_nothing_of_its_other_lines() {
    const INPUT: [&str; 2] = ["evaluate eval.py:7", "step train.py"];
    const RESULT: [&str; 2] = ["evaluate eval.py:9", "step train.py"];
    let evaluations = |is_kept: bool| {
        let (mut input, mut result) = (None, None);
        Program::run(15, move |p, step| {
            if step % 5 == 4 {
                let new = p.alloc(&INPUT, 2 << 20);
                input.replace(new).into_iter().for_each(|old| p.free(old));
                let new = p.alloc(&RESULT, 4 << 20);
                let old = result.replace(new).filter(|_| !is_kept);
                old.into_iter().for_each(|old| p.free(old));
            }
        })
    };
    let reason = evaluations(true).is(Verdict::CannotTell);
    let expected = "4.00 MiB at a time are kept since step 4, 3 times so far";
    assert!(reason.starts_with(expected), "{reason}");
    evaluations(false).is(Verdict::Clean);
}

/// A function keeps a copy of the weights after each fifth step, and holds its loss until the next.
#[test]
fn what_a_variable_holds_for_one_step_says_nothing_of_other_lines() {
    const COPY: [&str; 2] = ["tasks train.py:9", "main train.py"];
    let tasks = |is_kept: bool| {
        let mut program = Program::default();
        let first = program.alloc(&COPY, 1 << 20);
        let mut loss = None;
        for step in 0..5 {
            let start = program.n_events;
            let scratch = program.alloc(&["forward model.py", "tasks train.py:5"], 4 << 20);
            let new = program.alloc(&["tasks train.py:5", "main train.py"], 4);
            let old = loss.replace(new);
            old.into_iter().for_each(|old| program.free(old));
            program.free(scratch);
            if step == 4 {
                program.alloc(&COPY, 1 << 20);
                if !is_kept {
                    program.free(first);
                }
            }
            program.scope(format!("step {step}"), start, 0);
        }
        of_ring(program)
    };
    let (verdict, reason) = tasks(true);
    assert_eq!(verdict, Verdict::CannotTell, "{reason}");
    let expected = "1.00 MiB were kept before step 0 and again at step 4: the 5 steps recorded";
    assert!(reason.starts_with(expected), "{reason}");
    assert_eq!(tasks(false).0, Verdict::Clean);
}

/// A ring that holds the end of one validation, an epoch, the next validation, and the end of the
/// program, which gives back all.
#[test]
fn what_is_kept_before_the_steps_of_a_ring_and_again_after_them_may_come_again() {
    let validated = |is_kept: bool| {
        let mut program = Program::default();
        let first = program.alloc(&KEEP, 1 << 20);
        for step in 0..5 {
            let start = program.n_events;
            let scratch = program.alloc(&["forward model.py", "step train.py"], 4 << 20);
            program.free(scratch);
            program.scope(format!("step {step}"), start, 0);
        }
        if !is_kept {
            program.free(first);
        }
        program.alloc(&KEEP, 1 << 20);
        program.end();
        of_ring(program)
    };
    let (verdict, reason) = validated(true);
    assert_eq!(verdict, Verdict::CannotTell, "{reason}");
    let expected = "1.00 MiB were kept before step 0 and again at the end: the 5 steps recorded";
    assert!(reason.starts_with(expected), "{reason}");
    assert_eq!(validated(false).0, Verdict::Clean);
}
