//! The queue: rows wait in the database and run one at a time.
//!
//! Only one row runs at a time: a row on a GPU needs the card for itself, and a simulated one takes
//! less than a second. The database has the state of each row; only the progress of the running one
//! is in memory.

use super::card::find_card;
use super::catalog;
use super::child::ChildSpec;
use super::ending::Ending;
use super::error::BenchError;
use super::keep::{Cancelled, keep_recording};
use super::process::{self, Ended, How};
use super::{BenchSettings, behind, request};
use crate::ingest::Uploads;
use crate::limits::clients::Refusal;
use crate::limits::clients::quota::Crowd;
use crate::limits::turns::{Queue, Turns};
use crate::store::{BenchEnd, BenchJob, Slice, Stopped, Store, StoreError, StoreResult, Writer};
use crate::system::causes;
use crate::system::clock::now_ms;
use api::bench::{
    Bench, BenchCatalog, BenchProgress, BenchRow, BenchRowState, BenchStep, BenchSummary,
    StartBench, TensorChanges, verdict,
};
use api::ids::{BenchId, BenchRowId};
use api::progress::ServerEvent;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OnceCell, broadcast};
use tokio_util::sync::CancellationToken;

/// Listeners get news of a running row at most this often.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// When to ask again if the queue was full: a row takes a second or more.
const RETRY: Duration = Duration::from_secs(60);

/// How long the queue waits after the database failed.
const PAUSE: Duration = Duration::from_secs(2);

/// How often a database may refuse the end of a row before that is told, and how many pauses there
/// are at most between later tries.
const TRIES: u32 = 3;
const MOST_PAUSES: u32 = 15;

/// The service. Cloning shares it.
#[derive(Clone)]
pub struct Benches {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    uploads: Uploads,
    events: broadcast::Sender<ServerEvent>,
    settings: BenchSettings,
    /// The largest number of waiting rows, of all clients together.
    most_waiting: u32,
    /// The folder of recordings that are not runs yet.
    folder: PathBuf,
    wake: Notify,
    /// The only turn at running a row, of all projects.
    turn: Turns,
    running: Mutex<Option<Running>>,
    card: OnceCell<Result<String, String>>,
}

/// The running row.
struct Running {
    bench: BenchId,
    row: BenchRowId,
    progress: BenchProgress,
    /// Steps done.
    steps: Vec<BenchStep>,
    /// It has ended, and this is why the database does not say so.
    unwritten: Option<String>,
    cancel: CancellationToken,
}

impl Running {
    /// How the row stands that the database calls running.
    fn state(&self) -> BenchRowState {
        match &self.unwritten {
            Some(reason) => BenchRowState::Failed {
                reason: reason.clone(),
            },
            None => BenchRowState::Running {
                progress: self.progress,
            },
        }
    }
}

impl Benches {
    /// A service whose recordings wait in `folder`. All services of a server have the same `turn`.
    pub fn new(
        store: Store,
        uploads: Uploads,
        events: broadcast::Sender<ServerEvent>,
        settings: BenchSettings,
        most_waiting: u32,
        folder: PathBuf,
        turn: Turns,
    ) -> Benches {
        let shared = Shared {
            store,
            uploads,
            events,
            settings,
            most_waiting,
            folder,
            turn,
            wake: Notify::new(),
            running: Mutex::default(),
            card: OnceCell::new(),
        };
        Benches {
            shared: Arc::new(shared),
        }
    }

    /// The turn at running a row.
    pub fn turn(&self) -> Turns {
        self.shared.turn.clone()
    }

    /// Queues again the rows that were running when a server died. Must be called while the data
    /// folder is locked, and before [`Benches::work`].
    ///
    /// # Errors
    /// The database's.
    pub async fn recover(&self) -> StoreResult<()> {
        // The folder is missing or cannot be removed: neither matters.
        let _ = std::fs::remove_dir_all(&self.shared.folder);
        let requeue = |writer: &mut Writer| writer.requeue_bench_rows(now_ms());
        let queued = self.shared.store.write(requeue).await?;
        if queued > 0 {
            tracing::info!(queued, "queued rows again that a stopped server left");
        }
        Ok(())
    }

    /// The running row, and the number of waiting ones.
    ///
    /// # Errors
    /// The database's.
    pub async fn queue(&self) -> StoreResult<Queue> {
        let waiting = self.shared.store.read(|reader| reader.waiting_bench_rows());
        let waiting = usize::try_from(waiting.await?).unwrap_or(usize::MAX);
        Ok(Queue {
            turns: 1,
            taken: usize::from(self.running().is_some()),
            waiting,
        })
    }

    /// What can be run.
    pub async fn catalog(&self) -> BenchCatalog {
        catalog::catalog(&self.shared.settings, self.card().await)
    }

    /// The card; looked for only once.
    async fn card(&self) -> &Result<String, String> {
        let Shared { card, settings, .. } = &*self.shared;
        card.get_or_init(|| find_card(settings)).await
    }

    /// Queues the rows of a request.
    ///
    /// # Errors
    /// [`BenchError::Refused`], [`BenchError::Busy`], and the database's.
    pub async fn start(&self, request: &StartBench) -> Result<Bench, BenchError> {
        let devices = catalog::devices(self.card().await);
        let limits = catalog::limits(&self.shared.settings);
        let bench = request::new_bench(request, &devices, &limits, now_ms())?;
        let id = bench.id.clone();
        let (rows, most) = (bench.rows.len() as u64, self.shared.most_waiting);
        let insert = self.shared.store.write(move |writer| {
            let fits = room_for(rows, writer.reader().waiting_bench_rows()?, most);
            match fits {
                Ok(()) => writer.insert_bench(&bench).map(Ok),
                Err(refusal) => Ok(Err(refusal)),
            }
        });
        insert.await??;
        self.changed(&id);
        self.shared.wake.notify_one();
        Ok(self.bench(&id).await?)
    }

    /// All benches, newest first.
    ///
    /// # Errors
    /// The database's.
    pub async fn list(&self, slice: Slice) -> StoreResult<Vec<BenchSummary>> {
        let read = self.shared.store.read(move |reader| reader.benches(slice));
        let mut benches = read.await?;
        if let Some(running) = self.running().as_ref() {
            correct_counts(&mut benches, running);
        }
        Ok(benches)
    }

    /// A bench with its rows in their current state, and the numbers of others beside them.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn bench(&self, id: &BenchId) -> StoreResult<Bench> {
        let wanted = id.clone();
        let read = self.shared.store.read(move |reader| reader.bench(&wanted));
        let mut bench = read.await?;
        for row in &mut bench.rows {
            catalog::add_known(row, bench.capacity);
        }
        if let Some(running) = self.running().as_ref() {
            add_progress(&mut bench.rows, running);
        }
        Ok(bench)
    }

    /// Every step that a row has done so far.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn steps(&self, row: BenchRowId) -> StoreResult<Vec<BenchStep>> {
        // Before the database is asked: a row is there with its steps before it stops running.
        if let Some(running) = self.running().as_ref().filter(|it| it.row == row) {
            return Ok(running.steps.clone());
        }
        let read = self.shared.store.read(move |reader| {
            reader.bench_of_row(&row)?;
            reader.bench_steps(&row)
        });
        read.await
    }

    /// Which tensors a row leaves alive and another row of its bench does not, in both directions.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], also if one of the rows has no recording.
    pub async fn tensors_between(
        &self,
        before: BenchRowId,
        after: BenchRowId,
    ) -> StoreResult<TensorChanges> {
        let read = self.shared.store.read(move |reader| {
            let bench = reader.bench(&reader.bench_of_row(&after)?)?;
            let alive = |id: &BenchRowId| {
                let row = bench.rows.iter().find(|row| row.id == *id);
                let recorded = row.and_then(|row| Some((row.run.as_ref()?, row.result.as_ref()?)));
                let (run, result) = recorded.ok_or_else(|| StoreError::NotFound {
                    what: "recording in this bench of row",
                    id: id.to_string(),
                })?;
                let steps = result.steps_run.min(bench.recorded_steps);
                Ok::<_, StoreError>((steps, reader.alive_tensors(run)?))
            };
            let ((steps_before, before), (steps_after, after)) = (alive(&before)?, alive(&after)?);
            let mut changes = behind::changes(&before, &after);
            let left_out = changes.len().saturating_sub(TensorChanges::MOST) as u64;
            changes.truncate(TensorChanges::MOST);
            Ok(TensorChanges {
                steps_before,
                steps_after,
                changes,
                left_out,
            })
        });
        read.await
    }

    /// Cancels a row; returns its bench.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and [`StoreError::Conflict`] when it is finished.
    pub async fn cancel_row(&self, row: BenchRowId) -> StoreResult<BenchId> {
        let stop = row.clone();
        let stopped = self.shared.store.write(move |writer| {
            let stopped = writer.stop_bench_row(&stop, now_ms())?;
            Ok((stopped, writer.reader().bench_of_row(&stop)?))
        });
        let (stopped, bench) = stopped.await?;
        match stopped {
            Stopped::UnderWay => self.end_if_running(&row),
            Stopped::Waiting => self.changed(&bench),
        }
        Ok(bench)
    }

    /// Cancels all unfinished rows of a bench.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn cancel(&self, id: &BenchId) -> StoreResult<()> {
        let bench = id.clone();
        let rows = self.shared.store.read(move |reader| {
            reader.bench(&bench)?;
            reader.unfinished_bench_rows(&bench)
        });
        // The last rows first, so that none of them can start in the meantime.
        for row in rows.await? {
            match self.cancel_row(row).await {
                // The row has just finished by itself.
                Ok(_) | Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Queues a finished row again; returns its bench.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Conflict`] when it is not finished, and
    /// [`BenchError::Busy`].
    pub async fn rerun(&self, row: BenchRowId) -> Result<BenchId, BenchError> {
        let most = self.shared.most_waiting;
        let queued = self.shared.store.write(move |writer| {
            if let Err(refusal) = room_for(1, writer.reader().waiting_bench_rows()?, most) {
                return Ok(Err(refusal));
            }
            writer.rerun_bench_row(&row, now_ms())?;
            writer.reader().bench_of_row(&row).map(Ok)
        });
        let bench = queued.await??;
        self.changed(&bench);
        self.runs_changed();
        self.shared.wake.notify_one();
        Ok(bench)
    }

    /// Forgets a bench; its runs stay.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and [`StoreError::Conflict`] while rows are not finished.
    pub async fn delete(&self, id: &BenchId) -> StoreResult<()> {
        let bench = id.clone();
        let delete = self
            .shared
            .store
            .write(move |writer| writer.delete_bench(&bench));
        delete.await?;
        self.changed(id);
        self.runs_changed();
        Ok(())
    }

    /// Runs the rows of the queue, and waits for more, until `stopping` fires. A running row then
    /// goes back into the queue.
    pub async fn work(self, stopping: CancellationToken) {
        loop {
            let Some(turn) = stopping.run_until_cancelled(self.shared.turn.take()).await else {
                return;
            };
            match self.take_up().await {
                Ok(Some((job, cancel))) => {
                    let run = async {
                        let ended = self.run(&job, &cancel).await;
                        // Rows of other projects need not wait for this database.
                        drop(turn);
                        self.keep_end(&job, ended).await;
                    };
                    if stopping.run_until_cancelled(run).await.is_none() {
                        return self.put_back(job.row).await;
                    }
                }
                Ok(None) => {
                    drop(turn);
                    tokio::select! {
                        () = self.shared.wake.notified() => {}
                        () = stopping.cancelled() => return,
                    }
                }
                Err(error) => {
                    drop(turn);
                    tracing::error!(%error, "cannot take up a row of a bench");
                    tokio::select! {
                        () = tokio::time::sleep(PAUSE) => {}
                        () = stopping.cancelled() => return,
                    }
                }
            }
        }
    }

    /// The next row, and what cancels it.
    async fn take_up(&self) -> StoreResult<Option<(BenchJob, CancellationToken)>> {
        let benches = self.clone();
        let claim = move |writer: &mut Writer| {
            let Some(job) = writer.claim_bench_row(now_ms())? else {
                return Ok(None);
            };
            let cancel = CancellationToken::new();
            let progress = BenchProgress {
                steps: job.steps,
                ..BenchProgress::default()
            };
            // Inside of the transaction: whoever then reads that it is running can cancel it.
            *benches.running() = Some(Running {
                bench: job.bench.clone(),
                row: job.row.clone(),
                progress,
                steps: Vec::new(),
                unwritten: None,
                cancel: cancel.clone(),
            });
            Ok(Some((job, cancel)))
        };
        let taken = self.shared.store.write(claim).await;
        if taken.is_err() {
            *self.running() = None;
        }
        taken
    }

    async fn put_back(&self, row: BenchRowId) {
        let release = self
            .shared
            .store
            .write(move |writer| writer.release_bench_row(&row));
        if let Err(error) = release.await {
            // The next server finds the row marked as running, and queues it again.
            tracing::error!(%error, "cannot put a row back into the queue");
        }
    }

    async fn run(&self, job: &BenchJob, cancel: &CancellationToken) -> (BenchEnd, Vec<BenchStep>) {
        self.changed(&job.bench);
        let folder = self.shared.folder.join(job.row.as_str());
        let ended = match std::fs::create_dir_all(&folder) {
            Ok(()) => self.run_in(job, folder.clone(), cancel).await,
            Err(error) => (no_folder(&error), Vec::new()),
        };
        // If this fails, the folder is removed at the next start.
        let _ = std::fs::remove_dir_all(&folder);
        ended
    }

    /// Writes down how a row ended, as soon as the database can be written. What it refuses again
    /// and again is left out. As long as it refuses everything, the row is told as failed.
    async fn keep_end(&self, job: &BenchJob, (end, steps): (BenchEnd, Vec<BenchStep>)) {
        if let BenchEnd::Failed { reason } = &end {
            tracing::info!(row = %job.row, config = %job.config, reason, "a row failed");
        }
        let (store, ending) = (&self.shared.store, Ending::of(job, end, steps));
        let mut refused = 0;
        while let Err(error) = ending.write(store).await {
            tracing::error!(row = %job.row, %error, "cannot write down how a row ended");
            if let StoreError::Conflict(_) | StoreError::NotFound { .. } = error {
                // It is no longer running, so there is nothing to end.
                break;
            }
            refused += 1;
            if refused >= TRIES {
                // On a full disk there may be room for a part; later there is for all of it.
                let (why, may_pass) = (causes::in_one_line(&error), error.refuses_writes());
                if !may_pass && ending.write_less(store, &why).await {
                    break;
                }
                self.cannot_be_written(&why);
                self.changed(&job.bench);
            }
            let pauses = (refused + 1).saturating_sub(TRIES).clamp(1, MOST_PAUSES);
            tokio::time::sleep(PAUSE * pauses).await;
        }
        *self.running() = None;
        self.changed(&job.bench);
        if ending.is_done() {
            self.runs_changed();
        }
    }

    fn cannot_be_written(&self, why: &str) {
        if let Some(running) = &mut *self.running() {
            running.unwritten = Some(format!(
                "it ended, but how it ended cannot be stored: {why}. The server tries again, and \
                 runs it again after a restart"
            ));
        }
    }

    async fn run_in(
        &self,
        job: &BenchJob,
        folder: PathBuf,
        cancel: &CancellationToken,
    ) -> (BenchEnd, Vec<BenchStep>) {
        let settings = &self.shared.settings;
        #[cfg(feature = "faults")]
        let fault = settings.faults.iter().find(|(id, _)| *id == job.config);
        let spec = ChildSpec {
            config: job.config.clone(),
            patches: job.patches.clone(),
            steps: job.steps,
            device: job.device,
            capacity: job.capacity,
            recorded_steps: job.recorded_steps,
            recording: folder.join("recording.pickle"),
            tensors: folder.join("tensors"),
            memory: settings.memory.get(),
            #[cfg(feature = "faults")]
            fault: fault.map(|(_, fault)| fault.clone()),
        };
        let mut told = Instant::now() - TELL_EVERY;
        let on_step = |step: &BenchStep| {
            let progress = self.moved_on(step);
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                self.tell(job, progress);
            }
        };
        let Ended { steps, how } = process::run(&spec, settings, cancel, on_step).await;
        let end = match how {
            How::Failed(reason) => BenchEnd::Failed { reason },
            How::Cancelled => BenchEnd::Cancelled,
            How::Done { base, result } => {
                let name = catalog::run_name(&job.config, &job.patches);
                let Shared { uploads, store, .. } = &*self.shared;
                match keep_recording(uploads, store, &spec, name, cancel).await {
                    Ok(kept) => BenchEnd::Done {
                        status: verdict(&result, !job.patches.is_empty(), None),
                        result,
                        base,
                        run: kept.run,
                        note: kept.note,
                    },
                    Err(Cancelled) => BenchEnd::Cancelled,
                }
            }
        };
        (end, steps)
    }

    fn moved_on(&self, step: &BenchStep) -> BenchProgress {
        match &mut *self.running() {
            Some(running) => {
                let progress = &mut running.progress;
                progress.step = step.step + 1;
                progress.allocated = step.allocated;
                progress.peak = progress.peak.max(step.peak_allocated);
                let progress = *progress;
                running.steps.push(*step);
                progress
            }
            None => BenchProgress::default(),
        }
    }

    fn tell(&self, job: &BenchJob, progress: BenchProgress) {
        let event = ServerEvent::BenchProgress {
            bench: job.bench.clone(),
            row: job.row.clone(),
            progress,
        };
        // Fails if nobody listens, which is fine.
        let _ = self.shared.events.send(event);
    }

    fn changed(&self, bench: &BenchId) {
        let bench = bench.clone();
        // Fails if nobody listens, which is fine.
        let _ = self.shared.events.send(ServerEvent::BenchChanged { bench });
    }

    /// Lists of runs say how their rows ended: that is known from now on, or not any more.
    fn runs_changed(&self) {
        // Fails if nobody listens, which is fine.
        let _ = self.shared.events.send(ServerEvent::RunsChanged);
    }

    fn end_if_running(&self, row: &BenchRowId) {
        if let Some(running) = self
            .running()
            .as_ref()
            .filter(|running| running.row == *row)
        {
            running.cancel.cancel();
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        let running = self.shared.running.lock();
        running.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this many more rows may wait.
fn room_for(rows: u64, waiting: u64, most: u32) -> Result<(), Refusal> {
    match waiting + rows > u64::from(most) {
        false => Ok(()),
        true => Err(Refusal {
            crowd: Crowd::Everybody,
            why: format!(
                "rows of benches that are waiting: {waiting}; with {rows} more there would be more \
                 than the {most} that may"
            ),
            retry: RETRY,
        }),
    }
}

fn no_folder(error: &io::Error) -> BenchEnd {
    BenchEnd::Failed {
        reason: format!("there is no room for its recording: {error}"),
    }
}

fn add_progress(rows: &mut [BenchRow], running: &Running) {
    if let Some(row) = rows.iter_mut().find(|row| row.id == running.row)
        && let BenchRowState::Running { .. } = row.state
    {
        row.state = running.state();
    }
}

/// Counts a row as failed that has ended, where the database does not say so.
fn correct_counts(benches: &mut [BenchSummary], running: &Running) {
    let mut found = benches.iter_mut();
    let found = found.find(|bench| bench.id == running.bench && bench.rows.running > 0);
    if let Some(bench) = found.filter(|_| running.unwritten.is_some()) {
        bench.rows.running -= 1;
        bench.rows.failed += 1;
    }
}

#[cfg(test)]
mod tests;
