//! Operations with their backward formulas: what each one allocates, saves and frees.
//!
//! They follow PyTorch's derivative formulas, in PyTorch's order. The gradient of the second
//! operand is computed before that of the first. A saved output is saved without its graph. Casts,
//! and reductions of broadcast gradients, come after the formula ([`crate::autograd`]).

mod elementwise;
mod function;
mod loss;
mod matmul;
mod quantized;
mod reduce;
mod view;

pub use quantized::Nf4Weight;
