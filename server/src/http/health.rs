//! Answers for programs that watch the server: whether it is alive, and whether it can answer.
//!
//! Both are open to everybody who can reach the server, and say nothing about stored data.

use crate::app::App;
use crate::problems::Error;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;

/// The answer.
#[derive(Debug, Serialize)]
struct Health {
    status: &'static str,
    /// Whether new data is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    writes: Option<&'static str>,
}

/// The process answers.
pub async fn alive() -> Response {
    uncached(Health {
        status: "ok",
        writes: None,
    })
}

/// Whether the database answers. A server that can only read counts as ready, and says so.
///
/// # Errors
/// When the database does not answer, or is damaged.
pub async fn ready(State(app): State<Arc<App>>) -> Result<Response, Error> {
    app.store.read(|reader| reader.database()).await?;
    let writes = match app.store.refusal() {
        // Uploads and reports are refused then.
        None if app.check_free().is_err() => "refused",
        None => "accepted",
        Some(damage) if damage.is_damage() => return Err(damage.into()),
        Some(_) => "refused",
    };
    Ok(uncached(Health {
        status: "ready",
        writes: Some(writes),
    }))
}

fn uncached(health: Health) -> Response {
    let mut response = Json(health).into_response();
    let control = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, control);
    response
}
