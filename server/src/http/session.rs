//! The page's first questions: who is signed in, and may the client come in.

use super::audited::SignedIn;
use super::cookies::{self, cookies};
use super::credentials::entry;
use super::extract::{Client, Json, Path, session_id};
use super::permits;
use crate::app::App;
use crate::problems::Error;
use crate::store::StoreError;
use crate::system::plain::plain;
use crate::who::access::{COOKIE, Entry, Shown};
use crate::who::sessions::{LIFE_S, Visitor};
use api::problem::Problem;
use api::runs::{Access, OpenSession, ServerInfo, Sessions};
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Version, limits, and whether a token is needed.
#[utoipa::path(get, path = "/api/server", tag = "server",
    responses(
        (status = 200,
            description = "What the server is and may do for this client.",
            body = ServerInfo),
        (status = 429, body = Problem),
    ))]
pub async fn server(
    State(app): State<Arc<App>>,
    client: Client,
    headers: HeaderMap,
) -> Result<axum::Json<ServerInfo>, Error> {
    Ok(axum::Json(ServerInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        upload_limit: app.config.upload_limit,
        access: entry(&app, &headers, client).await?.access,
        now_ms: Some(app.store.latest_ms()),
    }))
}

/// Opens a session for a client that knows the token; a cookie holds its secret.
#[utoipa::path(post, path = "/api/session", tag = "server", request_body = OpenSession,
    responses(
        (status = 204, description = "The session is open; the cookie is set."),
        (status = 401, body = Problem), (status = 429, body = Problem),
    ))]
pub async fn open(
    State(app): State<Arc<App>>,
    client: Client,
    headers: HeaderMap,
    Json(request): Json<OpenSession>,
) -> Result<Response, Error> {
    let shown = Shown {
        token: Some(&request.token),
        ..Shown::default()
    };
    let entry = app
        .gate
        .check(shown, client.address, app.store.latest_ms())?;
    if entry.access == Access::TokenNeeded {
        return Err(Error::WrongToken);
    }
    let secret = start(&app, &entry, &headers, client).await?;
    let cookie = cookies::of_session(&secret, LIFE_S, client.scheme);
    let who = Extension(SignedIn(entry));
    Ok((StatusCode::NO_CONTENT, who, cookie).into_response())
}

/// Opens a session for a client with this entry, and ends its old one. Returns the secret.
///
/// # Errors
/// The database's.
pub async fn start(
    app: &App,
    entry: &Entry,
    headers: &HeaderMap,
    client: Client,
) -> Result<String, Error> {
    let agent = headers.get(header::USER_AGENT);
    let agent = agent
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let visitor = Visitor {
        address: client.address.to_string(),
        agent: plain(agent),
    };
    let opened = app
        .gate
        .open_session(entry, visitor, app.store.latest_ms())
        .await?;
    end_shown(app, headers).await?;
    Ok(opened.unwrap_or_default())
}

/// Ends the session that asks.
#[utoipa::path(delete, path = "/api/session", tag = "server",
    responses(
        (status = 204, description = "The session is closed; the cookie is cleared."),
    ))]
pub async fn close(
    State(app): State<Arc<App>>,
    client: Client,
    headers: HeaderMap,
) -> Result<Response, Error> {
    end_shown(&app, &headers).await?;
    let cookie = cookies::of_session("", 0, client.scheme);
    Ok((StatusCode::NO_CONTENT, cookie).into_response())
}

/// The person's sessions that have not ended (for an admin: all; with a token that is bound to a
/// project: only the one that asks), and how many wrong tokens there were.
#[utoipa::path(get, path = "/api/sessions", tag = "server",
    responses((status = 200, description = "Who is signed in.", body = Sessions)))]
pub async fn list(
    State(app): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
) -> axum::Json<Sessions> {
    let tally = app.gate.tally();
    axum::Json(Sessions {
        sessions: app.gate.sessions(&entry, app.store.latest_ms()),
        wrong: tally.wrong,
        refused: tally.refused,
    })
}

/// Ends all of one's own sessions but the one that asks.
#[utoipa::path(delete, path = "/api/sessions", tag = "server",
    responses(
        (status = 204, description = "All other sessions are closed."),
    ))]
pub async fn revoke_others(
    State(app): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
) -> Result<StatusCode, Error> {
    permits::tokens(&entry)?;
    app.gate.end_other_sessions(&entry).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends a session: its browser must type the token again.
#[utoipa::path(delete, path = "/api/sessions/{session}", tag = "server",
    params(("session" = String, Path)),
    responses(
        (status = 204, description = "The session is closed."),
        (status = 404, body = Problem),
    ))]
pub async fn revoke(
    State(app): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
    Path(session): Path<String>,
) -> Result<StatusCode, Error> {
    let id = session_id(&session)?;
    if entry.session.as_ref() != Some(&id) {
        permits::tokens(&entry)?;
    }
    app.gate.end_session(&entry, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends the session of the cookie, if there is one.
///
/// # Errors
/// The database's.
pub async fn end_shown(app: &App, headers: &HeaderMap) -> Result<(), Error> {
    let session = cookies(headers).find(|(name, _)| *name == COOKIE);
    let shown = Shown {
        session: session.map(|(_, value)| value),
        ..Shown::default()
    };
    let here = crate::limits::clients::ClientAddress::UNKNOWN;
    let entry = app.gate.check(shown, here, app.store.latest_ms())?;
    let Some(id) = entry.session.clone() else {
        return Ok(());
    };
    match app.gate.end_session(&entry, &id).await {
        // It has just ended by itself.
        Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
