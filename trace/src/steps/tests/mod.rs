//! Small programs, written as their stacks: every construct that might confuse the search for
//! loops.
//!
//! ```text
//! constructs   what a language has: nested loops, statements, generators, layers
//! training     optimizers, epochs, micro-batches, trainers
//! serving      requests and tokens
//! ends         where the first step begins and the last one ends
//! ```

mod constructs;
mod ends;
mod serving;
mod training;

use super::{choices, find, levels};
use crate::span::Span;
use crate::stacks::{Frame, FrameIdx, StackIdx};
use crate::testing::{TraceBuilder, block_of};
use crate::trace::{Annotation, BlockIdx, BlockKind, PoolId, StepSource, Trace};
use crate::units::{Bytes, EventIdx};
use crate::watch::Watch;
use std::collections::{HashMap, VecDeque};

/// A program that allocates: each block is given back two allocations later.
#[derive(Default)]
struct Program {
    builder: TraceBuilder,
    frames: HashMap<String, FrameIdx>,
    stacks: HashMap<String, StackIdx>,
    alive: VecDeque<BlockIdx>,
    variables: HashMap<String, BlockIdx>,
    /// Events so far.
    events: u32,
    scopes: Vec<Annotation>,
    /// The pool of what is allocated: that of a graph that is captured, or the default one.
    pool: PoolId,
}

impl Program {
    /// Allocates at a stack such as `main:3 train:10 !forward:20`, outermost first. `!` stands for
    /// the call of a module, `torch/…/f:1` for a function of PyTorch, `~f:0` for one in C++, `-`
    /// for no stack.
    fn alloc(&mut self, stack: &str) {
        let block = self.make(stack);
        self.alive.push_back(block);
        if self.alive.len() > 2
            && let Some(old) = self.alive.pop_front()
        {
            self.free(old);
        }
    }

    /// Allocates, and gives back what the variable held before.
    fn assign(&mut self, stack: &str, variable: &str) {
        let block = self.make(stack);
        if let Some(old) = self.variables.insert(variable.to_owned(), block) {
            self.free(old);
        }
    }

    fn make(&mut self, stack: &str) -> BlockIdx {
        let (stack, bytes) = stack.split_once(" @").unwrap_or((stack, "4096"));
        let alloc_stack = self.stack(stack);
        let bytes = bytes.parse().expect("bytes");
        self.events += 1;
        self.builder.alloc(BlockKind {
            alloc_stack,
            pool: self.pool,
            ..block_of(Bytes(bytes))
        })
    }

    fn out_of_memory(&mut self) {
        self.builder.out_of_memory(Bytes(4096));
        self.events += 1;
    }

    fn free(&mut self, block: BlockIdx) {
        self.builder.free_requested(block);
        self.builder.free_completed(block);
        self.events += 2;
    }

    /// A scope in which nothing is allocated, or once at a stack.
    fn scope(&mut self, name: &str, stack: &str) {
        let start = EventIdx(self.events);
        if !stack.is_empty() {
            self.alloc(stack);
        }
        self.scopes.push(Annotation {
            name: self.builder.stacks.strings.push(name),
            events: Span::new(start, EventIdx(self.events)),
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

/// A program as text: one stack a line; `3x {` … `}` repeats, `[name]` is a scope, with what the
/// rest of its line allocates in it. `@640` stands for so many bytes. What a line with `=x` makes
/// is held by the variable `x`, until `del x` or the next such line. At `oom`, memory runs out.
/// After `capture`, a graph is captured, until `replay`.
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
            let (name, stack) = name.split_once(']').expect("the end of a name");
            program.scope(name, stack.trim());
            at += 1;
            continue;
        }
        let Some(times) = lines[at].strip_suffix("x {") else {
            match (lines[at].split_once(" ="), lines[at].strip_prefix("del ")) {
                _ if lines[at] == "oom" => program.out_of_memory(),
                _ if lines[at] == "capture" => program.pool = PoolId(1, 0),
                _ if lines[at] == "replay" => program.pool = PoolId::default(),
                (Some((stack, variable)), _) => program.assign(stack, variable),
                (None, Some(variable)) => {
                    let held = program.variables.remove(variable);
                    program.free(held.expect("a variable that holds something"));
                }
                (None, None) => program.alloc(lines[at]),
            }
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
    let listed = choices::of_device(device, &trace.stacks);
    assert_eq!(device.steps.len(), expected, "{text}\n{listed:#?}");
    let source = if expected == 0 {
        StepSource::None
    } else {
        StepSource::Inferred
    };
    assert_eq!(device.step_source, source, "{text}");
}

/// The name of the first step, and the levels: `step 0: 2 epochs, 12 steps`.
fn levels_of(text: &str) -> String {
    let trace = run(text);
    let levels = choices::of_device(&trace.devices[0], &trace.stacks);
    let names = levels.iter().map(|l| format!("{} {}", l.count, l.label));
    let first = trace.devices[0].steps.first();
    let step = first.map_or("", |step| step.name.as_str());
    format!("{step}: {}", names.collect::<Vec<_>>().join(", "))
}

const BACKWARD: &str = "torch/_tensor/backward:9";
const ADAM: &str = "torch/optim/adam/step:20";
