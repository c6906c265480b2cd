//! Benches: choose what to run, watch it, and read the resulting matrix.

mod behind;
mod chooser;
mod frontier;
mod history;
mod matrix;
mod numbers;
mod offloaders;
mod row;
mod shared;
pub mod store;
mod waterfall;

use crate::components::problem_note::ProblemNote;
use crate::context::expect_context;
use crate::pages::runs_store::Loaded;
use crate::url_state::{UrlState, use_url_state};
use api::bench::BenchCatalog;
use api::problem::Problem;
use chooser::Chooser;
use history::History;
use leptos::prelude::*;
use matrix::Matrix;
use offloaders::Offloaders;
use presentation::pages::bench::bench_state::BenchState;
use std::sync::Arc;
use store::BenchStore;

/// What the page shows. It changes seldom, so that a finished row does not rebuild the page.
#[derive(Clone, PartialEq)]
enum Shown {
    Loading,
    Empty,
    Matrix,
    Failed(Problem),
}

/// The page.
#[component]
pub fn BenchPage() -> impl IntoView {
    let store: BenchStore = expect_context();
    document().set_title("Bench · Tidemark");
    let view = use_url_state::<BenchState>();
    let wanted = Memo::new(move |_| view.state().with(|state| state.bench.clone()));
    Effect::new(move |_| store.look(wanted.get()));
    on_cleanup(move || store.look_away());
    let retry = Callback::new(move |()| store.look(wanted.get_untracked()));

    let catalog = store.catalog();
    let body = move || match catalog.get() {
        Loaded::Loading => view! {
            <div class="toolbar"><h1>"Bench"</h1></div>
            <Skeleton/>
        }
        .into_any(),
        Loaded::Failed(problem) => view! { <ProblemNote problem=problem retry=retry/> }.into_any(),
        Loaded::Ready(catalog) => view! { <Benches catalog=catalog view=view/> }.into_any(),
    };
    view! { <div class="bench-page">{body}</div> }
}

#[component]
fn Benches(catalog: Arc<BenchCatalog>, view: UrlState<BenchState>) -> impl IntoView {
    let store: BenchStore = expect_context();
    let retry = Callback::new(move |()| store.refresh());
    let shown = Memo::new(move |_| {
        let empty = store.history().with(|history| match history {
            Loaded::Ready(history) => history.is_empty(),
            Loaded::Loading | Loaded::Failed(_) => false,
        });
        store.bench().with(|bench| match bench {
            Loaded::Ready(_) => Shown::Matrix,
            Loaded::Failed(problem) => Shown::Failed(problem.clone()),
            Loaded::Loading if empty => Shown::Empty,
            Loaded::Loading => store.history().with(|history| match history {
                Loaded::Failed(problem) => Shown::Failed(problem.clone()),
                Loaded::Ready(_) | Loaded::Loading => Shown::Loading,
            }),
        })
    });
    let for_body = Arc::clone(&catalog);
    let body = move || {
        let catalog = Arc::clone(&for_body);
        match shown.get() {
            Shown::Loading => view! { <Skeleton/> }.into_any(),
            Shown::Empty => ().into_any(),
            Shown::Matrix => view! { <Matrix catalog=catalog view=view/> }.into_any(),
            Shown::Failed(problem) => {
                view! { <ProblemNote problem=problem retry=retry/> }.into_any()
            }
        }
    };
    let empty = Signal::derive(move || shown.get() == Shown::Empty);
    view! {
        <Chooser catalog=catalog view=view empty=empty/>
        <History view=view/>
        {body}
        <Offloaders view=view/>
    }
}

/// In the place of what is fetched; the head of the page stands above it.
#[component]
fn Skeleton() -> impl IntoView {
    let rows = (0..6).map(|_| view! { <div class="skeleton-row"></div> });
    view! {
        <div class="skeleton" aria-busy="true">
            <p class="visually-hidden">"Loading"</p>
            <div class="skeleton-head"></div>
            {rows.collect_view()}
        </div>
    }
}
