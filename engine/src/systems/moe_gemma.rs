//! Path 1: a mixture of experts whose checkpointed layers are never recomputed.
//!
//! Every module has a `NoOpManager`, which is above the checkpoint's own hook. So tensors in a
//! layer are simply kept, and no holder is ever unpacked. The saved inputs of the layer (a dummy
//! and the hidden states) stay in the tracker: 2 entries × 30 layers for each micro-batch
//! (docs/scenarios.md, "Mixture of experts").

use std::rc::Rc;

use api::bench::{BenchInput, Evidence, PublishedOnly};

use super::evidence::{only, statement};
use super::{Spec, System, assumed, published, qwen, source};
use crate::autograd::{Region, Tensor};
use crate::memory::Role;
use crate::model::LoraLinear;
use crate::patches::Patch;
use crate::session::{RunError, Session};
use crate::tensor::DType;
use crate::workload::{Workload, declare_parameters, offloaded_pass};

const BF16: DType = DType::Bfloat16;

const SPEC: &MoeSpec = &MoeSpec {
    layers: 30,
    hidden: 2816,
    tokens: 2048,
    heads: 16,
    kv_heads: 8,
    head_width: 256,
    dense: 2112,
    expert: 704,
    active_experts: 8,
    lora_rank: 16,
    micro_batches: 4,
    other_weights: 15 << 30,
};

impl System {
    /// Mixture of experts whose checkpoints are never recomputed (path 1).
    pub const MOE_GEMMA: &'static System = &System {
        default_steps: 20,
        applies: qwen::touches_trl_029,
        combination: &[
            Patch::EXIT_SYNC_AND_CLEAR,
            Patch::PACK_CONTIGUOUS,
            Patch::ENTER_RESET,
        ],
        published: published_runs,
        published_only,
        ..System::new(
            "moe-gemma4-26b",
            "Mixture of experts with packed samples: checkpoints that are never recomputed.",
            SPEC,
        )
    };
}

fn published_runs(patches: &[&'static Patch]) -> Option<Evidence> {
    match patches {
        [] => Some(Evidence {
            growth_per_step: Some(0.8055 * (1u64 << 30) as f64),
            steps: Some(293),
            machine: Some("B300".to_owned()),
            ..statement(
                "axolotl #3638",
                "24 to 260 GiB; packing lengths were not published",
            )
        }),
        [Patch::ENTER_RESET] => Some(statement(
            "TRL #5737",
            "200 steps between 17.73 and 18.76 GiB",
        )),
        _ => None,
    }
}

fn published_only() -> Vec<PublishedOnly> {
    vec![only(
        "about 9 GiB a step, out of memory by step 2",
        "TRL #5737",
        "seven times what all layer inputs amount to: other tensors must have leaked there",
    )]
}

/// The numbers of the model and its loop.
#[derive(Debug, Clone, Copy)]
struct MoeSpec {
    layers: u64,
    hidden: u64,
    /// Tokens of a micro-batch.
    tokens: u64,
    heads: u64,
    kv_heads: u64,
    head_width: u64,
    /// Width inside the dense MLP.
    dense: u64,
    /// Width inside an expert.
    expert: u64,
    /// How many experts each token uses.
    active_experts: u64,
    lora_rank: u64,
    micro_batches: u64,
    /// Weights that have no effect on the growth, bytes.
    other_weights: u64,
}

impl Spec for MoeSpec {
    fn inputs(&self) -> Vec<BenchInput> {
        vec![
            source(
                "dimensions",
                format!(
                    "{} layers, hidden {}, dense {}, experts {}, top {}",
                    self.layers, self.hidden, self.dense, self.expert, self.active_experts
                ),
            ),
            published(
                "sequence",
                format!(
                    "{} tokens, packed, {} micro-batches a step",
                    self.tokens, self.micro_batches
                ),
            ),
            assumed("packing", "every micro-batch has the full length"),
            assumed(
                "weights",
                format!(
                    "one block of {} GiB that plays no part in the growth",
                    self.other_weights >> 30
                ),
            ),
            assumed(
                "saved inside a layer",
                "kept on the device by a NoOpManager on every module",
            ),
        ]
    }

    fn build(&self, _: &[&'static Patch], s: &mut Session) -> Result<Box<dyn Workload>, RunError> {
        Ok(Box::new(Moe::new(s, *self)?))
    }
}

struct Layer {
    spec: MoeSpec,
    query: LoraLinear,
    key: LoraLinear,
    value: LoraLinear,
    out: LoraLinear,
    up: LoraLinear,
    down: LoraLinear,
    expert_in: Tensor,
    expert_out: Tensor,
}

/// The model and its loop, which has no optimizer.
struct Moe {
    spec: MoeSpec,
    layers: Vec<Rc<Layer>>,
    weights: Tensor,
}

impl Layer {
    fn new(s: &mut Session, spec: MoeSpec) -> Result<Layer, RunError> {
        let (hidden, dense, rank) = (spec.hidden, spec.dense, spec.lora_rank);
        let wide = spec.heads * spec.head_width;
        let narrow = spec.kv_heads * spec.head_width;
        Ok(Layer {
            spec,
            query: LoraLinear::new(s, wide, hidden, rank)?,
            key: LoraLinear::new(s, narrow, hidden, rank)?,
            value: LoraLinear::new(s, narrow, hidden, rank)?,
            out: LoraLinear::new(s, hidden, wide, rank)?,
            up: LoraLinear::new(s, dense, hidden, rank)?,
            down: LoraLinear::new(s, hidden, dense, rank)?,
            expert_in: s.frozen(&[2 * spec.expert, hidden], BF16)?,
            expert_out: s.frozen(&[hidden, spec.expert], BF16)?,
        })
    }

    fn linears(&self) -> [(&'static str, &LoraLinear); 6] {
        [
            ("self_attn.q_proj", &self.query),
            ("self_attn.k_proj", &self.key),
            ("self_attn.v_proj", &self.value),
            ("self_attn.o_proj", &self.out),
            ("mlp.up_proj", &self.up),
            ("mlp.down_proj", &self.down),
        ]
    }

    fn trained(&self) -> impl Iterator<Item = &Tensor> {
        let linears = self.linears().into_iter();
        linears.flat_map(|(_, linear)| linear.trained())
    }

    fn visit(&self, name: &str, visit: &mut dyn FnMut(&str, &Tensor)) {
        for (part, linear) in self.linears() {
            linear.visit(&format!("{name}.{part}"), visit);
        }
        visit(&format!("{name}.experts.gate_up_proj"), &self.expert_in);
        visit(&format!("{name}.experts.down_proj"), &self.expert_out);
    }

    fn forward(&self, s: &mut Session, x: &Tensor) -> Result<Tensor, RunError> {
        let attended = self.attend(s, x)?;
        let middle = s.add(x, &attended)?;
        drop(attended);
        let normed = norm(s, &middle)?;
        let dense = {
            let up = self.up.forward(s, &normed)?;
            let active = s.gelu(&up)?;
            drop(up);
            self.down.forward(s, &active)?
        };
        let routed = self.experts(s, &normed)?;
        let both = s.add(&dense, &routed)?;
        s.add(&middle, &both)
    }

    fn attend(&self, s: &mut Session, x: &Tensor) -> Result<Tensor, RunError> {
        let MoeSpec {
            tokens,
            heads,
            kv_heads,
            head_width,
            ..
        } = self.spec;
        let normed = norm(s, x)?;
        let query = self.query.forward(s, &normed)?;
        let query = s.view(&query, &[1, heads, tokens, head_width])?;
        let key = self.key.forward(s, &normed)?;
        let key = s.view(&key, &[1, kv_heads, tokens, head_width])?;
        let value = self.value.forward(s, &normed)?;
        let value = s.view(&value, &[1, kv_heads, tokens, head_width])?;
        let attended = s.attention(&query, &key, &value)?;
        let flat = s.view(&attended, &[1, tokens, heads * head_width])?;
        drop(attended);
        self.out.forward(s, &flat)
    }

    /// Each token uses several experts; their weights are frozen.
    fn experts(&self, s: &mut Session, x: &Tensor) -> Result<Tensor, RunError> {
        let MoeSpec {
            tokens,
            hidden,
            expert,
            ..
        } = self.spec;
        let rows = tokens * self.spec.active_experts;
        let routed = s.repeat_to(x, &[1, rows, hidden])?;
        let inner = s.linear(&routed, &self.expert_in)?;
        drop(routed);
        let parts = s.split_last(&inner, &[expert, expert])?;
        drop(inner);
        let active = s.gelu(&parts[0])?;
        let gated = s.mul(&active, &parts[1])?;
        drop((active, parts));
        let out = s.linear(&gated, &self.expert_out)?;
        drop(gated);
        s.repeat_to(&out, &[1, tokens, hidden])
    }
}

/// RMS norm in fp32.
fn norm(s: &mut Session, x: &Tensor) -> Result<Tensor, RunError> {
    let wide = s.cast(x, DType::Float32)?;
    let squares = s.square(&wide)?;
    let mean = s.mean_last(&squares)?;
    drop(squares);
    let inverse = s.rsqrt(&mean)?;
    drop(mean);
    let normed = s.mul(&wide, &inverse)?;
    drop((wide, inverse));
    s.cast(&normed, x.dtype())
}

impl Moe {
    fn new(s: &mut Session, spec: MoeSpec) -> Result<Moe, RunError> {
        let weights = s.frozen(&[spec.other_weights >> 20, 1 << 20], DType::Uint8)?;
        let mut layers = Vec::new();
        for _ in 0..spec.layers {
            layers.push(Rc::new(Layer::new(s, spec)?));
        }
        let parameters = layers
            .iter()
            .flat_map(|layer| layer.trained().chain([&layer.expert_in, &layer.expert_out]));
        declare_parameters(s, parameters);
        Ok(Moe {
            spec,
            layers,
            weights,
        })
    }

    fn forward(&self, s: &mut Session) -> Result<Tensor, RunError> {
        let shape = [1, self.spec.tokens, self.spec.hidden];
        let input = s.empty_as(&shape, BF16, Role::Input)?;
        s.initialise(&input)?;
        let mut x = s.leaf_over(&input);
        drop(input);
        for layer in &self.layers {
            let run = Rc::clone(layer);
            let region: Region = Rc::new(move |s: &mut Session, inputs: &[Tensor]| {
                s.without_offload(|s| run.forward(s, &inputs[0]))
            });
            x = s.checkpoint(region, std::slice::from_ref(&x))?;
        }
        let last = s.without_offload(|s| norm(s, &x))?;
        drop(x);
        s.sum(&last)
    }
}

impl Workload for Moe {
    fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        for _ in 0..self.spec.micro_batches {
            offloaded_pass(s, |s| self.forward(s))?;
        }
        for tensor in self.layers.iter().flat_map(|layer| layer.trained()) {
            tensor.set_grad(None);
        }
        Ok(())
    }

    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor)) {
        visit("other weights", &self.weights);
        for (index, layer) in self.layers.iter().enumerate() {
            layer.visit(&format!("layers.{index}"), visit);
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
            (&["dimensions"], |s| s.layers += 1),
            (&["dimensions"], |s| s.hidden *= 2),
            (&["dimensions"], |s| s.dense *= 2),
            (&["dimensions"], |s| s.expert *= 2),
            (&["dimensions"], |s| s.active_experts *= 2),
            (&["sequence"], |s| s.tokens *= 2),
            (&["sequence"], |s| s.micro_batches += 1),
            (&["weights"], |s| s.other_weights *= 2),
        ],
    );
}
