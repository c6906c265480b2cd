//! Makes a run from a recording, in the same way as from an upload.

use super::child::ChildSpec;
use crate::ingest::{Broken, IngestError, Sender, Uploads};
use crate::store::AliveTensor;
use crate::store::{Store, StoreError};
use crate::tensors::{self, TensorTable};
use api::ids::RunId;
use api::runs::RunSource;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use tokio::sync::mpsc;

/// Size of a piece in bytes, and how many pieces may wait.
const PIECE: usize = 256 << 10;
const PIECES: usize = 8;

/// Makes a run called `name` from a row's files.
///
/// # Errors
/// Why it did not become one.
pub async fn keep_recording(
    uploads: &Uploads,
    store: &Store,
    spec: &ChildSpec,
    name: String,
) -> Result<RunId, KeepError> {
    let packed = std::fs::read(&spec.tensors)?;
    let run = keep_snapshot(uploads, &spec.recording, name).await?;
    let id = run.clone();
    let keep = store.write(move |writer| {
        let table = TensorTable::unpack(&packed).map_err(StoreError::Packing)?;
        let alive: Vec<AliveTensor> = table.alive().collect();
        writer.set_tensors(&id, tensors::VERSION, &packed, &alive)
    });
    keep.await?;
    Ok(run)
}

async fn keep_snapshot(uploads: &Uploads, path: &Path, name: String) -> Result<RunId, KeepError> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let job = uploads.expect(name, Some(size), RunSource::Engine, None)?;
    let body = pieces(file).map(|piece| piece.map_err(|_| Broken::Cut));
    let arrived = uploads.take(job, Sender::Server, body).await?;
    Ok(arrived.run)
}

/// Why a recording did not become a run.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The file cannot be read.
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
