//! One upload: the state that its threads share, and how others watch and cancel it.

use super::error::IngestError;
use super::progress::Progress;
use super::sender::Lasts;
use crate::limits::clients::ClientAddress;
use crate::store::{RankOfJob, Store, StoreResult, UploadState};
use api::ids::{RunId, UploadId};
use api::problem::Problem;
use api::progress::{ServerEvent, UploadProgress};
use api::runs::RunSource;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

/// How often watchers get news of it.
const TICK: Duration = Duration::from_millis(200);

/// How often it is checked that whoever sends it still may.
const LOOKS_EVERY: Duration = Duration::from_secs(2);

/// How long an announced upload may wait for its first byte.
const PATIENCE: Duration = Duration::from_secs(600);

/// Describes an error for clients.
pub type Describe = fn(&IngestError) -> Problem;

/// The result of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The run.
    pub run: RunId,
    /// Whether the same bytes were there before.
    pub known: bool,
}

/// Whether an upload was cancelled or became a run: the first of the two wins.
///
/// A client that cancels gets its answer at once, while the thread that stores the run may be in
/// the middle of long work and notices it at its next check. So only one of them can win.
#[derive(Default)]
pub struct Fate(AtomicU8);

impl Fate {
    const OPEN: u8 = 0;
    const RUN: u8 = 1;
    const CANCELLED: u8 = 2;

    /// Makes it a run, unless it was cancelled.
    pub fn become_run(&self) -> bool {
        self.settle(Fate::RUN)
    }

    /// Makes it cancelled, unless it is a run.
    pub fn cancel(&self) -> bool {
        self.settle(Fate::CANCELLED)
    }

    fn settle(&self, to: u8) -> bool {
        let (open, relaxed) = (Fate::OPEN, Ordering::Relaxed);
        let settled = self.0.compare_exchange(open, to, Ordering::AcqRel, relaxed);
        settled.is_ok() || settled == Err(to)
    }
}

/// One upload.
pub struct Upload {
    /// Its id.
    pub id: UploadId,
    /// The file's name.
    pub name: String,
    /// What kind of run it becomes.
    pub source: RunSource,
    /// Its job and rank, if it has any.
    pub in_job: Option<RankOfJob>,
    /// Its counters.
    pub progress: Progress,
    /// Fires when the user cancels it.
    pub cancel: CancellationToken,
    /// Whether it becomes a run, or was cancelled before.
    pub fate: Fate,
    announced_by: Option<ClientAddress>,
    announced_at: Instant,
    uploaded_by: OnceLock<String>,
    lasts: OnceLock<Lasts>,
    started: AtomicBool,
    state: watch::Sender<UploadProgress>,
}

impl Upload {
    /// An upload that has not started.
    pub fn new(id: UploadId, name: String, source: RunSource, total: Option<u64>) -> Upload {
        Upload::made(id, name, source, total, None, Instant::now())
    }

    /// An upload that a client announces now and will send soon.
    pub fn announced(
        id: UploadId,
        name: String,
        source: RunSource,
        total: Option<u64>,
        who: ClientAddress,
        now: Instant,
    ) -> Upload {
        Upload::made(id, name, source, total, Some(who), now)
    }

    fn made(
        id: UploadId,
        name: String,
        source: RunSource,
        total: Option<u64>,
        announced_by: Option<ClientAddress>,
        announced_at: Instant,
    ) -> Upload {
        let progress = Progress::new(total);
        let state = watch::Sender::new(progress.sample(Instant::now()));
        Upload {
            id,
            name,
            source,
            in_job: None,
            progress,
            cancel: CancellationToken::new(),
            fate: Fate::default(),
            announced_by,
            announced_at,
            uploaded_by: OnceLock::new(),
            lasts: OnceLock::new(),
            started: AtomicBool::new(false),
            state,
        }
    }

    /// The same, as a rank of a job.
    pub fn placed(self, in_job: Option<RankOfJob>) -> Upload {
        Upload { in_job, ..self }
    }

    /// Notes who sends its body, the first time, and how long they may.
    pub fn sent_by(&self, name: Option<String>, lasts: Option<Lasts>) {
        if let Some(lasts) = lasts {
            let _ = self.lasts.set(lasts);
        }
        if let Some(name) = name {
            // Only whoever claims it is noted, so it is noted once.
            let _ = self.uploaded_by.set(name);
        }
    }

    /// Who sends its body, where people sign in.
    pub fn uploaded_by(&self) -> Option<String> {
        self.uploaded_by.get().cloned()
    }

    /// Whether its sender may still send it.
    ///
    /// # Errors
    /// [`IngestError::AccessEnded`].
    pub fn check_sender(&self) -> Result<(), IngestError> {
        match self.lasts.get().is_none_or(Lasts::now) {
            true => Ok(()),
            false => Err(IngestError::AccessEnded),
        }
    }

    /// Cancels it when its sender may not send any more. Does not end otherwise, nor when it became
    /// a run before.
    pub async fn access_ends(&self) {
        while self.check_sender().is_ok() {
            tokio::time::sleep(LOOKS_EVERY).await;
        }
        if !self.fate.cancel() {
            std::future::pending::<()>().await;
        }
        self.cancel.cancel();
    }

    /// Claims it: true only for the first caller.
    pub fn start(&self) -> bool {
        !self.started.swap(true, Ordering::AcqRel)
    }

    /// Lets it be claimed again.
    pub fn give_back_claim(&self) {
        self.started.store(false, Ordering::Release);
    }

    /// Whether its body has begun to arrive.
    pub fn is_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Bytes that were announced and have not arrived.
    pub fn to_come(&self) -> u64 {
        let total = self.progress.total().unwrap_or(0);
        total.saturating_sub(self.progress.received())
    }

    /// Whether it was announced but its body never came.
    pub fn is_abandoned(&self, now: Instant) -> bool {
        !self.is_started() && now.saturating_duration_since(self.announced_at) > PATIENCE
    }

    /// The client that announced it, if a client did.
    pub fn announced_by(&self) -> Option<ClientAddress> {
        self.announced_by
    }

    /// When it was announced.
    pub fn announced_at(&self) -> Instant {
        self.announced_at
    }

    /// Its progress, now and later.
    pub fn watch(&self) -> watch::Receiver<UploadProgress> {
        self.state.subscribe()
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        !matches!(*self.state.borrow(), UploadProgress::Running { .. })
    }

    /// Tells watchers the progress, a few times a second, until the upload has ended.
    pub async fn tick(self: Arc<Upload>, events: broadcast::Sender<ServerEvent>) {
        let mut watching = self.state.subscribe();
        loop {
            let finished = watching.wait_for(|s| !matches!(s, UploadProgress::Running { .. }));
            if tokio::time::timeout(TICK, finished).await.is_ok() {
                return;
            }
            self.publish(self.progress.sample(Instant::now()), &events);
        }
    }

    /// Reports the end: first to the database, then to the watchers.
    ///
    /// # Errors
    /// The database's.
    pub async fn finish(
        &self,
        outcome: &Result<Arrived, IngestError>,
        describe: Describe,
        store: &Store,
        events: &broadcast::Sender<ServerEvent>,
    ) -> StoreResult<()> {
        let (state, progress) = match outcome {
            Ok(Arrived { run, .. }) => {
                let run = run.clone();
                (UploadState::Done(run.clone()), UploadProgress::Done { run })
            }
            Err(IngestError::Cancelled) => (UploadState::Cancelled, UploadProgress::Cancelled),
            Err(error) => {
                let problem = describe(error);
                (
                    UploadState::Failed(problem.clone()),
                    UploadProgress::Failed { problem },
                )
            }
        };
        let (id, now) = (self.id.clone(), crate::system::clock::now_ms());
        let in_job = self.in_job.clone();
        let recorded = store
            .write(move |writer| {
                if let (UploadState::Done(run), Some(place)) = (&state, &in_job) {
                    writer.join_job(place, run)?;
                }
                writer.move_upload(&id, &state, now)
            })
            .await;
        self.publish(progress, events);
        if outcome.is_ok() {
            // Fails if nobody listens, which is fine.
            let _ = events.send(ServerEvent::RunsChanged);
        }
        recorded
    }

    fn publish(&self, progress: UploadProgress, events: &broadcast::Sender<ServerEvent>) {
        self.state.send_if_modified(|state| {
            let moves = matches!(state, UploadProgress::Running { .. });
            if moves {
                state.clone_from(&progress);
            }
            moves
        });
        let upload = self.id.clone();
        // Fails if nobody listens, which is fine.
        let _ = events.send(ServerEvent::Upload { upload, progress });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cancelled_is_no_run() {
        let (cancelled, run) = (Fate::default(), Fate::default());
        assert!(cancelled.cancel() && !cancelled.become_run() && cancelled.cancel());
        assert!(run.become_run() && !run.cancel() && run.become_run());
    }
}
