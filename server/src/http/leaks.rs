//! Whether a run leaks, and how it grew.

use super::extract::{Query, dimension};
use super::packed::{self, Keep};
use super::pictures::{Version, decoded};
use super::question::{Asker, Question, StepsQuery, answered};
use crate::app::App;
use crate::limits::processor_time::ProcessorTime;
use crate::pictures::{Ask, Decoded};
use crate::problems::Error;
use answers::questions::{self, JUDGING};
use api::alive::Growth;
use api::ids::RunId;
use api::leaks::Leaks;
use api::problem::Problem;
use axum::response::Response;
use serde::Deserialize;
use trace::device::DeviceIdx;
use trace::trace::DeviceTrace;
use trace::watch::Watch;

/// What the bands of a growth chart stand for.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct GrowthQuery {
    /// `site` unless given: site, stack, module, file, function, category, stream or pool.
    by: Option<String>,
}

/// The verdict about a device, and what accumulates.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/leaks", tag = "leaks",
    params(("run" = String, Path), ("device" = u32, Path), Version, StepsQuery),
    responses(
        (status = 200, description = "The verdict, with its groups.", body = Leaks),
        (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn leaks(question: Question, Query(version): Query<Version>) -> Result<Response, Error> {
    if question.steps.is_some() {
        let ask = |decoded: &Decoded, device: &DeviceTrace, watch: Watch<'_>| {
            Ok(reported(decoded, device, watch))
        };
        return question.of_stacks().answer("leaks", "", ask).await;
    }
    let Question {
        app,
        run,
        device,
        asker,
        headers,
        ..
    } = question;
    let keep = match version.is(Leaks::VERSION) {
        true => Keep::Forever,
        false => Keep::Ask,
    };
    let etag = format!("W/\"{run}-{device}-leaks-v{}\"", Leaks::VERSION);
    let etag = asker.audience.tagged(etag);
    let leaks = found(&app, &run, device, &asker, None).await?;
    Ok(packed::immutable_json(&headers, &leaks, etag, keep))
}

/// What is alive at the end of each step, by group.
#[utoipa::path(get, path = "/api/runs/{run}/devices/{device}/growth", tag = "leaks",
    params(("run" = String, Path), ("device" = u32, Path), GrowthQuery, StepsQuery),
    responses(
        (status = 200,
            description = "How much each group holds at the end of each step.",
            body = Growth),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn growth(
    question: Question,
    Query(query): Query<GrowthQuery>,
) -> Result<Response, Error> {
    let by = dimension(query.by.as_deref().unwrap_or("site"))?;
    let Question {
        app,
        run,
        device,
        asker,
        steps,
        ..
    } = &question;
    let leaks = found(app, run, *device, asker, steps.as_deref()).await?;
    let sites = leaks.groups.iter().filter_map(|g| g.site.parse().ok());
    let sites: Vec<_> = sites.collect();
    let ask = move |decoded: &Decoded, device: &DeviceTrace, watch: Watch<'_>| {
        Ok(questions::growth(decoded, device, by, &sites, watch)?)
    };
    question.by(by).answer("growth", by.name(), ask).await
}

/// The answer about a device, with the texts that the reader may see. Without names, sites have
/// other keys, so names cannot be removed afterwards: the redacted trace is judged.
async fn found(
    app: &App,
    run: &RunId,
    device: DeviceIdx,
    asker: &Asker,
    level: Option<&str>,
) -> Result<Leaks, Error> {
    if level.is_none() && !asker.audience.texts().are_redacted() {
        return Ok(app.uploads.judge().leaks(run, device).await?);
    }
    let turn = asker.turn(app).await?;
    let decoded = decoded(app, run.clone(), &asker.audience, level).await?;
    let memory = app
        .pictures
        .traces
        .memory_to_ask(&decoded, Ask::Stacks)
        .await?;
    answered(memory, move |watch| {
        let _turn = turn;
        Ok(reported(&decoded, decoded.device(device)?, watch))
    })
    .await
}

/// The verdict, found within its time. If the client goes, the search ends too.
fn reported(decoded: &Decoded, device: &DeviceTrace, watch: Watch<'_>) -> Leaks {
    let time = ProcessorTime::from_now();
    let go_on = |_| time.used() <= JUDGING && watch.look(0).is_ok();
    questions::report(&decoded.trace, device, Watch::new(&go_on))
}
