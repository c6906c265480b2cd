//! Made-up programs, each with one pattern and a known answer.

mod chance;
mod doubt;
mod edges;
mod emptied;
mod enlarged;
mod innocent;
mod leaking;
mod named;
mod parts;
mod rates;
mod reserved;
mod spared;
mod states;

use super::*;
use crate::device::DeviceIdx;
use crate::site::SiteKey;
use crate::span::Span;
use crate::stacks::{Frame, StackIdx};
use crate::steps;
use crate::testing::{TraceBuilder, block_of};
use crate::trace::{Annotation, BlockIdx, BlockKind};
use crate::units::{Bytes, EventIdx};
use crate::watch::Watch;
use proptest::prelude::*;

/// A program that runs step by step.
#[derive(Default)]
struct Program {
    builder: TraceBuilder,
    n_events: u32,
    /// Oldest first.
    alive: Vec<BlockIdx>,
    scopes: Vec<(String, u32, u32, u16)>,
}

impl Program {
    /// Runs `n` steps: a forward and a backward pass, then what `more` does.
    fn run(n: u32, mut more: impl FnMut(&mut Program, u32)) -> Program {
        Program::run_with_churn(n, Bytes::mib(4), &mut more)
    }

    fn run_with_churn(n: u32, churn: Bytes, more: &mut dyn FnMut(&mut Program, u32)) -> Program {
        let mut program = Program::default();
        for step in 0..n {
            let start = program.n_events;
            let saved: Vec<BlockIdx> = (0..8)
                .map(|layer| program.alloc(&["forward model.py", "step train.py"], churn.0 + layer))
                .collect();
            let state = if step == 0 { 8 } else { 0 };
            for _ in 0..state {
                program.alloc(&["init adam.py", "step train.py"], 2 << 20);
            }
            more(&mut program, step);
            let gradient = program.alloc(&BACKWARD, 4 << 20);
            saved
                .into_iter()
                .rev()
                .for_each(|block| program.free(block));
            program.free(gradient);
            program.scope(format!("step {step}"), start, 0);
        }
        program
    }

    /// Allocates with a stack of `function file` or `function file:line`, innermost first.
    fn alloc(&mut self, stack: &[&str], requested: u64) -> BlockIdx {
        self.alloc_in(stack, requested, block_of(Bytes(requested)).size.0)
    }

    /// The same, in a block of `size` bytes.
    fn alloc_in(&mut self, stack: &[&str], requested: u64, size: u64) -> BlockIdx {
        let frames: Vec<_> = stack
            .iter()
            .map(|frame| {
                let (name, file) = frame.split_once(' ').expect("function and file");
                let (file, line) = file.split_once(':').unwrap_or((file, "1"));
                let line = line.parse().expect("a line");
                let single = self.builder.stack(name, file, line);
                self.builder.stacks.frames(single)[0]
            })
            .collect();
        let known = (1..self.builder.stacks.len() as u32)
            .map(StackIdx)
            .find(|&s| self.builder.stacks.frames(s) == frames.as_slice());
        let alloc_stack = match (frames.is_empty(), known) {
            (true, _) => StackIdx::NONE,
            (_, Some(stack)) => stack,
            _ => self.builder.stacks.push_stack(&frames),
        };
        self.n_events += 1;
        let block = self.builder.alloc(BlockKind {
            alloc_stack,
            size: Bytes(size),
            ..block_of(Bytes(requested))
        });
        self.alive.push(block);
        block
    }

    fn free(&mut self, block: BlockIdx) {
        self.n_events += 2;
        self.builder.free_requested(block);
        self.builder.free_completed(block);
        self.alive.retain(|alive| *alive != block);
    }

    /// The program ends and gives back everything, before the snapshot is taken.
    fn end(&mut self) {
        for block in std::mem::take(&mut self.alive) {
            self.free(block);
        }
    }

    /// A scope from `start` to now.
    fn scope(&mut self, name: String, start: u32, depth: u16) {
        self.scopes.push((name, start, self.n_events, depth));
    }

    fn report(self) -> (LeakReport, Stacks) {
        let trace = self.trace();
        (find(&trace.devices[0], &trace.stacks, &[]), trace.stacks)
    }

    fn trace(self) -> Trace {
        let mut trace = self.builder.finish();
        for (name, start, end, depth) in self.scopes {
            let name = trace.stacks.strings.push(&name);
            trace.devices[0].annotations.push(Annotation {
                name,
                events: Span::new(EventIdx(start), EventIdx(end)),
                depth,
            });
        }
        let device = &mut trace.devices[0];
        device
            .annotations
            .sort_by_key(|a| (a.events.start(), a.depth));
        steps::find(device, &trace.stacks, 1, Watch::nobody()).unwrap();
        trace
    }

    /// The first group, of a program that leaks at the function `keep`.
    fn leaks(self) -> LeakGroup {
        let (report, stacks) = self.report();
        assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
        let group = report.groups.into_iter().next().expect("a leak has groups");
        let name = group.frame.map(|f| stacks.str(f.name).to_owned());
        assert_eq!(name.as_deref(), Some("keep"));
        group
    }

    fn is(self, verdict: Verdict) -> String {
        let (report, _) = self.report();
        assert_eq!(
            report.verdict, verdict,
            "{}: {:?}",
            report.reason, report.groups
        );
        report.reason
    }
}

/// The name of a scope in which an optimizer steps.
fn optimizer_step(_: u64) -> String {
    "Optimizer.step#Adam.step".to_owned()
}

const KEEP: [&str; 2] = ["keep cache.py", "step train.py"];
const BACKWARD: [&str; 2] = [
    "backward /v/site-packages/torch/autograd/__init__.py",
    "step train.py",
];
const HOLD: [&str; 2] = ["hold buffer.py", "step train.py"];

#[test]
fn what_an_optimizer_keeps_is_no_leak() {
    const STEP: &str = "step /v/site-packages/torch/optim/lbfgs.py";
    let reason = Program::run(10, |p, _| {
        p.alloc(&[STEP, "train train.py"], 1 << 20);
    })
    .is(Verdict::Clean);
    assert!(reason.contains("optimizer state"), "{reason}");
    // State is made once. In L-BFGS it is a history.
    const ADAM: &str = "step /v/site-packages/torch/optim/adam.py";
    let reason = Program::run(10, |p, _| {
        p.alloc(&[ADAM, "train train.py"], 1 << 20);
    })
    .is(Verdict::CannotTell);
    assert!(reason.contains("a new one is made each time"), "{reason}");
    Program::run(10, |p, step| {
        if step % 3 == 1 {
            p.alloc(&[ADAM, "train train.py"], 1 << 20);
        }
    })
    .is(Verdict::Clean);
    // A new optimizer in every epoch of four steps, or in each of five steps.
    for (steps, epoch) in [(24, 4), (5, 1)] {
        let reason = Program::run(steps, |p, step| {
            if step % epoch == 0 {
                p.alloc(&[ADAM, "train train.py"], 1 << 20);
            }
        })
        .is(Verdict::CannotTell);
        assert!(reason.contains("a new one is made each time"), "{reason}");
    }
    // The allocator rounds up by another remainder each time.
    let reason = Program::run(24, |p, step| {
        if step % 4 == 1 {
            let remainder = u64::from(step % 3) << 19;
            p.alloc_in(&[ADAM, "train train.py"], 2 << 20, (2 << 20) + remainder);
        }
    })
    .is(Verdict::CannotTell);
    assert!(reason.contains("a new one is made each time"), "{reason}");
    // Parameters that are used for the first time, now and then.
    Program::run(24, |p, step| {
        if [1, 4, 9, 12, 17, 20].contains(&step) {
            p.alloc(&[ADAM, "train train.py"], 1 << 20);
        }
    })
    .is(Verdict::Clean);
    // A closure that the optimizer calls is the program's own code.
    Program::run(10, |p, _| {
        p.alloc(
            &[
                "linear /v/site-packages/torch/nn/functional.py",
                "keep train.py",
                STEP,
                "train train.py",
            ],
            1 << 20,
        );
    })
    .leaks();
}

/// Without stacks, the scopes of an optimizer show what it makes itself. Layers may be trained from
/// different steps on, but not anew in every step.
#[test]
fn what_is_kept_now_and_then_in_an_optimizers_scope_may_be_its_state() {
    let check = |in_scope: bool, made: fn(u32) -> bool, expected: Verdict| {
        let mut program = Program::default();
        for step in 0..24 {
            let scratch = program.alloc(&[], 8 << 20);
            program.free(scratch);
            let mut start = program.n_events;
            if made(step) {
                program.alloc(&[], 3 << 20);
            }
            if !in_scope {
                start = program.n_events;
            }
            let update = program.alloc(&[], 1 << 20);
            program.free(update);
            program.scope("Optimizer.step#AdamW.step".to_owned(), start, 0);
        }
        program.is(expected);
    };
    let now_and_then = |step: u32| [1, 4, 9, 12, 17, 20].contains(&step);
    check(true, now_and_then, Verdict::CannotTell);
    check(false, now_and_then, Verdict::Leak);
    check(true, |_| true, Verdict::Leak);
}

#[test]
fn weights_that_are_loaded_are_no_leak() {
    const LOAD: &str = "_apply /v/site-packages/torch/nn/modules/module.py";
    let mut program = Program::default();
    for part in 0..10 {
        let start = program.n_events;
        let staged = program.alloc(&["copy load.py"], 1 << 20);
        program.alloc(&[LOAD, "main load.py"], 4 << 20);
        program.free(staged);
        program.scope(format!("step {part}"), start, 0);
    }
    let reason = program.is(Verdict::CannotTell);
    assert!(reason.contains("record the steps that follow"), "{reason}");
}

/// Batches that nothing marks, and no backward pass: they may be parts of one pass that waits.
#[test]
fn a_loop_that_gives_back_little_may_be_one_pass() {
    const CALL: &str = "_call_impl /v/site-packages/torch/nn/modules/module.py";
    let run = |is_marked: bool, kept: usize| {
        let mut program = Program::default();
        for batch in 0..8 {
            let start = program.n_events;
            program.alloc(&["main eval.py:3"], 640);
            let made = [30, 31, 32].map(|line| {
                let forward = format!("forward net.py:{line}");
                program.alloc(&[&forward, CALL, "main eval.py:4"], 1 << 20)
            });
            made[kept..].iter().for_each(|&block| program.free(block));
            let loss = program.alloc(&["main eval.py:5"], 4);
            program.free(loss);
            if is_marked {
                program.scope(format!("step {batch}"), start, 0);
            }
        }
        program
    };
    let reason = run(false, 3).is(Verdict::CannotTell);
    assert!(reason.contains("perhaps each keeps its graph"), "{reason}");
    run(true, 3).is(Verdict::Leak);
    run(false, 1).is(Verdict::Leak);
    // Where memory runs out, the pass may not have been over, though more is given back.
    run(false, 2).is(Verdict::Leak);
    let mut ends = run(false, 2);
    ends.builder.out_of_memory(Bytes(1 << 20));
    ends.is(Verdict::CannotTell);
}

/// A model to which a layer is added every seven steps has more gradients after each. Old models
/// that are kept have none; and what has no bound goes on.
#[test]
fn layers_that_are_added_to_a_model_a_few_times_may_be_no_leak() {
    const APPLY: &str = "_apply /v/site-packages/torch/nn/modules/module.py";
    const LAYER: [&str; 2] = [APPLY, "keep train.py"];
    let check = |stack: &[&str], n: u32, is_trained: bool, expected: Verdict| {
        let reason = Program::run(n, |p, step| {
            if step % 7 == 0 {
                p.alloc(stack, 3 << 20);
            }
            let layers = if is_trained { step / 7 } else { 1 };
            for _ in 0..layers {
                let gradient = p.alloc(&BACKWARD, 3 << 20);
                p.free(gradient);
            }
        })
        .is(expected);
        let is_said = reason.contains("perhaps layers are added");
        assert_eq!(is_said, expected == Verdict::CannotTell, "{reason}");
    };
    check(&LAYER, 28, true, Verdict::CannotTell);
    check(&[], 28, true, Verdict::CannotTell);
    check(&LAYER, 28, false, Verdict::Leak);
    check(&KEEP, 28, true, Verdict::Leak);
    check(&LAYER, 56, true, Verdict::Leak);
}

#[test]
fn what_the_groups_do_not_cover_is_said() {
    // One site has a rhythm. Many other sites keep something once; there are more and more of them.
    let (report, _) = Program::run(30, |p, step| {
        p.alloc(&KEEP, 8 << 20);
        p.alloc(&[&format!("once{step} rest.py"), "step train.py"], 1 << 20);
    })
    .report();
    assert_eq!(report.verdict, Verdict::Leak);
    assert_eq!(report.groups.len(), 1);
    assert_eq!(report.bytes_per_step, f64::from(9 << 20));
    assert_eq!(report.growth.map(|g| g.slope), Some(report.bytes_per_step));
    let expected = "9.00 MiB a step accumulate over 30 steps: 8.00 MiB of them are never given \
                    back; the other 1.00 MiB are spread over";
    assert!(report.reason.starts_with(expected), "{}", report.reason);
}

/// Layers that are trained from different steps on have more gradients in all, and an optimizer
/// makes state for each when its first gradient comes. What else is enlarged has none.
#[test]
fn gradients_of_layers_that_are_thawed_one_by_one_may_be_no_leak() {
    const ADAM: [&str; 2] = ["step /v/site-packages/torch/optim/adam.py", "step train.py"];
    const THAWED: [u32; 6] = [5, 10, 16, 21, 26, 32];
    let run = |has_state: bool| {
        let mut gradients: Vec<BlockIdx> = Vec::new();
        Program::run(36, move |p, step| {
            let trained = 1 + THAWED.iter().filter(|&&at| at <= step).count();
            let new = (0..trained).map(|_| p.alloc(&BACKWARD, 3 << 20)).collect();
            let old = std::mem::replace(&mut gradients, new);
            old.into_iter().for_each(|block| p.free(block));
            if has_state && (step == 0 || THAWED.contains(&step)) {
                p.alloc(&ADAM, 6 << 20);
            }
        })
    };
    let reason = run(true).is(Verdict::CannotTell);
    assert!(reason.contains("trained from then on"), "{reason}");
    run(false).is(Verdict::Leak);
}

/// As with code that is generated anew in each step.
#[test]
fn what_every_step_keeps_elsewhere_is_not_called_clean() {
    let keeps = |n| {
        Program::run(n, |p, step| {
            p.alloc(&[&format!("once{step} rest.py"), "step train.py"], 1 << 20);
        })
    };
    let reason = keeps(30).is(Verdict::CannotTell);
    let expected = "1.00 MiB a step are kept over 30 steps, spread over 2";
    assert!(reason.starts_with(expected), "{reason}");
    keeps(7).is(Verdict::Clean);
    // A queue with room for twenty says by what it gives back that the others will follow.
    let mut queue = std::collections::VecDeque::new();
    Program::run(25, |p, step| {
        queue.push_back(p.alloc(
            &["push queue.py", "step train.py"],
            (1 + u64::from(step % 3)) << 20,
        ));
        if queue.len() > 20 {
            p.free(queue.pop_front().expect("it is full"));
        }
    })
    .is(Verdict::Clean);
}

/// A search over generated functions: each has a name of its own, and the result of every second
/// one is kept.
#[test]
fn what_is_kept_in_a_rhythm_each_time_elsewhere_is_not_called_clean() {
    let keeps = |n, size: fn(u32) -> u64, room: usize| {
        let mut kept = std::collections::VecDeque::new();
        Program::run(n, move |p, step| {
            if step % 2 == 1 {
                let stack = [&format!("cand{step} cand.py") as &str, "step train.py"];
                kept.push_back(p.alloc(&stack, size(step)));
            }
            if kept.len() > room {
                p.free(kept.pop_front().expect("it is full"));
            }
        })
    };
    let reason = keeps(28, |_| 1 << 20, 99).is(Verdict::CannotTell);
    let expected = "1.00 MiB at a time are kept, 13 times over 28 steps, in blocks of one size";
    assert!(reason.starts_with(expected), "{reason}");
    keeps(14, |_| 1 << 20, 99).is(Verdict::CannotTell);
    // Too few, of other sizes, or no more than there is room for.
    keeps(10, |_| 1 << 20, 99).is(Verdict::Clean);
    keeps(28, |step| (1 << 20) + u64::from(step) * 4096, 99).is(Verdict::Clean);
    keeps(40, |_| 1 << 20, 5).is(Verdict::Clean);
}

/// Copies of weights are kept twice, as averages of them are; no matter when the first comes.
#[test]
fn two_equal_growths_with_no_time_for_a_third_are_too_few() {
    let twice = |first: u32, second: u32, n: u32| {
        Program::run(n, move |p, step| {
            if step == first || step == second {
                p.alloc(&KEEP, 5 << 20);
            }
        })
    };
    let reason = twice(20, 30, 40).is(Verdict::CannotTell);
    assert!(
        reason.contains("too few to see whether it goes on"),
        "{reason}"
    );
    twice(20, 30, 60).is(Verdict::Clean);
}

#[test]
fn the_reason_says_how_much_to_record() {
    let steady = Program::run(3, |p, _| {
        p.alloc(&KEEP, 1 << 20);
    });
    let reason = steady.is(Verdict::CannotTell);
    assert!(
        reason.contains("`torch.cuda.memory._record_memory_history()`"),
        "{reason}"
    );
}

#[test]
fn too_little_is_said_to_be_too_little() {
    let steady = |n| {
        Program::run(n, |p, _| {
            p.alloc(&KEEP, 1 << 20);
        })
    };
    let reason = steady(3).is(Verdict::CannotTell);
    assert!(reason.contains("3 whole steps are too few"), "{reason}");
    steady(4).leaks();
    let reason = Program::run(25, |p, step| {
        if step % 10 == 9 {
            p.alloc(&KEEP, 1 << 20);
        }
    })
    .is(Verdict::CannotTell);
    assert!(reason.contains("step 9 and again at step 19"), "{reason}");
    let reason = Program::run(6, |p, step| {
        if step % 3 == 1 {
            p.alloc(&KEEP, 1 << 20);
        }
    })
    .is(Verdict::CannotTell);
    assert!(reason.contains("step 1 and again at step 4"), "{reason}");
    // As much was requested; the second block has a remainder.
    let reason = Program::run(6, |p, step| {
        if step % 3 == 1 {
            p.alloc_in(&KEEP, 1 << 20, (1 << 20) + u64::from(step) * 1024);
        }
    })
    .is(Verdict::CannotTell);
    assert!(reason.contains("step 1 and again at step 4"), "{reason}");
    let reason = Program::run(25, |p, step| {
        if step >= 21 {
            p.alloc(&HOLD, 1 << 20);
        }
    })
    .is(Verdict::CannotTell);
    assert!(reason.contains("since step 21, 4 times"), "{reason}");
    let mut random = Program::default();
    let block = random.alloc(&KEEP, 8);
    random.free(block);
    assert!(random.is(Verdict::CannotTell).contains("no loop"));
}

/// As a ring leaves them that begins at step 96.
#[test]
fn a_step_is_called_what_it_was_recorded_as() {
    let check = |name: fn(usize) -> String, expected: &str| {
        let mut program = Program::run(25, |p, step| {
            if step % 10 == 9 {
                p.alloc(&KEEP, 1 << 20);
            }
        });
        for (at, scope) in program.scopes.iter_mut().enumerate() {
            scope.0 = name(at);
        }
        let reason = program.is(Verdict::CannotTell);
        assert!(reason.contains(expected), "{reason}");
    };
    check(
        |at| format!("## step {} ##", at + 96),
        "kept at step 105 and again at step 115",
    );
    check(
        |at| format!("ProfilerStep#{}", at + 96),
        "kept at ProfilerStep#105 and again at ProfilerStep#115",
    );
    // Names of people's own are in no sentence.
    check(
        |at| format!("alice step {at}"),
        "kept at step 9 and again at step 19",
    );
}

#[test]
fn the_worst_device_speaks_for_the_trace() {
    let check = |answers: &[(DeviceIdx, Verdict, f64)], expected| {
        let weights = answers
            .iter()
            .map(|&(device, verdict, speed)| Weight::new(device, verdict, speed));
        assert_eq!(worst(weights), expected, "{answers:?}");
    };
    let [first, second, pinned] = [DeviceIdx(0), DeviceIdx(1), DeviceIdx::PINNED];
    let clean = |device| (device, Verdict::Clean, 0.0);
    let unknown = |device| (device, Verdict::CannotTell, 0.0);
    check(&[], None);
    check(&[clean(second), clean(first)], Some(1));
    check(&[clean(first), unknown(second)], Some(1));
    let [slow, fast] = [5.0, 7.0].map(|speed| move |device| (device, Verdict::Leak, speed));
    check(
        &[unknown(first), slow(first), clean(second), fast(second)],
        Some(3),
    );
    // The host's memory speaks only where no device leaks.
    check(&[slow(first), fast(pinned)], Some(0));
    check(&[clean(first), slow(pinned)], Some(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Blocks that are given back in their own step change nothing.
    #[test]
    fn churn_never_changes_a_verdict(
        churn in prop::collection::vec((0..4_usize, 1..1_u64 << 24), 0..40),
        leak in any::<bool>(), n in 6..24_u32,
    ) {
        let places = ["a x.py", "b x.py", "keep cache.py", "hold buffer.py"];
        let run = |churn: &[(usize, u64)]| {
            let (report, _) = Program::run(n, |p, step| {
                if leak {
                    p.alloc(&KEEP, 4096);
                } else if step < n / 3 {
                    p.alloc(&HOLD, 1 << 20);
                }
                let mut made = Vec::new();
                for (at, (place, size)) in churn.iter().enumerate() {
                    let size = size * u64::from(step % 3 + 1);
                    made.push(p.alloc(&[places[*place], "step train.py"], size));
                    if at % 3 == 2 {
                        made.drain(..).for_each(|block| p.free(block));
                    }
                }
                made.into_iter().for_each(|block| p.free(block));
            })
            .report();
            (report.verdict, report.bytes_per_step)
        };
        prop_assert_eq!(run(&churn), run(&[]));
    }

    /// Blocks that are always given back within a few steps are no leak, whatever their sizes and
    /// ages, and whether the recording shows scopes or the end of the program.
    #[test]
    fn bounded_lifetimes_are_never_a_leak(
        ages in prop::collection::vec((0..4_usize, 1..6_u32, 1_u64..1 << 22), 30..200),
        n in 12..30_u32, has_scopes in any::<bool>(), ends in any::<bool>(),
    ) {
        let mut live: Vec<(u32, BlockIdx)> = Vec::new();
        let mut ages = ages.iter().cycle();
        let mut program = Program::run(n, |p, step| {
            for (due, block) in std::mem::take(&mut live) {
                if due <= step {
                    p.free(block);
                } else {
                    live.push((due, block));
                }
            }
            for _ in 0..5 {
                let &(place, age, size) = ages.next().expect("it cycles");
                let place = ["a x.py", "b x.py", "c y.py", "d z.py"][place];
                live.push((step + age, p.alloc(&[place, "step train.py"], size)));
            }
        });
        if !has_scopes {
            program.scopes.clear();
        }
        if ends {
            program.end();
        }
        let (report, _) = program.report();
        prop_assert_ne!(report.verdict, Verdict::Leak, "{} {:?}", report.reason, report.groups);
    }

    /// A steady leak is always found, at any size that counts and from any step of the first half
    /// on.
    #[test]
    fn a_steady_leak_is_always_found(
        size in 2048..1_u64 << 30, n in 8..30_u32, from in 0..30_u32, count in 1..5_u32,
    ) {
        let from = from % (n / 2);
        let group = Program::run(n, |p, step| {
            for _ in 0..if step >= from { count } else { 0 } {
                p.alloc(&KEEP, size);
            }
        })
        .leaks();
        prop_assert_eq!(group.first_step, from);
        prop_assert_eq!(group.count_per_step, f64::from(count));
    }
}

#[test]
fn a_judgement_that_is_stopped_cannot_tell() {
    let trace = Program::run(8, |program, _| {
        program.alloc(&["keep cache.py", "step train.py"], 1 << 20);
    })
    .trace();
    let (device, stacks) = (&trace.devices[0], &trace.stacks);
    let looks = std::cell::Cell::new(0);
    let ask = |most: u32| {
        looks.set(0);
        let go_on = |_| {
            looks.set(looks.get() + 1);
            looks.get() <= most
        };
        find_while(device, stacks, &trace.quality, Watch::new(&go_on))
    };
    assert_eq!(ask(u32::MAX).verdict, Verdict::Leak);
    // Wherever it is stopped, it stops at once.
    for most in 0..looks.get() {
        let report = ask(most);
        assert_eq!(report.verdict, Verdict::CannotTell, "{most}");
        assert!(
            report.reason.contains("stopped at the time limit"),
            "{}",
            report.reason
        );
        assert_eq!(looks.get(), most + 1);
    }
}
