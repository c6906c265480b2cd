//! The upload service: announces, receives, watches and cancels uploads.

use super::admission::Admission;
use super::allowance::{Allowance, watched};
use super::coding::Broken;
use super::disk_share::{DiskShare, Room};
use super::error::IngestError;
use super::keep::{Kept, RunOrigin, TraceOf, keep};
use super::parse::{Read, parse_blob};
use super::receive::{UploadLimits, drain, receive};
use super::sender::Sender;
use super::tally::Tally;
use super::upload::{Arrived, Describe, Upload};
use crate::blobs::{Blobs, Staged};
use crate::identity::{run_id, upload_id};
use crate::judgements::Judge;
use crate::limits::clients::{ClientAddress, Slot};
use crate::limits::turns::Queue;
use crate::limits::work::background;
use crate::pictures::{Decoded, Pictures};
use crate::store::{BlobRow, RankOfJob, Store, StoreError, StoreResult, UploadState};
use crate::system::clock::now_ms;
use api::ids::{RunId, UploadId};
use api::problem::Problem;
use api::progress::{Phase, ServerEvent};
use api::runs::RunSource;
use bytes::Bytes;
use futures_util::Stream;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::broadcast;
use trace::units;
use trace::watch::Watch;
use tracing::Instrument;

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
    share: DiskShare,
    admission: Arc<Admission>,
    judge: Judge,
    known: Mutex<HashMap<UploadId, Arc<Upload>>>,
}

impl Uploads {
    /// A service that stores uploads in `store` and `blobs`. All services of a server have the same
    /// `admission`.
    pub fn new(
        store: Store,
        blobs: Blobs,
        pictures: Pictures,
        events: broadcast::Sender<ServerEvent>,
        describe: Describe,
        limits: UploadLimits,
        admission: Arc<Admission>,
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
            share: DiskShare::default(),
            admission,
            known: Mutex::default(),
        };
        Uploads {
            shared: Arc::new(shared),
        }
    }

    /// The judge of its runs.
    pub fn judge(&self) -> &Judge {
        &self.shared.judge
    }

    /// Counts of uploads since the start, by result.
    pub fn tally(&self) -> &Tally {
        &self.shared.admission.tally
    }

    /// Files that are being read, and files that wait for it.
    pub fn reading(&self) -> Queue {
        self.shared.admission.reading()
    }

    /// Running uploads of clients.
    pub fn under_way(&self) -> usize {
        self.shared.admission.under_way()
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn describe(&self, error: &IngestError) -> Problem {
        (self.shared.describe)(error)
    }

    /// Adds an upload that a stopped server left.
    pub(super) fn adopt(&self, upload: Upload) -> Arc<Upload> {
        let upload = Arc::new(upload);
        upload.start();
        self.known().insert(upload.id.clone(), Arc::clone(&upload));
        upload
    }

    /// Leaves an upload to the next server.
    pub(super) fn let_go(&self, upload: &Upload) {
        self.known().remove(&upload.id);
    }

    /// What must stay free on the disk.
    pub(super) fn keep_free(&self) -> units::Bytes {
        self.shared.limits.keep_free
    }

    /// Decides which uploads may come in.
    pub fn admission(&self) -> Arc<Admission> {
        Arc::clone(&self.shared.admission)
    }

    /// What its project takes on disk, and may take.
    pub fn share(&self) -> &DiskShare {
        &self.shared.share
    }

    /// Measures again what the project takes on disk.
    ///
    /// # Errors
    /// The database's.
    pub async fn measure_disk(&self) -> StoreResult<()> {
        let Shared { store, share, .. } = &*self.shared;
        // Not the files: the log of the database grows and shrinks by itself.
        let read = store.read(|reader| Ok((reader.stored()?.blob_bytes, reader.database_bytes()?)));
        let (files, database) = read.await?;
        share.measured(units::Bytes(files + database), units::Bytes(database));
        Ok(())
    }

    /// Where it stores bytes.
    pub fn blobs(&self) -> &Blobs {
        &self.shared.blobs
    }

    /// Accepts an upload of a client before any byte is sent. It only takes a place in a short
    /// list: disk and database do not know it before its bytes arrive.
    ///
    /// # Errors
    /// When it is larger than the limit or the free space, or when too many are announced.
    pub fn announce(
        &self,
        name: String,
        size: Option<u64>,
        in_job: Option<RankOfJob>,
        who: ClientAddress,
    ) -> Result<Arc<Upload>, IngestError> {
        let now = Instant::now();
        let upload = Upload::announced(upload_id(), name, RunSource::Upload, size, who, now);
        let upload = Arc::new(upload.placed(in_job));
        let listed = self.check_room(size.unwrap_or(0)).and_then(|()| {
            let mut known = self.known();
            self.shared.admission.announce(&mut known, who, now)?;
            known.insert(upload.id.clone(), Arc::clone(&upload));
            Ok(())
        });
        listed.inspect_err(|_| Tally::count(&self.tally().refused))?;
        Ok(upload)
    }

    /// An upload whose bytes are already here, for [`Uploads::take`].
    ///
    /// # Errors
    /// When it is larger than the limit or the free space.
    pub fn expect(
        &self,
        name: String,
        size: Option<u64>,
        source: RunSource,
        in_job: Option<RankOfJob>,
    ) -> Result<Arc<Upload>, IngestError> {
        let room = self.check_room(size.unwrap_or(0));
        room.inspect_err(|_| Tally::count(&self.tally().refused))?;
        let upload = Upload::new(upload_id(), name, source, size);
        Ok(Arc::new(upload.placed(in_job)))
    }

    /// An upload that is announced or under way.
    pub fn get(&self, id: &UploadId) -> Option<Arc<Upload>> {
        self.known().get(id).cloned()
    }

    /// Whether an upload is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.known()
            .values()
            .any(|upload| upload.is_started() && !upload.is_finished())
    }

    /// Uploads that are announced or under way.
    pub fn unfinished(&self) -> Vec<Arc<Upload>> {
        let known = self.known();
        known
            .values()
            .filter(|upload| !upload.is_finished())
            .cloned()
            .collect()
    }

    /// Receives the body of an upload in a task of its own. So it goes on even if the caller is
    /// dropped, and a lost connection is cleaned up like any other failure.
    ///
    /// # Errors
    /// Why it did not become a run; nothing is left of it then.
    pub async fn take(
        &self,
        upload: Arc<Upload>,
        sender: Sender,
        body: impl Stream<Item = Result<Bytes, Broken>> + Send + Unpin + 'static,
    ) -> Result<Arrived, IngestError> {
        let place = match self.begin(&upload, sender).await {
            Ok(place) => place,
            Err(error) => {
                Tally::count(&self.tally().refused);
                tokio::spawn(drain(body));
                return Err(error);
            }
        };
        Tally::count(&self.tally().begun);
        let uploads = self.clone();
        let work = async move {
            let _place = place;
            let mut body = body;
            let work = uploads.arrive_while_allowed(&upload, &mut body);
            let outcome = uploads.see_through(&upload, work).await;
            if outcome.is_err() {
                tokio::spawn(drain(body));
            }
            outcome
        };
        let task = tokio::spawn(work.in_current_span());
        task.await.unwrap_or(Err(IngestError::Panicked("upload")))
    }

    /// Claims an upload for its body. If that is refused, the client can send it again.
    async fn begin(
        &self,
        upload: &Arc<Upload>,
        sender: Sender,
    ) -> Result<Option<Slot>, IngestError> {
        let place = self.shared.admission.begin(&sender)?;
        self.check_room(upload.to_come())?;
        if !upload.start() {
            let taken = format!("the body of {} was sent already", upload.id);
            return Err(StoreError::Conflict(taken).into());
        }
        if let Sender::Client { name, lasts, .. } = sender {
            upload.sent_by(name, lasts);
        }
        self.known().insert(upload.id.clone(), Arc::clone(upload));
        self.record(upload)
            .await
            .inspect_err(|_| match upload.announced_by() {
                Some(_) => upload.give_back_claim(),
                None => drop(self.known().remove(&upload.id)),
            })?;
        Ok(place)
    }

    /// Records in the database that an upload is running.
    async fn record(&self, upload: &Upload) -> Result<(), IngestError> {
        let (id, name, source) = (upload.id.clone(), upload.name.clone(), upload.source);
        let (total, in_job) = (upload.progress.total(), upload.in_job.clone());
        let uploaded_by = upload.uploaded_by();
        let write = self.shared.store.write(move |writer| {
            writer.insert_upload(&id, &name, total, source, in_job.as_ref(), now_ms())?;
            writer.upload_sent_by(&id, uploaded_by.as_deref())?;
            writer.move_upload(&id, &UploadState::Running, now_ms())
        });
        Ok(write.await?)
    }

    /// Cancels an upload. One that has not started ends at once.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if it has ended already, or is becoming a run; the database's.
    pub async fn cancel(&self, upload: &Arc<Upload>) -> Result<(), IngestError> {
        if upload.is_finished() || !upload.fate.cancel() {
            return Err(StoreError::Conflict(format!("{} is finished", upload.id)).into());
        }
        upload.cancel.cancel();
        if upload.start() {
            let recorded = self.record(upload).await;
            let cancelled = async { Err(IngestError::Cancelled) };
            // It ends even if the database cannot say so: nobody will send its bytes.
            let _ = self.see_through(upload, cancelled).await;
            recorded?;
        }
        Ok(())
    }

    /// Runs the work of an upload and reports its end.
    pub(super) async fn see_through(
        &self,
        upload: &Arc<Upload>,
        work: impl Future<Output = Result<Arrived, IngestError>>,
    ) -> Result<Arrived, IngestError> {
        let Shared {
            store,
            events,
            describe,
            admission,
            ..
        } = &*self.shared;
        let ticking = tokio::spawn(Arc::clone(upload).tick(events.clone()));
        let outcome = work.await;
        if let Err(error) = &outcome {
            tracing::info!(upload = %upload.id, %error, "upload failed");
        }
        let read = upload.progress.events.load(Ordering::Relaxed);
        admission.tally.ended(read, &outcome);
        let recorded = upload.finish(&outcome, *describe, store, events).await;
        ticking.abort();
        self.known().remove(&upload.id);
        if outcome.is_err()
            && let Err(error) = self.remove_unused_blobs().await
        {
            tracing::warn!(%error, "cannot clear up after an upload");
        }
        recorded?;
        self.measure_disk().await?;
        if matches!(outcome, Ok(Arrived { known: false, .. })) {
            let store = store.clone();
            // Nobody waits for this: the run exists already.
            tokio::spawn(async move {
                if let Err(error) = store.checkpoint().await {
                    tracing::debug!(%error, "the log stays as it is");
                }
            });
        }
        outcome
    }

    /// The access of its sender may end while it arrives and while it is read. Nothing of it is
    /// kept then.
    async fn arrive_while_allowed(
        &self,
        upload: &Arc<Upload>,
        body: &mut (impl Stream<Item = Result<Bytes, Broken>> + Send + Unpin),
    ) -> Result<Arrived, IngestError> {
        let arrived = self.arrive(upload, body);
        tokio::pin!(arrived);
        tokio::select! {
            arrived = &mut arrived => arrived,
            () = upload.access_ends() => {
                // It clears up after itself.
                arrived.await.and(Err(IngestError::AccessEnded)).map_err(ended)
            }
        }
    }

    async fn arrive(
        &self,
        upload: &Arc<Upload>,
        body: &mut (impl Stream<Item = Result<Bytes, Broken>> + Send + Unpin),
    ) -> Result<Arrived, IngestError> {
        let Shared {
            blobs,
            limits,
            admission,
            ..
        } = &*self.shared;
        let received = receive(upload, blobs, admission, *limits, body).await?;
        let allowed = upload.check_sender();
        let reserved = match allowed {
            Ok(()) => self.reserve(upload, &received.staged).await,
            Err(error) => Err(error),
        };
        let reserved = match reserved {
            Ok(reserved) => reserved,
            Err(error) => {
                blobs.discard(&received.staged).await;
                return Err(error);
            }
        };
        let run = self.keep_blob(upload, &received.staged).await?;
        if let Some(reserved) = reserved {
            // Now they are counted as stored.
            self.measure_disk().await?;
            drop(reserved);
        }
        let blob = received.staged.row.hash;
        match received.read {
            Some(read) => self.make_run(upload, run, blob, read).await,
            None if self.is_known(upload, &run).await? => Ok(Arrived { run, known: true }),
            None => {
                upload.progress.enter(Phase::Waiting);
                self.resume(upload, blob).await
            }
        }
    }

    /// Reads an upload whose bytes are all in the blob store. It found no turn while they arrived,
    /// or was too slow to keep one, or a stopped server left it.
    pub(super) async fn resume(
        &self,
        upload: &Arc<Upload>,
        hash: String,
    ) -> Result<Arrived, IngestError> {
        let allowance = self.shared.admission.turn(upload).await?;
        let read = self.read_blob(upload, hash.clone(), allowance).await?;
        let content = blake3::Hash::from_hex(&hash).map_err(|_| StoreError::Corrupt {
            what: "blob hash",
            value: hash.clone(),
        })?;
        self.make_run(upload, run_id(&content), hash, read).await
    }

    /// Derives a run's trace from its blob again, to replace one that another version stored.
    pub(super) async fn rebuild(&self, run: RunOrigin) -> Result<(), IngestError> {
        let upload = Upload::new(upload_id(), run.name.clone(), run.source, None);
        let upload = Arc::new(upload);
        let allowance = self.shared.admission.turn(&upload).await?;
        let read = self.read_blob(&upload, run.blob.clone(), allowance).await?;
        self.replay(&upload, run, TraceOf::KnownRun, read).await?;
        Ok(())
    }

    async fn read_blob(
        &self,
        upload: &Arc<Upload>,
        hash: String,
        allowance: Allowance,
    ) -> Result<Read, IngestError> {
        upload.progress.enter(Phase::Receiving);
        let (blobs, runtime) = (self.shared.blobs.clone(), tokio::runtime::Handle::current());
        let reading = Arc::clone(upload);
        let parse = move || parse_blob(&blobs, &runtime, &hash, &reading, allowance);
        let parsing = background(parse);
        parsing.await.map_err(|_| IngestError::Panicked("parser"))?
    }

    async fn keep_blob(&self, upload: &Upload, staged: &Staged) -> Result<RunId, IngestError> {
        let Shared { store, blobs, .. } = &*self.shared;
        let (hash, id) = (staged.row.hash.clone(), upload.id.clone());
        // A server that dies before the last step finds the bytes again by this.
        let announce = store.write(move |writer| writer.upload_arrived(&id, &hash, now_ms()));
        let placed = async {
            announce.await?;
            Ok::<_, IngestError>(blobs.keep(staged).await?)
        };
        let _changing = match placed.await {
            Ok(changing) => changing,
            Err(error) => {
                // They would stay until the next start, on a disk that may be full.
                blobs.discard(staged).await;
                return Err(error);
            }
        };
        self.record_blob(&upload.id, staged.row.clone()).await?;
        Ok(run_id(&staged.hash))
    }

    /// Records that the bytes of an upload are in the blob store.
    pub(super) async fn record_blob(&self, id: &UploadId, row: BlobRow) -> StoreResult<()> {
        let id = id.clone();
        let record = self.shared.store.write(move |writer| {
            writer.insert_blob(&row, now_ms())?;
            writer.upload_stored(&id, &row.hash, now_ms())
        });
        record.await
    }

    /// Room for these bytes in the share of the project. Those that it has already take nothing
    /// more.
    async fn reserve(
        &self,
        upload: &Arc<Upload>,
        staged: &Staged,
    ) -> Result<Option<Room>, IngestError> {
        match self.is_known(upload, &run_id(&staged.hash)).await? {
            true => Ok(None),
            false => Ok(Some(self.shared.share.reserve(staged.row.stored_bytes)?)),
        }
    }

    async fn make_run(
        &self,
        upload: &Arc<Upload>,
        run: RunId,
        blob: String,
        read: Read,
    ) -> Result<Arrived, IngestError> {
        if self.is_known(upload, &run).await? {
            return Ok(Arrived { run, known: true });
        }
        self.check_free(0, 0)?;
        upload.check_sender()?;
        let origin = RunOrigin {
            run: run.clone(),
            name: upload.name.clone(),
            source: upload.source,
            blob,
            uploaded_by: upload.uploaded_by(),
        };
        let kept = self.replay(upload, origin, TraceOf::NewRun, read).await?;
        // This is for large ones; small ones were judged while they were stored.
        tokio::spawn(self.judge().clone().judge_all());
        Ok(Arrived {
            run,
            known: kept == Kept::Known,
        })
    }

    async fn replay(
        &self,
        upload: &Arc<Upload>,
        origin: RunOrigin,
        trace_of: TraceOf,
        read: Read,
    ) -> Result<Kept, IngestError> {
        upload.progress.enter(Phase::Replaying);
        let (working, uploads) = (Arc::clone(upload), self.clone());
        let work = background(move || {
            let replay = |watch: Watch<'_>| trace::replay::run_watched(read.snapshot, watch);
            let (mut trace, mut allowance) = watched(read.allowance, replay)?;
            let needed = Decoded::weight_of(&trace) + Decoded::storing_takes(&trace);
            allowance.go_on(usize::try_from(needed.get()).unwrap_or(usize::MAX))?;
            working.progress.enter(Phase::Storing);
            let Shared {
                store, pictures, ..
            } = uploads.shared();
            let (permit, _turn) = allowance.into_parts();
            pictures.traces.name_blocks(&mut trace);
            let decoded = Decoded::new(trace, permit);
            keep(store, pictures, origin, trace_of, decoded, &working)
        });
        let done = async { work.await.map_err(|_| IngestError::Panicked("replay"))? };
        tokio::pin!(done);
        // A client that cancels does not wait until the thread checks again.
        let cancelled = async {
            upload.cancel.cancelled().await;
            if !upload.fate.cancel() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            kept = &mut done => kept,
            () = cancelled => Err(IngestError::Cancelled),
        }
    }

    /// Whether the run exists. A deleted one is restored, because its sender wants it.
    ///
    /// # Errors
    /// [`IngestError::Cancelled`] if it exists and the sender no longer wants it.
    async fn is_known(&self, upload: &Arc<Upload>, run: &RunId) -> Result<bool, IngestError> {
        let (run, wanted) = (run.clone(), Arc::clone(upload));
        let known = self.shared.store.write(move |writer| {
            let known = writer.reader().has_run(&run)?;
            if known && wanted.fate.become_run() {
                writer.restore_run(&run)?;
            }
            Ok(known)
        });
        match known.await? {
            true if !upload.fate.become_run() => Err(IngestError::Cancelled),
            known => Ok(known),
        }
    }

    /// Whether there is space for `size` bytes, besides those that running uploads still have to
    /// send. Uploads that are only announced reserve no space.
    fn check_room(&self, size: u64) -> Result<(), IngestError> {
        let uploads = self.unfinished();
        let under_way = uploads.iter().filter(|upload| upload.is_started());
        self.check_free(size, under_way.map(|upload| upload.to_come()).sum())?;
        // How small it will be packed is not known before it is here.
        self.shared.share.check_any(size)
    }

    /// Whether there is space for `size` bytes, besides those that others still have to send.
    ///
    /// # Errors
    /// [`IngestError::NoSpace`], and [`IngestError::TooLarge`].
    pub fn check_free(&self, size: u64, spoken_for: u64) -> Result<(), IngestError> {
        let UploadLimits {
            upload: limit,
            keep_free,
        } = self.shared.limits;
        if size > limit.get() {
            return Err(IngestError::TooLarge { limit });
        }
        // Snapshots can be packed to a tenth, but an upload may be packed already.
        let needed = size
            .saturating_add(spoken_for)
            .saturating_add(keep_free.get());
        let needed = units::Bytes(needed);
        match self.shared.blobs.free_bytes().map(units::Bytes) {
            Some(free) if free < needed => Err(IngestError::NoSpace { free, needed }),
            _ => Ok(()),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<UploadId, Arc<Upload>>> {
        self.shared
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an upload ended that was cancelled because its sender may not send it any more.
fn ended(error: IngestError) -> IngestError {
    match error {
        IngestError::Cancelled => IngestError::AccessEnded,
        error => error,
    }
}
