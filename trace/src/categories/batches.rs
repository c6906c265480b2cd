//! Lines of the program whose blocks say what the others of the same line are.
//!
//! A batch is made by a line that runs before the model does. In training, that line comes behind
//! an optimizer's step, and nothing of a model's output is at hand there. In a loop of calls
//! without a backward pass (an evaluation), only the first batch is made there: the later ones are
//! made between two calls, where lines also work on outputs. So the first batch tells what its line
//! makes.
//!
//! In the same way, what `zero_grad` takes tells that its line makes gradients, as copies of 32
//! bits are, and shards of gradients: the newest ones are not taken yet.

use super::facts::Facts;
use super::survey::Survey;
use crate::footprint::of_vec;
use crate::phases::{Phase, Role, Roles};
use crate::stacks::StackIdx;
use crate::trace::{BlockIdx, DeviceTrace};
use crate::watch::{Stopped, Watch};

/// What is known of each stack, and where models are called.
pub(super) struct Batches {
    /// Whether a block of a stack was made before the model was called, and was there in the call.
    leads: Vec<bool>,
    /// Whether `zero_grad` took a block of a stack.
    cleared: Vec<bool>,
    /// The events at which calls begin: a module's block after one of the program.
    calls: Vec<u32>,
}

impl Batches {
    /// Walks over the blocks once.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn of(
        device: &DeviceTrace,
        roles: &Roles,
        facts: &Facts,
        survey: &Survey,
        watch: Watch<'_>,
    ) -> Result<Batches, Stopped> {
        let opens = opening(survey);
        let blocks = &device.blocks;
        let mut batches = Batches {
            leads: vec![false; facts.len()],
            cleared: vec![false; facts.len()],
            calls: Vec::new(),
        };
        let (mut at, mut calls) = (0, false);
        for index in blocks.made() {
            watch.at_row(index as usize, || 2 * batches.heap_bytes() + of_vec(&opens))?;
            let block = BlockIdx(index);
            let (alloc, kind) = (blocks.alloc[block.index()], blocks.kind(block));
            while survey.parts[at].end <= alloc {
                at += 1;
            }
            let (stack, freed) = (kind.alloc_stack, blocks.free_requested[block.index()]);
            let role = roles.get(stack);
            let called = role == Role::Forward && !facts.get(stack).workspace;
            if called && !calls {
                batches.calls.push(alloc);
            }
            calls = called;
            let outlives = |forward| freed >= forward;
            let leads = || opens[at] && survey.parts[at].forward.is_some_and(outlives);
            batches.leads[stack.index()] |= role == Role::Program && leads();
            let cleared = roles.get(kind.free_stack) == Role::ZeroGrad;
            batches.cleared[stack.index()] |= cleared && stack != StackIdx::NONE;
        }
        Ok(batches)
    }

    /// Heap bytes that they use.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.leads) + of_vec(&self.cleared) + of_vec(&self.calls)
    }

    /// Whether a block is a batch: its line makes what models are called with, and it is there when
    /// the next call begins.
    pub fn has(&self, stack: StackIdx, made: u32, freed: u32) -> bool {
        let next = self.calls.partition_point(|&call| call <= made);
        self.leads[stack.index()] && self.calls.get(next).is_some_and(|&call| call <= freed)
    }

    /// Whether `zero_grad` took a block of this stack.
    pub fn is_cleared(&self, stack: StackIdx) -> bool {
        self.cleared[stack.index()]
    }
}

/// For each part, whether the program is at work in it and no model was called since the last
/// backward pass or optimizer's step.
fn opening(survey: &Survey) -> Vec<bool> {
    let mut called = false;
    let parts = survey.parts.iter().map(|part| {
        called = match part.phase {
            Phase::Forward => true,
            Phase::Backward | Phase::Optimizer => false,
            _ => called,
        };
        part.phase == Phase::Other && !called
    });
    parts.collect()
}
