//! The page of a job: the differences between its ranks, their curves on one scale, a table of
//! ranks, and each allocation site in all of them.

mod cells;
mod curves;
mod delete;
mod ranks;
mod sites;

use crate::client;
use crate::clock::{self, sleep};
use crate::components::problem_note::ProblemPage;
use crate::context::expect_context;
use crate::format;
use crate::pages::runs_store::{Loaded, RunsStore};
use crate::project;
use crate::url_state::{UrlState, use_url_state};
use api::ids::JobId;
use api::jobs::JobDetail;
use api::problem::{Problem, ProblemCode};
use api::routes;
use curves::Curves;
use delete::{DeleteJob, Going};
use leptos::prelude::*;
use leptos_router::hooks::use_params_map;
use presentation::pace::pause_after;
use presentation::pages::job::job_state::JobState;
use ranks::Ranks;
use sites::Sites;
use std::sync::Arc;
use std::time::Duration;

/// How often to ask again while ranks are still being analysed; less often if answers take long.
const AGAIN: Duration = Duration::from_millis(1200);

type There = Loaded<Arc<JobDetail>>;

/// The page.
#[component]
pub fn JobPage() -> impl IntoView {
    let params = use_params_map();
    let id = Memo::new(move |_| {
        let id = params.with(|params| params.get("id"));
        id.and_then(|id| id.parse::<JobId>().ok())
    });
    let view = use_url_state::<JobState>();
    let loaded: RwSignal<There> = RwSignal::new(Loaded::Loading);
    let attempt = RwSignal::new(0_u32);
    let going = Going::new(id);
    let store: RunsStore = expect_context();
    store.show();
    // Ranks are added and removed while the page is open.
    // Without a server that also changes what names it; the address may be an earlier name.
    let now = Memo::new(move |_| match loaded.get() {
        Loaded::Ready(job) => Some(job.job.id.clone()),
        Loaded::Loading | Loaded::Failed(_) => id.get(),
    });
    let members = Memo::new(move |_| match (now.get(), store.runs().get()) {
        (Some(id), Loaded::Ready(runs)) => {
            let of_it = runs.iter().filter_map(|run| run.job.as_ref());
            of_it.filter(|place| place.job == id).count()
        }
        _ => 0,
    });
    Effect::new(move |_| {
        attempt.track();
        // Not `track`: a memo that nobody reads is never computed, and then never changes.
        members.get();
        let id = id.get();
        if going.is_it(id.as_ref()) {
            return;
        }
        leptos::task::spawn_local_scoped_with_cancellation(async move {
            load(id, loaded).await;
        });
    });
    let retry = Callback::new(move |()| attempt.update(|n| *n += 1));
    let body = move || match loaded.get() {
        Loaded::Loading => view! { <Skeleton/> }.into_any(),
        Loaded::Failed(problem) => {
            view! { <ProblemPage title="Job" problem=problem retry=retry/> }.into_any()
        }
        Loaded::Ready(job) => view! { <JobView job=job view=view going=going/> }.into_any(),
    };
    view! { <div class="job-page">{body}</div> }
}

/// Asks until all ranks are analysed. A hidden tab does not ask.
async fn load(id: Option<JobId>, loaded: RwSignal<There>) {
    let Some(id) = id else {
        return loaded.set(Loaded::Failed(no_job()));
    };
    loop {
        let asked = clock::now();
        let there = match client::get::<JobDetail>(&routes::job(&id)).await {
            Ok(job) => Loaded::Ready(Arc::new(job)),
            Err(problem) => Loaded::Failed(problem),
        };
        let waits = matches!(&there, Loaded::Ready(job) if job.waiting > 0);
        if loaded.try_get_untracked() != Some(there.clone()) {
            let _ = loaded.try_set(there);
        }
        if !waits {
            return;
        }
        sleep(AGAIN.max(pause_after(clock::now().since(asked)))).await;
        while document().hidden() {
            sleep(AGAIN).await;
        }
    }
}

fn no_job() -> Problem {
    Problem {
        code: ProblemCode::NotFound,
        status: 0,
        title: "There is no such job".to_owned(),
        detail: "The address does not name a job.".to_owned(),
        offset: None,
    }
}

#[component]
fn Skeleton() -> impl IntoView {
    view! {
        <div class="job-skeleton" aria-busy="true" role="status">
            <p class="visually-hidden">"Looking at the ranks"</p>
            <div class="skeleton-head"></div>
            <div class="skeleton-row"></div>
        </div>
    }
}

#[component]
fn JobView(job: Arc<JobDetail>, view: UrlState<JobState>, going: Going) -> impl IntoView {
    let summary = job.job.clone();
    document().set_title(&format!("{} · Job · Tidemark", summary.name));
    let count = format::plural(u64::from(summary.n_ranks), "rank");
    let waiting = (job.waiting > 0).then(|| {
        let n = format::plural(u64::from(job.waiting), "rank");
        let text = format!("{n} are still looked at; what stands here is of the others.");
        view! { <p class="job-note" role="status" aria-busy="true">{text}</p> }
    });
    let store: RunsStore = expect_context();
    let unmarked = move || {
        let failed = store.runs().with(|runs| matches!(runs, Loaded::Failed(_)));
        let text = "The list of runs did not come: which recordings are not whole is not known.";
        failed.then(|| view! { <p class="job-note" role="status">{text}</p> })
    };
    let mut sentences = job.sentences.iter().cloned();
    let first = sentences.next();
    let first = first.map(|first| view! { <p class="job-verdict">{first}</p> });
    let others = sentences.map(|other| view! { <p class="muted">{other}</p> });
    let others = others.collect_view();
    let content = match job.ranks.is_empty() {
        true => {
            let text = "No rank is here yet. Drop a folder with a snapshot of each rank here, or \
                        send it to a server: tidemark push DIR.";
            view! { <p class="muted">{text}</p> }.into_any()
        }
        false => view! {
            <Curves job=Arc::clone(&job) view=view/>
            <Ranks job=Arc::clone(&job) view=view/>
            <Sites job=Arc::clone(&job)/>
        }
        .into_any(),
    };
    view! {
        <header class="job-head">
            <h1>{summary.name.clone()}</h1>
            <span class="muted">{count}</span>
            <a href=project::page(routes::JOBS_PAGE) rel="external">"All jobs"</a>
            <DeleteJob job=summary going=going/>
        </header>
        {waiting}
        {unmarked}
        <div class="job-verdicts">{first} {others}</div>
        {content}
    }
}
