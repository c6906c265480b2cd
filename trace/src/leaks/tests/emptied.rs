//! What is given back after the last step: by epochs, or when the training ends.

use super::*;
use crate::phases::program::{self, ADAM, MODULE, TENSOR};

const KEPT: u64 = 3 << 20;
const WEIGHTS: u64 = 48 << 20;

/// A training of epochs that nothing marks. Each step keeps something, and after the last one
/// `frees_kept` gives it back, and `frees_weights` the weights: functions of the program.
fn training(n_epochs: u32, n_steps: u32, frees_kept: &str, frees_weights: &str) -> Trace {
    let mut p = program::Program::default();
    let call = format!("_call_impl {MODULE}:1562");
    let engine = format!("backward {TENSOR}:500");
    let update = format!("step {ADAM}:200");
    let run = |p: &mut program::Program, line: u32, calls: &[&str], size: u64| {
        let this = format!("fit t.py:{line}");
        let frames = [&["main t.py:90", &this], calls].concat();
        p.alloc(size, &frames)
    };
    let weights = run(&mut p, 5, &["build t.py:70"], WEIGHTS);
    let mut kept = Vec::new();
    for _ in 0..n_epochs {
        let order = run(&mut p, 10, &["shuffle t.py:30"], 1 << 20);
        p.free(order);
        for _ in 0..n_steps {
            let batch = run(&mut p, 12, &[], 1 << 20);
            let saved = run(&mut p, 13, &[&call, "forward m.py:3"], 8 << 20);
            kept.push(run(&mut p, 14, &["log t.py:50"], KEPT));
            let gradient = run(&mut p, 15, &[&engine], 4 << 20);
            let scratch = run(&mut p, 16, &[&update], 2 << 20);
            for block in [batch, saved, gradient, scratch] {
                p.free(block);
            }
        }
    }
    let stacks = [frees_kept, frees_weights].map(|function| {
        let function = format!("{function} t.py:80");
        p.stack(&["main t.py:90", &function])
    });
    kept.into_iter()
        .chain([weights])
        .for_each(|block| p.free(block));
    let mut trace = p.finish();
    for kind in &mut trace.devices[0].blocks.kinds {
        match kind.requested.0 {
            KEPT => kind.free_stack = stacks[0],
            WEIGHTS => kind.free_stack = stacks[1],
            _ => {}
        }
    }
    let (devices, stacks) = (&mut trace.devices, &trace.stacks);
    steps::find(&mut devices[0], stacks, 1, Watch::nobody()).unwrap();
    assert_eq!(trace.devices[0].steps.len() as u32, n_epochs * n_steps);
    trace
}

fn check(trace: &Trace, expected: Verdict) {
    let report = find(&trace.devices[0], &trace.stacks, &[]);
    assert_eq!(report.verdict, expected, "{}", report.reason);
    let told = match expected {
        Verdict::Leak => "are given back only after the last one",
        _ => "a list that is emptied after each epoch looks like this",
    };
    assert!(report.reason.contains(told), "{}", report.reason);
}

/// Metrics that are never reset, of a trainer that moves all to the host when it ends.
#[test]
fn what_outlives_epochs_is_not_emptied_after_each() {
    check(&training(1, 16, "empty", "release"), Verdict::CannotTell);
    check(&training(4, 4, "empty", "release"), Verdict::Leak);
    // Of two epochs, the second may have kept what the first one made, to empty both at its end.
    check(&training(2, 8, "empty", "release"), Verdict::CannotTell);
}

#[test]
fn what_goes_with_the_weights_was_kept_until_the_training_ended() {
    check(&training(1, 16, "teardown", "teardown"), Verdict::Leak);
    check(
        &training(1, 16, "on_epoch_end", "teardown"),
        Verdict::CannotTell,
    );
}

/// After the last step a list is emptied but for what a variable holds: by a function that comes
/// then, or because that of the loop returns.
#[test]
fn what_a_variable_holds_of_a_list_changes_no_verdict() {
    let told = |n_freed: usize, by: &str| {
        let mut kept = Vec::new();
        let mut p = Program::run(12, |p, _| {
            kept.push(p.alloc(&KEEP, KEPT));
            let work = p.alloc(&["work train.py:7"], 4 << 20);
            p.free(work);
        });
        kept[..n_freed].iter().for_each(|&block| p.free(block));
        let mut trace = p.trace();
        let free_stack = {
            let stacks = &mut trace.stacks;
            let [name, filename] = [by, "train.py"].map(|text| stacks.strings.push(text));
            let frame = stacks.push_frame(Frame {
                name,
                filename,
                line: 50,
            });
            stacks.push_stack(&[frame])
        };
        let kinds = trace.devices[0].blocks.kinds.iter_mut();
        let kept = kinds.filter(|kind| kind.requested == Bytes(KEPT));
        kept.for_each(|kind| {
            kind.free_stack = match by {
                "" => kind.alloc_stack,
                _ => free_stack,
            }
        });
        let report = find(&trace.devices[0], &trace.stacks, &[]);
        (report.verdict, report.reason)
    };
    let check = |n_freed, by: &str, expected, words: &str| {
        let (verdict, reason) = told(n_freed, by);
        assert_eq!(verdict, expected, "{reason}");
        assert!(reason.contains(words), "{reason}");
    };
    let (leak, unknown) = (Verdict::Leak, Verdict::CannotTell);
    check(12, "on_train_end", unknown, "gives them back");
    check(11, "on_train_end", unknown, "gives 11 of 12 blocks back");
    check(
        10,
        "on_train_end",
        leak,
        "given back only after the last one, all but 2 of 12 blocks",
    );
    check(
        11,
        "",
        leak,
        "given back only after the last one, all but 1 of 12 blocks",
    );
    check(3, "on_train_end", leak, "never given back");
}
