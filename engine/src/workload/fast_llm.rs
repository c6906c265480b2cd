//! Fast-LLM's micro-batch loop: a language-model head that computes its own input gradient.
//!
//! The head stores that gradient on its context. A loss that is kept for logging keeps the head's
//! node, so the context, the accumulator behind it, its leaf and the leaf's gradient: three tensors
//! of the same size for each micro-batch (docs/scenarios.md, "Losses that are kept").

use super::Workload;
use crate::autograd::Tensor;
use crate::session::{RunError, Session};
use crate::tensor::DType;

const PARAMETERS: u64 = 7_615_616_512;
/// Flat buffers are given rows of this length: a single dimension stays below 2^32.
const ROW: u64 = 512;
const _: () = assert!(PARAMETERS.is_multiple_of(ROW));
const HIDDEN: u64 = 3584;
const VOCAB: u64 = 152_064;
/// Tokens of one rank: 16 384 over two sequence ranks.
const TOKENS: u64 = 8192;

/// Whether the loop keeps the graph of each loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptLoss {
    /// The loss as it is.
    WithGraph,
    /// `loss.detach()`.
    Detached,
}

/// The loop; one step is one micro-batch.
pub struct FastLlm {
    kept: KeptLoss,
    losses: Vec<Tensor>,
    fixed: Vec<Tensor>,
}

impl FastLlm {
    /// Allocates weights, optimizer shards and gradient buffers.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(s: &mut Session, kept: KeptLoss) -> Result<FastLlm, RunError> {
        let all = [PARAMETERS / ROW, ROW];
        let mut fixed = vec![s.frozen(&all, DType::Bfloat16)?];
        // Weight, gradient and two moments in fp32, over four data ranks: one parameter's worth.
        fixed.push(s.frozen(&all, DType::Float32)?);
        for _ in ["embedding", "head"] {
            fixed.push(s.frozen(&[VOCAB * HIDDEN], DType::Float32)?);
        }
        Ok(FastLlm {
            kept,
            losses: Vec::new(),
            fixed,
        })
    }

    /// Logits and their gradient in two precisions, and the gradient of the input.
    fn head(s: &mut Session, input: &Tensor) -> Result<Tensor, RunError> {
        let logits = s.empty(&[TOKENS, VOCAB], DType::Bfloat16)?;
        let wide = s.empty(&[TOKENS, VOCAB], DType::Float32)?;
        let wide_grad = s.empty(&[TOKENS, VOCAB], DType::Float32)?;
        let grad = s.empty(&[TOKENS, VOCAB], DType::Bfloat16)?;
        let input_grad = s.empty(&[TOKENS, HIDDEN], DType::Bfloat16)?;
        drop((logits, wide, wide_grad, grad));
        s.self_differentiating_loss(input, input_grad)
    }
}

impl Workload for FastLlm {
    fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        let hidden = s.empty(&[TOKENS, HIDDEN], DType::Bfloat16)?;
        let leaf = s.leaf_over(&hidden);
        drop(hidden);
        let loss = FastLlm::head(s, &leaf)?;
        s.backward(&loss)?;
        self.losses.push(match self.kept {
            KeptLoss::WithGraph => loss,
            KeptLoss::Detached => loss.detach(),
        });
        Ok(())
    }

    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor)) {
        let names = ["weights", "fp32 shards", "embedding grad", "head grad"];
        for (name, tensor) in names.iter().zip(&self.fixed) {
            visit(name, tensor);
        }
        for (index, loss) in self.losses.iter().enumerate() {
            visit(&format!("losses[{index}]"), loss);
        }
    }
}
