//! Tiles and marks, blocks and moments: what the timeline asks for.

use super::audience::Audience;
use super::extract::{Path, Query, group_by, run_id, tile_id};
use super::here::Here;
use super::packed::{self, Keep, Packed};
use super::question::{Asker, Question, StepsQuery};
use crate::app::App;
use crate::limits::asking::Turn;
use crate::pictures::{self, Decoded, Picture, details};
use crate::problems::Error;
use answers::questions::asked::Misasked;
use answers::texts::Texts;
use api::contents::Contents;
use api::ids::RunId;
use api::problem::Problem;
use api::timeline::{BlockDetail, Marks, Moment};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use std::sync::Arc;
use trace::device::DeviceIdx;
use trace::trace::{BlockIdx, DeviceTrace};
use trace::units::EventIdx;
use trace::watch::Watch;

/// Media type of tiles.
const TILE: &str = "application/vnd.tidemark.tile";

/// The version of the encoding that an address names.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Version {
    /// With the current version, browsers keep the answer for ever.
    v: Option<u32>,
}

impl Version {
    /// Whether the address names this version.
    pub fn is(&self, version: u32) -> bool {
        self.v == Some(version)
    }
}

/// The parts of a tile's path. They have names, so that a refusal names what cannot be read.
#[derive(Deserialize)]
pub struct OfTile {
    run: String,
    device: DeviceIdx,
    level: u8,
    index: u32,
}

/// What is stacked in a tile.
#[derive(Deserialize)]
pub struct OfGroup {
    group: String,
}

/// The parts of a block's path.
#[derive(Deserialize)]
pub struct OfBlock {
    run: String,
    device: DeviceIdx,
    block: u32,
}

/// The parts of an event's path.
#[derive(Deserialize)]
pub struct OfEvent {
    run: String,
    device: DeviceIdx,
    event: u32,
}

/// The four lines of a tile, binary.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/series/{level}/{index}",
    tag = "timeline", params(("run" = String, Path), ("device" = u32, Path),
        ("level" = u8, Path), ("index" = u32, Path), Version),
    responses(
        (status = 200,
            description = "The tile. It never changes.",
            content_type = "application/vnd.tidemark.tile"),
        (status = 404, body = Problem),
    ))]
pub async fn series(
    Here(app): Here,
    Path(OfTile {
        run,
        device,
        level,
        index,
    }): Path<OfTile>,
    Query(version): Query<Version>,
    audience: Audience,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let picture = Picture::Series(tile_id(level, index)?);
    let asked = Asked {
        run: run_id(&run)?,
        device,
        picture,
        version,
        audience,
    };
    respond(&app, asked, &headers).await
}

/// Live allocations of a tile, stacked, binary.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/mountain/{group}/{level}/{index}",
    tag = "timeline", params(("run" = String, Path), ("device" = u32, Path),
        ("group" = String, Path), ("level" = u8, Path), ("index" = u32, Path), Version),
    responses(
        (status = 200,
            description = "The tile. It never changes.",
            content_type = "application/vnd.tidemark.tile"),
        (status = 404, body = Problem),
    ))]
pub async fn mountain(
    Here(app): Here,
    Path(OfTile {
        run,
        device,
        level,
        index,
    }): Path<OfTile>,
    Path(OfGroup { group }): Path<OfGroup>,
    Query(version): Query<Version>,
    audience: Audience,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let picture = Picture::Mountain(group_by(&group)?, tile_id(level, index)?);
    let asked = Asked {
        run: run_id(&run)?,
        device,
        picture,
        version,
        audience,
    };
    respond(&app, asked, &headers).await
}

/// Steps, scopes and failed allocations of a device.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/marks", tag = "timeline",
    params(("run" = String, Path), ("device" = u32, Path), Version, StepsQuery),
    responses(
        (status = 200, description = "Steps, scopes and failed allocations.", body = Marks),
        (status = 404, body = Problem),
    ))]
pub async fn marks(question: Question, Query(version): Query<Version>) -> Result<Response, Error> {
    if question.steps.is_some() {
        // This is not stored: only pictures with the steps that Tidemark finds are.
        let ask = |decoded: &Decoded, device: &DeviceTrace, watch: Watch<'_>| {
            Ok(pictures::marks_beside_host(device, &decoded.trace, watch)?)
        };
        return question.answer("marks", "", ask).await;
    }
    one_of_a_device(question, Picture::Marks, version).await
}

/// What the recording of a device holds: what it is, its loops and phases, what its peak
/// consists of.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/contents", tag = "timeline",
    params(("run" = String, Path), ("device" = u32, Path), Version, StepsQuery),
    responses(
        (status = 200,
            description = "What the recording holds, and what its peak consists of.",
            body = Contents),
        (status = 404, body = Problem),
    ))]
pub async fn contents(
    question: Question,
    Query(version): Query<Version>,
) -> Result<Response, Error> {
    one_of_a_device(question, Picture::Contents, version).await
}

async fn one_of_a_device(
    question: Question,
    picture: Picture,
    version: Version,
) -> Result<Response, Error> {
    let asked = Asked {
        run: question.run,
        device: question.device,
        picture,
        version,
        audience: question.asker.audience,
    };
    respond(&question.app, asked, &question.headers).await
}

/// Everything about one block.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/blocks/{block}", tag = "timeline",
    params(("run" = String, Path), ("device" = u32, Path), ("block" = u32, Path), StepsQuery),
    responses(
        (status = 200, description = "The allocation, with its stack.", body = BlockDetail),
        (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn block(
    Here(app): Here,
    Path(OfBlock { run, device, block }): Path<OfBlock>,
    Query(steps): Query<StepsQuery>,
    asker: Asker,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let id = run_id(&run)?;
    let _turn = turn_to_cut(&app, &asker, &steps).await?;
    let decoded = decoded(&app, id.clone(), &asker.audience, steps.level()).await?;
    let found = details::block(&decoded, decoded.device(device)?, BlockIdx(block));
    let mut found = found.ok_or(Misasked::NoBlock { block, device })?;
    // Texts about tensors in a recording can contain anything, like metadata.
    let tells_all = !asker.audience.texts().are_redacted();
    if let Some(tensors) = app.tensors.get(&id).await?.filter(|_| tells_all) {
        found.tensor = tensors.of_block(&found);
    }
    Ok(packed::json(&headers, &found))
}

/// One event and the levels after it.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/events/{event}", tag = "timeline",
    params(("run" = String, Path), ("device" = u32, Path), ("event" = u32, Path), StepsQuery),
    responses(
        (status = 200, description = "The series at one event.", body = Moment),
        (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn moment(
    Here(app): Here,
    Path(OfEvent { run, device, event }): Path<OfEvent>,
    Query(steps): Query<StepsQuery>,
    asker: Asker,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let _turn = turn_to_cut(&app, &asker, &steps).await?;
    let decoded = decoded(&app, run_id(&run)?, &asker.audience, steps.level()).await?;
    let found = details::moment(decoded.device(device)?, EventIdx(event));
    let missing = Misasked::NoEvent { event, device };
    Ok(packed::json(&headers, &found.ok_or(missing)?))
}

/// A turn, where other steps are asked for: they take a copy of the trace. To look something up
/// takes nothing beside the trace, so that needs no turn.
async fn turn_to_cut(app: &App, asker: &Asker, steps: &StepsQuery) -> Result<Option<Turn>, Error> {
    match steps.level() {
        Some(_) => Ok(Some(asker.turn(app).await?)),
        None => Ok(None),
    }
}

/// A trace. With other steps, whoever asks must have a turn.
pub(super) async fn decoded(
    app: &App,
    run: RunId,
    audience: &Audience,
    level: Option<&str>,
) -> Result<Arc<Decoded>, Error> {
    let trace = app
        .store
        .read(move |reader| reader.run_ref(&run))
        .await?
        .trace;
    let traces = &app.pictures.traces;
    Ok(traces.get_cut(trace, audience.texts(), level).await?)
}

/// A picture, and the person who asks for it.
struct Asked {
    run: RunId,
    device: DeviceIdx,
    picture: Picture,
    version: Version,
    audience: Audience,
}

async fn respond(app: &App, asked: Asked, headers: &HeaderMap) -> Result<Response, Error> {
    let Asked {
        run,
        device,
        picture,
        version,
        audience,
    } = asked;
    // Its address does not tell by which rules the team calls blocks.
    let may_change = picture.has_categories();
    let keep = match version.is(picture.version()) && !may_change {
        true => Keep::Forever,
        false => Keep::Ask,
    };
    let etag = etag(&run, device, picture, audience.texts());
    if let Some(response) = packed::not_modified(headers, &etag, keep) {
        // Nothing of a deleted run answers any more.
        app.store.read(move |reader| reader.run_ref(&run)).await?;
        return Ok(response);
    }
    let texts = audience.texts();
    let zstd = app.pictures.get(&run, device, picture, texts).await?;
    let media_type = match picture {
        Picture::Marks | Picture::Contents => "application/json",
        Picture::Series(_) | Picture::Mountain(..) => TILE,
    };
    Ok(Packed {
        zstd,
        media_type,
        etag,
        keep,
    }
    .respond(headers))
}

/// A run's id stands for its content, so the address and the version identify the picture. The tag
/// is weak, because the bytes depend on the coding.
fn etag(run: &RunId, device: DeviceIdx, picture: Picture, texts: Texts) -> String {
    let key = pictures::key_for(picture, 0, device, texts);
    format!(
        "W/\"{run}-{device}-{}-{}-{}-v{}\"",
        key.kind, key.level, key.index, key.version
    )
}
