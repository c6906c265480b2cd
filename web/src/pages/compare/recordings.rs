//! What the numbers of the runs leave out, because a recording is not whole. The page of a run says
//! it in its head.

use super::Focus;
use super::cards::section;
use crate::questions::answer::{Answer, ask};
use api::routes;
use api::runs::RunDetail;
use leptos::prelude::*;
use presentation::pages::compare::cards::caveats;

/// A sentence for each part that is missing, of all runs that lack some.
#[component]
pub fn Recordings(focus: Focus) -> impl IntoView {
    let asked =
        |id: Option<api::ids::RunId>| ask::<RunDetail>(move || id.as_ref().map(routes::run));
    let runs = &focus.comparison().runs;
    let runs: Vec<_> = runs.iter().map(|run| asked(run.id.clone())).collect();
    move || {
        let mut rows = Vec::new();
        for (run, answer) in runs.iter().enumerate() {
            let told = answer.with(|answer| match answer {
                Answer::There(run) => caveats(Ok(run.as_ref())),
                Answer::Failed(problem) => caveats(Err(problem)),
                Answer::Unasked | Answer::Waiting(_) => Vec::new(),
            });
            for (label, about) in told {
                let row = view! {
                    <li>
                        <span class="condition-name">{focus.name(run)}</span>
                        <span class="badge caution">{label}</span>
                        <span class="muted">{about}</span>
                    </li>
                };
                rows.push(row.into_any());
            }
        }
        let title = "Not all of each run is in its recording";
        section("What is missing in the recordings", title, rows)
    }
}
