//! Blocks that multiply a square activation by its own transpose. Both are saved: two views of one
//! storage with the same start. ms-swift before #10157 gives them one host copy.

use api::bench::{BenchInput, Evidence};

use super::evidence::statement;
use super::{Base, Spec, System, assumed, published};
use crate::autograd::Tensor;
use crate::patches::Patch;
use crate::session::{RunError, Session};
use crate::workload::{Layer, Layers, Workload};

const SPEC: &TransposedSpec = &TransposedSpec {
    blocks: 8,
    tokens: 2048,
    width: 4096,
};

impl System {
    /// Blocks that save an activation and its transpose.
    pub const TRANSPOSED_VIEWS: &'static System = &System {
        base: Base::MsSwift,
        has_layers: true,
        applies: |patch| patch == Patch::DISTINGUISH_VIEWS,
        published: published_of,
        ..System::new(
            "transposed-views",
            "Blocks that save a square activation and its transpose: two views that begin at \
             one place.",
            SPEC,
        )
    };
}

/// The only published numbers are those of a test.
fn published_of(patches: &[&'static Patch]) -> Option<Evidence> {
    let said = match patches {
        [] => "a square transpose silently uses the wrong activations in backward",
        [Patch::DISTINGUISH_VIEWS] => "all gradients equal those of eager over three updates",
        _ => return None,
    };
    Some(statement("ms-swift #10157", said))
}

/// The numbers of the blocks.
#[derive(Debug, Clone, Copy)]
struct TransposedSpec {
    blocks: u64,
    /// Rows and columns of the activation that is multiplied by its transpose.
    tokens: u64,
    width: u64,
}

impl Spec for TransposedSpec {
    fn inputs(&self) -> Vec<BenchInput> {
        let TransposedSpec {
            blocks,
            tokens,
            width,
        } = self;
        vec![
            assumed(
                "blocks",
                format!(
                    "{blocks} blocks of width {width}, bf16, all parameters trained, no \
                     checkpoints; each is a layer that FSDP wraps, on one rank"
                ),
            ),
            assumed("tokens a sample", tokens.to_string()),
            published("saved", "a square activation and its transpose"),
        ]
    }

    fn build(&self, _: &[&'static Patch], s: &mut Session) -> Result<Box<dyn Workload>, RunError> {
        let tokens = self.tokens;
        let layer = Layer {
            input: vec![tokens, self.width],
            up: [tokens, self.width],
            between: Box::new(move |s, h| by_its_transpose(s, h, tokens)),
            down: [self.width, tokens],
        };
        Ok(Box::new(Layers::new(s, self.blocks, layer)?))
    }
}

/// `h @ h.t()`.
fn by_its_transpose(s: &mut Session, h: Tensor, tokens: u64) -> Result<Tensor, RunError> {
    let transposed = s.transpose(&h)?;
    let alike = s.batched(&h, &transposed, &[tokens, tokens])?;
    drop((h, transposed));
    Ok(alike)
}

/// Checks that its numbers are used.
#[cfg(test)]
pub(super) fn check_shown() {
    super::shown::is_computed_with(
        SPEC,
        &[
            (&["blocks"], |s| s.blocks += 1),
            (&["blocks"], |s| s.width *= 2),
            (&["tokens a sample"], |s| s.tokens *= 2),
        ],
    );
}
