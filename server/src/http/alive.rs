//! What is alive at a moment and where it lies, what was allocated and freed between two moments,
//! and single allocations.

use super::extract::{Path, Query, dimension};
use super::question::{Question, StepsQuery};
use crate::pictures::Decoded;
use crate::problems::Error;
use answers::questions;
use answers::questions::asked::{self, Misasked};
use api::alive::{Alive, AllocationFilter, AllocationPage, Changes};
use api::memory_map::{self, MemoryMap, RoomOverTime};
use api::problem::Problem;
use axum::response::Response;
use serde::Deserialize;
use std::num::NonZeroUsize;
use trace::trace::{BlockIdx, DeviceTrace};
use trace::watch::Watch;

/// Which moment, and what the groups stand for.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AliveQuery {
    /// The event; the last one unless given. A recording without events is asked for its state.
    at: Option<u32>,
    /// `true` for the moment before the first event, instead of `at`.
    #[serde(default)]
    start: bool,
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
    /// Allocations on it; 100 unless given, 1 at least and 500 at most.
    #[param(value_type = Option<usize>, minimum = 1)]
    limit: Option<NonZeroUsize>,
}

/// The block whose neighbours are wanted.
#[derive(Deserialize)]
pub struct Beside {
    block: u32,
}

/// Which moment.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MapQuery {
    /// The event after which; the last one unless given. A recording without events is asked for
    /// its state.
    at: Option<u32>,
}

/// What is alive at an event: groups, and a tree of stacks.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/alive", tag = "alive",
    params(("run" = String, Path), ("device" = u32, Path), AliveQuery, StepsQuery),
    responses(
        (status = 200, description = "What is alive at the moment asked for.", body = Alive),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn alive(question: Question, Query(query): Query<AliveQuery>) -> Result<Response, Error> {
    let by = dimension(query.by.as_deref().unwrap_or("stack"))?;
    let details = match query.start {
        true => format!("start-{}", by.name()),
        false => format!("{:?}-{}", query.at, by.name()),
    };
    let ask = move |decoded: &Decoded, device: &DeviceTrace, watch: Watch<'_>| {
        let at = match query.start {
            true => None,
            false => asked::moment(device, query.at)?,
        };
        Ok(questions::alive(decoded, device, at, by, watch)?)
    };
    question.by(by).answer("alive", &details, ask).await
}

/// Where memory lies at a moment: pools, segments, blocks and gaps.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/memory-map", tag = "alive",
    params(("run" = String, Path), ("device" = u32, Path), MapQuery, StepsQuery),
    responses(
        (status = 200, description = "The map after the event.", body = MemoryMap),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn memory_map(
    question: Question,
    Query(query): Query<MapQuery>,
) -> Result<Response, Error> {
    let details = format!("{:?}-m{}", query.at, memory_map::VERSION);
    let ask = move |_: &Decoded, device: &DeviceTrace, _: Watch<'_>| {
        Ok(questions::memory_map(
            device,
            asked::moment(device, query.at)?,
        ))
    };
    question.answer("memory-map", &details, ask).await
}

/// Reserved memory over the recording, and how the unused part was distributed.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/room-over-time", tag = "alive",
    params(("run" = String, Path), ("device" = u32, Path), StepsQuery),
    responses(
        (status = 200, description = "A column for each number.", body = RoomOverTime),
        (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn room_over_time(question: Question) -> Result<Response, Error> {
    let details = format!("r{}", memory_map::VERSION);
    let ask = move |_: &Decoded, device: &DeviceTrace, _: Watch<'_>| {
        Ok(questions::room_over_time(device))
    };
    question.answer("room-over-time", &details, ask).await
}

/// What was allocated and freed between two events.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/changes", tag = "alive",
    params(("run" = String, Path), ("device" = u32, Path), ChangesQuery, StepsQuery),
    responses(
        (status = 200,
            description = "What was made and what was given back between two moments.",
            body = Changes),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn changes(
    question: Question,
    Query(query): Query<ChangesQuery>,
) -> Result<Response, Error> {
    let by = dimension(query.by.as_deref().unwrap_or("stack"))?;
    let (from, to) = asked::in_order(query.from, query.to)?;
    let details = format!("{from}-{to}-{}", by.name());
    let ask = move |decoded: &Decoded, device: &DeviceTrace, watch: Watch<'_>| {
        let events = asked::between(device, from, to)?;
        Ok(questions::changes(decoded, device, events, by, watch)?)
    };
    question.by(by).answer("changes", &details, ask).await
}

/// A page of the allocations that a filter finds.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/allocations", tag = "alive",
    params(
        ("run" = String, Path), ("device" = u32, Path), AllocationFilter, PageQuery, StepsQuery,
    ),
    responses(
        (status = 200, description = "A page of allocations.", body = AllocationPage),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn allocations(
    question: Question,
    Query(filter): Query<AllocationFilter>,
    Query(page): Query<PageQuery>,
) -> Result<Response, Error> {
    let limit = page.limit.map_or(asked::PAGE, NonZeroUsize::get);
    let details = format!("{}-{limit}{}", page.offset, filter.query());
    let ask = move |decoded: &Decoded, device: &DeviceTrace, _: Watch<'_>| {
        let found = questions::page(decoded, device, &filter, page.offset, limit);
        found.map_err(|error| Error::BadRequest(error.to_string()))
    };
    let details = api::query::encode(&details);
    question.answer("allocations", &details, ask).await
}

/// What was allocated before and after a block.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/blocks/{block}/beside", tag = "alive",
    params(("run" = String, Path), ("device" = u32, Path), ("block" = u32, Path), StepsQuery),
    responses(
        (status = 200,
            description = "The allocations made before and after it.",
            body = AllocationPage),
        (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn beside(
    question: Question,
    Path(Beside { block }): Path<Beside>,
) -> Result<Response, Error> {
    let ask = move |decoded: &Decoded, device: &DeviceTrace, _: Watch<'_>| {
        let found = questions::beside(decoded, device, BlockIdx(block));
        let missing = Misasked::NoBlock {
            block,
            device: device.device,
        };
        Ok(found.ok_or(missing)?)
    };
    question.answer("beside", &block.to_string(), ask).await
}
