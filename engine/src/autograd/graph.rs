//! The graph: tensors, the nodes that made them, and what these nodes keep alive.
//!
//! A tensor knows its node, a node holds tensors, and a checkpointed region holds both. So these
//! types are one module. What is done with them is in the modules beside it.

use std::cell::{Cell, Ref, RefCell};
use std::rc::{Rc, Weak};

use smallvec::SmallVec;

use crate::memory::Storage;
use crate::offload::{GraphTask, PostHook, TensorId};
use crate::session::{OnHost, RunError, Session, Slot};
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

/// A tensor saved for backward, as the hook on top of the stack left it.
pub(crate) enum Saved {
    /// No hook, a `NoOpManager`, or a recompute: the tensor itself.
    Plain(Tensor),
    /// The offloader has taken it over.
    Offloaded(TensorId),
    /// Its bytes are on the host while the graph lives.
    OnHost(Rc<OnHost>),
    /// It is with the tensors of its module, wherever those are.
    InModule(Rc<Slot>),
    /// It is inside a checkpointed region: only what the recompute needs is kept.
    Held {
        holder: Rc<Holder>,
        frame: Rc<Frame>,
    },
}

/// `SavedVariable`: the packed tensor and its own place in the graph, which it keeps alive.
pub(crate) struct SavedVariable {
    pub packed: Saved,
    pub grad_fn: Option<Edge>,
}

/// Shape and type of an input, for backward formulas that need sizes only.
#[derive(Clone, Copy)]
pub(crate) struct Meta {
    pub shape: Dims,
    pub dtype: DType,
    pub needs_grad: bool,
}

impl Meta {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.product()
    }
}

/// What a backward formula is given.
pub(crate) struct Call<'n> {
    /// Gradients of the outputs.
    pub grads: Slots,
    /// Unpacked saved tensors, in the order in which they were saved.
    pub saved: SmallVec<[Tensor; 4]>,
    pub inputs: &'n [Meta],
    /// Floating point operations of the formula, if it computes products.
    pub flops: u64,
    /// Tensors set as attributes of the context.
    pub ctx: Vec<Tensor>,
}

impl Call<'_> {
    /// The gradient of the only output. The call keeps it too: incoming gradients live until the
    /// node is done, whatever the formula does with them.
    pub fn grad(&self) -> Result<Tensor, RunError> {
        self.grads
            .first()
            .cloned()
            .flatten()
            .ok_or(RunError::NoGradient)
    }
}

/// Gradients of the inputs. Stored inline: most operations have one or two, and a step makes tens
/// of thousands.
pub(crate) type Grads = SmallVec<[Option<Tensor>; 3]>;

/// Gradients of the outputs.
pub(crate) type Slots = SmallVec<[Option<Tensor>; 2]>;

/// Sizes and types of the inputs.
pub(crate) type Inputs = SmallVec<[Meta; 2]>;

/// Edges to the inputs.
pub(crate) type Edges = SmallVec<[Option<Edge>; 3]>;

/// Saved variables of one node.
pub(crate) type Variables = SmallVec<[SavedVariable; 2]>;

/// A backward formula.
pub(crate) type Formula = fn(&mut Session, &mut Call<'_>) -> Result<Grads, RunError>;

/// What a node does when its turn comes.
pub(crate) enum Kind {
    /// Computes gradients of its inputs.
    Formula(Formula),
    /// `AccumulateGrad`: adds to the leaf's gradient, or becomes it.
    Accumulate(Tensor),
}

/// How long a context's attributes live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CtxLifetime {
    /// As long as the node.
    #[default]
    Node,
    /// Until backward has used them (the fix of Transformer Engine #1935).
    Backward,
}

/// A node. Strong edges lead towards the inputs of the graph.
pub struct Node {
    pub(crate) sequence: u64,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) next: Edges,
    pub(crate) inputs: Inputs,
    pub(crate) outputs: usize,
    /// Floating point operations of the formula.
    pub(crate) flops: u64,
    pub(crate) saved: RefCell<Variables>,
    pub(crate) hooks: RefCell<Vec<PostHook>>,
    /// Attributes of a Python function's context, which live as long as the node.
    pub(crate) ctx: RefCell<Vec<Tensor>>,
    pub(crate) ctx_lifetime: CtxLifetime,
    /// Gradients that have reached the node in the running backward pass.
    pub(crate) waiting: RefCell<Waiting>,
}

/// `InputBuffer` and dependency count of a node, valid for one backward pass.
#[derive(Default)]
pub(crate) struct Waiting {
    /// The pass that this is for; another pass treats the node as untouched.
    pub task: GraphTask,
    /// Edges whose gradients have not come yet.
    pub missing: usize,
    /// One slot for each output.
    pub grads: Slots,
}

impl Node {
    /// Name of the operation.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// Identity of a node, which it keeps alive.
#[derive(Clone)]
pub struct NodeRef(pub(crate) Option<Rc<Node>>);

impl PartialEq for NodeRef {
    fn eq(&self, other: &NodeRef) -> bool {
        match (&self.0, &other.0) {
            (Some(mine), Some(theirs)) => Rc::ptr_eq(mine, theirs),
            (None, None) => true,
            _ => false,
        }
    }
}

/// A checkpointed function: the module's forward, which the recompute calls again.
pub type Region = Rc<dyn Fn(&mut Session, &[Tensor]) -> Result<Tensor, RunError>>;

/// The place of one saved tensor of a region.
#[derive(Default)]
pub(crate) struct Holder {
    /// The recomputed tensor, from the recompute until backward takes it.
    pub(super) value: RefCell<Option<Tensor>>,
}

/// One execution of a region.
pub(crate) struct Frame {
    pub(super) function: Region,
    /// Node whose saved tensors are the region's inputs.
    pub(super) input_saver: RefCell<Option<Rc<Node>>>,
    pub(super) holders: RefCell<Vec<Weak<Holder>>>,
    pub(super) recomputed_in: Cell<Option<GraphTask>>,
    /// Tensors that the function holds. They are listed here to show what keeps them alive.
    pub(super) captured: Vec<Tensor>,
}

impl Holder {
    /// The recomputed tensor that waits here, only borrowed.
    pub(crate) fn borrow(&self) -> Ref<'_, Option<Tensor>> {
        self.value.borrow()
    }

    /// The recomputed tensor that waits here.
    pub(crate) fn value(&self) -> Option<Tensor> {
        self.value.borrow().clone()
    }
}

impl Frame {
    /// Node whose saved tensors are the region's inputs.
    pub(crate) fn input_saver(&self) -> Option<Rc<Node>> {
        self.input_saver.borrow().clone()
    }

    /// Tensors that the function holds.
    pub(crate) fn captured(&self) -> &[Tensor] {
        &self.captured
    }
}
