//! AdamW in its multi-tensor form: two states for each parameter, and a list of temporaries.

use super::Visit;
use crate::autograd::Tensor;
use crate::memory::Role;
use crate::session::{RunError, Session};
use crate::tensor::DType;

/// The optimizer.
pub struct AdamW {
    parameters: Vec<Tensor>,
    /// First and second moment of each parameter, from the first step on.
    moments: Vec<[Tensor; 2]>,
}

impl AdamW {
    /// An optimizer without state.
    pub fn new(parameters: Vec<Tensor>) -> AdamW {
        AdamW {
            parameters,
            moments: Vec::new(),
        }
    }

    /// One update.
    ///
    /// # Errors
    /// Out of memory.
    pub fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        if self.moments.is_empty() {
            for parameter in &self.parameters {
                let state = |s: &mut Session| {
                    s.empty_as(parameter.shape(), DType::Float32, Role::OptimizerState)
                };
                let (first, second) = (state(s)?, state(s)?);
                self.moments.push([first, second]);
            }
        }
        let mut roots = Vec::with_capacity(self.parameters.len());
        for (parameter, [first, second]) in self.parameters.iter().zip(&self.moments) {
            let root = s.empty(parameter.shape(), DType::Float32)?;
            s.kernel_over(&[second, first], &[&root, parameter])?;
            roots.push(root);
        }
        Ok(())
    }

    /// Shows its states, numbered like the parameters.
    pub(crate) fn visit(&self, visit: &mut Visit<'_>) {
        for (index, [first, second]) in self.moments.iter().enumerate() {
            visit(&format!("optimizer.state[{index}].exp_avg"), first);
            visit(&format!("optimizer.state[{index}].exp_avg_sq"), second);
        }
    }

    /// `zero_grad(set_to_none=True)`.
    pub fn zero_grad(&self) {
        for parameter in &self.parameters {
            parameter.set_grad(None);
        }
    }
}
