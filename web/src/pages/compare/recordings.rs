//! What the numbers of the runs leave out: how the rows of a bench ended, which no memory shows,
//! and what is not in a recording. The page of a run says it in its head.

use super::Focus;
use super::cards::section;
use crate::questions::answer::{Answer, ask};
use api::routes;
use api::runs::RunDetail;
use leptos::prelude::*;
use presentation::pages::compare::cards::{caveats, left_out};
use presentation::pages::run::row::faults;

/// A sentence for each thing that went wrong, of all runs, and then for each part that is missing.
#[component]
pub fn Recordings(focus: Focus) -> impl IntoView {
    let asked =
        |id: Option<api::ids::RunId>| ask::<RunDetail>(move || id.as_ref().map(routes::run));
    let runs = &focus.comparison().runs;
    let runs: Vec<_> = runs.iter().map(|run| asked(run.id.clone())).collect();
    move || {
        let (mut failed, mut lacking) = (Vec::new(), Vec::new());
        for (run, answer) in runs.iter().enumerate() {
            let line = |class: &'static str, label: String, about: String| {
                let row = view! {
                    <li>
                        <span class="condition-name">{focus.name(run)}</span>
                        <span class=class>{label}</span>
                        <span class="muted">{about}</span>
                    </li>
                };
                row.into_any()
            };
            let told = answer.with(|answer| match answer {
                Answer::There(run) => (faults(run), caveats(Ok(run.as_ref()))),
                Answer::Failed(problem) => (Vec::new(), caveats(Err(problem))),
                Answer::Unasked | Answer::Waiting(_) => Default::default(),
            });
            let (faults, caveats) = told;
            let faults = faults.into_iter();
            failed.extend(faults.map(|(label, how)| line("badge bad", label.to_owned(), how)));
            let caveats = caveats.into_iter();
            lacking.extend(caveats.map(|(label, about)| line("badge caution", label, about)));
        }
        let title = left_out(failed.len());
        failed.extend(lacking);
        section("What is missing in the recordings", title, failed)
    }
}
