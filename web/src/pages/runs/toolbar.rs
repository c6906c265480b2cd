//! Title, count and filter above the list.

use super::focus::focus_row;
use crate::components::icon::{Icon, IconView};
use crate::components::keys::{is_shortcut, on_key};
use crate::context::expect_context;
use crate::pages::runs_store::RunsStore;
use crate::project;
use crate::url_state::UrlState;
use api::routes;
use leptos::html;
use leptos::prelude::*;
use presentation::pages::runs::list_state::ListState;
use presentation::pages::runs::table::Part;
use web_sys::KeyboardEvent;

/// `/` moves to the filter, and an arrow from there into the list. Escape clears it; pressed again,
/// it leaves it.
#[component]
pub fn Toolbar(list: UrlState<ListState>, part: Memo<Part>) -> impl IntoView {
    let store: RunsStore = expect_context();
    let input = NodeRef::<html::Input>::new();
    let focus = move || {
        input
            .get_untracked()
            .map(|input| (input.focus(), input.select()))
    };
    on_key(move |event| {
        if event.key() == "/" && is_shortcut(event) {
            event.prevent_default();
            focus();
        }
    });
    let count = move || part.with(|part| part.counted(store.is_whole()));
    // Only runs with labels have a history.
    let labelled = Memo::new(move |_| part.with(|part| part.are_labelled));
    let history = move || {
        let link =
            || view! { <a href=project::page(routes::HISTORY_PAGE) rel="external">"History"</a> };
        labelled.get().then(link)
    };
    let of_jobs = Memo::new(move |_| part.with(|part| part.are_of_jobs));
    let jobs = move || {
        let link = || view! { <a href=project::page(routes::JOBS_PAGE) rel="external">"Jobs"</a> };
        of_jobs.get().then(link)
    };
    let typed = move |event| list.update(|state| state.filter_by(event_target_value(&event)));
    let leave = move |event| leave(&event, list, input);
    view! {
        <div class="toolbar">
            <h1>"Runs"</h1>
            <p class="muted" role="status">{count}</p>
            {jobs}
            {history}
            <div class="search">
                <IconView icon=Icon::Search/>
                <input
                    class="input"
                    type="search"
                    placeholder="Filter by name, label, finding"
                    aria-label="Filter runs"
                    node_ref=input
                    prop:value=move || list.state().with(|state| state.filter.clone())
                    on:input=typed
                    on:keydown=leave
                />
                <kbd aria-hidden="true">"/"</kbd>
            </div>
        </div>
    }
}

/// What keys do in the filter.
fn leave(event: &KeyboardEvent, list: UrlState<ListState>, input: NodeRef<html::Input>) {
    match event.key().as_str() {
        "ArrowDown" if !event.is_composing() => {
            event.prevent_default();
            focus_row(0);
        }
        "Escape" => {
            if list.state().with_untracked(|state| state.filter.is_empty()) {
                input.get_untracked().map(|input| input.blur());
            }
            list.update(|state| state.filter_by(String::new()));
        }
        _ => {}
    }
}
