//! Badges with the limits of an answer, on every view.

use super::Asker;
use crate::components::badge::BadgeView;
use leptos::prelude::*;
use presentation::questions::words;

/// The badges of the device that is asked about.
#[component]
pub fn Honesty(asker: Asker) -> impl IntoView {
    let found = asker.run.with_value(|run| {
        asker
            .device
            .with_value(|device| words::honesty(run, device))
    });
    let badges = found.into_iter().map(|(badge, detail)| {
        view! {
            <details class="note">
                <summary><BadgeView badge=badge/></summary>
                <p>{detail}</p>
            </details>
        }
    });
    view! { <div class="honesty" aria-label="What limits this">{badges.collect_view()}</div> }
}
