//! Benches: what can be run, and starting, watching, cancelling and repeating them.

use super::audited::Subject;
use super::extract::{Json, Path, Query, bench_id, bench_row_id};
use super::here::Here;
use super::packed;
use super::page::PageQuery;
use crate::app::App;
use crate::problems::Error;
use api::bench::{
    Bench, BenchCatalog, BenchStep, BenchSummary, Frontier, OffloaderGrid, StartBench,
    TensorChanges,
};
use api::ids::BenchId;
use api::problem::Problem;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

/// Configurations, patches, devices and limits.
#[utoipa::path(get, path = "/api/bench/catalog", tag = "bench",
    responses((status = 200, description = "What can be benched here.", body = BenchCatalog)))]
pub async fn catalog(Here(app): Here, headers: HeaderMap) -> Response {
    packed::json(&headers, &app.benches.catalog().await)
}

/// Every offloader on every configuration.
#[utoipa::path(get, path = "/api/bench/offloaders", tag = "bench",
    responses(
        (status = 200,
            description = "What each offloader does to each configuration.",
            body = OffloaderGrid),
    ))]
pub async fn offloaders(headers: HeaderMap) -> Response {
    packed::json(&headers, engine::bench::offloader_grid())
}

/// Peak of memory against step time: every offloader, and fractions, on one workload.
#[utoipa::path(get, path = "/api/bench/frontier", tag = "bench",
    responses(
        (status = 200,
            description = "What each offloader costs in memory and in time.",
            body = Frontier),
    ))]
pub async fn frontier(headers: HeaderMap) -> Response {
    packed::json(&headers, engine::bench::frontier())
}

/// Benches, newest first.
#[utoipa::path(get, path = "/api/bench", tag = "bench", params(PageQuery),
    responses((status = 200, description = "Benches, newest first.", body = Vec<BenchSummary>)))]
pub async fn list(
    Here(app): Here,
    Query(page): Query<PageQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let benches = app.benches.list(page.slice()).await?;
    Ok(packed::json(&headers, &benches))
}

/// Queues rows; each configuration gets its baseline, even if it was not requested.
#[utoipa::path(post, path = "/api/bench", tag = "bench", request_body = StartBench,
    responses(
        (status = 201, description = "The bench was queued.", body = Bench),
        (status = 400, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn start(Here(app): Here, Json(request): Json<StartBench>) -> Result<Response, Error> {
    let bench = app.benches.start(&request).await?;
    let subject = Subject::of(&bench.id);
    Ok((StatusCode::CREATED, subject, axum::Json(bench)).into_response())
}

/// A bench with its rows, as they stand now.
#[utoipa::path(get, path = "/api/bench/{bench}", tag = "bench", params(("bench" = String, Path)),
    responses(
        (status = 200, description = "The bench with its rows.", body = Bench),
        (status = 404, body = Problem),
    ))]
pub async fn get(
    Here(app): Here,
    Path(bench): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let bench = app.benches.bench(&bench_id(&bench)?).await?;
    Ok(packed::json(&headers, &bench))
}

/// Forgets a bench; the runs of its rows stay.
#[utoipa::path(delete, path = "/api/bench/{bench}", tag = "bench",
    params(("bench" = String, Path)),
    responses(
        (status = 204, description = "The bench was deleted."),
        (status = 404, body = Problem), (status = 409, body = Problem),
    ))]
pub async fn delete(Here(app): Here, Path(bench): Path<String>) -> Result<StatusCode, Error> {
    app.benches.delete(&bench_id(&bench)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Cancels the rows of a bench that are not finished.
#[utoipa::path(post, path = "/api/bench/{bench}/cancel", tag = "bench",
    params(("bench" = String, Path)),
    responses(
        (status = 200, description = "The bench, with its rows cancelled.", body = Bench),
        (status = 404, body = Problem),
    ))]
pub async fn cancel(
    Here(app): Here,
    Path(bench): Path<String>,
) -> Result<axum::Json<Bench>, Error> {
    let id = bench_id(&bench)?;
    app.benches.cancel(&id).await?;
    answer(&app, &id).await
}

/// Cancels a row. One that is under way ends a moment later.
#[utoipa::path(post, path = "/api/bench/rows/{row}/cancel", tag = "bench",
    params(("row" = String, Path)),
    responses(
        (status = 200, description = "The bench of the row, which is cancelled.", body = Bench),
        (status = 404, body = Problem), (status = 409, body = Problem),
    ))]
pub async fn cancel_row(
    Here(app): Here,
    Path(row): Path<String>,
) -> Result<axum::Json<Bench>, Error> {
    let bench = app.benches.cancel_row(bench_row_id(&row)?).await?;
    answer(&app, &bench).await
}

/// Runs a finished row again.
#[utoipa::path(post, path = "/api/bench/rows/{row}/rerun", tag = "bench",
    params(("row" = String, Path)),
    responses(
        (status = 200, description = "The bench of the row, which is queued again.", body = Bench),
        (status = 404, body = Problem), (status = 409, body = Problem),
    ))]
pub async fn rerun_row(
    Here(app): Here,
    Path(row): Path<String>,
) -> Result<axum::Json<Bench>, Error> {
    let bench = app.benches.rerun(bench_row_id(&row)?).await?;
    answer(&app, &bench).await
}

/// Every step that a row has done so far, as numbers, also while it runs.
#[utoipa::path(get, path = "/api/bench/rows/{row}/steps", tag = "bench",
    params(("row" = String, Path)),
    responses(
        (status = 200,
            description = "The steps that the row has done so far.",
            body = Vec<BenchStep>),
        (status = 404, body = Problem),
    ))]
pub async fn steps(
    Here(app): Here,
    Path(row): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let steps = app.benches.steps(bench_row_id(&row)?).await?;
    Ok(packed::json(&headers, &steps))
}

/// Which row to compare with.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct BeforeQuery {
    /// A row of the same bench: in a root-cause chain, the one before.
    before: String,
}

/// The tensors that only one of two rows of a bench leaves alive at the ends of their recordings.
#[utoipa::path(get, path = "/api/bench/rows/{row}/tensors", tag = "bench",
    params(("row" = String, Path), BeforeQuery),
    responses(
        (status = 200,
            description = "Which tensors the row keeps, and which its predecessor kept.",
            body = TensorChanges),
        (status = 404, body = Problem),
    ))]
pub async fn tensors(
    Here(app): Here,
    Path(row): Path<String>,
    Query(query): Query<BeforeQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let (before, row) = (bench_row_id(&query.before)?, bench_row_id(&row)?);
    let changes = app.benches.tensors_between(before, row).await?;
    Ok(packed::json(&headers, &changes))
}

async fn answer(app: &App, bench: &BenchId) -> Result<axum::Json<Bench>, Error> {
    Ok(axum::Json(app.benches.bench(bench).await?))
}
