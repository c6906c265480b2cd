//! The page of one run: its head, the controls, the timeline, and what is selected.

mod controls;
mod failures;
mod head;
mod news;
mod recording;
mod row;

use crate::client;
use crate::components::permits::may_manage;
use crate::components::problem_note::ProblemPage;
use crate::components::prose::Prose;
use crate::components::toasts::Toasts;
use crate::context::expect_context;
use crate::opened_link::OpenedLink;
use crate::paced::Paced;
use crate::pages::runs_store::RunsStore;
use crate::questions::answer::{Answer, ask};
use crate::questions::{Asker, Beside, Questions, TabBar};
use crate::timeline::drive::Source;
use crate::timeline::panel::SelectionPanel;
use crate::timeline::{Handle, Timeline};
use crate::url_state::{UrlState, use_view_state};
use api::contents::Contents;
use api::ids::RunId;
use api::problem::{Problem, ProblemCode};
use api::routes;
use api::runs::{DeviceSummary, RunDetail, RunSummary};
use api::view_state::{Tab, ViewState};
use controls::Controls;
use failures::{Failures, FailuresElsewhere, LeaksElsewhere, MarksOf};
use head::{RunHead, current_name};
use leptos::prelude::*;
use leptos_router::hooks::use_params_map;
use news::OpenRun;
use presentation::components::problem_note::{behind_colon, sentence};
use presentation::pace::Haste;
use presentation::pages::run::controls::CategoriesFrom;
use presentation::pages::run::device::{chosen_device, missing_device, with_cut};
use presentation::pages::run::recording::{Cut, beginning};
use presentation::questions::band_colours::Orders;
use presentation::questions::step_numbers::StepNumbers;
use recording::RecordingStrip;
use row::RowFaults;
use std::rc::Rc;
use std::sync::Arc;
use trace::trace::Series;

/// The run: being fetched, there, or refused.
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

/// The page of one run. Its view is the query of the address, whatever that address is.
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
    // It may be opened, sent or restored while the page says that it is not there, and be deleted
    // while it is shown.
    let (store, link): (RunsStore, OpenedLink) = (expect_context(), expect_context());
    Effect::new(move |_| {
        let is_listed = id.get().parse().is_ok_and(|id| store.run(&id).is_some());
        let may_be_gone = store.is_whole() && !link.is_all_here();
        match loaded.get_untracked() {
            Loaded::Failed(_) if is_listed => attempt.update(|n| *n += 1),
            Loaded::There(id, _) if !is_listed && may_be_gone => leave_if_gone(id, loaded),
            Loaded::Failed(_) | Loaded::There(..) | Loaded::Loading => {}
        }
    });
    let (paced, open) = (Paced::new(), OpenRun::new(id, loaded, attempt));
    Effect::new(move |before: Option<()>| {
        store.track_news();
        if before.is_some() && !link.is_all_here() {
            paced.ask(Haste::AtAPace, Rc::new(open));
        }
    });
    let retry = Callback::new(move |()| attempt.update(|n| *n += 1));
    move || match loaded.get() {
        Loaded::Loading => view! { <RunSkeleton/> }.into_any(),
        Loaded::Failed(problem) => {
            view! { <NoRun id=id.get_untracked() problem=problem retry=retry/> }.into_any()
        }
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

/// Says that a run is not there any more, if the server says so: the list of runs may leave it out
/// for other reasons.
fn leave_if_gone(id: RunId, loaded: RwSignal<Loaded>) {
    leptos::task::spawn_local_scoped_with_cancellation(async move {
        let answer = client::get::<serde::de::IgnoredAny>(&routes::run(&id)).await;
        let gone = answer.err();
        if let Some(problem) = gone.filter(|problem| problem.code == ProblemCode::NotFound) {
            let _ = loaded.try_set(Loaded::Failed(problem));
        }
    });
}

/// Shown instead of a run that could not be loaded. If it was deleted, whoever may can restore it.
#[component]
fn NoRun(id: String, problem: Problem, retry: Callback<()>) -> impl IntoView {
    let (store, toasts): (RunsStore, Toasts) = (expect_context(), expect_context());
    let link: OpenedLink = expect_context();
    let deleted = RwSignal::new(None::<RunSummary>);
    if problem.code == ProblemCode::NotFound && may_manage() && !link.is_all_here() {
        leptos::task::spawn_local_scoped_with_cancellation(async move {
            let listed = client::list::<RunSummary>(routes::DELETED_RUNS).await;
            let mut listed = listed.unwrap_or_default().into_iter();
            let found = listed.find(|run| run.id.as_str() == id && run.deleted_ms.is_some());
            let _ = deleted.try_set(found);
        });
    }
    let restore = move || {
        let id = deleted.with(|run| run.as_ref().map(|run| run.id.clone()))?;
        let restore = move |_| store.restore(toasts, &id);
        Some(view! {
            <p class="run-nothing">
                <button class="button primary" on:click=restore>"Restore"</button>
            </p>
        })
    };
    view! {
        <div class="run-page">
            <ProblemPage title="Run" problem=problem retry=retry/>
            {restore}
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

#[component]
fn RunView(id: RunId, run: Arc<RunDetail>) -> impl IntoView {
    let view = use_view_state();
    let wanted = Memo::new(move |_| view.state().with(|state| state.device));
    let found = {
        let run = Arc::clone(&run);
        Memo::new(move |_| chosen_device(&run, wanted.get()))
    };
    let Recorded {
        contents,
        awaited,
        cut,
    } = recorded(&id, found, view);
    let marks: MarksOf = RwSignal::new(None);
    let device = Memo::new(move |_| found.get().map(|found| with_cut(found, &cut.get())));
    let asked = Arc::clone(&run);
    let timeline = move || match (device.get(), cut.get()) {
        (Some(device), _) if device.events == 0 => {
            let run = Arc::clone(&asked);
            view! { <StateView run=run device=device view=view/> }.into_any()
        }
        (None, _) => view! { <NoEvents holds="neither memory nor history"/> }.into_any(),
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
            view! {
                <DeviceView
                    run=run
                    source=source
                    device=device
                    contents=contents
                    marks=marks
                    view=view
                />
            }
            .into_any()
        }
    };
    let asking = move || view.state().with(|state| state.tab != Tab::Timeline);
    let name = current_name(&run);
    let beginning = beginning(&run);
    Effect::new(move |_| {
        let title = name.with(|name| format!("{name} · Tidemark"));
        document().set_title(&title);
    });
    view! {
        <div class="run-page" class:asking=asking>
            <RunHead run=Arc::clone(&run) device=device marks=marks view=view/>
            <RowFaults run=Arc::clone(&run)/>
            <LinkNotes found=found view=view/>
            <FailuresElsewhere run=Arc::clone(&run) device=device view=view/>
            <LeaksElsewhere run=run device=device view=view/>
            <RecordingStrip
                contents=contents
                awaited=awaited
                cut=cut
                view=view
                beginning=beginning
            />
            <Failures marks=marks device=found view=view/>
            {timeline}
        </div>
    }
}

/// What of the link is not shown: what was not understood, and a device that is not there.
#[component]
fn LinkNotes(found: Memo<Option<DeviceSummary>>, view: UrlState<ViewState>) -> impl IntoView {
    let elsewhere = Memo::new(move |_| {
        let shown = found.with(|found| found.as_ref().map(|device| device.device));
        missing_device(view.state().with(|state| state.device), shown)
    });
    let texts = move || {
        let notes = view.notes().get().into_iter();
        let notes = notes.map(|note| sentence(&note.to_string()));
        let texts = notes.chain(elsewhere.get());
        texts
            .map(|text| view! { <p><Prose text=text/></p> })
            .collect_view()
    };
    view! { <div class="run-link-notes" role="status">{texts}</div> }
}

/// What is known of the recording of a device.
struct Recorded {
    /// What it holds, once that is known.
    contents: Signal<Option<Arc<Contents>>>,
    /// Whether that will be known.
    awaited: Signal<bool>,
    /// Which loop gives the steps.
    cut: Memo<Cut>,
}

fn recorded(
    id: &RunId,
    device: Memo<Option<DeviceSummary>>,
    view: UrlState<ViewState>,
) -> Recorded {
    let id = id.clone();
    let ordinal = Memo::new(move |_| device.with(|d| d.as_ref().map(|d| d.device)));
    let answer = ask::<Contents>(move || Some(routes::contents(&id, ordinal.get()?)));
    let contents = Signal::derive(move || answer.with(Answer::shown));
    let awaited =
        Signal::derive(move || answer.with(|answer| matches!(answer, Answer::Waiting(None))));
    let cut = Memo::new(move |_| {
        let levels = answer.with(|answer| match answer {
            Answer::There(contents) => Some(contents.levels.clone()),
            // The run is shown anyway.
            Answer::Failed(_) => Some(Vec::new()),
            Answer::Unasked | Answer::Waiting(_) => None,
        });
        view.state()
            .with(|state| Cut::of(state.steps.as_deref(), levels.as_deref()))
    });
    Recorded {
        contents,
        awaited,
        cut,
    }
}

#[component]
fn NoEvents(
    /// What the snapshot holds instead.
    holds: &'static str,
) -> impl IntoView {
    view! {
        <div class="run-empty">
            <h2>"No events were recorded"</h2>
            <p class="muted">
                "The snapshot holds " {holds} ". Start recording with "
                <code>"torch.cuda.memory._record_memory_history()"</code>
                " before the part of the program that matters."
            </p>
        </div>
    }
}

/// A state without events: no picture, but what it holds can be asked.
#[component]
fn StateView(
    run: Arc<RunDetail>,
    device: DeviceSummary,
    view: UrlState<ViewState>,
) -> impl IntoView {
    let source = Source {
        run: run.summary.id.clone(),
        device: device.device,
        steps: None,
    };
    let asker = Asker {
        source: StoredValue::new(source),
        device: StoredValue::new(device),
        run: StoredValue::new(run),
        view,
        pointed: Memo::new(|_| None),
        orders: Memo::new(|_| Orders::default()),
        steps: Memo::new(|_| Some(StepNumbers::default())),
    };
    view! {
        <NoEvents holds="memory but no history"/>
        <TabBar view=view has_events=false/>
        <Questions asker=asker/>
    }
}

/// What gives groups their colours. Known groups stay known: an order is that of the whole
/// recording, not of the window.
fn orders(handle: Handle) -> Memo<Orders> {
    Memo::new(move |known: Option<&Orders>| {
        handle.outputs.settled.track();
        let mut orders = known.cloned().unwrap_or_default();
        handle.with(|driver| {
            driver.ask(|model| {
                for (stack, line, order) in model.stack_orders() {
                    orders.add(stack, &line, order);
                }
            });
        });
        orders
    })
}

#[component]
fn DeviceView(
    run: Arc<RunDetail>,
    source: Source,
    device: DeviceSummary,
    contents: Signal<Option<Arc<Contents>>>,
    marks: MarksOf,
    view: UrlState<ViewState>,
) -> impl IntoView {
    let beside = run
        .summary
        .pinned
        .as_ref()
        .filter(|_| !device.device.is_pinned());
    let pinned = beside.map(|pinned| pinned.series[Series::Allocated as usize].peak);
    let handle = Handle::new(source.clone(), &device, pinned, contents, view);
    // They are shown above, where they stay while other steps are chosen.
    let ordinal = device.device;
    Effect::new(move |_| {
        let lost = move || handle.unmarked.get().map(Err);
        if let Some(known) = handle.marks.get().map(Ok).or_else(lost) {
            marks.set(Some((ordinal, known)));
        }
    });
    let readout = handle.outputs.readout;
    let pointed = Memo::new(move |_| readout.with(|readout| readout.as_ref().map(|r| r.last)));
    let steps = Memo::new(move |_| {
        let marks = handle.marks;
        marks.with(|marks| marks.as_ref().map(|marks| StepNumbers::of(&marks.steps)))
    });
    let codes = run.codes_of(device.device);
    let from = run.summary.source;
    let categories =
        Memo::new(move |_| contents.with(|contents| CategoriesFrom::of(from, contents.as_deref())));
    let asker = Asker {
        source: StoredValue::new(source),
        device: StoredValue::new(device.clone()),
        run: StoredValue::new(run),
        view,
        pointed,
        orders: orders(handle),
        steps,
    };
    let beside = move |block| view! { <Beside asker=asker block=block/> }.into_any();
    // Shows only the first problem: tiles that keep failing should not repeat it.
    let problem = move || {
        let problem = handle.outputs.problem.get();
        let problem = problem.or_else(|| handle.unmarked.get())?;
        let text = [
            "Part of the picture is missing: ",
            &behind_colon(&problem.detail),
        ]
        .concat();
        Some(view! {
            <p class="run-tile-problem" role="status"><Prose text=text/></p>
        })
    };
    view! {
        <TabBar view=view has_events=true/>
        <Controls handle=handle view=view categories=categories/>
        <div class="run-body">
            <div class="run-picture">
                <Timeline handle=handle device=device codes=codes/>
                {problem}
                <Questions asker=asker/>
            </div>
            <SelectionPanel handle=handle view=view below_block=Callback::new(beside)/>
        </div>
    }
}
