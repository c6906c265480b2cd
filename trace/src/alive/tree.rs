//! Cells as a tree: what a treemap and a flame graph draw.
//!
//! A node's bytes are those of all blocks below it; what no child holds is its own. Small nodes are
//! not handed out: their bytes stay in their parent.

use super::grouping::{module_name, no_stack_of};
use super::{Cell, Dimension, Tally};
use crate::categories::Category;
use crate::leaks::site;
use crate::stacks::{FxHashMap, StackIdx, Stacks, fx_hash};
use crate::tiles::{FROM_BEFORE, frame_label};
use crate::trace::{BlockKind, DeviceTrace, PoolId, PoolSize};

/// Nodes handed out, at most.
const MAX_NODES: usize = 800;
/// Smaller parts of the whole than one in this many are not.
const SMALLEST: u64 = 4000;
/// Frames of a path, at most: deeper recursion is cut.
const MAX_DEPTH: usize = 64;

/// A node; its parent comes before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Position of its parent; `None` for the root.
    pub parent: Option<u32>,
    /// Names its path: equal in any two trees with the same path.
    pub key: u64,
    /// What it is.
    pub label: String,
    /// All blocks below it.
    pub tally: Tally,
}

/// The tree, its root first, children of a node with most bytes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Nodes that were too small to be handed out.
    pub left_out: u64,
}

struct Growing {
    parent: u32,
    key: u64,
    label: String,
    tally: Tally,
    children: FxHashMap<String, u32>,
}

impl Tree {
    /// Builds it: the group's name and below it the stack, outermost function first. Modules are
    /// taken apart at their dots.
    pub fn new(device: &DeviceTrace, stacks: &Stacks, by: Dimension, cells: &[Cell]) -> Tree {
        let mut nodes = vec![Growing {
            parent: 0,
            key: 0,
            label: "all".to_owned(),
            tally: Tally::default(),
            children: FxHashMap::default(),
        }];
        let mut paths: FxHashMap<(StackIdx, bool), Vec<String>> = FxHashMap::default();
        for cell in cells {
            let kind = &device.blocks.kinds[cell.kind.index()];
            let path = path(stacks, by, cell, kind, &mut paths);
            let mut at = 0;
            nodes[0].tally.join(cell.tally);
            for label in path {
                at = child(&mut nodes, at, &label);
                nodes[at].tally.join(cell.tally);
            }
        }
        pruned(nodes)
    }
}

fn child(nodes: &mut Vec<Growing>, parent: usize, label: &str) -> usize {
    if let Some(&known) = nodes[parent].children.get(label) {
        return known as usize;
    }
    let at = nodes.len();
    let key = fx_hash(&(nodes[parent].key, label));
    nodes[parent].children.insert(label.to_owned(), at as u32);
    nodes.push(Growing {
        parent: parent as u32,
        key,
        label: label.to_owned(),
        tally: Tally::default(),
        children: FxHashMap::default(),
    });
    at
}

/// The largest nodes, breadth first.
fn pruned(nodes: Vec<Growing>) -> Tree {
    let smallest = nodes[0].tally.bytes.0 / SMALLEST;
    let mut by_size: Vec<u32> = (0..nodes.len() as u32).collect();
    by_size.sort_by_key(|&at| (std::cmp::Reverse(nodes[at as usize].tally.bytes), at));
    let mut wanted = vec![false; nodes.len()];
    // A parent holds at least as much as its child and was made before it: none is orphaned.
    for &at in by_size.iter().take(MAX_NODES) {
        wanted[at as usize] = nodes[at as usize].tally.bytes.0 > smallest;
    }
    wanted[0] = true;
    let mut position = vec![0_u32; nodes.len()];
    let mut order: Vec<u32> = vec![0];
    let mut out = Vec::new();
    let mut next = 0;
    while next < order.len() {
        let at = order[next] as usize;
        position[at] = next as u32;
        let node = &nodes[at];
        out.push(Node {
            parent: (at != 0).then(|| position[node.parent as usize]),
            key: node.key,
            label: node.label.clone(),
            tally: node.tally,
        });
        let mut children: Vec<u32> = node.children.values().copied().collect();
        children.retain(|&c| wanted[c as usize]);
        children.sort_by_key(|&c| (std::cmp::Reverse(nodes[c as usize].tally.bytes), c));
        order.extend(children);
        next += 1;
    }
    Tree {
        left_out: (nodes.len() - out.len()) as u64,
        nodes: out,
    }
}

fn path(
    stacks: &Stacks,
    by: Dimension,
    cell: &Cell,
    kind: &BlockKind,
    known: &mut FxHashMap<(StackIdx, bool), Vec<String>>,
) -> Vec<String> {
    let inferred = cell.forward != StackIdx::NONE;
    let stack = match inferred {
        true => cell.forward,
        false => kind.alloc_stack,
    };
    let mut path = match by {
        Dimension::Category => {
            let category = cell.category.unwrap_or(Category::Unknown);
            vec![category.label().to_owned()]
        }
        Dimension::Stream => vec![match kind.stream {
            0 => "default stream".to_owned(),
            stream => format!("stream {stream:#x}"),
        }],
        Dimension::Pool => vec![pool(kind)],
        Dimension::Module | Dimension::File | Dimension::Function => headline(stacks, by, stack),
        Dimension::Stack | Dimension::Site => Vec::new(),
    };
    if matches!(by, Dimension::Module | Dimension::File) && !path.is_empty() {
        return path;
    }
    if stack == StackIdx::NONE {
        let why = if cell.preexisting {
            FROM_BEFORE
        } else {
            "no stack recorded"
        };
        if path.first().is_none_or(|group| group != why) {
            path.push(why.to_owned());
        }
        path.push(no_stack_of(kind.requested));
        return path;
    }
    let frames = known
        .entry((stack, inferred))
        .or_insert_with(|| frames(stacks, stack, inferred));
    path.extend(frames.iter().cloned());
    path
}

fn pool(kind: &BlockKind) -> String {
    let size = match kind.pool_size {
        PoolSize::Small => "small",
        PoolSize::Large => "large",
    };
    match kind.pool {
        PoolId(0, 0) => format!("{size} pool"),
        PoolId(a, b) => format!("private {size} pool ({a}, {b})"),
    }
}

/// The parts of a module's name and the function in it.
fn headline(stacks: &Stacks, by: Dimension, stack: StackIdx) -> Vec<String> {
    let Some(frame) = stacks.headline(stack) else {
        return Vec::new();
    };
    let function = frame_label(stacks, frame);
    let file = stacks.str(frame.filename);
    match by {
        Dimension::Module => {
            let name = module_name(file);
            let parts = name.split('.').filter(|part| !part.is_empty());
            let mut parts: Vec<String> = parts.map(str::to_owned).collect();
            parts.push(function);
            parts
        }
        Dimension::File => vec![site::module(file).to_owned(), function],
        _ => vec![function],
    }
}

/// Functions from the outermost to the innermost.
fn frames(stacks: &Stacks, stack: StackIdx, inferred: bool) -> Vec<String> {
    let all = || stacks.frames(stack).iter().map(|&f| stacks.frame(f));
    let python =
        |f: &crate::stacks::Frame| site::is_python(stacks, *f) && !site::is_module_call(stacks, *f);
    let mut frames: Vec<_> = all().filter(python).collect();
    if frames.is_empty() {
        frames = all().filter(|f| !stacks.is_plumbing(*f)).collect();
    }
    let lead = inferred.then(|| "backward, by its forward operation (inferred)".to_owned());
    let frames = frames.iter().rev().take(MAX_DEPTH);
    let frames = frames.map(|f| frame_label(stacks, *f));
    lead.into_iter().chain(frames).collect()
}
