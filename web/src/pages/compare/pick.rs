//! Runs picked in the list for a comparison; kept while the application runs.

use crate::context::expect_context;
use crate::format;
use crate::pages::runs_store::RunsStore;
use api::compare::RUNS;
use api::ids::RunId;
use api::routes;
use leptos::prelude::*;
use leptos_router::components::A;
use presentation::pages::compare::pick::{is_free, toggle, told};

/// The runs picked, in order; in the context of the whole application.
#[derive(Clone, Copy)]
pub struct Picked(RwSignal<Vec<RunId>>);

impl Picked {
    /// None.
    pub fn new() -> Picked {
        Picked(RwSignal::new(Vec::new()))
    }

    /// Whether a run is picked.
    pub fn has(self, run: &RunId) -> bool {
        self.0.with(|picked| picked.contains(run))
    }

    /// Whether a run can be picked or unpicked: it is picked already, or there is room for it.
    pub fn is_free(self, run: &RunId) -> bool {
        self.0.with(|picked| is_free(picked, run))
    }

    /// Picks a run, or unpicks it.
    pub fn toggle(self, run: &RunId) {
        self.0.update(|picked| toggle(picked, run));
    }

    /// Unpicks all.
    pub fn clear(self) {
        self.0.update(Vec::clear);
    }
}

impl Default for Picked {
    fn default() -> Picked {
        Picked::new()
    }
}

/// The box in a run's row.
#[component]
pub fn PickBox(id: RunId, name: Signal<String>) -> impl IntoView {
    let picked: Picked = expect_context();
    let looked_up = id.clone();
    let checked = move || picked.has(&looked_up);
    let looked_up = id.clone();
    let is_free = Memo::new(move |_| picked.is_free(&looked_up));
    let title = move || match is_free.get() {
        true => "Pick for a comparison".to_owned(),
        false => format!("At most {} runs are compared at a time", RUNS.end()),
    };
    view! {
        <input
            type="checkbox"
            class="run-pick"
            title=title
            disabled=move || !is_free.get()
            aria-label=move || format!("Compare {}", name.get())
            prop:checked=checked
            on:change=move |_| picked.toggle(&id)
        />
    }
}

/// The bar with actions for the picked runs; empty if none is picked. It stays on the screen,
/// because runs are picked far down a long list, too.
#[component]
pub fn PickedBar() -> impl IntoView {
    let (picked, store): (Picked, RunsStore) = (expect_context(), expect_context());
    let content = move || {
        let runs = picked.0.get();
        let compare = match runs.len() {
            0 => return None,
            1 => view! { <span class="muted">"pick one more"</span> }.into_any(),
            n => {
                let text = format!("Compare {}", format::plural(n as u64, "run"));
                let page = routes::compare_page(&runs);
                view! { <A href=page attr:class="button primary">{text}</A> }.into_any()
            }
        };
        let first = runs.first().and_then(|run| store.run(run));
        let count = told(runs.len(), first.as_ref().map(|run| run.name.as_str()));
        Some(view! {
            <span class="picked-count">{count}</span>
            {compare}
            <button class="link-button" on:click=move |_| picked.clear()>"Clear"</button>
        })
    };
    view! { <div class="picked-bar" role="status">{content}</div> }
}
