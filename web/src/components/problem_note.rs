//! A problem, shown in the place of what could not be shown.

use crate::components::focus::rescue;
use crate::components::icon::{Icon, IconView};
use crate::components::prose::Prose;
use crate::connection::when_back;
use crate::project;
use api::problem::Problem;
use api::routes;
use leptos::prelude::*;
use presentation::components::problem_note::{place, sentence};
use presentation::response::{is_no_answer, may_go_better};

/// The problem's own text, its position in the file, and a button to try again.
#[component]
pub fn ProblemNote(
    /// What went wrong.
    problem: Problem,
    /// Tries again; without it there is no button.
    #[prop(optional, into)]
    retry: Option<Callback<()>>,
) -> impl IntoView {
    // Nobody has to press the button after the server was away.
    if let Some(retry) = retry.filter(|_| is_no_answer(&problem)) {
        when_back(move || retry.run(()));
    }
    let place = place(&problem).map(|place| view! { <p class="muted">{place}</p> });
    let button = retry.filter(|_| may_go_better(&problem)).map(|retry| {
        let press = move |_| {
            retry.run(());
            rescue("#main");
        };
        view! {
            <button class="button" on:click=press>
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
                <p><Prose text=sentence(&problem.detail)/></p>
                {place}
                {button}
            </div>
        </div>
    }
}

/// What a problem tells, as a sentence.
pub fn told(problem: Problem) -> AnyView {
    view! { <Prose text=sentence(&problem.detail)/> }.into_any()
}

/// In the place of a page whose subject cannot be shown: the problem, and a way back.
#[component]
pub fn ProblemPage(
    /// The name of the page, for who cannot see it.
    title: &'static str,
    problem: Problem,
    retry: Callback<()>,
) -> impl IntoView {
    let (page, all) = match title {
        "Job" => (project::page(routes::JOBS_PAGE), "All jobs"),
        _ => (routes::RUNS_PAGE.to_owned(), "All runs"),
    };
    // The server makes the page of jobs.
    let rel = (page != routes::RUNS_PAGE).then_some("external");
    document().set_title(&[title, " · Tidemark"].concat());
    view! {
        <h1 class="visually-hidden">{title}</h1>
        <ProblemNote problem=problem retry=retry/>
        <p class="run-nothing"><a href=page rel=rel>{all}</a></p>
    }
}
