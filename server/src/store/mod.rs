//! The database: [`Store::read`] and [`Store::write`] are the only ways in.
//!
//! Both run a closure on a blocking thread, inside one transaction, and return owned data; since
//! the closure is not async, no transaction can hold an `await`. A reader sees one moment of the
//! database; readers never wait for the writer (WAL), writers wait for one another.
//!
//! SQL is written in this folder and nowhere else.

mod bench;
mod blobs;
mod columns;
mod comparisons;
mod error;
mod leaks;
mod rows;
mod runs;
mod schema;
mod shares;
mod tensors;
mod tiles;
mod uploads;

pub use bench::{BenchEnd, BenchJob, NewBench, NewBenchRow, Stopped};
pub use blobs::{BlobCodec, BlobRow};
pub use columns::PackedChunk;
pub use error::{StoreError, StoreResult};
pub use runs::{NewRun, RunRef, RunRow, Which};
pub use shares::ShareRow;
pub use tiles::{Keep, TileKey};
pub use uploads::{UploadRow, UploadState};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// Connections that read at the same time; a read takes well under a millisecond.
const READERS: usize = 4;

/// The database of one data folder.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    writer: Mutex<Connection>,
    idle_readers: Mutex<Vec<Connection>>,
    reading: Semaphore,
}

/// A read transaction.
pub struct Reader<'c> {
    tx: &'c Transaction<'c>,
}

/// A write transaction; reads what it has written.
pub struct Writer<'c> {
    tx: &'c Transaction<'c>,
}

impl<'c> Writer<'c> {
    /// The same transaction, to read from.
    pub fn reader(&self) -> Reader<'c> {
        Reader { tx: self.tx }
    }
}

impl Store {
    /// Opens or creates the database at `path` and brings its schema up to date.
    ///
    /// # Errors
    /// When it cannot be opened, is another program's, or was written by a newer version.
    pub fn open(path: &Path) -> StoreResult<Store> {
        let mut writer = schema::connect(path)?;
        schema::migrate(&mut writer)?;
        Ok(Store {
            inner: Arc::new(Inner {
                path: path.to_owned(),
                writer: Mutex::new(writer),
                idle_readers: Mutex::new(Vec::new()),
                reading: Semaphore::new(READERS),
            }),
        })
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
            None => schema::connect(&self.inner.path)?,
        };
        let tx = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
        let result = f(&Reader { tx: &tx });
        drop(tx);
        lock(&self.inner.idle_readers).push(connection);
        result
    }

    /// [`Store::write`] for callers that are on a blocking thread already.
    ///
    /// # Errors
    /// Those of `f`, and the database's.
    pub fn write_now<T>(&self, f: impl FnOnce(&mut Writer) -> StoreResult<T>) -> StoreResult<T> {
        let mut connection = lock(&self.inner.writer);
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = f(&mut Writer { tx: &tx })?;
        tx.commit()?;
        Ok(value)
    }

    /// Gives pages of deleted rows back to the file system, in the writer's quiet time.
    ///
    /// # Errors
    /// The database's.
    pub async fn shrink(&self) -> StoreResult<()> {
        let store = self.clone();
        off_runtime(move || schema::shrink(&lock(&store.inner.writer))).await
    }

    /// Empties the write-ahead log, which a large ingest leaves megabytes long.
    ///
    /// # Errors
    /// The database's.
    pub async fn checkpoint(&self) -> StoreResult<()> {
        let store = self.clone();
        off_runtime(move || schema::checkpoint(&lock(&store.inner.writer))).await
    }
}

/// A poisoned lock only says that another request panicked: its transaction was rolled back, and
/// the connection is as good as before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn off_runtime<T, F>(f: F) -> StoreResult<T>
where
    T: Send + 'static,
    F: FnOnce() -> StoreResult<T> + Send + 'static,
{
    let span = tracing::Span::current();
    let task = tokio::task::spawn_blocking(move || span.in_scope(f));
    task.await.map_err(|_| StoreError::Interrupted)?
}
