//! Which runs are compared: their order and baseline, and buttons to add and remove runs.

use super::pick::Picked;
use crate::components::focus;
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
    FILTERED_FROM, Offer, facts, moved, next_pick, with_runs,
};
use web_sys::KeyboardEvent;

/// Where the next run is chosen, once one was: at the button, or in the list of an empty page. The
/// last chip of a full comparison, which has no next one.
const NEXT_CHOICE: &str = ".compare-runs li:nth-child(8) a, .compare-add:not([hidden]) button, \
                           .pick-filter, .pick-row";

/// Chips of the runs, and a button to add one.
#[component]
pub fn Chooser(view: UrlState<CompareState>) -> impl IntoView {
    let store: RunsStore = expect_context();
    store.show();
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
    // A run that is deleted while the page is open keeps its name, and its numbers.
    let known = {
        let id = id.clone();
        Memo::new(move |last: Option<&String>| {
            let listed = store.run(&id).map(|run| run.called());
            let before = listed.or_else(|| last.cloned());
            before.unwrap_or_else(|| id.to_string())
        })
    };
    let shown = move || known.get();
    let change = move |change: &dyn Fn(&mut Vec<RunId>)| {
        let state = view.state().get_untracked();
        view.set(with_runs(&state, change));
    };
    let named = move |what: String| move || [what.as_str(), &shown()].concat();
    let role = if at == 0 { "baseline" } else { "" };
    let baseline = (at > 0).then(|| {
        view! {
            <button
                class="chip-button"
                title="Make it the baseline"
                aria-label=named("make baseline: ".to_owned())
                on:click=move |_| change(&|runs| runs[..=at].rotate_right(1))
            >
                "make baseline"
            </button>
        }
    });
    let move_to = |what: &'static str, back: bool| {
        view! {
            <button
                class="chip-button"
                aria-label=named([what, " "].concat())
                title=what
                on:click=move |_| change(&|runs| moved(runs, at, back))
            >
                {if back { "›" } else { "‹" }}
            </button>
        }
    };
    let earlier = (at > 1).then(|| move_to("Move forward", false));
    let later = (at > 0 && at < last).then(|| move_to("Move back", true));
    view! {
        <li class="chip">
            <span class=format!("run-swatch run-{at}") aria-hidden="true"></span>
            <A href=page attr:class="chip-name" attr:title="Open the run">{shown}</A>
            <span class="chip-role">{role}</span>
            {baseline} {earlier} {later}
            <button
                class="chip-button"
                aria-label=named("Remove ".to_owned())
                title="Remove from the comparison"
                on:click=move |_| change(&|runs| { runs.remove(at); })
            >
                "×"
            </button>
        </li>
    }
}

/// A button that opens a list of runs, of which one is added.
#[component]
fn AddRun(view: UrlState<CompareState>) -> impl IntoView {
    let store: RunsStore = expect_context();
    let chosen = Memo::new(move |_| view.state().with(|state| state.runs.len()));
    // With fewer than two, the page itself is such a list.
    let none = move || {
        let all = store.runs().with(|all| match all {
            Loaded::Ready(runs) => runs.len(),
            Loaded::Loading | Loaded::Failed(_) => 0,
        });
        chosen.get() < *RUNS.start() || all <= chosen.get()
    };
    let open = RwSignal::new(false);
    // What was chosen: the list has done its work.
    Effect::new(move |_| {
        chosen.track();
        open.set(false);
    });
    let toggle = move |_| {
        open.update(|open| *open = !*open);
        request_animation_frame(|| {
            let _ = focus::give(".compare-add input") || focus::give(".compare-add .pick-row");
        });
    };
    let keys = move |event: KeyboardEvent| {
        if event.key() == "Escape" {
            open.set(false);
            focus::rescue_at(NEXT_CHOICE.to_owned());
        }
    };
    view! {
        <div class="compare-add" hidden=none on:keydown=keys>
            <button
                class="button"
                aria-expanded=move || open.get().to_string()
                disabled=move || { chosen.get() >= *RUNS.end() }
                on:click=toggle
            >
                "Add a run…"
            </button>
            {move || open.get().then(|| view! { <Picks view=view/> })}
        </div>
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
    let sentence = move || {
        let chosen = view.state().with(|state| state.runs.clone());
        store.runs().with(|all| match all {
            Loaded::Ready(runs) => next_pick(chosen.len(), Offer::of(runs, &chosen, "").all),
            Loaded::Loading | Loaded::Failed(_) => "",
        })
    };
    let body = move || match came.get() {
        Loaded::Ready(()) => view! {
            <p class="muted">{sentence}</p>
            <Picks view=view/>
        }
        .into_any(),
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

/// The runs to pick from: the newest, or those whose names have what is typed.
#[component]
fn Picks(view: UrlState<CompareState>) -> impl IntoView {
    let store: RunsStore = expect_context();
    let picked: Picked = expect_context();
    let sought = RwSignal::new(String::new());
    let offer = Memo::new(move |_| {
        let chosen = view.state().with(|state| state.runs.clone());
        store.runs().with(|all| match all {
            Loaded::Ready(runs) => sought.with(|text| Offer::of(runs, &chosen, text)),
            Loaded::Loading | Loaded::Failed(_) => Offer::default(),
        })
    });
    let row = move |run: RunSummary| {
        let id = run.id.clone();
        let add = move |_| {
            let state = view.state().get_untracked();
            // With fewer, this is another choice than that of the list.
            if state.runs.len() < *RUNS.start() {
                picked.clear();
            }
            view.set(with_runs(&state, |runs| runs.push(id.clone())));
            focus::rescue_at(NEXT_CHOICE.to_owned());
        };
        let facts = facts(&run.peak(), run.steps, run.leaks.as_ref());
        let name = run.called();
        let title = name.clone();
        view! {
            <li>
                <button class="pick-row" on:click=add>
                    <span class="pick-name" title=title>{name}</span>
                    <span class="muted">{facts}</span>
                </button>
            </li>
        }
    };
    let rows = move || {
        let Offer { runs, found, all } = offer.get();
        match found == 0 && all > 0 && store.is_whole() {
            true => {
                let clear = Callback::new(move |()| sought.set(String::new()));
                no_match("No run matches the filter.".into(), clear)
            }
            false => {
                let rows = runs.into_iter().map(row).collect_view();
                view! { <ul class="pick-list">{rows}</ul> }.into_any()
            }
        }
    };
    let is_long = Memo::new(move |_| offer.with(|offer| offer.all > FILTERED_FROM));
    let filter = move || is_long.get().then(|| name_field(sought));
    let more = move || {
        let more = offer.with(Offer::more);
        more.map(|more| view! { <p class="muted">{more}</p> })
    };
    view! {
        {filter}
        {rows}
        {more}
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
