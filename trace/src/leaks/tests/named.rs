//! Which function is named for a leak.

use super::*;

#[test]
fn blocks_without_a_stack_are_counted_and_named_by_their_neighbours() {
    let (report, stacks) = Program::run(10, |p, _| {
        let beside = p.alloc(&["backward loss.py", "step train.py"], 600);
        p.alloc(&[], 77_000);
        p.free(beside);
    })
    .report();
    assert_eq!(report.verdict, Verdict::Leak);
    let group = &report.groups[0];
    assert!(group.frame_inferred && group.stack == StackIdx::NONE);
    assert_eq!(group.site, SiteKey::Size(Bytes(77_000)));
    assert_eq!(group.frame.map(|f| stacks.str(f.name)), Some("backward"));
}

#[test]
fn a_caller_is_named_when_others_call_the_same_code_without_a_leak() {
    let (report, stacks) = Program::run(12, |p, _| {
        let shared = "forward model.py";
        p.alloc(&[shared, "validate eval.py", "step train.py"], 1 << 20);
        let scratch = p.alloc(&[shared, "validate eval.py", "step train.py"], 1 << 20);
        p.free(scratch);
    })
    .report();
    let frame = report.groups[0].frame.map(|f| stacks.str(f.name));
    assert_eq!(frame, Some("validate"));
}

/// One line is named for all of them: it is told which function makes each.
#[test]
fn leaks_that_one_line_is_named_for_are_told_apart() {
    let (report, stacks) = Program::run(8, |p, _| {
        for made_in in [&["linear layers.py"][..], &["gelu layers.py"], &[]] {
            p.alloc(
                &[made_in, &["forward net.py:3", "main train.py"]].concat(),
                1 << 20,
            );
        }
    })
    .report();
    let name = |frame: Option<Frame>| frame.map(|f| stacks.str(f.name));
    let named = report.groups.iter().map(|group| name(group.frame));
    let mut found: Vec<_> = named
        .zip(report.told_apart(&stacks).into_iter().map(name))
        .collect();
    found.sort_unstable();
    let forward = Some("forward");
    let expected = [None, Some("gelu"), Some("linear")].map(|made_in| (forward, made_in));
    assert_eq!(found, expected);
    // A line that is named once needs nothing beside it.
    let (report, stacks) = Program::run(8, |p, _| {
        p.alloc(&["linear layers.py", "keep train.py"], 1 << 20);
    })
    .report();
    assert_eq!(report.told_apart(&stacks), [None]);
}

#[test]
fn a_retained_graph_is_named_by_what_built_it() {
    let mut program = Program::default();
    for step in 0..8 {
        let start = program.n_events;
        for op in ["linear", "gelu", "norm"] {
            let op = format!("{op} layers.py");
            program.alloc(&[&op, "model net.py", "train_step train.py"], 1 << 20);
        }
        program.alloc(&["tokens data.py", "train_step train.py"], 1 << 16);
        program.scope(format!("step {step}"), start, 0);
    }
    let (report, stacks) = program.report();
    assert_eq!(report.groups.len(), 4);
    for group in &report.groups {
        assert_eq!(group.frame.map(|f| stacks.str(f.name)), Some("train_step"));
    }
}
