//! What the peaks consist of, by category, and how that differs.

use super::Focus;
use crate::context::expect_context;
use crate::pages::runs_store::RunsStore;
use api::runs::RunSource;
use leptos::prelude::*;
use presentation::pages::compare::cards::change;

/// Each category's change at the peak, for the selected run.
#[component]
pub fn CategoryChanges(focus: Focus) -> impl IntoView {
    let store: RunsStore = expect_context();
    let is_of_bench = move |run: usize| {
        let comparison = focus.comparison();
        let id = comparison.runs.get(run).and_then(|run| run.id.as_ref());
        let run = id.and_then(|id| store.run(id));
        run.is_some_and(|run| run.source == RunSource::Engine)
    };
    // What the bench records, it names.
    let is_said = Memo::new(move |_| is_of_bench(0) && is_of_bench(focus.against.get()));
    let inferred = move || {
        let text = "inferred, where a recording does not say what a block is for";
        (!is_said.get()).then(|| view! { <span class="muted">{text}</span> })
    };
    move || {
        let changes = focus.difference()?.category_changes();
        let items: Vec<_> = changes
            .into_iter()
            .map(|(category, bytes)| {
                view! {
                    <li>
                        <span>{category.label().to_owned()}</span>
                        " "
                        <b>{change(bytes as f64)}</b>
                    </li>
                }
            })
            .collect();
        (!items.is_empty()).then(|| {
            view! {
                <section class="category-changes" aria-label="What the peaks are made of">
                    <h2>"At the peak"</h2>
                    <ul>{items}</ul>
                    {inferred}
                </section>
            }
        })
    }
}
