//! Elementwise operations.

use smallvec::{SmallVec, smallvec};

use crate::autograd::{Call, Formula, Grads, Tensor};
use crate::session::{RunError, Session};
use crate::tensor::DType;

/// What an operation with one operand saves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Saves {
    Nothing,
    Input,
    Output,
}

/// The gradient is passed on without a copy, because the operation is linear with factor 1.
pub(super) fn pass_through(_: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    Ok(call
        .inputs
        .iter()
        .map(|input| input.needs_grad.then(|| grad.clone()))
        .collect())
}

/// One new tensor of the gradient's size, computed from the gradient and the saved tensors.
pub(super) fn one_new(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let out = s.empty_like(&grad)?;
    let reads: SmallVec<[&Tensor; 5]> = call.saved.iter().chain([&grad]).collect();
    s.kernel_over(&reads, &[&out])?;
    Ok(smallvec![Some(out)])
}

fn cast_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let shape = grad.layout().shape;
    let out = s.empty(shape, call.inputs[0].dtype)?;
    s.kernel_over(&[&grad], &[&out])?;
    Ok(smallvec![Some(out)])
}

/// `grad * (2 * x.pow(1))`: the power and the product are temporaries.
fn square_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let power = s.empty_like(&call.saved[0])?;
    s.kernel_over(&[&call.saved[0]], &[&power])?;
    let doubled = s.empty_like(&power)?;
    s.kernel_over(&[&power], &[&doubled])?;
    let out = s.empty_like(&grad)?;
    s.kernel_over(&[&grad, &doubled], &[&out])?;
    Ok(smallvec![Some(out)])
}

/// `-0.5 * grad * result.pow(3)`.
fn rsqrt_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let scaled = s.empty_like(&grad)?;
    s.kernel_over(&[&grad], &[&scaled])?;
    let cubed = s.empty_like(&call.saved[0])?;
    s.kernel_over(&[&call.saved[0]], &[&cubed])?;
    let out = s.empty_like(&grad)?;
    s.kernel_over(&[&scaled, &cubed], &[&out])?;
    Ok(smallvec![Some(out)])
}

/// `mul` saves the other operand (if the first one needs a gradient), and then the first one.
fn mul_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let (first, second) = (call.inputs[0].needs_grad, call.inputs[1].needs_grad);
    let mut saved = call.saved.iter();
    let other = if first { saved.next() } else { None };
    let mine = if second { saved.next() } else { None };
    let of_second = match mine {
        None => None,
        Some(mine) => {
            let out = s.empty_like(&grad)?;
            s.kernel_over(&[&grad, mine], &[&out])?;
            Some(out)
        }
    };
    let of_first = match other {
        None => None,
        Some(other) => {
            let out = s.empty_like(&grad)?;
            s.kernel_over(&[&grad, other], &[&out])?;
            Some(out)
        }
    };
    Ok(smallvec![of_first, of_second])
}

fn sub_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let mut grads: Grads = smallvec![None, None];
    if call.inputs[1].needs_grad {
        let negative = s.empty_like(&grad)?;
        s.kernel_over(&[&grad], &[&negative])?;
        grads[1] = Some(negative);
    }
    if call.inputs[0].needs_grad {
        grads[0] = Some(grad);
    }
    Ok(grads)
}

/// Element type of the result of two operands.
fn promote(first: DType, second: DType) -> DType {
    if first.size() >= second.size() {
        first
    } else {
        second
    }
}

impl Session {
    fn unary(
        &mut self,
        name: &'static str,
        x: &Tensor,
        dtype: DType,
        saves: Saves,
        formula: Formula,
    ) -> Result<Tensor, RunError> {
        let mut node = self.record(name, formula, &[x]);
        if saves == Saves::Input {
            self.save_for(&mut node, x)?;
        }
        let shape = x.layout().shape;
        let out = self.empty(shape, dtype)?;
        self.kernel_over(&[x], &[&out])?;
        if saves == Saves::Output {
            self.save_output(&mut node, &out)?;
        }
        Ok(self.attach(out, node))
    }

    /// `x.to(dtype)`: the same tensor if it already has this type.
    ///
    /// # Errors
    /// Out of memory, or a hook fails; the same holds for all operations.
    pub fn cast(&mut self, x: &Tensor, dtype: DType) -> Result<Tensor, RunError> {
        if x.dtype() == dtype {
            return Ok(x.clone());
        }
        self.unary("ToCopyBackward0", x, dtype, Saves::Nothing, cast_back)
    }

    /// `contiguous` of a strided view: makes a copy, and the gradient passes through.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn contiguous(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        self.unary("CloneBackward0", x, x.dtype(), Saves::Nothing, pass_through)
    }

    /// A dense copy with another type or size (`to` with a memory format, `pad`). Its gradient is a
    /// copy too.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn dense(&mut self, x: &Tensor, dtype: DType) -> Result<Tensor, RunError> {
        self.unary("ToCopyBackward0", x, dtype, Saves::Nothing, cast_back)
    }

    /// `x.pow(2)`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn square(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        self.unary("PowBackward0", x, x.dtype(), Saves::Input, square_back)
    }

    /// `x + number`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn add_number(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        self.unary("AddBackward0", x, x.dtype(), Saves::Nothing, pass_through)
    }

    /// `x * number`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn scale(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        self.unary("MulBackward0", x, x.dtype(), Saves::Nothing, one_new)
    }

    /// `-x`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn neg(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        self.unary("NegBackward0", x, x.dtype(), Saves::Nothing, one_new)
    }

    /// `torch.rsqrt`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn rsqrt(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        self.unary("RsqrtBackward0", x, x.dtype(), Saves::Output, rsqrt_back)
    }

    /// `exp`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn exp(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        self.unary("ExpBackward0", x, x.dtype(), Saves::Output, one_new)
    }

    /// `sigmoid`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn sigmoid(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        self.unary("SigmoidBackward0", x, x.dtype(), Saves::Output, one_new)
    }

    /// `softplus`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn softplus(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        self.unary("SoftplusBackward0", x, x.dtype(), Saves::Input, one_new)
    }

    /// `silu`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn silu(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        self.unary("SiluBackward0", x, x.dtype(), Saves::Input, one_new)
    }

    /// `gelu`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn gelu(&mut self, x: &Tensor) -> Result<Tensor, RunError> {
        self.unary("GeluBackward0", x, x.dtype(), Saves::Input, one_new)
    }

    /// `masked_fill` with a number; saves the mask.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn masked_fill(&mut self, x: &Tensor, mask: &Tensor) -> Result<Tensor, RunError> {
        let mut node = self.record("MaskedFillBackward0", one_new, &[x]);
        self.save_for(&mut node, mask)?;
        let out = self.empty_like(x)?;
        self.kernel_over(&[x, mask], &[&out])?;
        Ok(self.attach(out, node))
    }

    /// `a + b`, with broadcasting.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn add(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor, RunError> {
        let node = self.record("AddBackward0", pass_through, &[a, b]);
        let shape = a.shape().broadcast(&b.shape());
        let out = self.empty(shape, promote(a.dtype(), b.dtype()))?;
        self.kernel_over(&[a, b], &[&out])?;
        Ok(self.attach(out, node))
    }

    /// `a - b`, with broadcasting.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn sub(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor, RunError> {
        let node = self.record("SubBackward0", sub_back, &[a, b]);
        let shape = a.shape().broadcast(&b.shape());
        let out = self.empty(shape, promote(a.dtype(), b.dtype()))?;
        self.kernel_over(&[a, b], &[&out])?;
        Ok(self.attach(out, node))
    }

    /// `a * b`, with broadcasting.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn mul(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor, RunError> {
        let mut node = self.record("MulBackward0", mul_back, &[a, b]);
        if a.requires_grad() {
            self.save_for(&mut node, b)?;
        }
        if b.requires_grad() {
            self.save_for(&mut node, a)?;
        }
        let shape = a.shape().broadcast(&b.shape());
        let out = self.empty(shape, promote(a.dtype(), b.dtype()))?;
        self.kernel_over(&[a, b], &[&out])?;
        Ok(self.attach(out, node))
    }
}
