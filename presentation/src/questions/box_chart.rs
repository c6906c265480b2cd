//! What is alive as boxes: their colours, which of them fills the chart, and the text about one.

use super::band_colours::Orders;
use super::boxes::Shape;
use ::timeline::colours::{N_GROUP_COLOURS, Palette, TURNS};
use ::timeline::format;
use api::alive::TreeNode;
use trace::tiles::with_caller;

/// Colours of branches that the picture does not show: all but the first, which it has for what
/// was there before the recording.
const COLOURS: usize = N_GROUP_COLOURS - 1;

/// Orders whose shades are too near to black and to white, in one of the themes, to be written on.
const UNREADABLE: [usize; 7] = [12, 16, 19, 20, 26, 28, 30];

/// The colours of branches: an order of the picture for each. All nodes of a branch have one,
/// so that callees look like their callers.
#[derive(Clone, Debug, PartialEq)]
pub struct BranchColours(Vec<(usize, usize)>);

impl BranchColours {
    /// A branch has the colour that the picture gives to the line that holds most of it; otherwise
    /// its key chooses. Branches differ as long as there are colours; the largest ones choose
    /// first, so that they keep theirs from moment to moment.
    pub fn of(tree: &[TreeNode], shape: &Shape, orders: &Orders) -> BranchColours {
        let mut chosen: Vec<(usize, usize)> = Vec::new();
        let branches = shape.coloured();
        // Those that the picture shows choose first.
        for is_shown in [true, false] {
            for &branch in &branches {
                let order = shown_order(tree, shape, branch, orders);
                if order.is_some() != is_shown {
                    continue;
                }
                let mut wanted = match order {
                    Some(order) => order as usize % (TURNS * N_GROUP_COLOURS),
                    None => 1 + (key(&tree[branch]) % COLOURS as u64) as usize,
                };
                if UNREADABLE.contains(&wanted) {
                    wanted %= N_GROUP_COLOURS;
                }
                let is_taken = |colour: usize| {
                    let is_it = |taken: usize| match is_shown {
                        true => taken == colour,
                        false => taken % N_GROUP_COLOURS == colour,
                    };
                    chosen.iter().any(|&(_, taken)| is_it(taken))
                };
                let mut colour = wanted;
                for next in wanted..wanted + COLOURS {
                    if !is_taken(colour) {
                        break;
                    }
                    colour = 1 + next % COLOURS;
                }
                chosen.push((branch, colour));
            }
        }
        BranchColours(chosen)
    }

    /// The class of what is written on a node, and its colour as a style sheet writes it.
    pub fn of_node(&self, shape: &Shape, node: usize) -> (String, String) {
        let way = shape.way(node);
        let branch = self.0.iter().find(|(branch, _)| way.contains(branch));
        let Some(&(_, order)) = branch else {
            return ("cat-rest".to_owned(), "var(--cat-rest)".to_owned());
        };
        let class = format!("cat-{}", order % N_GROUP_COLOURS);
        (class, Palette::group_css(0, order as u32))
    }
}

/// The order in the picture of the line that holds most of a branch, of those that it shows.
fn shown_order(tree: &[TreeNode], shape: &Shape, branch: usize, orders: &Orders) -> Option<u32> {
    let mut most = None;
    for node in shape.below(branch) {
        let own = shape.own(node);
        if own == 0 || most.is_some_and(|(bytes, _)| bytes >= own) {
            continue;
        }
        let line = &tree[node].label;
        let callers = shape.way(node).into_iter().rev();
        let mut names = callers.map(|caller| with_caller(line, &tree[caller].label));
        let order = orders
            .of_line(line)
            .or_else(|| names.find_map(|name| orders.of_line(&name)));
        most = order.map(|order| (own, order)).or(most);
    }
    most.map(|(_, order)| order)
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
        "{} · {} in {}, {share:.1} %",
        node.label,
        format::with_exact(node.tally.bytes.get()),
        format::plural(node.tally.count, "block"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::alive::Tally;
    use trace::units::Bytes;

    /// The class of a node where the picture shows nothing of it.
    fn colour(tree: &[TreeNode], shape: &Shape, node: usize) -> String {
        let colours = BranchColours::of(tree, shape, &Orders::default());
        colours.of_node(shape, node).0
    }

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
    fn what_is_written_on_a_colour_can_be_read() {
        let themes = [Palette::light(), Palette::dark()];
        let order = |order: &usize| {
            let contrast = |palette: &Palette| {
                let fill = palette.group(0, *order as u32).luminance() + 0.05;
                // As in `questions.css`.
                let is_white = match order % N_GROUP_COLOURS {
                    0 => *palette == themes[0],
                    colour => [6, 9, 11].contains(&colour),
                };
                let ink = if is_white { 1.05 } else { 0.05 };
                f64::max(fill, ink) / f64::min(fill, ink)
            };
            themes.iter().any(|palette| contrast(palette) < 4.45)
        };
        let unreadable: Vec<usize> = (0..TURNS * N_GROUP_COLOURS).filter(order).collect();
        assert_eq!(unreadable, UNREADABLE);
    }

    #[test]
    fn a_branch_has_the_colour_of_the_picture() {
        let tree = tree();
        let shape = Shape::new(&tree);
        let shown = |lines: &[(&str, u32)]| {
            let mut orders = Orders::default();
            for (stack, &(line, order)) in lines.iter().enumerate() {
                orders.add(stack as u32, line, order);
            }
            let colours = BranchColours::of(&tree, &shape, &orders);
            [2, 3].map(|node| colours.of_node(&shape, node).1)
        };
        let base = |n| format!("var(--cat-{n})");
        let lighter = "color-mix(in srgb, var(--cat-6) 75%, var(--surface))".to_owned();
        assert_eq!(shown(&[("f99", 18)]), [lighter, base(10)], "by its callee");
        assert_eq!(
            shown(&[("f20", 3)]),
            [base(4), base(3)],
            "it has the first choice"
        );
        assert_eq!(
            shown(&[("f99", 0), ("f20", 12)]),
            [base(0), base(1)],
            "they differ"
        );
        assert_eq!(
            shown(&[("f13", 5)]),
            [base(3), base(10)],
            "it holds nothing itself"
        );
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
