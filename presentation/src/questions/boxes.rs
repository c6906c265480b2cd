//! Geometry of a tree of memory: a treemap (boxes in boxes) and a flame graph (callers above
//! callees), in percent of the width and height of their frame.

use api::alive::TreeNode;
use std::cmp::Reverse;
use timeline::order;

/// A node's box, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// Position in the tree.
    pub node: usize,
    /// From the left.
    pub x: f64,
    /// From the top.
    pub y: f64,
    /// Width.
    pub w: f64,
    /// Height.
    pub h: f64,
    /// How many boxes it lies in.
    pub depth: usize,
}

/// How many levels of boxes lie inside each other.
const MAP_DEPTH: usize = 3;
/// Room for the name of a box with inner boxes, percent of the height.
const HEAD: f64 = 5.5;
/// Rows of a flame graph.
pub const FLAME_ROWS: usize = 16;
/// Boxes that are narrower or lower than this are not drawn, percent.
const LEAST: f64 = 0.35;

/// The tree's children, by position.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    children: Vec<Vec<usize>>,
    bytes: Vec<f64>,
    parents: Vec<Option<usize>>,
}

impl Shape {
    /// The shape of a tree whose parents come before their children.
    pub fn new(tree: &[TreeNode]) -> Shape {
        let mut children = vec![Vec::new(); tree.len()];
        let parents: Vec<Option<usize>> = tree
            .iter()
            .map(|node| node.parent.map(|parent| parent as usize))
            .collect();
        for (at, parent) in parents.iter().enumerate() {
            if let Some(siblings) = parent.and_then(|parent| children.get_mut(parent)) {
                siblings.push(at);
            }
        }
        Shape {
            children,
            bytes: tree.iter().map(|n| n.tally.bytes.0 as f64).collect(),
            parents,
        }
    }

    /// The first node at or below one that branches or has memory of its own. A chain of frames
    /// with the same memory would show nothing new.
    pub fn branching(&self, from: usize) -> usize {
        let mut at = from;
        while let [only] = self.children[at].as_slice()
            && self.bytes[*only] >= 0.98 * self.bytes[at]
        {
            at = *only;
        }
        at
    }

    /// The children of a node, the largest first.
    pub fn branches(&self, node: usize) -> Vec<usize> {
        let mut branches = self.children[node].clone();
        order::sort_by_key(&mut branches, |&node| Reverse(self.bytes[node] as u64));
        branches
    }

    /// Where colours begin, the largest first: below the chain of frames that all stacks share, and
    /// below what holds more than half of everything, as `<module>` often does. One colour for
    /// nearly all would tell nothing.
    pub fn coloured(&self) -> Vec<usize> {
        let mut begin = self.branches(self.branching(0));
        let is_most = |&node: &usize| self.bytes[node] > 0.5 * self.bytes[0];
        while let Some(most) = begin.first().copied().filter(is_most) {
            let parts = self.branches(self.branching(most));
            if parts.len() < 2 {
                break;
            }
            begin.splice(..1, parts);
            order::sort_by_key(&mut begin, |&node| Reverse(self.bytes[node] as u64));
        }
        begin
    }

    /// A node and all below it.
    pub fn below(&self, node: usize) -> Vec<usize> {
        let mut nodes = vec![node];
        let mut at = 0;
        while let Some(&node) = nodes.get(at) {
            nodes.extend(&self.children[node]);
            at += 1;
        }
        nodes
    }

    /// The memory of a node that is of none below it, bytes.
    pub fn own(&self, node: usize) -> u64 {
        let mut own = self.bytes[node];
        for &child in &self.children[node] {
            own -= self.bytes[child];
        }
        own as u64
    }

    /// The path from the root to a node, including both.
    pub fn way(&self, node: usize) -> Vec<usize> {
        let parent = |&at: &usize| self.parents[at];
        let mut way: Vec<usize> = std::iter::successors(Some(node), parent).collect();
        way.reverse();
        way
    }

    /// Boxes of the treemap below `root`; `aspect` is width over height of the frame.
    pub fn treemap(&self, root: usize, aspect: f64) -> Vec<Placed> {
        let mut out = Vec::new();
        let frame = Placed {
            node: root,
            x: 0.0,
            y: 0.0,
            w: 100.0,
            h: 100.0,
            depth: 0,
        };
        if root < self.children.len() {
            self.fill(self.branching(root), frame, aspect, &mut out);
        }
        out
    }

    fn fill(&self, node: usize, frame: Placed, aspect: f64, out: &mut Vec<Placed>) {
        let children = &self.children[node];
        let below: f64 = children.iter().map(|&c| self.bytes[c]).sum();
        if children.is_empty() {
            // A leaf fills its frame.
            if frame.depth == 0 {
                out.push(Placed { node, ..frame });
            }
            return;
        }
        // The node's own memory stays as free space at the end.
        let whole = self.bytes[node].max(below).max(1.0);
        let areas: Vec<f64> = children.iter().map(|&c| self.bytes[c] / whole).collect();
        for (&child, cell) in children.iter().zip(squarified(&areas, frame, aspect)) {
            if cell.w < LEAST || cell.h < LEAST {
                continue;
            }
            let placed = Placed {
                node: child,
                depth: frame.depth + 1,
                ..cell
            };
            out.push(placed);
            let inner = Placed {
                y: placed.y + HEAD,
                h: placed.h - HEAD,
                ..placed
            };
            if placed.depth < MAP_DEPTH && inner.h > 2.0 * HEAD && inner.w > 6.0 {
                let at = self.branching(child);
                // A box with only one box inside is drawn as one box.
                if self.children[at].len() > 1 {
                    self.fill(at, inner, aspect, out);
                }
            }
        }
    }

    /// Boxes of the flame graph: the path to `root` at the top, and its callees below.
    pub fn flame(&self, root: usize) -> Vec<Placed> {
        let mut out = Vec::new();
        if root >= self.children.len() {
            return out;
        }
        let h = 100.0 / FLAME_ROWS as f64;
        let way = self.way(root);
        let rows = way.len().min(4);
        for (row, &node) in way[way.len() - rows..].iter().enumerate() {
            out.push(Placed {
                node,
                x: 0.0,
                y: row as f64 * h,
                w: 100.0,
                h,
                depth: row,
            });
        }
        let mut at = rows - 1;
        while let Some(parent) = out.get(at).copied() {
            at += 1;
            if parent.depth + 1 == FLAME_ROWS {
                continue;
            }
            let mut x = parent.x;
            for &child in &self.children[parent.node] {
                let w = parent.w * self.bytes[child] / self.bytes[parent.node].max(1.0);
                if w >= LEAST {
                    out.push(Placed {
                        node: child,
                        x,
                        y: parent.y + h,
                        w,
                        h,
                        depth: parent.depth + 1,
                    });
                }
                x += w;
            }
        }
        out
    }
}

/// Divides a frame into boxes with the given shares, as square as possible (Bruls, Huizing, van
/// Wijk 2000). The shares descend and sum to one or less; the missing part stays free.
fn squarified(shares: &[f64], frame: Placed, aspect: f64) -> Vec<Placed> {
    let mut out = Vec::with_capacity(shares.len());
    let whole = frame.w * frame.h;
    let (mut x, mut y, mut w, mut h) = (frame.x, frame.y, frame.w, frame.h);
    let mut next = 0;
    while next < shares.len() && w > 0.0 && h > 0.0 {
        // Along the side that is shorter on the screen.
        let along_height = w * aspect >= h;
        let side = if along_height { h } else { w };
        let stretch = if along_height { aspect } else { 1.0 / aspect };
        let worst = |row: &[f64]| {
            let sum: f64 = row.iter().sum::<f64>() * whole;
            let thick = sum / side;
            let ratio = |share: &f64| {
                let long = share * whole / thick;
                let ratio = thick * stretch / long;
                ratio.max(1.0 / ratio)
            };
            row.iter().map(ratio).fold(1.0, f64::max)
        };
        let mut end = next + 1;
        while end < shares.len() && worst(&shares[next..=end]) <= worst(&shares[next..end]) {
            end += 1;
        }
        let sum: f64 = shares[next..end].iter().sum::<f64>() * whole;
        let thick = (sum / side).min(if along_height { w } else { h });
        let mut at = 0.0;
        for share in &shares[next..end] {
            let long = match thick > 0.0 {
                true => (share * whole / thick).min((side - at).max(0.0)),
                false => 0.0,
            };
            out.push(match along_height {
                true => Placed {
                    x,
                    y: y + at,
                    w: thick,
                    h: long,
                    ..frame
                },
                false => Placed {
                    x: x + at,
                    y,
                    w: long,
                    h: thick,
                    ..frame
                },
            });
            at += long;
        }
        match along_height {
            true => (x, w) = (x + thick, w - thick),
            false => (y, h) = (y + thick, h - thick),
        }
        next = end;
    }
    let empty = Placed {
        w: 0.0,
        h: 0.0,
        ..frame
    };
    out.resize(shares.len(), empty);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::alive::Tally;
    use proptest::prelude::*;
    use trace::units::Bytes;

    fn tree(nodes: &[(Option<u32>, u64)]) -> Vec<TreeNode> {
        let node = |(at, &(parent, bytes)): (usize, &(Option<u32>, u64))| TreeNode {
            parent,
            key: format!("{at:016x}"),
            label: format!("node {at}"),
            tally: Tally {
                count: 1,
                bytes: Bytes(bytes),
            },
        };
        nodes.iter().enumerate().map(node).collect()
    }

    #[test]
    fn a_flame_graph_puts_callees_below_their_callers() {
        let tree = tree(&[(None, 100), (Some(0), 60), (Some(0), 40), (Some(1), 30)]);
        let shape = Shape::new(&tree);
        let boxes = shape.flame(0);
        let at = |node: usize| *boxes.iter().find(|b| b.node == node).unwrap();
        assert_eq!((at(0).x, at(0).w, at(0).y), (0.0, 100.0, 0.0));
        assert_eq!((at(1).x, at(1).w), (0.0, 60.0));
        assert_eq!((at(2).x, at(2).w), (60.0, 40.0));
        assert_eq!((at(3).x, at(3).w, at(3).depth), (0.0, 30.0, 2));
        let zoomed = shape.flame(1);
        let widths: Vec<f64> = zoomed.iter().map(|b| b.w).collect();
        assert_eq!(
            widths,
            [100.0, 100.0, 50.0],
            "the way down, then what is below"
        );
    }

    #[test]
    fn a_chain_is_passed_over_and_shown_as_the_way() {
        let tree = tree(&[(None, 100), (Some(0), 100), (Some(1), 60), (Some(1), 40)]);
        let shape = Shape::new(&tree);
        assert_eq!(shape.branching(0), 1);
        let nodes: Vec<usize> = shape.treemap(0, 2.0).iter().map(|b| b.node).collect();
        assert_eq!(nodes, [2, 3]);
        assert_eq!(shape.way(3), [0, 1, 3]);
        assert_eq!(shape.treemap(3, 2.0)[0].w, 100.0, "a leaf fills the frame");
        assert!(shape.treemap(9, 1.0).is_empty() && shape.flame(9).is_empty());
    }

    proptest! {
        #[test]
        fn areas_are_shares_and_boxes_do_not_overlap(
            mut sizes in prop::collection::vec(1..1_u64 << 32, 1..30), aspect in 0.3..4.0_f64,
        ) {
            sizes.sort_unstable_by(|a, b| b.cmp(a));
            let total: u64 = sizes.iter().sum();
            let shares: Vec<f64> = sizes.iter().map(|&s| s as f64 / total as f64).collect();
            let frame = Placed { node: 0, x: 0.0, y: 0.0, w: 100.0, h: 100.0, depth: 0 };
            let boxes = squarified(&shares, frame, aspect);
            for (cell, share) in boxes.iter().zip(&shares) {
                prop_assert!((cell.w * cell.h / 10_000.0 - share).abs() < 1e-6);
                prop_assert!(cell.x >= -1e-6 && cell.x + cell.w <= 100.0 + 1e-6);
                prop_assert!(cell.y >= -1e-6 && cell.y + cell.h <= 100.0 + 1e-6);
            }
            for (i, a) in boxes.iter().enumerate() {
                for b in &boxes[i + 1..] {
                    let apart = a.x + a.w <= b.x + 1e-6
                        || b.x + b.w <= a.x + 1e-6
                        || a.y + a.h <= b.y + 1e-6
                        || b.y + b.h <= a.y + 1e-6;
                    prop_assert!(apart, "{a:?} {b:?}");
                }
            }
        }
    }
}
