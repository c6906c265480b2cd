//! Gated blocks that save both halves of a `chunk`: views of one storage, the second one from the
//! middle on. Before #5694 the second half cannot be restored; since then the halves are copied.

use api::bench::{BenchInput, Evidence};

use super::evidence::{MeasuredCode, real_crash, real_run};
use super::{Spec, System, assumed, source};
use crate::autograd::Tensor;
use crate::memory::Role;
use crate::patches::Patch;
use crate::session::{RunError, Session, Unit};
use crate::tensor::DType;
use crate::workload::{Block, Blocks, Workload, offloaded_pass};

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
        s.declare_layers(self.blocks);
        let (up, down) = ([2 * self.inner, self.width], [self.width, self.inner]);
        Ok(Box::new(ChunkViews {
            spec: *self,
            blocks: Blocks::new(s, self.blocks, up, down)?,
        }))
    }
}

/// The blocks, one after another.
struct ChunkViews {
    spec: ChunkViewsSpec,
    blocks: Blocks,
}

impl ChunkViews {
    fn forward(&self, s: &mut Session) -> Result<Tensor, RunError> {
        let shape = [1, self.spec.tokens, self.spec.width];
        let mut x = s.empty_as(&shape, DType::Bfloat16, Role::Input)?;
        s.initialise(&x)?;
        for block in self.blocks.iter() {
            x = s.module(Unit::Layer, x, |s, x| self.block(s, block, &x))?;
        }
        s.sum(&x)
    }

    /// `gate, value = up(x).chunk(2, dim=-1)`, then `down(silu(gate) * value)`.
    fn block(&self, s: &mut Session, block: &Block, x: &Tensor) -> Result<Tensor, RunError> {
        let up = Unit::Part("up");
        let both = s.module(up, x.clone(), |s, x| s.linear(&x, &block.up))?;
        let out = s.module(Unit::Part("down"), both, |s, both| {
            let halves = s.split_last(&both, &[self.spec.inner, self.spec.inner])?;
            drop(both);
            let gate = s.silu(&halves[0])?;
            let gated = s.mul(&gate, &halves[1])?;
            drop((gate, halves));
            s.linear(&gated, &block.down)
        })?;
        s.add(x, &out)
    }
}

impl Workload for ChunkViews {
    fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        offloaded_pass(s, |s| self.forward(s))?;
        self.blocks.zero_grad();
        Ok(())
    }

    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor)) {
        self.blocks.visit(["up", "down"], visit);
    }

    fn shows_all(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::shown::is_computed_with;
    use super::*;

    #[test]
    fn what_is_shown_is_computed_with() {
        let spec = *SPEC;
        is_computed_with(
            &spec,
            &[
                (&["blocks"], |s| s.blocks += 1),
                (&["blocks"], |s| s.width *= 2),
                (&["blocks"], |s| s.inner *= 2),
                (&["tokens a sample"], |s| s.tokens *= 2),
            ],
        );
    }
}
