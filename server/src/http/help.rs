//! Help, as a page: what works where the program of the other pages is not there.

use super::account::SignedIn;
use super::extract::Origin;
use super::here::Here;
use super::permits;
use super::shell::{command, page};
use crate::problems::Error;
use crate::who::access::Entry;
use api::people::Scope;
use api::projects::ProjectName;
use api::recipes::{curl_line, push_line};
use api::routes;
use axum::response::Response;
use maud::{Markup, html};

/// What the pages are for.
const PAGES: [(&str, &str, &str); 9] = [
    (
        "Runs",
        routes::RUNS_PAGE,
        "every snapshot that was sent; a run opens on its timeline",
    ),
    (
        "Compare",
        routes::COMPARE_PAGE,
        "two to eight runs on one axis, and what changed",
    ),
    (
        "Bench",
        routes::BENCH_PAGE,
        "the engine's programs, with and without patches",
    ),
    (
        "Live",
        routes::LIVE_PAGE,
        "trainings that report their memory while they run",
    ),
    (
        "Jobs",
        routes::JOBS_PAGE,
        "trainings on several ranks, and which rank is odd",
    ),
    (
        "History",
        routes::HISTORY_PAGE,
        "a number over runs with the same labels",
    ),
    (
        "Pull requests",
        routes::PULLS_PAGE,
        "what the gate said of changes",
    ),
    (
        "Views",
        routes::VIEWS_PAGE,
        "names for addresses, for everybody",
    ),
    (
        "Categories",
        routes::CATEGORIES_PAGE,
        "the team's own names for what memory is for",
    ),
];

/// The page.
pub async fn help_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    origin: Origin,
) -> Result<Response, Error> {
    // Help holds nothing of a project, so whoever waits for one may read it.
    let is_outside = permits::in_a_project(&entry).is_err();
    if !is_outside {
        permits::scope(&entry, Scope::Read)?;
    }
    let body = html! {
        @if entry.may(Scope::Upload) { (sending(&entry, &origin.to_string())) }
        h2 { "Find your way" }
        @if is_outside {
            p { "These pages open when you are in a project. " a href=(routes::PROJECTS_PAGE) {
                "Your projects"
            } }
        }
        ul { @for (name, page, about) in PAGES {
            li {
                @if is_outside { (name) } @else { a href=(page) { (name) } }
                ": " (about) "."
            }
        } }
        p {
            "On the pages of runs, comparisons and benches, " kbd { "?" }
            " lists keys and gestures. Programs ask " a href=(routes::OPENAPI) { "the API" } "."
        }
        h2 { "Light and dark" }
        p {
            "Pages look as the browser wants it. A button at the top of the page "
            @if is_outside { "Runs" } @else { a href=(routes::RUNS_PAGE) { "Runs" } }
            " chooses one look for this browser, here too."
        }
    };
    Ok(page(&app, Some(&entry), "Help", &body))
}

/// How to send a snapshot. A form could not: gigabytes are sent in a way that can go on after a
/// break, and is watched.
fn sending(entry: &Entry, origin: &str) -> Markup {
    let project = entry
        .membership
        .as_ref()
        .map(|membership| membership.project.to_string());
    let project = project.filter(|name| name != ProjectName::MAIN);
    html! {
        h2 { "Send a snapshot" }
        p {
            "Drop it on the page " a href=(routes::RUNS_PAGE) { "Runs" }
            ", or send it from a shell:"
        }
        (command(&curl_line(origin, entry.access, project.as_deref())))
        p { "With Tidemark's own command line, which waits for the link:" }
        (command(&push_line(origin, project.as_deref())))
        @if entry.access == api::runs::Access::Granted {
            p {
                "Both take a token from " code { "TIDEMARK_TOKEN" } "; "
                a href=(routes::ACCOUNT_PAGE) { "your account" } " makes one."
            }
        }
    }
}
