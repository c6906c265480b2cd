//! What is alive as a treemap or a flame graph: boxes with tooltips, to zoom into.

use super::Asker;
use crate::timeline::observe;
use api::alive::{Alive, TreeNode};
use api::view_state::Chart;
use leptos::html::Div;
use leptos::prelude::*;
use presentation::questions::box_chart::{BranchColours, key, readout, root_of};
use presentation::questions::boxes::{Placed, Shape};
use std::sync::Arc;
use wasm_bindgen::JsCast;
use web_sys::{HtmlElement, KeyboardEvent};

/// Width over height of the frame, until it is measured.
const ASPECT: f64 = 2.4;

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
    let frame = NodeRef::<Div>::new();
    let aspect = aspect_of(frame);
    let root = move || alive.with_value(|alive| root_of(&alive.tree, chosen.get().1));
    let way = move || {
        let root = root();
        let way = shape.with_value(|shape| shape.way(root));
        alive.with_value(|alive| way_view(&alive.tree, &way, zoom))
    };
    let boxes = move || {
        let root = root();
        let placed = shape.with_value(|shape| match chosen.get().0 {
            Chart::Treemap => shape.treemap(root, aspect.get()),
            Chart::Flame => shape.flame(root),
        });
        let colours = alive.with_value(|alive| {
            shape.with_value(|shape| {
                let of = |orders: &_| BranchColours::of(&alive.tree, shape, orders);
                asker.orders.with(of)
            })
        });
        let draw = |(at, place): (usize, Placed)| {
            let (label, name) = alive.with_value(|alive| {
                let name = alive.tree[place.node].label.clone();
                (readout(&alive.tree, place.node), name)
            });
            let (class, colour) = shape.with_value(|shape| colours.of_node(shape, place.node));
            let labels = Labels {
                name,
                label,
                class,
                colour,
            };
            box_view(place, labels, at == 0, pointed, zoom)
        };
        placed.into_iter().enumerate().map(draw).collect_view()
    };
    let words = move || alive.with_value(|alive| in_words(alive, pointed.get()));
    view! {
        <nav class="box-way" aria-label="Zoomed to"><ol>{way}</ol></nav>
        <div
            class="boxes"
            node_ref=frame
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

/// What the box that is pointed at holds.
fn in_words(alive: &Alive, pointed: Option<usize>) -> String {
    match pointed {
        Some(node) if node < alive.tree.len() => readout(&alive.tree, node),
        Some(_) => String::new(),
        None => "Point at a box for its exact values; click it to zoom in.".to_owned(),
    }
}

/// Width over height of the frame.
fn aspect_of(frame: NodeRef<Div>) -> RwSignal<f64> {
    let aspect = RwSignal::new(ASPECT);
    Effect::new(move |_| {
        let Some(frame) = frame.get() else {
            return;
        };
        observe::size(&frame, move |width, height| {
            // Not at every pixel: the boxes are made anew.
            let measured = (width / height.max(1.0) * 10.0).round() / 10.0;
            if measured > 0.0 && aspect.get_untracked() != measured {
                aspect.set(measured);
            }
        });
    });
    aspect
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
    colour: String,
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
            style:background=labels.colour
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
