//! Which runs are compared: their order and baseline, and buttons to add and remove runs.

use super::pick::Picked;
use crate::components::no_match::no_match;
use crate::components::problem_note::ProblemNote;
use crate::context::expect_context;
use crate::pages::runs_store::{Loaded, RunsStore};
use crate::url_state::UrlState;
use api::compare::{Comparison, RUNS};
use api::compare_view::CompareState;
use api::ids::RunId;
use api::routes;
use api::runs::RunSummary;
use leptos::prelude::*;
use leptos_router::components::A;
use presentation::pages::compare::head::{
    FILTERED_FROM, facts, is_sought, moved, next_pick, with_runs,
};

/// Chips of the runs, and a menu to add one.
#[component]
pub fn Chooser(view: UrlState<CompareState>) -> impl IntoView {
    let store: RunsStore = expect_context();
    store.refresh();
    let runs = Memo::new(move |_| view.state().with(|state| state.runs.clone()));
    let chips = move || {
        let runs = runs.get();
        let last = runs.len().saturating_sub(1);
        let chips = runs.into_iter().enumerate();
        chips
            .map(|(at, id)| view! { <Chip view=view at=at last=last id=id/> })
            .collect_view()
    };
    view! {
        <ol class="compare-runs" aria-label="Runs compared">{chips}</ol>
        <AddRun view=view/>
    }
}

/// The runs, for readers of a link: they cannot choose others.
pub fn fixed(comparison: &Comparison) -> AnyView {
    let chips = comparison.runs.iter().enumerate().map(|(at, run)| {
        let role = (at == 0).then(|| view! { <span class="chip-role">"baseline"</span> });
        view! {
            <li class="chip">
                <span class=format!("run-swatch run-{at}") aria-hidden="true"></span>
                <span class="chip-name">{run.name.clone()}</span>
                {role}
            </li>
        }
    });
    view! { <ol class="compare-runs" aria-label="Runs compared">{chips.collect_view()}</ol> }
        .into_any()
}

#[component]
fn Chip(view: UrlState<CompareState>, at: usize, last: usize, id: RunId) -> impl IntoView {
    let store: RunsStore = expect_context();
    let page = routes::run_page(&id);
    let shown = {
        let id = id.clone();
        move || {
            store
                .run(&id)
                .map_or_else(|| id.to_string(), |run| run.name)
        }
    };
    let change = move |change: &dyn Fn(&mut Vec<RunId>)| {
        let state = view.state().get_untracked();
        view.set(with_runs(&state, change));
    };
    let role = if at == 0 { "baseline" } else { "" };
    let baseline = (at > 0).then(|| {
        view! {
            <button
                class="chip-button"
                title="Make it the baseline"
                on:click=move |_| change(&|runs| runs[..=at].rotate_right(1))
            >
                "make baseline"
            </button>
        }
    });
    let earlier = (at > 1).then(|| {
        view! {
            <button
                class="chip-button"
                aria-label="Move forward"
                title="Move forward"
                on:click=move |_| change(&|runs| moved(runs, at, false))
            >
                "‹"
            </button>
        }
    });
    let later = (at > 0 && at < last).then(|| {
        view! {
            <button
                class="chip-button"
                aria-label="Move back"
                title="Move back"
                on:click=move |_| change(&|runs| moved(runs, at, true))
            >
                "›"
            </button>
        }
    });
    view! {
        <li class="chip">
            <span class=format!("run-swatch run-{at}") aria-hidden="true"></span>
            <A href=page attr:class="chip-name" attr:title="Open the run">{shown}</A>
            <span class="chip-role">{role}</span>
            {baseline} {earlier} {later}
            <button
                class="chip-button"
                aria-label="Remove"
                title="Remove from the comparison"
                on:click=move |_| change(&|runs| { runs.remove(at); })
            >
                "×"
            </button>
        </li>
    }
}

/// Runs that could be added.
fn others(all: &Loaded<Vec<RunSummary>>, chosen: &[RunId]) -> Vec<RunSummary> {
    match all {
        Loaded::Ready(runs) => {
            let rest = runs.iter().filter(|run| !chosen.contains(&run.id));
            rest.cloned().collect()
        }
        Loaded::Loading | Loaded::Failed(_) => Vec::new(),
    }
}

#[component]
fn AddRun(view: UrlState<CompareState>) -> impl IntoView {
    let store: RunsStore = expect_context();
    let rest = Memo::new(move |_| {
        let chosen = view.state().with(|state| state.runs.clone());
        store.runs().with(|all| others(all, &chosen))
    });
    let none = move || rest.with(Vec::is_empty);
    let full = move || view.state().with(|state| state.runs.len() >= *RUNS.end());
    let options = move || {
        let rest = rest.get().into_iter();
        let option = |run: RunSummary| {
            let text = format!("{} · {}", run.name, run.peak());
            view! { <option value=run.id.to_string()>{text}</option> }
        };
        rest.map(option).collect_view()
    };
    let add = move |event: web_sys::Event| {
        if let Ok(id) = event_target_value(&event).parse::<RunId>() {
            let state = view.state().get_untracked();
            view.set(with_runs(&state, |runs| runs.push(id)));
        }
    };
    view! {
        <select
            class="input compare-add"
            aria-label="Add a run"
            on:change=add
            disabled=full
            hidden=none
        >
            <option value="" selected=true>"Add a run…"</option>
            {options}
        </select>
    }
}

/// If there are fewer than two runs: what to do.
#[component]
pub fn MorePicks(view: UrlState<CompareState>) -> impl IntoView {
    let store: RunsStore = expect_context();
    // Whether the list is there. What it holds is followed by what shows it.
    let came = Memo::new(move |_| {
        store.runs().with(|all| match all {
            Loaded::Ready(_) => Loaded::Ready(()),
            Loaded::Loading => Loaded::Loading,
            Loaded::Failed(problem) => Loaded::Failed(problem.clone()),
        })
    });
    let body = move || match came.get() {
        Loaded::Ready(()) => view! { <Picks view=view/> }.into_any(),
        Loaded::Loading => view! {
            <div class="skeleton" aria-busy="true">
                <p class="visually-hidden">"Loading the runs"</p>
                <div class="skeleton-row"></div>
            </div>
        }
        .into_any(),
        Loaded::Failed(problem) => {
            let retry = Callback::new(move |()| store.refresh());
            view! { <ProblemNote problem=problem retry=retry/> }.into_any()
        }
    };
    view! {
        <section class="compare-empty" aria-labelledby="compare-empty-title">
            <h2 id="compare-empty-title">"Two to eight runs on one axis"</h2>
            {body}
            <p class="muted">
                "Or tick runs in the " <A href=routes::RUNS_PAGE>"list"</A>
                <span>
                    ", or from a shell: "
                    <code>"tidemark push before.pickle after.pickle --compare"</code>
                </span>
            </p>
        </section>
    }
}

/// The runs to pick from.
#[component]
fn Picks(view: UrlState<CompareState>) -> impl IntoView {
    let store: RunsStore = expect_context();
    let picked: Picked = expect_context();
    let chosen = Memo::new(move |_| view.state().with(|state| state.runs.clone()));
    let rest = Memo::new(move |_| store.runs().with(|all| others(all, &chosen.get())));
    let sentence = move || next_pick(chosen.with(Vec::len), rest.with(Vec::len));
    let row = move |run: RunSummary| {
        let id = run.id.clone();
        let add = move |_| {
            picked.clear();
            let state = view.state().get_untracked();
            view.set(with_runs(&state, |runs| runs.push(id.clone())));
        };
        let facts = facts(&run.peak(), run.steps, run.leaks.as_ref());
        view! {
            <li>
                <button class="pick-row" on:click=add>
                    <span class="pick-name" title=run.name.clone()>{run.name.clone()}</span>
                    <span class="muted">{facts}</span>
                </button>
            </li>
        }
    };
    let sought = RwSignal::new(String::new());
    let rows = move || {
        let found = rest.get().into_iter();
        let found = found.filter(|run| sought.with(|text| is_sought(run, text)));
        let found: Vec<_> = found.map(row).collect();
        match found.is_empty() && sought.with(|text| !text.is_empty()) {
            true => {
                let clear = Callback::new(move |()| sought.set(String::new()));
                no_match("No run matches the filter.".into(), clear)
            }
            false => view! { <ul class="pick-list">{found}</ul> }.into_any(),
        }
    };
    let is_long = Memo::new(move |_| rest.with(Vec::len) > FILTERED_FROM);
    let filter = move || is_long.get().then(|| name_field(sought));
    view! {
        <p class="muted">{sentence}</p>
        {filter}
        {rows}
    }
}

fn name_field(sought: RwSignal<String>) -> AnyView {
    view! {
        <input
            class="input pick-filter"
            type="search"
            placeholder="Filter by name"
            aria-label="Filter runs"
            prop:value=sought
            on:input=move |event| sought.set(event_target_value(&event))
        />
    }
    .into_any()
}
