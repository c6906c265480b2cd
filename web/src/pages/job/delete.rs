//! Deletes a job, with or without its runs. A dialog asks, so that nobody does it by accident.

use crate::client::{self, Method};
use crate::components::dialog::{Closing, Dialog};
use crate::components::toasts::Toasts;
use crate::context::expect_context;
use crate::pages::runs_store::RunsStore;
use api::ids::{JobId, RunId};
use api::jobs::JobSummary;
use api::routes;
use leptos::prelude::*;
use leptos_router::hooks::{use_location, use_navigate};
use presentation::pages::job::delete::{deleted, shared};

/// The job whose deletion is under way. It is not read again meanwhile: the page would say that
/// there is no such job before it is left.
#[derive(Clone, Copy)]
pub struct Going {
    /// The job that the address names.
    named: Memo<Option<JobId>>,
    job: RwSignal<Option<JobId>>,
}

impl Going {
    /// None yet, on a page that shows the job `named`.
    pub fn new(named: Memo<Option<JobId>>) -> Going {
        let job = RwSignal::new(None);
        Going { named, job }
    }

    /// Whether it is `job`.
    pub fn is_it(self, job: Option<&JobId>) -> bool {
        self.job
            .with(|going| going.is_some() && going.as_ref() == job)
    }
}

/// Asks what to do with the runs.
#[component]
pub fn DeleteJob(job: JobSummary, going: Going) -> impl IntoView {
    let toasts: Toasts = expect_context();
    let store: RunsStore = expect_context();
    let navigate = use_navigate();
    let here = use_location().pathname;
    let told = job.clone();
    let forget = Callback::new(move |(path, runs): (String, Vec<RunId>)| {
        // The second of two requests would find no job, and say that it was not deleted.
        if going.job.with_untracked(Option::is_some) {
            return;
        }
        going.job.set(going.named.get_untracked());
        let (navigate, page) = (navigate.clone(), here.get_untracked());
        let text = deleted(&told, runs.len());
        leptos::task::spawn_local(async move {
            match client::send::<serde::de::IgnoredAny>(Method::Delete, &path).await {
                Ok(_) => {
                    store.deleted(toasts, text, runs);
                    // Whoever reads another page by now goes on reading.
                    if here.get_untracked() == page {
                        return navigate("/", Default::default());
                    }
                }
                Err(problem) => toasts.fail("Not deleted", &problem),
            }
            let _ = going.job.try_set(None);
        });
    });
    let open = RwSignal::new(false);
    let (keep, delete) = (routes::job(&job.id), routes::job_with_runs(&job.id));
    let id = job.id.clone();
    let delete_job = move |_| forget.run((keep.clone(), Vec::new()));
    let delete_all = move |_| {
        let runs = untrack(|| store.of_job(&id)).into_iter();
        forget.run((delete.clone(), runs.map(|run| run.id).collect()));
    };
    let also = move || {
        let text = shared(&store.of_job(&job.id), &job);
        text.map(|text| view! { <p>{text}</p> })
    };
    view! {
        <button class="button job-delete" on:click=move |_| open.set(true)>"Delete…"</button>
        <Dialog open=open title="Delete the job?" closing=Closing::Free>
            <p>
                "Deleted alone, a job cannot be restored; its runs stay, each by itself in the "
                "list."
            </p>
            <p class="job-delete-restored">
                "Deleted with its runs, it can be restored with them for ten minutes, from the "
                "list of runs."
            </p>
            {also}
            <div class="job-delete-choices">
                <button class="button" on:click=move |_| open.set(false)>"Cancel"</button>
                <button class="button danger" on:click=delete_job>"Delete the job only"</button>
                <button class="button danger" on:click=delete_all>
                    "Delete the job and its runs"
                </button>
            </div>
        </Dialog>
    }
}
