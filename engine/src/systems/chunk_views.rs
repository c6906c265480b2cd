//! Gated blocks that save both halves of a `chunk`: views of one storage, the second one from the
//! middle on. Before #5694 the second half cannot be restored; since then the halves are copied.

use api::bench::{BenchInput, Evidence};

use super::evidence::{MeasuredCode, real_crash, real_run};
use super::{Spec, System, assumed, source};
use crate::autograd::Tensor;
use crate::patches::Patch;
use crate::session::{RunError, Session};
use crate::workload::{Layer, Layers, Workload};

const SPEC: &ChunkViewsSpec = &ChunkViewsSpec {
    blocks: 8,
    tokens: 2048,
    width: 2048,
    inner: 4096,
};

impl System {
    /// Gated blocks that save both halves of a chunk.
    pub const CHUNK_VIEWS: &'static System = &System {
        has_layers: true,
        applies: |patch| {
            matches!(
                patch,
                Patch::PACK_CONTIGUOUS | Patch::COMPUTE_STREAM_CLONE | Patch::CLONE_BEFORE_WAIT
            )
        },
        combination: &[Patch::PACK_CONTIGUOUS, Patch::CLONE_BEFORE_WAIT],
        measured,
        ..System::new(
            "chunk-views",
            "Gated blocks that save both halves of a chunk: views that start in the middle of \
             their storage.",
            SPEC,
        )
    };
}

/// The measurement only noted whether it raised.
fn measured(code: MeasuredCode) -> Option<Evidence> {
    let command = "a small program that saves chunk, transpose and expand views";
    match code {
        MeasuredCode::Trl029 => {
            let crash = "setStorage out of bounds, with and without streams";
            Some(real_crash(command, crash))
        }
        MeasuredCode::Trl18 | MeasuredCode::Trl114 => Some(Evidence {
            note: Some("it runs to its end".to_owned()),
            ..real_run(command)
        }),
        _ => None,
    }
}

/// The numbers of the blocks.
#[derive(Debug, Clone, Copy)]
struct ChunkViewsSpec {
    blocks: u64,
    tokens: u64,
    width: u64,
    inner: u64,
}

impl Spec for ChunkViewsSpec {
    fn inputs(&self) -> Vec<BenchInput> {
        let ChunkViewsSpec {
            blocks,
            tokens,
            width,
            inner,
        } = self;
        vec![
            assumed(
                "blocks",
                format!(
                    "{blocks} gated blocks of width {width} and {inner}, bf16, all parameters \
                     trained, no checkpoints"
                ),
            ),
            assumed("tokens a sample", tokens.to_string()),
            source(
                "saved",
                "both halves of up(x).chunk(2, dim=-1), as SwiGLU and GEGLU layers have them",
            ),
        ]
    }

    fn build(&self, _: &[&'static Patch], s: &mut Session) -> Result<Box<dyn Workload>, RunError> {
        let inner = self.inner;
        let layer = Layer {
            input: vec![1, self.tokens, self.width],
            up: [2 * inner, self.width],
            between: Box::new(move |s, both| gated(s, both, inner)),
            down: [self.width, inner],
        };
        Ok(Box::new(Layers::new(s, self.blocks, layer)?))
    }
}

/// `gate, value = both.chunk(2, dim=-1)`, then `silu(gate) * value`.
fn gated(s: &mut Session, both: Tensor, inner: u64) -> Result<Tensor, RunError> {
    let halves = s.split_last(&both, &[inner, inner])?;
    drop(both);
    let gate = s.silu(&halves[0])?;
    let gated = s.mul(&gate, &halves[1])?;
    drop((gate, halves));
    Ok(gated)
}

/// Checks that its numbers are used.
#[cfg(test)]
pub(super) fn check_shown() {
    super::shown::is_computed_with(
        SPEC,
        &[
            (&["blocks"], |s| s.blocks += 1),
            (&["blocks"], |s| s.width *= 2),
            (&["blocks"], |s| s.inner *= 2),
            (&["tokens a sample"], |s| s.tokens *= 2),
        ],
    );
}
