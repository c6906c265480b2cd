//! What is alive as boxes: their colours, which of them fills the chart, and the text about one.

use super::boxes::Shape;
use ::timeline::colours::N_GROUP_COLOURS;
use ::timeline::format;
use api::alive::TreeNode;

/// Colours of boxes: all but the first, which the picture has for what was there before the
/// recording.
const COLOURS: usize = N_GROUP_COLOURS - 1;

/// The class of a node's colour. All nodes of a branch have one colour, so that callees look like
/// their callers. Branches differ as long as there are colours; the largest ones choose first, so
/// that they keep theirs from moment to moment.
pub fn colour(tree: &[TreeNode], shape: &Shape, node: usize) -> String {
    let way = shape.way(node);
    let mut taken = [false; COLOURS];
    for branch in shape.coloured() {
        let wanted = (key(&tree[branch]) % COLOURS as u64) as usize;
        let mut colours = (0..COLOURS).map(|n| (wanted + n) % COLOURS);
        let colour = colours.find(|&colour| !taken[colour]).unwrap_or(wanted);
        taken[colour] = true;
        if way.contains(&branch) {
            return format!("cat-{}", 1 + colour);
        }
    }
    "cat-rest".to_owned()
}

/// A node's key as a number.
pub fn key(node: &TreeNode) -> u64 {
    u64::from_str_radix(&node.key, 16).unwrap_or(0)
}

/// The node that a link names; otherwise the root.
pub fn root_of(tree: &[TreeNode], wanted: Option<u64>) -> usize {
    let found = wanted.and_then(|wanted| tree.iter().position(|n| key(n) == wanted));
    found.unwrap_or(0)
}

/// The text about a node.
pub fn readout(tree: &[TreeNode], node: usize) -> String {
    let (node, whole) = (&tree[node], &tree[0]);
    let share = node.tally.bytes.0 as f64 / whole.tally.bytes.0.max(1) as f64 * 100.0;
    format!(
        "{} · {} ({}) in {}, {share:.1} %",
        node.label,
        node.tally.bytes,
        format::exact_bytes(node.tally.bytes.get()),
        format::plural(node.tally.count, "block"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::alive::Tally;
    use trace::units::Bytes;

    fn tree() -> Vec<TreeNode> {
        let node = |parent: Option<u32>, key: u64, bytes: u64| TreeNode {
            parent,
            key: format!("{key:016x}"),
            label: format!("f{key}"),
            tally: Tally {
                count: 2,
                bytes: Bytes(bytes),
            },
        };
        vec![
            node(None, 0, 4096),
            node(Some(0), 7, 4096),
            node(Some(1), 13, 3072),
            node(Some(1), 20, 1024),
            node(Some(2), 99, 3072),
        ]
    }

    #[test]
    fn a_branch_has_one_colour() {
        let tree = tree();
        let shape = Shape::new(&tree);
        assert_eq!(colour(&tree, &shape, 2), "cat-3");
        assert_eq!(colour(&tree, &shape, 4), "cat-3", "as its caller");
        assert_eq!(colour(&tree, &shape, 3), "cat-10");
        assert_eq!(colour(&tree, &shape, 1), "cat-rest", "what all share");
    }

    #[test]
    fn a_branch_that_is_most_of_all_is_told_apart() {
        let mut tree = tree();
        let of_two = |key: u64, bytes: u64| TreeNode {
            parent: Some(2),
            key: format!("{key:016x}"),
            tally: Tally {
                count: 1,
                bytes: Bytes(bytes),
            },
            ..tree[0].clone()
        };
        let (large, small) = (of_two(1, 2048), of_two(4, 1024));
        tree.truncate(4);
        tree.extend([large, small]);
        let shape = Shape::new(&tree);
        let all = [2, 3, 4, 5].map(|node| colour(&tree, &shape, node));
        assert_eq!(all, ["cat-rest", "cat-10", "cat-2", "cat-5"]);
    }

    #[test]
    fn branches_with_the_same_wish_differ_and_the_largest_has_it() {
        let mut tree = tree();
        tree[3].key = format!("{:016x}", 24);
        let colours = |tree: &[TreeNode]| {
            let shape = Shape::new(tree);
            [2, 3].map(|node| colour(tree, &shape, node))
        };
        assert_eq!(colours(&tree), ["cat-3", "cat-4"]);
        tree[3].tally.bytes = Bytes(9000);
        assert_eq!(colours(&tree), ["cat-4", "cat-3"]);
    }

    #[test]
    fn a_node_is_found_by_its_key_and_read_out() {
        let tree = tree();
        assert_eq!(root_of(&tree, Some(13)), 2);
        assert_eq!(
            root_of(&tree, Some(14)),
            0,
            "it is not alive at this moment"
        );
        assert_eq!(
            readout(&tree, 3),
            "f20 · 1.00 KiB (1,024 B) in 2 blocks, 25.0 %"
        );
    }
}
