//! Growth inside of a step: micro-batches, requests.

use super::*;

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
    // If a part has no backward pass of its own, it builds something up for a later one.
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

/// The closure of one optimizer may step another one, whose scope begins later and ends earlier.
#[test]
fn optimizers_that_step_each_other_are_looked_at_in_order() {
    let mut program = Program::run(6, |_, _| {});
    let end = program.n_events;
    let scopes = [("Outer", 0, end), ("Inner", 1, 2)];
    for (at, (name, start, end)) in scopes.into_iter().enumerate() {
        let name = format!("Optimizer.step#{name}.step");
        program.scopes.insert(at, (name, start, end, at as u16));
    }
    program.is(Verdict::Clean);
}

/// A server: each request enlarges its cache token by token. `keeps` says whether the last cache of
/// a request stays. Steps are either requests or tokens.
fn serving(requests: u32, steps_are_tokens: bool, keeps: bool) -> Program {
    let mut program = Program::default();
    // The model's weights are older than the recording, so they have no stack: that does not make
    // them a part of a backward pass.
    program.builder.preexisting(block_of(Bytes::mib(64)));
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
    // A program with a backward pass serves no requests.
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

/// A leak from step to step is told first, however much more piles up within steps.
#[test]
fn what_outlives_its_step_is_told_before_what_does_not() {
    let mut program = Program::default();
    for step in 0..6 {
        let start = program.n_events;
        let mut saved = Vec::new();
        program.alloc(&["hoard cache.py", "step train.py"], 1 << 20);
        for part in 0..8 {
            let begin = program.n_events;
            let work: Vec<_> = (0..6)
                .map(|_| program.alloc(&["forward model.py", "step train.py"], 4 << 20))
                .collect();
            saved.push(program.alloc(&KEEP, 2 << 20));
            work.into_iter().for_each(|block| program.free(block));
            program.scope(format!("micro {part}"), begin, 1);
        }
        saved.into_iter().for_each(|block| program.free(block));
        program.scope(format!("step {step}"), start, 0);
    }
    let (report, _) = program.report();
    let told: Vec<_> = report
        .groups
        .iter()
        .map(|g| (g.is_within(), g.bytes_per_step))
        .collect();
    let mib = |n: u32| f64::from(n << 20);
    assert_eq!(told, [(false, mib(1)), (true, mib(2))]);
    assert_eq!(
        report.told().map(|group| group.bytes_per_step),
        Some(mib(1))
    );
    assert_eq!(report.rate(), mib(1));
}
