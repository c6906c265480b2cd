//! Blocks that multiply a square activation by its own transpose. Both are saved: two views of one
//! storage with the same start. ms-swift before #10157 gives them one host copy.

use api::bench::{BenchInput, Evidence};

use super::evidence::statement;
use super::{Base, Spec, System, assumed, published};
use crate::autograd::Tensor;
use crate::memory::Role;
use crate::patches::Patch;
use crate::session::{RunError, Session, Unit};
use crate::tensor::DType;
use crate::workload::{Block, Blocks, Workload, offloaded_pass};

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
        s.declare_layers(self.blocks);
        let (up, down) = ([self.tokens, self.width], [self.width, self.tokens]);
        Ok(Box::new(TransposedViews {
            spec: *self,
            blocks: Blocks::new(s, self.blocks, up, down)?,
        }))
    }
}

/// The blocks, one after another.
struct TransposedViews {
    spec: TransposedSpec,
    blocks: Blocks,
}

impl TransposedViews {
    fn forward(&self, s: &mut Session) -> Result<Tensor, RunError> {
        let shape = [self.spec.tokens, self.spec.width];
        let mut x = s.empty_as(&shape, DType::Bfloat16, Role::Input)?;
        s.initialise(&x)?;
        for block in self.blocks.iter() {
            x = s.module(Unit::Layer, x, |s, x| self.block(s, block, &x))?;
        }
        s.sum(&x)
    }

    /// `h = up(x)`, then `x + down(h @ h.t())`.
    fn block(&self, s: &mut Session, block: &Block, x: &Tensor) -> Result<Tensor, RunError> {
        let up = Unit::Part("up");
        let h = s.module(up, x.clone(), |s, x| s.linear(&x, &block.up))?;
        let out = s.module(Unit::Part("down"), h, |s, h| {
            let transposed = s.transpose(&h)?;
            let alike = s.batched(&h, &transposed, &[self.spec.tokens, self.spec.tokens])?;
            drop((h, transposed));
            s.linear(&alike, &block.down)
        })?;
        s.add(x, &out)
    }
}

impl Workload for TransposedViews {
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
                (&["tokens a sample"], |s| s.tokens *= 2),
            ],
        );
    }
}
