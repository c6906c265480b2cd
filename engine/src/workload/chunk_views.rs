//! Gated blocks that save both halves of a `chunk`: views of one storage, the second from its
//! middle on. Before #5694 the second half cannot be restored; since then the halves are copied.

use super::Workload;
use crate::autograd::Tensor;
use crate::memory::Role;
use crate::session::{RunError, Session};
use crate::tensor::DType;

const BLOCKS: usize = 8;
const TOKENS: u64 = 2048;
const WIDTH: u64 = 2048;
const INNER: u64 = 4096;
const BF16: DType = DType::Bfloat16;

struct Block {
    up: Tensor,
    down: Tensor,
}

impl Block {
    /// `gate, value = up(x).chunk(2, dim=-1)`, then `down(silu(gate) * value)`.
    fn forward(&self, s: &mut Session, x: &Tensor) -> Result<Tensor, RunError> {
        let both = s.linear(x, &self.up)?;
        let halves = s.split_last(&both, &[INNER, INNER])?;
        drop(both);
        let gate = s.silu(&halves[0])?;
        let gated = s.mul(&gate, &halves[1])?;
        drop((gate, halves));
        let out = s.linear(&gated, &self.down)?;
        drop(gated);
        s.add(x, &out)
    }
}

/// The blocks, one after another.
pub struct ChunkViews {
    blocks: Vec<Block>,
}

impl ChunkViews {
    /// Allocates the weights.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(s: &mut Session) -> Result<ChunkViews, RunError> {
        let mut blocks = Vec::with_capacity(BLOCKS);
        for _ in 0..BLOCKS {
            blocks.push(Block {
                up: s.parameter(&[2 * INNER, WIDTH], BF16)?,
                down: s.parameter(&[WIDTH, INNER], BF16)?,
            });
        }
        let weights = blocks.iter().flat_map(|block| [&block.up, &block.down]);
        let weights: Vec<u64> = weights.map(|weight| weight.storage().start()).collect();
        if let Some(offloader) = s.offloader_mut() {
            offloader.update_model_params(weights);
        }
        Ok(ChunkViews { blocks })
    }

    fn forward(&self, s: &mut Session) -> Result<Tensor, RunError> {
        let mut x = s.empty_as(&[1, TOKENS, WIDTH], BF16, Role::Input)?;
        s.initialise(&x)?;
        for block in &self.blocks {
            x = block.forward(s, &x)?;
        }
        s.sum(&x)
    }
}

impl Workload for ChunkViews {
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
            visit(&format!("blocks.{index}.up.weight"), &block.up);
            visit(&format!("blocks.{index}.down.weight"), &block.down);
        }
    }
}
