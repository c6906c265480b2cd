//! Small programs, written as their stacks: every construct that might confuse the search for
//! loops.

use super::{find, levels};
use crate::phases::program::on_windows;
use crate::span::Span;
use crate::stacks::{Frame, FrameIdx, StackIdx};
use crate::testing::{TraceBuilder, block_of};
use crate::trace::{Annotation, StepSource, Trace};
use crate::units::{Bytes, EventIdx};
use crate::watch::Watch;
use proptest::prelude::*;
use std::collections::HashMap;

/// A program that allocates: each block is given back two allocations later.
#[derive(Default)]
struct Program {
    builder: TraceBuilder,
    frames: HashMap<String, FrameIdx>,
    stacks: HashMap<String, StackIdx>,
    alive: std::collections::VecDeque<crate::trace::BlockIdx>,
    /// Events so far.
    events: u32,
    scopes: Vec<Annotation>,
}

impl Program {
    /// Allocates at a stack such as `main:3 train:10 !forward:20`, outermost first. `!` stands for
    /// the call of a module, `torch/…/f:1` for a function of PyTorch, `~f:0` for one in C++, `-`
    /// for no stack.
    fn alloc(&mut self, stack: &str) {
        let alloc_stack = self.stack(stack);
        let kind = crate::trace::BlockKind {
            alloc_stack,
            ..block_of(Bytes(4096))
        };
        let block = self.builder.alloc(kind);
        self.alive.push_back(block);
        self.events += 1;
        if self.alive.len() > 2
            && let Some(old) = self.alive.pop_front()
        {
            self.builder.free_requested(old);
            self.builder.free_completed(old);
            self.events += 2;
        }
    }

    /// A scope in which nothing is allocated.
    fn scope(&mut self, name: &str) {
        let now = EventIdx(self.events);
        self.scopes.push(Annotation {
            name: self.builder.stacks.strings.push(name),
            events: Span::new(now, now),
            depth: 0,
        });
    }

    fn stack(&mut self, text: &str) -> StackIdx {
        if text == "-" {
            return StackIdx::NONE;
        }
        if let Some(&known) = self.stacks.get(text) {
            return known;
        }
        let mut frames: Vec<FrameIdx> = Vec::new();
        for word in text.split_whitespace() {
            let call = word.trim_start_matches('!');
            if call.len() < word.len() {
                let wrapper = "/x/site-packages/torch/nn/modules/module.py";
                frames.push(self.frame("_call_impl", wrapper, 1));
            }
            let (path, line) = call.rsplit_once(':').expect("function:line");
            let line = line.parse().expect("a line");
            let frame = match path.rsplit_once('/') {
                None if path.starts_with('~') => self.frame(&path[1..], "??", line),
                Some((file, name)) => {
                    self.frame(name, &format!("/x/site-packages/{file}.py"), line)
                }
                None => self.frame(path, "/home/me/train.py", line),
            };
            frames.push(frame);
        }
        frames.reverse();
        let stack = self.builder.stacks.push_stack(&frames);
        self.stacks.insert(text.to_owned(), stack);
        stack
    }

    fn frame(&mut self, name: &str, file: &str, line: u32) -> FrameIdx {
        let key = format!("{name} {file} {line}");
        if let Some(&known) = self.frames.get(&key) {
            return known;
        }
        let stacks = &mut self.builder.stacks;
        let (name, filename) = (stacks.strings.push(name), stacks.strings.push(file));
        let frame = stacks.push_frame(Frame {
            name,
            filename,
            line,
        });
        self.frames.insert(key, frame);
        frame
    }

    fn finish(self) -> Trace {
        let mut trace = self.builder.finish();
        trace.devices[0].annotations = self.scopes;
        let stacks = &trace.stacks;
        find(&mut trace.devices[0], stacks, 1, Watch::nobody()).unwrap();
        trace
    }
}

/// A program as text: one stack a line; `3x {` … `}` repeats, `[name]` is a scope.
fn run(text: &str) -> Trace {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    let mut program = Program::default();
    perform(&mut program, &lines);
    program.finish()
}

fn perform(program: &mut Program, lines: &[&str]) {
    let mut at = 0;
    while at < lines.len() {
        if let Some(name) = lines[at].strip_prefix('[') {
            program.scope(name.trim_end_matches(']'));
            at += 1;
            continue;
        }
        let Some(times) = lines[at].strip_suffix("x {") else {
            program.alloc(lines[at]);
            at += 1;
            continue;
        };
        let mut depth = 0;
        let end = (at..lines.len()).find(|&i| {
            depth += i32::from(lines[i].ends_with('{')) - i32::from(lines[i] == "}");
            depth == 0
        });
        let end = end.expect("a closing brace");
        for _ in 0..times.parse().expect("how often") {
            perform(program, &lines[at + 1..end]);
        }
        at = end + 1;
    }
}

/// The number of steps of a program.
fn check(text: &str, expected: usize) {
    let trace = run(text);
    let device = &trace.devices[0];
    let listed = levels::of_device(device, &trace.stacks);
    assert_eq!(device.steps.len(), expected, "{text}\n{listed:#?}");
    let source = if expected == 0 {
        StepSource::None
    } else {
        StepSource::Inferred
    };
    assert_eq!(device.step_source, source, "{text}");
}

const BACKWARD: &str = "torch/_tensor/backward:9";
const ADAM: &str = "torch/optim/adam/step:20";

#[test]
fn the_lines_of_a_loop() {
    check(
        &format!(
            "main:1 load:5
             7x {{
               main:3 data:1
               main:4 !forward:10
               main:4 !forward:11
               main:5 {BACKWARD}
               -
               main:6 {ADAM}
             }}"
        ),
        7,
    );
}

#[test]
fn a_line_that_allocates_again_and_again_is_visited_once() {
    let evaluates = "10x {
       main:8
     }";
    check(
        &format!(
            "4x {{
               10x {{
                 main:3 data:1
                 main:4 !forward:10
                 main:4 !forward:11
                 main:5 {BACKWARD}
                 -
                 main:6 {ADAM}
               }}
               {evaluates}
             }}"
        ),
        40,
    );
    // Half of the lines of the body allocate twice.
    check(
        "20x {
           main:3 !forward:10
           main:4
           main:4
         }",
        20,
    );
}

#[test]
fn everything_on_one_line() {
    check(
        &format!(
            "5x {{
               main:3 data:1
               main:3 !forward:10
               main:3 !forward:11
               main:3 {BACKWARD}
               -
               main:3 {ADAM}
             }}"
        ),
        5,
    );
}

#[test]
fn paths_of_windows_change_no_steps() {
    let mut trace = run(&format!(
        "torch/serialization/load:3 main:1 load:5
         7x {{
           main:3 data:1
           main:4 !forward:10 !forward:3
           main:4 !forward:10 !forward:4
           main:5 {BACKWARD}
           -
           2x {{
             main:6 torch/optim/optimizer/wrapper:1 step:30
             main:6 torch/optim/optimizer/wrapper:1 step:31
           }}
         }}"
    ));
    let steps = std::mem::take(&mut trace.devices[0].steps);
    assert_eq!(steps.len(), 7);
    let mut windows = on_windows(trace);
    find(&mut windows.devices[0], &windows.stacks, 1, Watch::nobody()).unwrap();
    assert_eq!(windows.devices[0].steps, steps);
}

#[test]
fn one_call_a_line_is_the_function_called_again() {
    check(
        "6x {
           main:3 process:10 data:1
           main:3 process:11 !forward:5
           main:3 process:12 !forward:5
         }",
        6,
    );
    check(
        "6x {
           main:3 !forward:5
           main:3 !forward:6
         }",
        6,
    );
}

#[test]
fn layers_are_no_steps() {
    check(
        "main:3 !forward:10
         24x {
           main:3 !forward:12 !forward:30
           main:3 !forward:12 !forward:31
         }
         main:3 !forward:14",
        0,
    );
    check(
        "24x {
           main:3 !torch/nn/modules/container/forward:253 !forward:30
           main:3 !torch/nn/modules/container/forward:253 !forward:31
         }",
        0,
    );
    check(
        "5x {
           main:3 !forward:10
           24x {
             main:3 !forward:12 !forward:30
             main:3 !forward:12 !forward:31
           }
         }",
        5,
    );
}

#[test]
fn parameters_of_an_optimizer_are_no_steps() {
    check(
        &format!(
            "main:3 !forward:10
             main:4 {BACKWARD}
             -
             50x {{
               main:5 torch/optim/optimizer/wrapper:1 step:30
               main:5 torch/optim/optimizer/wrapper:1 step:31
             }}"
        ),
        0,
    );
    // An optimizer that is not a `torch.optim.Optimizer`.
    check(
        &format!(
            "main:3 !forward:10
             main:4 {BACKWARD}
             -
             50x {{
               main:5 update:30
               main:5 update:31
             }}"
        ),
        0,
    );
}

#[test]
fn a_model_that_is_loaded_is_no_loop() {
    check(
        "40x {
           main:3 load_state_dict:10
           main:3 load_state_dict:11
         }",
        0,
    );
}

#[test]
fn epochs_and_micro_batches_are_not_the_steps() {
    let steps = |epochs: usize, steps: usize, micro: usize| {
        format!(
            "{epochs}x {{
               main:2 shuffle:1
               {steps}x {{
                 {micro}x {{
                   main:4 !forward:10
                   main:5 {BACKWARD}
                   -
                 }}
                 main:6 {ADAM}
                 main:6 {ADAM}
               }}
             }}"
        )
    };
    check(&steps(2, 6, 1), 12);
    check(&steps(2, 6, 4), 12);
    check(&steps(3, 5, 2), 15);
}

/// SGD with momentum.
#[test]
fn an_optimizer_that_allocates_only_in_its_first_step_does_not_hide_the_steps() {
    let pass = format!(
        "main:4 !forward:10
         main:5 {BACKWARD}
         -"
    );
    check(
        &format!(
            "{pass}
             main:6 {ADAM}
             main:6 {ADAM}
             9x {{
               {pass}
             }}"
        ),
        10,
    );
}

/// A fused optimizer makes its state in the first step, here called to warm up.
#[test]
fn a_first_step_before_the_loop_does_not_hide_the_steps() {
    let step = |line: u32, state: usize| {
        let call = format!("main:{line} train_step");
        let forward = format!("{call}:10 !forward:10\n{call}:10 !forward:11\n");
        let state = format!("{call}:12 torch/optim/optimizer/wrapper:1 {ADAM}\n").repeat(state);
        format!("{forward}{call}:11 {BACKWARD}\n-\n-\n{state}")
    };
    check(&format!("{}9x {{\n{}}}", step(3, 8), step(5, 0)), 9);
    // The parts of a single step: its optimizer comes last.
    let update = format!("main:8 {ADAM}\n").repeat(8);
    check(&format!("9x {{\n{}}}\n{update}", step(5, 0)), 0);
}

#[test]
fn batches_are_the_steps_though_each_epoch_ends_with_an_evaluation() {
    check(
        &format!(
            "6x {{
               main:2 shuffle:1
               5x {{
                 main:4 !forward:10
                 main:5 {BACKWARD}
                 -
                 main:6 {ADAM}
               }}
               3x {{
                 main:8 evaluate:3 !forward:10
               }}
             }}"
        ),
        30,
    );
}

/// An optimizer that allocates nothing, with gradient accumulation, and an evaluation after each
/// epoch: between the micro-batches and the epochs there is no loop with allocations of its own.
#[test]
fn epochs_are_not_the_steps_where_scopes_show_an_optimizer_in_them() {
    let pass = format!("main:4 !forward:10\nmain:5 {BACKWARD}\n-\n");
    let evaluation = "3x {\nmain:8 evaluate:3 !forward:10\n}";
    let step = "[Optimizer.step#SGD.step]";
    for (epochs, in_epoch, micro) in [(3, 10, 4), (5, 6, 2), (2, 4, 8)] {
        let batches = format!("{in_epoch}x {{\n{micro}x {{\n{pass}}}\n{step}\n}}");
        let trace = run(&format!(
            "{epochs}x {{\nmain:2 shuffle:1\n{batches}\n{evaluation}\n}}"
        ));
        let device = &trace.devices[0];
        let found = (device.steps.len(), device.step_source);
        assert_eq!(found, (epochs * in_epoch, StepSource::Annotations));
    }
    // Two optimizers that take turns make one step.
    let other = pass.replace(":4", ":14").replace(":5", ":15");
    let turn = format!("[Optimizer.step#D.step]\n{other}[Optimizer.step#G.step]");
    check(&format!("6x {{\nmain:2 data:1\n{pass}{turn}\n}}"), 6);
}

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
fn an_evaluation_now_and_then_belongs_to_a_step() {
    check(
        &format!(
            "4x {{
               5x {{
                 main:4 !forward:10
                 main:5 {BACKWARD}
                 -
                 main:6 {ADAM}
               }}
               main:8 !forward:10
             }}"
        ),
        20,
    );
}

/// A gradient's norm is written down now and then, between the backward pass and the optimizer.
#[test]
fn a_branch_in_the_middle_of_an_iteration_belongs_to_it() {
    let step = |branch: &str| {
        format!(
            "main:9 train:10
             main:9 train:11 !forward:5
             main:9 train:12 loss:1
             -
             -
             {branch}
             main:9 train:14 torch/optim/adam/step:3
             main:9 train:14 torch/optim/adam/step:4\n"
        )
    };
    let (plain, logs) = (
        step(""),
        step("main:9 train:13 norm:7\nmain:9 train:13 norm:8"),
    );
    for every in 3..8 {
        let steps = (1..=3 * every).map(|i| if i % every == 0 { &logs } else { &plain });
        let trace = run(&steps.map(String::as_str).collect::<String>());
        let device = &trace.devices[0];
        assert_eq!(device.steps.len(), 3 * every);
        let lengths = device.steps.iter().enumerate().map(|(index, step)| {
            let made = device.blocks.allocated_in(step.events).len();
            (made, (index + 1) % every == 0)
        });
        for (made, has_branch) in lengths {
            assert_eq!(made, if has_branch { 9 } else { 7 }, "{every}");
        }
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
fn requests_and_their_tokens() {
    check(
        "12x {
           serve:3 tokens:1
           20x {
             serve:3 generate:8 !forward:10
             serve:3 generate:8 !forward:11
             serve:3 generate:9
           }
         }",
        12,
    );
}

/// An offloader's hook that autograd's engine calls, on its own thread, is a part of the backward
/// pass: a loop over what it brings back is none over micro-batches.
#[test]
fn what_the_engine_calls_is_no_loop() {
    let engine = "~torch::autograd::Engine::thread_main:0";
    let trace = run(&format!(
        "10x {{
           main:9 batch:3
           4x {{
             main:10 !forward:11
             main:10 !forward:12
           }}
           6x {{
             {engine} unpack:438
             {engine} unpack:440
             {engine}
           }}
           main:11 torch/optim/adam/step:3
         }}"
    ));
    let levels = levels::of_device(&trace.devices[0], &trace.stacks);
    let inside = levels.iter().filter(|level| level.place.contains("unpack"));
    assert_eq!(inside.count(), 0, "{}", levels::in_words(&levels));
    assert_eq!(trace.devices[0].steps.len(), 10);
}

/// Tokens are made in a function that says so, or for one in the same file. Around them are
/// requests, also where that function's name speaks of tokens too.
#[test]
fn what_is_around_tokens_are_requests() {
    let levels = |text: &str| {
        let trace = run(text);
        let levels = levels::of_device(&trace.devices[0], &trace.stacks);
        let names = levels.iter().map(|l| format!("{} {}", l.count, l.label));
        let first = trace.devices[0].steps.first();
        let step = first.map_or("", |step| step.name.as_str());
        format!("{step}: {}", names.collect::<Vec<_>>().join(", "))
    };
    let nested = |outer: &str, inner: &str| {
        let text = format!(
            "6x {{
               {outer}:2 prompt:4
               20x {{
                 {outer}:3 {inner}:8 !forward:10
                 {outer}:3 {inner}:8 !forward:11
                 {outer}:3 {inner}:9
               }}
             }}"
        );
        levels(&text)
    };
    let both = "request 0: 6 requests, 120 tokens";
    assert_eq!(nested("main", "generate"), both);
    assert_eq!(nested("decode_all", "generate"), both);
    let library = "hf/utils/generate:50 hf/utils/_sample";
    assert_eq!(nested("main", library), both);
    let other_file = nested("main", "hf/api/generate:50 hf/utils/_sample");
    assert!(!other_file.contains("token"), "{other_file}");
    let one = "200x {
                 main:3 hf/utils/generate:50 hf/utils/_sample:8 !forward:10
                 main:3 hf/utils/generate:50 hf/utils/_sample:8 !forward:11
                 main:3 hf/utils/generate:50 hf/utils/_sample:9
               }";
    assert_eq!(levels(one), "token 0: 200 tokens");
}

#[test]
fn a_loop_within_a_loop_of_one_function() {
    check(
        "14x {
           main:3 copy:1
           6x {
             main:5 !forward:10
             main:5 relu:1
             main:6 scale:1
           }
           main:8 total:1
         }",
        14,
    );
    // Every sixth iteration passes two more lines; or lines that stand in front.
    check(
        "5x {
           main:3 report:1
           main:5 !forward:10
           main:5 relu:1
           main:6 scale:1
           main:8 report:1
           5x {
             main:5 !forward:10
             main:5 relu:1
             main:6 scale:1
           }
         }",
        30,
    );
    check(
        "5x {
           main:3 report:1
           main:4 report:1
           6x {
             main:5 !forward:10
             main:5 relu:1
             main:6 scale:1
           }
         }",
        30,
    );
}

#[test]
fn a_statement_of_several_lines() {
    check(
        &format!(
            "8x {{
               main:11 tokenize:1
               main:12 move:1
               main:10 !forward:5
               main:13 {BACKWARD}
               -
             }}"
        ),
        8,
    );
    check(
        &format!(
            "8x {{
               main:11 f:1
               main:12 g:1
               main:11 add:1
               main:14 {BACKWARD}
               -
             }}"
        ),
        8,
    );
}

#[test]
fn a_function_that_is_called_twice_an_iteration() {
    check(
        &format!(
            "9x {{
               main:3 !forward:10
               main:3 loss:1
               main:3 !forward:10
               main:3 loss:1
               main:3 {BACKWARD}
               -
               main:3 {ADAM}
             }}"
        ),
        9,
    );
}

#[test]
fn branches_that_take_turns() {
    check(
        &format!(
            "5x {{
               main:3 data:1
               main:5 !forward:10
               main:8 {BACKWARD}
               -
               main:3 data:1
               main:6 !forward:20
               main:8 {BACKWARD}
               -
             }}"
        ),
        10,
    );
}

#[test]
fn generators_comprehensions_recursion() {
    // `next(batches)` in a `while`.
    check(
        &format!(
            "6x {{
               main:3 batches:20 data:1
               main:4 !forward:10
               main:5 {BACKWARD}
               -
             }}"
        ),
        6,
    );
    check(
        "6x {
           main:3 <listcomp>:3 score:8 !forward:10
           main:3 <listcomp>:3 score:9
         }",
        6,
    );
    check(
        &format!(
            "5x {{
               main:3 walk:7 walk:7 walk:8
               main:3 walk:7 walk:8
               main:3 walk:8
               main:4 {BACKWARD}
               -
             }}"
        ),
        5,
    );
}

#[test]
fn threads_and_hooks() {
    // A checkpoint recomputes on a thread of autograd, a hook copies in the forward pass, and a
    // loader's thread allocates at any time.
    check(
        &format!(
            "6x {{
               threading:1 fetch:4
               main:3 !forward:10
               main:3 !forward:11 hook:50
               threading:1 fetch:5
               main:3 !forward:12
               main:4 {BACKWARD}
               -
               3x {{
                 torch/utils/checkpoint/unpack_hook:9 !forward:10
                 -
               }}
               main:5 {ADAM}
             }}"
        ),
        6,
    );
}

#[test]
fn trainers_with_wrappers_and_closures() {
    check(
        &format!(
            "main:1 train:2 inner:5 setup:3
             6x {{
               main:1 train:2 inner:8 training_step:20 prepare:1
               main:1 train:2 inner:8 training_step:21 compute_loss:30 !forward:10
               main:1 train:2 inner:8 training_step:22 {BACKWARD}
               -
               main:1 train:2 inner:9 wrapped:1 {ADAM}
             }}"
        ),
        6,
    );
    // Lightning, LBFGS: the optimizer calls the forward pass.
    check(
        &format!(
            "6x {{
               main:1 fit:2 advance:5 data:1
               4x {{
                 main:1 fit:2 advance:7 torch/optim/lbfgs/step:3 closure:20 !forward:10
                 main:1 fit:2 advance:7 torch/optim/lbfgs/step:3 closure:21 {BACKWARD}
                 -
                 main:1 fit:2 advance:7 torch/optim/lbfgs/step:4
               }}
             }}"
        ),
        6,
    );
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

#[test]
fn the_reader_can_take_another_level() {
    let mut trace = run(&format!(
        "5x {{
           4x {{
             main:4 !forward:10
             main:5 {BACKWARD}
             -
           }}
           main:6 {ADAM}
           main:6 {ADAM}
         }}"
    ));
    let found = levels::of_device(&trace.devices[0], &trace.stacks);
    let shown: Vec<String> = found
        .iter()
        .map(|l| format!("{}: {}", l.label, l.count))
        .collect();
    assert_eq!(shown, ["steps: 5", "micro-batches: 20"]);
    assert!(found[0].chosen);
    let stacks = trace.stacks.clone();
    let device = &mut trace.devices[0];
    assert_eq!(levels::recut(device, &stacks, &found[1].key), Ok(()));
    assert_eq!(device.steps.len(), 20);
    let unknown = levels::recut(device, &stacks, "nothing").unwrap_err();
    let said = "no level is called nothing; there are: steps (train.main), \
                micro-batches (train.main-2)";
    assert_eq!(unknown.to_string(), said);
    // A key goes before a word.
    let mut found = found;
    found[0].label = found[1].key.clone();
    assert_eq!(levels::called(&found, &found[1].key), Some(&found[1]));
}

/// A loop's body: allocations on separate lines, and perhaps a loop inside.
#[derive(Clone, Debug)]
struct Body {
    times: u32,
    before: u32,
    after: u32,
    inner: Option<Box<Body>>,
}

fn body(depth: u32) -> BoxedStrategy<Body> {
    let inner = match depth {
        0 => Just(None).boxed(),
        _ => prop::option::of(body(depth - 1).prop_map(Box::new)).boxed(),
    };
    (4..7_u32, 1..4_u32, 1..4_u32, inner)
        .prop_map(|(times, before, after, inner)| Body {
            times,
            before,
            after,
            inner,
        })
        .boxed()
}

impl Body {
    fn run(&self, program: &mut Program, path: &str, line: &mut u32) {
        let first = *line;
        for _ in 0..self.times {
            *line = first;
            for _ in 0..self.before {
                *line += 1;
                program.alloc(&format!("{path} f:{line} !forward:1"));
            }
            if let Some(inner) = &self.inner {
                inner.run(program, path, line);
            }
            for _ in 0..self.after {
                *line += 1;
                program.alloc(&format!("{path} f:{line} !forward:1"));
            }
        }
    }

    /// The number of iterations of each loop, outermost first.
    fn counts(&self, outside: usize) -> Vec<usize> {
        let n = outside * self.times as usize;
        let inner = self.inner.iter().flat_map(|inner| inner.counts(n));
        std::iter::once(n).chain(inner).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nested_loops_are_found_whatever_their_bodies(body in body(2)) {
        let mut program = Program::default();
        body.run(&mut program, "main:1", &mut 10);
        let trace = program.finish();
        let device = &trace.devices[0];
        let analysis = super::Analysis::new(device, &trace.stacks, Watch::nobody());
        let analysis = analysis.unwrap().expect("there are stacks");
        let found: Vec<usize> =
            analysis.loops().unwrap().iter().map(|l| l.iterations.len()).collect();
        let counts = body.counts(1);
        for count in &counts {
            prop_assert!(found.contains(count), "{count} in {found:?} of {body:?}");
        }
        // If both loops are in one function, the outer one looks like a branch that is seldom
        // taken.
        prop_assert!(counts.contains(&device.steps.len()), "{} steps", device.steps.len());
    }
}
