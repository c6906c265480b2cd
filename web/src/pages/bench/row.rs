//! One row of the matrix: what was computed, measured and published, side by side.

use super::numbers::{evidence, number, told};
use super::shared::Shared;
use crate::components::icon::{Icon, IconView};
use crate::format;
use api::bench::{BenchRow, BenchRowState, BenchStatus, shows_growth};
use api::ids::BenchRowId;
use api::routes;
use leptos::prelude::*;
use leptos_router::components::A;
use presentation::pages::bench::bench_state::{baseline, patch, set_label};
use presentation::pages::bench::explain::sentence;
use presentation::pages::bench::figures::{change, growth, level};
use presentation::pages::bench::numbers::peak_text;
use presentation::pages::bench::spark::{self, Range, covered, points};
use trace::units::Bytes;

/// A row and its baseline.
#[derive(Clone, PartialEq)]
struct Pair {
    row: BenchRow,
    baseline: Option<BenchRow>,
    /// Scale of the sparklines of this configuration.
    range: Option<Range>,
    /// Largest peak of this configuration, of any kind: the length of a full bar.
    largest: Bytes,
}

impl Pair {
    fn of(shared: Shared, id: &BenchRowId) -> Option<Pair> {
        let row = shared.row(id)?;
        shared.bench.with(|bench| {
            let bench = bench.as_ref()?;
            let same = || bench.rows.iter().filter(|other| other.config == row.config);
            let peaks = same().flat_map(|row| {
                let computed = row.result.as_ref().map(|result| result.peak_allocated);
                let known = row.known.iter().map(|known| known.peak_allocated);
                known.chain([computed]).collect::<Vec<_>>()
            });
            Some(Pair {
                baseline: baseline(bench, &row.config).cloned(),
                range: Range::of(same().map(|row| row.spark.as_slice())),
                largest: peaks.flatten().max().unwrap_or(Bytes(1)),
                row,
            })
        })
    }

    fn is_baseline(&self) -> bool {
        self.row.patches.is_empty()
    }

    fn computed(&self) -> Option<&api::bench::BenchResult> {
        self.row.result.as_ref()
    }
}

/// One row.
#[component]
pub fn RowView(shared: Shared, id: BenchRowId) -> impl IntoView {
    let wanted = id.clone();
    let pair = Memo::new(move |_| Pair::of(shared, &wanted));
    let cells = move || pair.get().map(|pair| cells(shared, &pair));
    let base = move || pair.with(|pair| pair.as_ref().is_some_and(Pair::is_baseline));
    view! {
        <tr role="row" class="bench-row" class:base=base>
            {cells}
        </tr>
    }
}

fn cells(shared: Shared, pair: &Pair) -> AnyView {
    let catalog = shared.catalog.get_value();
    let (row, label) = (&pair.row, set_label(&catalog, &pair.row.patches));
    let known: Vec<_> = row
        .patches
        .iter()
        .filter_map(|id| patch(&catalog, id))
        .collect();
    // Each patch of a set is explained in the row in which it is alone.
    let about = match &known[..] {
        [only] => only.about.clone(),
        _ => String::new(),
    };
    let mut projects: Vec<String> = known.iter().map(|patch| patch.project.clone()).collect();
    projects.dedup();
    let prs = known.iter().map(|patch| match (&patch.pr, &patch.url) {
        (Some(pr), Some(url)) => view! {
            <a href=url.clone() rel="noreferrer" target="_blank">{pr.clone()}</a>
        }
        .into_any(),
        _ => view! { <span class="muted" title="Its source was never published">"–"</span> }
            .into_any(),
    });
    let prs = prs.collect_view();
    let hypothesis = row.hypothesis.clone().map(|why| {
        view! { <span class="badge caution" title=why.about>"source unavailable"</span> }
    });
    let shown = label.clone();
    let name = match &row.run {
        Some(run) => {
            // Growth on the run's page covers the recorded steps, here all steps.
            let recorded = shared
                .bench
                .with(|b| b.as_ref().map_or(0, |b| b.recorded_steps));
            let title = format!(
                "Open its recording: the first {} of {} steps",
                recorded.min(row.steps),
                row.steps
            );
            view! {
                <A href=routes::run_page(run) attr:title=title>
                    {shown}
                </A>
            }
            .into_any()
        }
        None => view! { <span>{shown}</span> }.into_any(),
    };
    let name = view! {
        <span class="bench-name">{name} {hypothesis}</span>
        <span class="muted bench-about">{about}</span>
    };
    let prs = view! { <span class="bench-prs">{prs}</span> };
    [
        cell("patch", None, name.into_any()),
        cell("project", Some("Project"), projects.join(", ").into_any()),
        cell("pr", Some("PR"), prs.into_any()),
        cell("peak", Some("Peak allocated"), peaks(pair)),
        cell("versus", Some("vs Baseline"), versus(pair)),
        cell("growth", Some("Growth a step"), growths(pair)),
        cell(
            "spark",
            Some("Allocated, step by step"),
            sparkline(pair).into_any(),
        ),
        cell("status", Some("Status"), status(shared, pair, &label)),
    ]
    .into_any()
}

/// A cell; on a narrow screen its label stands before it.
fn cell(column: &'static str, label: Option<&'static str>, shown: AnyView) -> AnyView {
    view! {
        <td role="cell" data-column=column data-label=label>
            {shown}
        </td>
    }
    .into_any()
}

fn peaks(pair: &Pair) -> AnyView {
    let share = |bytes: Bytes| Some(bytes.0 as f64 / pair.largest.0.max(1) as f64);
    let mut shown = Vec::new();
    if let Some(result) = pair.computed() {
        let title = format!(
            "{} = {}; reserved {}",
            format::exact_bytes(result.peak_allocated.0),
            result.peak_allocated,
            result.peak_reserved
        );
        let peak = result.peak_allocated;
        shown.push(number("computed", level(peak), title, share(peak)));
    }
    let steps = pair.computed().map(|result| result.steps_run);
    for known in pair.row.known.iter() {
        if let Some(text) = peak_text(known, steps) {
            shown.push(evidence(known, text, known.peak_allocated.and_then(share)));
        }
    }
    view! { <div class="kinds-cell">{shown}</div> }.into_any()
}

fn versus(pair: &Pair) -> AnyView {
    let Some(base) = pair.baseline.as_ref().filter(|_| !pair.is_baseline()) else {
        return view! { <span class="muted">"–"</span> }.into_any();
    };
    let mut shown = Vec::new();
    let computed = pair.computed().zip(base.result.as_ref());
    if let Some((result, base)) = computed {
        let text = change(base.peak_allocated, result.peak_allocated);
        shown.push(number("computed", text, String::new(), None));
    }
    // Differences are only computed within one kind.
    for known in pair.row.known.iter() {
        let base = base.known.get(known.kind);
        let from = base.and_then(|base| base.peak_allocated);
        if let (Some(of), Some(from)) = (known.peak_allocated, from) {
            shown.push(told(known, change(from, of)));
        }
    }
    view! { <div class="kinds-cell">{shown}</div> }.into_any()
}

fn growths(pair: &Pair) -> AnyView {
    let mut shown = Vec::new();
    if let Some(result) = pair.computed() {
        let error = match result.growth_error > 500.0 {
            true => format!(" ± {}", growth(result.growth_error).trim_start_matches('+')),
            false => String::new(),
        };
        let title = format!(
            "slope over the settled ones of {} steps, and its standard error",
            result.steps_run
        );
        let text = match shows_growth(result) {
            true => format!("{}{error}", growth(result.growth_per_step)),
            false => "–".to_owned(),
        };
        shown.push(number("computed", text, title, None));
    }
    for known in pair.row.known.iter() {
        if let Some(bytes) = known.growth_per_step {
            shown.push(told(known, growth(bytes)));
        }
    }
    view! { <div class="kinds-cell">{shown}</div> }.into_any()
}

fn sparkline(pair: &Pair) -> Option<AnyView> {
    let range = pair.range?;
    let line = |row: &BenchRow| points(&row.spark, covered(row), row.steps, range);
    let own = line(&pair.row);
    if own.is_empty() {
        return None;
    }
    let beside = pair
        .baseline
        .as_ref()
        .filter(|_| !pair.is_baseline())
        .map(line);
    let (width, height) = spark::SIZE;
    let (first, last) = (pair.row.spark.first()?, pair.row.spark.last()?);
    let label = format!(
        "Allocated at the end of steps: from {} to {}",
        level(*first),
        level(*last)
    );
    Some(
        view! {
            <svg
                class="spark"
                viewBox=format!("0 0 {width} {height}")
                preserveAspectRatio="none"
                role="img"
                aria-label=label
            >
                {beside.map(|points| view! {
                    <polyline class="spark-base" points=points></polyline>
                })}
                <polyline points=own></polyline>
            </svg>
        }
        .into_any(),
    )
}

fn status(shared: Shared, pair: &Pair, label: &str) -> AnyView {
    let row = &pair.row;
    let cancel = || {
        let path = routes::bench_row_cancel(&row.id);
        let name = ("Cancel", Icon::Close);
        act(shared, name, label, "Not cancelled", path)
    };
    let rerun = || {
        let path = routes::bench_row_rerun(&row.id);
        let name = ("Run again", Icon::Retry);
        act(shared, name, label, "Not queued", path)
    };
    let (badge, button, text) = match &row.state {
        BenchRowState::Queued { ahead } => {
            let text = match ahead {
                0 => "next".to_owned(),
                n => format!("waits, {n} before it"),
            };
            let text = view! { <p class="muted">{text}</p> }.into_any();
            (plain_badge("badge", "QUEUED"), cancel(), text)
        }
        BenchRowState::Running { .. } => {
            let badge = plain_badge("badge new", "RUNNING");
            (badge, cancel(), running(shared, row))
        }
        BenchRowState::Failed { reason } => {
            let text = view! { <p>{format!("No result: {reason}.")}</p> }.into_any();
            (plain_badge("badge bad", "FAILED"), rerun(), text)
        }
        BenchRowState::Cancelled => {
            let badge = plain_badge("badge", "CANCELLED");
            (badge, rerun(), ().into_any())
        }
        BenchRowState::Done => {
            let said = sentence(row, pair.baseline.as_ref());
            let text = view! { <p>{said} " " {compare(pair)}</p> }.into_any();
            (verdict_badge(row), rerun(), text)
        }
    };
    view! { <div class="bench-status">{badge} {button} {text}</div> }.into_any()
}

fn verdict_badge(row: &BenchRow) -> AnyView {
    row.status.map(badge).into_any()
}

fn plain_badge(class: &'static str, word: &'static str) -> AnyView {
    view! { <span class=class>{word}</span> }.into_any()
}

/// A button that sends a request; `failed` begins the sentence if the server refuses.
fn act(
    shared: Shared,
    (name, icon): (&'static str, Icon),
    label: &str,
    failed: &'static str,
    path: String,
) -> AnyView {
    let press = move |_| shared.store.act(shared.toasts, failed, vec![path.clone()]);
    view! {
        <button
            class="icon-button"
            title=name
            aria-label=format!("{name}: {label}")
            on:click=press
        >
            <IconView icon=icon/>
        </button>
    }
    .into_any()
}

fn badge(status: BenchStatus) -> impl IntoView {
    let class = match status {
        BenchStatus::RootCauseFix
        | BenchStatus::PreventsCrash
        | BenchStatus::PreventsCorruption => "badge good",
        BenchStatus::OutOfMemory
        | BenchStatus::Crash
        | BenchStatus::Corruption
        | BenchStatus::MakesItWorse
        | BenchStatus::MovesToHost => "badge bad",
        BenchStatus::Baseline
        | BenchStatus::NotReproducible
        | BenchStatus::CannotTell
        | BenchStatus::SourceUnavailable => "badge",
        BenchStatus::LowersPeak => "badge new",
    };
    view! { <span class=class>{status.word()}</span> }
}

/// The comparison with the baseline, if both have their own runs.
fn compare(pair: &Pair) -> Option<AnyView> {
    let (base, own) = (pair.baseline.as_ref()?.run.clone()?, pair.row.run.clone()?);
    let link = routes::compare_page(&[base.clone(), own.clone()]);
    (base != own).then(|| {
        view! { <A href=link attr:class="bench-compare">"Compare with the baseline"</A> }.into_any()
    })
}

/// A progress bar that follows the server's events; the row itself is not drawn again.
fn running(shared: Shared, row: &BenchRow) -> AnyView {
    let BenchRowState::Running { progress: read } = row.state else {
        return ().into_any();
    };
    let id = row.id.clone();
    let progress = Memo::new(move |_| {
        let told = shared.store.progress(&id);
        told.filter(|told| told.step >= read.step).unwrap_or(read)
    });
    let width = move || {
        let progress = progress.get();
        let done = format::percent(u64::from(progress.step), u64::from(progress.steps));
        format!("{done}%")
    };
    let text = move || {
        let progress = progress.get();
        match progress.step {
            0 => "building the model".to_owned(),
            step => format!(
                "step {step} of {} · {} now, {} at most",
                progress.steps,
                level(progress.allocated),
                level(progress.peak)
            ),
        }
    };
    view! {
        <div class="bar" aria-hidden="true"><div class="bar-fill" style:width=width></div></div>
        <p class="muted">{text}</p>
    }
    .into_any()
}
