//! What is alive as a treemap or a flame graph: boxes with tooltips, to zoom into.

use super::Asker;
use crate::format;
use api::alive::{Alive, TreeNode};
use api::view_state::Chart;
use leptos::prelude::*;
use presentation::questions::boxes::{Placed, Shape};
use std::sync::Arc;
use timeline::colours::N_GROUP_COLOURS;
use wasm_bindgen::JsCast;
use web_sys::{HtmlElement, KeyboardEvent};

/// Colours of boxes: all but the first, which the picture has for what was there before the
/// recording.
const COLOURS: u64 = N_GROUP_COLOURS as u64 - 1;
/// Width over height of the frame, the same as in the style sheet.
const ASPECT: f64 = 2.4;

/// The class of a node's colour. All nodes of a branch have one colour, so that callees look like
/// their callers.
fn colour(tree: &[TreeNode], shape: &Shape, node: usize) -> String {
    let way = shape.way(node);
    // The colours begin below the chain of frames that all stacks share.
    let first = shape.branching(0);
    let at = way.iter().position(|&n| n == first).unwrap_or(0);
    match way.get(at + 1) {
        Some(&branch) => format!("cat-{}", 1 + key(&tree[branch]) % COLOURS),
        None => "cat-rest".to_owned(),
    }
}

/// A node's key as a number.
fn key(node: &TreeNode) -> u64 {
    u64::from_str_radix(&node.key, 16).unwrap_or(0)
}

/// The node that a link names; otherwise the root.
fn root_of(tree: &[TreeNode], wanted: Option<u64>) -> usize {
    let found = wanted.and_then(|wanted| tree.iter().position(|n| key(n) == wanted));
    found.unwrap_or(0)
}

/// The text about a node.
fn readout(tree: &[TreeNode], node: usize) -> String {
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

/// The chart. A click zooms in, a click on the path above it zooms out; arrow keys move between
/// boxes.
#[component]
pub fn BoxChart(asker: Asker, alive: Arc<Alive>) -> impl IntoView {
    let shape = StoredValue::new(Shape::new(&alive.tree));
    let alive = StoredValue::new(alive);
    let chosen = asker.memo(|state| (state.chart, state.root));
    let pointed = RwSignal::new(None::<usize>);
    let zoom = move |node: usize| {
        let key = alive.with_value(|alive| key(&alive.tree[node]));
        asker
            .view
            .update(|state| state.root = (node != 0).then_some(key));
    };
    let root = move || alive.with_value(|alive| root_of(&alive.tree, chosen.get().1));
    let way = move || {
        let root = root();
        let way = shape.with_value(|shape| shape.way(root));
        alive.with_value(|alive| way_view(&alive.tree, &way, zoom))
    };
    let boxes = move || {
        let root = root();
        let placed = shape.with_value(|shape| match chosen.get().0 {
            Chart::Treemap => shape.treemap(root, ASPECT),
            Chart::Flame => shape.flame(root),
        });
        let draw = |(at, place): (usize, Placed)| {
            let (label, class) = alive.with_value(|alive| {
                let class = shape.with_value(|shape| colour(&alive.tree, shape, place.node));
                (readout(&alive.tree, place.node), class)
            });
            let name = alive.with_value(|alive| alive.tree[place.node].label.clone());
            box_view(place, Labels { name, label, class }, at == 0, pointed, zoom)
        };
        placed.into_iter().enumerate().map(draw).collect_view()
    };
    let words = move || match pointed.get() {
        Some(node) => alive.with_value(|alive| match alive.tree.get(node) {
            Some(_) => readout(&alive.tree, node),
            None => String::new(),
        }),
        None => "Point at a box for its exact values; click it to zoom in.".to_owned(),
    };
    view! {
        <nav class="box-way" aria-label="Zoomed to"><ol>{way}</ol></nav>
        <div
            class="boxes"
            data-chart=move || match chosen.get().0 {
                Chart::Treemap => "treemap",
                Chart::Flame => "flame",
            }
            role="group"
            aria-label="What is alive. Arrow keys walk, Enter zooms in."
            on:keydown=walk
            on:mouseleave=move |_| pointed.set(None)
        >
            {boxes}
        </div>
        <p class="growth-readout" aria-live="polite">{words}</p>
    }
}

/// The path from the root to the node that fills the chart; a click zooms out.
fn way_view(tree: &[TreeNode], way: &[usize], zoom: impl Fn(usize) + Copy + 'static) -> AnyView {
    let steps = way.iter().enumerate().map(|(at, &node)| {
        let label = tree[node].label.clone();
        let here = at + 1 == way.len();
        view! {
            <li>
                <button class="link-button" disabled=here on:click=move |_| zoom(node)>
                    {label}
                </button>
            </li>
        }
    });
    steps.collect_view().into_any()
}

/// The text on a box, and its looks.
struct Labels {
    name: String,
    label: String,
    class: String,
}

fn box_view(
    place: Placed,
    labels: Labels,
    first: bool,
    pointed: RwSignal<Option<usize>>,
    zoom: impl Fn(usize) + Copy + 'static,
) -> AnyView {
    let node = place.node;
    let percent = |value: f64| format!("{value:.3}%");
    let name = (place.w > 4.0 && place.h > 3.5).then_some(labels.name);
    view! {
        <button
            class=format!("box {}", labels.class)
            class:pointed=move || pointed.get() == Some(node)
            style:left=percent(place.x)
            style:top=percent(place.y)
            style:width=percent(place.w)
            style:height=percent(place.h)
            aria-label=labels.label
            tabindex=if first { "0" } else { "-1" }
            on:click=move |_| zoom(node)
            on:mouseenter=move |_| pointed.set(Some(node))
            on:focus=move |_| pointed.set(Some(node))
        >
            <span aria-hidden="true">{name}</span>
        </button>
    }
    .into_any()
}

/// Arrow keys move the focus from box to box, in the order in which they are drawn.
fn walk(event: KeyboardEvent) {
    let Some(target) = event
        .target()
        .and_then(|t| t.dyn_into::<HtmlElement>().ok())
    else {
        return;
    };
    let next = match event.key().as_str() {
        "ArrowRight" | "ArrowDown" => target.next_element_sibling(),
        "ArrowLeft" | "ArrowUp" => target.previous_element_sibling(),
        _ => return,
    };
    event.prevent_default();
    event.stop_propagation();
    if let Some(next) = next.and_then(|next| next.dyn_into::<HtmlElement>().ok()) {
        // Fails only for an element that has left the page.
        let _ = next.focus();
    }
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
