//! Everything that is alive between two steps, as numbers: tensors, storages and nodes, and what
//! they hold of each other. Each has the number at which the walk met it.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use crate::autograd::{Edge, Kind, Node, NodeRef, Saved, SavedVariable, Tensor};
use crate::device::EventId;
use crate::memory::Storage;
use crate::race::Clock;
use crate::session::{HostCopy, Session};
use crate::tensor::SavedTensor;
use crate::workload::Workload;

/// What is alive, and the events that may still be asked for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Alive {
    pub numbers: Vec<u64>,
    pub events: Vec<EventId>,
}

/// Walks from the program's variables, the libraries' workspaces and the offloader. `clocks` gets
/// what each event orders. `None` if a variable of the program has a graph: then backward may run
/// nodes of this step in the next one, and the walk does not know everything about nodes.
pub(super) fn alive(
    session: &Session,
    workload: &dyn Workload,
    clocks: &mut Vec<Option<Clock>>,
) -> Option<Alive> {
    let mut walk = Walk::default();
    let mut has_graph = false;
    workload.visit(&mut |_, tensor| {
        has_graph |= tensor.0.grad_fn.is_some();
        walk.tensor(tensor);
    });
    for (_, storage) in session.workspace_memory() {
        walk.storage(storage);
    }
    if let Some(offloader) = session.offloader() {
        let held = offloader.standing();
        walk.found.numbers.extend(held.numbers);
        held.tensors.into_iter().for_each(|held| walk.tensor(held));
        held.hosts.into_iter().for_each(|host| walk.host(host));
        for event in held.events {
            walk.found.events.push(event.id());
            clocks.push(event.clock().cloned());
        }
        if let Some(NodeRef(Some(node))) = held.node {
            walk.node(node, Rc::strong_count(node));
        }
    }
    walk.say(session.standing_of_modules());
    session.visit_modules(&mut |_, tensor| walk.tensor(tensor));
    while let Some(node) = walk.queue.pop_front() {
        walk.inside(&node);
    }
    (!has_graph).then_some(walk.found)
}

/// Points to anything.
type Place = *const ();

#[derive(Default)]
struct Walk {
    found: Alive,
    met: HashMap<Place, u64>,
    /// Nodes that were met, but not yet looked into.
    queue: VecDeque<Rc<Node>>,
}

impl Walk {
    fn say(&mut self, numbers: impl IntoIterator<Item = u64>) {
        self.found.numbers.extend(numbers);
    }

    /// Notes the number of this thing; returns whether it is new.
    fn meet(&mut self, place: Place) -> bool {
        let next = self.met.len() as u64;
        let number = *self.met.entry(place).or_insert(next);
        self.say([number]);
        number == next
    }

    fn tensor(&mut self, tensor: &Tensor) {
        let inner = &tensor.0;
        if !self.meet(Rc::as_ptr(inner).cast()) {
            return;
        }
        let uses = Rc::strong_count(inner) as u64;
        self.say([uses, u64::from(inner.is_view)]);
        self.say(numbers_of(&inner.saved));
        self.storage(&inner.storage);
        self.edge(inner.grad_fn.as_ref());
        self.say([u64::from(inner.leaf.is_some())]);
        let Some(leaf) = &inner.leaf else { return };
        match &*leaf.grad.borrow() {
            Some(grad) => self.tensor(grad),
            None => self.say([NONE]),
        }
        let accumulator = leaf.accumulator.borrow();
        let holders = accumulator.strong_count();
        match accumulator.upgrade() {
            Some(node) => self.node(&node, holders),
            None => self.say([NONE]),
        }
    }

    fn storage(&mut self, storage: &Rc<Storage>) {
        if self.meet(Rc::as_ptr(storage).cast()) {
            self.say([Rc::strong_count(storage) as u64]);
            self.say(storage.standing());
        }
    }

    fn host(&mut self, host: &HostCopy) {
        self.say(host.standing());
    }

    fn edge(&mut self, edge: Option<&Edge>) {
        match edge {
            Some(edge) => {
                self.say([edge.output as u64]);
                self.node(&edge.node, Rc::strong_count(&edge.node));
            }
            None => self.say([NONE]),
        }
    }

    /// `holders` was counted before anything here holds the node too.
    fn node(&mut self, node: &Rc<Node>, holders: usize) {
        if self.meet(Rc::as_ptr(node).cast()) {
            self.say([holders as u64]);
            self.queue.push_back(Rc::clone(node));
        }
    }

    fn inside(&mut self, node: &Rc<Node>) {
        let name = node.name();
        self.say([name.as_ptr() as u64, name.len() as u64, node.outputs as u64]);
        if let Kind::Accumulate(leaf) = &node.kind {
            self.tensor(leaf);
        }
        self.say([node.next.len() as u64]);
        for edge in &node.next {
            self.edge(edge.as_ref());
        }
        let saved = node.saved.borrow();
        self.say([saved.len() as u64, node.hooks.borrow().len() as u64]);
        for variable in saved.iter() {
            self.variable(variable);
        }
        let (ctx, waiting) = (node.ctx.borrow(), node.waiting.borrow());
        self.say([ctx.len() as u64, waiting.grads.len() as u64]);
        let waiting = waiting.grads.iter().map(Option::as_ref);
        for tensor in ctx.iter().map(Some).chain(waiting) {
            match tensor {
                Some(tensor) => self.tensor(tensor),
                None => self.say([NONE]),
            }
        }
    }

    fn variable(&mut self, variable: &SavedVariable) {
        self.edge(variable.grad_fn.as_ref());
        match &variable.packed {
            Saved::Plain(tensor) => {
                self.say([0]);
                self.tensor(tensor);
            }
            // Its id is different in the next step. The tracker holds it, or nothing does.
            Saved::Offloaded(_) => self.say([1]),
            // The offloader knows it, or backward has taken it.
            Saved::InModule(slot) => self.say([4, Rc::strong_count(slot) as u64]),
            Saved::OnHost(host) => {
                self.say([2]);
                if self.meet(Rc::as_ptr(host).cast()) {
                    self.say([Rc::strong_count(host) as u64]);
                    self.host(host.copy());
                }
            }
            Saved::Held { holder, frame } => {
                self.say([3, Rc::strong_count(holder) as u64]);
                if let Some(tensor) = &*holder.borrow() {
                    self.tensor(tensor);
                }
                if self.meet(Rc::as_ptr(frame).cast()) {
                    self.say([Rc::strong_count(frame) as u64]);
                    for tensor in frame.captured() {
                        self.tensor(tensor);
                    }
                    if let Some(saver) = frame.input_saver() {
                        // Minus the reference that was made to look at it.
                        self.node(&saver, Rc::strong_count(&saver) - 1);
                    }
                }
            }
        }
    }
}

/// Stands for something that does not exist.
const NONE: u64 = u64::MAX;

fn numbers_of(saved: &SavedTensor) -> impl Iterator<Item = u64> {
    let known = [
        saved.dtype as u64,
        saved.placement as u64,
        saved.class as u64,
        saved.storage.bytes.0,
    ];
    known.into_iter().chain(saved.layout.numbers())
}
