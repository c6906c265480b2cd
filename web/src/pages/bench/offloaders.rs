//! The history of the offloader in one picture: releases in columns, configurations in rows. Below
//! it, all that is known about the selected cell.

use super::frontier;
use super::store::{BenchStore, Kept};
use crate::components::focus::show;
use crate::context::expect_context;
use crate::pages::runs_store::Loaded;
use crate::url_state::UrlState;
use api::bench::{BenchResult, GridCell, OffloaderGrid, Trouble};
use leptos::prelude::*;
use presentation::pages::bench::bench_state::BenchState;
use presentation::pages::bench::explain::wrong_bytes;
use presentation::pages::bench::figures::{growth, level, seconds};
use presentation::pages::bench::numbers::facts;
use std::sync::Arc;
use trace::units::Bytes;

/// The grid and the frontier; empty until they are loaded.
#[component]
pub fn Offloaders(view: UrlState<BenchState>) -> impl IntoView {
    let store: BenchStore = expect_context();
    let kept = store.kept();
    move || match kept.get() {
        Loaded::Ready(kept) if !kept.grid.cells.is_empty() => {
            Some((picture(&kept, view), frontier::picture(&kept.frontier)))
        }
        _ => None,
    }
}

/// The name of a cell in the address.
fn key(cell: &GridCell) -> String {
    format!("{}@{}", cell.config, cell.offloader)
}

fn picture(kept: &Arc<Kept>, view: UrlState<BenchState>) -> AnyView {
    let grid = &kept.grid;
    let heads = grid.offloaders.iter().map(|offloader| {
        view! {
            <th scope="col" title=offloader.about.clone()>
                {offloader.label.clone()}
                <small class="muted">{offloader.about.clone()}</small>
            </th>
        }
    });
    let heads = heads.collect_view();
    let lines = grid.configs.iter().map(|config| line(grid, config, view));
    let lines = lines.collect_view();
    let (for_chosen, state) = (Arc::clone(kept), view.state());
    let chosen = move || {
        let key_of = state.with(|state| state.cell.clone())?;
        let grid = &for_chosen.grid;
        let cell = grid.cells.iter().find(|cell| key(cell) == key_of)?;
        Some(details(grid, cell))
    };
    view! {
        <section class="offloaders" aria-label="Offloaders on each configuration">
            <header class="offloaders-head">
                <h2>"Release by release"</h2>
                <p class="muted">
                    "Each TRL release, and four ways to do without it, on each configuration: \
                     what goes wrong, peak, pinned host memory, step time. Computed; a hatched \
                     mark says that the real software was measured too. Open a cell for all of it."
                </p>
            </header>
            <div
                class="offloaders-scroll"
                tabindex="0"
                role="group"
                aria-label="Offloaders and configurations"
            >
                <table class="offloaders-grid">
                    <thead><tr><th scope="col">"Configuration"</th>{heads}</tr></thead>
                    <tbody>{lines}</tbody>
                </table>
            </div>
            {chosen}
        </section>
    }
    .into_any()
}

fn line(grid: &OffloaderGrid, config: &str, view: UrlState<BenchState>) -> AnyView {
    let of_config = || grid.cells.iter().filter(|cell| cell.config == config);
    let largest = of_config().map(|cell| cell.result.peak_allocated).max();
    let steps = of_config().map(|cell| cell.result.steps_run).max();
    let cells = grid
        .offloaders
        .iter()
        .map(|offloader| match grid.cell(config, &offloader.label) {
            Some(found) => cell(found, largest.unwrap_or(Bytes(1)), view),
            None => view! { <td><span class="muted">"–"</span></td> }.into_any(),
        });
    let cells = cells.collect_view();
    let steps = steps.map(|steps| format!("{steps} steps"));
    view! {
        <tr>
            <th scope="row">{config.to_owned()}<small class="muted">{steps}</small></th>
            {cells}
        </tr>
    }
    .into_any()
}

fn cell(cell: &GridCell, largest: Bytes, view: UrlState<BenchState>) -> AnyView {
    let result = &cell.result;
    let troubles = Trouble::of(result);
    let (of_press, of_key) = (key(cell), key(cell));
    let state = view.state();
    let pressed = move || state.with(|state| state.cell.as_deref() == Some(of_key.as_str()));
    let press = move |_| {
        let this = Some(of_press.clone());
        view.update(|state| {
            state.cell = if state.cell == this { None } else { this };
        });
        show(".offloaders-chosen");
    };
    let width = result.peak_allocated.0 as f64 / largest.0.max(1) as f64 * 100.0;
    let measured = cell.known.measured.is_some().then(|| {
        view! {
            <span class="kind measured" title="The real software was measured too">
                <span class="kind-mark"></span>
                <span class="visually-hidden">"measured too"</span>
            </span>
        }
    });
    let numbers = match result.crash.is_some() {
        true => ().into_any(),
        false => numbers(result, width),
    };
    view! {
        <td>
            <button class=format!("offloaders-cell {}", tone(&troubles)) on:click=press
                aria-pressed=move || pressed().to_string()>
                <span class="offloaders-words">{words(&troubles)} {measured}</span>
                {numbers}
            </button>
        </td>
    }
    .into_any()
}

/// Peak with its bar, growth if there is any, host memory and time.
fn numbers(result: &BenchResult, width: f64) -> AnyView {
    let leak = Trouble::of(result).contains(&Trouble::Leaks).then(|| {
        view! { <span>{format!("{} a step", growth(result.growth_per_step))}</span> }
    });
    view! {
        <b>{level(result.peak_allocated)}</b>
        <span class="offloaders-bar" aria-hidden="true">
            <span style:width=format!("{width:.1}%")></span>
        </span>
        {leak}
        <span class="muted">{format!("host {}", pinned(result))}</span>
        <span class="muted">{seconds(result.step_seconds)}</span>
    }
    .into_any()
}

/// The most pinned host memory, which older results do not tell.
fn pinned(result: &BenchResult) -> String {
    result.host_pinned_peak.map_or("unknown".to_owned(), level)
}

fn tone(troubles: &[Trouble]) -> &'static str {
    match troubles.first() {
        None => "clean",
        Some(Trouble::Leaks | Trouble::LeaksOnHost) => "leaks",
        Some(Trouble::Crashes | Trouble::RunsOut | Trouble::Corrupts) => "fails",
    }
}

fn words(troubles: &[Trouble]) -> AnyView {
    if troubles.is_empty() {
        return view! { <span class="badge good">"clean"</span> }.into_any();
    }
    let word = |trouble: &Trouble| {
        let class = match trouble {
            Trouble::Leaks | Trouble::LeaksOnHost => "badge caution",
            Trouble::Crashes | Trouble::RunsOut | Trouble::Corrupts => "badge bad",
        };
        view! { <span class=class>{trouble.word()}</span> }
    };
    troubles.iter().map(word).collect_view().into_any()
}

/// All that is known of a cell, and how to compute it again.
fn details(grid: &OffloaderGrid, cell: &GridCell) -> AnyView {
    let lists = cell.known.iter().map(|known| {
        let lines = facts(known).into_iter();
        let lines = lines.map(|(name, value)| view! { <dt>{name}</dt><dd>{value}</dd> });
        view! {
            <div>
                <h4>{known.kind.word()}</h4>
                <dl class="evidence-card">{lines.collect_view()}</dl>
            </div>
        }
    });
    let lists = lists.collect_view();
    let computed = computed(grid, cell).into_iter();
    let computed = computed.map(|(name, value)| view! { <dt>{name}</dt><dd>{value}</dd> });
    view! {
        <div class="offloaders-chosen" role="status">
            <h3>{format!("{} on {}", cell.config, cell.offloader)}</h3>
            <div class="offloaders-kinds">
                <div>
                    <h4>"computed"</h4>
                    <dl class="evidence-card">{computed.collect_view()}</dl>
                </div>
                {lists}
            </div>
        </div>
    }
    .into_any()
}

/// The computed numbers of a cell, line by line.
fn computed(grid: &OffloaderGrid, cell: &GridCell) -> Vec<(&'static str, String)> {
    let result = &cell.result;
    let mut lines = vec![("Peak allocated", level(result.peak_allocated))];
    if result.crash.is_none() {
        lines.extend([
            ("Growth a step", growth(result.growth_per_step)),
            ("Growth on the host", growth(result.host_growth_per_step)),
            ("Pinned host memory", pinned(result)),
            ("Step", seconds(result.step_seconds)),
        ]);
        let wrong = match result.corrupted_tensors {
            0 => "none".to_owned(),
            _ => wrong_bytes(result),
        };
        lines.push(("Wrong bytes", wrong));
    }
    lines.extend(result.crash.clone().map(|crash| {
        let step = result.steps_run + 1;
        ("Raised", format!("in step {step}: {crash}"))
    }));
    lines.extend([
        ("Steps", result.steps_run.to_string()),
        ("File", grid.file.clone()),
        ("Machine", format!("simulated device ({})", result.device)),
        (
            "Command",
            format!(
                "tidemark bench {} --patches baseline --base {}",
                cell.config, cell.offloader
            ),
        ),
        ("Date", grid.date.clone()),
    ]);
    lines
}
