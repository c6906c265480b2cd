//! What the peaks consist of, by category, and how that differs.

use super::Focus;
use leptos::prelude::*;
use presentation::pages::compare::cards::change;

/// Each category's change at the peak, for the selected run.
#[component]
pub fn CategoryChanges(focus: Focus) -> impl IntoView {
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
                    <span class="muted">"inferred: no recording says what a block is for"</span>
                </section>
            }
        })
    }
}
