//! A problem, in the place of what could not be shown.

use crate::components::icon::{Icon, IconView};
use crate::components::prose::Prose;
use crate::format;
use api::problem::Problem;
use leptos::prelude::*;

/// The problem's own words, where it is in the file, and a way to try again.
#[component]
pub fn ProblemNote(
    /// What went wrong.
    problem: Problem,
    /// Tries again; without it there is no button.
    #[prop(optional, into)]
    retry: Option<Callback<()>>,
) -> impl IntoView {
    let offset = problem.offset.map(|offset| {
        view! { <p class="muted">{format!("At byte {}.", format::count(offset))}</p> }
    });
    let button = retry.map(|retry| {
        view! {
            <button class="button" on:click=move |_| retry.run(())>
                <IconView icon=Icon::Retry/>
                "Try again"
            </button>
        }
    });
    view! {
        <div class="problem" role="alert">
            <IconView icon=Icon::Warning/>
            <div class="problem-text">
                <h2>{problem.title}</h2>
                <p><Prose text=problem.detail/></p>
                {offset}
                {button}
            </div>
        </div>
    }
}
