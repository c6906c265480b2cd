//! Runs picked in the list, for a comparison or to be deleted; kept while the application runs.

use crate::components::focus;
use crate::components::toasts::Toasts;
use crate::context::expect_context;
use crate::format;
use crate::pages::runs_store::{Loaded, RunsStore};
use crate::url_state::UrlState;
use api::ids::RunId;
use api::routes;
use api::runs::RunSummary;
use leptos::prelude::*;
use leptos_router::components::A;
use presentation::pages::compare::pick::{Picks, add, toggle};
use presentation::pages::runs::delete::Progress;
use presentation::pages::runs::list_state::ListState;
use presentation::pages::runs::table::Part;

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

    /// Picks a run, or unpicks it.
    pub fn toggle(self, run: &RunId) {
        self.0.update(|picked| toggle(picked, run));
    }

    /// Picks these, too.
    fn add(self, runs: Vec<RunId>) {
        self.0.update(|picked| add(picked, runs));
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
    view! {
        <input
            type="checkbox"
            class="run-pick"
            title="Pick, to compare or delete several"
            aria-label=move || format!("Pick {}", name.get())
            prop:checked=checked
            on:change=move |_| picked.toggle(&id)
        />
    }
}

/// The bar with actions for the picked runs; empty if none is picked. It stays on the screen,
/// because runs are picked far down a long list, too.
#[component]
pub fn PickedBar(list: UrlState<ListState>, part: Memo<Part>) -> impl IntoView {
    let (picked, store): (Picked, RunsStore) = (expect_context(), expect_context());
    let toasts: Toasts = expect_context();
    let all = store.runs();
    let picks = Memo::new(move |_| {
        all.with(|runs| match runs {
            Loaded::Ready(runs) => picked.0.with(|picked| Picks::of(picked, runs)),
            Loaded::Loading | Loaded::Failed(_) => Picks::default(),
        })
    });
    let is_any = Memo::new(move |_| picks.with(|picks| !picks.runs.is_empty()));
    let is_deleting = Memo::new(move |_| store.deleting().is_some());
    let offers_all = Memo::new(move |_| {
        let has_all = |found: &[&RunSummary]| picks.with(|picks| picks.has_all(found));
        is_any.get() && store.is_whole() && with_found(all, list, has_all) == Some(false)
    });
    let pick_all = move |_| {
        let ids = |found: &[&RunSummary]| found.iter().map(|run| run.id.clone()).collect();
        picked.add(untrack(|| with_found(all, list, ids)).unwrap_or_default());
    };
    let delete = move |_| {
        let runs = picks.with_untracked(|picks| picks.runs.clone());
        picked.clear();
        store.delete_all(toasts, &runs, move |left| picked.add(left));
        focus::rescue(".run-link");
        focus::rescue("#main");
    };
    let n_picked = move || format::plural(picks.with(|picks| picks.runs.len()) as u64, "run");
    let all_button = move || {
        offers_all.get().then(|| {
            let text = move || {
                format!(
                    "Pick all {}",
                    format::count(part.with(|part| part.found) as u64)
                )
            };
            view! { <button class="button picked-all" on:click=pick_all>{text}</button> }
        })
    };
    let delete_button = move || {
        (!is_deleting.get()).then(|| {
            view! {
                <button class="button danger picked-delete" on:click=delete>
                    {move || format!("Delete {}", n_picked())}
                </button>
            }
        })
    };
    let actions = move || {
        is_any.get().then(|| {
            view! {
                <span class="picked-count">{move || picks.with(Picks::told)}</span>
                {move || compare(&picks.get())}
                {delete_button}
                {all_button}
                <button class="link-button" on:click=move |_| picked.clear()>"Clear"</button>
            }
        })
    };
    let progress = move || is_deleting.get().then(|| under_way(store));
    view! { <div class="picked-bar" role="status">{actions} {progress}</div> }
}

/// Where these runs are compared, or why they cannot be.
fn compare(picks: &Picks) -> AnyView {
    match picks.hint() {
        Some(hint) => view! { <span class="muted">{hint}</span> }.into_any(),
        None => {
            let runs = format::plural(picks.runs.len() as u64, "run");
            let page = routes::compare_page(&picks.runs);
            let text = format!("Compare {runs}");
            view! { <A href=page attr:class="button primary">{text}</A> }.into_any()
        }
    }
}

/// How far a deletion has come. Its numbers are not read out, one after the other.
fn under_way(store: RunsStore) -> impl IntoView {
    let told = move || store.deleting().map(Progress::told);
    view! {
        <span class="picked-count" aria-hidden="true">{told}</span>
        <span class="visually-hidden">"Deleting the runs"</span>
    }
}

/// What is read from the runs that the filter finds, once they are loaded.
fn with_found<T>(
    all: Signal<Loaded<Vec<RunSummary>>>,
    list: UrlState<ListState>,
    read: impl FnOnce(&[&RunSummary]) -> T,
) -> Option<T> {
    all.with(|runs| match runs {
        Loaded::Ready(runs) => list.state().with(|state| Some(read(&state.arrange(runs)))),
        Loaded::Loading | Loaded::Failed(_) => None,
    })
}
