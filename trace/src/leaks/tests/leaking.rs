//! Programs that keep blocks: what counts as a leak, and how fast it is.

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
    let check = |older: u32, steps: u32| {
        let mut program = Program::default();
        let old = (0..older).map(|_| program.builder.preexisting(block_of(Bytes(1 << 20))));
        let mut queue: std::collections::VecDeque<BlockIdx> = old.collect();
        for step in 0..steps {
            let start = program.n_events;
            queue.extend((0..2).map(|_| program.alloc(&KEEP, 1 << 20)));
            queue.pop_front().into_iter().for_each(|b| program.free(b));
            program.scope(format!("step {step}"), start, 0);
        }
        let group = program.leaks();
        let rate = (group.bytes_per_step.round(), group.count_per_step.round());
        assert_eq!(rate, (f64::from(1 << 20), 1.0), "{older} {steps}");
        assert_eq!(group.pattern, Pattern::EveryStep, "{older} {steps}");
    };
    check(12, 20);
    check(3, 37);
    check(0, 37);
}

/// A model is copied before the steps begin, and again in every third step.
#[test]
fn what_was_made_before_the_steps_is_no_part_of_the_rate_of_what_comes_in_a_rhythm() {
    let check = |first: Option<u32>, every: u32| {
        let group = Program::run(27, |p, step| {
            if Some(step) == first || step % every == every - 1 {
                p.alloc(&KEEP, 1 << 20);
            }
        })
        .leaks();
        let rate = f64::from(1 << 20) / f64::from(every);
        assert_eq!(group.bytes_per_step, rate, "{first:?} {every}");
    };
    check(Some(0), 3);
    check(Some(0), 2);
    check(None, 3);
    check(Some(0), 1);
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

/// What is being filled looks like a leak until it is full, and that is said.
#[test]
fn where_a_cache_looks_the_same_it_is_said() {
    let check = |n: u32, keeps: fn(u32) -> bool, expected: bool| {
        let (report, _) = Program::run(n, |p, step| {
            if keeps(step) {
                p.alloc(&KEEP, 1 << 20);
            }
        })
        .report();
        assert_eq!(report.verdict, Verdict::Leak);
        let says = report.caveats.iter().any(|told| told.contains("a cache"));
        assert_eq!(says, expected, "{n} steps: {:?}", report.caveats);
    };
    check(5, |_| true, true);
    check(7, |_| true, false);
    check(30, |step| step % 3 == 0, false);
    // As chance decides what a cache lacks.
    let at_random = |step| [0, 3, 14, 20, 22, 26, 27, 28, 29, 32].contains(&step);
    check(40, at_random, true);
}

/// A model that refers to itself stays until Python looks for cycles, and that is said.
#[test]
fn where_a_model_is_made_in_each_step_cycles_are_told() {
    const MOVED: &str = "_apply /v/site-packages/torch/nn/modules/module.py";
    let check = |is_made: bool, expected: bool| {
        let (report, _) = Program::run(10, |p, _| {
            p.alloc(&KEEP, 1 << 20);
            let work = p.alloc(&["work train.py:7"], 64 << 20);
            p.free(work);
            if is_made {
                p.alloc(&[MOVED, "main train.py:3"], 4096);
                for _ in 0..2 {
                    let copy = p.alloc(&[MOVED, "main train.py:3"], 8 << 20);
                    p.free(copy);
                }
            }
        })
        .report();
        assert_eq!(report.verdict, Verdict::Leak);
        let mut told = report.caveats.iter();
        let says = told.any(|told| told.contains("`gc.collect()`"));
        assert_eq!(says, expected, "{:?}", report.caveats);
    };
    check(true, true);
    check(false, false);
}
