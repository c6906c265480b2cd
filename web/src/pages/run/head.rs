//! The head of a run's page: name, facts, and actions for its view.

use super::failures::MarksOf;
use crate::components::badge::BadgeView;
use crate::components::copy_as_markdown::CopyAsMarkdown;
use crate::components::copy_for_pr::CopyForPr;
use crate::components::share::ShareButton;
use crate::context::expect_context;
use crate::opened_link::OpenedLink;
use crate::pages::runs_store::RunsStore;
use crate::project;
use crate::questions::reveal;
use crate::url_state::UrlState;
use api::quality::peak_in_short;
use api::routes;
use api::runs::{DeviceSummary, RunDetail, RunSummary};
use api::shares::ShareTarget;
use api::timeline::Marks;
use api::view_state::{Tab, ViewState};
use leptos::prelude::*;
use leptos_router::components::A;
use presentation::components::badge::Badge;
use presentation::components::labels::label_line;
use presentation::pages::run::head::{choose_device, device_facts, judged, merged};
use presentation::query::Query;
use std::sync::Arc;
use trace::trace::Series;

/// Name, findings, facts about the device, and actions for the view.
#[component]
pub fn RunHead(
    run: Arc<RunDetail>,
    device: Memo<Option<DeviceSummary>>,
    marks: MarksOf,
    view: UrlState<ViewState>,
) -> impl IntoView {
    let noted = Arc::clone(&run);
    let of_pinned =
        Memo::new(move |_| device.with(|d| d.as_ref().is_some_and(|d| d.device.is_pinned())));
    let badges = move || {
        let notes = noted.quality_notes.iter();
        // What is found about pinned memory would repeat what is found about the devices.
        let notes = notes.filter(|note| of_pinned.get() || !note.is_of_pinned());
        merged(notes).into_iter().map(note_badge).collect_view()
    };
    let judged = verdict(Arc::clone(&run), device, view);
    let found = Arc::clone(&run);
    let facts = move || {
        let device = device.get()?;
        let marks = marks.get().filter(|(of, _)| *of == device.device);
        let marks = marks.and_then(|(_, marks)| marks.ok());
        let codes = found.codes_of(device.device);
        Some(device_view(&device, &codes, marks.as_deref()))
    };
    let torch = run.torch_guess.as_deref();
    let writer = run.summary.source.written_by(&run.settings, torch);
    let writer = writer.map(|writer| format!(" · {writer}"));
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
    let name = current_name(&run);
    let hash = run.summary.content_hash.clone();
    let title = move || name.with(|name| format!("{name}\n{hash}"));
    let summary = run.summary.clone();
    let labelled = move || owner().then(|| labels(&summary));
    view! {
        <header class="run-head">
            <div class="run-title">
                {crumb}
                <h1 title=title>{name}</h1>
                <span class="muted run-file">{file} {writer}</span>
                {labelled}
                <DevicePicker run=Arc::clone(&run) device=device view=view/>
                <div class="run-badges">{judged} {badges}</div>
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

/// The name of the run, also when somebody renames it while its page is open. Who came by a link
/// sees the name that the link shows.
pub fn current_name(run: &RunDetail) -> Memo<String> {
    let (store, OpenedLink(link)): (RunsStore, OpenedLink) = (expect_context(), expect_context());
    let (id, loaded) = (run.summary.id.clone(), run.summary.name.clone());
    Memo::new(move |_| {
        let listed = link.with(Option::is_none).then(|| store.run(&id)).flatten();
        listed.map_or_else(|| loaded.clone(), |run| run.name)
    })
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

/// Whether it leaks; a click tells why.
fn verdict(
    run: Arc<RunDetail>,
    device: Memo<Option<DeviceSummary>>,
    view: UrlState<ViewState>,
) -> impl IntoView {
    let badge = Memo::new(move |_| {
        let device = device.with(|device| device.as_ref().map(|d| d.device))?;
        view.state()
            .with(|state| judged(&run.summary, device, state.steps.as_deref()))
    });
    let show = move |_| {
        view.update(|state| state.tab = Tab::Leaks);
        reveal();
    };
    move || {
        let badge = badge.get()?;
        Some(view! {
            <button class="note" on:click=show>
                <BadgeView badge=badge/>
            </button>
        })
    }
}

/// What the team says of the run, and where that is changed.
fn labels(run: &RunSummary) -> impl IntoView + use<> {
    let line = Some(label_line(run)).filter(|line| !line.is_empty());
    let line = line.unwrap_or_else(|| "Labels".to_owned());
    let page = project::page(&routes::labels_page(&run.id));
    view! { <a href=page rel="external">{line}</a> }
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
    // A run that was uploaded as JSON or HTML has no pickle.
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

/// A finding about the data: a badge with its full meaning.
fn note_badge((badge, detail): (Badge, String)) -> impl IntoView {
    view! {
        <details class="note">
            <summary><BadgeView badge=badge/></summary>
            <p>{detail}</p>
        </details>
    }
}

fn device_view(
    device: &DeviceSummary,
    codes: &[String],
    marks: Option<&Marks>,
) -> impl IntoView + use<> {
    let facts = device_facts(device, codes, marks)
        .into_iter()
        .map(|(name, value)| {
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
        let name = ordinal.name();
        let peak = d.series[Series::Allocated as usize].peak;
        let text = format!("{name} · {}", peak_in_short(peak, &run.codes_of(ordinal)));
        let selected = move || device.with(|d| d.as_ref().is_some_and(|d| d.device == ordinal));
        view! { <option value=ordinal.to_string() prop:selected=selected>{text}</option> }
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
