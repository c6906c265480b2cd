//! The pages on which people sign in and manage tokens, sessions and each other. They are plain
//! HTML with forms. So they work where the page of a run cannot, and nobody has to load that page
//! first.

mod forms;
mod oidc;
mod pages;
mod people;
mod sent;
mod token_form;

pub use forms::{end_other_sessions, end_session, end_token, make_token, sign_in, sign_out};
pub use oidc::{begin_oidc, finish_oidc};
pub use pages::{account, audit, sign_in_page};
pub use people::{add_person, change_person, new_token, people};

use super::credentials;
use super::extract::Client;
use crate::app::App;
use crate::problems::Error;
use crate::who::access::Entry;
use api::routes::{ACCOUNT_PAGE, LIVE_PAGE, PEOPLE_PAGE, VIEWS_PAGE, project_page};
use axum::extract::FromRequestParts;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};
use std::sync::Arc;

/// Who asks for one of these pages. People who have not signed in are sent to the page to sign in.
pub struct SignedIn(pub Entry);

impl FromRequestParts<Arc<App>> for SignedIn {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<SignedIn, Response> {
        let entry = match parts.extensions.get::<Entry>() {
            Some(entry) => entry.clone(),
            None => {
                let client = Client::of(&parts.extensions);
                let entry = credentials::entry(app, &parts.headers, client).await;
                entry.map_err(IntoResponse::into_response)?
            }
        };
        if entry.access == api::runs::Access::TokenNeeded {
            let next = match parts.method {
                Method::GET => {
                    let asked = parts.uri.path_and_query();
                    asked.map_or("/", |path| path.as_str()).to_owned()
                }
                _ => page_of_form(parts.uri.path()),
            };
            let to = api::routes::sign_in_page(&next);
            return Err(Redirect::to(&to).into_response());
        }
        app.gate.note_use(&entry, app.store.latest_ms()).await;
        Ok(SignedIn(entry))
    }
}

/// The page with the form that is sent to this address.
fn page_of_form(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match &parts[..] {
        ["people", ..] => PEOPLE_PAGE.to_owned(),
        ["account", ..] => ACCOUNT_PAGE.to_owned(),
        ["views", ..] => VIEWS_PAGE.to_owned(),
        ["projects", name, _] => project_page(name),
        ["live", id, _] => format!("{LIVE_PAGE}/{id}"),
        _ => path.to_owned(),
    }
}

/// A page that shows what was refused; its status tells that nothing was done.
fn refused(error: &Error, mut page: Response) -> Response {
    error.mark(&mut page);
    page
}

/// Where a form leads after it is filled in: a path of this server; otherwise the list of runs.
pub(super) fn within(next: &str) -> &str {
    let local = next.starts_with('/') && !next.starts_with("//") && !next.contains('\\');
    // A browser takes out `.` and `..`, and what then is left may begin with two strokes.
    let path = next.split(['?', '#']).next().unwrap_or_default();
    let is_dots = |part: &str| {
        matches!(
            part.to_ascii_lowercase().replace("%2e", ".").as_str(),
            "." | ".."
        )
    };
    let local = local && !path.split('/').any(is_dots);
    match local && next.chars().all(crate::system::plain::is_plain) {
        true => next,
        false => "/",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_leads_to_this_server_only() {
        let check = |next: &str, expected: &str| assert_eq!(within(next), expected, "{next:?}");
        check("/account", "/account");
        check("/runs/run_a?at=3&tab=leaks", "/runs/run_a?at=3&tab=leaks");
        check("//evil.example/", "/");
        check("/\\evil.example", "/");
        check("/.//evil.example", "/");
        check("/a/%2E.//evil.example", "/");
        check("/runs?at=../b", "/runs?at=../b");
        check("https://evil.example/", "/");
        check("javascript:alert(1)", "/");
        check("/a\r\nSet-Cookie: x", "/");
        check("", "/");
    }
}
