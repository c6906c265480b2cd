//! Recorded comparisons: list, record, read, delete.

use super::audited::Subject;
use super::compare::rows;
use super::extract::{Json, Path, Query, compared_runs, comparison_id};
use super::here::Here;
use super::packed;
use super::page::PageQuery;
use crate::identity;
use crate::problems::Error;
use crate::store::{Reader, StoredRun};
use crate::system::clock::now_ms;
use crate::who::access::Entry;
use answers::run_names;
use api::compare::{self, PULL_REQUEST_RULE, RecordComparison, RecordedComparison, listed};
use api::people::Scope;
use api::problem::Problem;
use axum::Extension;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

/// Which comparisons to list.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Those of this pull request only.
    pr: Option<String>,
}

/// Recorded comparisons, newest first.
#[utoipa::path(get, path = "/api/comparisons", tag = "compare", 
    params(ListQuery, PageQuery),
    responses(
        (status = 200,
            description = "Recorded comparisons, newest first.",
            body = Vec<RecordedComparison>),
    ))]
pub async fn list(
    Here(app): Here,
    Query(query): Query<ListQuery>,
    Query(page): Query<PageQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let slice = page.slice();
    let list = move |reader: &Reader<'_>| reader.comparisons(query.pr.as_deref(), slice);
    let read = app.store.read(list);
    Ok(packed::json(&headers, &read.await?))
}

/// Records a comparison, with the pull request it belongs to. Recording it again changes nothing
/// but its name, if it brings one.
#[utoipa::path(post, path = "/api/comparisons", tag = "compare",
    request_body = RecordComparison,
    responses(
        (status = 200, description = "The comparison was recorded.", body = RecordedComparison),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem),
    ))]
pub async fn record(
    Here(app): Here,
    Extension(entry): Extension<Entry>,
    Json(request): Json<RecordComparison>,
) -> Result<Response, Error> {
    let runs = compared_runs(&listed(&request.runs))?;
    let rows = rows(&app, runs.clone()).await?;
    let pr = request.pr.as_deref().map(pull_request).transpose()?;
    let names: Vec<String> = rows.iter().map(StoredRun::called).collect();
    let name = match &request.name {
        Some(name) => run_names::typed(name)?,
        None => names.join(" → ").chars().take(200).collect(),
    };
    let comparison = RecordedComparison {
        id: identity::comparison_id(&runs, pr.as_deref()),
        name,
        runs,
        pr,
        created_ms: now_ms(),
    };
    let renames = request.name.is_some();
    let typed = request.name.clone().unwrap_or_default();
    let write = app.store.write(move |writer| {
        writer.record_comparison(&comparison, renames)?;
        writer.reader().comparison(&comparison.id)
    });
    let mut recorded = write.await?;
    let subject = Extension(Subject::called(&recorded.name, &recorded.id));
    if !entry.may(Scope::Read) {
        // Otherwise it says what others called their runs.
        recorded.name = typed;
    }
    Ok((subject, axum::Json(recorded)).into_response())
}

/// One recorded comparison.
#[utoipa::path(get, path = "/api/comparisons/{comparison}", tag = "compare",
    params(("comparison" = String, Path)),
    responses(
        (status = 200, description = "The recorded comparison.", body = RecordedComparison),
        (status = 404, body = Problem),
    ))]
pub async fn get(
    Here(app): Here,
    Path(comparison): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let id = comparison_id(&comparison)?;
    let read = app.store.read(move |reader| reader.comparison(&id));
    Ok(packed::json(&headers, &read.await?))
}

/// Forgets a recorded comparison; its runs stay.
#[utoipa::path(delete, path = "/api/comparisons/{comparison}", tag = "compare",
    params(("comparison" = String, Path)),
    responses(
        (status = 200,
            description = "The comparison that is forgotten now.",
            body = RecordedComparison),
        (status = 404, body = Problem),
    ))]
pub async fn forget(
    Here(app): Here,
    Path(comparison): Path<String>,
) -> Result<axum::Json<RecordedComparison>, Error> {
    let id = comparison_id(&comparison)?;
    let write = app.store.write(move |writer| {
        let comparison = writer.reader().comparison(&id)?;
        writer.forget_comparison(&id)?;
        Ok(comparison)
    });
    Ok(axum::Json(write.await?))
}

/// An address that a page may link to: a `javascript:` address would run code when it is clicked.
fn pull_request(address: &str) -> Result<String, Error> {
    let kept = compare::pull_request(address).map(str::to_owned);
    kept.ok_or_else(|| Error::BadRequest(PULL_REQUEST_RULE.to_owned()))
}
