//! Workloads: training loops whose sizes follow from model dimensions.

mod chunk_views;
mod fast_llm;
mod mlp_stack;
mod moe;
mod qwen_vl;
mod reuse;
mod te_attention;

pub use chunk_views::ChunkViews;
pub use fast_llm::{FastLlm, KeptLoss};
pub use mlp_stack::{MlpStack, stack_flops};
pub use moe::Moe;
pub use qwen_vl::{QwenVl, QwenVlSpec};
pub use reuse::Reuse;
pub use te_attention::TeAttention;

use crate::autograd::{CtxLifetime, Tensor};
use crate::bench::{Config, Patch};
use crate::session::{RunError, Session};

/// A training loop, one step at a time.
pub trait Workload {
    /// Runs one step on the session.
    ///
    /// # Errors
    /// What ends the run: out of memory, an exception of the offloader, a device fault.
    fn step(&mut self, session: &mut Session) -> Result<(), RunError>;

    /// Shows what the program itself refers to between steps: weights, optimizer states, and
    /// whatever else its variables keep.
    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor));
}

/// The workload of a configuration, with the patches that are not the offloader's.
///
/// P1 and P2 change no line that runs here: `forward` of a Python function runs without grad, and
/// cross-entropy runs in fp32 under autocast (docs/scenarios.md, "Patches").
///
/// # Errors
/// Out of memory.
pub fn build(
    config: Config,
    patches: &[Patch],
    session: &mut Session,
) -> Result<Box<dyn Workload>, RunError> {
    Ok(match config {
        Config::VlQwen | Config::QloraBnb => {
            Box::new(QwenVl::new(session, QwenVlSpec::nine_billion(true))?)
        }
        Config::TextQwen => Box::new(QwenVl::new(session, QwenVlSpec::nine_billion(false))?),
        Config::MoeGemma => Box::new(Moe::new(session)?),
        Config::FastLlm => {
            let detached = patches.contains(&Patch::LossDetach);
            let kept = if detached {
                KeptLoss::Detached
            } else {
                KeptLoss::WithGraph
            };
            Box::new(FastLlm::new(session, kept)?)
        }
        Config::TeFusedAttention => {
            let cleared = patches.contains(&Patch::ClearCtxTensors);
            let lifetime = if cleared {
                CtxLifetime::Backward
            } else {
                CtxLifetime::Node
            };
            Box::new(TeAttention::new(lifetime))
        }
        Config::DedupeReuse => Box::new(Reuse::new(session)?),
        Config::ChunkViews => Box::new(ChunkViews::new(session)?),
    })
}
