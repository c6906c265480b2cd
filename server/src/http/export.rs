//! A run as a file for other tools.

use super::extract::{Client, Path, Query, run_id};
use super::here::Here;
use crate::app::App;
use crate::blobs::BlobError;
use crate::export::{self, ExportError, Format};
use crate::limits::answering::{Caller, Presence, allowed};
use crate::limits::budget::Permit;
use crate::limits::clients::Slot;
use crate::limits::work::background;
use crate::problems::Error;
use crate::store::StoreError;
use api::problem::Problem;
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use std::io::{self, BufWriter, Write};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use trace::units::Bytes as Size;
use trace::watch::Watch;

/// Size of a piece in bytes, and how many pieces wait for a slow reader.
const PIECE: usize = 256 << 10;
const PIECES: usize = 8;

/// Processor time that an export may take. The largest recording that we have (11 million events)
/// takes some tens of seconds; hostile ones may make far more text than was sent.
const EXPORTING: Duration = Duration::from_secs(600);

/// As what.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ExportQuery {
    /// `pickle`, `parquet` or `perfetto`.
    format: String,
}

/// The run as a file: its snapshot, a table of its allocations, or a trace for Perfetto.
#[utoipa::path(get, path = "/api/runs/{run}/export", tag = "runs",
    params(("run" = String, Path), ExportQuery),
    responses(
        (status = 200,
            description = "The run as a file.",
            content_type = "application/octet-stream"),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn export(
    Here(app): Here,
    client: Client,
    Path(run): Path<String>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, Error> {
    let unknown = || {
        let names = Format::ALL.map(Format::name).join(", ");
        Error::BadRequest(format!("there is no format `{}`: {names}", query.format))
    };
    let format = Format::called(&query.format).ok_or_else(unknown)?;
    let id = run_id(&run)?;
    let (wanted, other) = (id.clone(), id.clone());
    let row = app.store.read(move |reader| {
        // This refuses deleted runs; reading the row alone would not.
        reader.run_ref(&wanted)?;
        reader.run(&other)
    });
    let row = row.await?;
    // The writing thread holds this place. If a client reads nothing, the place is held until the
    // client is dropped.
    let place = app.exports.take(client.address)?;
    let (sender, pieces) = mpsc::channel(PIECES);
    let memory = app.budget.take(Size((PIECE * (PIECES + 2)) as u64)).await;
    let (caller, presence) = Caller::waits();
    let held = Held {
        place,
        // The pieces on their way; what else it takes, the watch adds.
        memory: memory.map_err(StoreError::from)?,
        presence,
    };
    let name = row.name.clone();
    match format {
        Format::Pickle if row.pickle_protocol.is_none() => {
            return Err(Error::BadRequest(ExportError::NoPickle.to_string()));
        }
        Format::Pickle => {
            let held = check_blob(&app, &row.blob, held).await?;
            let (blobs, runtime) = (app.uploads.blobs().clone(), Handle::current());
            let work = move |watch: Watch<'_>, out: &mut Out| {
                export::write_snapshot(&blobs, &runtime, &row.blob, watch, out)
            };
            drop(background(move || run_to_end(sender, held, work)));
        }
        Format::Parquet | Format::Perfetto => {
            let decoded = app.pictures.traces.get(row.trace).await?;
            let tensors = app.tensors.get(&id).await?;
            let work = move |watch: Watch<'_>, out: &mut Out| {
                let tensors = tensors.as_deref();
                export::write_trace(format, &decoded.trace, tensors, &id, &name, watch, out)
            };
            drop(background(move || run_to_end(sender, held, work)));
        }
    }
    let body = stream::unfold((pieces, caller), async |(mut pieces, caller)| {
        let piece = pieces.recv().await?;
        Some((piece, (pieces, caller)))
    });
    let file = export::file_name_of(&row.name, &row.id, format);
    let headers = [
        (header::CONTENT_TYPE, format.media_type().to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{file}\""),
        ),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// Reads the whole file once before any byte is sent, because half an answer is worse than none.
/// The reading thread holds the place, because it does not end when the client hangs up.
async fn check_blob(app: &App, hash: &str, held: Held) -> Result<Held, Error> {
    let wanted = hash.to_owned();
    let row = app.store.read(move |reader| reader.blob(&wanted)).await?;
    let row = row.ok_or_else(|| BlobError::Missing(hash.to_owned()))?;
    let (blobs, runtime) = (app.uploads.blobs().clone(), Handle::current());
    let check = move || blobs.check(&runtime, &row).map(|()| held);
    let check = tokio::task::spawn_blocking(check);
    Ok(check.await.map_err(|_| Error::Panicked)??)
}

/// What an export holds until its last piece is written.
struct Held {
    place: Slot,
    memory: Permit,
    presence: Presence,
}

type Out = BufWriter<Pieces>;
type Sender = mpsc::Sender<io::Result<Bytes>>;

/// Writes an export into the response. A failure in the middle breaks the connection, so that
/// nobody takes half a file for a whole one.
fn run_to_end(
    sender: Sender,
    held: Held,
    work: impl FnOnce(Watch<'_>, &mut Out) -> Result<(), ExportError>,
) {
    let Held {
        place: _place,
        memory,
        presence,
    } = held;
    let mut out = BufWriter::with_capacity(PIECE, Pieces(sender.clone()));
    let written = allowed(Some(memory), EXPORTING, &presence, |watch| {
        Ok(work(watch, &mut out))
    });
    let written = written.map_err(ExportError::from).and_then(|done| done);
    let written = written.and_then(|()| Ok(out.flush()?));
    if let Err(error) = written {
        tracing::info!(%error, "an export ended early");
        // The reader either has gone or gets the error.
        let _ = sender.blocking_send(Err(io::Error::other(error)));
    }
}

/// The response's body as a writer.
struct Pieces(Sender);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.0.blocking_send(Ok(piece)).map_err(gone)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
