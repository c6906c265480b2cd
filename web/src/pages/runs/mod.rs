//! The list of runs; if the store is empty, the first steps. Below it, what was deleted just now.

mod deleted;
mod empty;
mod focus;
mod row;
mod table;
mod toolbar;

use crate::components::problem_note::ProblemNote;
use crate::context::expect_context;
use crate::pages::compare::pick::PickedBar;
use crate::pages::runs_store::{Loaded, RunsStore};
use crate::url_state::use_url_state;
use deleted::RecentlyDeleted;
use empty::{FirstSteps, MoreSteps};
use leptos::prelude::*;
use presentation::pages::runs::list_state::ListState;
use presentation::pages::runs::table::Part;
use table::{RunTable, TableSkeleton};
use toolbar::Toolbar;

/// What the page shows. It changes seldom, so that a refresh does not rebuild the table.
#[derive(Clone, PartialEq)]
enum Shown {
    Loading,
    Empty,
    List,
    Failed(api::problem::Problem),
}

/// The page.
#[component]
pub fn RunsPage() -> impl IntoView {
    let store: RunsStore = expect_context();
    let list = use_url_state::<ListState>();
    store.show();
    document().set_title("Runs · Tidemark");

    let all = store.runs();
    let part = Memo::new(move |_| {
        all.with(|runs| match runs {
            Loaded::Ready(runs) => list.state().with(|state| Part::of(runs, state)),
            Loaded::Loading | Loaded::Failed(_) => Part::default(),
        })
    });
    // What comes back may belong to another part of a long list.
    Effect::new(move |before: Option<()>| {
        let back = store.came_back();
        let Some(id) = back.filter(|_| before.is_some()) else {
            return;
        };
        let begins = all.with_untracked(|runs| match runs {
            Loaded::Ready(runs) => {
                let state = list.state();
                state.with_untracked(|state| Part::with_run(runs, state, &id))
            }
            Loaded::Loading | Loaded::Failed(_) => None,
        });
        if let Some(begins) = begins {
            list.update(|state| state.skipped = begins);
        }
    });
    let shown = Memo::new(move |_| {
        all.with(|runs| match runs {
            Loaded::Loading => Shown::Loading,
            Loaded::Failed(problem) => Shown::Failed(problem.clone()),
            // Until all are deleted, the list says how far that has come.
            Loaded::Ready(runs) if runs.is_empty() && store.deleting().is_none() => Shown::Empty,
            Loaded::Ready(_) => Shown::List,
        })
    });
    let body = move || match shown.get() {
        Shown::Loading => view! { <TableSkeleton/> }.into_any(),
        Shown::Empty => view! { <FirstSteps/> }.into_any(),
        Shown::List => view! {
            <Toolbar list=list part=part/>
            <RunTable list=list part=part/>
            <PickedBar list=list part=part/>
            <MoreSteps/>
        }
        .into_any(),
        Shown::Failed(problem) => {
            let retry = Callback::new(move |()| store.refresh());
            view! {
                <div class="toolbar"><h1>"Runs"</h1></div>
                <ProblemNote problem=problem retry=retry/>
            }
            .into_any()
        }
    };
    view! { <div class="runs-page">{body} <RecentlyDeleted/></div> }
}
