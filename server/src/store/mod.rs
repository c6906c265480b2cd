//! The database: [`Store::read`] and [`Store::write`] are the only ways to reach it.
//!
//! Both run a closure on a blocking thread, inside one transaction, and return owned data. The
//! closure is not async, so no transaction can be open across an `await`. A reader sees the
//! database as it was at one moment. Readers never wait for the writer (WAL). Writers wait for one
//! another and share a sync to disk (`group`).
//!
//! SQL is written in this folder and nowhere else.

mod audit;
mod bench;
mod bench_host;
mod blobs;
mod columns;
mod comparisons;
mod copy;
mod database;
mod error;
mod explanations;
mod group;
mod health;
mod history;
mod jobs;
mod labels;
mod leaks;
mod live;
mod open;
mod own_categories;
mod people;
mod projects;
mod revision;
mod row_of_run;
mod rows;
mod run_facts;
mod runs;
mod salvage;
mod schema;
mod sessions;
mod shares;
mod tensors;
mod tiles;
mod uploads;
mod usage;
mod views;

pub use audit::WhichEntries;
pub use bench::{BenchEnd, BenchJob, NewBench, NewBenchRow, Stopped};
pub use blobs::{BlobCodec, BlobRow, Quarantined, Stored};
pub use columns::PackedChunk;
pub use comparisons::PullRow;
pub use copy::CopyContents;
pub use error::{StoreError, StoreResult};
pub use health::Looked;
pub use history::HistoryPart;
pub use jobs::{JobRow, RankOfJob, RankRun};
pub use people::{IdentityRow, TokenRow};
pub use projects::{MemberRow, ProjectRow, is_of_a_project};
pub use rows::Slice;
pub use runs::{NewRun, RunRef, StoredRun, UNDO, Which};
pub use salvage::{Remembered, RememberedRank, Rescued, Salvaged};
pub use sessions::SessionRow;
pub use shares::ShareRow;
pub use tensors::AliveTensor;
pub use tiles::{Keep, TileKey, pack_tile};
pub use uploads::{UploadRow, UploadState};
pub use usage::RunSize;

use crate::system::clock::{Steady, now_ms};
use group::GroupWriter;
use rusqlite::{Connection, TransactionBehavior};
use schema::Opening;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Connections that read at the same time; a read takes well under a millisecond.
const READERS: usize = 4;

/// How long others may write before more pages are given back.
const BREATH: Duration = Duration::from_millis(5);

/// The database of one data folder.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    id: String,
    opening: Opening,
    looked: Looked,
    /// `Err` with the reason if the database is read-only.
    writer: Result<GroupWriter, String>,
    /// Damage that was found while the database was in use. From then on nothing is written.
    damage: OnceLock<String>,
    clock: Mutex<Steady>,
    idle_readers: Mutex<Vec<Connection>>,
    reading: Semaphore,
}

/// A read transaction.
pub struct Reader<'c> {
    tx: &'c Connection,
}

/// A write transaction. Its reads see its own writes.
pub struct Writer<'c> {
    tx: &'c Connection,
}

impl<'c> Writer<'c> {
    /// The same transaction, to read from.
    pub fn reader(&self) -> Reader<'c> {
        Reader { tx: self.tx }
    }
}

impl Store {
    /// The id of this database, made together with the database.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// How much of the database was checked when it was opened.
    pub fn looked(&self) -> Looked {
        self.inner.looked
    }

    /// Why nothing can be written, if that is so.
    pub fn refusal(&self) -> Option<StoreError> {
        let Inner {
            path,
            writer,
            damage,
            ..
        } = &*self.inner;
        match (damage.get(), writer) {
            (Some(found), _) => Some(schema::damaged(path, found.clone())),
            (None, Err(why)) => Some(StoreError::ReadOnly(why.clone())),
            (None, Ok(_)) => None,
        }
    }

    /// Bytes of the database and its log.
    pub fn file_bytes(&self) -> u64 {
        let log = PathBuf::from(format!("{}-wal", self.inner.path.display()));
        let files = [&self.inner.path, &log].into_iter();
        files
            .flat_map(|file| file.metadata())
            .map(|file| file.len())
            .sum()
    }

    /// Transactions committed since the start.
    pub fn commits(&self) -> u64 {
        let writer = self.inner.writer.as_ref();
        writer.map_or(0, GroupWriter::commits)
    }

    /// Another number after each change of what a list of runs says. It begins anew with each
    /// opening of the database. Whoever reads it first and then the runs never has older runs than
    /// it says.
    pub fn revision(&self) -> u64 {
        let writer = self.inner.writer.as_ref();
        writer.map_or(0, GroupWriter::revision)
    }

    /// Milliseconds since the Unix epoch, but never earlier than a time that this database has
    /// seen. Links expire by this clock.
    pub fn latest_ms(&self) -> i64 {
        lock(&self.inner.clock).latest_ms(now_ms())
    }

    /// Moves this clock forward by `ms`, as if the wall clock had gone forward.
    #[cfg(test)]
    pub fn pass_ms(&self, ms: i64) {
        lock(&self.inner.clock).latest_ms(now_ms() + ms);
    }

    /// Stores a time that has passed, in case the wall clock is set back later.
    ///
    /// # Errors
    /// The database's.
    pub async fn remember_time(&self, passed_ms: i64) -> StoreResult<()> {
        let latest = {
            let mut clock = lock(&self.inner.clock);
            let latest = clock.latest_ms(now_ms());
            match clock.kept_ms() >= passed_ms {
                true => return Ok(()),
                false => latest,
            }
        };
        self.write(move |writer| writer.saw_time(latest)).await?;
        lock(&self.inner.clock).keep(latest);
        Ok(())
    }

    /// [`Store::remember_time`] for callers that do not wait: whatever ended then stays ended, even
    /// after a restart with a clock that was set back.
    pub fn remember_soon(&self, passed_ms: i64) {
        if lock(&self.inner.clock).kept_ms() >= passed_ms {
            return;
        }
        let store = self.clone();
        tokio::spawn(async move {
            if let Err(error) = store.remember_time(passed_ms).await {
                tracing::debug!(%error, "cannot remember how late it is");
            }
        });
    }

    /// Runs `f` in a read transaction on a blocking thread.
    ///
    /// # Errors
    /// Those of `f`, and the database's.
    pub async fn read<T, F>(&self, f: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Reader) -> StoreResult<T> + Send + 'static,
    {
        let _permit = self.inner.reading.acquire().await;
        let store = self.clone();
        off_runtime(move || store.read_now(f)).await
    }

    /// Runs `f` in a write transaction on a blocking thread; commits only when it returns `Ok`.
    ///
    /// # Errors
    /// Those of `f`, and the database's.
    pub async fn write<T, F>(&self, f: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Writer) -> StoreResult<T> + Send + 'static,
    {
        let store = self.clone();
        off_runtime(move || store.write_now(f)).await
    }

    /// [`Store::read`] for callers that are on a blocking thread already.
    ///
    /// # Errors
    /// Those of `f`, and the database's.
    pub fn read_now<T>(&self, f: impl FnOnce(&Reader) -> StoreResult<T>) -> StoreResult<T> {
        let idle = lock(&self.inner.idle_readers).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => schema::connect(&self.inner.path, self.inner.opening)?,
        };
        let read = |connection: &mut Connection| {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
            f(&Reader { tx: &tx })
        };
        let result = read(&mut connection);
        lock(&self.inner.idle_readers).push(connection);
        result.map_err(|error| self.noted(error))
    }

    /// [`Store::write`] for callers that are on a blocking thread already.
    ///
    /// # Errors
    /// Those of `f`, and the database's.
    pub fn write_now<T>(&self, f: impl FnOnce(&mut Writer) -> StoreResult<T>) -> StoreResult<T> {
        let written = self
            .writer()?
            .synced(|connection| f(&mut Writer { tx: connection }));
        written.map_err(|error| self.noted(error))
    }

    /// [`Store::write_now`] for derived data: it returns before the change is on disk. The next
    /// synced change also brings this one to disk.
    ///
    /// # Errors
    /// Those of `f`, and the database's.
    pub fn write_derived_now<T>(
        &self,
        f: impl FnOnce(&mut Writer) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let written = self
            .writer()?
            .unsynced(|connection| f(&mut Writer { tx: connection }));
        written.map_err(|error| self.noted(error))
    }

    /// Gives all pages of deleted rows back to the file system, some at a time. In between, others
    /// write.
    ///
    /// # Errors
    /// The database's.
    pub async fn shrink(&self) -> StoreResult<()> {
        loop {
            let store = self.clone();
            if !off_runtime(move || store.writer()?.apart(schema::shrink)).await? {
                return Ok(());
            }
            tokio::time::sleep(BREATH).await;
        }
    }

    /// Empties the write-ahead log, which has several megabytes after a large ingest.
    ///
    /// # Errors
    /// The database's.
    pub async fn checkpoint(&self) -> StoreResult<()> {
        let store = self.clone();
        off_runtime(move || store.writer()?.apart(schema::checkpoint)).await
    }

    fn writer(&self) -> StoreResult<&GroupWriter> {
        match (self.refusal(), &self.inner.writer) {
            (Some(refusal), _) => Err(refusal),
            (None, Ok(writer)) => Ok(writer),
            (None, Err(why)) => Err(StoreError::ReadOnly(why.clone())),
        }
    }

    /// As after damage has shown: from now on nothing is written.
    #[cfg(test)]
    pub fn refuse_writes(&self) {
        let _ = self.inner.damage.set("made for a test".to_owned());
    }

    /// When damage shows during use, all writing ends: a write to a damaged database is lost or
    /// makes the damage worse.
    fn noted(&self, error: StoreError) -> StoreError {
        let found = match &error {
            StoreError::Malformed(cause) => cause.to_string(),
            StoreError::Corrupt { .. } => error.to_string(),
            StoreError::Damaged { found, .. } => found.clone(),
            _ => return error,
        };
        let mut is_new = false;
        let found = self.inner.damage.get_or_init(|| {
            is_new = true;
            found
        });
        let damage = schema::damaged(&self.inner.path, found.clone());
        if is_new {
            tracing::error!(%damage, "nothing is accepted any more");
        }
        damage
    }
}

/// A poisoned lock only means that another request panicked. Its transaction was rolled back, so
/// the connection can be used as before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn off_runtime<T, F>(f: F) -> StoreResult<T>
where
    T: Send + 'static,
    F: FnOnce() -> StoreResult<T> + Send + 'static,
{
    let done = crate::limits::work::off_runtime(f).await;
    done.map_err(|_| StoreError::Interrupted)?
}
