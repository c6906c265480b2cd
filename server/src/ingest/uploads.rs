//! The upload service: announces, takes, watches and cancels uploads.

use super::error::IngestError;
use super::job::{Arrived, Describe, Job};
use super::keep::{Kept, Label, Place, keep};
use super::receive::{drain, receive};
use crate::blobs::{Blobs, Staged};
use crate::clock::now_ms;
use crate::identity::{run_id, upload_id};
use crate::pictures::Pictures;
use crate::questions::Judge;
use crate::store::{Store, StoreError, UploadState};
use api::ids::{RunId, UploadId};
use api::problem::Problem;
use api::progress::{Phase, ServerEvent};
use api::runs::RunSource;
use bytes::Bytes;
use futures_util::Stream;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, broadcast};
use tokio::task::spawn_blocking;
use trace::snapshot::Snapshot;
use trace::units;

/// Files parsed at the same time: a gigabyte of snapshot takes half a gigabyte of memory. The
/// others wait, and their progress says so.
const AT_ONCE: usize = 2;

/// An upload this large makes the cache of decoded traces give its memory up first.
const LARGE: u64 = 64 << 20;

/// What uploads may take.
#[derive(Clone, Copy, Debug)]
pub struct UploadLimits {
    /// Largest body.
    pub upload: units::Bytes,
    /// What must stay free on the disk.
    pub keep_free: units::Bytes,
}

/// The service. Cloning shares it.
#[derive(Clone)]
pub struct Uploads {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub store: Store,
    pub blobs: Blobs,
    pub pictures: Pictures,
    pub events: broadcast::Sender<ServerEvent>,
    describe: Describe,
    limits: UploadLimits,
    turns: Semaphore,
    judge: Judge,
    jobs: Mutex<HashMap<UploadId, Arc<Job>>>,
}

impl Uploads {
    /// A service that stores what it takes in `store` and `blobs`.
    pub fn new(
        store: Store,
        blobs: Blobs,
        pictures: Pictures,
        events: broadcast::Sender<ServerEvent>,
        describe: Describe,
        limits: UploadLimits,
    ) -> Uploads {
        let judge = Judge::new(store.clone(), pictures.clone(), events.clone());
        let shared = Shared {
            judge,
            store,
            blobs,
            pictures,
            events,
            describe,
            limits,
            turns: Semaphore::new(AT_ONCE),
            jobs: Mutex::default(),
        };
        Uploads {
            shared: Arc::new(shared),
        }
    }

    /// Who judges its runs.
    pub fn judge(&self) -> &Judge {
        &self.shared.judge
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn describe(&self, error: &IngestError) -> Problem {
        (self.shared.describe)(error)
    }

    /// Counts a job that a stopped server left among its own.
    pub(super) fn adopt(&self, job: Job) -> Arc<Job> {
        let job = Arc::new(job);
        job.start();
        self.jobs().insert(job.id.clone(), Arc::clone(&job));
        job
    }

    /// Where it stores bytes.
    pub fn blobs(&self) -> &Blobs {
        &self.shared.blobs
    }

    /// Accepts an upload before a byte of it is sent.
    ///
    /// # Errors
    /// When it is larger than the limit or the disk.
    pub async fn announce(
        &self,
        name: String,
        size: Option<u64>,
        source: RunSource,
    ) -> Result<Arc<Job>, IngestError> {
        let spoken_for: u64 = self.unfinished().iter().map(|job| job.to_come()).sum();
        self.check_room(size.unwrap_or(0), spoken_for)?;
        let job = Arc::new(Job::new(upload_id(), name, source, size));
        let (id, name) = (job.id.clone(), job.name.clone());
        let insert = self
            .shared
            .store
            .write(move |writer| writer.insert_upload(&id, &name, size, source, now_ms()));
        insert.await?;
        let mut jobs = self.jobs();
        jobs.retain(|_, job| !job.is_finished() && !job.is_abandoned());
        jobs.insert(job.id.clone(), Arc::clone(&job));
        Ok(job)
    }

    /// An upload that is announced or under way.
    pub fn job(&self, id: &UploadId) -> Option<Arc<Job>> {
        self.jobs().get(id).cloned()
    }

    /// Whether an upload is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.jobs()
            .values()
            .any(|job| job.is_started() && !job.is_finished())
    }

    /// Uploads that are announced or under way.
    pub fn unfinished(&self) -> Vec<Arc<Job>> {
        let jobs = self.jobs();
        jobs.values()
            .filter(|job| !job.is_finished())
            .cloned()
            .collect()
    }

    /// Takes the body of an announced upload, whatever becomes of the caller: it goes on in a task
    /// of its own, so that a dropped connection is cleared up after like any other failure.
    ///
    /// # Errors
    /// Why it did not become a run; nothing is left of it then.
    pub async fn take<E: Send + 'static>(
        &self,
        job: Arc<Job>,
        body: impl Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static,
    ) -> Result<Arrived, IngestError> {
        if !job.start() {
            let taken = format!("the body of {} was sent already", job.id);
            return Err(StoreError::Conflict(taken).into());
        }
        let uploads = self.clone();
        let task = tokio::spawn(async move {
            let mut body = body;
            let work = uploads.arrive(&job, &mut body);
            let outcome = uploads.see_through(&job, work).await;
            if outcome.is_err() {
                tokio::spawn(drain(body));
            }
            outcome
        });
        task.await.unwrap_or(Err(IngestError::Panicked("upload")))
    }

    /// Cancels an upload. One that has not started is finished at once.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when it is finished.
    pub async fn cancel(&self, job: &Arc<Job>) -> Result<(), IngestError> {
        if job.is_finished() {
            return Err(StoreError::Conflict(format!("{} is finished", job.id)).into());
        }
        job.cancel.cancel();
        if job.start() {
            let cancelled = async { Err(IngestError::Cancelled) };
            let _ = self.see_through(job, cancelled).await;
        }
        Ok(())
    }

    /// Runs an upload's work and speaks its last word.
    pub(super) async fn see_through(
        &self,
        job: &Arc<Job>,
        work: impl Future<Output = Result<Arrived, IngestError>>,
    ) -> Result<Arrived, IngestError> {
        let Shared {
            store,
            events,
            describe,
            ..
        } = &*self.shared;
        let ticking = tokio::spawn(Arc::clone(job).tick(events.clone()));
        let outcome = work.await;
        if let Err(error) = &outcome {
            tracing::info!(upload = %job.id, %error, "upload failed");
        }
        let recorded = job.finish(&outcome, *describe, store, events).await;
        ticking.abort();
        self.jobs().remove(&job.id);
        if outcome.is_err() {
            self.remove_unused_blobs().await?;
        }
        recorded?;
        if matches!(outcome, Ok(Arrived { known: false, .. })) {
            let store = store.clone();
            // Nobody waits for it: the run is there already.
            tokio::spawn(async move {
                if let Err(error) = store.checkpoint().await {
                    tracing::debug!(%error, "the log stays as it is");
                }
            });
        }
        outcome
    }

    async fn arrive<E: Send + 'static>(
        &self,
        job: &Arc<Job>,
        body: &mut (impl Stream<Item = Result<Bytes, E>> + Send + Unpin),
    ) -> Result<Arrived, IngestError> {
        let Shared {
            store,
            blobs,
            pictures,
            limits,
            turns,
            ..
        } = &*self.shared;
        let id = job.id.clone();
        store
            .write(move |writer| writer.move_upload(&id, &UploadState::Running, now_ms()))
            .await?;
        let _turn = tokio::select! {
            turn = turns.acquire() => turn,
            () = job.cancel.cancelled() => return Err(IngestError::Cancelled),
        };
        if job.progress.total().is_none_or(|total| total > LARGE) {
            pictures.traces.forget_all();
        }
        job.progress.enter(Phase::Receiving);
        let (staged, snapshot) = receive(job, blobs, limits.upload, body).await?;
        let run = self.keep_blob(job, &staged).await?;
        self.make_run(job, run, staged.row.hash, snapshot).await
    }

    /// Takes up an upload again whose bytes are all in the blob store.
    pub(super) async fn resume(
        &self,
        job: &Arc<Job>,
        hash: String,
    ) -> Result<Arrived, IngestError> {
        let _turn = self.shared.turns.acquire().await;
        let snapshot = self.read_blob(job, hash.clone()).await?;
        let content = blake3::Hash::from_hex(&hash).map_err(|_| StoreError::Corrupt {
            what: "blob hash",
            value: hash.clone(),
        })?;
        self.make_run(job, run_id(&content), hash, snapshot).await
    }

    /// Derives a run's trace from its blob again, in the place of one that another version stored.
    pub(super) async fn rebuild(&self, run: Label) -> Result<(), IngestError> {
        let _turn = self.shared.turns.acquire().await;
        let job = Job::new(upload_id(), run.name.clone(), run.source, None);
        let job = Arc::new(job);
        let snapshot = self.read_blob(&job, run.blob.clone()).await?;
        self.replay(&job, run, Place::Replace, snapshot).await?;
        Ok(())
    }

    async fn read_blob(&self, job: &Arc<Job>, hash: String) -> Result<Snapshot, IngestError> {
        job.progress.enter(Phase::Receiving);
        let (blobs, runtime) = (self.shared.blobs.clone(), tokio::runtime::Handle::current());
        let reading = Arc::clone(job);
        let parsing =
            spawn_blocking(move || super::recover::parse_blob(&blobs, &runtime, &hash, &reading));
        parsing.await.map_err(|_| IngestError::Panicked("parser"))?
    }

    async fn keep_blob(&self, job: &Job, staged: &Staged) -> Result<RunId, IngestError> {
        let _changing = self.shared.blobs.keep(staged).await?;
        let (row, id) = (staged.row.clone(), job.id.clone());
        let record = self.shared.store.write(move |writer| {
            writer.insert_blob(&row, now_ms())?;
            writer.upload_stored(&id, &row.hash, now_ms())
        });
        record.await?;
        Ok(run_id(&staged.hash))
    }

    async fn make_run(
        &self,
        job: &Arc<Job>,
        run: RunId,
        blob: String,
        snapshot: Snapshot,
    ) -> Result<Arrived, IngestError> {
        if self.is_known(&run).await? {
            return Ok(Arrived { run, known: true });
        }
        let label = Label {
            run: run.clone(),
            name: job.name.clone(),
            source: job.source,
            blob,
        };
        let kept = self.replay(job, label, Place::Insert, snapshot).await?;
        // A large one: small ones were judged while they were stored.
        tokio::spawn(self.judge().clone().judge_all());
        Ok(Arrived {
            run,
            known: kept == Kept::Known,
        })
    }

    async fn replay(
        &self,
        job: &Arc<Job>,
        label: Label,
        place: Place,
        snapshot: Snapshot,
    ) -> Result<Kept, IngestError> {
        job.progress.enter(Phase::Replaying);
        let (job, uploads) = (Arc::clone(job), self.clone());
        let work = spawn_blocking(move || {
            let trace = trace::replay::run(snapshot);
            job.progress.enter(Phase::Storing);
            let Shared {
                store, pictures, ..
            } = uploads.shared();
            let cancelled = || job.cancel.is_cancelled();
            keep(store, pictures, label, place, trace, cancelled)
        });
        work.await.map_err(|_| IngestError::Panicked("replay"))?
    }

    /// Whether the run is there; a deleted one comes back, for that is what its sender wants.
    async fn is_known(&self, run: &RunId) -> Result<bool, IngestError> {
        let run = run.clone();
        let known = self.shared.store.write(move |writer| {
            let known = writer.reader().has_run(&run)?;
            if known {
                writer.restore_run(&run)?;
            }
            Ok(known)
        });
        Ok(known.await?)
    }

    /// Whether `size` bytes may come beside those that other uploads still have to send.
    fn check_room(&self, size: u64, spoken_for: u64) -> Result<(), IngestError> {
        let UploadLimits {
            upload: limit,
            keep_free,
        } = self.shared.limits;
        if size > limit.get() {
            return Err(IngestError::TooLarge { limit });
        }
        // Snapshots pack to a tenth, but an upload may be packed already.
        let needed = size
            .saturating_add(spoken_for)
            .saturating_add(keep_free.get());
        let needed = units::Bytes(needed);
        match self.shared.blobs.free_bytes().map(units::Bytes) {
            Some(free) if free < needed => Err(IngestError::NoSpace { free, needed }),
            _ => Ok(()),
        }
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<UploadId, Arc<Job>>> {
        self.shared
            .jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
