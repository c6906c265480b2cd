//! What can go wrong in the database. This module knows nothing of HTTP.

use super::runs::UNDO;
use crate::limits::answering::{ANSWER_TIME, NoAnswer, Refused};
use crate::limits::budget::NoMemory;
use answers::decoded::NoDevice;
use api::ids::RunId;
use std::path::PathBuf;
use timeline::format::{UnixMillis, date_time};
use trace::steps::choices::UnknownLoop;
use trace::watch::Stopped;

/// The result of anything in this folder.
pub type StoreResult<T> = Result<T, StoreError>;

/// What went wrong in the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such row.
    #[error("there is no {what} {id}")]
    NotFound {
        /// `run`, `upload`, `device` …
        what: &'static str,
        /// The id that was asked for.
        id: String,
    },
    /// The run is deleted, and not yet for good.
    #[error("there is no run {id}: it was deleted, and can be restored until {}", until(*.at_ms))]
    Deleted {
        /// The run.
        id: RunId,
        /// When it was deleted, milliseconds since 1970.
        at_ms: i64,
    },
    /// No loop of the trace is called this.
    #[error(transparent)]
    UnknownLoop(#[from] UnknownLoop),
    /// The state does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// A newer Tidemark wrote this database.
    #[error(
        "the database {path} has schema version {found}, this program knows {known}: \
         it was written by a newer Tidemark; update the program or name another --data folder"
    )]
    TooNew {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: usize,
        /// The newest version known here.
        known: usize,
    },
    /// Another program's database.
    #[error("{path} is a database of another program (application id {found:#x})")]
    Foreign {
        /// The database.
        path: PathBuf,
        /// Its `PRAGMA application_id`.
        found: i32,
    },
    /// What was derived from a trace takes too much, or nobody waits for it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The disk is full.
    #[error(
        "the disk that holds the database is full, so nothing can be changed, and deleting needs \
         some room, too: free a few MiB there"
    )]
    Full,
    /// The place is read-only.
    #[error("the database can only be read: {0}")]
    ReadOnly(String),
    /// The file is no longer an intact database.
    #[error(
        "the database {} is damaged: {found}. Nothing was changed, and the uploaded files are kept \
         apart from it. Stop the server and run `tidemark doctor --rebuild --data {}`: it moves \
         the damaged file aside and takes every upload up again (or move it aside yourself and run \
         `tidemark doctor --adopt`). Give --blobs as you give it to `serve`",
        .path.display(),
        .path.parent().unwrap_or(std::path::Path::new(".")).display()
    )]
    Damaged {
        /// The database.
        path: PathBuf,
        /// The finding of SQLite or of one of our own checks.
        found: String,
    },
    /// SQLite says that the file is damaged. [`super::Store`] turns this into
    /// [`StoreError::Damaged`].
    #[error("the database is damaged: {0}")]
    Malformed(rusqlite::Error),
    /// The file cannot be opened.
    #[error("cannot open the database {}: {source}", .path.display())]
    Unusable {
        /// The database.
        path: PathBuf,
        /// Why not.
        source: rusqlite::Error,
    },
    /// A stored value that this program would never write.
    #[error("the database holds a {what} that is not understood: {value}")]
    Corrupt {
        /// Which column.
        what: &'static str,
        /// The value in it.
        value: String,
    },
    /// A migration file is wrong.
    #[error("cannot bring the database schema up to date")]
    Migration(#[source] rusqlite_migration::Error),
    /// Any other error of SQLite.
    #[error("the database failed")]
    Sqlite(#[source] rusqlite::Error),
    /// Compression failed.
    #[error(
        "what is stored of this run is damaged; it is derived again from the uploaded file: try \
         again in a moment"
    )]
    Packing(#[source] std::io::Error),
    /// The chunks of a trace do not make a valid trace.
    #[error(
        "what is stored of this run is damaged; it is derived again from the uploaded file: try \
         again in a moment"
    )]
    Undecodable(#[source] trace::stored::StoredError),
    /// There is not enough memory for a trace.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// The thread that ran the closure died.
    #[error("the database closure panicked")]
    Interrupted,
}

/// Until when a run that was deleted then can be restored.
fn until(deleted_ms: i64) -> String {
    date_time(UnixMillis(deleted_ms + UNDO.as_millis() as i64))
}

/// Work that its watch stopped. Whoever watches knows why, and says that instead.
impl From<Stopped> for StoreError {
    fn from(_: Stopped) -> StoreError {
        StoreError::Refused(Refused::TooLong(ANSWER_TIME))
    }
}

impl From<NoAnswer> for StoreError {
    fn from(why: NoAnswer) -> StoreError {
        match why {
            NoAnswer::Refused(refused) => StoreError::Refused(refused),
            NoAnswer::Panicked => StoreError::Interrupted,
        }
    }
}

impl From<NoDevice> for StoreError {
    fn from(NoDevice(device): NoDevice) -> StoreError {
        StoreError::NotFound {
            what: "device",
            id: device.to_string(),
        }
    }
}

impl StoreError {
    /// Whether only writing failed, so that everything stored can still be read.
    pub fn refuses_writes(&self) -> bool {
        matches!(
            self,
            StoreError::Full | StoreError::ReadOnly(_) | StoreError::Damaged { .. }
        )
    }

    /// Whether data that was derived from a blob is damaged, and so must be derived again.
    pub fn is_of_derived(&self) -> bool {
        matches!(self, StoreError::Packing(_) | StoreError::Undecodable(_))
    }

    /// Whether the file is no longer an intact database.
    pub fn is_damage(&self) -> bool {
        matches!(self, StoreError::Damaged { .. })
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        use rusqlite::{Error, ErrorCode};
        match (error.sqlite_error_code(), &error) {
            (Some(ErrorCode::DiskFull), _) => StoreError::Full,
            (Some(ErrorCode::ReadOnly), _) => StoreError::ReadOnly(error.to_string()),
            (Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase), _)
            // Some columns have a type, and SQLite checks it on every write.
            | (
                None,
                Error::InvalidColumnType(..)
                | Error::FromSqlConversionFailure(..)
                | Error::IntegralValueOutOfRange(..)
                | Error::Utf8Error(..),
            ) => StoreError::Malformed(error),
            _ => StoreError::Sqlite(error),
        }
    }
}
