//! Buffers that are replaced by larger ones, and histories that are copied.

use super::*;

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

    // A memory that every step searches: the search becomes larger, too.
    let mut bank = None;
    let reason = Program::run(14, |p, step| {
        let size = u64::from(step + 1) << 20;
        let scores = p.alloc(&["search model.py", "step train.py"], size * 2);
        p.free(scores);
        if let Some(before) = bank.replace(p.alloc(&KEEP, size)) {
            p.free(before);
        }
    })
    .is(Verdict::CannotTell);
    assert!(reason.contains("it has no bound, or"), "{reason}");
}

/// Of a ring, the first larger buffer takes the place of one from before: it was made there, and is
/// no growth.
#[test]
fn a_buffer_from_before_the_recording_grows_by_what_is_added_to_it() {
    const BEFORE: u64 = 40 << 20;
    let mut program = Program::default();
    let mut buffer = program.builder.preexisting(block_of(Bytes(BEFORE)));
    for step in 0..20_u32 {
        let start = program.n_events;
        let scratch = program.alloc(&["forward model.py", "step train.py"], 4 << 20);
        if step % 3 == 1 {
            let added = u64::from(step / 3 + 1) << 20;
            let larger = program.alloc(&KEEP, BEFORE + added);
            program.free(std::mem::replace(&mut buffer, larger));
        }
        program.free(scratch);
        program.scope(format!("step {step}"), start, 0);
    }
    let group = program.leaks();
    assert_eq!(group.pattern, Pattern::Enlarged);
    assert_eq!(group.bytes_per_step, f64::from(1 << 20) / 3.0);
}

/// All requests of a server share one cache, which they search: part of the work grows with it.
/// Where all of the work grows, the last answer may be as long as the question.
#[test]
fn a_cache_that_all_requests_share_is_not_called_clean() {
    const PLACES: [&str; 5] = ["embed", "project", "norm", "expand", "head"];
    let check = |prompt: fn(u32) -> u64, shared: bool, expected: Verdict| {
        let mut program = Program::default();
        let (mut cache, mut tokens) = (None, 0);
        for request in 0..14 {
            let start = program.n_events;
            tokens = prompt(request) + if shared { tokens } else { 0 };
            let scratch = PLACES.map(|place| {
                let place = format!("{place} model.py");
                program.alloc(&[&place, "serve serve.py"], prompt(request) << 16)
            });
            let scores = program.alloc(&["search model.py", "serve serve.py"], tokens << 17);
            let larger = program.alloc(&KEEP, tokens << 15);
            let before = cache.replace(larger);
            let gone = scratch.into_iter().chain([scores]).chain(before);
            gone.for_each(|block| program.free(block));
            program.scope(format!("step {request}"), start, 0);
        }
        program.is(expected);
    };
    let any = |request: u32| 8 + u64::from(request * 7919 % 53);
    check(|_| 20, true, Verdict::CannotTell);
    check(any, true, Verdict::CannotTell);
    check(|request| 8 + u64::from(request), false, Verdict::Clean);
    check(|_| 20, false, Verdict::Clean);
    check(any, false, Verdict::Clean);
}

/// A buffer that is enlarged four times in a step: the copies between are its own, so nothing else
/// grows.
#[test]
fn a_buffer_that_is_enlarged_several_times_a_step_is_a_leak() {
    let mut history = None;
    let mut size = 0;
    let group = Program::run(30, |p, _| {
        for _ in 0..4 {
            size += 1 << 18;
            let larger = p.alloc(&KEEP, size);
            if let Some(before) = history.replace(larger) {
                p.free(before);
            }
        }
    })
    .leaks();
    assert_eq!(group.pattern, Pattern::Enlarged);
    assert_eq!(group.bytes_per_step, f64::from(1 << 20));
}

/// Gradients of large weights are always as large. Beside them what longer data make is a small
/// part, but more than the one result that is kept.
#[test]
fn longer_data_beside_large_weights_are_not_called_a_leak() {
    let mut output = None;
    let reason = Program::run(40, |p, step| {
        let length = u64::from(step + 8);
        let gradients = p.alloc(&["step train.py"], 1 << 30);
        let activations: Vec<_> = (0..6)
            .map(|_| p.alloc(&["attend model.py", "step train.py"], length << 16))
            .collect();
        let logits = p.alloc(&["head model.py", "step train.py"], length << 15);
        activations.into_iter().for_each(|block| p.free(block));
        p.free(gradients);
        if let Some(before) = output.replace(logits) {
            p.free(before);
        }
    })
    .is(Verdict::CannotTell);
    assert!(reason.contains("it has no bound, or"), "{reason}");
}

/// Every step copies a list of blocks that becomes longer, or works on more and more data.
#[test]
fn a_history_that_is_copied_in_each_step_is_a_leak_and_more_data_are_none() {
    let copied = |place: [&'static str; 2], work: fn(u32) -> u64| {
        let mut history: Vec<BlockIdx> = Vec::new();
        Program::run(16, |p, step| {
            let scratch = p.alloc(&["attend model.py", "step train.py"], 32 << 20);
            let more = p.alloc(&["attend model.py", "step train.py"], 1 + work(step));
            let copy = (0..=step).map(|_| p.alloc(&place, 1 << 17)).collect();
            for block in std::mem::replace(&mut history, copy) {
                p.free(block);
            }
            [scratch, more].into_iter().for_each(|block| p.free(block));
        })
    };
    let group = copied(KEEP, |_| 0).leaks();
    assert_eq!(group.pattern, Pattern::Enlarged);
    assert_eq!(group.bytes_per_step, f64::from(1 << 17));
    copied(HOLD, |step| u64::from(step) << 24).is(Verdict::Clean);
}

/// The weights are without a stack, too, and stay.
#[test]
fn a_history_that_is_copied_is_found_without_stacks() {
    let mut program = Program::default();
    for _ in 0..5 {
        program.alloc(&[], 1 << 20);
    }
    let mut history: Vec<BlockIdx> = Vec::new();
    for step in 0..12 {
        let start = program.n_events;
        let copy = (0..=step).map(|_| program.alloc(&[], 1 << 17)).collect();
        for block in std::mem::replace(&mut history, copy) {
            program.free(block);
        }
        program.scope(optimizer_step(step), start, 0);
    }
    let (report, _) = program.report();
    assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
    assert_eq!(report.groups[0].pattern, Pattern::Enlarged);
}

/// The allocator does not split off less than 1 MiB of a large block, so the level of allocated
/// bytes falls now and then.
#[test]
fn a_buffer_that_is_enlarged_is_seen_through_what_is_not_split_off() {
    let mut history = None;
    let group = Program::run(14, |p, step| {
        let requested = u64::from(step + 4) << 18;
        let slack = if step % 3 == 0 { 768 << 10 } else { 0 };
        let larger = p.alloc_in(&KEEP, requested, requested + slack);
        if let Some(before) = history.replace(larger) {
            p.free(before);
        }
    })
    .leaks();
    assert_eq!(group.pattern, Pattern::Enlarged);
    assert_eq!(group.bytes_per_step, f64::from(1 << 18));
}

/// Twelve steps without stacks; each replaces a buffer by a larger one.
fn a_buffer_without_stacks(scope: fn(u64) -> String, work: fn(u64) -> u64) -> Program {
    let mut program = Program::default();
    let mut buffer: Option<BlockIdx> = None;
    for step in 0..12_u64 {
        let start = program.n_events;
        let scratch = program.alloc(&[], (8 << 20) + work(step));
        let larger = program.alloc(&[], (step + 1) << 18);
        if let Some(smaller) = buffer.replace(larger) {
            program.free(smaller);
        }
        program.free(scratch);
        program.scope(scope(step), start, 0);
    }
    program
}

#[test]
fn a_buffer_that_grows_is_found_without_stacks() {
    let (report, _) = a_buffer_without_stacks(optimizer_step, |_| 0).report();
    assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
    assert_eq!(report.groups[0].pattern, Pattern::Enlarged);
    assert_eq!(report.bytes_per_step, f64::from(1 << 18));
}

#[test]
fn a_buffer_that_grows_with_the_data_may_be_bounded() {
    let program = a_buffer_without_stacks(optimizer_step, |step| step << 18);
    let reason = program.is(Verdict::CannotTell);
    assert!(reason.contains("data of one size"), "{reason}");
}

/// Nothing shows that this program trains.
#[test]
fn a_buffer_that_grows_without_stacks_may_belong_to_one_request() {
    let check = |scope: fn(u64) -> String, expected: &str| {
        let reason = a_buffer_without_stacks(scope, |_| 0).is(Verdict::CannotTell);
        assert!(reason.contains(expected), "{reason}");
    };
    let of_one_request = "cache of one request is; record 4 requests or more";
    check(|step| format!("step {step}"), of_one_request);
    let of_a_conversation = "in each of 12 requests, as the key/value cache of one conversation is";
    check(|step| format!("request {step}"), of_a_conversation);
}

#[test]
fn growth_in_each_of_very_few_steps_is_not_called_clean() {
    // A buffer that is replaced by a larger one.
    let enlarged = |n: u32, sizes: &[u64], expected| {
        let mut buffer = None;
        Program::run(n, |p, step| {
            let larger = p.alloc(&KEEP, sizes[step as usize] << 20);
            if let Some(before) = buffer.replace(larger) {
                p.free(before);
            }
        })
        .is(expected)
    };
    enlarged(4, &[1, 2, 3, 4], Verdict::CannotTell);
    enlarged(5, &[1, 2, 3, 4, 5], Verdict::CannotTell);
    enlarged(5, &[1, 2, 4, 3, 5], Verdict::Clean);
    enlarged(4, &[3, 1, 4, 6], Verdict::Clean);
    // Blocks that are kept, beside a variable; the first step makes a table, too.
    let mut held = None;
    Program::run(4, |p, step| {
        p.alloc(&KEEP, if step == 0 { 8 << 20 } else { 1 << 20 });
        let new = p.alloc(&KEEP, 1 << 10);
        if let Some(old) = held.replace(new) {
            p.free(old);
        }
    })
    .is(Verdict::CannotTell);
}

/// A result that is made longer once in four steps, and a queue whose bound rises: three rises are
/// no leak yet, and nobody has seen a bound.
#[test]
fn what_rises_by_one_amount_now_and_then_is_not_called_clean() {
    let enlarged = |n: u32, sizes: [u64; 4], expected| {
        let mut result = None;
        Program::run(n, |p, step| {
            if step % 4 == 1 {
                let longer = p.alloc(&KEEP, sizes[step as usize / 4] << 20);
                let before = result.replace(longer);
                before.into_iter().for_each(|block| p.free(block));
            }
        })
        .is(expected)
    };
    enlarged(14, [3, 6, 9, 12], Verdict::CannotTell);
    enlarged(14, [3, 6, 5, 8], Verdict::Clean);
    let queue = |n: u32, bound: fn(u32) -> usize, expected| {
        let mut queue = std::collections::VecDeque::new();
        Program::run(n, |p, step| {
            queue.push_back(p.alloc(&KEEP, 1 << 20));
            if queue.len() > bound(step) {
                queue
                    .pop_front()
                    .into_iter()
                    .for_each(|block| p.free(block));
            }
        })
        .is(expected)
    };
    queue(22, |step| 2 + step as usize / 6, Verdict::CannotTell);
    queue(22, |_| 5, Verdict::Clean);
}

/// A buffer that is doubled whenever it is full: each rise comes later than the one before, though
/// what it holds grows evenly. Nobody knows where that ends.
#[test]
fn a_buffer_that_is_doubled_again_and_again_is_not_called_clean() {
    let doubles = |n: u32, until: u32, stack: &'static [&'static str], is_of_data: bool| {
        let mut program = Program::default();
        let mut buffer: Option<BlockIdx> = None;
        for step in 0..n {
            let start = program.n_events;
            let size = 1_u64 << (18 + (step.min(until) + 1).ilog2());
            let work = if is_of_data { 4 * size } else { 8 << 20 };
            let is_known = !stack.is_empty();
            let scratch = match is_known {
                true => program.alloc(&["forward model.py", "step train.py"], work),
                false => program.alloc(&[], work),
            };
            if (step + 1).is_power_of_two() && step <= until || is_of_data {
                let larger = program.alloc(stack, size);
                let before = buffer.replace(larger);
                before.into_iter().for_each(|block| program.free(block));
            }
            program.free(scratch);
            let scope = match is_known {
                true => format!("step {step}"),
                false => optimizer_step(0),
            };
            program.scope(scope, start, 0);
        }
        program
    };
    let check = |n, until, stack, expected| doubles(n, until, stack, false).is(expected);
    let told = check(40, 40, &KEEP, Verdict::CannotTell);
    assert!(told.contains("was enlarged 5 times"), "{told}");
    check(30, 40, &KEEP, Verdict::CannotTell);
    check(40, 40, &[], Verdict::CannotTell);
    // The next rise is overdue.
    check(44, 16, &KEEP, Verdict::Clean);
    // The last result of steps on longer and longer data.
    doubles(40, 40, &KEEP, true).is(Verdict::Clean);
}

/// A search for the best width: each trial makes a larger model, and its steps do more. Where the
/// trial ends, a part of its model goes before its last step is over.
#[test]
fn larger_and_larger_models_that_are_dropped_are_no_leak() {
    const WEIGHTS: [&str; 2] = ["trial train.py:4", "search train.py"];
    let search = |grows: bool| {
        let mut model: Vec<BlockIdx> = Vec::new();
        Program::run(28, move |p, step| {
            let width = step / 4 + 1;
            if step % 4 == 0 {
                model.drain(..).for_each(|block| p.free(block));
                model.extend((0..4 * width).map(|_| p.alloc(&WEIGHTS, 1 << 20)));
            }
            let work = if grows { 8 * width } else { 8 };
            let passed = (0..work).map(|_| p.alloc(&["layer model.py", "trial train.py"], 8 << 20));
            let passed: Vec<BlockIdx> = passed.collect();
            passed.into_iter().for_each(|block| p.free(block));
            if step % 4 == 3 {
                let half = model.split_off(model.len() / 2);
                half.into_iter().for_each(|block| p.free(block));
            }
        })
    };
    search(true).is(Verdict::Clean);
    search(false).is(Verdict::CannotTell);
}
