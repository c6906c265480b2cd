//! Writes the audit: every request that changed something.

use super::credentials;
use super::extract::Client;
use crate::app::App;
use crate::system::clock::now_ms;
use crate::who::access::Entry;
use api::people::AuditEntry;
use axum::Extension;
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

/// The subject of a request whose path does not name it, or has only its id. The handler adds this
/// to its answer.
#[derive(Clone, Debug)]
pub struct Subject(pub String);

impl Subject {
    /// Makes the extension for an answer.
    pub fn of(subject: impl ToString) -> Extension<Subject> {
        Extension(Subject(subject.to_string()))
    }

    /// Something by its name and its id. Once it is gone, nobody can look up the name any more.
    pub fn called(name: &str, id: impl Display) -> Subject {
        Subject(format!("{name} ({id})"))
    }
}

/// Who has just signed in. The handler adds this to its answer if the request came from a stranger.
#[derive(Clone, Debug)]
pub struct SignedIn(pub Entry);

/// This request is a part of something that has one entry. The handler adds this to its answer,
/// and no other entry is made.
#[derive(Clone, Copy, Debug)]
pub struct Unnoted;

/// Methods, routes, and the audit's words for them.
const ACTIONS: [(Method, &str, &str); 58] = [
    (Method::PUT, "/api/upload/{name}", "upload"),
    (Method::PUT, "/api/uploads/{upload}", "upload"),
    (Method::DELETE, "/api/uploads/{upload}", "cancel_upload"),
    (Method::POST, "/api/samples/{name}", "open_sample"),
    (Method::POST, "/api/jobs", "make_job"),
    (Method::DELETE, "/api/jobs/{job}", "delete_job"),
    (Method::PATCH, "/api/jobs/{job}/labels", "label_job"),
    (Method::PATCH, "/api/runs/{run}", "rename_run"),
    (Method::PATCH, "/api/runs/{run}/labels", "label_run"),
    (Method::POST, "/runs/{run}/labels", "label_run"),
    (Method::DELETE, "/api/runs/{run}", "delete_run"),
    (Method::POST, "/api/runs/{run}/restore", "restore_run"),
    (Method::PUT, "/api/categories", "change_categories"),
    (Method::POST, "/categories", "change_categories"),
    (Method::POST, "/api/live", "begin_live"),
    (Method::POST, "/api/live/{live}/end", "end_live"),
    (Method::POST, "/api/live/{live}/capture", "ask_for_snapshot"),
    (Method::POST, "/live/{live}/capture", "ask_for_snapshot"),
    (Method::DELETE, "/api/live/{live}", "delete_live"),
    (Method::POST, "/live/{live}/delete", "delete_live"),
    (Method::POST, "/api/views", "save_view"),
    (Method::DELETE, "/api/views/{view}", "forget_view"),
    (Method::POST, "/views", "save_view"),
    (Method::POST, "/views/{view}/forget", "forget_view"),
    (Method::POST, "/api/shares", "share"),
    (Method::DELETE, "/api/shares/{share}", "revoke_link"),
    (Method::POST, "/api/bench", "start_bench"),
    (Method::POST, "/api/bench/{bench}/cancel", "cancel_bench"),
    (Method::POST, "/api/bench/rows/{row}/cancel", "cancel_row"),
    (Method::POST, "/api/bench/rows/{row}/rerun", "rerun_row"),
    (Method::DELETE, "/api/bench/{bench}", "delete_bench"),
    (Method::POST, "/api/comparisons", "record_comparison"),
    (
        Method::DELETE,
        "/api/comparisons/{comparison}",
        "forget_comparison",
    ),
    (Method::POST, "/api/session", "sign_in"),
    (Method::DELETE, "/api/session", "sign_out"),
    (Method::DELETE, "/api/sessions", "end_other_sessions"),
    (Method::DELETE, "/api/sessions/{session}", "end_session"),
    (Method::POST, "/api/people", "add_person"),
    (Method::PATCH, "/api/people/{person}", "change_person"),
    (Method::POST, "/api/tokens", "make_token"),
    (Method::DELETE, "/api/tokens/{token}", "end_token"),
    (Method::POST, "/api/projects", "make_project"),
    (Method::PATCH, "/api/projects/{project}", "change_project"),
    (
        Method::PUT,
        "/api/projects/{project}/members/{person}",
        "set_member",
    ),
    (
        Method::DELETE,
        "/api/projects/{project}/members/{person}",
        "set_member",
    ),
    (Method::POST, "/projects", "make_project"),
    (Method::POST, "/projects/{project}", "change_project"),
    (Method::POST, "/projects/{project}/members", "set_member"),
    (Method::POST, "/sign-in", "sign_in"),
    (Method::GET, "/sign-in/oidc/callback", "sign_in"),
    (Method::POST, "/sign-out", "sign_out"),
    (Method::POST, "/people", "add_person"),
    (Method::POST, "/people/{person}", "change_person"),
    (Method::POST, "/people/{person}/token", "make_token"),
    (Method::POST, "/account/tokens", "make_token"),
    (Method::POST, "/account/tokens/{token}/end", "end_token"),
    (
        Method::POST,
        "/account/sessions/end-others",
        "end_other_sessions",
    ),
    (
        Method::POST,
        "/account/sessions/{session}/end",
        "end_session",
    ),
];

/// The audit's word for a request to this route. `None` if it changes nothing that anyone would ask
/// about later.
pub fn action(method: &Method, route: &str) -> Option<&'static str> {
    let mut actions = ACTIONS.into_iter();
    let found = actions.find(|(of, path, _)| of == method && *path == route);
    found.map(|(_, _, action)| action)
}

/// All words for what is done, in the order of the alphabet.
pub fn actions() -> BTreeSet<&'static str> {
    ACTIONS.into_iter().map(|(_, _, action)| action).collect()
}

/// Writes a request to the audit after it changed something. If that fails, the answer is sent
/// anyway, because the change was made.
pub async fn note(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let action = route.and_then(|route| action(request.method(), route.as_str()));
    let Some(action) = action else {
        return next.run(request).await;
    };
    let client = Client::of(request.extensions());
    let entry = match request.extensions().get::<Entry>() {
        Some(entry) => Some(entry.clone()),
        None => credentials::entry(&app, request.headers(), client)
            .await
            .ok(),
    };
    let address = client.address.to_string();
    let last = request
        .uri()
        .path()
        .split('/')
        .rfind(|part| part.contains('_'));
    let named = last.unwrap_or_default().to_owned();
    let response = next.run(request).await;
    if !response.status().is_success() && !response.status().is_redirection() {
        return response;
    }
    let left = response.extensions();
    if left.get::<Unnoted>().is_some() {
        return response;
    }
    let subject = left.get::<Subject>().map(|subject| subject.0.clone());
    let signed_in = left.get::<SignedIn>().map(|signed_in| signed_in.0.clone());
    let who = signed_in.or(entry).unwrap_or(Entry::STRANGER);
    // Strangers can sign out as often as they like: such entries must not push out others.
    if who == Entry::STRANGER {
        return response;
    }
    let entry = AuditEntry {
        id: 0,
        at_ms: now_ms(),
        who: who.name().to_owned(),
        address,
        action: action.to_owned(),
        subject: subject.unwrap_or(named),
        project: who.membership.map(|membership| membership.project),
    };
    if let Err(error) = app.store.write(move |w| w.note(&entry)).await {
        tracing::warn!(%error, action, "cannot write down what was done");
    }
    response
}
