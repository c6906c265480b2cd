//! Tensors: a view of a storage, and its place in the autograd graph.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use super::node::Node;
use crate::memory::Storage;
use crate::tensor::{DType, Dims, Layout, SavedTensor};
use trace::units::Bytes;

/// A reference to an output of a node (`grad_fn` and output number).
#[derive(Clone)]
pub struct Edge {
    pub(crate) node: Rc<Node>,
    pub(crate) output: usize,
}

/// What a leaf that requires grad has in addition to its data.
#[derive(Default)]
pub(crate) struct LeafMeta {
    pub grad: RefCell<Option<Tensor>>,
    /// Weak, because the graph holds the accumulator, and the accumulator holds the leaf.
    pub accumulator: RefCell<Weak<Node>>,
}

pub(crate) struct TensorImpl {
    pub saved: SavedTensor,
    pub storage: Rc<Storage>,
    pub grad_fn: Option<Edge>,
    /// Boxed, because few tensors are leaves: this keeps all tensors small.
    pub leaf: Option<Box<LeafMeta>>,
    /// Made by a view operation. Such a tensor keeps its base, so it never owns its storage alone.
    pub is_view: bool,
}

/// A strong reference to a tensor. A clone is like an assignment to a Python variable.
#[derive(Clone)]
pub struct Tensor(pub(crate) Rc<TensorImpl>);

impl Tensor {
    pub(crate) fn new(
        saved: SavedTensor,
        storage: Rc<Storage>,
        grad_fn: Option<Edge>,
        leaf: Option<LeafMeta>,
    ) -> Tensor {
        Tensor(Rc::new(TensorImpl {
            saved,
            storage,
            grad_fn,
            leaf: leaf.map(Box::new),
            is_view: false,
        }))
    }

    /// Description of the tensor.
    pub fn saved(&self) -> &SavedTensor {
        &self.0.saved
    }

    /// Shape, strides, offset.
    pub fn layout(&self) -> &Layout {
        &self.0.saved.layout
    }

    /// Size of each dimension.
    pub fn shape(&self) -> Dims {
        self.0.saved.layout.shape
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.0.saved.layout.elements()
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.0.saved.dtype
    }

    /// Logical bytes.
    pub fn bytes(&self) -> Bytes {
        self.0.saved.bytes()
    }

    /// The memory behind it.
    pub fn storage(&self) -> &Rc<Storage> {
        &self.0.storage
    }

    /// Whether the backward pass needs this tensor.
    pub fn requires_grad(&self) -> bool {
        self.0.grad_fn.is_some() || self.0.leaf.is_some()
    }

    /// `.grad` of a leaf.
    pub fn grad(&self) -> Option<Tensor> {
        self.0
            .leaf
            .as_ref()
            .and_then(|leaf| leaf.grad.borrow().clone())
    }

    /// `grad = None`, or another tensor.
    pub fn set_grad(&self, grad: Option<Tensor>) {
        if let Some(leaf) = &self.0.leaf {
            // The old gradient is dropped after the borrow, because freeing it may run any code.
            let old = leaf.grad.replace(grad);
            drop(old);
        }
    }

    /// The same data without a place in the graph.
    pub fn detach(&self) -> Tensor {
        Tensor::new(self.0.saved, Rc::clone(&self.0.storage), None, None)
    }

    /// The same storage with another layout; `grad_fn` is its place in the graph, if any.
    pub(crate) fn view_as(&self, layout: Layout, grad_fn: Option<Edge>) -> Tensor {
        let saved = SavedTensor {
            layout,
            class: self.0.saved.class.of_view(),
            ..self.0.saved
        };
        Tensor(Rc::new(TensorImpl {
            saved,
            storage: Rc::clone(&self.0.storage),
            grad_fn,
            leaf: None,
            is_view: true,
        }))
    }

    /// The same elements as a view (what a reshape that copies nothing returns).
    pub(crate) fn alias(&self) -> Tensor {
        self.view_as(*self.layout(), None)
    }

    /// The tensor as an output of a node; changed in place if nothing else refers to it.
    pub(crate) fn with_grad_fn(mut self, edge: Edge) -> Tensor {
        if let Some(inner) = Rc::get_mut(&mut self.0) {
            inner.grad_fn = Some(edge);
            return self;
        }
        Tensor(Rc::new(TensorImpl {
            saved: self.0.saved,
            storage: Rc::clone(&self.0.storage),
            grad_fn: Some(edge),
            leaf: None,
            is_view: self.0.is_view,
        }))
    }

    /// Whether no other tensor, and no base, refers to the storage.
    pub(crate) fn owns_storage_alone(&self) -> bool {
        !self.0.is_view && Rc::strong_count(&self.0.storage) == 1
    }

    /// References to this object, not to its storage (`TensorImpl::use_count`).
    pub(crate) fn use_count(&self) -> usize {
        Rc::strong_count(&self.0)
    }
}
