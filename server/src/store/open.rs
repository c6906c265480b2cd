//! Opening a database that may be damaged or read-only.

use super::group::GroupWriter;
use super::revision;
use super::schema::{self, Opening};
use super::{Inner, Looked, READERS, Reader, Slice, Store, StoreError, StoreResult, Which, health};
use crate::identity::database_id;
use crate::system::clock::{Steady, now_ms};
use rusqlite::{Connection, ErrorCode, MAIN_DB};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long a start may search for damage before it serves. The search goes on after the first
/// requests.
const LOOK_FOR: Duration = Duration::from_millis(50);
/// How long it goes on. `doctor` checks everything.
const LOOK_ON_FOR: Duration = Duration::from_secs(60);
/// Runs that a start reads before it serves: the newest.
const FIRST_RUNS: u32 = 100;
/// Runs that are read at once.
const SOME_RUNS: u32 = 1000;

impl Store {
    /// Opens or creates the database at `path`, looks for damage, and brings its schema up to date.
    ///
    /// If nothing can be written (the disk is full or mounted read-only), the database is opened
    /// for reading and every write is refused.
    ///
    /// # Errors
    /// When the database cannot be opened, is damaged, belongs to another program, or is from a
    /// newer version.
    pub fn open(path: &Path) -> StoreResult<Store> {
        let opened =
            open_best(path).and_then(|(connection, opening)| look(connection, path, opening));
        opened.map_err(|error| explained(error, path))
    }
}

impl Store {
    /// Searches for damage where opening had no time to. Takes up to a minute. When it finds some,
    /// nothing is written any more.
    pub fn look_on(&self) -> Looked {
        let Inner { path, opening, .. } = &*self.inner;
        let opening = match opening {
            Opening::Immutable => Opening::Immutable,
            Opening::ReadWrite | Opening::ReadOnly => Opening::ReadOnly,
        };
        let looked = open_as(path, opening).and_then(|connection| {
            readable(&Reader { tx: &connection })?;
            health::quick_check(&connection, path, LOOK_ON_FOR)
        });
        looked.unwrap_or_else(|error| {
            self.noted(error);
            Looked::Part
        })
    }

    /// Everything that is wrong with the database at `path`, which is not changed. Takes as long as
    /// it needs.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when it cannot even be checked; an error, too, when it belongs to
    /// another program or a newer version.
    pub fn examine(path: &Path) -> StoreResult<Vec<String>> {
        let connection = open_to_read(path).map_err(|error| explained(error, path))?;
        let examined = schema::version_of(&connection, path)
            .and_then(|version| Ok((version, health::full_check(&connection)?)));
        let (version, found) = examined.map_err(|error| explained(error, path))?;
        let readable = match schema::is_latest(version) {
            true => readable(&Reader { tx: &connection }),
            // Today's questions are about columns that it does not have.
            false => Ok(()),
        };
        match readable.map_err(|error| explained(error, path)) {
            Err(StoreError::Damaged { found: value, .. }) if found.is_empty() => Ok(vec![value]),
            _ => Ok(found),
        }
    }
}

/// Opens the database so that nothing is changed. Without a log nobody uses it, and then not even
/// the files beside it are made.
pub(super) fn open_to_read(path: &Path) -> StoreResult<Connection> {
    match log_of(path).exists() {
        true => Ok(open_with_log(path, None)?.0),
        false => open_as(path, Opening::Immutable),
    }
}

fn log_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", path.display()))
}

/// Opens the database for writing if the disk allows that, else read-only.
fn open_best(path: &Path) -> StoreResult<(Connection, Opening)> {
    let was_there = path.metadata().is_ok_and(|file| file.len() > 0);
    let failed = match open_as(path, Opening::ReadWrite) {
        Ok(connection) if !connection.is_readonly(MAIN_DB)? => {
            return Ok((connection, Opening::ReadWrite));
        }
        Ok(_) => None,
        Err(error) if was_there && is_about_writing(&error) => Some(error),
        Err(error) => return Err(error),
    };
    open_with_log(path, failed)
}

/// Opens the database read-only, with its log if that can be read; `failed`: why it could not be
/// opened for writing.
pub(super) fn open_with_log(
    path: &Path,
    failed: Option<StoreError>,
) -> StoreResult<(Connection, Opening)> {
    let with_log = open_as(path, Opening::ReadOnly);
    if let Ok(connection) = with_log {
        return Ok((connection, Opening::ReadOnly));
    }
    // If the log cannot be read, the database is complete only if the log is empty.
    if log_of(path).metadata().is_ok_and(|file| file.len() > 0) {
        let failed = failed.map_or(with_log.map(drop), Err);
        return Err(failed.err().unwrap_or(StoreError::Full));
    }
    Ok((open_as(path, Opening::Immutable)?, Opening::Immutable))
}

pub(super) fn open_as(path: &Path, opening: Opening) -> StoreResult<Connection> {
    let connection = schema::connect(path, opening)?;
    // Opening is lazy: only the first query needs the log and the shared-memory file.
    connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
    Ok(connection)
}

fn is_about_writing(error: &StoreError) -> bool {
    let codes = [
        ErrorCode::CannotOpen,
        ErrorCode::PermissionDenied,
        ErrorCode::SystemIoFailure,
    ];
    match error {
        StoreError::Full | StoreError::ReadOnly(_) => true,
        StoreError::Sqlite(error) => error
            .sqlite_error_code()
            .is_some_and(|c| codes.contains(&c)),
        _ => false,
    }
}

fn look(mut connection: Connection, path: &Path, opening: Opening) -> StoreResult<Store> {
    let version = schema::version_of(&connection, path)?;
    let looked = health::quick_check(&connection, path, LOOK_FOR)?;
    let read_only = (opening != Opening::ReadWrite).then(|| {
        let folder = path.parent().unwrap_or(path).display();
        format!("nothing can be written in {folder}; it is full, or mounted to be read only")
    });
    match &read_only {
        None => schema::migrate(&mut connection)?,
        Some(_) if schema::is_latest(version) => {}
        Some(why) => return Err(StoreError::ReadOnly(why.clone())),
    }
    let reader = Reader { tx: &connection };
    let looked = match readable_first(&reader)? {
        Looked::Whole => looked,
        Looked::Part => Looked::Part,
    };
    let (id, latest_ms) = identity(&connection, read_only.is_none())?;
    Ok(Store {
        inner: Arc::new(Inner {
            path: path.to_owned(),
            id,
            opening,
            looked,
            writer: match read_only {
                None => {
                    revision::watch(&connection)?;
                    Ok(GroupWriter::new(connection))
                }
                Some(why) => Err(why),
            },
            damage: OnceLock::new(),
            clock: Mutex::new(Steady::new(latest_ms)),
            idle_readers: Mutex::default(),
            reading: Semaphore::new(READERS),
        }),
    })
}

/// Reads what every page needs. A value that this program never writes is damage that SQLite cannot
/// see.
fn readable(reader: &Reader) -> StoreResult<()> {
    for which in [Which::Live, Which::Deleted] {
        let mut offset = 0;
        let limit = SOME_RUNS;
        while reader.runs(which, &[], Slice { offset, limit })?.len() == limit as usize {
            offset += limit;
        }
    }
    reader.shares(None, Slice::ALL, 0)?;
    reader.unfinished_uploads()?;
    Ok(())
}

/// The same, of the newest runs; whether these are all.
fn readable_first(reader: &Reader) -> StoreResult<Looked> {
    if reader.all_runs()? <= FIRST_RUNS as usize {
        readable(reader)?;
        return Ok(Looked::Whole);
    }
    let newest = Slice {
        offset: 0,
        limit: FIRST_RUNS,
    };
    reader.runs(Which::Live, &[], newest)?;
    reader.unfinished_uploads()?;
    Ok(Looked::Part)
}

/// The database's id and the latest time that it has seen. A read-only database without an id stays
/// without one.
fn identity(connection: &Connection, writable: bool) -> StoreResult<(String, i64)> {
    let reader = Reader { tx: connection };
    if writable && reader.database()?.is_none() {
        let mut writer = super::Writer { tx: connection };
        match writer.name_database(&database_id(), now_ms()) {
            Ok(()) | Err(StoreError::Full) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(reader.database()?.unwrap_or_default())
}

/// The same error, with the path and with advice.
pub(super) fn explained(error: StoreError, path: &Path) -> StoreError {
    let corrupt_schema = |error: &rusqlite_migration::Error| format!("{error}");
    match error {
        StoreError::Malformed(cause) => schema::damaged(path, cause.to_string()),
        StoreError::Corrupt { .. } => schema::damaged(path, error.to_string()),
        StoreError::Migration(cause) => match sqlite_cause(&cause) {
            Some(ErrorCode::DiskFull) => StoreError::Full,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => {
                schema::damaged(path, corrupt_schema(&cause))
            }
            _ => StoreError::Migration(cause),
        },
        StoreError::Sqlite(source) => StoreError::Unusable {
            path: path.to_owned(),
            source,
        },
        other => other,
    }
}

fn sqlite_cause(error: &rusqlite_migration::Error) -> Option<ErrorCode> {
    match error {
        rusqlite_migration::Error::RusqliteError { err, .. } => err.sqlite_error_code(),
        _ => None,
    }
}
