//! Leaves that a step makes. The graph of a tensor keeps them alive. So if the offloader holds a
//! tensor longer than the program does, it keeps the memory of these leaves too.

use std::rc::{Rc, Weak};

use smallvec::SmallVec;

use crate::autograd::{Edge, Kind, Node, Tensor, TensorImpl};
use crate::script::{Name, Place};

/// How many leaves a step may have: a set of leaves is the bits of one number.
const MOST: usize = 64;

/// The leaves of a step, and which of them each node reaches.
pub(super) struct Leaves {
    met: Vec<Weak<TensorImpl>>,
    places: Vec<Place>,
    /// Sequence number of the first node of the step.
    first: u64,
    nodes: Vec<Known>,
    /// Nodes that the offloader may hold, itself or through a tensor.
    held: Vec<usize>,
}

/// A node of the step.
#[derive(Default)]
struct Known {
    reaches: u64,
    next: SmallVec<[u32; 3]>,
    /// Whether it holds tensors itself until it runs.
    holds: bool,
}

impl Leaves {
    pub fn new(first: u64) -> Leaves {
        Leaves {
            met: Vec::new(),
            places: Vec::new(),
            first,
            nodes: Vec::new(),
            held: Vec::new(),
        }
    }

    /// The places of the leaves' memory.
    pub fn into_places(self) -> Vec<Place> {
        self.places
    }

    /// Number of a leaf that the step made; `None` if there are too many, or if the step did not
    /// make it.
    pub fn number(&mut self, leaf: &Tensor) -> Option<u32> {
        let name = Name::of(leaf.storage().start())?;
        let this = Rc::downgrade(&leaf.0);
        let known = self.met.iter().position(|met| met.ptr_eq(&this));
        let number = known.unwrap_or(self.met.len());
        if known.is_none() && number < MOST {
            self.met.push(this);
            self.places.push(name.place);
        }
        (number < MOST).then_some(number as u32)
    }

    fn of_leaf(&mut self, leaf: &Tensor) -> Option<u64> {
        match Name::of(leaf.storage().start()) {
            None => Some(0),
            Some(_) => self.number(leaf).map(|number| 1 << number),
        }
    }

    /// The leaves that a tensor keeps alive for the offloader: itself, or those that its graph
    /// leads to.
    pub fn held_by_tensor(&mut self, tensor: &Tensor) -> Option<u64> {
        match (&tensor.0.grad_fn, &tensor.0.leaf) {
            (Some(edge), _) => self.held_by_node(&edge.node),
            (None, Some(_)) => self.of_leaf(tensor),
            (None, None) => Some(0),
        }
    }

    /// The leaves that a node keeps alive for the offloader.
    pub fn held_by_node(&mut self, node: &Node) -> Option<u64> {
        self.held.extend(self.place(node));
        self.of_node(node)
    }

    /// The position of a node in the step. Earlier nodes hold nothing of the step, and neither do
    /// nodes that a recompute drops.
    fn place(&self, node: &Node) -> Option<usize> {
        let of_step = matches!(node.kind, Kind::Formula(_));
        let place = node.sequence.checked_sub(self.first).filter(|_| of_step)?;
        (place < self.nodes.len() as u64).then_some(place as usize)
    }

    fn of_node(&mut self, node: &Node) -> Option<u64> {
        if let Kind::Accumulate(leaf) = &node.kind {
            return self.of_leaf(leaf);
        }
        let known = self.place(node).map(|place| self.nodes[place].reaches);
        Some(known.unwrap_or(0))
    }

    /// Adds a node with its edges; `holds` says whether it holds tensors itself until it runs.
    pub fn add_node(&mut self, sequence: u64, edges: &[Option<Edge>], holds: bool) -> Option<()> {
        let mut reaches = 0;
        let mut next = SmallVec::new();
        for edge in edges.iter().flatten() {
            reaches |= self.of_node(&edge.node)?;
            next.extend(self.place(&edge.node).map(|place| place as u32));
        }
        let place = sequence.checked_sub(self.first)? as usize;
        if self.nodes.len() <= place {
            self.nodes.resize_with(place + 1, Known::default);
        }
        self.nodes[place] = Known {
            reaches,
            next,
            holds,
        };
        Some(())
    }

    /// Notes that a node runs, and drops what it held.
    pub fn run(&mut self, node: &Node) {
        if let Some(place) = self.place(node) {
            self.nodes[place].holds = false;
        }
    }

    /// Whether the offloader may hold a node that leads to one which has not run and holds tensors.
    /// A script cannot say how long those tensors live.
    pub fn leave_holders(&self) -> bool {
        let mut leads = vec![false; self.nodes.len()];
        // Edges lead to earlier nodes.
        for (place, node) in self.nodes.iter().enumerate() {
            leads[place] = node.holds || node.next.iter().any(|&next| leads[next as usize]);
        }
        self.held.iter().any(|&place| leads[place])
    }
}
