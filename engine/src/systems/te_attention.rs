//! Transformer Engine's fused attention in fp8, with DelayedScaling.
//!
//! Query, key, value and output are attributes of the function's context and not saved tensors, so
//! the engine does not release them. They live as long as the graph, and the graph lives as long as
//! the output (docs/scenarios.md, "Tensors kept by contexts").

use api::bench::{BenchInput, Evidence, PublishedOnly};

use super::evidence::{only, statement};
use super::{Base, Spec, System, assumed, source};
use crate::autograd::{CtxLifetime, Tensor};
use crate::patches::Patch;
use crate::session::{RunError, Session};
use crate::tensor::DType;
use crate::workload::Workload;
use trace::units::Bytes;

const SPEC: &TeAttentionSpec = &TeAttentionSpec {
    batch: 32,
    sequence: 1048,
    heads: 16,
    head_width: 128,
    layers: 3,
    build_bytes: Bytes::gib(4),
};

impl System {
    /// Transformer Engine's fused attention with fp8 tensors on the context.
    pub const TE_ATTENTION: &'static System = &System {
        base: Base::Program("transformer-engine before #2772"),
        default_steps: 6,
        applies: |patch| patch == Patch::CLEAR_CTX_TENSORS,
        published: published_runs,
        published_only,
        ..System::new(
            "te-fused-attention-fp8",
            "Transformer Engine's fused attention, which keeps fp8 tensors on the context.",
            SPEC,
        )
    };
}

fn published_runs(patches: &[&'static Patch]) -> Option<Evidence> {
    match patches {
        [] => Some(statement(
            "Transformer Engine issue #1935",
            "1070 MiB allocated after the iteration",
        )),
        [Patch::CLEAR_CTX_TENSORS] => Some(statement(
            "Transformer Engine issue #1935, mended by #2772",
            "284.1 MiB allocated after the iteration",
        )),
        _ => None,
    }
}

fn published_only() -> Vec<PublishedOnly> {
    vec![only(
        "284.1 MiB after the iteration",
        "Transformer Engine issue #1935",
        "depends on the number of GPUs and on workspaces; the difference of 786 MiB is derived",
    )]
}

/// The numbers of the stack.
#[derive(Debug, Clone, Copy)]
struct TeAttentionSpec {
    batch: u64,
    sequence: u64,
    heads: u64,
    head_width: u64,
    layers: u64,
    /// Memory that is allocated and freed while the model is built.
    build_bytes: Bytes,
}

impl Spec for TeAttentionSpec {
    fn inputs(&self) -> Vec<BenchInput> {
        vec![
            source(
                "shape",
                format!(
                    "batch {}, sequence {}, {} heads of {}, {} layers",
                    self.batch, self.sequence, self.heads, self.head_width, self.layers
                ),
            ),
            source("kept on the context", "q, k, v and output in fp8"),
            assumed("everything else", "input and output of the stack in bf16"),
            assumed(
                "building the model",
                format!(
                    "leaves one cached segment of {} GiB",
                    self.build_bytes.0 >> 30
                ),
            ),
        ]
    }

    fn build(
        &self,
        patches: &[&'static Patch],
        _: &mut Session,
    ) -> Result<Box<dyn Workload>, RunError> {
        Ok(Box::new(TeAttention {
            spec: *self,
            lifetime: match patches.contains(&Patch::CLEAR_CTX_TENSORS) {
                true => CtxLifetime::Backward,
                false => CtxLifetime::Node,
            },
            built: false,
            last: None,
        }))
    }
}

/// The stack of attention layers.
struct TeAttention {
    spec: TeAttentionSpec,
    lifetime: CtxLifetime,
    /// Whether the model has been built.
    built: bool,
    /// Output and loss of the last iteration; the script still has variables for them.
    last: Option<[Tensor; 2]>,
}

impl Workload for TeAttention {
    fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        if !self.built {
            // Building and sharding leave memory in the cache, which activations use later.
            drop(s.scratch(self.spec.build_bytes)?);
            self.built = true;
        }
        let spec = self.spec;
        let shape = [spec.sequence, spec.batch, spec.heads * spec.head_width];
        let input = s.empty(&shape, DType::Bfloat16)?;
        let leaf = s.leaf_over(&input);
        drop(input);
        let mut x = leaf.clone();
        for _ in 0..spec.layers {
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
            (&["shape"], |s| s.batch *= 2),
            (&["shape"], |s| s.sequence *= 2),
            (&["shape"], |s| s.heads *= 2),
            (&["shape"], |s| s.head_width *= 2),
            (&["shape"], |s| s.layers += 1),
            (&["building the model"], |s| {
                s.build_bytes = s.build_bytes * 4
            }),
        ],
    );
}
