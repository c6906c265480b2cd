//! Nodes of the autograd graph: what they keep alive, and how they run.

use std::cell::RefCell;
use std::rc::Rc;

use smallvec::SmallVec;

use super::checkpoint::{Frame, Holder};
use super::tensor::{Edge, Tensor};
use crate::offload::{GraphTask, PostHook, TensorId};
use crate::session::{OnHost, RunError, Session, Slot};
use crate::tensor::{DType, Dims};

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
