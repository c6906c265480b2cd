//! Phases of programs written by hand.

use super::program::{ADAM, CHECKPOINT, MODULE, Program, TENSOR};
use super::*;
use crate::trace::{Action, Annotation, Trace};
use crate::units::Bytes;
use proptest::prelude::*;

/// The phases of a program and how many events each has.
fn phases(p: Program) -> Vec<(&'static str, u32)> {
    let trace = p.finish();
    let phases = Phases::of(&trace.devices[0], &trace.stacks);
    let length = |s: &PhaseSpan| (s.phase.name(), s.events.len());
    phases.spans().iter().map(length).collect()
}

fn call(module_line: u32) -> Vec<String> {
    vec![
        "<module> train.py:9".to_owned(),
        format!("_call_impl {MODULE}:{module_line}"),
        "forward net.py:3".to_owned(),
    ]
}

fn strs(frames: &[String]) -> Vec<&str> {
    frames.iter().map(String::as_str).collect()
}

#[test]
fn a_step_of_a_program_that_uses_torch() {
    let mut p = Program::default();
    for _ in 0..2 {
        let x = p.alloc(64, &["<module> train.py:8"]);
        let a = p.alloc(512, &strs(&call(1)));
        let loss = p.alloc(4, &["<module> train.py:10"]);
        p.alloc(
            4,
            &["<module> train.py:11", &format!("backward {TENSOR}:5")],
        );
        p.alloc(100, &[]);
        p.free(a);
        let state = p.alloc(100, &["<module> train.py:12", &format!("step {ADAM}:7")]);
        p.free(state);
        p.free(x);
        p.free(loss);
    }
    let step = [
        ("other", 1),
        ("forward", 2),
        ("backward", 4),
        ("optimizer", 7),
    ];
    assert_eq!(phases(p), [step, step].concat());
}

/// The loss is the program's own code. A request for it that fails belongs to the pass, though no
/// backward pass follows.
#[test]
fn memory_that_runs_out_in_the_loss_runs_out_in_the_forward_pass() {
    let check = |steps: usize, expected: Phase| {
        let mut p = Program::default();
        for _ in 0..steps {
            let a = p.alloc(512, &strs(&call(1)));
            p.alloc(4, &["<module> train.py:10"]);
            p.alloc(
                4,
                &["<module> train.py:11", &format!("backward {TENSOR}:5")],
            );
            p.alloc(100, &[]);
            p.free(a);
        }
        p.alloc(64, &["<module> train.py:8"]);
        p.alloc(512, &strs(&call(1)));
        p.alloc(4, &["<module> train.py:10"]);
        p.builder.out_of_memory(Bytes(4096));
        p.alloc(4, &["<module> train.py:20"]);
        let trace = p.finish();
        let device = &trace.devices[0];
        let phases = Phases::of(device, &trace.stacks);
        let actions = device.events.action.iter();
        let failed = actions.take_while(|&&action| action != Action::Oom).count();
        assert_eq!(
            phases.at(EventIdx(failed as u32)),
            expected,
            "{steps} steps"
        );
    };
    check(2, Phase::Forward);
    // Nothing shows that this is no training.
    check(0, Phase::Forward);
}

#[test]
fn a_checkpoint_that_computes_again_is_backward() {
    let mut p = Program::default();
    p.alloc(512, &strs(&call(1)));
    p.alloc(
        4,
        &["<module> train.py:11", &format!("backward {TENSOR}:5")],
    );
    let again = [
        format!("recompute_fn {CHECKPOINT}:1"),
        format!("_call_impl {MODULE}:1"),
        "forward net.py:3".to_owned(),
    ];
    p.alloc(512, &strs(&again));
    p.alloc(100, &[]);
    assert_eq!(phases(p), [("forward", 1), ("backward", 3)]);
}

#[test]
fn a_closure_that_an_optimizer_calls_is_no_optimizer() {
    let mut p = Program::default();
    let lbfgs = "step /v/site-packages/torch/optim/lbfgs.py:3";
    for _ in 0..2 {
        p.alloc(8, &["<module> train.py:5", lbfgs]);
        let closure = ["<module> train.py:5", lbfgs, "closure train.py:2"];
        let forward = format!("_call_impl {MODULE}:1");
        p.alloc(8, &[&closure[..], &[&forward]].concat());
        let backward = format!("backward {TENSOR}:5");
        p.alloc(8, &[&closure[..], &[&backward]].concat());
    }
    let step = [("optimizer", 1), ("forward", 1), ("backward", 1)];
    assert_eq!(phases(p), [step, step].concat());
}

#[test]
fn an_optimizer_step_in_a_backward_hook_is_an_optimizer() {
    let mut p = Program::default();
    p.alloc(
        8,
        &[
            "torch::autograd::Engine::thread_main",
            "hook t.py:3",
            &format!("step {ADAM}:7"),
        ],
    );
    p.alloc(8, &["torch::autograd::Engine::thread_main"]);
    assert_eq!(phases(p), [("optimizer", 1), ("backward", 1)]);
}

#[test]
fn without_modules_the_lines_around_the_call_of_backward_tell() {
    let mut p = Program::default();
    let backward = format!("backward {TENSOR}:5");
    for _ in 0..2 {
        let h = p.alloc(2048, &["<module> t.py:1", "run t.py:10", "net t.py:3"]);
        p.alloc(4, &["<module> t.py:1", "run t.py:11", &backward]);
        let gradient = p.alloc(4096, &[]);
        p.free(h);
        // w -= rate * gradient, by hand.
        let scaled = p.alloc(4096, &["<module> t.py:1", "run t.py:12"]);
        p.free(scaled);
        p.free(gradient);
    }
    let step = [("forward", 1), ("backward", 4), ("optimizer", 5)];
    assert_eq!(phases(p), [step, step].concat());
}

#[test]
fn what_is_logged_behind_a_backward_pass_is_no_optimizer() {
    let mut p = Program::default();
    p.alloc(512, &strs(&call(1)));
    p.alloc(
        4,
        &["<module> train.py:11", &format!("backward {TENSOR}:5")],
    );
    p.alloc(4096, &[]);
    p.alloc(4, &["<module> train.py:13"]);
    assert_eq!(phases(p), [("forward", 1), ("backward", 2), ("other", 1)]);
}

#[test]
fn without_stacks_only_scopes_tell() {
    let mut p = Program::default();
    for _ in 0..6 {
        p.alloc(8, &[]);
    }
    let mut trace = p.finish();
    scope(&mut trace, "Optimizer.step#SGD.step", [2, 4], 0);
    let phases = Phases::of(&trace.devices[0], &trace.stacks);
    let names: Vec<_> = phases.spans().iter().map(|s| s.phase).collect();
    assert_eq!(names, [Phase::Unknown, Phase::Optimizer, Phase::Unknown]);
    assert_eq!(phases.at(EventIdx(3)), Phase::Optimizer);
    assert_eq!(phases.at(EventIdx(99)), Phase::Unknown);
    let inner = Span::new(EventIdx(3), EventIdx(5));
    assert_eq!(phases.overlapping(inner).len(), 2);
}

/// A scope over `events` in a trace.
fn scope(trace: &mut Trace, name: &str, events: [u32; 2], depth: u16) {
    let name = trace.stacks.strings.push(name);
    let events = Span::new(EventIdx(events[0]), EventIdx(events[1]));
    let annotation = Annotation {
        name,
        events,
        depth,
    };
    trace.devices[0].annotations.push(annotation);
}

/// PyTorch Lightning runs the whole training step in the optimizer's closure, so in its scope, too.
#[test]
fn what_a_closure_makes_is_not_the_optimizers() {
    let check = |frames: [&[&str]; 5], expected: [Phase; 5]| {
        let mut p = Program::default();
        for frames in frames {
            p.alloc(512, frames);
        }
        let mut trace = p.finish();
        scope(&mut trace, "Optimizer.step#AdamW.step", [1, 5], 0);
        scope(&mut trace, "Optimizer.zero_grad#AdamW.zero_grad", [3, 3], 1);
        let phases = Phases::of(&trace.devices[0], &trace.stacks);
        assert_eq!([0, 1, 2, 3, 4].map(|at| phases.at(EventIdx(at))), expected);
    };
    let step = format!("step {ADAM}:227");
    let forward = format!("_call_impl {MODULE}:1");
    let backward = format!("backward {TENSOR}:5");
    let line = |line: u32| format!("closure /v/site-packages/lightning/automatic.py:{line}");
    let (makes, clears) = (line(131), line(140));
    let root = "<module> train.py:5";
    check(
        [
            &[root, "batch train.py:3"],
            &[root, &step, &makes, "training_step train.py:8", &forward],
            &[root, &step, &makes, "training_step train.py:9"],
            &[root, &step, &clears, &backward],
            &[root, &step],
        ],
        [
            Phase::Other,
            Phase::Forward,
            Phase::Forward,
            Phase::Backward,
            Phase::Optimizer,
        ],
    );
    check([&[]; 5], [Phase::Unknown; 5]);
}

/// A file may hold very many scopes that lack their beginning. All of them are open at once, and
/// work for each pair of them would not end within the time of a test.
#[test]
fn very_many_open_steps_cost_little() {
    let mut p = Program::default();
    p.alloc(4, &["<module> train.py:1"]);
    let mut trace = p.finish();
    for _ in 0..1_000_000 {
        scope(&mut trace, "Optimizer.step#A.step", [0, 1], 0);
    }
    let phases = Phases::of(&trace.devices[0], &trace.stacks);
    assert!(!phases.spans().is_empty());
}

#[test]
fn gradients_cleared_beside_a_step_are_not_cleared_in_it() {
    let mut p = Program::default();
    for _ in 0..4 {
        p.alloc(8, &[]);
    }
    let mut trace = p.finish();
    scope(&mut trace, "Optimizer.step#SGD.step", [0, 2], 0);
    scope(&mut trace, "Optimizer.zero_grad#SGD.zero_grad", [2, 2], 0);
    scope(&mut trace, "Optimizer.step#Adam.step", [2, 4], 0);
    let phases = Phases::of(&trace.devices[0], &trace.stacks);
    assert_eq!(phases.spans().len(), 1);
    assert_eq!(phases.at(EventIdx(3)), Phase::Optimizer);
}

proptest::proptest! {
    #[test]
    fn every_event_lies_in_one_phase(trace in crate::testing::arbitrary::traces(300)) {
        let device = &trace.devices[0];
        let phases = Phases::of(device, &trace.stacks);
        let mut at = 0;
        for pair in phases.spans().windows(2) {
            proptest::prop_assert_ne!(pair[0].phase, pair[1].phase);
        }
        for span in phases.spans() {
            proptest::prop_assert_eq!(span.events.start().0, at);
            proptest::prop_assert!(!span.events.is_empty());
            at = span.events.end().0;
        }
        proptest::prop_assert_eq!(at, device.events.len());
    }
}

/// Where scopes lie in one another, however deep, the one that was opened last counts.
#[test]
fn the_innermost_of_many_scopes_counts() {
    let scope = |phase, start, end| PhaseSpan {
        phase,
        events: Span::new(EventIdx(start), EventIdx(end)),
    };
    // A step of FSDP: a pass in a pass in a pass, and another behind it.
    let flat = resolve::flatten(
        [
            scope(Phase::Forward, 0, 100),
            scope(Phase::Backward, 10, 50),
            scope(Phase::Forward, 20, 30),
            scope(Phase::Optimizer, 60, 100),
        ]
        .into_iter(),
    );
    let expected = [
        scope(Phase::Forward, 0, 10),
        scope(Phase::Backward, 10, 20),
        scope(Phase::Forward, 20, 30),
        scope(Phase::Backward, 30, 50),
        scope(Phase::Forward, 50, 60),
        scope(Phase::Optimizer, 60, 100),
    ];
    assert_eq!(flat, expected);
}

proptest! {
    /// Any scopes at all, also ones that overlap without being nested: each event has the phase of
    /// the scope around it that was opened last.
    #[test]
    fn flattened_scopes_equal_a_look_at_each_event(
        scopes in proptest::collection::vec((0..40_u32, 0..20_u32, 0..4_usize), 0..12),
    ) {
        let phases = [Phase::Forward, Phase::Backward, Phase::Optimizer, Phase::Other];
        let mut scopes: Vec<PhaseSpan> = scopes
            .into_iter()
            .map(|(start, length, phase)| PhaseSpan {
                phase: phases[phase],
                events: Span::new(EventIdx(start), EventIdx(start + length)),
            })
            .collect();
        scopes.sort_by_key(|s| (s.events.start(), std::cmp::Reverse(s.events.end())));
        let flat = resolve::flatten(scopes.iter().copied());
        prop_assert!(flat.iter().all(|s| !s.events.is_empty()));
        prop_assert!(flat.is_sorted_by(|a, b| a.events.end() <= b.events.start()));
        for event in (0..64).map(EventIdx) {
            let around = |s: &&PhaseSpan| s.events.contains(event);
            let expected = scopes.iter().rfind(around).map(|s| s.phase);
            prop_assert_eq!(flat.iter().find(around).map(|s| s.phase), expected);
        }
    }
}
