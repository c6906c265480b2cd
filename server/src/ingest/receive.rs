//! Receives a body: every piece goes at once to the thread of the blob store and to the parser.

use super::admission::Admission;
use super::coding::Broken;
use super::error::IngestError;
use super::parse::{Read, parse_within};
use super::upload::Upload;
use crate::blobs::{BlobError, Blobs, Staged};
use crate::limits::clients::pace::Watch;
use crate::limits::work::{Panicked, background};
use api::progress::Phase;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;
use trace::units;

/// How many pieces may wait between the socket and each thread: with pieces of at most 256 KiB, 4
/// MiB.
const PIECES: usize = 16;

/// After this many bytes, the free space is checked again.
const LOOK_EVERY: u64 = 1 << 20;

/// The most bytes of an upload that are not on the disk yet: parts that are being filled and
/// written, and bytes that wait for them.
const UNWRITTEN: u64 = 32 << 20;

/// How long the rest of a refused body is still read.
const DRAIN: Duration = Duration::from_secs(10);

/// Limits for uploads.
#[derive(Clone, Copy, Debug)]
pub struct UploadLimits {
    /// Largest body.
    pub upload: units::Bytes,
    /// Space that must stay free on the disk.
    pub keep_free: units::Bytes,
}

/// A whole body, in the blob store.
pub struct Received {
    /// Its bytes.
    pub staged: Staged,
    /// `None` if it must be read from the blob store later, because there was no turn, or the
    /// client was too slow to keep it.
    pub read: Option<Read>,
}

/// Receives a whole body.
///
/// # Errors
/// Why it could not be received; nothing of it is left then.
pub async fn receive(
    upload: &Arc<Upload>,
    blobs: &Blobs,
    admission: &Admission,
    limits: UploadLimits,
    body: &mut (impl Stream<Item = Result<Bytes, Broken>> + Unpin),
) -> Result<Received, IngestError> {
    let (to_blob, from_body) = mpsc::channel::<Bytes>(PIECES);
    let storing = spawn_storing(blobs.clone(), upload, from_body);
    let is_promised = upload.progress.total().is_some();
    let room = Room {
        free: || blobs.free_bytes(),
        limits,
        // The space for an announced size was checked before.
        unwritten: if is_promised { 0 } else { UNWRITTEN },
    };
    let mut reading = Reading::NotYet;
    let fed = feed(upload, admission, &room, body, &mut reading, &to_blob).await;
    // When their senders are dropped, both threads end.
    drop(to_blob);
    let read = reading.finish().await;
    let stored = storing.await.map_err(|_| IngestError::Panicked("blob"));
    // If a body or blob ended early, the parser sees a damaged file. So these errors come first.
    let staged = match (fed, stored?) {
        (Ok(()), staged) => staged?,
        (Err(error), Err(_)) => return Err(error),
        (Err(error), Ok(staged)) => {
            blobs.discard(&staged).await;
            return Err(error);
        }
    };
    match read.transpose() {
        Ok(read) => Ok(Received { staged, read }),
        Err(error) => {
            blobs.discard(&staged).await;
            Err(error)
        }
    }
}

/// Reads the rest of a refused body for a while, so that the client sees the refusal. If the
/// connection were closed at once, the client's system would discard the answer.
pub async fn drain<E>(mut body: impl Stream<Item = Result<Bytes, E>> + Unpin) {
    let rest = async { while let Some(Ok(_)) = body.next().await {} };
    // In both cases the body is dropped then.
    let _ = tokio::time::timeout(DRAIN, rest).await;
}

fn spawn_storing(
    blobs: Blobs,
    upload: &Upload,
    mut from_body: mpsc::Receiver<Bytes>,
) -> impl Future<Output = Result<Result<Staged, BlobError>, Panicked>> {
    let (runtime, id) = (Handle::current(), upload.id.clone());
    background(move || {
        let mut incoming = blobs.begin(&runtime, &id)?;
        while let Some(piece) = from_body.blocking_recv() {
            incoming.write(&piece)?;
        }
        incoming.finish()
    })
}

/// The space that a body may take, even if its announcement gave no size.
struct Room<F> {
    /// Bytes free on the disk.
    free: F,
    limits: UploadLimits,
    unwritten: u64,
}

impl<F: Fn() -> Option<u64>> Room<F> {
    /// Whether more may come, after this many bytes.
    fn check(&self, before: u64, received: u64) -> Result<(), IngestError> {
        let UploadLimits { upload, keep_free } = self.limits;
        if received > upload.get() {
            return Err(IngestError::TooLarge { limit: upload });
        }
        if before != 0 && before / LOOK_EVERY == received / LOOK_EVERY {
            return Ok(());
        }
        // The last bytes are not on the disk yet.
        let needed = keep_free.get().saturating_add(received.min(self.unwritten));
        match (self.free)() {
            Some(free) if free < needed => Err(IngestError::NoSpace {
                free: units::Bytes(free),
                needed: units::Bytes(needed),
            }),
            _ => Ok(()),
        }
    }
}

/// A file that is read while it arrives, if possible.
enum Reading {
    /// Nothing has arrived yet: until then it takes no turn.
    NotYet,
    /// A thread reads the bytes as they arrive.
    Now {
        pieces: mpsc::Sender<Bytes>,
        result: BoxFuture<'static, Result<Result<Read, IngestError>, Panicked>>,
        watch: Watch,
    },
    /// It will be read when all of it has arrived.
    Later,
}

impl Reading {
    /// Takes a turn for a file that begins to arrive, if one is free.
    fn begin(upload: &Arc<Upload>, admission: &Admission) -> Reading {
        let Some(allowance) = admission.turn_now(upload) else {
            return Reading::Later;
        };
        let (pieces, mut from_body) = mpsc::channel::<Bytes>(PIECES);
        let upload = Arc::clone(upload);
        let read = move || {
            let pieces = std::iter::from_fn(move || from_body.blocking_recv());
            parse_within(allowance, pieces, &upload.progress.events)
        };
        Reading::Now {
            pieces,
            result: Box::pin(background(read)),
            watch: admission.parse_pace.watch(),
        }
    }

    /// How long the reader may wait for the next piece.
    fn patience(&self) -> Duration {
        match self {
            Reading::Now { watch, .. } => watch.left(),
            Reading::NotYet | Reading::Later => Duration::MAX,
        }
    }

    /// The reader waited this long for the next piece. If that is too slow, its turn goes to
    /// others.
    fn waited(&mut self, time: Duration) {
        if let Reading::Now { watch, .. } = self
            && watch.waited(time).is_err()
        {
            *self = Reading::Later;
        }
    }

    /// Passes a piece on. False if the reader wants no more; its result says why.
    async fn read(&mut self, piece: Bytes) -> bool {
        match self {
            Reading::Now { pieces, watch, .. } => {
                watch.moved(piece.len());
                pieces.send(piece).await.is_ok()
            }
            Reading::NotYet | Reading::Later => true,
        }
    }

    async fn finish(self) -> Option<Result<Read, IngestError>> {
        let Reading::Now { pieces, result, .. } = self else {
            return None;
        };
        drop(pieces);
        let read = result.await.map_err(|_| IngestError::Panicked("parser"));
        Some(read.and_then(|read| read))
    }
}

/// Passes the body to both threads. If a thread wants no more, it has failed; its result says why.
async fn feed(
    upload: &Arc<Upload>,
    admission: &Admission,
    room: &Room<impl Fn() -> Option<u64>>,
    body: &mut (impl Stream<Item = Result<Bytes, Broken>> + Unpin),
    reading: &mut Reading,
    to_blob: &mpsc::Sender<Bytes>,
) -> Result<(), IngestError> {
    let interrupted = || IngestError::Interrupted {
        received: upload.progress.received(),
        announced: upload.progress.total(),
    };
    let mut watch = admission.pace.watch();
    loop {
        let patience = watch.left().min(reading.patience());
        let began = Instant::now();
        let next = tokio::select! {
            () = upload.cancel.cancelled() => return Err(IngestError::Cancelled),
            next = tokio::time::timeout(patience, body.next()) => next,
        };
        let waited = match next {
            Ok(_) => began.elapsed(),
            Err(_) => began.elapsed().max(patience),
        };
        reading.waited(waited);
        watch.waited(waited).map_err(IngestError::TooSlow)?;
        let piece = match next {
            Ok(Some(Ok(piece))) => piece,
            Ok(Some(Err(Broken::Cut))) => return Err(interrupted()),
            Ok(Some(Err(Broken::Damaged(error)))) => return Err(IngestError::of_body(&error)),
            Ok(None) => break,
            Err(_) => continue,
        };
        let before = upload.progress.received();
        let received = &admission.tally.bytes;
        received.fetch_add(piece.len() as u64, Ordering::Relaxed);
        let received = upload.progress.receive(piece.len());
        if let Some(announced) = upload.progress.total().filter(|total| received > *total) {
            return Err(IngestError::Longer { announced });
        }
        room.check(before, received)?;
        watch.moved(piece.len());
        if matches!(reading, Reading::NotYet) {
            upload.progress.enter(Phase::Receiving);
            *reading = Reading::begin(upload, admission);
        }
        if !reading.read(piece.clone()).await || to_blob.send(piece).await.is_err() {
            return Ok(());
        }
    }
    match upload.progress.total() {
        Some(total) if total != upload.progress.received() => Err(interrupted()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::allowance::Allowance;
    use crate::limits::clients::ClientLimits;
    use futures_util::stream;
    use std::sync::atomic::AtomicU64;
    use units::Bytes as Size;

    /// The result for a body of this many pieces of 1 MiB on a disk with `free` MiB, of which 20
    /// must stay free, if every piece is written at once.
    async fn fed(free: u64, pieces: u64, total: Option<u64>) -> Result<(), IngestError> {
        const MIB: u64 = 1 << 20;
        let id = crate::identity::upload_id();
        let upload = Upload::new(id, String::new(), api::runs::RunSource::Upload, total);
        let written = Arc::new(AtomicU64::new(0));
        let room = Room {
            free: || Some((free * MIB).saturating_sub(written.load(Ordering::Relaxed))),
            limits: UploadLimits {
                upload: Size::gib(1),
                keep_free: Size::mib(20),
            },
            unwritten: if total.is_some() { 0 } else { UNWRITTEN },
        };
        let (to_blob, mut taken) = mpsc::channel(1);
        let count = Arc::clone(&written);
        tokio::spawn(async move {
            while let Some(piece) = taken.recv().await {
                let piece: Bytes = piece;
                count.fetch_add(piece.len() as u64, Ordering::Relaxed);
            }
        });
        let piece = Bytes::from(vec![0; MIB as usize]);
        let pieces = std::iter::repeat_n(piece, pieces as usize).map(Ok);
        let mut body = stream::iter(pieces);
        let budget = crate::limits::budget::Budget::new(Size::mib(64));
        let admission = Admission::new(&ClientLimits::default(), &budget);
        let upload = Arc::new(upload);
        // Nobody can read: all turns are taken.
        let _turns: Vec<Allowance> = std::iter::from_fn(|| admission.turn_now(&upload)).collect();
        let mut reading = Reading::NotYet;
        let fed = feed(
            &upload,
            &admission,
            &room,
            &mut body,
            &mut reading,
            &to_blob,
        )
        .await;
        let left = (room.free)().unwrap_or(0);
        assert!(left >= 20 * MIB - 2 * MIB, "{left} bytes are left");
        fed
    }

    #[tokio::test]
    async fn what_must_stay_free_stays_free_whatever_was_announced() {
        let refused = |fed| assert!(matches!(fed, Err(IngestError::NoSpace { .. })), "{fed:?}");
        refused(fed(100, 200, None).await);
        fed(100, 10, None).await.unwrap();
        fed(100, 70, Some(70 << 20)).await.unwrap();
        // Something else filled the disk after the announcement.
        refused(fed(30, 70, Some(70 << 20)).await);
    }
}
