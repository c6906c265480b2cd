//! The page of one run.

use leptos::prelude::*;

/// The page of one run.
#[component]
pub fn RunPage() -> impl IntoView {
    view! { <h1>"Run"</h1> }
}
