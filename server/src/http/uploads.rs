//! Uploads: announce, send, watch, cancel.

use super::audited::Subject;
use super::events::{self, Listen, Listener};
use super::extract::{Addresses, Client, Json, Path, Query, upload_id};
use super::here::Here;
use super::jobs::place;
use super::runs::summary_of;
use crate::app::App;
use crate::ingest::{Arrived, Broken, Lasts, Sender, Upload, unpacked};
use crate::problems::Error;
use crate::store::{StoreError, UploadState};
use crate::who::access::Entry;
use answers::run_names;
use api::ids::{JobId, UploadId};
use api::people::Scope;
use api::problem::Problem;
use api::progress::UploadProgress;
use api::routes;
use api::runs::{AnnounceUpload, AnnouncedUpload, FinishedUpload, RunSource};
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::Deserialize;
use std::convert::Infallible;
use std::sync::Arc;
use trace::ranks::Rank;
use trace::units::Bytes;

/// What a file is a rank of.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PlaceQuery {
    /// The job that it is a rank of.
    #[param(value_type = Option<String>)]
    job: Option<JobId>,
    /// Which rank of the job; what the name says unless given.
    #[param(value_type = Option<u32>)]
    rank: Option<Rank>,
}

/// Announces an upload: the limit and the disk are checked before a byte is sent.
#[utoipa::path(post, path = "/api/uploads", tag = "uploads", request_body = AnnounceUpload,
    responses(
        (status = 201,
            description = "The upload is announced; send its bytes to the address given.",
            body = AnnouncedUpload),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 413, body = Problem), (status = 429, body = Problem),
        (status = 503, body = Problem), (status = 507, body = Problem),
    ))]
pub async fn announce(
    Here(app): Here,
    client: Client,
    Json(request): Json<AnnounceUpload>,
) -> Result<(StatusCode, axum::Json<AnnouncedUpload>), Error> {
    let name = run_names::of_file(&request.name);
    let in_job = place(&app, request.job, request.rank, &name).await?;
    let size = request.size.map(Bytes::get);
    let announced = app.uploads.announce(name, size, in_job, client.address)?;
    let upload = announced.id.clone();
    Ok((StatusCode::CREATED, axum::Json(AnnouncedUpload { upload })))
}

/// Sends the body of an announced upload; answers when it became a run.
#[utoipa::path(put, path = "/api/uploads/{upload}", tag = "uploads",
    params(("upload" = String, Path)),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, description = "The file was stored as a run.", body = FinishedUpload),
        (status = 200, description = "The file was already a run.", body = FinishedUpload),
        (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 408, body = Problem), (status = 422, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn send(
    Here(app): Here,
    Path(upload): Path<String>,
    sender: Sender,
    addresses: Addresses,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let id = upload_id(&upload)?;
    let coding = coding(&headers)?;
    match app.uploads.get(&id) {
        Some(upload) => take(&app, upload, sender, addresses, coding, body).await,
        None => {
            app.store.read(move |reader| reader.upload(&id)).await?;
            Err(StoreError::Conflict(format!("{upload} is finished")).into())
        }
    }
}

/// Announces and sends in one: `curl -T FILE http://HOST/api/upload/`.
///
/// A body with `Content-Encoding: gzip` is unpacked on its way in: the run is that of the file
/// inside.
#[utoipa::path(put, path = "/api/upload/{name}", tag = "uploads",
    params(("name" = String, Path), PlaceQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, description = "The file was stored as a run.", body = FinishedUpload),
        (status = 200, description = "The file was already a run.", body = FinishedUpload),
        (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 404, body = Problem),
        (status = 408, body = Problem), (status = 413, body = Problem),
        (status = 422, body = Problem), (status = 429, body = Problem),
        (status = 503, body = Problem),
    ))]
pub async fn send_named(
    Here(app): Here,
    Path(name): Path<String>,
    Query(query): Query<PlaceQuery>,
    sender: Sender,
    addresses: Addresses,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let coding = coding(&headers)?;
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    // Of a body that is packed for the way, it does not tell the size of the file.
    let size = length.filter(|_| coding == Coding::None);
    let size = size.and_then(|text| text.parse().ok());
    let name = run_names::of_file(&name);
    let in_job = place(&app, query.job, query.rank, &name).await?;
    let upload = app.uploads.expect(name, size, RunSource::Upload, in_job)?;
    take(&app, upload, sender, addresses, coding, body).await
}

/// How a body is packed for its way here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// Not at all.
    None,
    /// With gzip, which browsers can write.
    Gzip,
}

/// The coding that the headers name.
fn coding(headers: &HeaderMap) -> Result<Coding, Error> {
    let mut named = headers.get_all(header::CONTENT_ENCODING).iter();
    // Their names differ in no letter's case, and `x-gzip` is the same as `gzip` (RFC 9110, 8.4.1).
    let first = named.next();
    let first = first.map(|value| value.as_bytes().to_ascii_lowercase());
    match (first.as_deref(), named.next()) {
        (None | Some(b"identity"), None) => Ok(Coding::None),
        (Some(b"gzip" | b"x-gzip"), None) => Ok(Coding::Gzip),
        _ => Err(Error::BadRequest(
            "Content-Encoding may be gzip; a file that is packed itself needs none".to_owned(),
        )),
    }
}

/// How an upload stands.
#[utoipa::path(get, path = "/api/uploads/{upload}", tag = "uploads",
    params(("upload" = String, Path)),
    responses(
        (status = 200, description = "How far the upload is.", body = UploadProgress),
        (status = 404, body = Problem),
    ))]
pub async fn get(
    Here(app): Here,
    Path(upload): Path<String>,
) -> Result<axum::Json<UploadProgress>, Error> {
    let id = upload_id(&upload)?;
    let progress = match app.uploads.get(&id) {
        Some(upload) => upload.watch().borrow().clone(),
        None => stored_progress(&app, id).await?,
    };
    Ok(axum::Json(progress))
}

/// The progress of an upload, as server-sent `progress` events; the last one says that it is done,
/// failed or cancelled.
#[utoipa::path(get, path = "/api/uploads/{upload}/events", tag = "uploads",
    params(("upload" = String, Path)),
    responses(
        (status = 200,
            description = "A stream of progress that ends with the upload.",
            body = UploadProgress, content_type = "text/event-stream"),
        (status = 404, body = Problem),
    ))]
pub async fn watch(
    Here(app): Here,
    listener: Listener,
    client: Client,
    Path(upload): Path<String>,
) -> Result<Response, Error> {
    let id = upload_id(&upload)?;
    let listen = match app.uploads.get(&id) {
        Some(upload) => Listen::Moving(upload.watch()),
        None => Listen::Finished(stored_progress(&app, id).await?),
    };
    Ok(events::upload_stream(&app, client, listener, listen)?.into_response())
}

/// Cancels an upload.
#[utoipa::path(delete, path = "/api/uploads/{upload}", tag = "uploads",
    params(("upload" = String, Path)),
    responses(
        (status = 204, description = "The upload is cancelled."),
        (status = 404, body = Problem), (status = 409, body = Problem),
    ))]
pub async fn cancel(Here(app): Here, Path(upload): Path<String>) -> Result<StatusCode, Error> {
    let id = upload_id(&upload)?;
    match app.uploads.get(&id) {
        Some(upload) => app.uploads.cancel(&upload).await?,
        None => {
            app.store.read(move |reader| reader.upload(&id)).await?;
            return Err(StoreError::Conflict(format!("{upload} is finished")).into());
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// The answer to an upload that became a run.
pub async fn finished(app: &App, arrived: Arrived, to: &Addresses) -> Result<Response, Error> {
    let Arrived { run, known } = arrived;
    let url = to.of(&routes::run_page(&run));
    let run = summary_of(app, run).await?;
    let status = if known {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let subject = Subject::of(&run.id);
    let body = FinishedUpload { run, url, known };
    Ok((status, subject, axum::Json(body)).into_response())
}

impl FromRequestParts<Arc<App>> for Sender {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, main: &Arc<App>) -> Result<Sender, Infallible> {
        let listener = Listener::from_request_parts(parts, main).await.ok();
        let lasts =
            listener.map(|listener| Lasts::while_true(move || listener.may(&[Scope::Upload])));
        Ok(Sender::Client {
            address: Client::of(&parts.extensions).address,
            name: parts.extensions.get().and_then(Entry::sender),
            lasts,
        })
    }
}

async fn take(
    app: &App,
    upload: Arc<Upload>,
    sender: Sender,
    addresses: Addresses,
    coding: Coding,
    body: Body,
) -> Result<Response, Error> {
    let in_job = upload.in_job.clone();
    let body = body.into_data_stream();
    let plain = |piece: Result<_, _>| piece.map_err(|_| Broken::Cut);
    let arrived = match coding {
        Coding::None => app.uploads.take(upload, sender, body.map(plain)).await?,
        Coding::Gzip => app.uploads.take(upload, sender, unpacked(body)).await?,
    };
    if let Some(place) = in_job {
        app.jobs.warm(place.job);
    }
    finished(app, arrived, &addresses).await
}

async fn stored_progress(app: &App, id: UploadId) -> Result<UploadProgress, Error> {
    let stored = app.store.read(move |reader| reader.upload(&id)).await?;
    Ok(match stored.state {
        UploadState::Done(run) => UploadProgress::Done { run },
        UploadState::Failed(problem) => UploadProgress::Failed { problem },
        UploadState::Cancelled => UploadProgress::Cancelled,
        // It finished between the two checks, or will be continued soon.
        UploadState::Announced | UploadState::Running => UploadProgress::Running {
            phase: api::progress::Phase::Waiting,
            received: 0,
            total: stored.announced,
            events: 0,
            rate: 0,
        },
    })
}
