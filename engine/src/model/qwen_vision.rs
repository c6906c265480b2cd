//! The vision tower of Qwen3.5: frozen, not quantised, with every block under a checkpoint.

use std::rc::Rc;

use super::{BF16, F32, Visit};
use crate::autograd::{Region, Tensor};
use crate::session::{RunError, Session};
use crate::tensor::DType;
use trace::units::DeviceAddr;

/// Dimensions of the tower.
#[derive(Debug, Clone, Copy)]
pub struct VisionConfig {
    /// Blocks.
    pub blocks: u64,
    /// Width.
    pub hidden: u64,
    /// Width inside the MLP.
    pub intermediate: u64,
    /// Attention heads.
    pub heads: u64,
    /// Side of a patch, in pixels.
    pub patch: u64,
    /// Rows of the position table.
    pub positions: u64,
    /// Side of the square of patches that becomes one token.
    pub merge: u64,
    /// Side of an image, in pixels.
    pub image: u64,
    /// Width of the text model.
    pub out: u64,
}

/// Colours of a pixel.
const CHANNELS: u64 = 3;
/// How many frames a patch has; an image is like a film in which nothing moves.
const FRAMES: u64 = 2;

impl VisionConfig {
    /// Patches of one image.
    pub const fn patches(&self) -> u64 {
        let side = self.image / self.patch;
        side * side
    }

    /// Numbers in one patch.
    pub const fn patch_values(&self) -> u64 {
        CHANNELS * FRAMES * self.patch * self.patch
    }

    /// Patches that become one token.
    pub const fn merged(&self) -> u64 {
        self.merge * self.merge
    }
}

struct Linear {
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    fn new(s: &mut Session, rows: u64, columns: u64) -> Result<Linear, RunError> {
        let weight = s.frozen(&[rows, columns], BF16)?;
        Ok(Linear {
            weight,
            bias: s.frozen(&[rows], BF16)?,
        })
    }
}

struct Block {
    config: VisionConfig,
    qkv: Linear,
    out: Linear,
    up: Linear,
    down: Linear,
    norms: [Tensor; 4],
}

impl Linear {
    fn visit(&self, name: &str, visit: &mut Visit<'_>) {
        visit(&format!("{name}.weight"), &self.weight);
        visit(&format!("{name}.bias"), &self.bias);
    }

    fn forward(&self, s: &mut Session, x: &Tensor) -> Result<Tensor, RunError> {
        s.linear_bias(x, &self.weight, &self.bias)
    }
}

/// The tower.
pub struct VisionTower {
    config: VisionConfig,
    blocks: Vec<Rc<Block>>,
    patch: Linear,
    positions: Tensor,
    merge_in: Linear,
    merge_out: Linear,
    norm: [Tensor; 2],
}

impl Block {
    fn new(s: &mut Session, config: VisionConfig) -> Result<Block, RunError> {
        let (hidden, inner) = (config.hidden, config.intermediate);
        let norm = |s: &mut Session| s.frozen(&[hidden], BF16);
        Ok(Block {
            config,
            norms: [norm(s)?, norm(s)?, norm(s)?, norm(s)?],
            qkv: Linear::new(s, 3 * hidden, hidden)?,
            out: Linear::new(s, hidden, hidden)?,
            up: Linear::new(s, inner, hidden)?,
            down: Linear::new(s, hidden, inner)?,
        })
    }

    fn visit(&self, name: &str, visit: &mut Visit<'_>) {
        let linears = [
            ("attn.qkv", &self.qkv),
            ("attn.proj", &self.out),
            ("mlp.linear_fc1", &self.up),
            ("mlp.linear_fc2", &self.down),
        ];
        for (part, linear) in linears {
            linear.visit(&format!("{name}.{part}"), visit);
        }
        let norms = ["norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"];
        for (part, tensor) in norms.iter().zip(&self.norms) {
            visit(&format!("{name}.{part}"), tensor);
        }
    }

    fn forward(
        &self,
        s: &mut Session,
        x: &Tensor,
        rotary: &[Tensor; 2],
    ) -> Result<Tensor, RunError> {
        let attended = {
            let normed = s.layer_norm(x)?;
            let attended = self.attend(s, &normed, rotary)?;
            drop(normed);
            attended
        };
        let middle = s.add(x, &attended)?;
        drop(attended);
        let changed = {
            let normed = s.layer_norm(&middle)?;
            let active = {
                let wide = self.up.forward(s, &normed)?;
                s.gelu(&wide)?
            };
            let out = self.down.forward(s, &active)?;
            drop(active);
            out
        };
        let out = s.add(&middle, &changed)?;
        drop(changed);
        Ok(out)
    }

    fn attend(
        &self,
        s: &mut Session,
        x: &Tensor,
        rotary: &[Tensor; 2],
    ) -> Result<Tensor, RunError> {
        let c = &self.config;
        let width = c.hidden / c.heads;
        let qkv = self.qkv.forward(s, x)?;
        let shape = [1, c.heads, c.patches(), width];
        let query = s.part(&qkv, &[c.patches(), c.hidden], 0)?;
        let key = s.part(&qkv, &[c.patches(), c.hidden], c.hidden)?;
        let (query, key) = turn_both(s, &query, &key, rotary)?;
        let query = s.view(&query, &shape)?;
        let key = s.view(&key, &shape)?;
        let value = s.part(&qkv, &[c.patches(), c.hidden], 2 * c.hidden)?;
        let value = s.view(&value, &shape)?;
        let lengths = s.empty(&[1], DType::Int32)?;
        let attended = s.attention(&query, &key, &value)?;
        let dense = s.dense(&attended, BF16)?;
        let flat = s.view(&dense, &[c.patches(), c.hidden])?;
        drop(dense);
        let out = self.out.forward(s, &flat)?;
        drop(flat);
        drop((lengths, value, qkv, key, query, attended));
        Ok(out)
    }
}

/// `apply_rotary_pos_emb_vision`: computed in fp32, and cast to bf16 at the end.
fn turn_both(
    s: &mut Session,
    query: &Tensor,
    key: &Tensor,
    rotary: &[Tensor; 2],
) -> Result<(Tensor, Tensor), RunError> {
    let wide_query = s.cast(query, F32)?;
    let wide_key = s.cast(key, F32)?;
    let turned_query = turn(s, &wide_query, rotary)?;
    let turned_key = turn(s, &wide_key, rotary)?;
    let narrow_query = s.cast(&turned_query, BF16)?;
    drop(turned_query);
    let narrow_key = s.cast(&turned_key, BF16)?;
    drop(turned_key);
    drop((wide_query, wide_key));
    Ok((narrow_query, narrow_key))
}

fn turn(s: &mut Session, x: &Tensor, [cos, sin]: &[Tensor; 2]) -> Result<Tensor, RunError> {
    let straight = s.empty(x.shape(), F32)?;
    s.kernel_over(&[x, cos], &[&straight])?;
    let turned = {
        let half = [x.shape().at(0), x.shape().at(1) / 2];
        let upper = s.part(x, &half, half[1])?;
        let lower = s.part(x, &half, 0)?;
        let negative = s.neg(&upper)?;
        s.cat_last(&[&negative, &lower])?
    };
    let across = s.empty(x.shape(), F32)?;
    s.kernel_over(&[&turned, sin], &[&across])?;
    drop(turned);
    let out = s.add(&straight, &across)?;
    drop(straight);
    drop(across);
    Ok(out)
}

impl VisionTower {
    /// Allocates the tower.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(s: &mut Session, config: VisionConfig) -> Result<VisionTower, RunError> {
        let patch = Linear::new(s, config.hidden, config.patch_values())?;
        let positions = s.frozen(&[config.positions, config.hidden], BF16)?;
        let mut blocks = Vec::new();
        for _ in 0..config.blocks {
            blocks.push(Rc::new(Block::new(s, config)?));
        }
        let merged = config.hidden * config.merged();
        let norm = [
            s.frozen(&[config.hidden], BF16)?,
            s.frozen(&[config.hidden], BF16)?,
        ];
        Ok(VisionTower {
            config,
            blocks,
            patch,
            positions,
            merge_in: Linear::new(s, merged, merged)?,
            merge_out: Linear::new(s, config.out, merged)?,
            norm,
        })
    }

    /// Shows every weight with its name in transformers.
    pub(crate) fn visit(&self, visit: &mut Visit<'_>) {
        self.patch.visit("visual.patch_embed.proj", visit);
        visit("visual.pos_embed.weight", &self.positions);
        for (index, block) in self.blocks.iter().enumerate() {
            block.visit(&format!("visual.blocks.{index}"), visit);
        }
        for (part, tensor) in ["weight", "bias"].iter().zip(&self.norm) {
            visit(&format!("visual.merger.norm.{part}"), tensor);
        }
        self.merge_in.visit("visual.merger.linear_fc1", visit);
        self.merge_out.visit("visual.merger.linear_fc2", visit);
    }

    /// Base addresses of the parameters that saved tensors could be views of.
    pub fn param_storages(&self) -> Vec<DeviceAddr> {
        let blocks = self.blocks.iter();
        let linears = blocks.flat_map(|block| [&block.qkv, &block.out, &block.up, &block.down]);
        linears
            .chain([&self.patch, &self.merge_in, &self.merge_out])
            .map(|linear| linear.weight.storage().start())
            .chain([self.positions.storage().start()])
            .collect()
    }

    /// Turns patches into tokens of the text model.
    ///
    /// # Errors
    /// Out of memory, or a hook that fails.
    pub fn forward(&self, s: &mut Session, pixels: &Tensor) -> Result<Tensor, RunError> {
        let c = &self.config;
        let weights = s.empty(&[c.patches(), 4], DType::Int64)?;
        let (x, summed) = self.embed(s, pixels)?;
        let rotary = self.rotary(s)?;
        let mut x = x;
        for (index, block) in self.blocks.iter().enumerate() {
            let before = s.accelerator.enter_site(&format!("visual.blocks.{index}"));
            let (run, captured) = (Rc::clone(block), &rotary);
            let rotary = rotary.clone();
            let region: Region = Rc::new(move |s: &mut Session, inputs: &[Tensor]| {
                run.forward(s, &inputs[0], &rotary)
            });
            x = s.checkpoint_with(region, std::slice::from_ref(&x), captured)?;
            s.accelerator.restore_site(before);
        }
        let out = {
            let normed = s.layer_norm(&x)?;
            let merged = s.view(&normed, &[c.patches() / c.merged(), c.hidden * c.merged()])?;
            let active = {
                let inner = self.merge_in.forward(s, &merged)?;
                s.gelu(&inner)?
            };
            self.merge_out.forward(s, &active)?
        };
        drop((weights, summed, rotary, x));
        Ok(out)
    }

    /// Patch embedding plus interpolated positions. The interpolation's sum lives as long as the
    /// caller's frame.
    fn embed(&self, s: &mut Session, pixels: &Tensor) -> Result<(Tensor, Tensor), RunError> {
        let c = &self.config;
        // A convolution with a stride equal to its size; cuDNN computes it, not cuBLAS.
        let patches = s.empty(&[c.patches(), c.hidden], BF16)?;
        s.kernel_over(&[pixels, &self.patch.weight, &self.patch.bias], &[&patches])?;
        let table = s.empty(&[4, c.patches(), c.hidden], BF16)?;
        let weighted = s.empty(&[4, c.patches(), c.hidden], F32)?;
        drop(table);
        let summed = s.empty(&[c.patches(), c.hidden], F32)?;
        drop(weighted);
        let narrow = s.cast(&summed, BF16)?;
        let x = s.add(&patches, &narrow)?;
        drop(narrow);
        drop(patches);
        Ok((x, summed))
    }

    fn rotary(&self, s: &mut Session) -> Result<[Tensor; 2], RunError> {
        let c = &self.config;
        let width = c.hidden / c.heads;
        let half = [c.patches(), width / 2];
        let positions = s.empty(&[c.patches(), 2], F32)?;
        let angles = s.empty(&half, F32)?;
        // Cosine and sine are each computed, scaled, and doubled with a copy.
        let copied = |s: &mut Session, shape: &[u64]| -> Result<Tensor, RunError> {
            let _first = s.empty(&half, F32)?;
            s.empty(shape, F32)
        };
        let cos = copied(s, &half)?;
        let sin = copied(s, &half)?;
        let cos_full = copied(s, &[c.patches(), width])?;
        drop(cos);
        let sin_full = copied(s, &[c.patches(), width])?;
        drop((sin, positions, angles));
        Ok([cos_full, sin_full])
    }
}
