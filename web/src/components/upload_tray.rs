//! The uploads of this page, in the corner of every page.

use crate::components::icon::{Icon, IconView};
use crate::components::prose::Prose;
use crate::components::toasts::Toasts;
use crate::context::expect_context;
use crate::format;
use crate::upload::driver::Uploads;
use api::ids::RunId;
use api::routes;
use leptos::prelude::*;
use leptos_router::components::A;
use leptos_router::hooks::{use_location, use_navigate};
use presentation::components::problem_note::place;
use presentation::upload::item::{self, Item, LocalId, LocalJob, State};
use presentation::upload::queue::{self, Line};

/// The tray; nothing while there are no uploads.
#[component]
pub fn UploadTray() -> impl IntoView {
    let uploads: Uploads = expect_context();
    warn_before_leaving(uploads);
    open_when_done(uploads);
    let path = use_location().pathname;
    Effect::new(move |_| {
        let opened = path.with(|path| path.strip_prefix("/runs/").map(str::parse::<RunId>));
        if let Some(Ok(run)) = opened {
            uploads.seen(&run);
        }
    });
    let items = uploads.items();
    let headline = Memo::new(move |_| items.with(|items| queue::headline(items)));
    let over = Memo::new(move |_| items.with(|items| !queue::is_busy(items)));
    let folded = folded(uploads, path);
    let ids = Memo::new(move |_| items.with(|items| queue::display_order(items)));
    let runs = Memo::new(move |_| items.with(|items| queue::comparable(items)));
    // Whoever chose two files mostly wants to know what differs.
    let compare = move || {
        let runs = runs.get();
        let page = routes::compare_page(&runs);
        (!runs.is_empty()).then(|| {
            view! {
                <A href=page attr:class="button tray-compare" on:click=move |_| uploads.clear()>
                    {if runs.len() == 2 { "Compare the two" } else { "Compare them" }}
                </A>
            }
        })
    };
    let tray = move || {
        view! {
            <section class="tray" class:folded=folded aria-label="Files">
                <header class="tray-head">
                    <div role="status"><h2>{headline}</h2></div>
                    {compare}
                    {fold_button(folded)}
                    <Show when=move || over.get()>
                        <button
                            class="icon-button"
                            aria-label="Close the list of files"
                            on:click=move |_| uploads.clear()
                        >
                            <IconView icon=Icon::Close/>
                        </button>
                    </Show>
                </header>
                <ul class="tray-items">
                    <For
                        each=move || ids.get()
                        key=|line| *line
                        children=move |line| match line {
                            Line::Job(job) => job_row(uploads, job),
                            Line::File(id) => row(uploads, id),
                        }
                    />
                </ul>
            </section>
        }
        .into_any()
    };
    view! { <Show when=move || items.with(|items| !items.is_empty())>{tray}</Show> }
}

/// Whether only the head is shown. Whoever goes on to another page reads there: the list does not
/// lie on it. More files unfold it again.
fn folded(uploads: Uploads, path: Memo<String>) -> RwSignal<bool> {
    let folded = RwSignal::new(false);
    let newest = Memo::new(move |_| {
        let ids = |items: &Vec<Item>| items.iter().map(|item| item.id).max();
        uploads.items().with(ids)
    });
    Effect::new(move |before: Option<(Option<LocalId>, String)>| {
        let now = (newest.get(), path.get());
        if let Some((known, page)) = &before {
            let next = queue::folds(folded.get_untracked(), (*known, now.0), *page != now.1);
            folded.set(next);
        }
        now
    });
    folded
}

fn fold_button(folded: RwSignal<bool>) -> impl IntoView {
    let label = move || match folded.get() {
        true => "Show the list of files",
        false => "Show only the head of the list of files",
    };
    view! {
        <button
            class="icon-button tray-fold"
            aria-expanded=move || (!folded.get()).to_string()
            aria-label=label
            title=move || if folded.get() { "Show" } else { "Fold" }
            on:click=move |_| folded.update(|folded| *folded = !*folded)
        >
            <IconView icon=Icon::Forward/>
        </button>
    }
}

/// The ranks of a job, as one row.
fn job_row(uploads: Uploads, id: LocalJob) -> AnyView {
    let items = uploads.items();
    let job = Memo::new(move |_| uploads.jobs().get().into_iter().find(|job| job.id == id));
    let progress = Memo::new(move |_| items.with(|items| queue::progress_of(items, id)));
    let name = job.get_untracked().map(|job| job.name).unwrap_or_default();
    let status = move || {
        let progress = progress.get()?;
        let text = format!("{} of {} ranks are there", progress.done, progress.ranks);
        Some(view! { <p class="tray-status">{text}</p> })
    };
    let status = status.into_any();
    let label = format!("Cancel {name}");
    let controls = move || {
        let (progress, shown) = (progress.get()?, job.get()?.shown);
        Some(match (progress.is_over, shown) {
            (false, _) => view! {
                <button
                    class="icon-button"
                    aria-label=label.clone()
                    on:click=move |_| uploads.cancel_job(id)
                >
                    <IconView icon=Icon::Close/>
                </button>
            }
            .into_any(),
            (true, Some(shown)) => view! { <A href=routes::job_page(&shown)>"Open"</A> }.into_any(),
            (true, None) => ().into_any(),
        })
    };
    let controls = controls.into_any();
    let percent = Memo::new(move |_| progress.get().map(|progress| progress.percent));
    let bar = bar(name.clone(), percent.into(), Signal::stored(false));
    line(
        name,
        None,
        Signal::stored("running"),
        (controls, bar, status),
    )
}

/// A line of the tray.
fn line(
    name: String,
    title: Option<String>,
    state: Signal<&'static str>,
    (controls, bar, status): (AnyView, AnyView, AnyView),
) -> AnyView {
    view! {
        <li class="tray-item" data-state=state>
            <div class="tray-line">
                <span class="tray-name" title=title>{name}</span>
                {controls}
            </div>
            {bar}
            {status}
        </li>
    }
    .into_any()
}

/// One upload.
fn row(uploads: Uploads, id: LocalId) -> AnyView {
    let item = Memo::new(move |_| uploads.item(id));
    let name = item
        .get_untracked()
        .map(|item| item.name)
        .unwrap_or_default();
    let size = item
        .get_untracked()
        .map(|item| format::exact_bytes(item.size));
    let status = move || item.get().map(|item| item.status());
    let kind = move || item.get().map(|item| kind(&item.state)).unwrap_or_default();
    let controls = move || item.get().map(|item| controls(uploads, &item));
    let problem = move || {
        let item = item.get()?;
        let why = item.why()?;
        let place = match &item.state {
            State::Failed(problem) => place(problem),
            _ => None,
        };
        Some(view! {
            <p class="tray-problem" role="alert"><Prose text=why/> " " {place}</p>
        })
    };
    let status = view! {
        <p class="tray-status">{status}</p>
        {problem}
    };
    let percent = Memo::new(move |_| item.get().and_then(|item| item.percent()));
    let is_unknown = Memo::new(move |_| {
        let running = item.with(|item| {
            let state = item.as_ref().map(|item| &item.state);
            state.is_some_and(|state| matches!(state, State::Running(_) | State::Unpacking))
        });
        running && percent.get().is_none()
    });
    let bar = bar(name.clone(), percent.into(), is_unknown.into());
    let parts = (controls.into_any(), bar, status.into_any());
    line(name, size, Signal::derive(kind), parts)
}

/// The progress. If there is no number, the bar moves to show that something is being done.
fn bar(name: String, percent: Signal<Option<u8>>, is_unknown: Signal<bool>) -> AnyView {
    let width = move || {
        percent
            .get()
            .map_or("100%".to_owned(), |percent| format!("{percent}%"))
    };
    view! {
        <div
            class="bar"
            class:unknown=is_unknown
            role="progressbar"
            aria-label=name
            aria-valuemin="0"
            aria-valuemax="100"
            aria-valuenow=move || percent.get().map(|percent| percent.to_string())
        >
            <div class="bar-fill" style:width=width></div>
        </div>
    }
    .into_any()
}

fn kind(state: &State) -> &'static str {
    match state {
        State::Waiting => "waiting",
        State::Running(_) | State::Unpacking => "running",
        State::Done(..) => "done",
        State::Failed(_) => "failed",
        State::Cancelled => "cancelled",
    }
}

/// The buttons that are possible now.
fn controls(uploads: Uploads, item: &Item) -> AnyView {
    let id = item.id;
    match &item.state {
        State::Waiting | State::Unpacking | State::Running(_) => {
            let label = format!("Cancel {}", item.name);
            view! {
                <button class="icon-button" aria-label=label on:click=move |_| uploads.cancel(id)>
                    <IconView icon=Icon::Close/>
                </button>
            }
            .into_any()
        }
        State::Failed(_) | State::Cancelled if item.may_be_retried() => view! {
            <button class="link-button" on:click=move |_| uploads.retry(id)>"Retry"</button>
        }
        .into_any(),
        State::Failed(_) | State::Cancelled => ().into_any(),
        State::Done(run, _) => view! { <A href=routes::run_page(run)>"Open"</A> }.into_any(),
    }
}

/// Opens the run of a file that was uploaded alone, if the user stayed in the list until it was
/// done: whoever reads another page goes on reading. The list of uploads leads to the run.
fn open_when_done(uploads: Uploads) {
    let path = use_location().pathname;
    let navigate = use_navigate();
    let toasts: Toasts = expect_context();
    let waited_on = StoredValue::new(None::<(LocalId, String)>);
    Effect::new(move |_| {
        let only = uploads.items().with(|items| match items.as_slice() {
            [only] if only.in_job.is_none() => {
                let known = item::already_here(&only.name, &only.state);
                Some((only.id, item::done_run(&only.state).map(|run| (run, known))))
            }
            _ => None,
        });
        match (only, waited_on.get_value()) {
            (None, _) => waited_on.set_value(None),
            (Some((id, Some((run, known)))), Some((waited, page))) if id == waited => {
                waited_on.set_value(None);
                if page == routes::RUNS_PAGE && path.with_untracked(|path| *path == page) {
                    uploads.clear();
                    if let Some(known) = known {
                        toasts.show(known, None);
                    }
                    navigate(&routes::run_page(&run), Default::default());
                }
            }
            (Some((_, Some(_))), _) => {}
            (Some((id, None)), Some((waited, _))) if id == waited => {}
            (Some((id, None)), _) => waited_on.set_value(Some((id, path.get_untracked()))),
        }
    });
}

fn warn_before_leaving(uploads: Uploads) {
    let handle = window_event_listener(leptos::ev::beforeunload, move |event| {
        if uploads
            .items()
            .with_untracked(|items| queue::would_be_lost(items))
        {
            event.prevent_default();
            // Older browsers look at this instead.
            event.set_return_value("Files are under way.");
        }
    });
    on_cleanup(move || handle.remove());
}
