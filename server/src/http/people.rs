//! People, their tokens, and the audit.

use super::audited::{self, Subject};
use super::extract::{Json, Path, Query, person_id, token_id};
use super::packed;
use super::page::PageQuery;
use super::permits;
use crate::app::App;
use crate::problems::Error;
use crate::projects::ProjectError;
use crate::store::{Slice, WhichEntries};
use crate::who::access::{Entry, Who};
use api::ids::PersonId;
use api::people::{
    AddedPerson, AuditEntry, ChangePerson, CreatedToken, Me, NewPerson, NewToken, Person,
    PersonalToken,
};
use api::problem::Problem;
use api::projects::ProjectName;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;

/// Who asks, and what they may do.
#[utoipa::path(get, path = "/api/me", tag = "people",
    responses((status = 200, description = "Who asks.", body = Me)))]
pub async fn me(Extension(entry): Extension<Entry>) -> axum::Json<Me> {
    axum::Json(Me {
        person: entry.person().cloned(),
        scopes: entry.scopes,
        admin: entry.is_admin(),
    })
}

/// All people, including those who have left.
#[utoipa::path(get, path = "/api/people", tag = "people",
    responses(
        (status = 200, description = "Everybody, by name.", body = Vec<Person>),
        (status = 403, body = Problem),
    ))]
pub async fn list(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    packed::json(&headers, &app.gate.people.list())
}

/// Adds a person, and makes the token that they sign in with first. It may do no more than the
/// token that asks for it, and ends no later. The first person must be an admin, and from then on
/// everybody needs a token.
#[utoipa::path(post, path = "/api/people", tag = "people", request_body = NewPerson,
    responses(
        (status = 201,
            description = "The person and a token. Its secret is shown only here.",
            body = AddedPerson),
        (status = 400, body = Problem), (status = 403, body = Problem),
        (status = 409, body = Problem),
    ))]
pub async fn add(
    State(app): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
    Json(new): Json<NewPerson>,
) -> Result<Response, Error> {
    let added = add_by(&app, &entry, &new).await?;
    let subject = Subject(format!("{} ({})", added.person.name, added.person.role));
    Ok((StatusCode::CREATED, Extension(subject), axum::Json(added)).into_response())
}

/// Adds a person for somebody. The first token may do no more than the token that was shown, and
/// ends with it at the latest.
///
/// # Errors
/// For example if there is somebody with this name.
pub async fn add_by(app: &App, entry: &Entry, new: &NewPerson) -> Result<AddedPerson, Error> {
    let (scopes, until) = (app.projects.reach(entry), latest_end(app, entry)?);
    let people = &app.gate.people;
    let added = match entry.who {
        Who::Anybody => {
            people
                .add_first(new, scopes, until, app.store.latest_ms())
                .await?
        }
        _ => {
            people
                .add_within(new, scopes, until, app.store.latest_ms())
                .await?
        }
    };
    Ok(added)
}

/// When a token must end that this client makes; `None`: it may last for ever.
fn latest_end(app: &App, entry: &Entry) -> Result<Option<i64>, Error> {
    match &entry.token {
        Some(token) => Ok(app.gate.people.end_of(token)?),
        None => Ok(None),
    }
}

/// Changes what a person may do, or ends their access at once: tokens and sessions too.
#[utoipa::path(patch, path = "/api/people/{person}", tag = "people",
    params(("person" = String, Path)), request_body = ChangePerson,
    responses(
        (status = 200, description = "The person as they are now.", body = Person),
        (status = 400, body = Problem), (status = 403, body = Problem),
        (status = 404, body = Problem),
    ))]
pub async fn change(
    State(app): State<Arc<App>>,
    Path(person): Path<String>,
    Json(change): Json<ChangePerson>,
) -> Result<Response, Error> {
    let id = person_id(&person)?;
    let person = app
        .gate
        .change_person(&id, &change, app.store.latest_ms())
        .await?;
    Ok((Extension(Subject(told(&person))), axum::Json(person)).into_response())
}

/// `bo (reader)`, `bo (left)`.
pub fn told(person: &Person) -> String {
    match person.left_ms {
        None => format!("{} ({})", person.name, person.role),
        Some(_) => format!("{} (left)", person.name),
    }
}

/// Whose tokens to list.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TokensQuery {
    /// Those of this person; yours, unless given. Only an admin sees those of others.
    person: Option<String>,
}

/// Tokens, newest first, without their secrets. One that is bound to a project lists only itself.
#[utoipa::path(get, path = "/api/tokens", tag = "people", params(TokensQuery),
    responses(
        (status = 200, description = "The tokens, newest first.", body = Vec<PersonalToken>),
        (status = 403, body = Problem),
    ))]
pub async fn tokens(
    State(app): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
    Query(query): Query<TokensQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let asked = query.person.as_deref().map(person_id).transpose()?;
    let found = match asked.or_else(|| own(&entry)) {
        Some(person) => {
            mine(&entry, &person)?;
            app.gate.tokens(&entry, &person)
        }
        None => Vec::new(),
    };
    Ok(packed::json(&headers, &found))
}

/// Makes a token: yours, or, by an admin, for somebody else.
#[utoipa::path(post, path = "/api/tokens", tag = "people", request_body = NewToken,
    responses(
        (status = 201,
            description = "The token. Its secret is shown only here.",
            body = CreatedToken),
        (status = 400, body = Problem), (status = 403, body = Problem),
        (status = 404, body = Problem),
    ))]
pub async fn make_token(
    State(app): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
    Json(new): Json<NewToken>,
) -> Result<Response, Error> {
    let made = make(&app, &entry, &new).await?;
    let subject = Subject(format!("{} ({})", made.token.name, made.token.scopes));
    Ok((StatusCode::CREATED, Extension(subject), axum::Json(made)).into_response())
}

/// Makes a token for the requested person, if they may have it.
///
/// # Errors
/// When the new token could do more than the one that makes it. It ends with that one at the
/// latest.
pub async fn make(app: &App, entry: &Entry, new: &NewToken) -> Result<CreatedToken, Error> {
    permits::tokens(entry)?;
    let Some(person) = new.person.clone().or_else(|| own(entry)) else {
        return Err(Error::BadRequest(
            "a token belongs to a person: name one (`person`), or sign in as one".to_owned(),
        ));
    };
    mine(entry, &person)?;
    let reach = app.projects.reach(entry);
    if new.scopes.both(reach) != new.scopes {
        return Err(Error::BadRequest(format!(
            "a token cannot make one that may do more than itself: {reach}"
        )));
    }
    if let Some(project) = &new.project
        && app.projects.role(entry, project).is_none()
    {
        return Err(ProjectError::Unknown(project.to_string()).into());
    }
    let until = latest_end(app, entry)?;
    Ok(app
        .gate
        .people
        .make_token_until(&person, new, until, app.store.latest_ms())
        .await?)
}

/// Ends a token at once, with the sessions that were opened with it.
#[utoipa::path(delete, path = "/api/tokens/{token}", tag = "people",
    params(("token" = String, Path)),
    responses(
        (status = 204, description = "The token opens nothing any more."),
        (status = 403, body = Problem), (status = 404, body = Problem),
    ))]
pub async fn end_token(
    State(app): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
    Path(token): Path<String>,
) -> Result<StatusCode, Error> {
    end(&app, &entry, &token).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends a token of the person who asks; an admin may end anybody's. Any token may end itself.
///
/// # Errors
/// When the token belongs to somebody else, and when the one that asks may not end others.
pub async fn end(app: &App, entry: &Entry, token: &str) -> Result<(), Error> {
    let id = token_id(token)?;
    if entry.token.as_ref() != Some(&id) {
        permits::tokens(entry)?;
    }
    mine(entry, &app.gate.people.owner_of(&id)?)?;
    Ok(app.gate.people.end_token(&id).await?)
}

/// Which part of the audit.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Only what somebody of this name did.
    who: Option<String>,
    /// Only what is called this: `delete_run`, `upload`, `make_token` …
    action: Option<String>,
    /// Only what was done to something with this text in its name or its id, in whatever case: in
    /// the name that it had then, or has now in an open project.
    about: Option<String>,
    /// Only what was done in this project. What names no project was done in the first one.
    project: Option<String>,
}

impl AuditQuery {
    /// The entries that are asked for.
    fn which(self) -> Result<WhichEntries, Error> {
        let project = self.project.map(|name| name.parse::<ProjectName>());
        let project = project.transpose();
        Ok(WhichEntries {
            who: self.who,
            action: self.action.map(known_action).transpose()?,
            about: self.about,
            ids: Vec::new(),
            project: project.map_err(|error| Error::BadRequest(format!("project: {error}")))?,
        })
    }
}

/// A word of the audit: a misspelt one would find nothing, as if nothing had been done.
///
/// # Errors
/// [`Error::BadRequest`], with all of them.
pub fn known_action(action: String) -> Result<String, Error> {
    let all = audited::actions();
    match all.contains(action.as_str()) {
        true => Ok(action),
        false => {
            let all: Vec<&str> = all.into_iter().collect();
            let all = all.join(", ");
            Err(Error::BadRequest(format!(
                "nothing that is done is called `{action}`; there are {all}"
            )))
        }
    }
}

/// What was done, newest first: the last 100,000 things.
#[utoipa::path(get, path = "/api/audit", tag = "people", params(AuditQuery, PageQuery),
    responses(
        (status = 200, description = "What was done, newest first.", body = Vec<AuditEntry>),
        (status = 400, body = Problem), (status = 403, body = Problem),
    ))]
pub async fn audit(
    State(app): State<Arc<App>>,
    Query(query): Query<AuditQuery>,
    Query(page): Query<PageQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let entries = read_audit(&app, query.which()?, page.slice()).await?;
    Ok(packed::json(&headers, &entries))
}

/// The entries that are asked for, newest first. Things are found by the names that they have now,
/// too.
///
/// # Errors
/// The database's.
pub async fn read_audit(
    main: &Arc<App>,
    mut which: WhichEntries,
    slice: Slice,
) -> Result<Vec<AuditEntry>, Error> {
    if let Some(about) = &which.about {
        let mut open = main.projects.all_open(main);
        open.retain(|app| which.project.as_ref().is_none_or(|of| *of == app.project));
        for app in open {
            let about = about.clone();
            let called = app.store.read(move |reader| reader.ids_called(&about));
            match called.await {
                Ok(ids) => which.ids.extend(ids),
                // What the entries themselves say is found without it.
                Err(error) => tracing::debug!(project = %app.project, %error, "no names"),
            }
        }
    }
    let read = main.store.read(move |reader| reader.audit(&which, slice));
    Ok(read.await?)
}

fn own(entry: &Entry) -> Option<PersonId> {
    entry.person().map(|person| person.id.clone())
}

/// Only an admin may manage what belongs to others.
fn mine(entry: &Entry, person: &PersonId) -> Result<(), Error> {
    match entry.is_admin() || own(entry).as_ref() == Some(person) {
        true => Ok(()),
        false => Err(Error::NotAdmin),
    }
}
