//! Makes a run from a recording, in the same way as from an upload.

use super::child::ChildSpec;
use crate::ingest::{Broken, IngestError, Sender, Uploads};
use crate::store::{AliveTensor, Store, StoreError};
use crate::tensors::{self, TensorTable};
use api::ids::RunId;
use api::runs::RunSource;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Size of a piece in bytes, and how many pieces may wait.
const PIECE: usize = 256 << 10;
const PIECES: usize = 8;

/// What was kept of a row's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The run that the recording became.
    pub run: Option<RunId>,
    /// What could not be kept, and why.
    pub note: Option<String>,
}

/// Makes a run called `name` from a row's files, unless `cancel` fires before it is one. What
/// cannot be kept takes nothing else with it.
///
/// # Errors
/// [`Cancelled`].
pub async fn keep_recording(
    uploads: &Uploads,
    store: &Store,
    spec: &ChildSpec,
    name: String,
    cancel: &CancellationToken,
) -> Result<Kept, Cancelled> {
    let run = match keep_snapshot(uploads, &spec.recording, name, cancel).await {
        Ok(run) => run,
        Err(KeepError::Ingest(IngestError::Cancelled)) if cancel.is_cancelled() => {
            return Err(Cancelled);
        }
        Err(error) => {
            return Ok(Kept {
                run: None,
                note: Some(missing("recording", &error)),
            });
        }
    };
    let kept = keep_tensors(store, spec, run.clone()).await;
    Ok(Kept {
        run: Some(run),
        note: kept.err().map(|error| missing("list of tensors", &error)),
    })
}

fn missing(what: &str, why: &KeepError) -> String {
    format!("its {what} is missing, because it cannot be stored: {why}")
}

async fn keep_tensors(store: &Store, spec: &ChildSpec, run: RunId) -> Result<(), KeepError> {
    let packed = std::fs::read(&spec.tensors)?;
    let keep = store.write(move |writer| {
        let table = TensorTable::unpack(&packed).map_err(StoreError::Packing)?;
        let alive: Vec<AliveTensor> = table.alive().collect();
        writer.set_tensors(&run, tensors::VERSION, &packed, &alive)
    });
    Ok(keep.await?)
}

async fn keep_snapshot(
    uploads: &Uploads,
    path: &Path,
    name: String,
    cancel: &CancellationToken,
) -> Result<RunId, KeepError> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let job = uploads.expect(name, Some(size), RunSource::Engine, None)?;
    let body = pieces(file).map(|piece| piece.map_err(|_| Broken::Cut));
    let taking = uploads.take(Arc::clone(&job), Sender::Server, body);
    tokio::pin!(taking);
    let arrived = tokio::select! {
        // It begins first: what is cancelled before that is refused as if it was sent twice.
        biased;
        arrived = &mut taking => arrived?,
        () = cancel.cancelled() => {
            // This is refused if it has just become a run.
            let _ = uploads.cancel(&job).await;
            taking.await?
        }
    };
    Ok(arrived.run)
}

/// The row was cancelled before its recording was a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// Why a file was not kept.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] io::Error),
    /// It cannot be stored.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// What is known of its tensors cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A file, piece by piece, read on a thread of its own.
fn pieces(mut file: File) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin {
    let (sender, receiver) = mpsc::channel(PIECES);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut piece = Vec::with_capacity(PIECE);
            let read = Read::by_ref(&mut file)
                .take(PIECE as u64)
                .read_to_end(&mut piece);
            let piece = match read {
                Ok(0) => return,
                Ok(_) => Ok(Bytes::from(piece)),
                Err(error) => Err(error),
            };
            let failed = piece.is_err();
            // If nobody listens, the rest is not needed.
            if sender.blocking_send(piece).is_err() || failed {
                return;
            }
        }
    });
    Box::pin(stream::unfold(receiver, async |mut receiver| {
        let piece = receiver.recv().await?;
        Some((piece, receiver))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::App;
    use crate::config::Config;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_row_that_is_cancelled_while_its_recording_is_kept_makes_no_run() {
        let folder = tempfile::tempdir().unwrap();
        let app = App::open(Config::new(folder.path().join("data"))).await;
        let app = app.unwrap();
        let recording = folder.path().join("recording.pickle");
        let sample = crate::samples::find("leak_hook_cache").unwrap();
        std::fs::write(&recording, sample.file).unwrap();
        let kept = async |cancel: &CancellationToken| {
            let kept = keep_snapshot(&app.uploads, &recording, "a".to_owned(), cancel).await;
            let runs = app.store.read(|reader| reader.all_runs()).await;
            (kept, runs.unwrap())
        };
        let cancel = CancellationToken::new();
        cancel.cancel();
        let (cancelled, runs) = kept(&cancel).await;
        let is_cancelled = matches!(cancelled, Err(KeepError::Ingest(IngestError::Cancelled)));
        assert!(is_cancelled, "{cancelled:?}");
        assert_eq!(runs, 0);
        let (made, runs) = kept(&CancellationToken::new()).await;
        assert!(made.is_ok(), "{made:?}");
        assert_eq!(runs, 1);
    }
}
