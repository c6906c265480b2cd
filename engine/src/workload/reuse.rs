//! A chain of checkpointed blocks with inputs of one size: each address comes back soon.

use std::rc::Rc;

use super::Workload;
use crate::autograd::{Region, Tensor};
use crate::memory::Role;
use crate::session::{RunError, Session};
use crate::tensor::DType;

/// Blocks of the chain.
const BLOCKS: u64 = 32;

/// The chain.
pub struct Reuse {
    weight: Tensor,
}

impl Reuse {
    /// Allocates the only weight.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(s: &mut Session) -> Result<Reuse, RunError> {
        Ok(Reuse {
            weight: s.parameter(&[4096, 4096], DType::Bfloat16)?,
        })
    }

    fn forward(&self, s: &mut Session) -> Result<Tensor, RunError> {
        let input = s.empty_as(&[1, 512, 4096], DType::Bfloat16, Role::Input)?;
        s.initialise(&input)?;
        let mut x = s.leaf_over(&input);
        drop(input);
        for _ in 0..BLOCKS {
            let weight = self.weight.clone();
            let region: Region = Rc::new(move |s: &mut Session, inputs: &[Tensor]| {
                let inner = s.linear(&inputs[0], &weight)?;
                let active = s.gelu(&inner)?;
                drop(inner);
                s.add(&inputs[0], &active)
            });
            x = s.checkpoint(region, std::slice::from_ref(&x))?;
        }
        s.sum(&x)
    }
}

impl Workload for Reuse {
    fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        s.enter();
        let outcome = self.forward(s).and_then(|loss| s.backward(&loss));
        let left = s.exit();
        outcome?;
        left?;
        self.weight.set_grad(None);
        Ok(())
    }

    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor)) {
        visit("weight", &self.weight);
    }
}
