//! What redaction changes, before the link is made.

use crate::client;
use crate::components::problem_note::told;
use crate::format::plural;
use api::ids::RunId;
use api::problem::Problem;
use api::routes;
use api::shares::{RedactedText, RedactionPreview};
use leptos::prelude::*;

/// Texts of each run before and after.
#[component]
pub fn Preview(runs: Vec<RunId>) -> impl IntoView {
    let parts = runs.into_iter().map(|run| view! { <PreviewOf run=run/> });
    view! { <div class="share-preview">{parts.collect_view()}</div> }
}

#[component]
fn PreviewOf(run: RunId) -> impl IntoView {
    let answer = RwSignal::new(None::<Result<RedactionPreview, Problem>>);
    leptos::task::spawn_local_scoped_with_cancellation(async move {
        let path = routes::redaction_preview(&run);
        let _ = answer.try_set(Some(client::get(&path).await));
    });
    move || match answer.get() {
        None => view! { <p class="muted">"Looking through the names…"</p> }.into_any(),
        Some(Err(problem)) => view! { <p class="bad-text">{told(problem)}</p> }.into_any(),
        Some(Ok(preview)) => {
            let rows = preview.examples.into_iter().map(row).collect_view();
            let all = plural(u64::from(preview.changed), "text");
            let caption = format!("{all} will change, for example (each link has its own words):");
            view! {
                <table>
                    <caption>{caption}</caption>
                    <thead>
                        <tr><th>"What"</th><th>"In the data"</th><th>"Behind the link"</th></tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            }
            .into_any()
        }
    }
}

fn row(text: RedactedText) -> impl IntoView {
    view! { <tr><th scope="row">{text.what}</th><td>{text.before}</td><td>{text.after}</td></tr> }
}
