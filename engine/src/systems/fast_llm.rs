//! Fast-LLM's micro-batch loop: its language-model head computes the gradient of its own input.
//!
//! The head stores this gradient on its context. If a loss is kept for logging, it keeps the node
//! of the head alive. The node keeps the context, the accumulator behind it, its leaf and the
//! leaf's gradient: three tensors of the same size for each micro-batch (docs/scenarios.md,
//! "Losses that are kept").

use api::bench::{BenchInput, Evidence, EvidenceKind, PublishedOnly};

use super::evidence::only;
use super::input::grouped;
use super::{Base, Spec, System, assumed, published};
use crate::autograd::Tensor;
use crate::patches::Patch;
use crate::session::{RunError, Session};
use crate::tensor::DType;
use crate::workload::Workload;
use trace::units::Bytes;

/// Memory of the card that was used, bytes: 80 GiB minus what the driver and the context use.
const CAPACITY: Bytes = Bytes(85_150_000_000);
const MIB: f64 = (1u64 << 20) as f64;

const SPEC: &FastLlmSpec = &FastLlmSpec {
    parameters: 7_615_616_512,
    hidden: 3584,
    vocab: 152_064,
    sequence: 16_384,
    sequence_ranks: 2,
    data_ranks: 4,
};

impl System {
    /// Fast-LLM's loop that keeps each micro-batch's loss.
    pub const FAST_LLM: &'static System = &System {
        base: Base::Program("fast-llm before #486"),
        default_steps: 128,
        capacity: Some(CAPACITY),
        applies: |patch| patch == Patch::LOSS_DETACH,
        published: published_runs,
        published_only,
        ..System::new(
            "fast-llm-qwen2.5-7b",
            "Fast-LLM's loop, which keeps the loss of each micro-batch.",
            SPEC,
        )
    };
}

fn published_runs(patches: &[&'static Patch]) -> Option<Evidence> {
    let row = Evidence {
        steps: Some(128),
        machine: Some("8 x H100 80 GB".to_owned()),
        ..Evidence::new(EvidenceKind::Published, "Fast-LLM #486")
    };
    match patches {
        [] => Some(Evidence {
            growth_per_step: Some(164.0 * MIB),
            out_of_memory: true,
            note: Some("out of memory before micro-batch 128".to_owned()),
            ..row
        }),
        [Patch::LOSS_DETACH] => Some(Evidence {
            peak_allocated: Some(Bytes::mib(62_240)),
            growth_per_step: Some(0.24 * MIB),
            ..row
        }),
        _ => None,
    }
}

fn published_only() -> Vec<PublishedOnly> {
    vec![only(
        "0.24 MiB a micro-batch after the fix",
        "Fast-LLM #486",
        "scalars and metadata of batches, which were not listed",
    )]
}

/// Flat buffers have rows of this length, so that every dimension stays below 2^32.
const ROW: u64 = 512;
/// What exists in fp32 for each parameter: weight, gradient and two moments.
const STATES: u64 = 4;

/// The numbers of the model and its loop.
#[derive(Debug, Clone, Copy)]
struct FastLlmSpec {
    parameters: u64,
    hidden: u64,
    vocab: u64,
    /// Tokens of a micro-batch.
    sequence: u64,
    /// Ranks that share a sequence.
    sequence_ranks: u64,
    /// Ranks that share the fp32 states.
    data_ranks: u64,
}

impl FastLlmSpec {
    /// Tokens of one rank.
    fn local_tokens(&self) -> u64 {
        self.sequence / self.sequence_ranks
    }

    /// The shape of a flat buffer with this many numbers.
    fn flat(numbers: u64) -> [u64; 2] {
        [numbers / ROW, ROW]
    }
}

impl Spec for FastLlmSpec {
    fn inputs(&self) -> Vec<BenchInput> {
        let (parameters, vocab) = (grouped(self.parameters), grouped(self.vocab));
        let (sequence, local) = (grouped(self.sequence), self.local_tokens());
        vec![
            published(
                "model",
                format!("Qwen2.5-7B, {parameters} parameters, vocabulary {vocab}"),
            ),
            published(
                "sequence",
                format!(
                    "{sequence} tokens over {} sequence ranks: {local} local",
                    self.sequence_ranks
                ),
            ),
            assumed(
                "data-parallel ranks",
                format!(
                    "{} for the fp32 weight, gradient and moment shards",
                    self.data_ranks
                ),
            ),
            assumed("gradient buffers", "two in fp32, embedding and head"),
            assumed(
                "card",
                format!(
                    "{:.1} GiB usable of 80",
                    CAPACITY.0 as f64 / (1u64 << 30) as f64
                ),
            ),
        ]
    }

    fn build(
        &self,
        patches: &[&'static Patch],
        s: &mut Session,
    ) -> Result<Box<dyn Workload>, RunError> {
        let kept = match patches.contains(&Patch::LOSS_DETACH) {
            true => KeptLoss::Detached,
            false => KeptLoss::WithGraph,
        };
        let weights = FastLlmSpec::flat(self.parameters);
        let shards = FastLlmSpec::flat(STATES * self.parameters / self.data_ranks);
        let mut fixed = vec![s.frozen(&weights, DType::Bfloat16)?];
        fixed.push(s.frozen(&shards, DType::Float32)?);
        for _ in ["embedding", "head"] {
            fixed.push(s.frozen(&[self.vocab * self.hidden], DType::Float32)?);
        }
        Ok(Box::new(FastLlm {
            spec: *self,
            kept,
            losses: Vec::new(),
            fixed,
        }))
    }
}

/// Whether the loop keeps the graph of each loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptLoss {
    /// The loss is kept as it is.
    WithGraph,
    /// `loss.detach()`.
    Detached,
}

/// The loop; one step is one micro-batch.
struct FastLlm {
    spec: FastLlmSpec,
    kept: KeptLoss,
    losses: Vec<Tensor>,
    fixed: Vec<Tensor>,
}

impl FastLlm {
    /// Logits and their gradient in two precisions, and the gradient of the input.
    fn head(&self, s: &mut Session, input: &Tensor) -> Result<Tensor, RunError> {
        let shape = [self.spec.local_tokens(), self.spec.vocab];
        let logits = s.empty(&shape, DType::Bfloat16)?;
        let wide = s.empty(&shape, DType::Float32)?;
        let wide_grad = s.empty(&shape, DType::Float32)?;
        let grad = s.empty(&shape, DType::Bfloat16)?;
        let input_grad = s.empty(&self.hidden_shape(), DType::Bfloat16)?;
        drop((logits, wide, wide_grad, grad));
        s.self_differentiating_loss(input, input_grad)
    }

    fn hidden_shape(&self) -> [u64; 2] {
        [self.spec.local_tokens(), self.spec.hidden]
    }
}

impl Workload for FastLlm {
    fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        let hidden = s.empty(&self.hidden_shape(), DType::Bfloat16)?;
        let leaf = s.leaf_over(&hidden);
        drop(hidden);
        let loss = self.head(s, &leaf)?;
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

    fn shows_all(&self) -> bool {
        true
    }
}

/// Checks that its numbers are used.
#[cfg(test)]
pub(super) fn check_shown() {
    super::shown::is_computed_with(
        SPEC,
        &[
            (&["model"], |s| s.parameters *= 2),
            (&["model"], |s| s.vocab *= 2),
            (&["sequence"], |s| s.sequence *= 2),
            (&["sequence"], |s| s.sequence_ranks *= 2),
            (&["data-parallel ranks"], |s| s.data_ranks *= 2),
        ],
    );
}
