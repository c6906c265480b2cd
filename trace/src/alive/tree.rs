//! Cells as a tree: what a treemap and a flame graph draw.
//!
//! The bytes of a node are those of all blocks below it. Bytes that no child has are the node's
//! own. Small nodes are left out: their bytes stay in their parent.

use super::grouping::no_stack_of;
use super::{Cell, Dimension, Tally};
use crate::categories::{Category, Named};
use crate::clip::clipped;
use crate::fingerprint::Fingerprint;
use crate::site;
use crate::stacks::{FrameIdx, FxHashMap, StackIdx, Stacks};
use crate::tiles::{FROM_BEFORE, frame_label};
use crate::trace::{BlockKind, DeviceTrace, PoolId, PoolSize};
use crate::watch::{Stopped, Watch};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::rc::Rc;

/// The largest number of nodes in the answer.
pub const MAX_NODES: usize = 800;
/// A node smaller than this fraction (one part in so many) of the whole is left out.
const SMALLEST: u64 = 4000;
/// Longest path, in frames: deeper recursion is cut.
const MAX_DEPTH: usize = 64;

/// A node; its parent comes before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Position of the node's parent; `None` for the root.
    pub parent: Option<u32>,
    /// Identifies the path: equal in any two trees with the same path.
    pub key: u64,
    /// What it is.
    pub label: String,
    /// All blocks below it.
    pub tally: Tally,
}

/// The tree: the root first; the children of a node by bytes, the largest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Nodes that were too small and were left out.
    pub left_out: u64,
}

struct Growing {
    parent: u32,
    key: u64,
    label: LabelIdx,
    tally: Tally,
}

/// A tree under construction. A hostile file can ask for very many nodes with very long names. So a
/// node has no text of its own, at most [`MAX_LABELS`] names are kept, and at most [`MAX_GROWN`]
/// nodes are made.
struct Growth<'a> {
    stacks: &'a Stacks,
    by: Dimension,
    nodes: Vec<Growing>,
    children: FxHashMap<(u32, LabelIdx), u32>,
    labels: Labels,
    paths: FxHashMap<(StackIdx, bool), Vec<LabelIdx>>,
    /// The names of frames: thousands of stacks share a few hundred frames.
    frames: FxHashMap<FrameIdx, LabelIdx>,
    not_made: u64,
}

/// The largest number of nodes in a tree under construction: about 60 bytes each.
const MAX_GROWN: usize = 1 << 20;
/// The largest number of different names.
const MAX_LABELS: usize = 1 << 17;
/// Longest name, bytes.
const LONGEST_LABEL: usize = 256;
/// Stacks whose paths are remembered.
const MAX_PATHS: usize = 1 << 16;

/// A name of nodes.
type LabelIdx = u32;

/// Names, each kept once.
#[derive(Default)]
struct Labels {
    ids: FxHashMap<Rc<str>, LabelIdx>,
    texts: Vec<Rc<str>>,
}

impl Labels {
    fn id(&mut self, text: &str) -> LabelIdx {
        let text = match self.texts.len() < MAX_LABELS {
            true => clipped(text, LONGEST_LABEL),
            false => Cow::Borrowed("one of many other names"),
        };
        if let Some(&known) = self.ids.get(&*text) {
            return known;
        }
        let text: Rc<str> = Rc::from(&*text);
        let new = self.texts.len() as LabelIdx;
        self.texts.push(Rc::clone(&text));
        self.ids.insert(text, new);
        new
    }
}

impl Tree {
    /// Builds the tree: the group's name, and below it the stack, outermost function first. A
    /// module's name is split at its dots.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn new(
        device: &DeviceTrace,
        stacks: &Stacks,
        by: Dimension,
        cells: &[Cell],
        watch: Watch<'_>,
    ) -> Result<Tree, Stopped> {
        let watch = watch.beside(size_of_val(cells));
        let mut growth = Growth {
            stacks,
            by,
            nodes: Vec::new(),
            children: FxHashMap::default(),
            labels: Labels::default(),
            paths: FxHashMap::default(),
            frames: FxHashMap::default(),
            not_made: 0,
        };
        growth.nodes.push(Growing {
            parent: 0,
            key: 0,
            label: growth.labels.id("all"),
            tally: Tally::default(),
        });
        for (row, cell) in cells.iter().enumerate() {
            watch.at_row(row, || growth.heap_bytes())?;
            let kind = &device.blocks.kinds[cell.kind.index()];
            let path = growth.path(cell, kind);
            growth.nodes[0].tally.join(cell.tally);
            let mut at = 0;
            for label in path {
                let Some(child) = growth.child(at, label) else {
                    growth.not_made += 1;
                    break;
                };
                at = child;
                growth.nodes[at as usize].tally.join(cell.tally);
            }
        }
        Ok(growth.pruned())
    }
}

impl Growth<'_> {
    /// About how many heap bytes it uses.
    fn heap_bytes(&self) -> usize {
        const PER_LABEL: usize = 128;
        const PER_PATH: usize = 128;
        const PER_FRAME: usize = 16;
        let node = size_of::<Growing>() + 32;
        self.nodes.len() * node
            + self.labels.texts.len() * PER_LABEL
            + self.paths.len() * PER_PATH
            + self.frames.len() * PER_FRAME
    }

    fn child(&mut self, parent: u32, label: LabelIdx) -> Option<u32> {
        if let Some(&known) = self.children.get(&(parent, label)) {
            return Some(known);
        }
        if self.nodes.len() >= MAX_GROWN {
            return None;
        }
        let at = self.nodes.len() as u32;
        let text = &*self.labels.texts[label as usize];
        let above = self.nodes[parent as usize].key;
        let key = Fingerprint::default().number(above).text(text).key();
        self.children.insert((parent, label), at);
        self.nodes.push(Growing {
            parent,
            key,
            label,
            tally: Tally::default(),
        });
        Some(at)
    }

    /// The largest nodes, breadth first.
    fn pruned(self) -> Tree {
        let nodes = &self.nodes;
        let smallest = nodes[0].tally.bytes.0 / SMALLEST;
        let mut by_size: Vec<u32> = (0..nodes.len() as u32).collect();
        by_size.sort_by_key(|&at| (Reverse(nodes[at as usize].tally.bytes), at));
        // A parent holds at least as much as its child and was made before it. So no child is kept
        // without its parent.
        let large = by_size.iter().take(MAX_NODES).copied();
        let large = large.filter(|&at| nodes[at as usize].tally.bytes.0 > smallest);
        let mut children: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for at in large.filter(|&at| at != 0) {
            // The children come in order, the largest first.
            let parent = nodes[at as usize].parent;
            children.entry(parent).or_default().push(at);
        }
        let mut order: Vec<(u32, Option<u32>)> = vec![(0, None)];
        let mut out = Vec::new();
        let mut next = 0;
        while next < order.len() {
            let (at, parent) = order[next];
            let node = &nodes[at as usize];
            out.push(Node {
                parent,
                key: node.key,
                label: (*self.labels.texts[node.label as usize]).to_owned(),
                tally: node.tally,
            });
            let below = children.remove(&at).unwrap_or_default();
            order.extend(below.into_iter().map(|child| (child, Some(next as u32))));
            next += 1;
        }
        Tree {
            left_out: (nodes.len() - out.len()) as u64 + self.not_made,
            nodes: out,
        }
    }

    fn path(&mut self, cell: &Cell, kind: &BlockKind) -> Vec<LabelIdx> {
        let (stacks, by) = (self.stacks, self.by);
        let inferred = cell.forward != StackIdx::NONE;
        let stack = match inferred {
            true => cell.forward,
            false => kind.alloc_stack,
        };
        let mut group = match by {
            Dimension::Category => {
                let category = cell.category.unwrap_or(Named::Ours(Category::Unknown));
                vec![category.label().to_owned()]
            }
            Dimension::Stream => vec![match kind.stream {
                0 => "default stream".to_owned(),
                stream => format!("stream {stream:#x}"),
            }],
            Dimension::Pool => vec![pool(kind)],
            Dimension::Module | Dimension::File | Dimension::Function => {
                headline(stacks, by, stack)
            }
            Dimension::Stack | Dimension::Site => Vec::new(),
        };
        let of_files = matches!(by, Dimension::Module | Dimension::File) && !group.is_empty();
        if !of_files && stack == StackIdx::NONE {
            let why = match cell.preexisting {
                true => FROM_BEFORE,
                false => "no stack recorded",
            };
            if group.first().is_none_or(|group| group != why) {
                group.push(why.to_owned());
            }
            group.push(no_stack_of(kind.requested));
        }
        let mut path: Vec<LabelIdx> = group.iter().map(|text| self.labels.id(text)).collect();
        if of_files || stack == StackIdx::NONE {
            return path;
        }
        if let Some(known) = self.paths.get(&(stack, inferred)) {
            path.extend(known);
            return path;
        }
        let lead = inferred.then(|| self.labels.id(INFERRED));
        let frames = frames(stacks, stack).into_iter();
        let frames = lead
            .into_iter()
            .chain(frames.map(|frame| self.frame(frame)));
        let frames: Vec<LabelIdx> = frames.collect();
        path.extend(&frames);
        if self.paths.len() < MAX_PATHS {
            self.paths.insert((stack, inferred), frames);
        }
        path
    }

    fn frame(&mut self, frame: FrameIdx) -> LabelIdx {
        let (stacks, labels) = (self.stacks, &mut self.labels);
        let label = || labels.id(&frame_label(stacks, stacks.frame(frame)));
        *self.frames.entry(frame).or_insert_with(label)
    }
}

/// The outermost name of what a backward pass allocated without a stack.
const INFERRED: &str = "backward, by its forward operation (inferred)";

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
            let name = site::module_name(file);
            let parts = name.split('.').filter(|part| !part.is_empty());
            let parts = parts.take(MAX_DEPTH);
            let mut parts: Vec<String> = parts.map(str::to_owned).collect();
            parts.push(function);
            parts
        }
        Dimension::File => vec![site::module(file).to_owned(), function],
        _ => vec![function],
    }
}

/// Functions from the outermost to the innermost.
fn frames(stacks: &Stacks, stack: StackIdx) -> Vec<FrameIdx> {
    let all = || stacks.frames(stack).iter().copied();
    let is_python = |idx: &FrameIdx| {
        let frame = stacks.frame(*idx);
        site::is_python(stacks, frame) && !site::is_module_call(stacks, frame)
    };
    let mut frames: Vec<FrameIdx> = all().filter(is_python).collect();
    if frames.is_empty() {
        frames = all()
            .filter(|&f| !stacks.is_plumbing(stacks.frame(f)))
            .collect();
    }
    frames.reverse();
    frames.truncate(MAX_DEPTH);
    frames
}
