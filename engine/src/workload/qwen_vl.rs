//! QLoRA on Qwen3.5-9B: NF4 text model with adapters, frozen vision tower, checkpoints everywhere.
//!
//! The program is the one of docs/measurements.md, "The 9B program": batch 1, forward and backward
//! in the offloader's context, AdamW, gradients set to none.

use super::{Workload, offloaded_pass};
use crate::autograd::Tensor;
use crate::memory::Role;
use crate::model::{AdamW, TextConfig, TextModel, VisionConfig, VisionTower};
use crate::session::{RunError, Session};
use crate::tensor::DType;

/// What the run consists of.
#[derive(Debug, Clone, Copy)]
pub struct QwenVlSpec {
    /// Text model.
    pub text: TextConfig,
    /// Vision tower; it is also loaded if there is only text.
    pub vision: VisionConfig,
    /// What a sample contains.
    pub samples: Samples,
}

/// What a sample contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Samples {
    /// Only tokens.
    Text,
    /// Tokens and an image.
    WithImage,
}

impl QwenVlSpec {
    /// Qwen3.5-9B with samples of 512 tokens; an image of 512 × 512 pixels is 1024 patches.
    pub const fn nine_billion(samples: Samples) -> QwenVlSpec {
        let text = TextConfig {
            layers: 32,
            hidden: 4096,
            intermediate: 12_288,
            vocab: 248_320,
            heads: 16,
            kv_heads: 4,
            head_width: 256,
            rotary_width: 64,
            linear_key_heads: 16,
            linear_value_heads: 32,
            linear_width: 128,
            conv_taps: 4,
            lora_rank: 16,
            tokens: 512,
        };
        let vision = VisionConfig {
            blocks: 27,
            hidden: 1152,
            intermediate: 4304,
            heads: 16,
            patch: 16,
            positions: 2304,
            merge: 2,
            image: 512,
            out: 4096,
        };
        QwenVlSpec {
            text,
            vision,
            samples,
        }
    }

    /// The same with samples of this many tokens.
    pub const fn with_tokens(mut self, tokens: u64) -> QwenVlSpec {
        self.text.tokens = tokens;
        self
    }

    /// Shape of a sample's token ids: the batch, and the tokens of a sample.
    pub const fn ids(&self) -> [u64; 2] {
        [1, self.text.tokens]
    }
}

/// The workload.
pub struct QwenVl {
    spec: QwenVlSpec,
    text: TextModel,
    vision: VisionTower,
    optimizer: AdamW,
}

/// Tensors of one sample.
struct Sample {
    labels: Tensor,
    pixels: Option<Tensor>,
    _others: Vec<Tensor>,
}

impl QwenVl {
    /// Allocates the model and tells the offloader which storages are parameters.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(s: &mut Session, spec: QwenVlSpec) -> Result<QwenVl, RunError> {
        let text = TextModel::new(s, spec.text)?;
        let vision = VisionTower::new(s, spec.vision)?;
        let mut params = text.param_storages();
        params.extend(vision.param_storages());
        if let Some(offloader) = s.offloader_mut() {
            offloader.update_model_params(params);
        }
        let optimizer = AdamW::new(text.trained());
        Ok(QwenVl {
            spec,
            text,
            vision,
            optimizer,
        })
    }

    fn sample(&self, s: &mut Session) -> Result<Sample, RunError> {
        let shape = self.spec.ids();
        let ids = s.empty_as(&shape, DType::Int64, Role::Input)?;
        let labels = s.empty_as(&shape, DType::Int64, Role::Input)?;
        let mut others = vec![ids];
        let mut pixels = None;
        if self.spec.samples == Samples::WithImage {
            let c = &self.spec.vision;
            let shape_of_image = [c.patches(), c.patch_values()];
            pixels = Some(s.empty_as(&shape_of_image, DType::Bfloat16, Role::Input)?);
            others.push(s.empty_as(&[1, 3], DType::Int64, Role::Input)?);
            others.push(s.empty_as(&shape, DType::Int64, Role::Input)?);
        }
        others.push(s.empty_as(&shape, DType::Int64, Role::Input)?);
        for tensor in others.iter().chain([&labels]).chain(&pixels) {
            s.initialise(tensor)?;
        }
        Ok(Sample {
            labels,
            pixels,
            _others: others,
        })
    }

    fn forward(&mut self, s: &mut Session) -> Result<Tensor, RunError> {
        let sample = self.sample(s)?;
        let embedded = self.text.embed(s)?;
        let mut image = None;
        let x = match &sample.pixels {
            None => embedded.clone(),
            Some(pixels) => {
                let tokens = self.vision.forward(s, pixels)?;
                let joined = s.dense(&tokens, DType::Bfloat16)?;
                drop(tokens);
                let mask = s.empty(&[1, self.spec.text.tokens, 1], DType::Bool)?;
                let x = s.masked_scatter(&embedded, &mask, &joined)?;
                image = Some((joined, mask));
                x
            }
        };
        drop(embedded);
        let positions = s.empty(&[3, 1, self.spec.text.tokens], DType::Int64)?;
        let rotary = self.text.rotary(s)?;
        let hidden = self.text.layers(s, x, &rotary)?;
        drop(rotary);
        drop(positions);
        drop(image);
        let loss = self.text.loss(s, hidden, &sample.labels)?;
        drop(sample);
        Ok(loss)
    }
}

impl Workload for QwenVl {
    fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        offloaded_pass(s, |s| self.forward(s))?;
        self.optimizer.step(s)?;
        self.optimizer.zero_grad();
        Ok(())
    }

    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor)) {
        self.text.visit(visit);
        self.vision.visit(visit);
        self.optimizer.visit(visit);
    }

    fn shows_all(&self) -> bool {
        true
    }
}
