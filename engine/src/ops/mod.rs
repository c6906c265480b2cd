//! Operations with their backward formulas: what each allocates, saves and frees.
//!
//! They follow PyTorch's derivative formulas, in its order: the gradient of the second operand is
//! computed before that of the first, a saved output is saved without its graph, reductions of
//! broadcast gradients and casts happen after the formula ([`crate::autograd`]).

mod elementwise;
mod function;
mod loss;
mod matmul;
mod quantized;
mod reduce;
mod view;

pub use quantized::Nf4Weight;
