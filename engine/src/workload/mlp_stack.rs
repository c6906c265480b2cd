//! 24 blocks of Linear, GELU, Linear in bf16, without checkpoints (docs/measurements.md, "Copies").
//!
//! Every activation is saved, so the offloader moves gigabytes a step: what is measured is whether
//! copies keep up with the link and hide behind arithmetic.

use super::Workload;
use crate::autograd::Tensor;
use crate::memory::Role;
use crate::session::{RunError, Session};
use crate::tensor::DType;

const BLOCKS: u32 = 24;
const WIDTH: u64 = 4096;
const INNER: u64 = 12_288;
const BF16: DType = DType::Bfloat16;

/// Floating point operations of a step: two products a block, each once forward and twice backward,
/// except that the first input needs no gradient.
pub fn stack_flops(tokens: u64) -> f64 {
    let product = 2.0 * (tokens * WIDTH * INNER) as f64;
    product * f64::from(6 * BLOCKS - 1)
}

struct Block {
    up: Tensor,
    down: Tensor,
}

/// The stack.
pub struct MlpStack {
    tokens: u64,
    /// Every n-th block is offloaded; the others run under a `NoOpManager`.
    every: u32,
    blocks: Vec<Block>,
}

impl MlpStack {
    /// Allocates the weights.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(s: &mut Session, tokens: u64, every: u32) -> Result<MlpStack, RunError> {
        let mut blocks = Vec::new();
        for _ in 0..BLOCKS {
            blocks.push(Block {
                up: s.parameter(&[INNER, WIDTH], BF16)?,
                down: s.parameter(&[WIDTH, INNER], BF16)?,
            });
        }
        let params = blocks.iter().flat_map(|block| [&block.up, &block.down]);
        let params: Vec<u64> = params.map(|weight| weight.storage().start()).collect();
        if let Some(offloader) = s.offloader_mut() {
            offloader.update_model_params(params);
        }
        Ok(MlpStack {
            tokens,
            every: every.max(1),
            blocks,
        })
    }

    fn forward(&self, s: &mut Session) -> Result<Tensor, RunError> {
        let mut x = s.empty_as(&[self.tokens, WIDTH], BF16, Role::Input)?;
        s.initialise(&x)?;
        for (index, block) in (0..).zip(&self.blocks) {
            x = if index % self.every == 0 {
                block.forward(s, &x)?
            } else {
                s.without_offload(|s| block.forward(s, &x))?
            };
        }
        if self.every > 1 {
            return s.without_offload(|s| loss(s, &x));
        }
        loss(s, &x)
    }
}

impl Block {
    fn forward(&self, s: &mut Session, x: &Tensor) -> Result<Tensor, RunError> {
        let inner = s.linear(x, &self.up)?;
        let active = s.gelu(&inner)?;
        drop(inner);
        s.linear(&active, &self.down)
    }
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
        s.enter();
        let outcome = self.forward(s).and_then(|loss| s.backward(&loss));
        let left = s.exit();
        outcome?;
        left?;
        for block in &self.blocks {
            block.up.set_grad(None);
            block.down.set_grad(None);
        }
        Ok(())
    }

    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor)) {
        for (index, block) in self.blocks.iter().enumerate() {
            visit(&format!("blocks.{index}.0.weight"), &block.up);
            visit(&format!("blocks.{index}.2.weight"), &block.down);
        }
    }
}
