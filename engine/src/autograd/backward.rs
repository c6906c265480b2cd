//! The backward pass: nodes in the order of PyTorch's engine, gradients in input buffers.

use std::collections::BinaryHeap;
use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::graph::{Call, CtxLifetime, Grads, Kind, Node, NodeRef, Saved, Slots, Tensor, Waiting};
use crate::deviation::Deviation;
use crate::memory::Role;
use crate::offload::GraphTask;
use crate::session::{END_OF_MODULE, RunError, Session};

/// A node that has all its gradients. Accumulators run before all others; of the others, the node
/// that was made last runs first.
struct Ready {
    priority: u64,
    node: Rc<Node>,
    grads: Slots,
}

impl PartialEq for Ready {
    fn eq(&self, other: &Ready) -> bool {
        self.priority == other.priority
    }
}

impl Eq for Ready {}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Ready) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ready {
    fn cmp(&self, other: &Ready) -> std::cmp::Ordering {
        self.priority.cmp(&other.priority)
    }
}

/// A backward pass that has stopped between two of its nodes.
pub(crate) struct Pass {
    task: GraphTask,
    /// Nodes that have all their gradients; the pass is over when there are none.
    ready: BinaryHeap<Ready>,
}

/// How far a pass goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until it comes to a module, or to its end.
    Module,
    End,
}

impl Session {
    /// `loss.backward()`.
    ///
    /// # Errors
    /// The errors of formulas, hooks and the device.
    pub fn backward(&mut self, loss: &Tensor) -> Result<(), RunError> {
        let mut pass = self.begin_pass(loss)?;
        self.run_pass(&mut pass, Until::End)
    }

    /// A backward pass that has not run any node.
    pub(crate) fn begin_pass(&mut self, loss: &Tensor) -> Result<Pass, RunError> {
        let Some(root) = loss.0.grad_fn.clone() else {
            return Err(RunError::NoGradient);
        };
        let seed = self.ones_like(loss)?;
        let outer = self.begin_graph_task();
        let task = self.graph_task();
        self.end_graph_task(outer);
        count_dependencies(&root.node, task);
        let mut grads: Slots = smallvec![None; root.node.outputs];
        grads[root.output] = Some(seed);
        let mut ready = BinaryHeap::new();
        ready.push(Ready {
            priority: root.node.sequence,
            node: root.node,
            grads,
        });
        Ok(Pass { task, ready })
    }

    /// Runs the pass until it comes to the next module.
    pub(crate) fn backward_through_module(&mut self, pass: &mut Pass) -> Result<(), RunError> {
        self.run_pass(pass, Until::Module)
    }

    fn run_pass(&mut self, pass: &mut Pass, until: Until) -> Result<(), RunError> {
        let outer = self.graph_task();
        self.end_graph_task(pass.task);
        let before = self.set_grad_enabled(false);
        let outcome = self.run_ready(&mut pass.ready, until);
        self.set_grad_enabled(before);
        let outcome = match pass.ready.is_empty() {
            true => outcome.and_then(|()| self.run_end_of_backward()),
            false => outcome,
        };
        self.end_graph_task(outer);
        outcome
    }

    fn run_ready(&mut self, ready: &mut BinaryHeap<Ready>, until: Until) -> Result<(), RunError> {
        while let Some(Ready { node, grads, .. }) = ready.pop() {
            let outputs = self.run_node(&node, grads)?;
            for (edge, grad) in node.next.iter().zip(outputs) {
                let Some(edge) = edge else { continue };
                let mut waiting = edge.node.waiting.borrow_mut();
                waiting.missing -= 1;
                if let Some(grad) = grad {
                    self.add_gradient(&mut waiting.grads[edge.output], grad)?;
                }
                if waiting.missing == 0 {
                    let grads = std::mem::take(&mut waiting.grads);
                    let node = Rc::clone(&edge.node);
                    ready.push(Ready {
                        priority: node.sequence,
                        node,
                        grads,
                    });
                }
            }
            drop(node);
            let comes_to_module = |next: &Ready| next.node.name == END_OF_MODULE;
            if until == Until::Module && ready.peek().is_some_and(comes_to_module) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// `InputBuffer::add`: adds in place if nothing else refers to the first gradient.
    fn add_gradient(&mut self, slot: &mut Option<Tensor>, grad: Tensor) -> Result<(), RunError> {
        let Some(first) = slot.take() else {
            *slot = Some(grad);
            return Ok(());
        };
        self.write_asked(&first);
        let alone = first.use_count() == 1 && first.owns_storage_alone();
        let sum = if alone && first.layout().is_contiguous() {
            self.kernel_over(&[&first, &grad], &[&first])?;
            first
        } else {
            let sum = self.empty_like(&first)?;
            self.kernel_over(&[&first, &grad], &[&sum])?;
            sum
        };
        *slot = Some(sum);
        Ok(())
    }

    fn run_node(&mut self, node: &Rc<Node>, grads: Slots) -> Result<Grads, RunError> {
        let before = self.set_current_node(NodeRef(Some(Rc::clone(node))));
        let site = self.accelerator.enter_node_site(node.name);
        let op = self.accelerator.set_op(node.name);
        let outcome = self.apply_node(node, grads);
        self.accelerator.set_op(op);
        self.accelerator.restore_site(site);
        self.set_current_node(before);
        outcome
    }

    fn apply_node(&mut self, node: &Rc<Node>, grads: Slots) -> Result<Grads, RunError> {
        let formula = match &node.kind {
            Kind::Accumulate(leaf) => {
                let mut grads = grads;
                if let Some(grad) = grads.pop().flatten() {
                    self.accumulate(leaf, grad)?;
                }
                return Ok(Grads::new());
            }
            Kind::Formula(formula) => formula,
        };
        self.write_run(node);
        let mut call = Call {
            grads,
            saved: self.unpack_all(node)?,
            inputs: &node.inputs,
            flops: node.flops,
            ctx: node.ctx.borrow().clone(),
        };
        let outputs = formula(self, &mut call)?;
        // Saved variables are released before the hooks run (the graph is not retained).
        drop(std::mem::take(&mut call.saved));
        call.ctx.clear();
        if node.ctx_lifetime == CtxLifetime::Backward {
            let cleared = node.ctx.take();
            drop(cleared);
        }
        let released = node.saved.take();
        drop(released);
        let outputs = self.fit_outputs(node, outputs)?;
        self.write_hooks();
        let hooks = node.hooks.take();
        for hook in hooks {
            self.run_post_hook(hook)?;
        }
        drop(call);
        Ok(outputs)
    }

    /// `validate_outputs`: gradients of broadcast inputs are summed, and gradients of another type
    /// are cast.
    fn fit_outputs(&mut self, node: &Rc<Node>, mut outputs: Grads) -> Result<Grads, RunError> {
        for (input, slot) in node.inputs.iter().zip(&mut outputs) {
            let Some(grad) = slot.take() else { continue };
            let fits = grad.elements() == input.elements() && grad.dtype() == input.dtype;
            if fits {
                *slot = Some(grad);
                continue;
            }
            let mut grad = grad;
            if grad.elements() != input.elements() {
                let summed = self.empty(input.shape, grad.dtype())?;
                self.kernel_over(&[&grad], &[&summed])?;
                grad = summed;
            }
            if grad.dtype() != input.dtype {
                let cast = self.empty(input.shape, input.dtype)?;
                self.kernel_over(&[&grad], &[&cast])?;
                grad = cast;
            }
            *slot = Some(grad);
        }
        Ok(outputs)
    }

    /// Unpacks a node's saved tensors in the order in which they were saved.
    pub(crate) fn unpack_all(
        &mut self,
        node: &Rc<Node>,
    ) -> Result<SmallVec<[Tensor; 4]>, RunError> {
        let count = node.saved.borrow().len();
        let mut tensors = SmallVec::with_capacity(count);
        for index in 0..count {
            // The borrow must end before the hook runs, because a recompute in it may unpack the
            // same node.
            let (packed, grad_fn) = {
                let saved = node.saved.borrow();
                let variable = &saved[index];
                let packed = match &variable.packed {
                    Saved::Plain(tensor) => Saved::Plain(tensor.clone()),
                    Saved::Offloaded(id) => Saved::Offloaded(*id),
                    Saved::OnHost(host) => Saved::OnHost(Rc::clone(host)),
                    Saved::InModule(slot) => Saved::InModule(Rc::clone(slot)),
                    Saved::Held { holder, frame } => Saved::Held {
                        holder: Rc::clone(holder),
                        frame: Rc::clone(frame),
                    },
                };
                (packed, variable.grad_fn.clone())
            };
            let tensor = match packed {
                Saved::Plain(tensor) => tensor,
                Saved::Offloaded(id) => self.unpack_offloaded(id)?,
                Saved::OnHost(host) => self.unpack_from_host(&host)?,
                Saved::InModule(slot) => self.unpack_from_module(&slot)?,
                Saved::Held { holder, frame } => self.unpack_from_region(&holder, &frame)?,
            };
            let tensor = match grad_fn {
                Some(edge) => tensor.view_as(*tensor.layout(), Some(edge)),
                None => tensor,
            };
            tensors.push(tensor);
        }
        Ok(tensors)
    }

    /// `AccumulateGrad`: the first gradient is taken over if nothing else refers to it, and copied
    /// otherwise. Later gradients are added in place.
    fn accumulate(&mut self, leaf: &Tensor, grad: Tensor) -> Result<(), RunError> {
        if let Some(sum) = leaf.grad() {
            return self.kernel_over(&[&sum, &grad], &[&sum]);
        }
        self.write_asked(&grad);
        let alone = grad.use_count() == 1 || self.deviates(Deviation::StealAlways);
        let new = if alone && grad.layout().is_contiguous() {
            grad.detach()
        } else {
            let copy = self.empty_like(&grad)?;
            self.kernel_over(&[&grad], &[&copy])?;
            copy
        };
        self.write_gradient(leaf, &new);
        new.storage().relabel(Role::Gradient);
        leaf.set_grad(Some(new));
        Ok(())
    }
}

/// Prepares every reachable node: counts the edges that lead to it, and clears its gradients.
fn count_dependencies(root: &Rc<Node>, task: GraphTask) {
    let mut stack = vec![Rc::clone(root)];
    while let Some(node) = stack.pop() {
        for edge in node.next.iter().flatten() {
            let mut waiting = edge.node.waiting.borrow_mut();
            if waiting.task != task {
                *waiting = Waiting {
                    task,
                    missing: 0,
                    grads: smallvec![None; edge.node.outputs],
                };
                stack.push(Rc::clone(&edge.node));
            }
            waiting.missing += 1;
        }
    }
}
