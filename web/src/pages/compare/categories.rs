//! What the peaks consist of, by category, and how that differs.

use super::Focus;
use leptos::prelude::*;
use presentation::pages::compare::cards::change;
use presentation::pages::compare::categories::about;

/// Each category's change at the peak, for the selected run.
#[component]
pub fn CategoryChanges(focus: Focus) -> impl IntoView {
    move || {
        let difference = focus.difference()?;
        let changes = difference.category_changes();
        let inferred = about(&difference).map(|text| view! { <span class="muted">{text}</span> });
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
