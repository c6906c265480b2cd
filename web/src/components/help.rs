//! The `?` overlay: all keys and gestures.

use crate::components::dialog::{Closing, Dialog};
use crate::components::drop_target::takes;
use crate::components::keys::{is_plain, is_shortcut, on_key};
use crate::components::permits::may_manage;
use crate::context::expect_context;
use crate::opened_link::OpenedLink;
use leptos::prelude::*;

/// Whether the overlay is open; in the context of the whole application.
#[derive(Clone, Copy)]
pub struct Help(pub RwSignal<bool>);

/// Keys for one action.
struct Shortcut {
    keys: &'static [&'static str],
    does: &'static str,
}

const fn key(keys: &'static [&'static str], does: &'static str) -> Shortcut {
    Shortcut { keys, does }
}

/// Keys by the part of the page where they work.
const SECTIONS: [(&str, &[Shortcut]); 4] = [
    (
        "Everywhere",
        &[
            key(&["?"], "Show or hide this help"),
            key(&["Esc"], "Close, clear, or leave"),
            key(&["drop", "paste"], "Upload snapshots, on any page"),
        ],
    ),
    (
        "Runs",
        &[
            key(&["/"], "Filter"),
            key(&["↑", "↓"], "Move along the list"),
            key(&["Enter"], "Open the run"),
            key(&["F2"], "Rename"),
            key(&["Del"], "Delete, with undo"),
        ],
    ),
    (
        "Timeline",
        &[
            key(&["wheel", "pinch"], "Zoom at the pointer"),
            key(&["Alt", "wheel"], "Zoom vertically"),
            key(&["Shift", "wheel"], "Pan; also by dragging"),
            key(&["B", "drag"], "Zoom into a box; also with Shift held"),
            key(
                &["W", "A", "S", "D"],
                "Zoom in, pan left, zoom out, pan right",
            ),
            key(&["F"], "Fit the selection, then the whole run"),
            key(&["0"], "The whole run"),
            key(&["V"], "Fit the levels to what moves"),
            key(&["M"], "Mountain or lines"),
            key(&["G"], "Group by the next thing"),
            key(&["T"], "Events or time"),
            key(&["click"], "Select an allocation or a band"),
            key(&["double click"], "Show an allocation, a step, a scope"),
            key(&["←", "↑", "↓", "→"], "Select a neighbour"),
            key(&["Enter"], "Show the selection"),
            key(&["Esc"], "Drop the selection"),
        ],
    ),
    (
        "Below the timeline",
        &[
            key(&["1"], "The timeline alone"),
            key(&["2"], "Leaks"),
            key(&["3"], "What is alive"),
            key(&["4"], "Allocations"),
            key(&["5"], "Where memory lies"),
            key(&["6"], "What if"),
            key(
                &["←", "↑", "↓", "→"],
                "Walk through a chart that has the focus",
            ),
            key(&["Enter"], "Select a group, zoom into a box"),
        ],
    ),
];

/// The overlay. `?` opens and closes it.
#[component]
pub fn HelpOverlay() -> impl IntoView {
    let Help(open) = expect_context();
    on_key(move |event| {
        // Over its own dialog, the key closes it.
        let heard = is_shortcut(event) || open.get_untracked() && is_plain(event);
        if event.key() == "?" && heard {
            open.update(|open| *open = !*open);
        }
    });
    let link: OpenedLink = expect_context();
    let sections = move || {
        // What one may do depends on the page from which it is opened.
        open.track();
        let sections = SECTIONS.iter();
        sections
            .map(|(title, keys)| section(title, keys, link))
            .collect_view()
    };
    view! {
        <Dialog open=open title="Keys and gestures" closing=Closing::Free>
            <div class="help">{sections}</div>
        </Dialog>
    }
}

fn section(title: &'static str, shortcuts: &'static [Shortcut], link: OpenedLink) -> impl IntoView {
    let allowed = shortcuts.iter().filter(|shortcut| match shortcut.keys[0] {
        "drop" => takes(link),
        "F2" | "Del" => may_manage(),
        _ => true,
    });
    view! {
        <section>
            <h3>{title}</h3>
            <dl>{allowed.map(row).collect_view()}</dl>
        </section>
    }
}

fn row(shortcut: &'static Shortcut) -> impl IntoView {
    let keys = shortcut.keys.iter().map(|key| view! { <kbd>{*key}</kbd> });
    view! {
        <div class="help-row">
            <dt>{keys.collect_view()}</dt>
            <dd>{shortcut.does}</dd>
        </div>
    }
}
