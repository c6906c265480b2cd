//! Where the first step begins, and where the last one ends.

use super::*;
use crate::trace::Action;

/// The model outlives the function with the loop, so most memory stays when that returns. But the
/// stacks of frees show that it has.
#[test]
fn the_last_step_ends_before_its_function_returns() {
    let mut program = Program::default();
    let [forward, train, main] = ["main:3 train:10 !forward:20", "main:3 train:12", "main:3"]
        .map(|stack| program.stack(stack));
    let mut builder = program.builder;
    let alloc = |builder: &mut TraceBuilder, alloc_stack, free_stack| {
        builder.alloc(crate::trace::BlockKind {
            alloc_stack,
            free_stack,
            ..block_of(Bytes(4096))
        })
    };
    let free = |builder: &mut TraceBuilder, block| {
        builder.free_requested(block);
        builder.free_completed(block);
    };
    for _ in 0..10 {
        alloc(&mut builder, main, StackIdx::NONE);
    }
    let mut kept = Vec::new();
    for _ in 0..6 {
        let saved = alloc(&mut builder, forward, train);
        kept.push(alloc(&mut builder, train, main));
        free(&mut builder, saved);
    }
    for &block in kept.iter().rev() {
        free(&mut builder, block);
    }
    let mut trace = builder.finish();
    find(&mut trace.devices[0], &trace.stacks, 1, Watch::nobody()).unwrap();
    let device = &trace.devices[0];
    assert_eq!(device.steps.len(), 6);
    let newest = kept[5].index();
    let end = device.steps[5].events.end();
    assert_eq!(end.0, device.blocks.free_requested[newest]);
}

/// The last statement of the loop makes a list longer and cuts it, after the last allocation. It
/// has not ended while it gives back what it has cut off.
#[test]
fn the_last_step_holds_all_of_its_last_statement() {
    let check = |cut_at: Option<&str>, belongs: bool| {
        let mut program = Program::default();
        let [forward, backward, copy] = [
            "main:3 train:10 !forward:20",
            "main:3 train:11 !backward:30",
            "main:3 train:12 copy:5",
        ]
        .map(|s| program.stack(s));
        let cut = cut_at.map(|at| program.stack(at));
        let mut builder = program.builder;
        let block = |alloc_stack, free_stack| crate::trace::BlockKind {
            alloc_stack,
            free_stack: cut_at.map_or(alloc_stack, |_| free_stack),
            ..block_of(Bytes(4096))
        };
        let mut copies = Vec::new();
        let mut first_cut = None;
        for step in 0..9 {
            let passes = [forward, backward];
            let mut gone = passes.map(|s| builder.alloc(block(s, backward))).to_vec();
            for block in gone.drain(..) {
                builder.free_requested(block);
                builder.free_completed(block);
            }
            if step % 4 == 0 {
                copies.extend((0..4).map(|_| builder.alloc(block(copy, cut.unwrap_or(copy)))));
                let too_many = copies.len().saturating_sub(8);
                gone.extend(copies.drain(..too_many));
            }
            for &block in &gone {
                builder.free_requested(block);
                builder.free_completed(block);
            }
            first_cut = gone.first().copied();
        }
        let mut trace = builder.finish();
        find(&mut trace.devices[0], &trace.stacks, 1, Watch::nobody()).unwrap();
        let device = &trace.devices[0];
        assert_eq!(device.steps.len(), 9);
        let first_cut = device.blocks.free_requested[first_cut.unwrap().index()];
        let end = match belongs {
            true => device.events.len(),
            false => first_cut,
        };
        assert_eq!(device.steps[8].events.end().0, end, "{cut_at:?}");
    };
    check(Some("main:3 train:12"), true);
    check(Some("main:3 train:13"), false);
    // Frees carry the stacks of allocations: where they were requested is not known.
    check(None, false);
}

/// A ring may begin anywhere in a step, and what follows the loop's last line may be done in some
/// steps only, as a checkpoint is: neither cuts a step in two.
#[test]
fn a_ring_that_begins_within_a_step_cuts_no_other_step() {
    let step = [
        "main:3 train:32 batch:7",
        "main:3 train:33 !forward:20",
        "main:3 train:36 torch/_tensor/backward:9",
        "main:3 train:37 torch/optim/adam/step:20",
        "main:3 train:38",
    ];
    let checkpoint = "main:3 train:40 copy:9";
    let whole = |steps: usize| {
        let each = (0..steps).flat_map(|n| {
            let more = (n % 5 == 1).then_some(checkpoint);
            step.into_iter().chain(more)
        });
        each.collect::<Vec<_>>()
    };
    for from in 0..5 {
        let lines = [&step[from..], &whole(30)].concat().join("\n");
        let trace = run(&lines);
        let device = &trace.devices[0];
        let whole = if from == 0 { 31 } else { 30 };
        assert_eq!(device.steps.len(), whole, "from line {from}");
        for step in &device.steps {
            let block = device.events.target[step.events.start().index()];
            let kind = device.blocks.kinds[device.blocks.kind[block as usize].index()];
            let last = trace.stacks.frame(trace.stacks.frames(kind.alloc_stack)[0]);
            assert_eq!(trace.stacks.str(last.name), "batch", "from line {from}");
        }
    }
}

/// The same, where the ring begins with such a checkpoint.
#[test]
fn a_ring_that_begins_with_what_is_done_now_and_then_cuts_no_step() {
    let step = [
        "main:3 train:32 batch:7",
        "main:3 train:33 !forward:20",
        "main:3 train:36 torch/_tensor/backward:9",
        "main:3 train:37 torch/optim/adam/step:20",
    ];
    let checkpoint = ["main:3 train:40"; 4];
    for lost in 0..4 {
        let each = (0..6).flat_map(|n| {
            let more = if n % 3 == 2 { &checkpoint[..] } else { &[] };
            step.iter().chain(more).copied()
        });
        let lines: Vec<&str> = checkpoint[lost..].iter().copied().chain(each).collect();
        let trace = run(&lines.join("\n"));
        let device = &trace.devices[0];
        let lengths: Vec<u32> = (device.steps.iter())
            .map(|step| device.blocks.allocated_in(step.events).len() as u32)
            .collect();
        assert_eq!(lengths, [4, 4, 8, 4, 4, 8], "{lost} lines are lost");
    }
}

/// An evaluation that stands in the middle of a ring of a few steps is much of it, and so is the
/// piece of a step that the ring begins with.
#[test]
fn an_evaluation_in_a_short_ring_cuts_it_into_no_halves() {
    let backward = format!("main:3 train:36 {BACKWARD}");
    let update = format!("main:3 train:37 {ADAM}");
    let step = [
        "main:3 train:32 batch:7",
        "main:3 train:33 !forward:20",
        "main:3 train:33 !forward:21",
        &backward,
        "-",
        &update,
        &update,
    ];
    let evaluated = [
        "main:3 train:40 evaluate:50 batch:7",
        "main:3 train:40 evaluate:51 !forward:20",
        "main:3 train:40 evaluate:51 !forward:21",
    ];
    let lines = [
        &step[3..],
        &step[..],
        &evaluated.repeat(6)[..],
        &step.repeat(4)[..],
    ]
    .concat();
    check(&lines.join("\n"), 5);
}

/// The steps of a ring that lost so many lines of its first step, and their first functions.
fn of_ring(step: &[&str], lost: usize, whole: usize) -> (usize, Vec<String>) {
    let all = step.iter().skip(lost).chain((0..whole).flat_map(|_| step));
    let lines: Vec<&str> = all.copied().collect();
    let trace = run(&lines.join("\n"));
    let device = &trace.devices[0];
    let first = |step: &crate::trace::Step| {
        let block = device.events.target[step.events.start().index()];
        let kind = device.blocks.kinds[device.blocks.kind[block as usize].index()];
        let frame = trace.stacks.frame(trace.stacks.frames(kind.alloc_stack)[0]);
        trace.stacks.str(frame.name).to_owned()
    };
    let mut firsts: Vec<String> = device.steps.iter().map(first).collect();
    firsts.dedup();
    (device.steps.len(), firsts)
}

#[test]
fn a_ring_that_begins_after_micro_batches_has_whole_steps() {
    let backward = format!("main:35 {BACKWARD}");
    let update = format!("[Optimizer.step#AdamW.step] main:36 {ADAM}");
    let micro = ["main:32 batch:7", "main:34 !forward:20", &backward, "-"];
    let step = [&micro[..], &micro[..], &[&update]].concat();
    for lost in 5..=8 {
        let expected = (7, vec!["batch".to_owned()]);
        assert_eq!(of_ring(&step, lost, 7), expected, "{lost} lines are lost");
    }
}

/// Each iteration calls the discriminator twice on one line.
#[test]
fn a_ring_that_begins_after_the_discriminator_has_whole_steps() {
    let backward = ["main:32", "main:33"].map(|line| format!("{line} {BACKWARD}"));
    let update =
        ["main:32", "main:33"].map(|line| format!("[Optimizer.step#AdamW.step] {line} {ADAM}"));
    let step = [
        "main:30 noise:7",
        "main:30 !forward:10",
        "main:31 !forward:20",
        "main:31 loss:1",
        "main:31 !forward:20",
        "main:31 loss:1",
        &backward[0],
        "-",
        &update[0],
        "main:33 !forward:20",
        &backward[1],
        "-",
        &update[1],
    ];
    for lost in 8..13 {
        let expected = (9, vec!["noise".to_owned()]);
        assert_eq!(of_ring(&step, lost, 9), expected, "{lost} lines are lost");
    }
}

/// What steps keep: each `made` blocks; each so many steps (`every`), all but the newest `most` are
/// given back.
struct Keeps {
    steps: usize,
    made: fn(usize) -> usize,
    every: usize,
    most: fn(usize) -> usize,
}

impl Keeps {
    /// Each step also keeps a block for good. At its end, the program gives back all of these, then
    /// the others and the model.
    fn run(&self, ends: bool) -> Trace {
        let mut program = Program::default();
        let stacks = [
            "main:3",
            "main:3 train:10 !forward:20",
            "main:3 train:12",
            "main:3 train:13",
        ];
        let [weight, saved, queued, listed] = stacks.map(|stack| crate::trace::BlockKind {
            alloc_stack: program.stack(stack),
            ..block_of(Bytes(4096))
        });
        let mut builder = program.builder;
        let free = |builder: &mut TraceBuilder, block| {
            builder.free_requested(block);
            builder.free_completed(block);
        };
        let model: Vec<_> = (0..10).map(|_| builder.alloc(weight)).collect();
        let (mut queue, mut list) = (Vec::new(), Vec::new());
        for step in 0..self.steps {
            let activations = [(); 3].map(|()| builder.alloc(saved));
            list.push(builder.alloc(listed));
            queue.extend((0..(self.made)(step)).map(|_| builder.alloc(queued)));
            for block in activations {
                free(&mut builder, block);
            }
            let too_many = queue.len().saturating_sub((self.most)(step));
            let is_due = (step + 1).is_multiple_of(self.every);
            for block in queue.drain(..if is_due { too_many } else { 0 }) {
                free(&mut builder, block);
            }
        }
        if ends {
            for block in list.into_iter().chain(queue).chain(model) {
                free(&mut builder, block);
            }
        }
        let mut trace = builder.finish();
        find(&mut trace.devices[0], &trace.stacks, 1, Watch::nobody()).unwrap();
        trace
    }
}

#[test]
fn what_steps_give_back_anyway_is_not_the_end_of_the_program() {
    let one: fn(usize) -> usize = |_| 1;
    let more_and_more: fn(usize) -> usize = |step| 2 + step;
    let cases = [
        ("a queue", 9, one, 1, (|_| 3) as fn(usize) -> usize),
        ("a queue that is cut now and then", 12, one, 2, |_| 3),
        ("rarely", 20, one, 4, |_| 6),
        ("cleared in the step before", 9, one, 4, |_| 0),
        ("replaced by more", 8, more_and_more, 1, more_and_more),
    ];
    for (name, steps, made, every, most) in cases {
        let keeps = Keeps {
            steps,
            made,
            every,
            most,
        };
        let last = |ends| {
            let trace = keeps.run(ends);
            let levels = super::levels(&trace.devices[0]);
            (levels.len(), levels.last().copied())
        };
        assert_eq!(last(true).0, steps, "{name}");
        assert_eq!(last(true), last(false), "{name}");
    }
}

#[test]
fn a_last_step_without_the_optimizers_part_was_cut_off() {
    let step = "main:9 train:10
                main:9 train:11 !forward:5
                main:9 train:12 loss:1
                -
                -
                -
                main:9 train:14 torch/optim/adam/step:3\n";
    let parts: Vec<&str> = step.lines().collect();
    for n in 1..parts.len() {
        check(&(step.repeat(8) + &parts[..n].join("\n")), 8);
    }
}

#[test]
fn a_recording_that_starts_or_ends_within_an_iteration() {
    check(
        &format!(
            "main:5 {BACKWARD}
             -
             main:6 {ADAM}
             6x {{
               main:3 data:1
               main:4 !forward:10
               main:5 {BACKWARD}
               -
               main:6 {ADAM}
             }}
             main:3 data:1"
        ),
        6,
    );
}

/// Memory runs out where the next iteration would begin, or in what follows the loop.
#[test]
fn an_iteration_after_which_memory_runs_out_is_a_step() {
    let lines = [
        "main:9 train:10",
        "main:9 train:11 !forward:5",
        &format!("main:9 train:13 {BACKWARD}"),
        "-",
        &format!("main:9 train:14 {ADAM}"),
        "main:9 train:16",
    ]
    .map(|line| format!("{line}\n"));
    let steps = |n: usize| lines.concat().repeat(n);
    check(&format!("{}oom", steps(9)), 9);
    check(&format!("{}oom\nmain:9 report:3", steps(9)), 9);
    for done in 1..lines.len() {
        let part = lines[..done].concat();
        check(&format!("{}{part}oom", steps(9)), 9);
    }
    // What the exception gives back is no part of the step.
    let trace = run(&format!("main:2 =x\n{}oom\ndel x", steps(9)));
    let device = &trace.devices[0];
    let oom = device.events.action.iter().position(|a| *a == Action::Oom);
    assert_eq!(device.steps[8].events.end().index(), oom.unwrap());
}

/// Self-play: now and then a copy of the policy joins those that it plays against.
#[test]
fn a_branch_that_is_taken_now_and_then_cuts_no_step() {
    let step = |plays: &str| {
        format!(
            "main:2 train:3
             {plays}
             main:2 train:6 !forward:10
             main:2 train:7 {BACKWARD}
             -
             main:2 train:8 {ADAM}"
        )
    };
    let (alone, against) = (
        step(""),
        step("main:2 train:5 !forward:10\nmain:2 train:5 !forward:11"),
    );
    check(
        &format!(
            "main:1 shuffle:1
             3x {{
               {alone}
             }}
             main:2 train:9 deepcopy:1
             9x {{
               3x {{
                 {against}
               }}
               main:2 train:9 deepcopy:1
             }}"
        ),
        30,
    );
}

/// A mask is made for each size that comes for the first time, on the line of the rest.
#[test]
fn a_cache_that_is_filled_cuts_no_step() {
    let step = |made: &str| {
        format!(
            "main:3
             {made}
             main:3 !forward:10
             main:3
             main:3 {BACKWARD}
             -
             main:3 {ADAM}"
        )
    };
    let (hit, miss) = (step(""), step("main:3 mask:20"));
    check(
        &format!(
            "{miss}
             {hit}
             3x {{
               {miss}
             }}
             5x {{
               {hit}
             }}
             {miss}
             23x {{
               {hit}
             }}"
        ),
        34,
    );
}

/// Each fifth batch fails before its backward pass. The next one is a step of its own.
#[test]
fn a_step_that_failed_is_no_piece_of_the_next_one() {
    check(
        &format!(
            "8x {{
               4x {{
                 main:3
                 main:4 !forward:10
                 main:4 !forward:11
                 main:6 {BACKWARD}
                 -
                 main:7 {ADAM}
               }}
               main:3
               main:4 !forward:10
               main:9 save:1
               main:9 save:2
             }}"
        ),
        40,
    );
}
