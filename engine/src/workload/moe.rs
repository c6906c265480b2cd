//! Path 1: a mixture of experts whose checkpointed layers are never recomputed.
//!
//! A `NoOpManager` on every module sits above the checkpoint's own hook, so tensors inside a layer
//! are simply kept, no holder is ever unpacked, and the layer's saved inputs (a dummy and the
//! hidden states) stay in the tracker: 2 entries × 30 layers a micro-batch (docs/scenarios.md,
//! "Mixture of experts").

use std::rc::Rc;

use super::Workload;
use crate::autograd::{Region, Tensor};
use crate::memory::Role;
use crate::model::LoraLinear;
use crate::session::{RunError, Session};
use crate::tensor::DType;

const BF16: DType = DType::Bfloat16;
const LAYERS: u64 = 30;
const HIDDEN: u64 = 2816;
const TOKENS: u64 = 2048;
const HEADS: u64 = 16;
const KV_HEADS: u64 = 8;
const HEAD_WIDTH: u64 = 256;
const DENSE: u64 = 2112;
const EXPERT: u64 = 704;
const ACTIVE_EXPERTS: u64 = 8;
const RANK: u64 = 16;
const MICRO_BATCHES: u64 = 4;
/// Weights that play no part in the growth, bytes.
const OTHER_WEIGHTS: u64 = 15 << 30;

struct Layer {
    query: LoraLinear,
    key: LoraLinear,
    value: LoraLinear,
    out: LoraLinear,
    up: LoraLinear,
    down: LoraLinear,
    expert_in: Tensor,
    expert_out: Tensor,
}

/// The model and its optimizer-free loop.
pub struct Moe {
    layers: Vec<Rc<Layer>>,
    weights: Tensor,
}

impl Layer {
    fn new(s: &mut Session) -> Result<Layer, RunError> {
        let wide = HEADS * HEAD_WIDTH;
        let narrow = KV_HEADS * HEAD_WIDTH;
        Ok(Layer {
            query: LoraLinear::new(s, wide, HIDDEN, RANK)?,
            key: LoraLinear::new(s, narrow, HIDDEN, RANK)?,
            value: LoraLinear::new(s, narrow, HIDDEN, RANK)?,
            out: LoraLinear::new(s, HIDDEN, wide, RANK)?,
            up: LoraLinear::new(s, DENSE, HIDDEN, RANK)?,
            down: LoraLinear::new(s, HIDDEN, DENSE, RANK)?,
            expert_in: s.frozen(&[2 * EXPERT, HIDDEN], BF16)?,
            expert_out: s.frozen(&[HIDDEN, EXPERT], BF16)?,
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
        let normed = norm(s, x)?;
        let query = self.query.forward(s, &normed)?;
        let query = s.view(&query, &[1, HEADS, TOKENS, HEAD_WIDTH])?;
        let key = self.key.forward(s, &normed)?;
        let key = s.view(&key, &[1, KV_HEADS, TOKENS, HEAD_WIDTH])?;
        let value = self.value.forward(s, &normed)?;
        let value = s.view(&value, &[1, KV_HEADS, TOKENS, HEAD_WIDTH])?;
        let attended = s.attention(&query, &key, &value)?;
        let flat = s.view(&attended, &[1, TOKENS, HEADS * HEAD_WIDTH])?;
        drop(attended);
        self.out.forward(s, &flat)
    }

    /// Every token goes through eight experts; their weights are frozen.
    fn experts(&self, s: &mut Session, x: &Tensor) -> Result<Tensor, RunError> {
        let rows = TOKENS * ACTIVE_EXPERTS;
        let routed = s.repeat_to(x, &[1, rows, HIDDEN])?;
        let inner = s.linear(&routed, &self.expert_in)?;
        drop(routed);
        let parts = s.split_last(&inner, &[EXPERT, EXPERT])?;
        drop(inner);
        let active = s.gelu(&parts[0])?;
        let gated = s.mul(&active, &parts[1])?;
        drop((active, parts));
        let out = s.linear(&gated, &self.expert_out)?;
        drop(gated);
        s.repeat_to(&out, &[1, TOKENS, HIDDEN])
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
    /// Allocates the model.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(s: &mut Session) -> Result<Moe, RunError> {
        let weights = s.frozen(&[OTHER_WEIGHTS >> 20, 1 << 20], DType::Uint8)?;
        let mut layers = Vec::new();
        for _ in 0..LAYERS {
            layers.push(Rc::new(Layer::new(s)?));
        }
        let params: Vec<u64> = layers
            .iter()
            .flat_map(|layer| layer.trained().chain([&layer.expert_in, &layer.expert_out]))
            .map(|tensor| tensor.storage().start())
            .collect();
        if let Some(offloader) = s.offloader_mut() {
            offloader.update_model_params(params);
        }
        Ok(Moe { layers, weights })
    }

    fn micro_batch(&self, s: &mut Session) -> Result<(), RunError> {
        let input = s.empty_as(&[1, TOKENS, HIDDEN], BF16, Role::Input)?;
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
        let loss = s.sum(&last)?;
        drop(last);
        s.backward(&loss)
    }
}

impl Workload for Moe {
    fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        for _ in 0..MICRO_BATCHES {
            s.enter();
            let outcome = self.micro_batch(s);
            let left = s.exit();
            outcome?;
            left?;
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
}
