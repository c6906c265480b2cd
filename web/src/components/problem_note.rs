//! A problem, shown in the place of what could not be shown.

use crate::client::is_no_answer;
use crate::components::icon::{Icon, IconView};
use crate::components::prose::Prose;
use crate::connection::when_back;
use crate::format;
use api::problem::Problem;
use leptos::prelude::*;

/// The position of a problem in the uploaded file, unless its own text names it.
pub fn place(problem: &Problem) -> Option<String> {
    let offset = problem.offset?;
    let said = |number: &str| problem.detail.contains(number);
    let told = said(&offset.to_string()) || said(&format::count(offset));
    (!told).then(|| format!("At byte {}.", format::count(offset)))
}

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
                {place}
                {button}
            </div>
        </div>
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::problem::ProblemCode;

    #[test]
    fn the_place_is_told_once() {
        let check = |detail: &str, offset, expected: Option<&str>| {
            let problem = Problem {
                code: ProblemCode::BadSnapshot,
                status: 422,
                title: String::new(),
                detail: detail.to_owned(),
                offset,
            };
            assert_eq!(place(&problem).as_deref(), expected, "{detail}");
        };
        check("No opcode.", Some(12_345), Some("At byte 12,345."));
        check("No opcode at byte 12345.", Some(12_345), None);
        check("No opcode at byte 12,345.", Some(12_345), None);
        check("No opcode.", None, None);
    }
}
