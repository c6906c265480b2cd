//! Deletes a job, with or without its runs. It is folded away, so that nobody does it by accident.

use super::cells;
use crate::client::{self, Method};
use crate::components::toasts::Toasts;
use crate::pages::runs::store::RunsStore;
use api::jobs::JobSummary;
use api::routes;
use leptos::prelude::*;
use leptos_router::hooks::use_navigate;

/// Asks what to do with the runs.
#[component]
pub fn DeleteJob(job: JobSummary) -> impl IntoView {
    let toasts: Toasts = expect_context();
    let store: RunsStore = expect_context();
    let navigate = use_navigate();
    let forget = Callback::new(move |path: String| {
        let navigate = navigate.clone();
        leptos::task::spawn_local(async move {
            match client::send::<serde::de::IgnoredAny>(Method::Delete, &path).await {
                Ok(_) => {
                    store.refresh();
                    navigate("/", Default::default());
                }
                Err(problem) => toasts.fail("Not deleted", &problem),
            }
        });
    });
    let (keep, delete) = (routes::job(&job.id), routes::job_with_runs(&job.id));
    view! {
        <details class="job-delete">
            <summary class="button">"Delete"</summary>
            <p class="muted">
                "Its runs can stay, each by itself. If they are deleted too, each can be restored "
                "for ten minutes; the job cannot."
            </p>
            {cells::more("Keep the runs".to_owned(), move || forget.run(keep.clone()))}
            {cells::more("Delete the runs too".to_owned(), move || forget.run(delete.clone()))}
        </details>
    }
}
