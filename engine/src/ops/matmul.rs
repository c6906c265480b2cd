//! Matrix products, convolution, triangular solves, attention.

use smallvec::smallvec;

use crate::autograd::{Call, Formula, Grads, Tensor};
use crate::session::{Factors, RunError, Session};
use crate::tensor::{DType, Dims};
use trace::units::Bytes;

/// The product of a gradient with the saved second operand.
type WithSaved = for<'t> fn(&'t Tensor, &'t Tensor) -> Factors<'t>;

/// The second operand itself was saved.
fn product_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    product_grads(s, call, |grad, saved| Factors::plain(grad, saved))
}

/// `weight.t()` was saved.
fn linear_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    product_grads(s, call, |grad, saved| Factors::with_saved_view(grad, saved))
}

/// Two operands: the second one is saved (if the first one needs a gradient), and then the first
/// one.
fn product_grads(
    s: &mut Session,
    call: &mut Call<'_>,
    with_saved: WithSaved,
) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let (first, second) = (call.inputs[0], call.inputs[1]);
    let flops = call.flops as f64;
    let mut grads: Grads = smallvec![None, None];
    if second.needs_grad {
        let out = s.empty(second.shape, second.dtype)?;
        let operand = call.saved.last();
        let factors = operand.map(|first| Factors::of_weight(&grad, first));
        s.cublas(&[&grad], &out, flops, factors)?;
        // The operands are reshaped before the product, so the gradients are views.
        grads[1] = Some(out.alias());
    }
    if first.needs_grad {
        let out = s.empty(first.shape, first.dtype)?;
        let operand = call.saved.first();
        let factors = operand.map(|second| with_saved(&grad, second));
        s.cublas(&[&grad], &out, flops, factors)?;
        grads[0] = Some(out.alias());
    }
    Ok(grads)
}

/// `linalg.solve_triangular`: `B' = solve(Aᵀ, G)`, `A' = tril(-(B' Xᵀ), -1)`.
fn solve_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let system = call.inputs[0];
    let of_right = s.empty_like(&grad)?;
    s.solve_kernel(&grad, &of_right)?;
    let mut grads: Grads = smallvec![None, None];
    if system.needs_grad {
        let outer = s.empty(system.shape, system.dtype)?;
        s.kernel_over(&[&of_right], &[&outer])?;
        let negative = s.empty_like(&outer)?;
        s.kernel_over(&[&outer], &[&negative])?;
        drop(outer);
        let lower = s.empty_like(&negative)?;
        s.kernel_over(&[&negative], &[&lower])?;
        grads[0] = Some(lower);
    }
    grads[1] = Some(of_right);
    Ok(grads)
}

/// A depthwise convolution with frozen weights: both gradients are dense.
fn conv_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let input = call.inputs[0];
    let dense = s.empty(input.shape, input.dtype)?;
    let out = s.empty(input.shape, input.dtype)?;
    s.kernel_over(&[&grad], &[&out])?;
    drop(dense);
    Ok(smallvec![Some(out)])
}

/// Memory-efficient attention: makes three gradients, and a workspace for the products.
fn attention_back(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    let grad = call.grad()?;
    let mut grads = Grads::new();
    for input in call.inputs.iter() {
        grads.push(Some(s.empty(input.shape, input.dtype)?));
    }
    let query = call.inputs[0].elements();
    // dQ is summed in fp32, K and V have a gradient for each query head, and there is a little
    // more.
    let workspace = s.scratch(Bytes(query * 8) + ATTENTION_SLACK)?;
    s.kernel(&[&grad], &[], call.flops as f64)?;
    drop(workspace);
    Ok(grads)
}

/// Extra memory of the attention workspace, besides its products.
const ATTENTION_SLACK: Bytes = Bytes((32 << 10) + 256);

/// Size of an address on the card.
const POINTER: Bytes = Bytes(8);

impl Session {
    /// The product of two operands, and what is saved of the second one.
    fn product(
        &mut self,
        name: &'static str,
        a: &Tensor,
        b: &Tensor,
        saved: &Tensor,
        formula: Formula,
        shape: impl Into<Dims>,
    ) -> Result<Tensor, RunError> {
        let shape = shape.into();
        let inner = a.shape().last().unwrap_or(1);
        let flops = 2 * shape.product() * inner;
        let mut node = self.record(name, formula, &[a, b]);
        if let Some(node) = &mut node {
            node.flops = flops;
        }
        if a.requires_grad() {
            self.save_for(&mut node, saved)?;
        }
        if b.requires_grad() {
            self.save_for(&mut node, a)?;
        }
        let out = self.empty(shape, a.dtype())?;
        let factors = Some(Factors::linear(a, b));
        self.cublas(&[a, b], &out, flops as f64, factors)?;
        Ok(self.attach(out, node))
    }

    /// `F.linear` without bias: `x [.., k]`, `weight [n, k]`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn linear(&mut self, x: &Tensor, weight: &Tensor) -> Result<Tensor, RunError> {
        let shape = x.shape().with_last(weight.shape().at(0));
        let (saved, formula) = self.saved_of(weight);
        self.product("MmBackward0", x, weight, &saved, formula, shape)
    }

    /// What a linear layer saves of its weight, and the formula for that. PyTorch's layer
    /// multiplies by `weight.t()`: a view, which is no parameter itself.
    fn saved_of(&mut self, weight: &Tensor) -> (Tensor, Formula) {
        if self.has_linear_functions() {
            return (weight.clone(), product_back);
        }
        let edge = self.edge_of(weight);
        let view = weight.view_as(weight.layout().transposed(), edge);
        (view, linear_back)
    }

    /// `F.linear` with a frozen weight and bias.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn linear_bias(
        &mut self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
    ) -> Result<Tensor, RunError> {
        let (saved, formula) = self.saved_of(weight);
        let mut node = self.record("AddmmBackward0", formula, &[x, weight]);
        let inner = x.shape().last().unwrap_or(1);
        let shape = x.shape().with_last(weight.shape().at(0));
        let flops = 2 * shape.product() * inner;
        if let Some(node) = &mut node {
            node.flops = flops;
        }
        self.save_for(&mut node, &saved)?;
        let out = self.empty(shape, x.dtype())?;
        let factors = Some(Factors::linear(x, weight));
        self.cublas_lt(&[x, weight, bias], &out, flops as f64, factors)?;
        Ok(self.attach(out, node))
    }

    /// A batched product with a result of the given shape.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn batched(&mut self, a: &Tensor, b: &Tensor, shape: &[u64]) -> Result<Tensor, RunError> {
        self.product("BmmBackward0", a, b, b, product_back, shape)
    }

    /// `linalg.solve_triangular(system, right)`.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn solve_triangular(
        &mut self,
        system: &Tensor,
        right: &Tensor,
    ) -> Result<Tensor, RunError> {
        let mut node = self.record(
            "LinalgSolveTriangularBackward0",
            solve_back,
            &[system, right],
        );
        self.save_for(&mut node, system)?;
        let out = self.empty_like(right)?;
        self.solve_kernel(right, &out)?;
        self.save_output(&mut node, &out)?;
        Ok(self.attach(out, node))
    }

    /// cuBLAS takes an array of pointers for each operand, one for each matrix.
    fn solve_kernel(&mut self, right: &Tensor, out: &Tensor) -> Result<(), RunError> {
        let matrices: u64 = right.shape().iter().rev().skip(2).product();
        let pointers = self.scratch(POINTER * matrices)?;
        let more = self.scratch(POINTER * matrices)?;
        self.kernel_over(&[right], &[out])?;
        drop(more);
        drop(pointers);
        Ok(())
    }

    /// Depthwise `F.conv1d` over `[1, channels, length]` with frozen weights of `taps` and a
    /// padding of `taps - 1`. A transposed input is first made dense.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn conv1d_depthwise(
        &mut self,
        x: &Tensor,
        weight: &Tensor,
        taps: u64,
    ) -> Result<Tensor, RunError> {
        let mut node = self.record("ConvolutionBackward0", conv_back, &[x]);
        self.save_for(&mut node, x)?;
        self.save_for(&mut node, weight)?;
        let dense = self.empty_like(x)?;
        self.kernel_over(&[x], &[&dense])?;
        let length = x.shape().last().unwrap_or(1);
        let out = self.empty(x.shape().with_last(length + taps - 1), x.dtype())?;
        self.kernel_over(&[&dense, weight], &[&out])?;
        drop(dense);
        Ok(self.attach(out, node))
    }

    /// `scaled_dot_product_attention`: the query is `[1, heads, tokens, width]`; key and value have
    /// their own number of heads.
    ///
    /// # Errors
    /// As for [`Session::cast`].
    pub fn attention(
        &mut self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
    ) -> Result<Tensor, RunError> {
        let inputs = [query, key, value];
        let mut node = self.record("ScaledDotProductBackward0", attention_back, &inputs);
        let (heads, tokens) = (query.shape().at(1), query.shape().at(2));
        let flops = 4 * query.elements() * tokens;
        if let Some(node) = &mut node {
            node.flops = 2 * flops;
        }
        for input in inputs {
            self.save_for(&mut node, input)?;
        }
        let seed = self.empty(&[], DType::Int64)?;
        let offset = self.empty(&[], DType::Int64)?;
        let out = self.empty_like(query)?;
        // Without a graph, the kernel does not write the log-sums, which only backward needs.
        let sums = match &node {
            Some(_) => Some(self.empty(&[1, heads, tokens], DType::Float32)?),
            None => None,
        };
        let scratch = self.scratch(Bytes(256))?;
        self.kernel(&inputs, &[&out], flops as f64)?;
        drop(scratch);
        for output in [Some(&out), sums.as_ref(), Some(&seed), Some(&offset)]
            .into_iter()
            .flatten()
        {
            self.save_output(&mut node, output)?;
        }
        drop(sums);
        Ok(self.attach(out, node))
    }
}
