//! Transformer Engine's fused attention in fp8, with DelayedScaling.
//!
//! Query, key, value and output are attributes of the function's context rather than saved
//! tensors, so the engine does not release them: they live as long as the graph, and the graph as
//! long as the output (docs/scenarios.md, "Tensors kept by contexts").

use super::Workload;
use crate::autograd::{CtxLifetime, Tensor};
use crate::session::{RunError, Session};
use crate::tensor::DType;

const SEQUENCE: u64 = 1048;
const BATCH: u64 = 32;
const HIDDEN: u64 = 16 * 128;
const LAYERS: usize = 3;
/// Memory that building the model touches and frees, bytes.
const BUILD_BYTES: u64 = 4 << 30;

/// The stack of attention layers.
pub struct TeAttention {
    lifetime: CtxLifetime,
    /// Whether the model has been built.
    built: bool,
    /// Output and loss of the last iteration, which the script still refers to.
    last: Option<[Tensor; 2]>,
}

impl TeAttention {
    /// A stack whose contexts live as given.
    pub fn new(lifetime: CtxLifetime) -> TeAttention {
        TeAttention {
            lifetime,
            built: false,
            last: None,
        }
    }
}

impl Workload for TeAttention {
    fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        if !self.built {
            // What building and sharding leaves behind is cached, and serves the activations.
            drop(s.scratch(BUILD_BYTES)?);
            self.built = true;
        }
        let shape = [SEQUENCE, BATCH, HIDDEN];
        let input = s.empty(&shape, DType::Bfloat16)?;
        let leaf = s.leaf_over(&input);
        drop(input);
        let mut x = leaf.clone();
        for _ in 0..LAYERS {
            let mut kept = Vec::new();
            for _ in ["query", "key", "value", "output"] {
                kept.push(s.empty(&shape, DType::Float8E4m3fn)?);
            }
            x = s.function_with_ctx(&x, kept, self.lifetime)?;
        }
        let loss = s.sum(&x)?;
        s.backward(&loss)?;
        leaf.set_grad(None);
        self.last = Some([x, loss]);
        Ok(())
    }

    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor)) {
        if let Some([output, loss]) = &self.last {
            visit("output", output);
            visit("loss", loss);
        }
    }
}
