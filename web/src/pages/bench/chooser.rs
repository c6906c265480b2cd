//! Chooses what to run and where: a matrix of ticks, with patches in rows and configurations in
//! columns.

use super::store::BenchStore;
use crate::components::focus::rescue;
use crate::components::toasts::Toasts;
use crate::context::expect_context;
use crate::format;
use crate::url_state::UrlState;
use api::bench::{BenchCatalog, BenchConfig, BenchDevice, DeviceKind};
use api::ids::BenchId;
use leptos::prelude::*;
use presentation::pages::bench::bench_state::{BenchState, patch};
use presentation::pages::bench::selection::{Line, Selection, Settings, request};
use std::sync::Arc;

/// What the one button of an empty page runs.
const FIRST: &str = "vl-qwen3.5-9b";

/// State that the parts of the chooser share.
#[derive(Clone, Copy)]
struct Choice {
    catalog: StoredValue<Arc<BenchCatalog>>,
    selection: RwSignal<Selection>,
    settings: RwSignal<Settings>,
    open: RwSignal<bool>,
    busy: RwSignal<bool>,
    wrong: RwSignal<Option<String>>,
    view: UrlState<BenchState>,
    store: BenchStore,
    toasts: Toasts,
}

impl Choice {
    fn start(self, selection: &Selection) {
        if self.busy.get_untracked() {
            return;
        }
        let catalog = self.catalog.get_value();
        let settings = self.settings.get_untracked();
        match request(selection, &settings, &catalog) {
            Err(wrong) => self.wrong.set(Some(wrong)),
            Ok(request) => {
                self.wrong.set(None);
                self.busy.set(true);
                let then = move |started| self.started(started);
                self.store.start(self.toasts, request, then);
            }
        }
    }

    fn started(self, started: Option<BenchId>) {
        let page_was_left = self.busy.try_set(false).is_some();
        if let (Some(id), false) = (started, page_was_left) {
            self.open.set(false);
            // Filters of the last bench would hide the rows of this one.
            let bench = Some(id);
            self.view.set(BenchState {
                bench,
                ..BenchState::default()
            });
            rescue("#main");
            // The rows come in where the folded form was.
            window().scroll_to_with_x_and_y(0.0, 0.0);
        }
    }
}

/// The chooser; folded away if there are results to read.
#[component]
pub fn Chooser(
    catalog: Arc<BenchCatalog>,
    view: UrlState<BenchState>,
    /// Whether nothing has run yet.
    empty: Signal<bool>,
) -> impl IntoView {
    let choice = Choice {
        selection: RwSignal::new(Selection::everything(&catalog, FIRST)),
        catalog: StoredValue::new(catalog),
        settings: RwSignal::new(Settings::default()),
        open: RwSignal::new(false),
        busy: RwSignal::new(false),
        wrong: RwSignal::new(None),
        view,
        store: expect_context(),
        toasts: expect_context(),
    };
    let opened = move || choice.open.get() || empty.get();
    let toggle = move |_| choice.open.update(|open| *open = !*open);
    view! {
        <div class="toolbar">
            <h1>"Bench"</h1>
            <p class="muted">"The offload engine: which patch removes which part of a leak"</p>
            <button
                class="button bench-new"
                class:primary=move || !opened()
                class:hidden=move || empty.get()
                aria-expanded=move || opened().to_string()
                on:click=toggle
            >
                {move || if opened() { "Close" } else { "New bench" }}
            </button>
        </div>
        <Show when=move || empty.get()>{move || first_bench(choice)}</Show>
        <Show when=opened>
            <section class="chooser" aria-label="Choose what to run">
                {ticks(choice)}
                {fields(choice)}
            </section>
        </Show>
    }
}

/// An empty page explains the bench and offers one action.
fn first_bench(choice: Choice) -> impl IntoView {
    let everything = move |_| {
        let all = Selection::everything(&choice.catalog.get_value(), FIRST);
        choice.start(&all);
    };
    view! {
        <section class="bench-empty">
            <h2>"Which of the patches is the root cause?"</h2>
            <p class="muted">
                "A bench runs a training step's every allocation through the offloader, once \
                 without patches and once with each of them, and compares. On the simulated device \
                 a row takes about a second. Nothing has run yet."
            </p>
            <button
                class="button primary"
                aria-busy=move || choice.busy.get().to_string()
                on:click=everything
            >
                {format!("Run {FIRST} with all patches")}
            </button>
            <p class="muted">"or choose below."</p>
        </section>
    }
}

fn ticks(choice: Choice) -> impl IntoView {
    let catalog = choice.catalog.get_value();
    let heads = catalog
        .configs
        .iter()
        .map(|config| config_head(choice, config));
    let heads = heads.collect_view();
    let lines = Line::all(&catalog).into_iter();
    let lines = lines
        .map(|line| line_view(choice, &catalog, line))
        .collect_view();
    view! {
        <div class="ticks-scroll" tabindex="0" role="group" aria-label="Patches and configurations">
            <table class="ticks">
                <thead>
                    <tr>
                        <th scope="col">"Patch"</th>
                        {heads}
                    </tr>
                </thead>
                <tbody>{lines}</tbody>
            </table>
        </div>
    }
}

fn config_head(choice: Choice, config: &BenchConfig) -> impl IntoView + use<> {
    let for_value = config.clone();
    let for_change = config.clone();
    let ticked = move || choice.selection.with(|s| s.has_config(&for_value));
    let change = move |event| {
        let on = event_target_checked(&event);
        let catalog = choice.catalog.get_value();
        choice
            .selection
            .update(|s| s.set_config(&catalog, &for_change, on));
    };
    view! {
        <th scope="col" title=config.about.clone()>
            <label class="tick">
                <span>{config.id.clone()}</span>
                <span class="muted tick-base">{config.base.clone()}</span>
                <input type="checkbox" prop:checked=ticked on:change=change/>
            </label>
        </th>
    }
}

fn line_view(choice: Choice, catalog: &BenchCatalog, line: Line) -> impl IntoView + use<> {
    let (name, about, hypothesis) = match &line {
        Line::Patch(id) => match patch(catalog, id) {
            Some(patch) => {
                let about = match &patch.pr {
                    Some(pr) => format!("{} {pr}", patch.project),
                    None => "no source".to_owned(),
                };
                (patch.label.clone(), about, patch.hypothesis.clone())
            }
            None => (id.clone(), String::new(), None),
        },
        Line::Combination => (
            "all together".to_owned(),
            "as published or merged".to_owned(),
            None,
        ),
        Line::Chain => (
            "one by one".to_owned(),
            "the root-cause chain".to_owned(),
            None,
        ),
    };
    let cells = catalog
        .configs
        .iter()
        .map(|config| cell(choice, &line, &name, config));
    let cells = cells.collect_view();
    let badge = hypothesis.map(|why| {
        view! { <span class="badge caution" title=why>"hypothesis"</span> }
    });
    view! {
        <tr>
            <th scope="row">
                <span class="tick-name">{name} {badge}</span>
                <span class="muted tick-base">{about}</span>
            </th>
            {cells}
        </tr>
    }
}

fn cell(choice: Choice, line: &Line, name: &str, config: &BenchConfig) -> AnyView {
    if line.sets(config).is_empty() {
        let why = match line {
            Line::Patch(_) => format!("{name} changes nothing that {} runs", config.id),
            Line::Combination | Line::Chain => format!("{} has one patch only", config.id),
        };
        let title = why.clone();
        return view! {
            <td class="muted" title=title>
                <span aria-hidden="true">"–"</span>
                <span class="visually-hidden">{why}</span>
            </td>
        }
        .into_any();
    }
    let (for_value, for_change) = (
        (line.clone(), config.clone()),
        (line.clone(), config.clone()),
    );
    let ticked = move || choice.selection.with(|s| s.has(&for_value.0, &for_value.1));
    let change = move |event| {
        let on = event_target_checked(&event);
        choice
            .selection
            .update(|s| s.set(&for_change.0, &for_change.1, on));
    };
    let label = format!("{name} on {}", config.id);
    view! {
        <td>
            <input type="checkbox" aria-label=label prop:checked=ticked on:change=change/>
        </td>
    }
    .into_any()
}

fn fields(choice: Choice) -> impl IntoView {
    let catalog = choice.catalog.get_value();
    let devices = catalog
        .devices
        .iter()
        .map(|device| device_view(choice, device));
    let devices = devices.collect_view();
    let recorded = catalog.limits.recorded_steps;
    let most = catalog.limits.rows as usize;
    let rows = Memo::new(move |_| choice.selection.with(Selection::rows));
    let label = move || match rows.get() {
        0 => "Choose something to run".to_owned(),
        n if n > most => format!("{n} rows: more than the {most} of one bench"),
        n => format!("Run {}", format::plural(n as u64, "row")),
    };
    let idle = move || rows.get() == 0 || rows.get() > most;
    let start = move |_| {
        let selection = choice.selection.get_untracked();
        choice.start(&selection);
    };
    view! {
        <div class="chooser-fields">
            <fieldset class="chooser-devices">
                <legend>"Device"</legend>
                {devices}
            </fieldset>
            {field(choice, "Steps", "each its own", |s| &mut s.steps)}
            {field(choice, "Device memory, such as 24 GB", "as published", |s| &mut s.capacity)}
            {field(choice, "Recorded steps", &recorded.to_string(), |s| &mut s.recorded)}
            <p class="muted chooser-note">
                "Every step is kept as numbers; the recorded ones, from the first, also allocation \
                 by allocation, and can be opened like an upload."
            </p>
            <div class="chooser-start">
                <button
                    class="button primary"
                    prop:disabled=idle
                    aria-busy=move || choice.busy.get().to_string()
                    on:click=start
                >
                    {label}
                </button>
                <p class="bad-text" role="alert">{move || choice.wrong.get()}</p>
            </div>
        </div>
    }
}

fn device_view(choice: Choice, device: &BenchDevice) -> impl IntoView + use<> {
    let kind = device.kind;
    let name = match kind {
        DeviceKind::Sim => "Simulated",
        DeviceKind::Cuda => "GPU",
    };
    let chosen = move || choice.settings.with(|s| s.device == kind);
    let choose = move |_| choice.settings.update(|s| s.device = kind);
    let unavailable = device.unavailable.clone();
    let disabled = unavailable.is_some();
    let about = unavailable.map_or(device.about.clone(), |why| format!("Not available: {why}"));
    view! {
        <label class="tick" class:disabled=disabled>
            <input
                type="radio"
                name="bench-device"
                prop:checked=chosen
                disabled=disabled
                on:change=choose
            />
            <span>
                {name}
                <small class="muted">{about}</small>
            </span>
        </label>
    }
}

fn field(
    choice: Choice,
    label: &'static str,
    placeholder: &str,
    of: fn(&mut Settings) -> &mut String,
) -> impl IntoView + use<> {
    let typed = move |event| {
        choice
            .settings
            .update(|s| *of(s) = event_target_value(&event));
    };
    let value = move || choice.settings.with(|s| of(&mut s.clone()).clone());
    view! {
        <label class="chooser-field">
            {label}
            <input
                class="input"
                inputmode="decimal"
                placeholder=placeholder.to_owned()
                prop:value=value
                on:input=typed
            />
        </label>
    }
}
