//! Autograd: the graph that decides how long tensors live.
//!
//! Nodes hold saved tensors, contexts and strong edges; leaves are held by the nodes that
//! accumulate into them. No rule frees a tensor: it lives while something can reach it.

mod backward;
mod checkpoint;
mod graph;

pub(crate) use backward::Pass;
pub(crate) use checkpoint::HookLayer;
pub(crate) use graph::{
    Call, Edges, Formula, Grads, Inputs, Kind, LeafMeta, Meta, Saved, SavedVariable, TensorImpl,
    Variables,
};
pub use graph::{CtxLifetime, Edge, Node, NodeRef, Region, Tensor};
