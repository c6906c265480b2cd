//! Trainings that report their memory after each step, while they run. [`list`] makes one row of
//! all processes of a training, [`list_page`] shows it, [`page`] shows one training,
//! [`delete`] deletes it, [`alert`] tells a chat of it.

mod alert;
pub mod delete;
pub mod list;
mod list_page;
mod page;

pub use list_page::live_page;
pub use page::{LIVE_SCRIPT, ask_on_page, live_run_page, script};

use super::audited::{Subject, Unnoted};
use super::extract::{Addresses, Json, Path};
use super::here::Here;
use crate::app::App;
use crate::identity;
use crate::live::judgements::Judgements;
use crate::live::{JUDGED, Warning, thinned, warnings};
use crate::problems::Error;
use crate::store::{Reader, StoreError, StoreResult};
use crate::system::clock::now_ms;
use answers::run_names;
use api::ids::LiveId;
use api::labels::{self, Label, Labels};
use api::live::{
    AskCapture, Heard, LiveCurve, LiveEnd, LiveMade, LiveRun, LiveStep, MOST_CAPTURED, MOST_POINTS,
    MOST_STEPS, NewLive, Reports,
};
use api::problem::Problem;
use api::routes;
use axum::Extension;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use trace::device::DeviceIdx;
use trace::ranks::MAX_RANKS;
use trace::units::Bytes;

/// A thousand steps, with room for their numbers.
pub const REPORT_LIMIT: usize = 256 << 10;

/// The largest number of a report, of bytes or of anything: a page keeps no larger one exactly.
const MOST: u64 = 1 << 53;

/// Begins to report a training.
#[utoipa::path(post, path = "/api/live", tag = "live", request_body = NewLive,
    responses(
        (status = 201, description = "Where to report.", body = LiveMade),
        (status = 400, body = Problem), (status = 409, body = Problem),
        (status = 507, body = Problem),
    ))]
pub async fn begin(
    Here(app): Here,
    addresses: Addresses,
    Json(new): Json<NewLive>,
) -> Result<Response, Error> {
    check_numbers(&new)?;
    let new = NewLive {
        name: run_names::typed(&new.name)?,
        job: new.job.as_deref().map(run_names::typed).transpose()?,
        labels: checked(new.labels)?,
        ..new
    };
    check_room(&app)?;
    let live = identity::live_id();
    let subject = Extension(Subject::called(&new.name, &live));
    let (id, now) = (live.clone(), now_ms());
    let begin = app.store.write(move |writer| {
        writer.begin_live(&id, &new, now)?;
        writer.reader().others_run(&id, now)
    });
    let others = begin.await?;
    measure(&app).await?;
    let page = addresses.of(&routes::live_page(&live));
    let made = axum::Json(LiveMade { live, page });
    Ok((StatusCode::CREATED, subject, once(others), made).into_response())
}

/// The audit has one entry for a training, not one for each of its processes: that the first one
/// began, and that the last one ended.
fn once(others_run: bool) -> Option<Extension<Unnoted>> {
    others_run.then_some(Extension(Unnoted))
}

/// Whether there is room for a report: it takes the same disk as uploads do.
fn check_room(app: &App) -> Result<(), Error> {
    app.check_free()?;
    Ok(app.uploads.share().check_report()?)
}

/// Counts what reports take, where that is limited.
async fn measure(app: &App) -> Result<(), Error> {
    match app.uploads.share().is_limited() {
        true => Ok(app.uploads.measure_disk().await?),
        false => Ok(()),
    }
}

/// Numbers that can be true: a wrong one would be judged by for as long as the training runs.
fn check_numbers(new: &NewLive) -> Result<(), Error> {
    let bad = |why: &str| Err(Error::BadRequest(why.to_owned()));
    let sizes = 1..=i64::MAX as u64;
    if new.limit.is_some_and(|limit| !sizes.contains(&limit.get())) {
        return bad(
            "limit: a process may use 1 byte at least, and less than 8 EiB; leave it out where it \
             is not known",
        );
    }
    if new.device >= DeviceIdx::PINNED.0 {
        return bad(&format!(
            "device: the ordinal of a CUDA device, {} at most",
            DeviceIdx::PINNED.0 - 1
        ));
    }
    let most = new.ranks.unwrap_or(MAX_RANKS);
    if !(1..=MAX_RANKS).contains(&most) {
        return bad(&format!("ranks: a training has 1 to {MAX_RANKS} processes"));
    }
    match new.rank.is_none_or(|rank| rank < most) {
        true => Ok(()),
        false => bad(&format!(
            "rank: one of {most} is counted from 0, so {} at most",
            most - 1
        )),
    }
}

fn checked(given: Labels) -> Result<Labels, Error> {
    if given.len() > labels::MOST {
        return Err(Error::BadRequest(format!(
            "{} labels at most",
            labels::MOST
        )));
    }
    let labels = given.into_iter().map(|(key, value)| {
        let label = Label::new(&key, &value);
        let label = label.map_err(|error| Error::BadRequest(format!("{key}: {error}")))?;
        Ok((label.key, label.value))
    });
    labels.collect()
}

/// Reports steps of a training, and asks what the dashboard wants of it.
#[utoipa::path(post, path = "/api/live/{live}/steps", tag = "live", request_body = Reports,
    params(("live" = String, Path)),
    responses(
        (status = 200, description = "What the dashboard wants.", body = Heard),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 410, body = Problem), (status = 507, body = Problem),
    ))]
pub async fn report(
    Here(app): Here,
    Path(live): Path<String>,
    addresses: Addresses,
    Json(reports): Json<Reports>,
) -> Result<axum::Json<Heard>, Error> {
    let id = live_id(&live)?;
    if reports.steps.len() > MOST_STEPS {
        return Err(Error::BadRequest(format!("{MOST_STEPS} steps at most")));
    }
    let steps = reports.steps.into_iter().map(step);
    let steps: Vec<LiveStep> = steps.collect::<Result<_, Error>>()?;
    check_room(&app)?;
    let (now, tells, known) = (now_ms(), app.config.alert.is_some(), app.live.clone());
    let write = app.store.write(move |writer| {
        let capture = writer.add_live_steps(&id, &steps, now)?;
        let run = writer.reader().live(&id)?;
        let found = look_at(&writer.reader(), &run)?;
        known.keep(&id, run.seen_ms, found.clone());
        let warnings = found.iter().map(|warning| warning.said.clone()).collect();
        let untold = match tells {
            true => alert::untold(writer, &id, found)?,
            false => Vec::new(),
        };
        Ok((Heard { capture, warnings }, run, untold))
    });
    let (heard, run, untold) = write.await.map_err(over)?;
    measure(&app).await?;
    if let Some(webhook) = app.config.alert.as_ref().filter(|_| !untold.is_empty()) {
        let page = addresses.of(&routes::live_page(&run.id));
        alert::send(webhook, &run, &untold, &page);
    }
    Ok(axum::Json(heard))
}

fn step(
    [step, at_ms, allocated, peak, reserved, retries, ooms]: [u64; 7],
) -> Result<LiveStep, Error> {
    for n in [step, at_ms, allocated, peak, reserved, retries, ooms] {
        if n > MOST {
            return Err(Error::BadRequest(format!("{n} is too large")));
        }
    }
    Ok(LiveStep {
        step,
        at_ms: at_ms as i64,
        allocated: Bytes(allocated),
        peak: Bytes(peak),
        reserved: Bytes(reserved),
        retries,
        ooms,
    })
}

/// Says how a training ended.
#[utoipa::path(post, path = "/api/live/{live}/end", tag = "live", request_body = LiveEnd,
    params(("live" = String, Path)),
    responses(
        (status = 204, description = "It has ended."),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 410, body = Problem),
    ))]
pub async fn end(
    Here(app): Here,
    Path(live): Path<String>,
    Json(end): Json<LiveEnd>,
) -> Result<Response, Error> {
    let id = live_id(&live)?;
    let what = end.what.as_deref().map(run_names::typed).transpose()?;
    let (end, now) = (LiveEnd { what, ..end }, now_ms());
    let write = app.store.write(move |writer| {
        writer.end_live(&id, &end, now)?;
        let reader = writer.reader();
        Ok((reader.live(&id)?, reader.others_run(&id, now)?))
    });
    let (run, others) = write.await.map_err(over)?;
    let subject = Extension(Subject::called(&run.name, &run.id));
    Ok((StatusCode::NO_CONTENT, subject, once(others), ()).into_response())
}

/// Asks a training for a snapshot of its next steps.
#[utoipa::path(post, path = "/api/live/{live}/capture", tag = "live", request_body = AskCapture,
    params(("live" = String, Path)),
    responses(
        (status = 204, description = "It is told with its next report."),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 410, body = Problem),
    ))]
pub async fn capture(
    Here(app): Here,
    Path(live): Path<String>,
    Json(ask): Json<AskCapture>,
) -> Result<StatusCode, Error> {
    asked(&app, live_id(&live)?, ask.steps).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn asked(app: &App, id: LiveId, steps: u32) -> Result<(), Error> {
    if !(1..=MOST_CAPTURED).contains(&steps) {
        let why = format!("a snapshot holds 1 to {MOST_CAPTURED} steps");
        return Err(Error::BadRequest(why));
    }
    let write = app.store.write(move |writer| writer.ask_live(&id, steps));
    write.await.map_err(over)
}

/// A training with its curve.
#[utoipa::path(get, path = "/api/live/{live}", tag = "live", params(("live" = String, Path)),
    responses(
        (status = 200, description = "The training as it stands.", body = LiveCurve),
        (status = 404, body = Problem),
    ))]
pub async fn get(
    Here(app): Here,
    Path(live): Path<String>,
) -> Result<axum::Json<LiveCurve>, Error> {
    curve(&app, live_id(&live)?).await.map(axum::Json)
}

async fn curve(app: &App, id: LiveId) -> Result<LiveCurve, Error> {
    let known = app.live.clone();
    let read = app.store.read(move |reader| {
        let run = judged(reader, &known, reader.live(&id)?)?;
        let steps = thinned(&reader.live_steps(&id, u64::from(u32::MAX))?, MOST_POINTS);
        Ok(LiveCurve { run, steps })
    });
    Ok(read.await?)
}

/// The run with its warnings. One that has ended has none: it is too late.
fn judged(reader: &Reader<'_>, known: &Judgements, run: LiveRun) -> StoreResult<LiveRun> {
    if run.outcome.is_some() {
        return Ok(run);
    }
    let found = known.of(&run.id, run.seen_ms, || look_at(reader, &run))?;
    Ok(LiveRun {
        warnings: found.into_iter().map(|warning| warning.said).collect(),
        ..run
    })
}

fn look_at(reader: &Reader<'_>, run: &LiveRun) -> StoreResult<Vec<Warning>> {
    let steps = reader.live_steps(&run.id, JUDGED)?;
    Ok(warnings(run, &steps))
}

/// A training that has ended takes nothing more.
fn over(error: StoreError) -> Error {
    match error {
        StoreError::Conflict(why) => Error::Gone(why),
        error => error.into(),
    }
}

fn live_id(text: &str) -> Result<LiveId, Error> {
    let unknown = |_| Error::NotFound(format!("live run {text}"));
    text.parse().map_err(unknown)
}
