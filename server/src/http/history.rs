//! The history of runs with the same labels.

use super::extract::{Query, labels_of, run_id};
use super::here::Here;
use super::packed;
use super::runs::summary;
use crate::app::App;
use crate::history;
use crate::problems::Error;
use crate::store::HistoryPart;
use crate::who::access::Entry;
use api::history::{BEFORE, History, MOST_RUNS};
use api::ids::RunId;
use api::labels::Label;
use api::problem::Problem;
use axum::Extension;
use axum::http::HeaderMap;
use axum::response::Response;

/// Runs with these labels, oldest first, and where a number changed for good.
#[utoipa::path(get, path = "/api/history", tag = "runs",
    params(
        ("label" = Option<String>, Query,
            description = "`key=value`: only runs with this label. It can be given several times; \
                           a run has all of them then."),
        ("before" = Option<String>, Query,
            description = "A run: only runs that arrived before it. The answer names the one \
                           (`older`) that goes on with older runs."),
    ),
    responses(
        (status = 200, description = "The newest of these runs, and what changed.",
            body = History),
        (status = 400, body = Problem), (status = 404, body = Problem),
    ))]
pub async fn history(
    Here(app): Here,
    Extension(entry): Extension<Entry>,
    Query(pairs): Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let labels = labels_of(&pairs)?;
    let mut history = of(&app, labels, before_of(&pairs)?).await?;
    history.project = entry.membership.map(|membership| membership.project);
    Ok(packed::json(&headers, &history))
}

/// The run of a query before which older ones are wanted.
///
/// # Errors
/// When it is no id of a run, or there are several.
pub fn before_of(query: &[(String, String)]) -> Result<Option<RunId>, Error> {
    let mut named = query.iter().filter(|(name, _)| name == BEFORE);
    match (named.next(), named.next()) {
        (None, _) => Ok(None),
        (Some((_, run)), None) => run_id(run).map(Some),
        (Some(_), Some(_)) => Err(Error::BadRequest(format!("{BEFORE} can be given once"))),
    }
}

/// The history of the newest runs with these labels, or of the newest before a run.
///
/// # Errors
/// The database's, and when there is no such run.
pub async fn of(app: &App, labels: Vec<Label>, before: Option<RunId>) -> Result<History, Error> {
    let is_newest = before.is_none();
    let read = app.store.read(move |reader| {
        let part = reader.history(&labels, before.as_ref(), MOST_RUNS)?;
        let total = match before.is_none() && part.older.is_none() {
            true => None,
            false => Some(reader.history_length(&labels)?),
        };
        Ok((part, total))
    });
    let (HistoryPart { runs, older }, total) = read.await?;
    let runs = runs.into_iter().map(summary).collect();
    // There are a few hundred numbers: this takes some milliseconds.
    let told = tokio::task::spawn_blocking(move || history::of(runs)).await;
    let mut told = told.map_err(|_| Error::Panicked)?;
    if !is_newest {
        // What follows on the last of these runs is known, and is in a newer part.
        told.changes.retain(|change| change.runs > 1);
    }
    Ok(History {
        total: total.unwrap_or(told.runs.len() as u32),
        older,
        ..told
    })
}
