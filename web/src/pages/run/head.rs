//! The head of a run's page: name, facts, and actions for its view.

use crate::components::badge::BadgeView;
use crate::components::copy_as_markdown::CopyAsMarkdown;
use crate::components::copy_for_pr::CopyForPr;
use crate::components::share::ShareButton;
use crate::format::count;
use crate::opened_link::OpenedLink;
use crate::url_state::UrlState;
use ::timeline::ticks;
use api::alive::AllocationFilter;
use api::routes;
use api::runs::{DeviceSummary, RunDetail, RunSummary};
use api::shares::ShareTarget;
use api::view_state::ViewState;
use leptos::prelude::*;
use leptos_router::components::A;
use presentation::components::badge::{Badge, badge};
use presentation::components::labels::label_line;
use presentation::query::Query;
use std::sync::Arc;
use trace::trace::{PINNED, QualityNote, Series, StepSource, device_name};

/// Name, findings, facts about the device, and actions for the view.
#[component]
pub fn RunHead(
    run: Arc<RunDetail>,
    device: Memo<Option<DeviceSummary>>,
    view: UrlState<ViewState>,
) -> impl IntoView {
    let noted = Arc::clone(&run);
    let of_pinned =
        Memo::new(move |_| device.with(|d| d.as_ref().is_some_and(|d| d.device == PINNED)));
    let badges = move || {
        let notes = noted.quality_notes.iter();
        // What is found about pinned memory would repeat what is found about the devices.
        let notes = notes.filter(|note| of_pinned.get() || !note.is_of_pinned());
        merged(notes).into_iter().map(note_badge).collect_view()
    };
    let facts = move || device.get().map(|device| device_facts(&device));
    let torch = run
        .torch_guess
        .clone()
        .map(|torch| format!("torch {torch}"));
    let file = run.summary.file_bytes.to_string();
    let OpenedLink(link) = expect_context();
    // With a link, the reader does not see the list, and shares the run by copying the link.
    let owner = move || link.with(Option::is_none);
    let exported = Arc::clone(&run);
    let crumb = move || owner().then(|| view! { <RunCrumb/> });
    let export = move || owner().then(|| view! { <ExportMenu run=Arc::clone(&exported)/> });
    let shared = Arc::clone(&run);
    let handed_on = move || owner().then(|| view! { <HandOn run=Arc::clone(&shared) view=view/> });
    let words = in_words(&run, device, view);
    let title = format!("{}\n{}", run.summary.name, run.summary.content_hash);
    let summary = run.summary.clone();
    let labelled = move || owner().then(|| labels(&summary));
    view! {
        <header class="run-head">
            <div class="run-title">
                {crumb}
                <h1 title=title>{run.summary.name.clone()}</h1>
                <span class="muted run-file">{file} {torch.map(|t| format!(" · {t}"))}</span>
                {labelled}
                <DevicePicker run=Arc::clone(&run) device=device view=view/>
                <div class="run-badges">{badges}</div>
            </div>
            <div class="run-facts">
                {facts}
                <div class="view-actions">
                    {export}
                    <CopyAsMarkdown path=words/>
                    {handed_on}
                </div>
            </div>
        </header>
    }
}

/// The address of the run in words, with the steps that the view has selected.
fn in_words(
    run: &RunDetail,
    device: Memo<Option<DeviceSummary>>,
    view: UrlState<ViewState>,
) -> Signal<Option<String>> {
    let id = run.summary.id.clone();
    Signal::derive(move || {
        let device = device.with(|device| device.as_ref().map(|d| d.device))?;
        let told = |state: &ViewState| routes::explain(&id, device, state.steps.as_deref());
        Some(view.state().with(told))
    })
}

/// What the team says of the run, and where that is changed.
fn labels(run: &RunSummary) -> impl IntoView + use<> {
    let line = Some(label_line(run)).filter(|line| !line.is_empty());
    let line = line.unwrap_or_else(|| "Labels".to_owned());
    view! { <a href=routes::labels_page(&run.id) rel="external">{line}</a> }
}

/// The way back to the list.
#[component]
fn RunCrumb() -> impl IntoView {
    view! {
        <A href=routes::RUNS_PAGE attr:class="run-back" attr:title="All runs">
            "Runs"
        </A>
        <span class="run-crumb" aria-hidden="true">"/"</span>
    }
}

/// Buttons to share or export this view.
#[component]
fn HandOn(run: Arc<RunDetail>, view: UrlState<ViewState>) -> impl IntoView {
    let query = Signal::derive(move || view.state().with(Query::write));
    let id = run.summary.id.clone();
    let target = Signal::stored(ShareTarget::Run { run: id });
    view! {
        <CopyForPr target=target query=query/>
        <ShareButton target=target query=query/>
    }
}

/// The run as a file for other tools.
#[component]
fn ExportMenu(run: Arc<RunDetail>) -> impl IntoView {
    let formats = [
        ("pickle", "PyTorch snapshot", "for PyTorch's own viewers"),
        (
            "perfetto",
            "Perfetto trace",
            "series, steps, the largest allocations",
        ),
        ("parquet", "Parquet table", "one row for each allocation"),
    ];
    // A run that was uploaded as JSON has no pickle.
    let has_pickle = run.pickle_protocol.is_some();
    let formats = formats
        .into_iter()
        .filter(|(format, ..)| *format != "pickle" || has_pickle);
    let items = formats.map(|(format, name, about)| {
        let link = routes::run_export(&run.summary.id, format);
        view! {
            <li>
                <a href=link download="">
                    {name} <small class="muted">{about}</small>
                </a>
            </li>
        }
    });
    let items = items.collect_view();
    view! {
        <details class="export-menu">
            <summary class="button">"Export"</summary>
            <ul>{items}</ul>
        </details>
    }
}

/// The findings by their badges: several devices may have the same one, each with its detail.
fn merged<'a>(notes: impl Iterator<Item = &'a QualityNote>) -> Vec<(Badge, String)> {
    let mut merged: Vec<(Badge, String)> = Vec::new();
    for note in notes {
        let badge = badge(&note.code);
        match merged
            .iter_mut()
            .find(|(other, _)| other.label == badge.label)
        {
            Some((_, detail)) if detail.contains(&note.detail) => {}
            Some((_, detail)) => {
                detail.push(' ');
                detail.push_str(&note.detail);
            }
            None => merged.push((badge, note.detail.clone())),
        }
    }
    merged
}

/// A finding about the data: a badge with its full meaning.
fn note_badge((badge, detail): (Badge, String)) -> impl IntoView {
    view! {
        <details class="note">
            <summary><BadgeView badge=badge/></summary>
            <p>{detail}</p>
        </details>
    }
}

fn device_facts(device: &DeviceSummary) -> impl IntoView + use<> {
    let peak = |series: Series| device.series[series as usize].peak.to_string();
    let mut facts = vec![
        ("peak allocated", peak(Series::Allocated)),
        ("peak reserved", peak(Series::Reserved)),
        ("events", count(u64::from(device.events))),
        ("allocations", count(u64::from(device.blocks))),
    ];
    if let Some((first, last)) = device.time {
        facts.push(("lasts", ticks::span((last - first) as f64)));
    }
    match device.step_source {
        StepSource::None => {}
        StepSource::Annotations => facts.push(("steps", count(u64::from(device.steps)))),
        StepSource::Inferred => {
            facts.push(("steps, inferred", count(u64::from(device.steps))));
        }
    }
    let facts = facts.into_iter().map(|(name, value)| {
        view! { <div class="fact"><dt>{name}</dt><dd>{value}</dd></div> }
    });
    view! { <dl class="fact-row">{facts.collect_view()}</dl> }
}

#[component]
fn DevicePicker(
    run: Arc<RunDetail>,
    device: Memo<Option<DeviceSummary>>,
    view: UrlState<ViewState>,
) -> impl IntoView {
    let summary = &run.summary;
    let all = summary.devices.iter().chain(&summary.pinned);
    if all.clone().count() < 2 {
        return ().into_any();
    }
    let options = all.map(|d| {
        let ordinal = d.device;
        let name = device_name(ordinal);
        let text = format!("{name} · {}", d.series[Series::Allocated as usize].peak);
        let selected = move || device.with(|d| d.as_ref().is_some_and(|d| d.device == ordinal));
        view! { <option value=ordinal.to_string() selected=selected>{text}</option> }
    });
    let options = options.collect_view();
    let choose = move |event| {
        let device = event_target_value(&event).parse();
        if let Ok(device) = device {
            view.update(|state| choose_device(state, device));
        }
    };
    view! {
        <select class="input" aria-label="Device" on:change=choose>{options}</select>
    }
    .into_any()
}

/// Selects another device, which has other events and other blocks.
pub fn choose_device(state: &mut ViewState, device: u32) {
    *state = ViewState {
        device: Some(device),
        steps: None,
        window: None,
        levels: None,
        selection: None,
        at: None,
        compared_with: None,
        root: None,
        filter: AllocationFilter::default(),
        ..state.clone()
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_about_two_devices_has_one_badge() {
        let note = |code: &str, detail: &str| QualityNote {
            code: code.into(),
            detail: detail.to_owned(),
        };
        let notes = [
            note("no_stacks", "Device 0: none."),
            note("late_start", "Late."),
            note("no_stacks", "Device 1: none."),
            note("no_stacks", "Device 1: none."),
        ];
        let merged = merged(notes.iter());
        let details: Vec<&str> = merged.iter().map(|(_, detail)| detail.as_str()).collect();
        assert_eq!(details, ["Device 0: none. Device 1: none.", "Late."]);
    }
}
