//! Blocks of two linear layers; all their weights are trained.

use super::declare_parameters;
use crate::autograd::Tensor;
use crate::session::{RunError, Session};
use crate::tensor::DType;

/// A block's weights.
#[derive(Clone)]
pub(crate) struct Block {
    /// The weight of the layer that widens.
    pub up: Tensor,
    /// The weight of the layer that narrows.
    pub down: Tensor,
}

/// The weights of a row of blocks.
pub(crate) struct Blocks(Vec<Block>);

impl Blocks {
    /// Allocates the weights in bf16 and declares them as parameters.
    pub(crate) fn new(
        s: &mut Session,
        count: u64,
        up: [u64; 2],
        down: [u64; 2],
    ) -> Result<Blocks, RunError> {
        let mut blocks = Vec::new();
        for _ in 0..count {
            blocks.push(Block {
                up: s.parameter(&up, DType::Bfloat16)?,
                down: s.parameter(&down, DType::Bfloat16)?,
            });
        }
        let weights = blocks.iter().flat_map(|block| [&block.up, &block.down]);
        declare_parameters(s, weights);
        Ok(Blocks(blocks))
    }

    /// The blocks, the first one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Block> {
        self.0.iter()
    }

    /// Sets all gradients to none.
    pub(crate) fn zero_grad(&self) {
        for block in &self.0 {
            block.up.set_grad(None);
            block.down.set_grad(None);
        }
    }

    /// Shows the weights; `up` and `down` are the names of the two layers.
    pub(crate) fn visit(&self, [up, down]: [&str; 2], visit: &mut dyn FnMut(&str, &Tensor)) {
        for (index, block) in self.0.iter().enumerate() {
            visit(&format!("blocks.{index}.{up}.weight"), &block.up);
            visit(&format!("blocks.{index}.{down}.weight"), &block.down);
        }
    }
}
