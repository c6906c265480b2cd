//! What each request needs: a scope, or the role of an admin. Requests that are not listed need
//! `read` to look and `manage` to change something.

use crate::problems::Error;
use crate::projects::ProjectError;
use crate::who::access::Entry;
use api::people::{Scope, Scopes};
use api::routes;
use axum::http::Method;

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Only to be let in.
    Entry,
    /// The same; what ends may be the token that asks, so the handler checks the rest.
    End,
    /// This scope.
    Scope(Scope),
    /// `read` or `upload`: for requests during an upload.
    ReadOrUpload,
    /// `read`, on the server itself: not only in a project.
    Server,
    /// To be an admin.
    Admin,
}

/// The need of a request to this address.
pub fn need(method: &Method, path: &str) -> Need {
    let reads = is_read(method);
    if path == routes::METRICS {
        return Need::Server;
    }
    let parts: Vec<&str> = path.split('/').skip(2).collect();
    match (reads, &parts[..]) {
        // These are about the person's own things; the handlers check the owner, and whether the
        // token may do that (`tokens`).
        (_, ["tokens", _]) if *method == Method::DELETE => Need::End,
        (_, ["me"] | ["tokens", ..] | ["sessions", ..]) => Need::Entry,
        // These check what whoever asks is in the project that the address names.
        (true, ["projects", ..]) | (false, ["projects", _, ..]) => Need::Entry,
        (false, ["projects"]) => Need::Admin,
        (_, ["people", ..] | ["audit"] | ["usage"]) => Need::Admin,
        (true, ["uploads", ..]) => Need::ReadOrUpload,
        // As it is with runs, to send something is not yet to delete it.
        (false, ["live", _]) if *method == Method::DELETE => Need::Scope(Scope::Manage),
        (
            false,
            ["uploads", ..]
            | ["upload", ..]
            | ["jobs"]
            | ["samples", _]
            | ["live", ..]
            | ["views", ..]
            // A program that may send a recording may also label it, and record a comparison.
            | ["comparisons"]
            | ["runs" | "jobs", _, "labels"],
        ) => Need::Scope(Scope::Upload),
        // Questions.
        (false, ["mcp"] | ["runs", _, "categories"]) | (true, _) => Need::Scope(Scope::Read),
        (false, _) => Need::Scope(Scope::Manage),
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Checks that a client with this entry may do this.
///
/// # Errors
/// [`Error::Scope`] and [`Error::NotAdmin`].
pub fn check(entry: &Entry, method: &Method, path: &str) -> Result<(), Error> {
    match need(method, path) {
        Need::Entry if is_read(method) => Ok(()),
        Need::Entry => of_person(entry),
        Need::End => Ok(()),
        Need::Server if entry.may_on_server(Scope::Read) => Ok(()),
        Need::Server => Err(Error::OutOfScope(
            "this is about the whole server, not a project",
        )),
        Need::Scope(needed) => scope(entry, needed),
        Need::ReadOrUpload if entry.may(Scope::Upload) => Ok(()),
        Need::ReadOrUpload => scope(entry, Scope::Read),
        Need::Admin if entry.is_admin() => Ok(()),
        Need::Admin => Err(Error::NotAdmin),
    }
}

/// Whether whoever came in may change what is a person's own. A token of one project may not: it
/// could make one that opens all projects.
///
/// # Errors
/// [`Error::OutOfScope`].
pub fn of_person(entry: &Entry) -> Result<(), Error> {
    match entry.bound {
        None => Ok(()),
        Some(_) => Err(Error::OutOfScope(
            "a token of one project changes nothing about people, tokens and projects",
        )),
    }
}

/// Whether whoever came in may make and end tokens, and end sessions. Readers may, too: what counts
/// is not the role, but that the token was made for everything that the person may do. A token that
/// only reads must not outlive itself in another one, and must not shut its person out.
///
/// # Errors
/// [`Error::OutOfScope`].
pub fn tokens(entry: &Entry) -> Result<(), Error> {
    of_person(entry)?;
    match entry.limit.has(Scope::Manage) {
        true => Ok(()),
        false => Err(Error::OutOfScope(
            "making and ending tokens and sessions takes a token that may `manage`; another one \
             can only end itself",
        )),
    }
}

/// Whether whoever came in may do what takes this scope.
///
/// # Errors
/// [`Error::Scope`] and [`Error::NoProject`].
pub fn scope(entry: &Entry, needed: Scope) -> Result<(), Error> {
    in_a_project(entry)?;
    match entry.may(needed) {
        true => Ok(()),
        false => Err(Error::Scope {
            needed,
            has: entry.scopes,
        }),
    }
}

/// Whether some project lets a person in.
///
/// # Errors
/// [`Error::NoProject`], [`Error::TokenShut`], and [`ProjectError::Broken`].
pub fn in_a_project(entry: &Entry) -> Result<(), Error> {
    let is_nowhere = entry.membership.is_none() && entry.scopes == Scopes::NONE;
    match is_nowhere && entry.person().is_some() && entry.limit != Scopes::NONE {
        true => Err(match (&entry.shut, &entry.bound) {
            (Some(project), _) => ProjectError::Broken(project.clone()).into(),
            (None, Some(project)) => Error::TokenShut(project.clone()),
            (None, None) => Error::NoProject,
        }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_something_needs_more_than_reading() {
        let check = |method: &str, path: &str, needed: Need| {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(need(&method, path), needed, "{method} {path}");
        };
        let [read, upload, manage] = Scope::ALL.map(Need::Scope);
        check("GET", "/api/runs", read);
        check("HEAD", "/api/runs/run_a/export", read);
        check("POST", "/api/mcp", read);
        check("POST", "/api/comparisons", upload);
        check("DELETE", "/api/comparisons/cmp_a", manage);
        check("GET", "/metrics", Need::Server);
        check("GET", "/api/projects", Need::Entry);
        check("POST", "/api/projects", Need::Admin);
        check("PUT", "/api/projects/a/members/per_a", Need::Entry);
        check("POST", "/api/uploads", upload);
        check("PUT", "/api/uploads/upl_a", upload);
        check("PUT", "/api/upload/a.pickle", upload);
        check("DELETE", "/api/uploads/upl_a", upload);
        check("GET", "/api/uploads/upl_a/events", Need::ReadOrUpload);
        check("POST", "/api/jobs", upload);
        check("DELETE", "/api/jobs/job_a", manage);
        check("POST", "/api/live/live_a/steps", upload);
        check("DELETE", "/api/live/live_a", manage);
        check("POST", "/api/samples/streams", upload);
        check("DELETE", "/api/runs/run_a", manage);
        check("PATCH", "/api/runs/run_a/labels", upload);
        check("PATCH", "/api/jobs/job_a/labels", upload);
        check("PATCH", "/api/runs/run_a", manage);
        check("POST", "/api/shares", manage);
        check("POST", "/api/bench", manage);
        check("POST", "/api/anything/new", manage);
        check("GET", "/api/people", Need::Admin);
        check("PATCH", "/api/people/per_a", Need::Admin);
        check("GET", "/api/audit", Need::Admin);
        check("GET", "/api/usage", Need::Admin);
        check("POST", "/api/tokens", Need::Entry);
        check("DELETE", "/api/tokens/tok_a", Need::End);
        check("GET", "/api/me", Need::Entry);
        check("DELETE", "/api/sessions/ses_a", Need::Entry);
    }
}
