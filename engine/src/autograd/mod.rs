//! Autograd: the graph that decides what lives.
//!
//! Nodes hold saved tensors, contexts and strong edges; leaves are held by the nodes that
//! accumulate into them. Nothing is freed by a rule: a tensor lives while something reaches it.

mod backward;
mod checkpoint;
mod node;
mod tensor;

pub(crate) use backward::Pass;
pub(crate) use checkpoint::HookLayer;
pub use checkpoint::Region;
pub(crate) use node::{
    Call, Edges, Formula, Grads, Inputs, Kind, Meta, Saved, SavedVariable, Variables,
};
pub use node::{CtxLifetime, Node, NodeRef};
pub use tensor::{Edge, Tensor};
pub(crate) use tensor::{LeafMeta, TensorImpl};
