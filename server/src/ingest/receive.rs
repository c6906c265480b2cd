//! A body on its way: every piece goes at once to the blob store's thread and to the parser's.

use super::error::IngestError;
use super::job::Job;
use super::parse::parse;
use crate::blobs::{BlobError, Blobs, Staged};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use trace::snapshot::Snapshot;
use trace::units;

/// Pieces between the socket and each thread: with pieces of at most 256 KiB, 4 MiB.
const PIECES: usize = 16;

/// A body that sends nothing for so long has died without saying so.
const IDLE: Duration = Duration::from_secs(60);

/// How long a refused body is read on.
const DRAIN: Duration = Duration::from_secs(10);

/// Takes a whole body.
///
/// # Errors
/// Why it could not be taken; nothing is left of it then.
pub async fn receive<E>(
    job: &Arc<Job>,
    blobs: &Blobs,
    limit: units::Bytes,
    body: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin),
) -> Result<(Staged, Snapshot), IngestError> {
    let (to_parser, mut from_body) = mpsc::channel::<Bytes>(PIECES);
    let parsing = {
        let job = Arc::clone(job);
        let pieces = move || std::iter::from_fn(move || from_body.blocking_recv());
        spawn_blocking(move || parse(pieces(), &job.progress.events))
    };
    let (to_blob, from_body) = mpsc::channel::<Bytes>(PIECES);
    let storing = spawn_storing(blobs.clone(), job, from_body);
    let fed = feed(job, limit, body, [to_parser, to_blob]).await;
    // The senders are gone: both threads come to their end.
    let parsed = parsing.await.map_err(|_| IngestError::Panicked("parser"));
    let stored = storing.await.map_err(|_| IngestError::Panicked("blob"));
    // A body or a blob that ended early makes the parser see a damaged file: they come first.
    let staged = match (fed, stored?) {
        (Ok(()), staged) => staged?,
        (Err(error), Err(_)) => return Err(error),
        (Err(error), Ok(staged)) => {
            blobs.discard(&staged).await;
            return Err(error);
        }
    };
    match parsed.and_then(|parsed| parsed) {
        Ok(snapshot) => Ok((staged, snapshot)),
        Err(error) => {
            blobs.discard(&staged).await;
            Err(error)
        }
    }
}

/// Reads what a refused client still sends, for a while, so that it sees the refusal: closing the
/// connection at once would make its system throw the answer away.
pub async fn drain<E>(mut body: impl Stream<Item = Result<Bytes, E>> + Unpin) {
    let rest = async { while let Some(Ok(_)) = body.next().await {} };
    // Either way the body is dropped then.
    let _ = tokio::time::timeout(DRAIN, rest).await;
}

fn spawn_storing(
    blobs: Blobs,
    job: &Job,
    mut from_body: mpsc::Receiver<Bytes>,
) -> JoinHandle<Result<Staged, BlobError>> {
    let (runtime, id) = (Handle::current(), job.id.clone());
    spawn_blocking(move || {
        let mut incoming = blobs.begin(&runtime, &id)?;
        while let Some(piece) = from_body.blocking_recv() {
            incoming.write(&piece)?;
        }
        incoming.finish()
    })
}

/// Hands the body to both threads. A thread that wants no more has failed: its result says why.
async fn feed<E>(
    job: &Job,
    limit: units::Bytes,
    body: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin),
    threads: [mpsc::Sender<Bytes>; 2],
) -> Result<(), IngestError> {
    let interrupted = || IngestError::Interrupted {
        received: job.progress.received(),
        announced: job.progress.total(),
    };
    loop {
        let next = tokio::select! {
            () = job.cancel.cancelled() => return Err(IngestError::Cancelled),
            next = tokio::time::timeout(IDLE, body.next()) => next,
        };
        let piece = match next {
            Ok(Some(Ok(piece))) => piece,
            Ok(None) => break,
            Ok(Some(Err(_))) | Err(_) => return Err(interrupted()),
        };
        if job.progress.receive(piece.len()) > limit.get() {
            return Err(IngestError::TooLarge { limit });
        }
        for thread in &threads {
            if thread.send(piece.clone()).await.is_err() {
                return Ok(());
            }
        }
    }
    match job.progress.total() {
        Some(total) if total != job.progress.received() => Err(interrupted()),
        _ => Ok(()),
    }
}
