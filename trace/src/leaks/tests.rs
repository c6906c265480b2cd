//! Programs made up to show one pattern each, labelled.

use super::*;
use crate::steps;
use crate::testing::{TraceBuilder, block_of};
use crate::trace::{Annotation, BlockKind};
use crate::watch::Watch;
use proptest::prelude::*;

/// A program that runs step by step.
#[derive(Default)]
struct Program {
    builder: TraceBuilder,
    n_events: u32,
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

    /// Allocates with a stack of `function file`, innermost first.
    fn alloc(&mut self, stack: &[&str], requested: u64) -> BlockIdx {
        let frames: Vec<_> = stack
            .iter()
            .map(|frame| {
                let (name, file) = frame.split_once(' ').expect("function and file");
                let single = self.builder.stack(name, file, 1);
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
        self.builder.alloc(BlockKind {
            alloc_stack,
            ..block_of(Bytes(requested))
        })
    }

    fn free(&mut self, block: BlockIdx) {
        self.n_events += 2;
        self.builder.free_requested(block);
        self.builder.free_completed(block);
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

const KEEP: [&str; 2] = ["keep cache.py", "step train.py"];
const BACKWARD: [&str; 2] = [
    "backward /v/site-packages/torch/autograd/__init__.py",
    "step train.py",
];
const HOLD: [&str; 2] = ["hold buffer.py", "step train.py"];

#[test]
fn a_steady_leak_is_exact() {
    let group = Program::run(12, |p, _| {
        p.alloc(&KEEP, 3000);
        p.alloc(&KEEP, 5000);
    })
    .leaks();
    assert_eq!(group.pattern, Pattern::EveryStep);
    assert_eq!(
        (group.bytes_per_step, group.count_per_step),
        (3072.0 + 5120.0, 2.0)
    );
    assert_eq!((group.first_step, group.last_step), (0, 11));
    assert_eq!((group.live_count, group.live_bytes), (24, Bytes(12 * 8192)));
    assert_eq!(group.evidence.len(), 24);
    assert!(group.slope_error < 1e-6 && group.confidence > 0.9);
    assert_eq!(group.per_step[3], Bytes(4 * 8192));
}

#[test]
fn every_nth_step_has_its_rhythm() {
    let group = Program::run(30, |p, step| {
        if step % 5 == 4 {
            p.alloc(&KEEP, 1 << 20);
        }
    })
    .leaks();
    assert_eq!(group.pattern, Pattern::EveryNth(5));
    assert_eq!(group.bytes_per_step, f64::from(1 << 20) / 5.0);
}

#[test]
fn a_leak_may_begin_late() {
    let group = Program::run(40, |p, step| {
        if step >= 25 {
            p.alloc(&KEEP, 1 << 16);
        }
    })
    .leaks();
    assert_eq!(group.first_step, 25);
}

#[test]
fn retention_at_random_is_a_leak() {
    Program::run(16, |p, step| {
        let mut given_back = Vec::new();
        for expert in 0..6_u32 {
            let block = p.alloc(&KEEP, 1 << 18);
            if (step * 7 + expert * 3) % 5 > 1 {
                given_back.push(block);
            }
        }
        given_back.into_iter().for_each(|block| p.free(block));
    })
    .leaks();
}

#[test]
fn a_few_kib_beside_a_gib_of_churn_count() {
    let mut keep = |p: &mut Program, _| {
        p.alloc(&KEEP, 2048);
    };
    let group = Program::run_with_churn(10, Bytes::mib(128), &mut keep).leaks();
    assert_eq!(group.bytes_per_step, 2048.0);
}

#[test]
fn a_buffer_that_is_enlarged_is_a_leak_and_longer_sequences_are_none() {
    let mut history = None;
    let group = Program::run(14, |p, step| {
        let larger = p.alloc(&KEEP, u64::from(step + 1) << 20);
        if let Some(before) = history.replace(larger) {
            p.free(before);
        }
    })
    .leaks();
    assert_eq!(group.pattern, Pattern::Enlarged);
    assert_eq!(group.bytes_per_step, f64::from(1 << 20));

    let mut output = None;
    Program::run(14, |p, step| {
        let length = u64::from(step + 4);
        let activations: Vec<_> = (0..6)
            .map(|_| p.alloc(&["attend model.py", "step train.py"], length << 19))
            .collect();
        let logits = p.alloc(&["head model.py", "step train.py"], length << 18);
        activations.into_iter().for_each(|block| p.free(block));
        if let Some(before) = output.replace(logits) {
            p.free(before);
        }
    })
    .is(Verdict::Clean);
}

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

#[test]
fn a_warm_up_that_ends_is_clean() {
    Program::run(16, |p, step| {
        if step < 6 {
            p.alloc(&HOLD, 1 << 20);
        }
    })
    .is(Verdict::Clean);
}

#[test]
fn caches_that_fill_more_and_more_slowly_are_clean() {
    Program::run(40, |p, step| {
        if [1, 2, 3, 4, 6, 9, 15, 26].contains(&step) {
            p.alloc(&HOLD, 1 << 20);
        }
    })
    .is(Verdict::Clean);
}

#[test]
fn a_bounded_buffer_is_clean() {
    let mut buffer = std::collections::VecDeque::new();
    Program::run(24, |p, _| {
        buffer.push_back(p.alloc(&HOLD, 1 << 20));
        if buffer.len() > 6 {
            p.free(buffer.pop_front().expect("it is full"));
        }
    })
    .is(Verdict::Clean);
}

/// Blocks that are collected at the given steps.
fn collected_at(n: u32, rounds: &[u32]) -> Program {
    let mut garbage = Vec::new();
    Program::run(n, |p, step| {
        garbage.push(p.alloc(&HOLD, 1 << 20));
        if rounds.contains(&step) {
            garbage.drain(..).for_each(|block| p.free(block));
        }
    })
}

#[test]
fn a_saw_tooth_is_clean() {
    collected_at(23, &[4, 9, 14, 19]).is(Verdict::Clean);
    collected_at(26, &[3, 9, 13, 20]).is(Verdict::Clean);
    collected_at(24, &[5, 11, 17, 23]).is(Verdict::Clean);
}

#[test]
fn a_leak_in_the_site_of_a_saw_tooth_is_found() {
    let mut garbage = Vec::new();
    Program::run(30, |p, step| {
        garbage.push(p.alloc(&KEEP, 1 << 20));
        p.alloc(&KEEP, 1 << 18);
        if step % 5 == 4 {
            garbage.drain(..).for_each(|block| p.free(block));
        }
    })
    .leaks();
}

#[test]
fn evaluation_and_gradient_accumulation_are_clean() {
    let mut scores = None;
    Program::run(26, |p, step| {
        if step % 5 == 4 {
            let new = p.alloc(&HOLD, 1 << 22);
            if let Some(old) = scores.replace(new) {
                p.free(old);
            }
        }
    })
    .is(Verdict::Clean);
    let mut gradients: Vec<BlockIdx> = Vec::new();
    Program::run(22, |p, step| {
        if step % 4 == 0 {
            gradients.drain(..).for_each(|block| p.free(block));
            gradients.extend((0..4).map(|_| p.alloc(&[], 1 << 20)));
        }
    })
    .is(Verdict::Clean);
}

#[test]
fn collected_metrics_are_stated_and_no_leak() {
    let reason = Program::run(20, |p, _| {
        p.alloc(&HOLD, 4);
        p.alloc(&["log metrics.py"], 4);
    })
    .is(Verdict::Clean);
    assert!(reason.contains("1.00 KiB at a time"), "{reason}");
}

#[test]
fn a_buffer_that_was_full_before_the_recording_is_clean() {
    let mut program = Program::default();
    let mut old: Vec<BlockIdx> = (0..12)
        .map(|_| program.builder.preexisting(block_of(Bytes(1 << 20))))
        .collect();
    for step in 0..10 {
        let start = program.n_events;
        program.alloc(&HOLD, 1 << 20);
        program.free(old.remove(0));
        program.scope(format!("step {step}"), start, 0);
    }
    program.is(Verdict::Clean);
}

#[test]
fn a_leak_without_stacks_is_found_though_its_sizes_differ() {
    let random = |step: u32, of: u32| u64::from((step * 7919 + of * 104_729) % 997);
    let (report, _) = Program::run(16, |p, step| {
        p.alloc(&[], 50_000 + 512 * random(step, 1));
        let scratch = p.alloc(&[], 80_000 + 512 * random(step, 2));
        p.free(scratch);
    })
    .report();
    assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
    let group = &report.groups[0];
    assert_eq!((group.site, group.count_per_step), (SiteKey::ANY_SIZE, 1.0));
    assert_eq!(group.live_count, 16);

    let mut last = None;
    Program::run(16, |p, step| {
        let new = p.alloc(&[], 50_000 + 512 * random(step, 1));
        if let Some(old) = last.replace(new) {
            p.free(old);
        }
    })
    .is(Verdict::Clean);
}

#[test]
fn gradients_that_wait_for_the_next_step_are_clean() {
    let mut gradients: Vec<BlockIdx> = Vec::new();
    Program::run(14, |p, step| {
        // `zero_grad` when a step begins; every other step belongs to the other network.
        if step % 2 == 0 {
            gradients.drain(..).for_each(|block| p.free(block));
        }
        gradients.extend((0..6).map(|_| p.alloc(&["backward loss.py", "step train.py"], 1 << 20)));
    })
    .is(Verdict::Clean);
}

#[test]
fn a_buffer_with_random_eviction_is_clean_and_one_that_is_half_cleared_leaks() {
    let mut buffer: Vec<BlockIdx> = Vec::new();
    Program::run(40, |p, step| {
        buffer.push(p.alloc(&HOLD, 1 << 18));
        if buffer.len() > 6 {
            let at = (step as usize * 7919) % buffer.len();
            p.free(buffer.swap_remove(at));
        }
    })
    .is(Verdict::Clean);
    let mut history: Vec<BlockIdx> = Vec::new();
    Program::run(60, |p, step| {
        history.extend((0..2).map(|_| p.alloc(&KEEP, 1 << 18)));
        if step % 6 == 5 {
            // Only the younger half goes.
            let young = history.len() - 6..;
            history.drain(young).for_each(|block| p.free(block));
        }
    })
    .leaks();
}

#[test]
fn optimizer_state_of_rarely_used_experts_is_clean() {
    let mut seen = [false; 8];
    Program::run(60, |p, step| {
        // Rarer and rarer: each expert the first time that a token is routed to it.
        let expert = [0, 1, 0, 2, 1, 3, 0, 4, 2, 1, 5, 0, 3, 6, 1, 2, 0, 4, 7][step as usize % 19];
        if !std::mem::replace(&mut seen[expert], true) {
            p.alloc(&["init adam.py", "step train.py"], 4 << 20);
            p.alloc(&["init adam.py", "step train.py"], 4 << 20);
        }
    })
    .is(Verdict::Clean);
}

/// Four steps of eight parts; each part keeps a block that `end` gives back.
fn in_parts(kept: u64, end: impl Fn(&mut Program, Vec<BlockIdx>)) -> Program {
    in_parts_with(kept, Backward::Later, end)
}

#[derive(Clone, Copy, PartialEq)]
enum Backward {
    InEachPart,
    Later,
}

fn in_parts_with(
    kept: u64,
    backward: Backward,
    end: impl Fn(&mut Program, Vec<BlockIdx>),
) -> Program {
    let mut program = Program::default();
    for step in 0..5 {
        let start = program.n_events;
        let mut saved = Vec::new();
        for part in 0..8 {
            let begin = program.n_events;
            let work: Vec<_> = (0..6)
                .map(|_| program.alloc(&["forward model.py", "step train.py"], 4 << 20))
                .collect();
            saved.push(program.alloc(&KEEP, kept));
            if backward == Backward::InEachPart {
                let gradient = program.alloc(&[], 1 << 20);
                program.free(gradient);
            }
            work.into_iter().for_each(|block| program.free(block));
            program.scope(format!("micro {part}"), begin, 1);
        }
        end(&mut program, saved);
        program.scope(format!("step {step}"), start, 0);
    }
    program
}

#[test]
fn growth_within_a_step_is_seen_in_its_parts() {
    let all_at_once = |p: &mut Program, saved: Vec<BlockIdx>| {
        saved.into_iter().for_each(|block| p.free(block));
    };
    let group = in_parts(1 << 20, all_at_once).leaks();
    assert_eq!(group.pattern, Pattern::WithinStep);
    assert_eq!(group.bytes_per_step, f64::from(1 << 20));
}

#[test]
fn a_graph_that_each_part_retains_leaks_even_where_it_is_most_of_the_parts_peak() {
    let all_at_once = |p: &mut Program, saved: Vec<BlockIdx>| {
        saved.into_iter().for_each(|block| p.free(block));
    };
    let most = 64 << 20;
    let group = in_parts_with(most, Backward::InEachPart, all_at_once).leaks();
    assert_eq!(group.pattern, Pattern::WithinStep);
    // Without a backward pass of its own a part builds something up for later.
    in_parts_with(most, Backward::Later, all_at_once).is(Verdict::Clean);
}

#[test]
fn micro_batches_that_are_the_steps_are_the_parts_of_optimizer_steps() {
    let mut program = Program::default();
    for _ in 0..4 {
        let mut saved = Vec::new();
        for _ in 0..6 {
            let start = program.n_events;
            saved.push(program.alloc(&KEEP, 8 << 20));
            let work = program.alloc(&["forward model.py", "step train.py"], 4 << 20);
            let gradient = program.alloc(&[], 1 << 20);
            program.free(gradient);
            program.free(work);
            let n = program.scopes.len();
            program.scope(format!("batch {n}"), start, 0);
        }
        let start = program.n_events;
        saved.into_iter().for_each(|block| program.free(block));
        program.scope("Optimizer.step#Adam.step".to_owned(), start, 0);
    }
    let mut trace = program.trace();
    let device = &mut trace.devices[0];
    // The reader may choose micro-batches as the steps.
    let batches = device.annotations.iter().filter(|a| {
        let name = trace.stacks.str(a.name);
        name.starts_with("batch")
    });
    device.steps = batches
        .enumerate()
        .map(|(index, a)| crate::trace::Step {
            index: index as u32,
            name: String::new(),
            events: a.events,
        })
        .collect();
    let report = find(device, &trace.stacks, &[]);
    assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
    assert_eq!(report.groups[0].pattern, Pattern::WithinStep);
    assert_eq!(report.groups[0].bytes_per_step, f64::from(8 << 20));
}

/// A server: each request enlarges its cache token by token; `keeps` says whether the last cache of
/// a request stays. Steps are requests, or tokens.
fn serving(requests: u32, steps_are_tokens: bool, keeps: bool) -> Program {
    let mut program = Program::default();
    for request in 0..requests {
        let start = program.n_events;
        let mut caches: Vec<BlockIdx> = Vec::new();
        // Prompts and answers differ in length from request to request.
        let (prompt, tokens) = (40 + request * 37 % 60, 12 + request * 11 % 17);
        for token in 0..tokens {
            let begin = program.n_events;
            let mut grown = Vec::new();
            for layer in 0..4 {
                let stack = ["attend model.py", "decode serve.py"];
                let scores = program.alloc(&stack, 8 * u64::from(prompt + token));
                let length = u64::from(prompt + token);
                grown.push(program.alloc(&stack, length * 2048));
                if let Some(&old) = caches.get(layer) {
                    program.free(old);
                }
                program.free(scores);
            }
            caches = grown;
            if steps_are_tokens {
                program.scope(format!("step {token}"), begin, 0);
            }
        }
        if !keeps {
            caches.into_iter().for_each(|block| program.free(block));
        }
        if !steps_are_tokens {
            program.scope(format!("step {request}"), start, 0);
        }
    }
    program
}

#[test]
fn a_server_that_keeps_the_cache_of_every_request_leaks() {
    let (report, stacks) = serving(12, false, true).report();
    assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
    let name = report.groups[0]
        .frame
        .map(|f| stacks.str(f.name).to_owned());
    assert_eq!(name.as_deref(), Some("attend"));
    serving(12, false, false).is(Verdict::Clean);
}

#[test]
fn the_cache_of_one_request_is_no_leak() {
    let reason = serving(1, true, true).is(Verdict::CannotTell);
    assert!(reason.contains("record 4 requests or more"), "{reason}");
    // With a backward pass it is not a request.
    let mut buffer = None;
    Program::run(12, |p, step| {
        let larger = p.alloc(&KEEP, u64::from(step + 1) << 20);
        if let Some(smaller) = buffer.replace(larger) {
            p.free(smaller);
        }
    })
    .leaks();
}

#[test]
fn what_an_optimizer_keeps_is_no_leak() {
    const STEP: &str = "step /v/site-packages/torch/optim/lbfgs.py";
    let reason = Program::run(10, |p, _| {
        p.alloc(&[STEP, "train train.py"], 1 << 20);
    })
    .is(Verdict::Clean);
    assert!(reason.contains("optimizer state"), "{reason}");
    // A closure that it calls is the program's own.
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

#[test]
fn what_the_groups_do_not_cover_is_said() {
    // One site has a rhythm; many others keep something once, more and more of them.
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

#[test]
fn the_reason_says_how_much_to_record() {
    let steady = Program::run(3, |p, _| {
        p.alloc(&KEEP, 1 << 20);
    });
    let reason = steady.is(Verdict::CannotTell);
    assert!(
        reason.contains("`torch.cuda.memory._record_memory_history(max_entries="),
        "{reason}"
    );
}

#[test]
fn layers_whose_activations_a_backward_pass_takes_one_by_one_are_clean() {
    in_parts(1 << 20, |p, saved| {
        for block in saved.into_iter().rev() {
            let gradient = p.alloc(&[], 1 << 20);
            let scratch = p.alloc(&[], 1 << 21);
            p.free(block);
            p.free(scratch);
            p.free(gradient);
        }
    })
    .is(Verdict::Clean);
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

#[test]
fn the_worst_device_speaks_for_the_trace() {
    let report = |verdict, bytes_per_step| LeakReport {
        growth: None,
        verdict,
        reason: String::new(),
        caveats: Vec::new(),
        groups: Vec::new(),
        bytes_per_step,
    };
    let clean = report(Verdict::Clean, 0.0);
    let unknown = report(Verdict::CannotTell, 0.0);
    let leaks = [report(Verdict::Leak, 5.0), report(Verdict::Leak, 7.0)];
    assert_eq!(worst(&[]), None);
    assert_eq!(worst(&[clean.clone(), clean.clone()]), Some(0));
    assert_eq!(worst(&[clean.clone(), unknown.clone()]), Some(1));
    let [slow, fast] = leaks;
    assert_eq!(worst(&[unknown, slow, clean, fast]), Some(3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What is given back in its step changes nothing.
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

    /// What is always given back within a few steps is not a leak, whatever its sizes and ages.
    #[test]
    fn bounded_lifetimes_are_never_a_leak(
        ages in prop::collection::vec((0..4_usize, 1..6_u32, 1_u64..1 << 22), 30..200),
        n in 12..30_u32,
    ) {
        let mut live: Vec<(u32, BlockIdx)> = Vec::new();
        let mut ages = ages.iter().cycle();
        let (report, _) = Program::run(n, |p, step| {
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
        })
        .report();
        prop_assert_ne!(report.verdict, Verdict::Leak, "{} {:?}", report.reason, report.groups);
    }

    /// A steady leak is found at any size that counts, from any step of the first half on.
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
