//! What can go wrong in the database. Knows no HTTP.

use std::path::PathBuf;

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
        /// Which one.
        id: String,
    },
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
    /// The disk is full.
    #[error("the disk that holds the database is full")]
    Full,
    /// A stored value that this program would never write.
    #[error("the database holds a {what} that is not understood: {value}")]
    Corrupt {
        /// Which column.
        what: &'static str,
        /// What it holds.
        value: String,
    },
    /// A migration file is wrong.
    #[error("cannot bring the database schema up to date")]
    Migration(#[source] rusqlite_migration::Error),
    /// SQLite says no.
    #[error("the database failed")]
    Sqlite(#[source] rusqlite::Error),
    /// Compression failed.
    #[error("a stored column or tile cannot be packed or unpacked")]
    Packing(#[source] std::io::Error),
    /// The chunks of a trace are not a trace.
    #[error("a stored trace cannot be decoded")]
    Undecodable(#[source] trace::stored::StoredError),
    /// The thread that ran the closure died.
    #[error("the database closure panicked")]
    Interrupted,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => StoreError::Full,
            _ => StoreError::Sqlite(error),
        }
    }
}
