//! The table: clicks on its head sort it, arrow keys move between rows; on narrow screens rows are
//! cards.

use super::row::RunRow;
use crate::clock::ticking;
use crate::components::focus::is_nowhere;
use crate::components::keys::{is_shortcut, on_key};
use crate::components::no_match::no_match;
use crate::components::permits::may_manage;
use crate::components::toasts::Toasts;
use crate::context::expect_context;
use crate::pages::runs_store::RunsStore;
use crate::url_state::UrlState;
use api::runs::RunSummary;
use leptos::html;
use leptos::prelude::*;
use presentation::pages::runs::list_state::{Column, Direction, ListState};
use presentation::pages::runs::table::first_run;
use std::time::Duration;
use wasm_bindgen::JsCast;
use web_sys::{HtmlElement, HtmlTableSectionElement, KeyboardEvent};

/// Rows shown while the list is loading.
const SKELETON_ROWS: usize = 6;

/// How often ages are updated.
const AGES_EVERY: Duration = Duration::from_secs(30);

/// The list as a table.
#[component]
pub fn RunTable(list: UrlState<ListState>, runs: Memo<Vec<RunSummary>>) -> impl IntoView {
    let largest = Memo::new(move |_| {
        runs.with(|runs| {
            let peaks = runs.iter().map(|run| run.peak_allocated);
            peaks.max().unwrap_or_default()
        })
    });
    let ids = move || runs.with(|runs| runs.iter().map(|run| run.id.clone()).collect::<Vec<_>>());
    let none = move || runs.with(Vec::is_empty);
    let clear = Callback::new(move |()| list.update(|state| state.filter.clear()));
    let store: RunsStore = expect_context();
    let toasts: Toasts = expect_context();
    let now = ticking(AGES_EVERY);
    let body = NodeRef::<html::Tbody>::new();
    // From nowhere, an arrow leads into the list, as the help says.
    on_key(move |event| {
        let body = body.get_untracked().filter(|_| is_shortcut(event));
        let to = first_run(&event.key(), is_nowhere());
        if let (Some(body), Some(at)) = (body, to) {
            focus_run(&body, at);
            event.prevent_default();
        }
    });
    let keys = move |event: KeyboardEvent| {
        let Some(body) = body.get_untracked().filter(|_| is_shortcut(&event)) else {
            return;
        };
        match event.key().as_str() {
            "ArrowDown" => focus_run(&body, focused_run(&body).map_or(0, |at| at + 1)),
            "ArrowUp" => focus_run(&body, focused_run(&body).unwrap_or(0).saturating_sub(1)),
            "Delete" if may_manage() => {
                let Some(at) = focused_run(&body) else { return };
                let run = runs.with_untracked(|runs| runs.get(at as usize).cloned());
                let Some(run) = run else { return };
                store.delete(toasts, &run);
                // The run that takes the place of a deleted one gets the focus, once it is there.
                set_timeout(move || focus_run(&body, at), Duration::ZERO);
            }
            _ => return,
        }
        event.prevent_default();
    };
    view! {
        <table class="runs" role="table" aria-label="Runs">
            <thead role="rowgroup">
                <tr role="row">
                    {Column::ALL.map(|column| head(list, column)).collect_view()}
                    <th role="columnheader"><span class="visually-hidden">"Actions"</span></th>
                </tr>
            </thead>
            <tbody role="rowgroup" node_ref=body on:keydown=keys>
                <For
                    each=ids
                    key=|id| id.clone()
                    children=move |id| view! { <RunRow id=id largest=largest now=now/> }
                />
            </tbody>
        </table>
        <Show when=none>
            {no_match("No run matches the filter.".into(), clear)}
        </Show>
    }
}

fn head(list: UrlState<ListState>, column: Column) -> impl IntoView {
    let sorted = move || {
        list.state()
            .with(|state| state.shown(column).map(Direction::aria))
    };
    view! {
        <th role="columnheader" class="col-head" data-column=column.key() aria-sort=sorted>
            <button on:click=move |_| list.set(list.state().get_untracked().clicked(column))>
                {column.title()}
                <span class="sort-mark" aria-hidden="true"></span>
            </button>
        </th>
    }
}

/// Position of the run that has the focus.
fn focused_run(body: &HtmlTableSectionElement) -> Option<u32> {
    let row = document().active_element()?.closest("tr").ok().flatten()?;
    let links = body.query_selector_all(".run-link").ok()?;
    (0..links.length()).find(|i| links.get(*i).is_some_and(|link| row.contains(Some(&link))))
}

/// Gives the focus to the first run of the list.
pub fn focus_first() {
    let link = document().query_selector(".runs .run-link").ok().flatten();
    if let Some(link) = link.and_then(|link| link.dyn_into::<HtmlElement>().ok()) {
        // Fails only for an element that has left the page.
        let _ = link.focus();
    }
}

/// Gives the focus to the run at a position, or to the last one.
fn focus_run(body: &HtmlTableSectionElement, at: u32) {
    let Ok(links) = body.query_selector_all(".run-link") else {
        return;
    };
    let link = links.get(at.min(links.length().saturating_sub(1)));
    if let Some(link) = link.and_then(|link| link.dyn_into::<HtmlElement>().ok()) {
        // Fails only for an element that has left the page.
        let _ = link.focus();
    }
}

/// The table's outline while the runs are loading. It has the same heights, so that nothing jumps.
#[component]
pub fn TableSkeleton() -> impl IntoView {
    let rows = (0..SKELETON_ROWS).map(|_| view! { <div class="skeleton-row"></div> });
    view! {
        <div class="toolbar"><h1>"Runs"</h1></div>
        <div class="skeleton" role="status" aria-label="Loading the runs">
            <div class="skeleton-head"></div>
            {rows.collect_view()}
        </div>
    }
}
