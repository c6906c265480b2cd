//! The text model of Qwen3.5: gated delta nets, with full attention in every fourth layer.

use std::rc::Rc;

use super::delta_net::DeltaRule;
use super::lora::LoraLinear;
use super::{BF16, F32, Visit};
use crate::autograd::{Region, Tensor};
use crate::ops::Nf4Weight;
use crate::session::{RunError, Session};
use crate::tensor::DType;
use trace::units::DeviceAddr;

/// Dimensions of the text model.
#[derive(Debug, Clone, Copy)]
pub struct TextConfig {
    /// Layers; in every group of four, the last one has full attention.
    pub layers: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Width inside the MLP.
    pub intermediate: u64,
    /// Entries of the vocabulary.
    pub vocab: u64,
    /// Query heads of full attention.
    pub heads: u64,
    /// Key and value heads of full attention.
    pub kv_heads: u64,
    /// Width of a head of full attention.
    pub head_width: u64,
    /// How much of a head rotary embedding rotates.
    pub rotary_width: u64,
    /// Key heads of linear attention.
    pub linear_key_heads: u64,
    /// Value heads of linear attention.
    pub linear_value_heads: u64,
    /// Width of a head of linear attention.
    pub linear_width: u64,
    /// Taps of the causal convolution.
    pub conv_taps: u64,
    /// Rank of the LoRA adapters.
    pub lora_rank: u64,
    /// Tokens of a sample.
    pub tokens: u64,
}

struct Norm {
    weight: Tensor,
}

impl Norm {
    fn new(s: &mut Session, width: u64) -> Result<Norm, RunError> {
        Ok(Norm {
            weight: s.frozen(&[width], BF16)?,
        })
    }

    /// `Qwen3_5RMSNorm`: in fp32, with a weight near 1.
    fn forward(&self, s: &mut Session, x: &Tensor) -> Result<Tensor, RunError> {
        let dtype = x.dtype();
        let wide = s.cast(x, F32)?;
        let squares = s.square(&wide)?;
        let mean = s.mean_last(&squares)?;
        drop(squares);
        let shifted = s.add_number(&mean)?;
        drop(mean);
        let inverse = s.rsqrt(&shifted)?;
        drop(shifted);
        let normed = s.mul(&wide, &inverse)?;
        drop(inverse);
        drop(wide);
        let weight = s.cast(&self.weight, F32)?;
        let factor = s.add_number(&weight)?;
        drop(weight);
        let out = s.mul(&normed, &factor)?;
        drop(factor);
        drop(normed);
        s.cast(&out, dtype)
    }
}

struct DeltaNet {
    qkv: LoraLinear,
    z: LoraLinear,
    b: Nf4Weight,
    a: Nf4Weight,
    conv: Tensor,
    decay_log: Tensor,
    time_bias: Tensor,
    norm: Tensor,
    out: LoraLinear,
}

struct Attention {
    q: LoraLinear,
    k: LoraLinear,
    v: LoraLinear,
    q_norm: Norm,
    k_norm: Norm,
    out: LoraLinear,
}

enum Mixer {
    Linear(DeltaNet),
    Full(Attention),
}

struct Mlp {
    gate: LoraLinear,
    up: LoraLinear,
    down: LoraLinear,
}

struct Layer {
    config: TextConfig,
    mixer: Mixer,
    mlp: Mlp,
    before: Norm,
    between: Norm,
}

/// The text model with its embedding and head.
pub struct TextModel {
    config: TextConfig,
    layers: Vec<Rc<Layer>>,
    norm: Norm,
    embedding: Tensor,
    head: Tensor,
}

impl DeltaNet {
    fn new(s: &mut Session, c: &TextConfig) -> Result<DeltaNet, RunError> {
        let keys = c.linear_key_heads * c.linear_width;
        let values = c.linear_value_heads * c.linear_width;
        let rank = c.lora_rank;
        let channels = 2 * keys + values;
        Ok(DeltaNet {
            qkv: LoraLinear::new(s, channels, c.hidden, rank)?,
            z: LoraLinear::new(s, values, c.hidden, rank)?,
            b: Nf4Weight::new(s, c.linear_value_heads, c.hidden)?,
            a: Nf4Weight::new(s, c.linear_value_heads, c.hidden)?,
            conv: s.frozen(&[channels, 1, c.conv_taps], BF16)?,
            decay_log: s.frozen(&[c.linear_value_heads], BF16)?,
            time_bias: s.frozen(&[c.linear_value_heads], BF16)?,
            norm: s.frozen(&[c.linear_width], BF16)?,
            out: LoraLinear::new(s, c.hidden, values, rank)?,
        })
    }

    fn forward(&self, s: &mut Session, c: &TextConfig, x: &Tensor) -> Result<Tensor, RunError> {
        let (tokens, heads, width) = (c.tokens, c.linear_value_heads, c.linear_width);
        let mixed = self.qkv.forward(s, x)?;
        let z = self.z.forward(s, x)?;
        let b = s.matmul4bit(x, &self.b)?;
        let a = s.matmul4bit(x, &self.a)?;
        let mixed = self.convolve(s, c, mixed)?;
        let keys = c.linear_key_heads * width;
        let parts = s.split_last(&mixed, &[keys, keys, heads * width])?;
        let [query, key, value] =
            <[Tensor; 3]>::try_from(parts).map_err(|_| RunError::NoGradient)?;
        let shape = [1, tokens, heads, width];
        let value = s.reshape(&value, &shape)?;
        let beta = s.sigmoid(&b)?;
        let decay = self.decay(s, &a)?;
        let query = s.repeat_to(&query, &shape)?;
        let key = s.repeat_to(&key, &shape)?;
        let rule = DeltaRule {
            tokens,
            heads,
            key_width: width,
            value_width: width,
        };
        let core = rule.forward(s, [&query, &key, &value], &decay, &beta)?;
        let gated = self.gated_norm(s, c, core, &z)?;
        let flat = s.view(&gated, &[1, tokens, heads * width])?;
        drop(gated);
        let out = self.out.forward(s, &flat)?;
        drop((z, b, a, query, key, mixed, value, beta, decay, flat));
        Ok(out)
    }

    fn convolve(&self, s: &mut Session, c: &TextConfig, mixed: Tensor) -> Result<Tensor, RunError> {
        let channels = mixed.shape().at(2);
        let transposed = s.view(&mixed, &[1, channels, c.tokens])?;
        let padded = s.conv1d_depthwise(&transposed, &self.conv, c.conv_taps)?;
        let causal = s.part(&padded, &[1, channels, c.tokens], 0)?;
        drop(padded);
        let active = s.silu(&causal)?;
        drop(causal);
        let out = s.view(&active, &[1, c.tokens, channels])?;
        drop((transposed, mixed));
        Ok(out)
    }

    /// `-exp(A_log.float()) * softplus(a.float() + dt_bias)`.
    fn decay(&self, s: &mut Session, a: &Tensor) -> Result<Tensor, RunError> {
        let log = s.cast(&self.decay_log, F32)?;
        let rate = s.exp(&log)?;
        drop(log);
        let negative = s.neg(&rate)?;
        drop(rate);
        let wide = s.cast(a, F32)?;
        let shifted = s.add(&wide, &self.time_bias)?;
        drop(wide);
        let positive = s.softplus(&shifted)?;
        drop(shifted);
        let out = s.mul(&negative, &positive)?;
        drop(negative);
        drop(positive);
        Ok(out)
    }

    /// `Qwen3_5RMSNormGated`.
    fn gated_norm(
        &self,
        s: &mut Session,
        c: &TextConfig,
        core: Tensor,
        z: &Tensor,
    ) -> Result<Tensor, RunError> {
        let shape = [c.tokens * c.linear_value_heads, c.linear_width];
        let flat = s.view(&core, &shape)?;
        let z = s.view(z, &shape)?;
        let wide = s.cast(&flat, F32)?;
        let squares = s.square(&wide)?;
        let variance = s.mean_last(&squares)?;
        drop(squares);
        let shifted = s.add_number(&variance)?;
        let inverse = s.rsqrt(&shifted)?;
        drop(shifted);
        let normed = s.mul(&wide, &inverse)?;
        drop(inverse);
        drop(wide);
        let narrow = s.cast(&normed, BF16)?;
        let weighted = s.mul(&self.norm, &narrow)?;
        drop(narrow);
        drop(normed);
        let gate = s.cast(&z, F32)?;
        let open = s.silu(&gate)?;
        drop(gate);
        let gated = s.mul(&weighted, &open)?;
        drop(open);
        drop(weighted);
        let out = s.cast(&gated, BF16)?;
        drop(gated);
        drop(variance);
        drop((flat, core));
        Ok(out)
    }

    fn adapters(&self) -> Vec<&LoraLinear> {
        vec![&self.qkv, &self.z, &self.out]
    }

    fn visit(&self, name: &str, visit: &mut Visit<'_>) {
        self.qkv.visit(&format!("{name}.in_proj_qkv"), visit);
        self.z.visit(&format!("{name}.in_proj_z"), visit);
        self.out.visit(&format!("{name}.out_proj"), visit);
        for (part, weight) in [("in_proj_b", &self.b), ("in_proj_a", &self.a)] {
            for (piece, tensor) in weight.named() {
                visit(&format!("{name}.{part}.{piece}"), tensor);
            }
        }
        visit(&format!("{name}.conv1d.weight"), &self.conv);
        visit(&format!("{name}.A_log"), &self.decay_log);
        visit(&format!("{name}.dt_bias"), &self.time_bias);
        visit(&format!("{name}.norm.weight"), &self.norm);
    }
}

impl Attention {
    fn new(s: &mut Session, c: &TextConfig) -> Result<Attention, RunError> {
        let (hidden, rank) = (c.hidden, c.lora_rank);
        Ok(Attention {
            // Twice the width, because the second half is a gate for the output.
            q: LoraLinear::new(s, 2 * c.heads * c.head_width, hidden, rank)?,
            k: LoraLinear::new(s, c.kv_heads * c.head_width, hidden, rank)?,
            v: LoraLinear::new(s, c.kv_heads * c.head_width, hidden, rank)?,
            q_norm: Norm::new(s, c.head_width)?,
            k_norm: Norm::new(s, c.head_width)?,
            out: LoraLinear::new(s, hidden, c.heads * c.head_width, rank)?,
        })
    }

    fn forward(
        &self,
        s: &mut Session,
        c: &TextConfig,
        x: &Tensor,
        [cos, sin]: &[Tensor; 2],
    ) -> Result<Tensor, RunError> {
        let (tokens, width) = (c.tokens, c.head_width);
        let (query, gate) = {
            let both = self.q.forward(s, x)?;
            let both = s.view(&both, &[1, tokens, c.heads, 2 * width])?;
            let parts = s.split_last(&both, &[width, width])?;
            let [query, gate] = <[Tensor; 2]>::try_from(parts).map_err(|_| RunError::NoGradient)?;
            let gate = s.contiguous(&gate)?;
            (query, s.view(&gate, &[1, tokens, c.heads * width])?)
        };
        let query = self.q_norm.forward(s, &query)?;
        let query = s.view(&query, &[1, c.heads, tokens, width])?;
        let key = {
            let raw = self.k.forward(s, x)?;
            let raw = s.reshape(&raw, &[1, tokens, c.kv_heads, width])?;
            self.k_norm.forward(s, &raw)?
        };
        let key = s.view(&key, &[1, c.kv_heads, tokens, width])?;
        let value = {
            let raw = self.v.forward(s, x)?;
            s.view(&raw, &[1, c.kv_heads, tokens, width])?
        };
        let rotary = [cos, sin];
        let (query, key) = turn_both(s, c, query, key, rotary)?;
        let attended = {
            let out = s.attention(&query, &key, &value)?;
            s.contiguous(&out)?
        };
        let attended = s.view(&attended, &[1, tokens, c.heads * width])?;
        let open = s.sigmoid(&gate)?;
        let gated = s.mul(&attended, &open)?;
        drop(open);
        drop(attended);
        let out = self.out.forward(s, &gated)?;
        drop((gated, query, gate, key, value));
        Ok(out)
    }

    fn adapters(&self) -> Vec<&LoraLinear> {
        vec![&self.q, &self.k, &self.v, &self.out]
    }

    fn visit(&self, name: &str, visit: &mut Visit<'_>) {
        let parts = [
            ("q_proj", &self.q),
            ("k_proj", &self.k),
            ("v_proj", &self.v),
            ("o_proj", &self.out),
        ];
        for (part, linear) in parts {
            linear.visit(&format!("{name}.{part}"), visit);
        }
        visit(&format!("{name}.q_norm.weight"), &self.q_norm.weight);
        visit(&format!("{name}.k_norm.weight"), &self.k_norm.weight);
    }
}

/// `apply_rotary_pos_emb`: the first part of each head is rotated, and the rest stays.
fn turn_both(
    s: &mut Session,
    c: &TextConfig,
    query: Tensor,
    key: Tensor,
    rotary: [&Tensor; 2],
) -> Result<(Tensor, Tensor), RunError> {
    let rest = c.head_width - c.rotary_width;
    let halves = |s: &mut Session, x: &Tensor| -> Result<[Tensor; 2], RunError> {
        let heads = x.shape().at(1);
        let turned = s.part(x, &[1, heads, c.tokens, c.rotary_width], 0)?;
        Ok([
            turned,
            s.part(x, &[1, heads, c.tokens, rest], c.rotary_width)?,
        ])
    };
    let [query_rotary, query_rest] = halves(s, &query)?;
    let [key_rotary, key_rest] = halves(s, &key)?;
    let query_turned = turn(s, c, &query_rotary, rotary)?;
    let key_turned = turn(s, c, &key_rotary, rotary)?;
    let query_joined = s.cat_last(&[&query_turned, &query_rest])?;
    drop(query_turned);
    let key_joined = s.cat_last(&[&key_turned, &key_rest])?;
    drop(key_turned);
    drop((query_rotary, query_rest, key_rotary, key_rest));
    drop((query, key));
    Ok((query_joined, key_joined))
}

/// `x * cos + rotate_half(x) * sin`.
fn turn(
    s: &mut Session,
    c: &TextConfig,
    x: &Tensor,
    [cos, sin]: [&Tensor; 2],
) -> Result<Tensor, RunError> {
    let (heads, half) = (x.shape().at(1), c.rotary_width / 2);
    let straight = s.mul(x, cos)?;
    let turned = {
        let lower = s.part(x, &[1, heads, c.tokens, half], 0)?;
        let upper = s.part(x, &[1, heads, c.tokens, half], half)?;
        let negative = s.neg(&upper)?;
        s.cat_last(&[&negative, &lower])?
    };
    let across = s.mul(&turned, sin)?;
    drop(turned);
    s.add(&straight, &across)
}

impl Mlp {
    fn new(s: &mut Session, c: &TextConfig) -> Result<Mlp, RunError> {
        Ok(Mlp {
            gate: LoraLinear::new(s, c.intermediate, c.hidden, c.lora_rank)?,
            up: LoraLinear::new(s, c.intermediate, c.hidden, c.lora_rank)?,
            down: LoraLinear::new(s, c.hidden, c.intermediate, c.lora_rank)?,
        })
    }

    fn forward(&self, s: &mut Session, x: &Tensor) -> Result<Tensor, RunError> {
        let product = {
            let active = {
                let gate = self.gate.forward(s, x)?;
                s.silu(&gate)?
            };
            let up = self.up.forward(s, x)?;
            s.mul(&active, &up)?
        };
        self.down.forward(s, &product)
    }

    fn adapters(&self) -> Vec<&LoraLinear> {
        vec![&self.gate, &self.up, &self.down]
    }
}

impl Layer {
    fn new(s: &mut Session, config: TextConfig, index: u64) -> Result<Layer, RunError> {
        let full = index % 4 == 3;
        let mixer = if full {
            Mixer::Full(Attention::new(s, &config)?)
        } else {
            Mixer::Linear(DeltaNet::new(s, &config)?)
        };
        Ok(Layer {
            config,
            mixer,
            mlp: Mlp::new(s, &config)?,
            before: Norm::new(s, config.hidden)?,
            between: Norm::new(s, config.hidden)?,
        })
    }

    fn forward(
        &self,
        s: &mut Session,
        x: &Tensor,
        rotary: &[Tensor; 2],
    ) -> Result<Tensor, RunError> {
        let mixed = {
            let normed = self.before.forward(s, x)?;
            match &self.mixer {
                Mixer::Linear(net) => net.forward(s, &self.config, &normed)?,
                Mixer::Full(attention) => attention.forward(s, &self.config, &normed, rotary)?,
            }
        };
        let middle = s.add(x, &mixed)?;
        drop(mixed);
        let changed = {
            let normed = self.between.forward(s, &middle)?;
            self.mlp.forward(s, &normed)?
        };
        s.add(&middle, &changed)
    }

    fn adapters(&self) -> Vec<&LoraLinear> {
        let mut all = match &self.mixer {
            Mixer::Linear(net) => net.adapters(),
            Mixer::Full(attention) => attention.adapters(),
        };
        all.extend(self.mlp.adapters());
        all
    }

    fn visit(&self, name: &str, visit: &mut Visit<'_>) {
        match &self.mixer {
            Mixer::Linear(net) => net.visit(&format!("{name}.linear_attn"), visit),
            Mixer::Full(attention) => attention.visit(&format!("{name}.self_attn"), visit),
        }
        let mlp = [
            ("gate_proj", &self.mlp.gate),
            ("up_proj", &self.mlp.up),
            ("down_proj", &self.mlp.down),
        ];
        for (part, linear) in mlp {
            linear.visit(&format!("{name}.mlp.{part}"), visit);
        }
        let norms = [
            ("input_layernorm", &self.before),
            ("post_attention_layernorm", &self.between),
        ];
        for (part, norm) in norms {
            visit(&format!("{name}.{part}.weight"), &norm.weight);
        }
    }
}

impl TextModel {
    /// Allocates the model.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(s: &mut Session, config: TextConfig) -> Result<TextModel, RunError> {
        let embedding = s.frozen(&[config.vocab, config.hidden], BF16)?;
        let mut layers = Vec::new();
        for index in 0..config.layers {
            layers.push(Rc::new(Layer::new(s, config, index)?));
        }
        let norm = Norm::new(s, config.hidden)?;
        let head = s.frozen(&[config.vocab, config.hidden], BF16)?;
        Ok(TextModel {
            config,
            layers,
            norm,
            embedding,
            head,
        })
    }

    /// The tensors that the optimizer updates, in module order.
    pub fn trained(&self) -> Vec<Tensor> {
        let adapters = self.layers.iter().flat_map(|layer| layer.adapters());
        adapters.flat_map(LoraLinear::trained).cloned().collect()
    }

    /// Shows every weight with its name in transformers.
    pub(crate) fn visit(&self, visit: &mut Visit<'_>) {
        visit("embed_tokens.weight", &self.embedding);
        for (index, layer) in self.layers.iter().enumerate() {
            layer.visit(&format!("layers.{index}"), visit);
        }
        visit("norm.weight", &self.norm.weight);
        visit("lm_head.weight", &self.head);
    }

    /// Base addresses of all parameters.
    pub fn param_storages(&self) -> Vec<DeviceAddr> {
        let adapters = self.layers.iter().flat_map(|layer| layer.adapters());
        let tensors = adapters.flat_map(LoraLinear::tensors);
        tensors
            .chain([&self.embedding, &self.head, &self.norm.weight])
            .map(|tensor| tensor.storage().start())
            .collect()
    }

    /// Token embedding, as a leaf that requires grad (`enable_input_require_grads`).
    ///
    /// # Errors
    /// Out of memory.
    pub fn embed(&self, s: &mut Session) -> Result<Tensor, RunError> {
        let out = s.empty(&[1, self.config.tokens, self.config.hidden], BF16)?;
        s.initialise(&out)?;
        Ok(s.leaf_over(&out))
    }

    /// Position embeddings of the step: cosines and sines in bf16.
    ///
    /// # Errors
    /// Out of memory.
    pub fn rotary(&self, s: &mut Session) -> Result<[Tensor; 2], RunError> {
        let (tokens, width) = (self.config.tokens, self.config.rotary_width);
        let positions = s.empty(&[3, tokens], F32)?;
        let angles = [3, tokens, width / 2];
        let frequencies = s.empty(&angles, F32)?;
        // Cosine and sine are each computed and then scaled.
        let scaled = |s: &mut Session| -> Result<Tensor, RunError> {
            let _plain = s.empty(&angles, F32)?;
            s.empty(&angles, F32)
        };
        let cos = scaled(s)?;
        let sin = scaled(s)?;
        let cos_joined = s.empty(&[tokens, width], F32)?;
        drop(sin);
        let sin_joined = s.empty(&[tokens, width], F32)?;
        drop(cos);
        let shape = [1, 1, tokens, width];
        let narrow = [s.empty(&shape, BF16)?, s.empty(&shape, BF16)?];
        drop((positions, frequencies, sin_joined, cos_joined));
        Ok(narrow)
    }

    /// All layers, each under a checkpoint, and the final norm.
    ///
    /// # Errors
    /// Out of memory, or a hook that fails.
    pub fn layers(
        &self,
        s: &mut Session,
        x: Tensor,
        rotary: &[Tensor; 2],
    ) -> Result<Tensor, RunError> {
        let mut x = x;
        for (index, layer) in self.layers.iter().enumerate() {
            let before = s.accelerator.enter_site(&format!("layers.{index}"));
            // Keyword arguments stay with the function and are not among the saved inputs.
            let (run, captured) = (Rc::clone(layer), rotary);
            let rotary = rotary.clone();
            let region: Region = Rc::new(move |s: &mut Session, inputs: &[Tensor]| {
                run.forward(s, &inputs[0], &rotary)
            });
            x = s.checkpoint_with(region, std::slice::from_ref(&x), captured)?;
            s.accelerator.restore_site(before);
        }
        self.norm.forward(s, &x)
    }

    /// Logits and cross-entropy over shifted labels; the head runs under a `NoOpManager`.
    ///
    /// # Errors
    /// Out of memory, or a hook that fails.
    pub fn loss(
        &self,
        s: &mut Session,
        hidden: Tensor,
        labels: &Tensor,
    ) -> Result<Tensor, RunError> {
        let logits = s.without_offload(|s| s.linear(&hidden, &self.head))?;
        let wide = s.cast(&logits, F32)?;
        let padded = s.empty(&[1, labels.elements() + 1], DType::Int64)?;
        s.initialise(&padded)?;
        let target = s.part(&padded, &[labels.elements()], 1)?;
        drop(padded);
        let flat = s.view(&wide, &[self.config.tokens, self.config.vocab])?;
        let log = s.log_softmax(&flat)?;
        let loss = s.nll_loss(&log, &target)?;
        drop((flat, wide));
        drop(hidden);
        drop(logits);
        drop((log, target));
        Ok(loss)
    }
}
