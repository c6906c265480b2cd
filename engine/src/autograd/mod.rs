//! Autograd: the graph that decides how long tensors live.
//!
//! Nodes hold saved tensors, contexts and strong edges; leaves are held by the nodes that
//! accumulate into them. No rule frees a tensor: it lives while something can reach it.

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
