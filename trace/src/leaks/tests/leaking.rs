//! Programs that leak, and what the report says about them.

use super::*;

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

/// People often dump the snapshot after the function that holds the loop has returned, and with it
/// everything that it kept. The verdict is the same, wherever the steps come from.
#[test]
fn a_program_that_has_ended_is_judged_as_if_it_still_ran() {
    fn check(scopes: fn(&mut Program), keeps: bool, expected: Verdict) {
        let judge = |ends: bool| {
            let mut program = Program::run(12, |p, _| {
                if keeps {
                    p.alloc(&KEEP, 1 << 20);
                }
            });
            scopes(&mut program);
            let last = program.n_events;
            if ends {
                program.end();
            }
            let trace = program.trace();
            let device = &trace.devices[0];
            assert_eq!(device.steps.len(), 12);
            assert_eq!(device.steps[11].events.end(), EventIdx(last));
            find(device, &trace.stacks, &[])
        };
        let (running, ended) = (judge(false), judge(true));
        assert_eq!((running.verdict, ended.verdict), (expected, expected));
        assert_eq!(running.bytes_per_step, ended.bytes_per_step);
        assert_eq!(running.growth, ended.growth);
        if expected == Verdict::Leak {
            assert!(running.reason.ends_with("are never given back"));
            let reason = ended.reason;
            assert!(
                reason.ends_with("are given back only after the last one"),
                "{reason}"
            );
        }
    }
    let from_stacks = |program: &mut Program| program.scopes.clear();
    let of_an_optimizer = |program: &mut Program| {
        for scope in &mut program.scopes {
            let end = scope.2;
            *scope = ("Optimizer.step#Adam.step".to_owned(), end - 1, end, 0);
        }
    };
    for scopes in [|_: &mut Program| {}, from_stacks, of_an_optimizer] {
        check(scopes, true, Verdict::Leak);
        check(scopes, false, Verdict::Clean);
    }
}

/// A list that is given back after each epoch stands anywhere in its saw-tooth when the recording
/// ends.
#[test]
fn where_a_saw_tooth_stands_at_the_end_is_no_growth() {
    for (n, epoch) in [(80, 40), (120, 40), (115, 40), (28, 10)] {
        let mut outputs = Vec::new();
        let (report, _) = Program::run(n, |p, step| {
            if step % epoch == 0 {
                outputs.drain(..).for_each(|block| p.free(block));
            }
            p.alloc(&KEEP, 4096);
            let remainder = u64::from((step + 1) % 3) << 19;
            outputs.push(p.alloc_in(&HOLD, 4 << 20, (4 << 20) + remainder));
        })
        .report();
        assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
        assert_eq!(report.bytes_per_step, 4096.0, "{n}, {epoch}");
    }
    // What takes its place at another place is no growth either.
    let mut outputs = Vec::new();
    let (report, _) = Program::run(60, |p, step| {
        p.alloc(&KEEP, 4096);
        match step {
            0..30 => outputs.push(p.alloc(&HOLD, 1 << 20)),
            30 => outputs.drain(..).for_each(|block| p.free(block)),
            _ => {}
        }
        if (30..36).contains(&step) {
            p.alloc(&["warm other.py", "step train.py"], 2 << 20);
        }
    })
    .report();
    assert_eq!(report.bytes_per_step, 4096.0, "{}", report.reason);
}

/// The same function makes what a list keeps for an epoch and, on another line, what is kept for
/// good.
#[test]
fn a_line_that_keeps_is_found_beside_one_that_collects() {
    const COLLECTS: [&str; 2] = ["keep cache.py", "step train.py:7"];
    const KEEPS: [&str; 2] = ["keep cache.py", "step train.py:9"];
    let epochs = |kept_from: u32, n: u32| {
        let mut outputs = Vec::new();
        Program::run(n, move |p, step| {
            if step % 45 == 0 {
                outputs.drain(..).for_each(|block| p.free(block));
            }
            outputs.push(p.alloc(&COLLECTS, 3 << 20));
            if step >= kept_from {
                p.alloc(&KEEPS, 1 << 20);
            }
        })
    };
    let (report, _) = epochs(0, 88).report();
    assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
    assert_eq!(report.bytes_per_step, f64::from(1 << 20));
    let [group] = &report.groups[..] else {
        panic!("one group: {:?}", report.groups)
    };
    assert_eq!((group.live_count, group.per_step[9]), (88, Bytes::mib(10)));
    // No older than what was given back: perhaps the list of the second epoch.
    epochs(45, 88).is(Verdict::Clean);
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
    let late = || {
        Program::run(40, |p, step| {
            if step >= 25 {
                p.alloc(&KEEP, 1 << 16);
            }
        })
    };
    assert_eq!(late().leaks().first_step, 25);
    let reason = late().is(Verdict::Leak);
    assert!(
        reason.starts_with("64.0 KiB a step accumulate over the last 15 of 40 steps"),
        "{reason}"
    );
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

/// A list that loses a few of its elements once is not collected now and then.
#[test]
fn a_list_that_loses_a_few_elements_once_is_a_leak() {
    for lost in [29, 39, 49] {
        let mut list = Vec::new();
        let group = Program::run(60, |p, step| {
            list.push(p.alloc(&KEEP, 1 << 18));
            if step == lost {
                list.drain(..4).for_each(|block| p.free(block));
            }
        })
        .leaks();
        assert_eq!(group.live_count, 56);
    }
}

/// The recording ends when the loop's function returns: what its variables hold is given back
/// there, and what each step gives back itself is still held where the last step is cut.
#[test]
fn the_last_step_is_compared_as_if_it_ended_where_the_others_do() {
    let check = |variables_go: bool, images_stay: bool| {
        let (mut queue, mut output): (Option<BlockIdx>, Option<BlockIdx>) = (None, None);
        let (report, _) = Program::run(16, |p, step| {
            let is_last = step == 15;
            let larger = p.alloc(&KEEP, u64::from(step + 10) << 16);
            let before = queue.replace(larger);
            before.into_iter().for_each(|block| p.free(block));
            let images = p.alloc(&["keep cache.py:9", "step train.py"], 3 << 20);
            let before = output.replace(p.alloc(&HOLD, 5 << 20));
            before.into_iter().for_each(|block| p.free(block));
            if !(is_last && images_stay) {
                p.free(images);
            }
            if is_last && variables_go {
                output.into_iter().for_each(|block| p.free(block));
            }
        })
        .report();
        assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
        assert_eq!(report.groups[0].bytes_per_step, f64::from(1 << 16));
    };
    check(false, false);
    check(true, false);
    check(false, true);
}

/// The same without stacks: a variable of the function goes with it. Each step also makes a block
/// of its size that it gives back. If it becomes longer, too, nothing shows that it was a variable.
#[test]
fn a_queue_without_stacks_is_not_called_clean_where_the_loops_function_returns() {
    let check = |size: fn(u64) -> u64, expected: Verdict| {
        let mut program = Program::default();
        let (mut queue, mut output): (Option<BlockIdx>, Option<BlockIdx>) = (None, None);
        for step in 0..16 {
            let start = program.n_events;
            let larger = program.alloc(&[], (step + 10) << 16);
            let before = queue.replace(larger);
            before.into_iter().for_each(|block| program.free(block));
            let gradient = program.alloc(&[], size(step));
            program.free(gradient);
            let before = output.replace(program.alloc(&[], size(step)));
            before.into_iter().for_each(|block| program.free(block));
            if step == 15 {
                output.into_iter().for_each(|block| program.free(block));
            }
            program.scope(optimizer_step(step), start, 0);
        }
        program.is(expected);
    };
    check(|_| 5 << 20, Verdict::Leak);
    check(|step| (step + 500) << 10, Verdict::CannotTell);
}

/// Requests of any length: some are kept, and what the last one keeps has the size of others that
/// were given back.
#[test]
fn what_the_last_step_keeps_counts_where_sizes_change() {
    const LENGTHS: [u64; 12] = [2, 1, 3, 1, 4, 5, 1, 6, 7, 1, 8, 1];
    let program = Program::run(12, |p, step| {
        // Not the size of a library's workspace.
        let block = p.alloc(&KEEP, LENGTHS[step as usize] * (3 << 20));
        if ![2, 5, 8, 11].contains(&step) {
            p.free(block);
        }
    });
    assert_eq!(program.leaks().live_count, 4);
}

/// Each step replaces its result, which becomes longer; that is no part of what leaks.
#[test]
fn what_each_step_replaces_by_more_is_no_part_of_a_leak() {
    let mut last = None;
    let (report, _) = Program::run(20, |p, step| {
        p.alloc(&KEEP, 1 << 15);
        let result = p.alloc(&HOLD, u64::from(step + 4) << 19);
        let before = last.replace(result);
        before.into_iter().for_each(|block| p.free(block));
        let work = p.alloc(
            &["attend model.py", "step train.py"],
            u64::from(step + 4) << 21,
        );
        p.free(work);
    })
    .report();
    assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
    assert_eq!(
        report.bytes_per_step,
        f64::from(1 << 15),
        "{}",
        report.reason
    );
}

/// Two elements come in each step, and one from before the recording goes.
#[test]
fn what_a_queue_gives_back_from_before_the_recording_is_no_part_of_its_rate() {
    let mut program = Program::default();
    let mut old: Vec<BlockIdx> = (0..30)
        .map(|_| program.builder.preexisting(block_of(Bytes(1 << 20))))
        .collect();
    for step in 0..20 {
        let start = program.n_events;
        program.alloc(&KEEP, 1 << 20);
        program.alloc(&KEEP, 1 << 20);
        program.free(old.remove(0));
        program.scope(format!("step {step}"), start, 0);
    }
    let group = program.leaks();
    assert_eq!(
        (group.bytes_per_step, group.count_per_step),
        (f64::from(1 << 20), 1.0)
    );
}

/// The same, but the older elements are gone before the recording ends.
#[test]
fn a_queue_that_has_given_back_all_from_before_the_recording_has_its_own_rate() {
    let mut program = Program::default();
    let old = (0..12).map(|_| program.builder.preexisting(block_of(Bytes(1 << 20))));
    let mut queue: std::collections::VecDeque<BlockIdx> = old.collect();
    for step in 0..20 {
        let start = program.n_events;
        queue.extend((0..2).map(|_| program.alloc(&KEEP, 1 << 20)));
        queue.pop_front().into_iter().for_each(|b| program.free(b));
        program.scope(format!("step {step}"), start, 0);
    }
    let group = program.leaks();
    assert_eq!(
        (group.bytes_per_step.round(), group.count_per_step.round()),
        (f64::from(1 << 20), 1.0)
    );
}

/// A list that loses a part of its elements now and then climbs for long before it stays at a
/// height. Nobody can tell before it does.
#[test]
fn a_list_that_loses_a_part_of_itself_is_clean_only_when_it_climbs_no_more() {
    let check = |n: u32, every: u32, part: usize, expected: Verdict| {
        type Loses = fn(&usize, usize, usize) -> bool;
        let oldest: Loses = |at, len, part| *at < len / part;
        let youngest: Loses = |at, len, part| *at >= len - len / part;
        let one_of_so_many: Loses = |at, _, part| at % part == part - 1;
        for loses in [oldest, youngest, one_of_so_many] {
            let mut list = Vec::new();
            let (report, _) = Program::run(n, |p, step| {
                list.push(p.alloc(&HOLD, 50_000));
                if step % every == every - 1 {
                    let len = list.len();
                    let lost: Vec<usize> = (0..len).filter(|at| loses(at, len, part)).collect();
                    lost.into_iter()
                        .rev()
                        .for_each(|at| p.free(list.remove(at)));
                }
            })
            .report();
            assert_eq!(
                report.verdict, expected,
                "{n} {every} {part} {}",
                report.reason
            );
        }
    };
    // The last number is the share: a list that loses it stays below `every * part` elements.
    check(100, 25, 5, Verdict::CannotTell);
    check(80, 25, 5, Verdict::CannotTell);
    check(80, 25, 4, Verdict::CannotTell);
    check(63, 15, 5, Verdict::CannotTell);
    check(60, 15, 4, Verdict::CannotTell);
    check(48, 15, 3, Verdict::CannotTell);
    check(120, 8, 4, Verdict::Clean);
    check(100, 8, 3, Verdict::Clean);
    check(60, 8, 2, Verdict::Clean);
    check(120, 15, 2, Verdict::Clean);
}

/// A buffer that drops elements at random is full, while the next line keeps all of its own.
#[test]
fn a_line_that_keeps_is_found_beside_random_eviction() {
    let check = |every: u32, expected: Verdict| {
        let mut buffer = Vec::new();
        let (report, _) = Program::run(60, |p, step| {
            buffer.push(p.alloc(&["keep cache.py:36", "step train.py"], 1 << 18));
            if buffer.len() > 12 {
                let at = (step as usize * 7919) % buffer.len();
                p.free(buffer.swap_remove(at));
            }
            if step % every == 1 {
                p.alloc(&["keep cache.py:37", "step train.py"], 1 << 20);
            }
        })
        .report();
        assert_eq!(report.verdict, expected, "{}", report.reason);
    };
    check(4, Verdict::Leak);
    check(5, Verdict::Leak);
    check(100, Verdict::Clean);
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

#[test]
fn a_queue_that_is_filled_faster_than_it_is_emptied_is_a_leak() {
    let mut queue = std::collections::VecDeque::new();
    let group = Program::run(16, |p, _| {
        queue.push_back(p.alloc(&KEEP, 3 << 17));
        queue.push_back(p.alloc(&KEEP, 3 << 17));
        p.free(queue.pop_front().expect("two were added"));
    })
    .leaks();
    assert_eq!(group.bytes_per_step, f64::from(3 << 17));
    // Beside a variable of the same function.
    let mut queue = std::collections::VecDeque::new();
    let mut input = None;
    Program::run(40, |p, step| {
        let new = p.alloc(&["keep cache.py:3", "step train.py"], 1 << 18);
        if let Some(old) = input.replace(new) {
            p.free(old);
        }
        queue.push_back(p.alloc(&["keep cache.py:7", "step train.py"], 3 << 17));
        if step % 4 > 0 {
            p.free(queue.pop_front().expect("one was added"));
        }
    })
    .leaks();
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

fn optimizer_step(_: u64) -> String {
    "Optimizer.step#Adam.step".to_owned()
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
    let reason =
        a_buffer_without_stacks(|step| format!("step {step}"), |_| 0).is(Verdict::CannotTell);
    assert!(reason.contains("one request"), "{reason}");
}

/// cuBLAS takes a workspace in the first product, which happens to be that of the line that leaks.
#[test]
fn a_workspace_at_the_line_that_leaks_is_not_counted() {
    const WORKSPACE: u64 = 32 << 20;
    let program = || {
        Program::run(10, |p, step| {
            if step == 0 {
                p.alloc(&KEEP, WORKSPACE);
            }
            p.alloc(&KEEP, 3 << 20);
        })
    };
    let group = program().leaks();
    assert_eq!((group.live_count, group.live_bytes), (10, Bytes::mib(30)));
    let levels: Vec<Bytes> = (1..=10).map(|n| Bytes::mib(3 * n)).collect();
    assert_eq!(group.per_step, levels);
    assert_eq!(group.spared.len(), 1);
    // What if it did not leak: only the workspace stays, and what the last step made until it ends.
    let trace = program().trace();
    let device = &trace.devices[0];
    let report = find(device, &trace.stacks, &[]);
    let early = crate::what_if::Early::leaks(device, &trace.stacks, &report);
    let end = EventIdx(device.events.len() - 1);
    assert_eq!(early.overdue(device, end), Bytes::mib(27));
    // All is given back in the end but the workspace: that is no leak that is never given back.
    let mut ended = program();
    ended.alive.retain(|&block| block != group.spared[0]);
    ended.end();
    let reason = ended.is(Verdict::Leak);
    assert!(reason.contains("given back only after"), "{reason}");
}

/// A leak of blocks that have the size of a workspace.
#[test]
fn many_blocks_of_that_size_are_no_workspaces() {
    let group = Program::run(10, |p, _| {
        p.alloc(&KEEP, 1 << 20);
    })
    .leaks();
    assert_eq!((group.live_count, group.live_bytes), (10, Bytes::mib(10)));
}

/// The longest of many distances at random is many times the mean.
#[test]
fn memory_that_is_kept_at_random_moments_is_a_leak_however_long_it_is_recorded() {
    for seed in 1..4_u64 {
        let mut state = seed;
        Program::run(1000, |p, _| {
            state = state.wrapping_mul(6_364_136_223_846_793_005);
            state = state.wrapping_add(1_442_695_040_888_963_407);
            if (state >> 33).is_multiple_of(5) {
                p.alloc(&KEEP, 1 << 16);
            }
        })
        .leaks();
    }
    // Fewer of them, with one long distance: perhaps it has ended.
    Program::run(50, |p, step| {
        if [2, 3, 5, 6, 7, 38, 40, 41, 42, 44, 46, 47].contains(&step) {
            p.alloc(&KEEP, 1 << 20);
        }
    })
    .is(Verdict::CannotTell);
}

#[test]
fn growth_that_is_quiet_for_a_few_steps_may_not_have_ended() {
    let check = |until: u32, expected| {
        Program::run(40, |p, step| {
            if step < until {
                p.alloc(&KEEP, 1 << 20);
            }
        })
        .is(expected)
    };
    check(36, Verdict::CannotTell);
    check(38, Verdict::CannotTell);
    check(30, Verdict::Clean);
    check(10, Verdict::Clean);
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

/// A place that gives back some of its blocks within a few steps, and keeps the others.
#[test]
fn what_stays_for_much_longer_than_the_rest_is_a_leak() {
    let keeps = |n: u32| {
        let mut held: Vec<(u32, BlockIdx)> = Vec::new();
        Program::run(n, |p, step| {
            for (due, block) in std::mem::take(&mut held) {
                match due <= step {
                    true => p.free(block),
                    false => held.push((due, block)),
                }
            }
            p.alloc(&KEEP, 1 << 20);
            if step % 3 != 1 {
                held.push((step + 1 + step * 7 % 3, p.alloc(&KEEP, 1 << 20)));
            }
        })
    };
    keeps(24).leaks();
    // Perhaps all are given back in the end.
    keeps(6).is(Verdict::CannotTell);
}
