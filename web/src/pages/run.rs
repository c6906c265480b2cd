//! The page of one run: its head, the controls, the timeline, and what is selected.

mod failures;
mod recording;

use crate::client;
use crate::components::badge::{BadgeView, badge};
use crate::components::copy_for_pr::CopyForPr;
use crate::components::keys::{is_shortcut, on_key};
use crate::components::problem_note::ProblemNote;
use crate::components::share::ShareButton;
use crate::format::{self, count};
use crate::opened_link::OpenedLink;
use crate::questions::answer::{Answer, ask};
use crate::questions::{Asker, Beside, Questions, TabBar};
use crate::timeline::drive::Source;
use crate::timeline::panel::SelectionPanel;
use crate::timeline::{Handle, Timeline, ticks};
use crate::url_state::{Query, UrlState, use_view_state};
use api::alive::AllocationFilter;
use api::contents::Contents;
use api::ids::RunId;
use api::problem::{Problem, ProblemCode};
use api::routes;
use api::runs::{DeviceSummary, RunDetail};
use api::shares::ShareTarget;
use api::view_state::{Axis, Picture, Selection, Tab, ViewState};
use failures::{Failures, FailuresElsewhere};
use leptos::prelude::*;
use leptos_router::components::A;
use leptos_router::hooks::use_params_map;
use recording::{Cut, RecordingStrip};
use std::sync::Arc;
use trace::steps::levels;
use trace::tiles::GroupBy;
use trace::trace::{QualityNote, Series, StepSource};

/// The run, on its way, there, or refused.
#[derive(Clone)]
enum Loaded {
    Loading,
    There(RunId, Arc<RunDetail>),
    Failed(Problem),
}

/// The page of the run that the address names.
#[component]
pub fn RunPage() -> impl IntoView {
    let params = use_params_map();
    let id = Memo::new(move |_| params.with(|p| p.get("id").unwrap_or_default()));
    view! { <RunOf id=id/> }
}

/// The page of one run; its view is the query of whatever address it is shown under.
#[component]
pub fn RunOf(
    /// Its id.
    #[prop(into)]
    id: Signal<String>,
) -> impl IntoView {
    let loaded = RwSignal::new(Loaded::Loading);
    let attempt = RwSignal::new(0_u32);
    Effect::new(move |_| {
        attempt.track();
        loaded.set(Loaded::Loading);
        load(&id.get(), loaded);
    });
    let retry = Callback::new(move |()| attempt.update(|n| *n += 1));
    move || match loaded.get() {
        Loaded::Loading => view! { <RunSkeleton/> }.into_any(),
        Loaded::Failed(problem) => view! { <NoRun problem=problem retry=retry/> }.into_any(),
        Loaded::There(id, run) => view! { <RunView id=id run=run/> }.into_any(),
    }
}

fn load(id: &str, loaded: RwSignal<Loaded>) {
    let id = match id.parse::<RunId>() {
        Ok(id) => id,
        Err(error) => return loaded.set(Loaded::Failed(no_such_run(&error.to_string()))),
    };
    leptos::task::spawn_local_scoped_with_cancellation(async move {
        let answer = client::get::<RunDetail>(&routes::run(&id)).await;
        let _ = loaded.try_set(match answer {
            Ok(run) => Loaded::There(id, Arc::new(run)),
            Err(problem) => Loaded::Failed(problem),
        });
    });
}

/// In the place of a run that could not be had. Trying again helps unless there is none.
#[component]
fn NoRun(problem: Problem, retry: Callback<()>) -> impl IntoView {
    let note = match problem.code {
        ProblemCode::NotFound => view! { <ProblemNote problem=problem/> }.into_any(),
        _ => view! { <ProblemNote problem=problem retry=retry/> }.into_any(),
    };
    view! {
        <div class="run-page">
            <h1 class="visually-hidden">"Run"</h1>
            {note}
            <p class="run-nothing"><A href=routes::RUNS_PAGE>"All runs"</A></p>
        </div>
    }
}

fn no_such_run(detail: &str) -> Problem {
    Problem {
        code: ProblemCode::NotFound,
        status: 404,
        title: "No such run".to_owned(),
        detail: format!("The address names no run: {detail}."),
        offset: None,
    }
}

#[component]
fn RunSkeleton() -> impl IntoView {
    view! {
        <div class="run-page" aria-busy="true">
            <p class="visually-hidden">"Loading the run"</p>
            <div class="skeleton-head run-skeleton-title"></div>
            <div class="skeleton-row run-skeleton-picture"></div>
        </div>
    }
}

/// The device that a view is about: the one it names, else the one with most events.
fn chosen_device(run: &RunDetail, wanted: Option<u32>) -> Option<DeviceSummary> {
    let devices = &run.summary.devices;
    let named = wanted.and_then(|device| devices.iter().find(|d| d.device == device));
    named
        .or_else(|| devices.iter().rev().max_by_key(|d| d.events))
        .cloned()
}

#[component]
fn RunView(id: RunId, run: Arc<RunDetail>) -> impl IntoView {
    let view = use_view_state();
    let wanted = Memo::new(move |_| view.state().with(|state| state.device));
    let found = {
        let run = Arc::clone(&run);
        Memo::new(move |_| chosen_device(&run, wanted.get()))
    };
    let (contents, cut) = recorded(&id, found, view);
    let device = Memo::new(move |_| found.get().map(|found| with_cut(found, &cut.get())));
    let asked = Arc::clone(&run);
    let timeline = move || match (device.get(), cut.get()) {
        (Some(device), _) if device.events == 0 => view! { <NoDevice/> }.into_any(),
        (None, _) => view! { <NoDevice/> }.into_any(),
        (_, Cut::Waiting) => {
            view! { <div class="skeleton-row run-skeleton-picture"></div> }.into_any()
        }
        (Some(device), cut) => {
            let run = Arc::clone(&asked);
            let source = Source {
                run: id.clone(),
                device: device.device,
                steps: cut.key(),
            };
            view! { <DeviceView run=run source=source device=device contents=contents view=view/> }
                .into_any()
        }
    };
    let asking = move || view.state().with(|state| state.tab != Tab::Timeline);
    let title = format!("{} · Tidemark", run.summary.name);
    Effect::new(move |_| document().set_title(&title));
    let notes = move || {
        let notes = view.notes().get();
        let texts = notes
            .into_iter()
            .map(|n| view! { <p>{n.to_string()}</p> })
            .collect_view();
        view! { <div class="run-link-notes" role="status">{texts}</div> }
    };
    view! {
        <div class="run-page" class:asking=asking>
            <RunHead run=Arc::clone(&run) device=device view=view/>
            {notes}
            <FailuresElsewhere run=run device=device view=view/>
            <RecordingStrip contents=contents cut=cut view=view/>
            {timeline}
        </div>
    }
}

/// What the recording of a device holds, once it is known, and what is taken for its steps.
fn recorded(
    id: &RunId,
    device: Memo<Option<DeviceSummary>>,
    view: UrlState<ViewState>,
) -> (Signal<Option<Arc<Contents>>>, Memo<Cut>) {
    let id = id.clone();
    let ordinal = Memo::new(move |_| device.with(|d| d.as_ref().map(|d| d.device)));
    let answer = ask::<Contents>(move || Some(routes::contents(&id, ordinal.get()?)));
    let contents = Signal::derive(move || answer.with(Answer::shown));
    let cut = Memo::new(move |_| {
        let levels = answer.with(|answer| match answer {
            Answer::There(contents) => Some(contents.levels.clone()),
            // The run is shown all the same.
            Answer::Failed(_) => Some(Vec::new()),
            Answer::Unasked | Answer::Waiting(_) => None,
        });
        view.state()
            .with(|state| Cut::of(state.steps.as_deref(), levels.as_deref()))
    });
    (contents, cut)
}

/// The device with the steps that are taken.
fn with_cut(mut device: DeviceSummary, cut: &Cut) -> DeviceSummary {
    if let Cut::Other(level) = cut {
        device.steps = level.count;
        device.step_source = match level.key.as_str() {
            levels::ANNOTATED | levels::OPTIMIZER => StepSource::Annotations,
            _ => StepSource::Inferred,
        };
    }
    device
}

#[component]
fn NoDevice() -> impl IntoView {
    view! {
        <div class="run-empty">
            <h2>"No events were recorded"</h2>
            <p class="muted">
                "The snapshot holds memory but no history. Start recording with "
                <code>"torch.cuda.memory._record_memory_history()"</code>
                " before the part of the program that matters."
            </p>
        </div>
    }
}

#[component]
fn RunHead(
    run: Arc<RunDetail>,
    device: Memo<Option<DeviceSummary>>,
    view: UrlState<ViewState>,
) -> impl IntoView {
    let badges = run.quality_notes.iter().map(note_badge).collect_view();
    let facts = move || device.get().map(|device| device_facts(&device));
    let torch = run
        .torch_guess
        .clone()
        .map(|torch| format!("torch {torch}"));
    let file = format::bytes(run.summary.file_bytes);
    let OpenedLink(link) = expect_context();
    // A link opens this run: the list is not for its reader, and handing it on is copying it.
    let owner = move || link.with(Option::is_none);
    let exported = Arc::clone(&run);
    let crumb = move || owner().then(|| view! { <RunCrumb/> });
    let actions =
        move || owner().then(|| view! { <RunActions run=Arc::clone(&exported) view=view/> });
    view! {
        <header class="run-head">
            <div class="run-title">
                {crumb}
                <h1 title=run.summary.content_hash.clone()>{run.summary.name.clone()}</h1>
                <span class="muted run-file">{file} {torch.map(|t| format!(" · {t}"))}</span>
                <div class="run-badges">{badges}</div>
            </div>
            <div class="run-facts">
                <DevicePicker run=Arc::clone(&run) device=device view=view/>
                {facts}
                {actions}
            </div>
        </header>
    }
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

/// What takes this view elsewhere.
#[component]
fn RunActions(run: Arc<RunDetail>, view: UrlState<ViewState>) -> impl IntoView {
    let query = Signal::derive(move || view.state().with(Query::write));
    let id = run.summary.id.clone();
    let target = Signal::stored(ShareTarget::Run { run: id });
    view! {
        <div class="view-actions">
            <ExportMenu run=run/>
            <CopyForPr target=target query=query/>
            <ShareButton target=target query=query/>
        </div>
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

/// A finding about the data: a badge that says in full what it means.
fn note_badge(note: &QualityNote) -> impl IntoView + use<> {
    let badge = badge(&note.code);
    view! {
        <details class="note">
            <summary><BadgeView badge=badge/></summary>
            <p>{note.detail.clone()}</p>
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
    if run.summary.devices.len() < 2 {
        return ().into_any();
    }
    let options = run.summary.devices.iter().map(|d| {
        let ordinal = d.device;
        let text = format!(
            "device {ordinal} · {}",
            d.series[Series::Allocated as usize].peak
        );
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

/// Looks at another device: it has other events and other blocks.
fn choose_device(state: &mut ViewState, device: u32) {
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

#[component]
fn DeviceView(
    run: Arc<RunDetail>,
    source: Source,
    device: DeviceSummary,
    contents: Signal<Option<Arc<Contents>>>,
    view: UrlState<ViewState>,
) -> impl IntoView {
    let handle = Handle::new(source.clone(), &device, contents, view);
    let asker = Asker::new(run, source, &device, view);
    let beside = move |block| view! { <Beside asker=asker block=block/> }.into_any();
    // The first problem only: tiles that keep failing need not keep talking.
    let problem = move || {
        let problem = handle.outputs.problem.get()?;
        Some(view! {
            <p class="run-tile-problem" role="status">
                {format!("Part of the picture is missing: {}", problem.detail)}
            </p>
        })
    };
    view! {
        <Failures handle=handle view=view/>
        <TabBar view=view/>
        <Controls handle=handle view=view/>
        <div class="run-body">
            <div class="run-picture">
                <Timeline handle=handle device=device/>
                {problem}
                <Questions asker=asker/>
            </div>
            <SelectionPanel handle=handle view=view.state() below_block=Callback::new(beside)/>
        </div>
    }
}

/// What a band stands for, in the words of the menu.
const fn group_name(group: GroupBy) -> &'static str {
    match group {
        GroupBy::Stack => "stack",
        GroupBy::File => "file",
        GroupBy::Stream => "stream",
        GroupBy::Pool => "pool",
        GroupBy::Category => "category (inferred)",
        GroupBy::None => "nothing",
    }
}

#[component]
fn Controls(handle: Handle, view: UrlState<ViewState>) -> impl IntoView {
    let state = view.state();
    on_key(move |event| {
        if !is_shortcut(event) {
            return;
        }
        match event.key().as_str() {
            "m" => view.update(|state| state.picture = other_picture(state.picture)),
            "g" => view.update(|state| regroup(state, next_group(state.group_by))),
            "t" => view.update(|state| state.axis = other_axis(state.axis)),
            _ => {}
        }
    });
    let groups = GroupBy::ALL.map(|group| {
        let selected = move || state.with(|s| s.group_by == group);
        view! { <option value=group.name() selected=selected>{group_name(group)}</option> }
    });
    let choose_group = move |event| {
        if let Ok(group) = event_target_value(&event).parse() {
            view.update(|state| regroup(state, group));
        }
    };
    let lines = move || state.with(|s| s.picture == Picture::Lines);
    view! {
        <div class="controls" role="toolbar" aria-label="View">
            <Segmented
                label="Picture"
                options=[("Mountain", Picture::Mountain), ("Lines", Picture::Lines)]
                chosen=Signal::derive(move || state.with(|s| s.picture))
                choose=Callback::new(move |picture| view.update(|s| s.picture = picture))
            />
            <label class="control">
                "Group by"
                <select class="input" on:change=choose_group disabled=lines>{groups}</select>
            </label>
            <Segmented
                label="Axis"
                options=[("Events", Axis::Event), ("Time", Axis::Time)]
                chosen=Signal::derive(move || state.with(|s| s.axis))
                choose=Callback::new(move |axis| view.update(|s| s.axis = axis))
            />
            <ZoomButtons handle=handle/>
        </div>
    }
}

#[component]
fn ZoomButtons(handle: Handle) -> impl IntoView {
    use crate::timeline::model::Motion;
    use crate::timeline::viewport::Action;
    let act = move |action: Action| {
        handle.with(|driver| driver.act(action, Motion::Eased));
    };
    let zoom = move |factor: f64| act(Action::ZoomX { x: 0.5, factor });
    view! {
        <div class="control zoom-buttons">
            <button
                class="button"
                title="Zoom out (S)"
                aria-label="Zoom out"
                on:click=move |_| zoom(0.5)
            >
                "−"
            </button>
            <button
                class="button"
                title="Zoom in (W)"
                aria-label="Zoom in"
                on:click=move |_| zoom(2.0)
            >
                "+"
            </button>
            <button
                class="button"
                title="Zoom vertically to what changes in view (V)"
                on:click=move |_| { handle.with(|driver| driver.fit_levels()); }
            >
                "Fit height"
            </button>
            <button class="button" title="Show everything (F)" on:click=move |_| act(Action::Fit)>
                "Fit all"
            </button>
        </div>
    }
}

const fn other_picture(picture: Picture) -> Picture {
    match picture {
        Picture::Mountain => Picture::Lines,
        Picture::Lines => Picture::Mountain,
    }
}

const fn other_axis(axis: Axis) -> Axis {
    match axis {
        Axis::Event => Axis::Time,
        Axis::Time => Axis::Event,
    }
}

fn next_group(group: GroupBy) -> GroupBy {
    let at = GroupBy::ALL.iter().position(|&g| g == group).unwrap_or(0);
    GroupBy::ALL[(at + 1) % GroupBy::ALL.len()]
}

/// Groups by something else. A group's key means another thing then, so it is let go.
fn regroup(state: &mut ViewState, group_by: GroupBy) {
    state.group_by = group_by;
    if matches!(state.selection, Some(Selection::Group(_))) {
        state.selection = None;
    }
}

/// Two buttons of which one is pressed.
#[component]
fn Segmented<T>(
    label: &'static str,
    options: [(&'static str, T); 2],
    chosen: Signal<T>,
    choose: Callback<T>,
) -> impl IntoView
where
    T: Copy + PartialEq + Send + Sync + 'static,
{
    let buttons = options.map(|(name, value)| {
        let pressed = move || chosen.get() == value;
        view! {
            <button
                class="segment"
                class:pressed=pressed
                aria-pressed=move || pressed().to_string()
                on:click=move |_| choose.run(value)
            >
                {name}
            </button>
        }
    });
    view! { <div class="control segmented" role="group" aria-label=label>{buttons}</div> }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grouping_goes_round() {
        let mut group = GroupBy::Stack;
        for _ in GroupBy::ALL {
            group = next_group(group);
        }
        assert_eq!(group, GroupBy::Stack);
    }
}
