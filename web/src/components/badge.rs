//! A quality note as a badge.

use leptos::prelude::*;
use presentation::components::badge::{Badge, Weight};

/// One badge.
#[component]
pub fn BadgeView(badge: Badge) -> impl IntoView {
    let about = (!badge.about.is_empty()).then_some(badge.about);
    view! {
        <span class="badge" class:caution=badge.weight == Weight::Caution title=about>
            {badge.label}
        </span>
    }
}
