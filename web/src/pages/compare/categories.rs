//! What the peaks consist of, by what memory is for, and how that differs.

use super::Focus;
use super::cards::change;
use crate::questions::answer::{Answer, ask};
use api::contents::{Contents, Held};
use api::routes;
use leptos::prelude::*;
use std::cmp::Reverse;
use trace::categories::Category;

/// Each category's change at the peak, for the run that is looked at.
#[component]
pub fn CategoryChanges(focus: Focus) -> impl IntoView {
    let asked = move |run: usize| {
        let difference = focus.difference()?;
        let side = if run == 0 {
            &difference.base
        } else {
            &difference.new
        };
        let events = side.events > 0;
        events.then_some(routes::contents(&focus.page_of(run)?, side.device))
    };
    let base = ask::<Contents>(move || asked(0));
    let new = ask::<Contents>(move || asked(focus.against.get()));
    move || {
        let peak = |answer: RwSignal<Answer<Contents>>| answer.with(Answer::shown)?.peak.clone();
        let changes = changes(&peak(base)?, &peak(new)?);
        let items = changes.into_iter().map(|(category, bytes)| {
            view! {
                <li>
                    <span>{category.label()}</span>
                    " "
                    <b>{change(bytes as f64)}</b>
                </li>
            }
        });
        Some(view! {
            <section class="category-changes" aria-label="What the peaks are made of">
                <h2>"At the peak"</h2>
                <ul>{items.collect_view()}</ul>
                <span class="badge" title="What a block is for is not in the recording.">
                    "inferred"
                </span>
            </section>
        })
    }
}

/// The change of each category that either peak holds, the largest first.
fn changes(base: &Held, new: &Held) -> Vec<(Category, i64)> {
    let held = |held: &Held, category| {
        let share = held
            .categories
            .iter()
            .find(|share| share.category == category);
        share.map(|share| share.bytes.get() as i64)
    };
    let changes = Category::ALL.into_iter().filter_map(|category| {
        let (before, after) = (held(base, category), held(new, category));
        before.or(after)?;
        Some((category, after.unwrap_or(0) - before.unwrap_or(0)))
    });
    let mut changes: Vec<_> = changes.collect();
    changes.sort_by_key(|&(_, bytes)| Reverse(bytes.unsigned_abs()));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::contents::CategoryBytes;
    use trace::units::{Bytes, EventIdx};

    #[test]
    fn what_either_peak_holds_has_a_change() {
        let held = |shares: &[(Category, u64)]| Held {
            event: EventIdx(1),
            categories: shares
                .iter()
                .map(|&(category, bytes)| CategoryBytes {
                    category,
                    bytes: Bytes(bytes),
                    inferred: Bytes(bytes),
                })
                .collect(),
        };
        let base = held(&[(Category::Activation, 700), (Category::Parameter, 100)]);
        let new = held(&[(Category::Parameter, 100), (Category::Input, 5)]);
        assert_eq!(
            changes(&base, &new),
            [
                (Category::Activation, -700),
                (Category::Input, 5),
                (Category::Parameter, 0),
            ]
        );
    }
}
