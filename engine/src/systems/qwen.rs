//! What the systems on Qwen3.5-9B share: the inputs of their program, and texts about it.

use api::bench::BenchInput;

use super::{Spec, assumed, published, source};
use crate::patches::Patch;
use crate::session::{CUBLAS_WORKSPACE, RunError, Session};
use crate::workload::{QwenVl, QwenVlSpec, Workload};

pub(super) use crate::workload::Samples;

/// The program that was measured.
pub(super) const MEASURED_PROGRAM: &str =
    "Qwen3.5-9B dimensions, NF4 and LoRA, non-reentrant checkpointing, batch 1";

/// Why nothing about P5 can be derived.
pub(super) const NO_SOURCE: &str = "the source of the patch was never published";

/// Patches of the offloader, and of the training around it, that change something on TRL 0.29.
pub(super) fn touches_trl_029(patch: &Patch) -> bool {
    // #7195 moves the copies of #5694, which this release does not make. Both passes run on the
    // default stream. And ms-swift's offloader is a different one.
    !matches!(
        patch,
        Patch::LOSS_DETACH
            | Patch::CLEAR_CTX_TENSORS
            | Patch::CLONE_BEFORE_WAIT
            | Patch::DISTINGUISH_VIEWS
            | Patch::LIVE_STREAM
    )
}

impl Spec for QwenVlSpec {
    fn inputs(&self) -> Vec<BenchInput> {
        let (text, vision) = (&self.text, &self.vision);
        let [batch, tokens] = self.ids();
        let mut inputs = vec![
            source(
                "dimensions",
                format!(
                    "{} layers, hidden {}, intermediate {}, vocabulary {}",
                    text.layers, text.hidden, text.intermediate, text.vocab
                ),
            ),
            source(
                "vision tower",
                format!(
                    "{} blocks, hidden {}, patch {}, merge {}; frozen, checkpointed",
                    vision.blocks, vision.hidden, vision.patch, vision.merge
                ),
            ),
            published(
                "quantisation",
                "NF4 with double quantisation on the text model's linears",
            ),
            assumed("batch", batch.to_string()),
            assumed("tokens a sample", tokens.to_string()),
        ];
        if self.samples == Samples::WithImage {
            let (patches, side) = (vision.patches(), vision.image);
            inputs.push(assumed(
                "patches an image",
                format!("{patches} ({side} x {side} pixels)"),
            ));
        }
        inputs.extend(self.assumed_of_training());
        inputs
    }

    /// P1 and P2 change no line that runs here: the `forward` of a Python function runs without
    /// gradients, and cross-entropy runs in fp32 under autocast.
    fn build(&self, _: &[&'static Patch], s: &mut Session) -> Result<Box<dyn Workload>, RunError> {
        Ok(Box::new(QwenVl::new(s, *self)?))
    }
}

impl QwenVlSpec {
    fn assumed_of_training(&self) -> [BenchInput; 6] {
        let rank = self.text.lora_rank;
        [
            assumed(
                "LoRA",
                format!(
                    "rank {rank} on q, k, v, o, gate, up, down and the delta net's projections"
                ),
            ),
            assumed("optimizer", "AdamW, fp32 states"),
            assumed(
                "checkpointing",
                "non-reentrant, every text layer and vision block",
            ),
            assumed(
                "loss",
                "eager cross-entropy in fp32: it sets the peak of text-only steps",
            ),
            assumed(
                "gated delta rule",
                "its reference PyTorch form, many small allocations; a fused kernel moves \
                 addresses",
            ),
            assumed(
                "cuBLAS workspaces",
                format!(
                    "{} MiB a thread, as on Hopper; other cards take less, by tens of MiB",
                    CUBLAS_WORKSPACE.0 >> 20
                ),
            ),
        ]
    }
}

/// Checks that the numbers are used. `more` are changes whose inputs depend on the samples.
#[cfg(test)]
#[track_caller]
fn check_shown(spec: &QwenVlSpec, more: &[super::shown::Case<QwenVlSpec>]) {
    let mut cases: Vec<super::shown::Case<QwenVlSpec>> = vec![
        (&["dimensions"], |s| s.text.layers += 4),
        (&["dimensions"], |s| {
            s.text.hidden *= 2;
            s.vision.out *= 2;
        }),
        (&["dimensions"], |s| s.text.intermediate *= 2),
        (&["dimensions"], |s| s.text.vocab *= 2),
        (&["vision tower"], |s| s.vision.blocks += 1),
        (&["vision tower"], |s| s.vision.hidden += 64),
        (&["vision tower"], |s| s.vision.merge = 4),
        (&["tokens a sample"], |s| s.text.tokens *= 2),
        (&["LoRA"], |s| s.text.lora_rank *= 2),
    ];
    cases.extend(more);
    super::shown::is_computed_with(spec, &cases);
}

/// The same for samples of text alone, whose inputs name no image.
#[cfg(test)]
#[track_caller]
pub(super) fn check_text_shown(spec: &QwenVlSpec) {
    check_shown(spec, &[(&["vision tower"], |s| s.vision.patch = 32)]);
    let inputs = spec.inputs();
    let images = inputs.iter().filter(|input| input.name.contains("image"));
    assert_eq!(images.count(), 0, "its samples hold none");
}

/// The same for samples with an image.
#[cfg(test)]
#[track_caller]
pub(super) fn check_image_shown(spec: &QwenVlSpec) {
    let more: [super::shown::Case<QwenVlSpec>; 2] = [
        (&["vision tower", "patches an image"], |s| {
            s.vision.patch = 32
        }),
        (&["patches an image"], |s| s.vision.image = 1024),
    ];
    check_shown(spec, &more);
}
