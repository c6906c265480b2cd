//! The table: clicks on its head sort it, arrow keys move between rows; on narrow screens rows are
//! cards. A long list is shown in parts.

use super::focus::{focus_row, focus_soon, focused_row};
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
use leptos::prelude::*;
use presentation::pages::runs::list_state::{Column, Direction, ListState};
use presentation::pages::runs::table::{Move, Part, first_run};
use std::time::Duration;
use web_sys::KeyboardEvent;

/// Rows shown while the list is loading.
const SKELETON_ROWS: usize = 6;

/// How often ages are updated.
const AGES_EVERY: Duration = Duration::from_secs(30);

/// The list as a table.
#[component]
pub fn RunTable(list: UrlState<ListState>, part: Memo<Part>) -> impl IntoView {
    let largest = Memo::new(move |_| part.with(|part| part.largest));
    let ids = move || part.with(|part| part.rows.clone());
    let store: RunsStore = expect_context();
    let none = move || part.with(|part| part.found == 0 && part.all > 0) && store.is_whole();
    let clear = Callback::new(move |()| list.update(|state| state.filter_by(String::new())));
    let toasts: Toasts = expect_context();
    let now = ticking(AGES_EVERY);
    // From nowhere, an arrow leads into the list, as the help says.
    on_key(move |event| {
        let to = first_run(&event.key(), is_nowhere()).filter(|_| is_shortcut(event));
        if let Some(at) = to {
            focus_row(at);
            event.prevent_default();
        }
    });
    let keys = move |event: KeyboardEvent| {
        if !is_shortcut(&event) {
            return;
        }
        let at = focused_row();
        match event.key().as_str() {
            "ArrowDown" => go(list, part.with_untracked(|part| part.down(at))),
            "ArrowUp" => go(list, part.with_untracked(|part| part.up(at))),
            "Delete" if may_manage() => {
                let Some(at) = at else { return };
                let id = part.with_untracked(|part| part.rows.get(at as usize).cloned());
                let Some(run) = id.and_then(|id| untrack(|| store.run(&id))) else {
                    return;
                };
                store.delete(toasts, &run);
                focus_soon(at);
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
            <tbody role="rowgroup" on:keydown=keys>
                <For
                    each=ids
                    key=|id| id.clone()
                    children=move |id| view! { <RunRow id=id largest=largest now=now/> }
                />
            </tbody>
        </table>
        {parts(list, part)}
        <Show when=none>
            {no_match("No run matches the filter.".into(), clear)}
        </Show>
    }
}

/// Below a part of a long list: which it is, and buttons to the parts before and after it.
fn parts(list: UrlState<ListState>, part: Memo<Part>) -> impl IntoView {
    let told = Memo::new(move |_| part.with(Part::told));
    let button = move |text, to: fn(&Part) -> Option<usize>| {
        let to = Memo::new(move |_| part.with(to));
        let click = move |_| {
            if let Some(to) = to.get_untracked() {
                go(list, Move::Part(to, 0));
            }
        };
        view! {
            <button class="button" disabled=move || to.get().is_none() on:click=click>
                {text}
            </button>
        }
    };
    move || {
        told.get().map(|told| {
            view! {
                <nav class="runs-parts" aria-label="Parts of the list">
                    <span class="muted">{told}</span>
                    {button("Previous", Part::previous)}
                    {button("Next", Part::next)}
                </nav>
            }
        })
    }
}

/// Goes where an arrow key leads.
fn go(list: UrlState<ListState>, to: Move) {
    match to {
        Move::Row(at) => focus_row(at),
        Move::Part(skipped, at) => {
            list.update(|state| state.skipped = skipped);
            focus_soon(at);
        }
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
