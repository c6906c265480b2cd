//! Does a run leak, and how did it grow?

use super::App;
use super::error::Error;
use super::extract::{Path, Query, dimension, run_id};
use super::packed::{self, Keep};
use super::pictures::Version;
use crate::questions;
use api::alive::Growth;
use api::ids::RunId;
use api::leaks::Leaks;
use api::problem::Problem;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use std::sync::Arc;

/// What the bands of a growth chart stand for.
#[derive(Deserialize, utoipa::IntoParams)]
pub struct GrowthQuery {
    /// `site` unless given: site, stack, module, file, function, category, stream or pool.
    by: Option<String>,
}

/// The verdict about a device, and what accumulates.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/leaks", tag = "leaks",
    params(("run" = String, Path), ("device" = u32, Path), Version),
    responses((status = 200, body = Leaks), (status = 404, body = Problem)))]
pub async fn leaks(
    State(app): State<Arc<App>>,
    Path((run, device)): Path<(String, u32)>,
    Query(version): Query<Version>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let run = run_id(&run)?;
    let keep = match version.is(Leaks::VERSION) {
        true => Keep::Forever,
        false => Keep::Ask,
    };
    let etag = format!("W/\"{run}-{device}-leaks-v{}\"", Leaks::VERSION);
    let leaks = app.uploads.judge().leaks(&run, device).await?;
    Ok(packed::immutable_json(&headers, &leaks, etag, keep))
}

/// What is alive at the end of each step, by group.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/growth", tag = "leaks",
    params(("run" = String, Path), ("device" = u32, Path), GrowthQuery),
    responses((status = 200, body = Growth), (status = 400, body = Problem),
              (status = 404, body = Problem)))]
pub async fn growth(
    State(app): State<Arc<App>>,
    Path((run, device)): Path<(String, u32)>,
    Query(query): Query<GrowthQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let run: RunId = run_id(&run)?;
    let by = dimension(query.by.as_deref().unwrap_or("site"))?;
    let leaks = app.uploads.judge().leaks(&run, device).await?;
    let sites: Vec<_> = leaks
        .groups
        .iter()
        .filter_map(|g| g.site.parse().ok())
        .collect();
    let etag = super::alive::etag(&run, device, "growth", by.name());
    super::alive::answer(&app, run, device, &headers, etag, move |decoded, device| {
        Ok(questions::growth(decoded, device, by, &sites))
    })
    .await
}
