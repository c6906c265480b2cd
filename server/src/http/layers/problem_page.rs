//! Problems that a person meets in a browser, as pages: what is wrong, what to do next, and the way
//! back. Programs, and requests to the API, get the problem itself.
//!
//! What the guards refuse before anybody knows who asks is such a page, too. Its styles come from
//! an address that is refused as well, so it must be readable without them.

use super::super::shell::{page, problem as alert};
use crate::app::App;
use crate::problems::{Elsewhere, Foreign, NoProject};
use crate::who::access::Entry;
use api::problem::{Problem, ProblemCode};
use api::routes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use std::sync::Arc;

/// Shows the problem of a page as a page.
pub async fn show(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    if !is_page(&path) || !prefers_pages(request.headers()) {
        return next.run(request).await;
    }
    let entry = request.extensions().get::<Entry>().cloned();
    let changes = *request.method() == Method::POST;
    let response = next.run(request).await;
    let Some(problem) = response.extensions().get::<Problem>().cloned() else {
        return response;
    };
    let shown = entry.as_ref().filter(|entry| **entry != Entry::STRANGER);
    let extensions = response.extensions();
    let foreign = extensions.get::<Foreign>();
    let (back, name) = match (extensions.get(), extensions.get::<Elsewhere>()) {
        (Some(NoProject), _) => (routes::PROJECTS_PAGE.to_owned(), "Your projects"),
        (None, Some(Elsewhere(address))) => (address.clone(), "Open it under its own name"),
        // The page that it belongs to would be refused, too.
        (None, None) if problem.code == ProblemCode::Forbidden && foreign.is_none() => all_runs(),
        (None, None) => way_back(&problem, &path),
    };
    let advice = match foreign {
        Some(Foreign) if changes => Some(FROM_HERE),
        _ => advice(&problem),
    };
    let mut shown = page(
        &app,
        shown,
        &problem.title,
        &body(&problem, advice, &back, name),
    );
    *shown.status_mut() = response.status();
    for name in [header::RETRY_AFTER, header::ALLOW] {
        if let Some(value) = response.headers().get(&name) {
            shown.headers_mut().insert(name, value.clone());
        }
    }
    shown.into_response()
}

/// Whether a person may open this address.
fn is_page(path: &str) -> bool {
    let of_programs = ["/api/", "/assets/", routes::METRICS, "/healthz", "/readyz"];
    !of_programs.iter().any(|begin| path.starts_with(begin)) && !path.ends_with(".js")
}

/// Whether whoever asks would rather have a page than JSON, as browsers do.
fn prefers_pages(headers: &HeaderMap) -> bool {
    let kinds = headers
        .get(header::ACCEPT)
        .and_then(|kinds| kinds.to_str().ok());
    let mut kinds = kinds.unwrap_or_default().split(',').map(str::trim);
    let known = |kind: &&str| kind.starts_with("text/html") || kind.contains("json");
    kinds
        .find(known)
        .is_some_and(|kind| kind.starts_with("text/html"))
}

fn body(problem: &Problem, advice: Option<&str>, href: &String, name: &str) -> Markup {
    html! {
        (alert(&problem.detail))
        @if let Some(advice) = advice { p { (advice) } }
        p { a class="button" href=(href) { (name) } }
    }
}

/// What to do next where a form of another site was refused.
const FROM_HERE: &str = "Nothing was changed. If you filled in a form, open its page from here and \
                         fill it in again.";

/// What to do next.
fn advice(problem: &Problem) -> Option<&'static str> {
    match (problem.code, problem.status) {
        (_, 405) => Some(
            "Only a form is sent to this address. If you sent one and it was refused, go back and \
             fill it in again.",
        ),
        (ProblemCode::NotFound, _) => {
            Some("It may have been deleted, or a part of the address is missing.")
        }
        (ProblemCode::BadRequest, 400 | 422) => {
            Some("Correct the address, or go back and choose again.")
        }
        (ProblemCode::TooMany | ProblemCode::Busy | ProblemCode::TooSlow, _) => {
            Some("Load the page again in a moment.")
        }
        _ => None,
    }
}

fn all_runs() -> (String, &'static str) {
    (routes::RUNS_PAGE.to_owned(), "All runs")
}

/// Where to go from a page that cannot be shown: the page that it belongs to.
fn way_back(problem: &Problem, path: &str) -> (String, &'static str) {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let is_missing = problem.status == StatusCode::NOT_FOUND.as_u16();
    match &parts[..] {
        ["people", ..] => (routes::PEOPLE_PAGE.to_owned(), "People"),
        ["account", ..] => (routes::ACCOUNT_PAGE.to_owned(), "Your account"),
        ["sign-in" | "sign-out", ..] => (routes::SIGN_IN_PAGE.to_owned(), "Sign in"),
        ["projects", name, _] => (routes::project_page(name), "The project"),
        ["projects" | "usage", ..] => (routes::PROJECTS_PAGE.to_owned(), "Your projects"),
        ["live", id, "capture" | "delete"] if !is_missing => {
            (format!("{}/{id}", routes::LIVE_PAGE), "The training")
        }
        ["live", ..] => (routes::LIVE_PAGE.to_owned(), "All trainings"),
        ["views", ..] => (routes::VIEWS_PAGE.to_owned(), "All views"),
        ["jobs", ..] => (routes::JOBS_PAGE.to_owned(), "All jobs"),
        ["history", ..] => (routes::HISTORY_PAGE.to_owned(), "Choose a history"),
        ["pull-requests", ..] => (routes::PULLS_PAGE.to_owned(), "All pull requests"),
        ["categories", ..] => (routes::CATEGORIES_PAGE.to_owned(), "The categories"),
        ["audit", ..] => (routes::AUDIT_PAGE.to_owned(), "The audit"),
        ["runs", id, "labels"] if !is_missing => (format!("/runs/{id}"), "The run"),
        _ => all_runs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn browsers_get_pages_and_programs_get_problems() {
        let check = |accept: &'static str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(prefers_pages(&headers), expected, "{accept}");
        };
        check(
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            true,
        );
        check("application/json, text/html", false);
        check("application/problem+json", false);
        check("image/avif,image/webp,*/*", false);
        check("*/*", false);
        check("", false);
    }
}
