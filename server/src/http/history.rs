//! The history of runs with the same labels.

use super::App;
use super::extract::Query;
use super::here::Here;
use super::runs::summary;
use super::{labels, packed};
use crate::history;
use crate::problems::Error;
use crate::store::{Slice, Which};
use api::history::History;
use api::labels::Label;
use api::problem::Problem;
use axum::http::HeaderMap;
use axum::response::Response;

/// Runs with these labels, oldest first, and where a number changed for good.
#[utoipa::path(get, path = "/api/history", tag = "runs",
    params(("label" = Option<String>, Query,
        description = "`key=value`: only runs with this label. It can be given several times; \
                       a run has all of them then.")),
    responses(
        (status = 200, description = "The newest of these runs, and what changed.",
            body = History),
        (status = 400, body = Problem),
    ))]
pub async fn history(
    Here(app): Here,
    Query(pairs): Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let labels = labels::named(&pairs)?;
    Ok(packed::json(&headers, &of(&app, labels).await?))
}

/// The history of the newest runs with these labels.
///
/// # Errors
/// The database's.
pub async fn of(app: &App, labels: Vec<Label>) -> Result<History, Error> {
    let newest = Slice {
        offset: 0,
        limit: history::LOOKS_AT as u32,
    };
    let read = app
        .store
        .read(move |reader| reader.runs(Which::Live, &labels, newest));
    let runs = read.await?.into_iter().map(summary).collect();
    // There are a few hundred numbers: this takes some milliseconds.
    let told = tokio::task::spawn_blocking(move || history::of(runs)).await;
    told.map_err(|_| Error::Panicked)
}
