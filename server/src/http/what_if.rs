//! What if: a run's requests under other conditions.

use super::audience::Audience;
use super::extract::{Client, Path, Query, run_id};
use super::here::Here;
use super::packed::{Keep, Packed, not_modified};
use super::question::{Place, StepsQuery, answered};
use crate::app::App;
use crate::pictures::Ask;
use crate::problems::Error;
use crate::store::StoreError;
use answers::questions::what_if::{Asked, NOT_OF_PINNED, what_if_drawn};
use api::ids::RunId;
use api::problem::Problem;
use api::what_if::{Conditions, WhatIfDrawn};
use axum::http::HeaderMap;
use axum::response::Response;
use trace::device::DeviceIdx;
use trace::watch::Watch;

/// Version of the answers; part of their entity tags.
const VERSION: u32 = 23;

/// A question, and the run that it is about.
struct Subject {
    run: RunId,
    device: DeviceIdx,
    asked: Asked,
    steps: Option<String>,
    audience: Audience,
}

/// What would have happened under other settings of the allocator, on a smaller or larger card,
/// without leaks, or without the requests of some call sites. The rules are tested first on what
/// was recorded: `calibration` says how well they reproduce it.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/what-if", tag = "runs",
    params(("run" = String, Path), ("device" = u32, Path), Conditions, StepsQuery),
    responses(
        (status = 200, description = "What would happen, with its levels.", body = WhatIfDrawn),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 413, body = Problem), (status = 429, body = Problem),
        (status = 503, body = Problem),
    ))]
pub async fn what_if(
    Here(app): Here,
    Path(Place { run, device }): Path<Place>,
    Query(conditions): Query<Conditions>,
    Query(steps): Query<StepsQuery>,
    client: Client,
    audience: Audience,
    headers: HeaderMap,
) -> Result<Response, Error> {
    if device.is_pinned() {
        return Err(Error::BadRequest(NOT_OF_PINNED.to_owned()));
    }
    let asked = Asked::of(&conditions).map_err(|error| Error::BadRequest(error.to_string()))?;
    let subject = Subject {
        run: run_id(&run)?,
        device,
        asked,
        steps: steps.level().map(str::to_owned),
        audience,
    };
    let etag = subject.etag(&conditions);
    // First of all: what is kept of a deleted run must not answer any more.
    let run = subject.run.clone();
    let trace = app.store.read(move |reader| reader.run_ref(&run)).await?;
    if let Some(response) = not_modified(&headers, &etag, Keep::Ask) {
        return Ok(response);
    }
    let shelf = app.explanations.of(subject.audience.asker());
    let answer = subject.answer(&app, trace.trace);
    let answer = shelf.get(&etag, client.address, answer).await?;
    let packed = Packed {
        zstd: answer.to_vec(),
        media_type: "application/json",
        etag,
        keep: Keep::Ask,
    };
    Ok(packed.respond(&headers))
}

impl Subject {
    fn etag(&self, conditions: &Conditions) -> String {
        let Subject {
            run, device, steps, ..
        } = self;
        let texts = self.audience.texts().tag();
        let parts = format!("what-if {run} {device} {steps:?} {texts:?} {conditions:?} v{VERSION}");
        format!("W/\"{}\"", &blake3::hash(parts.as_bytes()).to_hex()[..32])
    }

    /// The answer, packed.
    async fn answer(self, app: &App, trace: i64) -> Result<Vec<u8>, Error> {
        let traces = &app.pictures.traces;
        let (texts, steps) = (self.audience.texts(), self.steps.as_deref());
        let decoded = traces.get_cut(trace, texts, steps).await?;
        let memory = traces.memory_to_ask(&decoded, Ask::Stacks).await?;
        let ask = move |watch: Watch<'_>| {
            let device = decoded.device(self.device)?;
            let answer = what_if_drawn(&decoded.trace, device, &self.asked, watch)?;
            let file = serde_json::to_vec(&answer).expect("answers are plain data");
            Ok(zstd::bulk::compress(&file, 1).map_err(StoreError::Packing)?)
        };
        answered(memory, ask).await
    }
}
