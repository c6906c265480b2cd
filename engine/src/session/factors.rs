//! The operands of a matrix product as memory, for devices that compute it.
//!
//! Sizes follow from the operands' last dimensions and numbers of elements. They do not tell
//! whether the right operand of a batched product is stored transposed. So it is read like a
//! weight, which is the same work on the same bytes.

use std::rc::Rc;

use super::accelerator::span_of;
use crate::autograd::Tensor;
use crate::device::{Product, ProductSizes, Span};
use crate::memory::Storage;
use crate::tensor::DType;

/// The operands of a product.
#[derive(Clone, Copy)]
pub(crate) struct Factors<'t> {
    left: &'t Tensor,
    right: &'t Tensor,
    left_transposed: bool,
    right_transposed: bool,
}

impl<'t> Factors<'t> {
    /// `x [.., k] · weight [n, k]ᵀ`.
    pub fn linear(x: &'t Tensor, weight: &'t Tensor) -> Factors<'t> {
        Factors {
            left: x,
            right: weight,
            left_transposed: false,
            right_transposed: true,
        }
    }

    /// `left [.., k] · right [k, n]`: the gradient of `x`, from the result's gradient and the
    /// weight.
    pub fn plain(left: &'t Tensor, right: &'t Tensor) -> Factors<'t> {
        Factors {
            right_transposed: false,
            ..Factors::linear(left, right)
        }
    }

    /// The same with the saved `weight.t()`. The view, and a copy that lies like it, has the memory
    /// of the weight. A copy in logical order has that of the transposed one.
    pub fn with_saved_view(left: &'t Tensor, view: &'t Tensor) -> Factors<'t> {
        Factors {
            right_transposed: view.layout().is_contiguous(),
            ..Factors::plain(left, view)
        }
    }

    /// `grad [.., m]ᵀ · x [.., n]`: the gradient of a weight.
    pub fn of_weight(grad: &'t Tensor, x: &'t Tensor) -> Factors<'t> {
        Factors {
            left: grad,
            right: x,
            left_transposed: true,
            right_transposed: false,
        }
    }

    /// The product with its result, if all three are bf16 without gaps, and their sizes fit.
    pub fn product(&self, out: &Tensor, workspace: &Rc<Storage>) -> Option<Product> {
        let operands = [self.left, self.right, out];
        let is_dense = |tensor: &&Tensor| {
            tensor.dtype() == DType::Bfloat16 && span_of(tensor).bytes == tensor.bytes()
        };
        if !operands.iter().all(is_dense) {
            return None;
        }
        let [left, right, out] = operands.map(span_of);
        Some(Product {
            left,
            right,
            out,
            workspace: Span {
                start: workspace.start(),
                bytes: workspace.bytes(),
            },
            sizes: self.sizes(operands.map(Tensor::elements))?,
        })
    }

    /// The sizes, from the numbers of elements of left operand, right operand and result.
    fn sizes(&self, elements: [u64; 3]) -> Option<ProductSizes> {
        let [left, right, out] = elements;
        let (outer, last) = (self.left.shape().last()?, self.right.shape().last()?);
        let (batch, m, n, k) = match (self.left_transposed, self.right_transposed) {
            (true, _) => {
                let batch = out.checked_div(outer * last)?;
                (batch, outer, last, left.checked_div(outer * batch)?)
            }
            (false, _) => {
                // The right operand may be transposed, but one of its sides is the last of the left
                // operand.
                let n = (out * outer).checked_div(left)?;
                let batch = right.checked_div(n * outer)?;
                (batch, out.checked_div(n * batch)?, n, outer)
            }
        };
        let fits = [batch * m * k, batch * n * k, batch * m * n] == elements;
        (fits && out > 0).then_some(ProductSizes {
            batch,
            m,
            n,
            k,
            left_transposed: self.left_transposed,
            right_transposed: self.right_transposed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::{SimDevice, SimSpec};
    use crate::memory::Role;
    use crate::session::Session;

    fn tensor(s: &mut Session, shape: &[u64]) -> Tensor {
        let made = s.empty_as(shape, DType::Bfloat16, Role::Activation);
        made.unwrap()
    }

    fn sizes(of: Factors<'_>, out: &Tensor) -> Option<[u64; 4]> {
        let elements = [of.left, of.right, out].map(Tensor::elements);
        let sizes = of.sizes(elements)?;
        Some([sizes.batch, sizes.m, sizes.n, sizes.k])
    }

    /// A linear layer from width 7 to 11 with 3 × 5 tokens, and both products of its backward pass.
    #[test]
    fn a_linear_layer_and_its_backward_pass() {
        let s = &mut Session::new(Box::new(SimDevice::new(SimSpec::default())));
        let [x, weight] = [&[3, 5, 7][..], &[11, 7]].map(|shape| tensor(s, shape));
        let out = tensor(s, &[3, 5, 11]);
        assert_eq!(
            sizes(Factors::linear(&x, &weight), &out),
            Some([1, 15, 11, 7])
        );
        assert_eq!(
            sizes(Factors::plain(&out, &weight), &x),
            Some([1, 15, 7, 11])
        );
        assert_eq!(
            sizes(Factors::of_weight(&out, &x), &weight),
            Some([1, 11, 7, 15])
        );
    }

    /// The saved view has the weight's memory; a copy in logical order has the transposed one.
    #[test]
    fn the_saved_view_of_a_weight_is_read_as_it_lies() {
        let s = &mut Session::new(Box::new(SimDevice::new(SimSpec::default())));
        let [weight, dense] = [[11, 7], [7, 11]].map(|shape| tensor(s, &shape));
        let [out, x] = [[15, 11], [15, 7]].map(|shape| tensor(s, &shape));
        let view = weight.view_as(weight.layout().transposed(), None);
        let check = |saved: &Tensor, transposed: bool| {
            let factors = Factors::with_saved_view(&out, saved);
            assert_eq!(sizes(factors, &x), Some([1, 15, 7, 11]));
            assert_eq!(factors.right_transposed, transposed);
        };
        check(&view, false);
        check(&dense, true);
    }

    /// Four products `[5, 7] · [7, 11]`.
    #[test]
    fn a_batched_product_and_its_backward_pass() {
        let s = &mut Session::new(Box::new(SimDevice::new(SimSpec::default())));
        let [a, b] = [[2, 2, 5, 7], [2, 2, 7, 11]].map(|shape| tensor(s, &shape));
        let out = tensor(s, &[2, 2, 5, 11]);
        assert_eq!(sizes(Factors::linear(&a, &b), &out), Some([4, 5, 11, 7]));
        assert_eq!(sizes(Factors::plain(&out, &b), &a), Some([4, 5, 7, 11]));
        assert_eq!(sizes(Factors::of_weight(&out, &a), &b), Some([4, 11, 7, 5]));
    }

    /// Operands that do not fit, have other types or have gaps give no product.
    #[test]
    fn what_does_not_fit_is_left_to_the_stand_in() {
        let s = &mut Session::new(Box::new(SimDevice::new(SimSpec::default())));
        let [x, weight] = [&[15, 7][..], &[11, 6]].map(|shape| tensor(s, shape));
        let out = tensor(s, &[15, 11]);
        assert_eq!(sizes(Factors::linear(&x, &weight), &out), None);
        let workspace = Rc::clone(out.storage());
        let fitting = tensor(s, &[11, 7]);
        let factors = Factors::linear(&x, &fitting);
        assert!(factors.product(&out, &workspace).is_some());
        let wide = s.empty_as(&[15, 11], DType::Float32, Role::Activation);
        assert!(factors.product(&wide.unwrap(), &workspace).is_none());
    }
}
