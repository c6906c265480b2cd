//! 24 blocks of Linear, GELU, Linear in bf16, without checkpoints (docs/measurements.md, "Copies").
//!
//! Every activation is saved, so the offloader moves gigabytes in each step. The benchmark measures
//! whether copies are as fast as the link and run at the same time as arithmetic.

use std::rc::Rc;

use super::blocks::{Block, Blocks};
use super::{Workload, offloaded_pass};
use crate::autograd::{Region, Tensor};
use crate::memory::Role;
use crate::session::{RunError, Session, Unit};
use crate::tensor::DType;

const BLOCKS: u64 = 24;
const WIDTH: u64 = 4096;
const INNER: u64 = 12_288;
const BF16: DType = DType::Bfloat16;

/// Floating point operations of a step: each block has two products, each runs once in forward and
/// twice in backward; but the first input needs no gradient.
pub fn stack_flops(tokens: u64) -> f64 {
    let product = 2.0 * (tokens * WIDTH * INNER) as f64;
    product * (6 * BLOCKS - 1) as f64
}

/// What a block keeps for its backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// It keeps every activation.
    All,
    /// It keeps its input and computes the rest again (a checkpoint).
    Input,
}

/// The stack.
pub struct MlpStack {
    tokens: u64,
    keeps: Keeps,
    /// Every n-th block is offloaded; the others run under a `NoOpManager`.
    every: u32,
    blocks: Blocks,
}

impl MlpStack {
    /// Allocates the weights.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(s: &mut Session, tokens: u64, every: u32) -> Result<MlpStack, RunError> {
        s.declare_layers(BLOCKS);
        Ok(MlpStack {
            tokens,
            keeps: Keeps::All,
            every: every.max(1),
            blocks: Blocks::new(s, BLOCKS, [INNER, WIDTH], [WIDTH, INNER])?,
        })
    }

    /// The same, but with blocks that keep something else.
    #[must_use]
    pub fn keeping(mut self, keeps: Keeps) -> MlpStack {
        self.keeps = keeps;
        self
    }

    pub(super) fn zero_grad(&self) {
        self.blocks.zero_grad();
    }

    fn forward(&self, s: &mut Session) -> Result<Tensor, RunError> {
        self.forward_beside(s, &mut |_| Ok(()))
    }

    /// The loss; `beside` runs after each block.
    pub(super) fn forward_beside(
        &self,
        s: &mut Session,
        beside: &mut dyn FnMut(&mut Session) -> Result<(), RunError>,
    ) -> Result<Tensor, RunError> {
        let mut x = s.empty_as(&[self.tokens, WIDTH], BF16, Role::Input)?;
        s.initialise(&x)?;
        for (index, block) in (0..).zip(self.blocks.iter()) {
            x = if self.keeps == Keeps::Input {
                checkpointed(s, block, &x)?
            } else if index % self.every == 0 {
                forward(s, block, &x)?
            } else {
                s.without_offload(|s| forward(s, block, &x))?
            };
            beside(s)?;
        }
        if self.every > 1 {
            return s.without_offload(|s| loss(s, &x));
        }
        loss(s, &x)
    }
}

fn forward(s: &mut Session, block: &Block, x: &Tensor) -> Result<Tensor, RunError> {
    s.module(Unit::Layer, x.clone(), |s, x| {
        let inner = s.module(Unit::Part("up"), x, |s, x| s.linear(&x, &block.up))?;
        s.module(Unit::Part("down"), inner, |s, inner| {
            let active = s.gelu(&inner)?;
            drop(inner);
            s.linear(&active, &block.down)
        })
    })
}

fn checkpointed(s: &mut Session, block: &Block, x: &Tensor) -> Result<Tensor, RunError> {
    let block = block.clone();
    let region: Region = Rc::new(move |s: &mut Session, inputs: &[Tensor]| {
        let inner = s.linear(&inputs[0], &block.up)?;
        let active = s.gelu(&inner)?;
        drop(inner);
        s.linear(&active, &block.down)
    });
    s.checkpoint(region, std::slice::from_ref(x))
}

/// `x.float().pow(2).sum()`.
fn loss(s: &mut Session, x: &Tensor) -> Result<Tensor, RunError> {
    let wide = s.cast(x, DType::Float32)?;
    let squares = s.square(&wide)?;
    drop(wide);
    s.sum(&squares)
}

impl Workload for MlpStack {
    fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        offloaded_pass(s, |s| self.forward(s))?;
        self.zero_grad();
        Ok(())
    }

    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor)) {
        self.blocks.visit(["0", "2"], visit);
    }

    fn shows_all(&self) -> bool {
        true
    }
}
