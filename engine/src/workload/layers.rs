//! A row of layers that FSDP would wrap, each `x + down(between(up(x)))`. All weights are trained.

use super::blocks::{Block, Blocks};
use super::{Workload, offloaded_pass};
use crate::autograd::Tensor;
use crate::memory::Role;
use crate::session::{RunError, Session, Unit};
use crate::tensor::DType;

/// What a layer does with the output of `up`. It owns it, because it decides when it is freed.
pub(crate) type Between = Box<dyn Fn(&mut Session, Tensor) -> Result<Tensor, RunError>>;

/// What the layers of a row are like.
pub(crate) struct Layer {
    /// Shape of what goes in and comes out, in bf16.
    pub input: Vec<u64>,
    /// Shape of the weight of the first linear layer.
    pub up: [u64; 2],
    /// What happens between both linear layers.
    pub between: Between,
    /// Shape of the weight of the second linear layer.
    pub down: [u64; 2],
}

/// The row.
pub(crate) struct Layers {
    layer: Layer,
    blocks: Blocks,
}

impl Layers {
    /// Allocates the weights.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn new(s: &mut Session, count: u64, layer: Layer) -> Result<Layers, RunError> {
        s.declare_layers(count);
        let blocks = Blocks::new(s, count, layer.up, layer.down)?;
        Ok(Layers { layer, blocks })
    }

    fn forward(&self, s: &mut Session) -> Result<Tensor, RunError> {
        let mut x = s.empty_as(&self.layer.input, DType::Bfloat16, Role::Input)?;
        s.initialise(&x)?;
        for block in self.blocks.iter() {
            x = s.module(Unit::Layer, x, |s, x| self.layer(s, block, &x))?;
        }
        s.sum(&x)
    }

    fn layer(&self, s: &mut Session, block: &Block, x: &Tensor) -> Result<Tensor, RunError> {
        let up = Unit::Part("up");
        let inner = s.module(up, x.clone(), |s, x| s.linear(&x, &block.up))?;
        let out = s.module(Unit::Part("down"), inner, |s, inner| {
            let inner = (self.layer.between)(s, inner)?;
            s.linear(&inner, &block.down)
        })?;
        s.add(x, &out)
    }
}

impl Workload for Layers {
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
