//! What the page asks first: who is there, and may I come in.

use super::App;
use super::error::Error;
use super::extract::Json;
use super::guard;
use crate::access::COOKIE;
use api::problem::Problem;
use api::runs::{Access, OpenSession, ServerInfo};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::Duration;

/// How long a typed token is remembered.
const REMEMBERED_S: u32 = 30 * 24 * 3600;

/// A wrong guess takes this long, so that guessing is slow.
const PENALTY: Duration = Duration::from_millis(500);

/// Version, limits, and whether a token is needed.
#[utoipa::path(get, path = "/api/server", tag = "server",
    responses((status = 200, body = ServerInfo)))]
pub async fn server(State(app): State<Arc<App>>, headers: HeaderMap) -> axum::Json<ServerInfo> {
    axum::Json(ServerInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        upload_limit: app.config.upload_limit.get(),
        access: guard::access(&app, &headers),
    })
}

/// Remembers the token in a cookie.
#[utoipa::path(post, path = "/api/session", tag = "server", request_body = OpenSession,
    responses((status = 204), (status = 401, body = Problem)))]
pub async fn open(
    State(app): State<Arc<App>>,
    Json(request): Json<OpenSession>,
) -> Result<Response, Error> {
    let right = app.gate.check(Some(&request.token), None) != Access::TokenNeeded;
    if !right {
        tokio::time::sleep(PENALTY).await;
        return Err(Error::WrongToken);
    }
    let session = app.gate.session().unwrap_or_default();
    Ok(with_cookie(&session, REMEMBERED_S))
}

/// Forgets the token.
#[utoipa::path(delete, path = "/api/session", tag = "server", responses((status = 204)))]
pub async fn close() -> Response {
    with_cookie("", 0)
}

fn with_cookie(value: &str, seconds: u32) -> Response {
    let cookie = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}");
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}
