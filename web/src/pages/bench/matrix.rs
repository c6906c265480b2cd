//! The matrix: a table for each configuration, in the form of the published table.

use super::row::RowView;
use super::shared::Shared;
use super::store::BenchStore;
use super::waterfall::{chain_of, waterfall};
use crate::components::copy_button::CopyButton;
use crate::components::focus::rescue;
use crate::components::no_match::no_match;
use crate::context::expect_context;
use crate::format;
use crate::pages::runs_store::Loaded;
use crate::url_state::UrlState;
use api::bench::{
    Bench, BenchCatalog, BenchConfig, BenchRowState, BenchStatus, Provenance, RowCounts,
};
use api::ids::RunId;
use api::routes;
use leptos::prelude::*;
use leptos_router::components::A;
use presentation::pages::bench::bench_state::{
    BenchState, Column, Section, baseline, status_called,
};
use presentation::pages::bench::history::{cancelled, chosen, counts, go_on};
use presentation::pages::bench::markdown::tables;
use std::sync::Arc;

/// How many runs can be compared at once.
const COMPARED: usize = 8;

/// The matrix of the selected bench.
#[component]
pub fn Matrix(catalog: Arc<BenchCatalog>, view: UrlState<BenchState>) -> impl IntoView {
    let store: BenchStore = expect_context();
    let bench = Memo::new(move |_| {
        store.bench().with(|bench| match bench {
            Loaded::Ready(bench) => Some(bench.clone()),
            Loaded::Loading | Loaded::Failed(_) => None,
        })
    });
    let shared = Shared {
        catalog: StoredValue::new(catalog),
        bench,
        store,
        toasts: expect_context(),
    };
    let sections = Memo::new(move |_| {
        let catalog = shared.catalog.get_value();
        let arrange = |bench: &Bench| view.state().with(|state| state.arrange(bench, &catalog));
        bench.with(|bench| bench.as_ref().map(arrange).unwrap_or_default())
    });
    let configs = move || {
        let sections = sections.get().into_iter();
        sections
            .map(|section| section.config)
            .collect::<Vec<String>>()
    };
    let nothing = move || sections.with(Vec::is_empty);
    let clear =
        Callback::new(move |()| view.set(view.state().with_untracked(BenchState::unfiltered)));
    let told = Signal::derive(move || view.state().with(BenchState::nothing));
    view! {
        <Filters shared=shared view=view sections=sections/>
        <Kinds/>
        <For
            each=configs
            key=|config| config.clone()
            children=move |config| {
                view! { <ConfigTable shared=shared view=view config=config sections=sections/> }
            }
        />
        <Show when=nothing>
            {no_match(told, clear)}
        </Show>
    }
}

/// The four kinds of numbers and their looks.
#[component]
fn Kinds() -> impl IntoView {
    view! {
        <ul class="kinds" aria-label="Kinds of numbers">
            <li class="kind computed"><span class="kind-mark"></span>
                <span><b>"computed"</b>
                    " by the engine, here; ± is a slope's standard error"</span></li>
            <li class="kind measured"><span class="kind-mark"></span>
                <span><b>"measured"</b> ": the real software, run and counted"</span></li>
            <li class="kind on-card"><span class="kind-mark"></span>
                <span><b>"engine on H200"</b>
                    ": this engine on a real card; it checks the engine"</span></li>
            <li class="kind published"><span class="kind-mark"></span>
                <span><b>"published"</b> " by others; not checked here. Open a number to see what \
                it rests on."</span></li>
        </ul>
    }
}

#[component]
fn Filters(
    shared: Shared,
    view: UrlState<BenchState>,
    sections: Memo<Vec<Section>>,
) -> impl IntoView {
    let state = view.state();
    let configs = move || {
        let mut configs: Vec<String> = Vec::new();
        shared.bench.with(|bench| {
            for row in bench.iter().flat_map(|bench| &bench.rows) {
                if !configs.contains(&row.config) {
                    configs.push(row.config.clone());
                }
            }
        });
        let option = |config: String| {
            let value = config.clone();
            let chosen = move || state.with(|s| s.config.as_deref() == Some(value.as_str()));
            view! { <option value=config.clone() prop:selected=chosen>{config.clone()}</option> }
        };
        configs.into_iter().map(option).collect_view()
    };
    let statuses = BenchStatus::ALL.map(|status| {
        let chosen = move || state.with(|s| s.status == Some(status));
        view! { <option value=status.word() prop:selected=chosen>{status.word()}</option> }
    });
    let choose_config = move |event| {
        let config = Some(event_target_value(&event)).filter(|id| !id.is_empty());
        view.update(|s| s.config = config);
    };
    let choose_status = move |event| {
        let status = status_called(&event_target_value(&event));
        view.update(|s| s.status = status);
    };
    let typed = move |event| view.update(|s| s.filter = event_target_value(&event));
    view! {
        <div class="bench-bar">
            <Standing shared=shared sections=sections/>
            <div class="bench-filters">
                <select class="input" aria-label="Configuration" on:change=choose_config>
                    <option value="">"All configurations"</option>
                    {configs}
                </select>
                <select class="input" aria-label="Status" on:change=choose_status>
                    <option value="">"Any status"</option>
                    {statuses}
                </select>
                <input
                    class="input"
                    type="search"
                    placeholder="Filter by patch, project, PR"
                    aria-label="Filter rows"
                    prop:value=move || state.with(|s| s.filter.clone())
                    on:input=typed
                />
            </div>
        </div>
    }
}

fn of_states(bench: Option<&Bench>) -> RowCounts {
    let mut rows = RowCounts::default();
    for row in bench.iter().flat_map(|bench| &bench.rows) {
        let count = match row.state {
            BenchRowState::Queued { .. } => &mut rows.queued,
            BenchRowState::Running { .. } => &mut rows.running,
            BenchRowState::Done => &mut rows.done,
            BenchRowState::Failed { .. } => &mut rows.failed,
            BenchRowState::Cancelled => &mut rows.cancelled,
        };
        *count += 1;
    }
    rows
}

/// The state of the bench, with buttons to stop it and to hand it on.
#[component]
fn Standing(shared: Shared, sections: Memo<Vec<Section>>) -> impl IntoView {
    let rows = Memo::new(move |_| shared.bench.with(|bench| of_states(bench.as_ref())));
    let text = move || {
        let rows = rows.get();
        let chosen = shared.bench.with(|bench| bench.as_ref().map(chosen));
        [
            format::plural(u64::from(rows.total()), "row"),
            ": ".to_owned(),
            counts(rows),
            chosen.unwrap_or_default(),
        ]
        .concat()
    };
    let busy = move || rows.get().unfinished() > 0;
    Effect::new(move |before: Option<bool>| {
        let now = busy();
        if before == Some(true) && !now {
            rescue("#main");
        }
        now
    });
    let cancel = move |_| {
        if let Some(id) = shared
            .bench
            .with_untracked(|b| b.as_ref().map(|b| b.id.clone()))
        {
            let path = routes::bench_cancel(&id);
            shared.store.act(shared.toasts, "Not cancelled", vec![path]);
        }
    };
    let markdown = Signal::derive(move || {
        let catalog = shared.catalog.get_value();
        let write = |bench: &Bench| sections.with(|sections| tables(bench, &catalog, sections));
        shared
            .bench
            .with(|bench| bench.as_ref().map(write).unwrap_or_default())
    });
    let has_results = move || rows.get().done > 0;
    // Whoever stopped a bench to start another goes on with one click, not with one a row.
    let stopped = Memo::new(move |_| go_on(rows.get()));
    let run_stopped = move |_| {
        let ids = (shared.bench).with_untracked(|b| b.as_ref().map(cancelled));
        let paths = ids.iter().flatten().map(routes::bench_row_rerun).collect();
        shared.store.act(shared.toasts, "Not queued", paths);
    };
    view! {
        <div class="bench-standing">
            <p role="status">{text}</p>
            <Show when=busy>
                <button class="button" on:click=cancel>"Cancel the rest"</button>
            </Show>
            <Show when=move || stopped.get().is_some()>
                <button class="button" on:click=run_stopped>{move || stopped.get()}</button>
            </Show>
            <Show when=has_results>
                <CopyButton text=markdown what="the table" label="Copy as Markdown"/>
            </Show>
        </div>
    }
}

#[component]
fn ConfigTable(
    shared: Shared,
    view: UrlState<BenchState>,
    config: String,
    sections: Memo<Vec<Section>>,
) -> impl IntoView {
    let of_config = config.clone();
    let ids = Memo::new(move |_| {
        let rows = |sections: &Vec<Section>| {
            let found = sections.iter().find(|section| section.config == of_config);
            found
                .map(|section| section.rows.clone())
                .unwrap_or_default()
        };
        sections.with(rows)
    });
    let about = shared.catalog.with_value(|catalog| {
        let found = catalog.configs.iter().find(|c| c.id == config);
        found.map(inputs)
    });
    let base = shared.catalog.with_value(|catalog| {
        let found = catalog.configs.iter().find(|c| c.id == config);
        found.map(|c| (c.base.clone(), c.about.clone()))
    });
    let (base, sentence) = base.unwrap_or_default();
    let chain = root_cause_chain(shared, &config);
    let for_link = config.clone();
    let compare = move || compare_all(shared, &for_link);
    view! {
        <section class="bench-config" aria-label=config.clone()>
            <header class="bench-config-head">
                <h2>{config.clone()}</h2>
                <span class="muted">{format!("on {base}")}</span>
                {compare}
                <p class="muted">{sentence}</p>
            </header>
            <table class="matrix" role="table" aria-label=format!("Rows of {config}")>
                <thead role="rowgroup"><tr role="row">
                    {head(view, "Patch", Some(Column::Patch), "patch")}
                    {head(view, "Project", None, "project")}
                    {head(view, "PR", None, "pr")}
                    {head(view, "Peak allocated", Some(Column::Peak), "peak")}
                    {head(view, "vs Baseline", None, "versus")}
                    {head(view, "Growth a step", Some(Column::Growth), "growth")}
                    {head(view, "Allocated, step by step", None, "spark")}
                    {head(view, "Status", Some(Column::Status), "status")}
                </tr></thead>
                <tbody role="rowgroup">
                    <For
                        each=move || ids.get()
                        key=|id| id.clone()
                        children=move |id| view! { <RowView shared=shared id=id/> }
                    />
                </tbody>
            </table>
            {chain}
            {about}
        </section>
    }
}

/// The root-cause chain. Progress of a row must not draw it again, or fetch its tensors again.
fn root_cause_chain(
    shared: Shared,
    config: &str,
) -> impl Fn() -> Option<AnyView> + Send + 'static + use<> {
    let (for_links, for_chain) = (config.to_owned(), config.to_owned());
    let links = Memo::new(move |_| {
        let of = |bench: &Bench| {
            shared
                .catalog
                .with_value(|c| chain_of(bench, c, &for_links))
        };
        shared.bench.with(|bench| bench.as_ref().and_then(of))
    });
    move || {
        let draw = |catalog: &Arc<BenchCatalog>| waterfall(&links.get()?, catalog, &for_chain);
        shared.catalog.with_value(draw)
    }
}

fn head(
    view: UrlState<BenchState>,
    title: &'static str,
    column: Option<Column>,
    key: &'static str,
) -> AnyView {
    let Some(column) = column else {
        return view! { <th role="columnheader" data-column=key>{title}</th> }.into_any();
    };
    let state = view.state();
    let sorted = move || state.with(|s| (s.sort == column).then(|| s.direction.aria()));
    let sort = move |_| view.set(state.get_untracked().clicked(column));
    view! {
        <th role="columnheader" class="col-head" data-column=key aria-sort=sorted>
            <button on:click=sort>
                {title}
                <span class="sort-mark" aria-hidden="true"></span>
            </button>
        </th>
    }
    .into_any()
}

/// A link that compares the baseline with the rows that have their own runs.
fn compare_all(shared: Shared, config: &str) -> Option<AnyView> {
    let runs = shared.bench.with(|bench| {
        let bench = bench.as_ref()?;
        let base = baseline(bench, config)?.run.clone()?;
        let rows = bench.rows.iter().filter(|row| row.config == config);
        let mut runs: Vec<RunId> = vec![base];
        for run in rows.filter_map(|row| row.run.clone()) {
            if !runs.contains(&run) && runs.len() < COMPARED {
                runs.push(run);
            }
        }
        (runs.len() > 1).then_some(runs)
    })?;
    let text = format!("Compare {} runs", runs.len());
    Some(
        view! { <A href=routes::compare_page(&runs) attr:class="bench-compare">{text}</A> }
            .into_any(),
    )
}

/// The assumptions behind the numbers, and what was published but cannot be derived.
fn inputs(config: &BenchConfig) -> AnyView {
    let said = |provenance: Provenance| match provenance {
        Provenance::Published => ("published", "kind published"),
        Provenance::Source => ("from its source", "kind measured"),
        Provenance::Assumed => ("assumed", "kind assumed"),
    };
    let assumed = config
        .inputs
        .iter()
        .filter(|input| input.provenance == Provenance::Assumed)
        .count();
    let rows = config.inputs.iter().map(|input| {
        let (word, class) = said(input.provenance);
        view! {
            <li>
                <span class=class>{word}</span>
                <b>{input.name.clone()}</b>
                <span>{input.value.clone()}</span>
            </li>
        }
    });
    let rows = rows.collect_view();
    let only = config.published_only.iter().map(|only| {
        view! {
            <li>
                <span class="kind published">"published"</span>
                <b>{only.what.clone()}</b>
                <span>{format!("{}; {}", only.source, only.why)}</span>
            </li>
        }
    });
    let only = only.collect_view();
    let underivable = (!config.published_only.is_empty()).then(|| {
        view! {
            <h3>"Published, but not to be derived"</h3>
            <ul class="inputs">{only}</ul>
        }
    });
    let summary = format!(
        "Inputs ({} of {} assumed) and what cannot be derived",
        assumed,
        config.inputs.len()
    );
    view! {
        <details class="bench-inputs">
            <summary>{summary}</summary>
            <ul class="inputs">{rows}</ul>
            {underivable}
        </details>
    }
    .into_any()
}
