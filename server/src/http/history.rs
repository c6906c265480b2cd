//! The history of runs with the same labels.

use super::extract::{Query, labels_of};
use super::here::Here;
use super::packed;
use super::runs::summary;
use crate::app::App;
use crate::history;
use crate::problems::Error;
use crate::who::access::Entry;
use api::history::{History, MOST_RUNS};
use api::labels::Label;
use api::problem::Problem;
use axum::Extension;
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
    Extension(entry): Extension<Entry>,
    Query(pairs): Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let labels = labels_of(&pairs)?;
    let mut history = of(&app, labels).await?;
    history.project = entry.membership.map(|membership| membership.project);
    Ok(packed::json(&headers, &history))
}

/// The history of the newest runs with these labels.
///
/// # Errors
/// The database's.
pub async fn of(app: &App, labels: Vec<Label>) -> Result<History, Error> {
    let read = app
        .store
        .read(move |reader| reader.history(&labels, MOST_RUNS));
    let runs = read.await?.into_iter().map(summary).collect();
    // There are a few hundred numbers: this takes some milliseconds.
    let told = tokio::task::spawn_blocking(move || history::of(runs)).await;
    told.map_err(|_| Error::Panicked)
}
