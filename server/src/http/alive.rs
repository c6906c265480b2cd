//! What is alive at a moment, what came and went between two, and the allocations themselves.

use super::App;
use super::audience::Audience;
use super::error::Error;
use super::extract::{Path, Query, dimension, run_id};
use super::packed::{self, Keep};
use crate::pictures::Decoded;
use crate::questions;
use api::alive::{Alive, AllocationFilter, AllocationPage, Changes};
use api::ids::RunId;
use api::problem::Problem;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trace::span::Span;
use trace::trace::{BlockIdx, DeviceTrace};
use trace::units::EventIdx;

/// Which moment, and what the groups stand for.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AliveQuery {
    /// The event; the last one unless given.
    at: Option<u32>,
    /// `stack` unless given: stack, module, file, function, category, stream, pool or site.
    by: Option<String>,
}

/// Which moments, and what the groups stand for.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ChangesQuery {
    /// The first moment: an event.
    from: u32,
    /// The second moment: an event.
    to: u32,
    /// As for what is alive.
    by: Option<String>,
}

/// Which part of the list.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Allocations before this page.
    #[serde(default)]
    offset: u64,
    /// Allocations on it; 100 unless given, 500 at most.
    limit: Option<usize>,
}

/// What is alive at an event: groups, and a tree of stacks.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/alive", tag = "alive",
    params(("run" = String, Path), ("device" = u32, Path), AliveQuery),
    responses((status = 200, body = Alive), (status = 400, body = Problem),
              (status = 404, body = Problem)))]
pub async fn alive(
    State(app): State<Arc<App>>,
    Path((run, device)): Path<(String, u32)>,
    Query(query): Query<AliveQuery>,
    audience: Audience,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let run = run_id(&run)?;
    let by = dimension(query.by.as_deref().unwrap_or("stack"))?;
    let etag = etag(
        &run,
        device,
        "alive",
        &format!("{:?}-{}", query.at, by.name()),
    );
    answer(
        &app,
        (run, device),
        &audience,
        &headers,
        etag,
        move |decoded, device| {
            let last = device.events.len().checked_sub(1);
            let at = event(device, query.at.or(last).unwrap_or(0))?;
            Ok(questions::alive(decoded, device, at, by))
        },
    )
    .await
}

/// What came and what went between two events.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/changes", tag = "alive",
    params(("run" = String, Path), ("device" = u32, Path), ChangesQuery),
    responses((status = 200, body = Changes), (status = 400, body = Problem),
              (status = 404, body = Problem)))]
pub async fn changes(
    State(app): State<Arc<App>>,
    Path((run, device)): Path<(String, u32)>,
    Query(query): Query<ChangesQuery>,
    audience: Audience,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let run = run_id(&run)?;
    let by = dimension(query.by.as_deref().unwrap_or("stack"))?;
    if query.from > query.to {
        let why = "the first moment comes after the second one";
        return Err(Error::BadRequest(why.to_owned()));
    }
    let what = format!("{}-{}-{}", query.from, query.to, by.name());
    let etag = etag(&run, device, "changes", &what);
    answer(
        &app,
        (run, device),
        &audience,
        &headers,
        etag,
        move |decoded, device| {
            let events = Span::new(event(device, query.from)?, event(device, query.to)?);
            Ok(questions::changes(decoded, device, events, by))
        },
    )
    .await
}

/// A page of the allocations that a filter finds.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/allocations", tag = "alive",
    params(("run" = String, Path), ("device" = u32, Path), AllocationFilter, PageQuery),
    responses((status = 200, body = AllocationPage), (status = 400, body = Problem),
              (status = 404, body = Problem)))]
pub async fn allocations(
    State(app): State<Arc<App>>,
    Path((run, device)): Path<(String, u32)>,
    Query(filter): Query<AllocationFilter>,
    Query(page): Query<PageQuery>,
    audience: Audience,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let run = run_id(&run)?;
    let limit = page.limit.unwrap_or(100);
    let what = format!("{}-{limit}{}", page.offset, filter.query());
    let etag = etag(&run, device, "allocations", &api::query::encode(&what));
    answer(
        &app,
        (run, device),
        &audience,
        &headers,
        etag,
        move |decoded, device| {
            let found = questions::page(decoded, device, &filter, page.offset, limit);
            found.map_err(|error| Error::BadRequest(error.to_string()))
        },
    )
    .await
}

/// What was allocated before and after a block.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/blocks/{block}/beside", tag = "alive",
    params(("run" = String, Path), ("device" = u32, Path), ("block" = u32, Path)),
    responses((status = 200, body = AllocationPage), (status = 404, body = Problem)))]
pub async fn beside(
    State(app): State<Arc<App>>,
    Path((run, device, block)): Path<(String, u32, u32)>,
    audience: Audience,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let run = run_id(&run)?;
    let etag = etag(&run, device, "beside", &block.to_string());
    answer(
        &app,
        (run, device),
        &audience,
        &headers,
        etag,
        move |decoded, device| {
            let found = questions::beside(decoded, device, BlockIdx(block));
            found.ok_or_else(|| {
                Error::NotFound(format!("block {block} on device {}", device.device))
            })
        },
    )
    .await
}

fn event(device: &DeviceTrace, event: u32) -> Result<EventIdx, Error> {
    match event < device.events.len() {
        true => Ok(EventIdx(event)),
        false => Err(Error::NotFound(format!(
            "event {event} on device {}",
            device.device
        ))),
    }
}

/// A run's id names its content, so the question names the answer.
pub(super) fn etag(run: &RunId, device: u32, what: &str, question: &str) -> String {
    let version = api::alive::VERSION;
    format!("W/\"{run}-{device}-{what}-{question}-v{version}\"")
}

/// Asks the decoded trace of a run, off the runtime's threads.
pub(super) async fn answer<T: Serialize + Send + 'static>(
    app: &App,
    (run, device): (RunId, u32),
    audience: &Audience,
    headers: &HeaderMap,
    etag: String,
    ask: impl FnOnce(&Decoded, &DeviceTrace) -> Result<T, Error> + Send + 'static,
) -> Result<Response, Error> {
    let trace = app.store.read(move |reader| reader.run_ref(&run));
    let trace = trace.await?.trace;
    let redaction = audience.redaction();
    let etag = audience.tagged(etag);
    if let Some(response) = packed::not_modified(headers, &etag, Keep::Ask) {
        return Ok(response);
    }
    let decoded = app.pictures.traces.get_for(trace, redaction).await?;
    let work = tokio::task::spawn_blocking(move || ask(&decoded, decoded.device(device)?));
    let value = work.await.map_err(|_| Error::Panicked)??;
    Ok(packed::immutable_json(headers, &value, etag, Keep::Ask))
}
