//! Rings of events that hold a few steps, and what lies before and after these.

use super::*;

/// The verdict on a ring that wrapped: there are frees of blocks that nobody saw being made.
pub(super) fn of_ring(program: Program) -> (Verdict, String) {
    let mut trace = program.trace();
    trace.devices[0].unmatched_frees = 3;
    let wrapped = QualityNote {
        code: "ring_wrapped".to_owned(),
        detail: "the ring of events wrapped".to_owned(),
    };
    let report = find(&trace.devices[0], &trace.stacks, &[wrapped]);
    (report.verdict, report.reason)
}

/// The steps of a ring: six, with the blocks from before that are given back in the first.
fn ring(from_before: &[BlockIdx], mut program: Program, keeps: bool) -> Program {
    for step in 0..6 {
        let start = program.n_events;
        let scratch = program.alloc(&["forward model.py", "step train.py"], 4 << 20);
        let kept = program.alloc(&KEEP, 100_000);
        program.free(scratch);
        if step == 0 || !keeps {
            program.free(kept);
        }
        if step == 0 {
            from_before.iter().for_each(|&block| program.free(block));
        }
        program.scope(format!("step {step}"), start, 0);
    }
    program
}

/// A cache is cleared after each epoch of five batches. Where the ring begins, it was just cleared.
#[test]
fn a_list_that_was_just_emptied_may_be_emptied_again() {
    let of = |n: usize| {
        let mut program = Program::default();
        let before = (0..n).map(|_| program.builder.preexisting(block_of(Bytes(100_000))));
        let before: Vec<BlockIdx> = before.collect();
        of_ring(ring(&before, program, true))
    };
    assert_eq!(of(0).0, Verdict::Leak);
    assert_eq!(of(2).0, Verdict::Leak);
    assert_eq!(of(4).0, Verdict::CannotTell);
}

/// A validation in the last step comes after all that other steps do, so it seems to come after the
/// loop.
#[test]
fn what_is_kept_after_the_last_step_of_a_ring_may_come_again() {
    let replacing = |n: usize, function: &str, n_old: usize| {
        let mut program = Program::default();
        let old = (0..n_old).map(|_| program.builder.preexisting(block_of(Bytes(4 << 20))));
        let old: Vec<BlockIdx> = old.collect();
        let mut program = ring(&[], program, false);
        for _ in 0..n {
            program.alloc(&[function, "step train.py:90"], 4 << 20);
        }
        old.into_iter().for_each(|block| program.free(block));
        program
    };
    let of = |n: usize, function: &str| replacing(n, function, 0);
    let validate = "validate train.py:30";
    assert_eq!(of_ring(of(0, validate)).0, Verdict::Clean);
    // A step that is cut off, at other lines.
    assert_eq!(of_ring(of(2, "forward model.py:80")).0, Verdict::Clean);
    let (verdict, reason) = of_ring(of(2, validate));
    assert_eq!(verdict, Verdict::CannotTell, "{reason}");
    assert!(
        reason.starts_with("8.00 MiB were kept once so far, after the last of 6"),
        "{reason}"
    );
    // The best weights so far take the place of those that were the best before.
    assert_eq!(of_ring(replacing(2, validate, 2)).0, Verdict::Clean);
    assert_eq!(of_ring(replacing(2, validate, 1)).0, Verdict::CannotTell);
    // The whole program was recorded: this is its end.
    of(2, validate).is(Verdict::Clean);
}

/// A hook after an epoch clears what each step put into a list. What variables held goes when their
/// function returns, which calls nothing.
#[test]
fn a_list_that_is_emptied_after_the_last_step_is_no_leak() {
    let check = |frees: &str, expected| {
        let mut program = Program::run(6, |p, _| {
            p.alloc(&KEEP, 1 << 20);
            let work = p.alloc(&["work train.py:7"], 4 << 20);
            p.free(work);
        });
        program.end();
        let mut trace = program.trace();
        let stacks = &mut trace.stacks;
        let [name, filename] = [frees, "train.py"].map(|text| stacks.strings.push(text));
        let frame = crate::stacks::Frame {
            name,
            filename,
            line: 50,
        };
        let frame = stacks.push_frame(frame);
        let stack = stacks.push_stack(&[frame]);
        let device = &mut trace.devices[0];
        let kinds = device.blocks.kinds.iter_mut();
        let kept = kinds.filter(|kind| kind.requested == Bytes(1 << 20));
        kept.for_each(|kind| match frees {
            "" => kind.free_stack = kind.alloc_stack,
            _ => kind.free_stack = stack,
        });
        let report = find(device, &trace.stacks, &[]);
        assert_eq!(report.verdict, expected, "{frees}: {}", report.reason);
        assert_eq!(report.reason.contains("emptied"), expected != Verdict::Leak);
    };
    check("on_epoch_end", Verdict::CannotTell);
    check("", Verdict::Leak);
}

/// Three of six requests miss a cache that was full before the ring began.
#[test]
fn a_full_cache_that_a_few_requests_miss_is_no_leak() {
    let of = |is_full: bool| {
        let mut program = Program::default();
        let sizes = [300_000, 270_000, 310_000].map(|size| block_of(Bytes(size)));
        let mut before = sizes
            .map(|kind| program.builder.preexisting(kind))
            .into_iter();
        for request in 0..6 {
            let start = program.n_events;
            let scratch = program.alloc(&["forward model.py", "step serve.py"], 4 << 20);
            if [0, 3, 5].contains(&request) {
                program.alloc(&KEEP, 290_000 + 10_000 * u64::from(request as u32));
                let oldest = before.next().filter(|_| is_full);
                oldest.into_iter().for_each(|block| program.free(block));
            }
            program.free(scratch);
            program.scope(format!("step {request}"), start, 0);
        }
        of_ring(program).0
    };
    assert_ne!(of(true), Verdict::Leak);
    assert_eq!(of(false), Verdict::Leak);
}

/// A loop after the training, which nothing shows: one line keeps block after block.
#[test]
fn what_piles_up_after_the_last_step_is_not_called_clean() {
    let check = |sizes: &[u64], expected| {
        let mut p = Program::run(12, |_, _| {});
        for &size in sizes {
            p.alloc(&["keep after.py", "step train.py"], size);
        }
        p.is(expected)
    };
    let reason = check(&[400_000; 30], Verdict::CannotTell);
    let expected = "nothing accumulates over 12 steps, but at the end 30 blocks";
    assert!(reason.starts_with(expected), "{reason}");
    check(&[400_000; 7], Verdict::Clean);
    // A copy of a model.
    let copies: Vec<u64> = (0..30).map(|at| (1 + at % 3) << 18).collect();
    check(&copies, Verdict::Clean);
}

/// An evaluation that collects its results in one buffer, and gives it back after its last batch.
#[test]
fn what_the_last_step_gives_back_is_not_called_clean() {
    let check = |n: u32, is_moved: fn(u32) -> bool, expected| {
        let mut program = Program::default();
        let mut results: Option<BlockIdx> = None;
        for step in 0..n {
            let start = program.n_events;
            let hidden = program.alloc(&["forward model.py", "step eval.py"], 4 << 20);
            let longer = program.alloc(&KEEP, u64::from(step + 1) << 20);
            let shorter = results.replace(longer);
            shorter.into_iter().for_each(|old| program.free(old));
            program.free(hidden);
            if is_moved(step) {
                results.take().into_iter().for_each(|all| program.free(all));
            }
            program.scope(format!("step {step}"), start, 0);
        }
        program.is(expected)
    };
    let reason = check(12, |step| step == 11, Verdict::CannotTell);
    let expected = "1.00 MiB a step accumulate over 11 steps, and the last one gives them back";
    assert!(reason.starts_with(expected), "{reason}");
    // Moved to the host after each fourth batch.
    check(12, |step| step % 4 == 3, Verdict::Clean);
}
