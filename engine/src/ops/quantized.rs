//! bitsandbytes' `MatMul4Bit`: the weight is dequantised for each product, in both directions.

use smallvec::smallvec;

use crate::autograd::{Call, Grads, Tensor};
use crate::session::{Factors, RunError, Session};
use crate::tensor::DType;

/// Elements that share one scale.
const BLOCK: u64 = 64;
/// Scales that share one second-level scale (double quantisation).
const SCALE_BLOCK: u64 = 256;

/// A weight of `rows × columns` in NF4 with double quantisation.
pub struct Nf4Weight {
    rows: u64,
    columns: u64,
    /// Two elements a byte.
    packed: Tensor,
    /// One byte a block.
    scales: Tensor,
    /// One fp32 for every 256 blocks.
    scales_of_scales: Tensor,
    /// The mean of the scales, one number.
    offset: Tensor,
    /// The 16 values that the 4 bits stand for.
    code: Tensor,
    /// The 256 values that a scale's byte stands for.
    scale_code: Tensor,
}

impl Nf4Weight {
    /// Allocates a quantised weight.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(s: &mut Session, rows: u64, columns: u64) -> Result<Nf4Weight, RunError> {
        let elements = rows * columns;
        let blocks = elements / BLOCK;
        Ok(Nf4Weight {
            rows,
            columns,
            packed: s.frozen(&[elements / 2], DType::Uint8)?,
            scales: s.frozen(&[blocks], DType::Uint8)?,
            scales_of_scales: s.frozen(&[blocks.div_ceil(SCALE_BLOCK)], DType::Float32)?,
            offset: s.frozen(&[], DType::Float32)?,
            code: s.frozen(&[16], DType::Float32)?,
            scale_code: s.frozen(&[256], DType::Float32)?,
        })
    }

    /// Output width.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Input width.
    pub fn columns(&self) -> u64 {
        self.columns
    }

    /// Its tensors, under the names that bitsandbytes gives them.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Tensor)> {
        [
            ("weight", &self.packed),
            ("weight.absmax", &self.scales),
            ("weight.nested_absmax", &self.scales_of_scales),
            ("weight.offset", &self.offset),
            ("weight.quant_map", &self.code),
            ("weight.nested_quant_map", &self.scale_code),
        ]
        .into_iter()
    }

    /// Its tensors.
    pub fn storages(&self) -> impl Iterator<Item = &Tensor> {
        self.named().map(|(_, tensor)| tensor)
    }
}

/// `grad @ dequantise(weight)`. The weight's rows and columns are the last sizes of gradient and
/// input.
fn matmul4bit_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let input = call.inputs[0];
    let (rows, columns) = (grad.shape().last(), input.shape.last());
    let (rows, columns) = (rows.unwrap_or(1), columns.unwrap_or(1));
    let scales = s.empty(&[rows * columns / BLOCK], DType::Float32)?;
    s.kernel_over(&[], &[&scales])?;
    let weight = s.empty(&[rows, columns], grad.dtype())?;
    s.kernel_over(&[&scales], &[&weight])?;
    drop(scales);
    let out = s.empty(input.shape, input.dtype)?;
    let flops = 2 * input.elements() * rows;
    let factors = Some(Factors::plain(&grad, &weight));
    s.cublas(&[&grad, &weight], &out, flops as f64, factors)?;
    drop(weight);
    Ok(smallvec![Some(out)])
}

impl Session {
    /// `x @ dequantise(weight)ᵀ`. No dequantised weight is saved, because the `forward` of a Python
    /// function runs without grad (docs/scenarios.md, "Patches").
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn matmul4bit(&mut self, x: &Tensor, weight: &Nf4Weight) -> Result<Tensor, RunError> {
        let node = self.record("MatMul4BitBackward", matmul4bit_back, &[x]);
        let blocks = weight.rows * weight.columns / BLOCK;
        let scales = self.empty(&[blocks], DType::Float32)?;
        self.kernel_over(&[&weight.scales, &weight.scale_code], &[&scales])?;
        let shifted = self.empty(&[blocks], DType::Float32)?;
        self.kernel_over(&[&scales, &weight.offset], &[&shifted])?;
        let dense = self.empty(&[weight.rows, weight.columns], x.dtype())?;
        self.kernel_over(&[&weight.packed, &shifted, &weight.code], &[&dense])?;
        let out = self.empty(x.shape().with_last(weight.rows), x.dtype())?;
        let flops = 2 * x.elements() * weight.rows;
        let factors = Some(Factors::linear(x, &dense));
        self.cublas(&[x, &dense], &out, flops as f64, factors)?;
        drop(shifted);
        drop(scales);
        drop(dense);
        Ok(self.attach(out, node))
    }
}
