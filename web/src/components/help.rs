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

/// Keys of one part of a page.
struct Section {
    title: &'static str,
    /// What is on the page where they work; empty for everywhere.
    at: &'static str,
    shortcuts: &'static [Shortcut],
}

const SECTIONS: [Section; 5] = [
    Section {
        title: "Everywhere",
        at: "",
        shortcuts: &[
            key(&["?"], "Show or hide this help"),
            key(&["Esc"], "Close, clear, or leave"),
            // Also true of the page without a server, which sends nothing.
            key(&["drop", "paste"], "Add snapshots, on any page"),
        ],
    },
    Section {
        title: "Runs",
        at: "tr.run",
        shortcuts: &[
            key(&["/"], "Filter"),
            key(&["↑", "↓"], "Move along the list"),
            key(&["Enter"], "Open the run"),
            key(&["F2"], "Rename"),
            key(&["Del"], "Delete, with undo"),
        ],
    },
    Section {
        title: "Timeline of a run",
        at: ".timeline-stage",
        shortcuts: &[
            key(&["wheel", "pinch"], "Zoom at the pointer"),
            key(&["Alt", "wheel"], "Zoom vertically"),
            key(&["Shift", "wheel"], "Pan; also by dragging"),
            key(&["B", "drag"], "Zoom into a box; also with Shift held"),
            key(
                &["W", "A", "S", "D"],
                "Zoom in, pan left, zoom out, pan right",
            ),
            key(&["+", "−"], "Zoom in, zoom out"),
            key(&["F"], "Fit the selection, then the whole run"),
            key(&["0"], "The whole run"),
            key(&["V"], "Fit the levels to what moves"),
            key(&["M"], "Mountain or lines"),
            key(&["G"], "Group by the next thing"),
            key(&["T"], "Events or time"),
            key(&["click"], "Select an allocation or a band"),
            key(&["double click"], "Show an allocation, a step, a scope"),
            key(
                &["←", "↑", "↓", "→"],
                "Select a neighbour; on the lines ← and → read values",
            ),
            key(&["Enter"], "Show the selection"),
            key(&["Home", "End"], "Pan to the start, to the end"),
            key(&["Esc"], "Drop the selection"),
        ],
    },
    Section {
        title: "Below the timeline",
        at: "#tab-what-if",
        shortcuts: &[
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
    },
    Section {
        title: "Picture of a comparison, while it has the focus",
        at: ".overlay-stage",
        shortcuts: &[
            key(&["←", "→"], "Read values"),
            key(&["Home", "End"], "Read those at the start, at the end"),
            key(&["+", "−"], "Zoom in, zoom out"),
            key(&["Shift", "←", "→"], "Pan"),
            key(&["F"], "Show everything"),
            key(&["Ctrl", "wheel"], "Zoom at the pointer; also by dragging"),
            key(&["Shift", "wheel"], "Pan"),
            key(&["Esc"], "Stop reading"),
        ],
    },
];

/// The sections for what is on the page. A page without keys of its own shows all.
fn sections() -> Vec<&'static Section> {
    let is_here = |section: &&Section| {
        let found = document().query_selector(section.at);
        section.at.is_empty() || found.ok().flatten().is_some()
    };
    let here: Vec<_> = SECTIONS.iter().filter(is_here).collect();
    match here.len() {
        1 => SECTIONS.iter().collect(),
        _ => here,
    }
}

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
        let sections = sections().into_iter();
        sections
            .map(|section| section_view(section, link))
            .collect_view()
    };
    view! {
        <Dialog open=open title="Keys and gestures" closing=Closing::Free>
            <div class="help">{sections}</div>
        </Dialog>
    }
}

fn section_view(section: &'static Section, link: OpenedLink) -> impl IntoView {
    let allowed = section
        .shortcuts
        .iter()
        .filter(|shortcut| match shortcut.keys[0] {
            "drop" => takes(link),
            "F2" | "Del" => may_manage(),
            _ => true,
        });
    view! {
        <section>
            <h3>{section.title}</h3>
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
