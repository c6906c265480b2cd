//! A quantised linear layer with a LoRA adapter, as in peft.

use super::Visit;
use crate::autograd::Tensor;
use crate::ops::Nf4Weight;
use crate::session::{RunError, Session};
use crate::tensor::DType;

/// `base(x) + B(A(x)) · α/r`; the adapter is in fp32 and is trained.
pub struct LoraLinear {
    base: Nf4Weight,
    a: Tensor,
    b: Tensor,
}

impl LoraLinear {
    /// Allocates base and adapter.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(
        s: &mut Session,
        rows: u64,
        columns: u64,
        rank: u64,
    ) -> Result<LoraLinear, RunError> {
        Ok(LoraLinear {
            base: Nf4Weight::new(s, rows, columns)?,
            a: s.parameter(&[rank, columns], DType::Float32)?,
            b: s.parameter(&[rows, rank], DType::Float32)?,
        })
    }

    /// The trained tensors.
    pub fn trained(&self) -> [&Tensor; 2] {
        [&self.a, &self.b]
    }

    /// Everything it holds.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.base.storages().chain(self.trained())
    }

    /// Shows everything it holds, with its names in peft.
    pub(crate) fn visit(&self, name: &str, visit: &mut Visit<'_>) {
        for (part, tensor) in self.base.named() {
            visit(&format!("{name}.base_layer.{part}"), tensor);
        }
        visit(&format!("{name}.lora_A.weight"), &self.a);
        visit(&format!("{name}.lora_B.weight"), &self.b);
    }

    /// The forward pass; dropout is off.
    ///
    /// # Errors
    /// Out of memory, or a hook that fails.
    pub fn forward(&self, s: &mut Session, x: &Tensor) -> Result<Tensor, RunError> {
        let dtype = x.dtype();
        let result = s.matmul4bit(x, &self.base)?;
        let x = s.cast(x, DType::Float32)?;
        let low = s.linear(&x, &self.a)?;
        let high = s.linear(&low, &self.b)?;
        drop(low);
        let scaled = s.scale(&high)?;
        drop(high);
        let sum = s.add(&result, &scaled)?;
        drop(scaled);
        drop(result);
        let out = s.cast(&sum, dtype)?;
        drop(sum);
        drop(x);
        Ok(out)
    }
}
