//! The graph that a forward pass makes: saved tensors, edges and nodes.

use std::cell::RefCell;
use std::rc::Rc;

use super::{RunError, Session};
use crate::autograd::{
    CtxLifetime, Edge, Edges, Formula, HookLayer, Inputs, Kind, Meta, Node, Saved, SavedVariable,
    Tensor, Variables,
};

/// Sequence number of accumulators: they run before every other node that is ready.
const FIRST: u64 = u64::MAX;

/// Whether one of a node's saved variables is a tensor that the node itself holds, or leads to one.
pub(crate) fn holds_tensors(saved: &[SavedVariable]) -> bool {
    let offloaded = |variable: &SavedVariable| matches!(variable.packed, Saved::Offloaded(_));
    !saved.iter().all(offloaded)
}

impl Session {
    /// Saves a tensor for backward through the hook on top of the stack.
    pub(crate) fn save(&mut self, tensor: &Tensor) -> Result<SavedVariable, RunError> {
        let packed = match self.hooks.last().cloned() {
            None | Some(HookLayer::NoOp) => Saved::Plain(tensor.clone()),
            Some(HookLayer::Offload) => self.pack_offloaded(tensor)?,
            Some(HookLayer::Host) => self.pack_to_host(tensor)?,
            Some(HookLayer::Module) => self.pack_into_module(tensor)?,
            Some(HookLayer::Region(frame)) => Session::pack_into_region(&frame),
            Some(HookLayer::Recompute { frame, saved }) => {
                Session::pack_into_recompute(&frame, &saved, tensor)?
            }
        };
        let grad_fn = match &packed {
            Saved::Plain(_) => None,
            // A leaf must come back as one that requires grad; otherwise a recompute would save
            // less.
            _ => self.edge_of(tensor),
        };
        Ok(SavedVariable { packed, grad_fn })
    }

    /// The edge that the gradients of a tensor take.
    pub(crate) fn edge_of(&mut self, tensor: &Tensor) -> Option<Edge> {
        if let Some(edge) = &tensor.0.grad_fn {
            return Some(edge.clone());
        }
        let leaf = tensor.0.leaf.as_ref()?;
        let known = leaf.accumulator.borrow().upgrade();
        let node = known.unwrap_or_else(|| {
            let node = Rc::new(Node {
                sequence: FIRST,
                name: "AccumulateGrad",
                kind: Kind::Accumulate(tensor.clone()),
                next: Edges::new(),
                inputs: Inputs::new(),
                outputs: 1,
                flops: 0,
                saved: Default::default(),
                hooks: Default::default(),
                ctx: Default::default(),
                ctx_lifetime: CtxLifetime::Node,
                waiting: Default::default(),
            });
            leaf.accumulator.replace(Rc::downgrade(&node));
            node
        });
        Some(Edge { node, output: 0 })
    }

    /// Begins a graph node for an operation on `inputs`, if one of them requires grad.
    pub(crate) fn record(
        &mut self,
        name: &'static str,
        formula: Formula,
        inputs: &[&Tensor],
    ) -> Option<Recording> {
        self.accelerator.set_op(name);
        if !self.grad_enabled || !inputs.iter().any(|input| input.requires_grad()) {
            return None;
        }
        if matches!(self.hooks.last(), Some(HookLayer::Recompute { .. })) {
            return Some(Recording::of_recompute(name, formula));
        }
        let metas = inputs.iter().map(|input| Meta {
            shape: input.layout().shape,
            dtype: input.dtype(),
            needs_grad: input.requires_grad(),
        });
        Some(Recording {
            name,
            formula,
            inputs: metas.collect(),
            next: inputs.iter().map(|input| self.edge_of(input)).collect(),
            saved: Variables::new(),
            flops: 0,
            sequence: self.next_sequence(),
            ctx: Vec::new(),
            ctx_lifetime: CtxLifetime::Node,
            fate: Fate::Runs,
        })
    }

    /// Saves a tensor for the node, if there is one.
    pub(crate) fn save_for(
        &mut self,
        recording: &mut Option<Recording>,
        tensor: &Tensor,
    ) -> Result<(), RunError> {
        if let Some(recording) = recording {
            let variable = self.save(tensor)?;
            if recording.fate == Fate::Runs {
                recording.saved.push(variable);
            }
        }
        Ok(())
    }

    /// Saves an output without its place in the graph; otherwise it would keep itself alive.
    pub(crate) fn save_output(
        &mut self,
        recording: &mut Option<Recording>,
        output: &Tensor,
    ) -> Result<(), RunError> {
        debug_assert!(output.0.grad_fn.is_none(), "saved before it is attached");
        self.save_for(recording, output)
    }

    /// The output as a tensor of the graph.
    pub(crate) fn attach(&mut self, output: Tensor, recording: Option<Recording>) -> Tensor {
        match recording {
            None => output,
            Some(recording) => {
                let node = self.node_of(recording, 1);
                output.with_grad_fn(Edge { node, output: 0 })
            }
        }
    }

    fn node_of(&mut self, recording: Recording, outputs: usize) -> Rc<Node> {
        match recording.fate {
            Fate::Runs => {
                let holds = holds_tensors(&recording.saved);
                self.write_node(recording.sequence, &recording.next, holds);
                recording.finish(outputs)
            }
            Fate::Discarded => Rc::clone(&self.discarded),
        }
    }

    /// Outputs of one node, numbered in order.
    pub(crate) fn attach_all(
        &mut self,
        outputs: Vec<Tensor>,
        recording: Option<Recording>,
    ) -> Vec<Tensor> {
        let Some(recording) = recording else {
            return outputs;
        };
        let node = self.node_of(recording, outputs.len());
        let attach = |(output, tensor): (usize, Tensor)| {
            let edge = Some(Edge {
                node: Rc::clone(&node),
                output,
            });
            Tensor::new(tensor.0.saved, Rc::clone(tensor.storage()), edge, None)
        };
        outputs.into_iter().enumerate().map(attach).collect()
    }
}

/// A node that is not finished yet.
pub(crate) struct Recording {
    name: &'static str,
    formula: Formula,
    inputs: Inputs,
    next: Edges,
    saved: Variables,
    sequence: u64,
    /// Floating point operations of the formula, if it computes products.
    pub flops: u64,
    /// Attributes of the context.
    pub ctx: Vec<Tensor>,
    /// How long these attributes live.
    pub ctx_lifetime: CtxLifetime,
    fate: Fate,
}

/// Whether this node will ever run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It becomes part of a graph.
    Runs,
    /// A recompute makes it only to save tensors; one node replaces all of these.
    Discarded,
}

impl Recording {
    /// The graph of a recompute is dropped when the recompute ends. What it saved is then in the
    /// holders, so its nodes need no edges, no sizes and no identity of their own.
    pub(super) fn of_recompute(name: &'static str, formula: Formula) -> Recording {
        Recording {
            name,
            formula,
            inputs: Inputs::new(),
            next: Edges::new(),
            saved: Variables::new(),
            flops: 0,
            sequence: 0,
            ctx: Vec::new(),
            ctx_lifetime: CtxLifetime::Node,
            fate: Fate::Discarded,
        }
    }

    /// Makes the node.
    pub(super) fn finish(self, outputs: usize) -> Rc<Node> {
        Rc::new(Node {
            sequence: self.sequence,
            name: self.name,
            kind: Kind::Formula(self.formula),
            next: self.next,
            inputs: self.inputs,
            outputs,
            flops: self.flops,
            saved: RefCell::new(self.saved),
            hooks: Default::default(),
            ctx: self.ctx.into(),
            ctx_lifetime: self.ctx_lifetime,
            waiting: Default::default(),
        })
    }
}
