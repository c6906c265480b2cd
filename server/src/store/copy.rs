//! A copy of a database at one moment, made while a server writes to that database; and databases
//! that are only read.

use super::open::{explained, open_as, open_to_read, open_with_log};
use super::schema::{self, Opening, damaged};
use super::{BlobRow, ProjectRow, Quarantined, Reader, Store, StoreResult, health};
use rusqlite::Connection;
use std::path::Path;

/// The first schema version that has a quarantine, the first in which a database has an id, and the
/// first that knows projects.
const SETS_ASIDE: usize = 10;
const HAS_AN_ID: usize = 11;
const HAS_PROJECTS: usize = 28;

/// The contents of the blob store according to a database that is only read.
#[derive(Clone, Debug, Default)]
pub struct CopyContents {
    /// The database's id; empty if the database is from a version without ids.
    pub database: String,
    /// Number of runs, including deleted ones.
    pub runs: usize,
    /// Blobs that runs and uploads use.
    pub blobs: Vec<BlobRow>,
    /// Blobs in quarantine: kept although nothing uses them.
    pub aside: Vec<Quarantined>,
    /// The other projects that it knows.
    pub projects: Vec<ProjectRow>,
    /// Whether an older version wrote it: the next start brings its schema up to date.
    pub is_older: bool,
}

impl Store {
    /// Copies the database at `from`, as it is at one moment, to the new file `to`. Others can
    /// write to the database meanwhile without waiting; what they write is not in the copy.
    ///
    /// # Errors
    /// When the database is damaged, belongs to another program or a newer version, or when the
    /// disk is full.
    pub fn copy(from: &Path, to: &Path) -> StoreResult<()> {
        let copied = open_as(from, Opening::ReadOnly)
            .or_else(|_| open_as(from, Opening::ReadWrite))
            // Nothing can be written beside it: then nobody else writes to it either.
            .or_else(|failed| Ok(open_with_log(from, Some(failed))?.0))
            .and_then(|connection| {
                schema::version_of(&connection, from)?;
                connection.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
                Ok(())
            });
        copied.map_err(|error| explained(error, from))
    }

    /// Checks the whole copy and returns which files belong to it. The copy is not changed.
    ///
    /// # Errors
    /// When the copy is damaged or of a newer version.
    pub fn read_copy(path: &Path) -> StoreResult<CopyContents> {
        let read = schema::connect(path, Opening::Immutable).and_then(|connection| {
            let version = schema::version_of(&connection, path)?;
            match health::full_check(&connection)?.pop() {
                Some(found) => Err(damaged(path, found)),
                None => contents(&connection, version),
            }
        });
        read.map_err(|error| explained(error, path))
    }

    /// What the database at `path` says about the blob store. The database is not changed, and may
    /// be of an older version.
    ///
    /// # Errors
    /// When it is damaged, belongs to another program, or is from a newer version.
    pub fn look_into(path: &Path) -> StoreResult<CopyContents> {
        let read = open_to_read(path).and_then(|connection| {
            let version = schema::version_of(&connection, path)?;
            contents(&connection, version)
        });
        read.map_err(|error| explained(error, path))
    }

    /// Reads the database at `path`, as it is at one moment. It is not changed, and others can
    /// write to it meanwhile. `None`: an older version wrote it.
    ///
    /// # Errors
    /// Those of `f`; when it is damaged, belongs to another program, or is from a newer version.
    pub fn glance<T>(
        path: &Path,
        f: impl FnOnce(&Reader) -> StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        let read = open_to_read(path).and_then(|connection| {
            let version = schema::version_of(&connection, path)?;
            if !schema::is_latest(version) {
                return Ok(None);
            }
            let tx = connection.unchecked_transaction()?;
            let found = f(&Reader { tx: &tx })?;
            Ok(Some(found))
        });
        read.map_err(|error| explained(error, path))
    }
}

/// What stands in a database of this version. One without a version is empty.
fn contents(connection: &Connection, version: usize) -> StoreResult<CopyContents> {
    if version == 0 {
        return Ok(CopyContents::default());
    }
    let reader = Reader { tx: connection };
    let blobs = reader.blobs()?;
    let mut aside = match version < SETS_ASIDE {
        true => Vec::new(),
        false => reader.quarantine()?,
    };
    aside.retain(|kept| blobs.iter().all(|blob| blob.hash != kept.hash));
    let named = match version < HAS_AN_ID {
        true => None,
        false => reader.database()?,
    };
    Ok(CopyContents {
        database: named.map(|(id, _)| id).unwrap_or_default(),
        runs: reader.all_runs()?,
        blobs,
        aside,
        projects: match version < HAS_PROJECTS {
            true => Vec::new(),
            false => reader.projects()?,
        },
        is_older: !schema::is_latest(version),
    })
}
