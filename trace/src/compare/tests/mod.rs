//! Made-up programs, compared.

mod apart;
mod bounds;
mod leaks;
mod numbers;
mod peak;
mod shown;
mod verdicts;

use super::gate::{Allowance, Limits, Outcome, Verdicts, Weight};
use super::profile::{OutOfMemory, Profile};
use super::sites::{Matched, SiteChange, SiteDelta};
use super::*;
use crate::categories::{Category, Named};
use crate::site::SiteKey;
use crate::span::Span;
use crate::stacks::{FrameIdx, StackIdx};
use crate::steps;
use crate::testing::{TraceBuilder, block_of};
use crate::trace::{Annotation, BlockIdx, QualityNote, StepSource, Trace};
use crate::units::EventIdx;
use crate::watch::Watch;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// A training program: layers, an optimizer, and what is wrong with it.
#[derive(Clone)]
pub(crate) struct Program {
    pub steps: u32,
    /// Bytes of a layer's activation, one value for each step, repeated in turn.
    pub lengths: Vec<u64>,
    /// Bytes kept with each step by `keep`.
    pub leak: u64,
    /// Name and file of the function that leaks.
    pub leaker: (&'static str, &'static str),
    /// Name and file of the training step, which is in every stack.
    pub trainer: (&'static str, &'static str),
    /// Added to all lines.
    pub shift: u32,
    /// Put before all files.
    pub root: &'static str,
    /// Bytes that live during the whole run.
    pub weights: u64,
    /// Blocks made and given back before all others, which moves every address.
    pub dust: u32,
}

impl Default for Program {
    fn default() -> Program {
        Program {
            steps: 12,
            lengths: vec![16 * MIB],
            leak: 0,
            leaker: ("keep", "cache.py"),
            trainer: ("train_step", "train.py"),
            shift: 0,
            root: "/srv/",
            weights: 200 * MIB,
            dust: 0,
        }
    }
}

/// A program that runs.
struct Running<'a> {
    program: &'a Program,
    builder: TraceBuilder,
    n_events: u32,
}

impl Running<'_> {
    fn alloc(&mut self, stack: &[(&str, &str)], bytes: u64) -> BlockIdx {
        let (root, shift) = (self.program.root, self.program.shift);
        let frames: Vec<FrameIdx> = stack
            .iter()
            .map(|(name, file)| {
                let file = format!("{root}{file}");
                let single = self.builder.stack(name, &file, 10 + shift);
                self.builder.stacks.frames(single)[0]
            })
            .collect();
        let known = (1..self.builder.stacks.len() as u32)
            .map(StackIdx)
            .find(|&s| self.builder.stacks.frames(s) == frames.as_slice());
        let alloc_stack = match known {
            Some(stack) => stack,
            None => self.builder.stacks.push_stack(&frames),
        };
        self.n_events += 1;
        self.builder.alloc(crate::trace::BlockKind {
            alloc_stack,
            ..block_of(Bytes(bytes))
        })
    }

    fn free(&mut self, block: BlockIdx) {
        self.builder.free_requested(block);
        self.builder.free_completed(block);
        self.n_events += 2;
    }

    fn step(&mut self, index: u32) {
        let program = self.program;
        let length = program.lengths[index as usize % program.lengths.len()];
        let trainer = program.trainer;
        let mut saved = Vec::new();
        for layer in ["attention", "mlp", "norm", "head"] {
            saved.push(self.alloc(&[("forward", layer), ("run", "model.py"), trainer], length));
        }
        if index == 0 {
            self.alloc(&[("init_state", "adam.py"), trainer], program.weights);
        }
        if program.leak > 0 {
            self.alloc(&[program.leaker, trainer], program.leak);
        }
        saved.into_iter().rev().for_each(|block| self.free(block));
    }
}

impl Program {
    pub fn trace(&self) -> Trace {
        let mut running = Running {
            program: self,
            builder: TraceBuilder::default(),
            n_events: 0,
        };
        for _ in 0..self.dust {
            let block = running.alloc(&[("dust", "x.py")], 4096);
            running.free(block);
        }
        running.alloc(&[("load", "model.py"), ("main", "main.py")], self.weights);
        let mut scopes = Vec::new();
        for index in 0..self.steps {
            let start = running.n_events;
            running.step(index);
            scopes.push((start, running.n_events));
        }
        let mut trace = running.builder.finish();
        for (index, (start, end)) in scopes.into_iter().enumerate() {
            let name = trace.stacks.strings.push(&format!("## step {index} ##"));
            trace.devices[0].annotations.push(Annotation {
                name,
                events: Span::new(EventIdx(start), EventIdx(end)),
                depth: 0,
            });
        }
        let stacks = trace.stacks.clone();
        steps::find(&mut trace.devices[0], &stacks, 1, Watch::nobody()).unwrap();
        trace
    }

    fn profile(&self) -> Profile {
        Profile::of(&self.trace())
    }
}

fn compare(base: &Profile, new: &Profile) -> Vec<Difference> {
    Watch::undisturbed(|watch| super::compare(base, new, watch))
}

fn difference(base: &Program, new: &Program) -> Difference {
    compare(&base.profile(), &new.profile()).remove(0)
}

fn gated(base: &Program, new: &Program) -> Verdicts {
    gate::gate(
        &compare(&base.profile(), &new.profile()),
        &Limits::default(),
    )
}
