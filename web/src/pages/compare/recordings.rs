//! What the numbers of the runs leave out, because a recording is not whole. The page of a run says
//! it in its head.

use super::Focus;
use crate::questions::answer::{Answer, ask};
use api::ids::RunId;
use api::routes;
use api::runs::RunDetail;
use leptos::prelude::*;
use presentation::pages::compare::cards::caveats;

/// A word or two, and what they mean; nothing until it is known.
pub type Caveats = Memo<Vec<(String, String)>>;

/// Asks what the recording of a run leaves out.
pub fn caveats_of(run: Option<RunId>) -> Caveats {
    let answer = ask::<RunDetail>(move || run.as_ref().map(routes::run));
    Memo::new(move |_| {
        answer.with(|answer| match answer {
            Answer::There(run) => caveats(Ok(run.as_ref())),
            Answer::Failed(problem) => caveats(Err(problem)),
            Answer::Unasked | Answer::Waiting(_) => Vec::new(),
        })
    })
}

/// The same in sentences, for all runs that have some.
#[component]
pub fn Recordings(focus: Focus) -> impl IntoView {
    move || {
        let lines = (0..focus.comparison().runs.len()).flat_map(|run| {
            let caveats = focus.caveats(run).map(|caveats| caveats.get());
            let line = move |(label, about)| {
                view! {
                    <li>
                        <span class="condition-name">{focus.name(run)}</span>
                        <span class="badge caution">{label}</span>
                        <span class="muted">{about}</span>
                    </li>
                }
            };
            caveats.into_iter().flatten().map(line)
        });
        let lines: Vec<_> = lines.collect();
        (!lines.is_empty()).then(|| {
            view! {
                <section class="conditions" aria-label="What is missing in the recordings">
                    <h2>"Not all of each run is in its recording"</h2>
                    <ul>{lines}</ul>
                </section>
            }
        })
    }
}

/// The same beside a name, in short.
pub fn marks(focus: Focus, run: usize) -> impl IntoView {
    let caveats = focus.caveats(run);
    move || {
        let caveats = caveats.map(|caveats| caveats.get()).into_iter().flatten();
        let badge =
            |(label, about)| view! { <span class="badge caution" title=about>{label}</span> };
        caveats.map(badge).collect_view()
    }
}
