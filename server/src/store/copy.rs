//! A copy of a database as it was at one moment, made while a server writes to it.

use super::open::explained;
use super::schema::{self, Opening, damaged};
use super::{BlobRow, Quarantined, Reader, Store, StoreResult, health};
use rusqlite::Connection;
use std::path::Path;

/// The first version that sets blobs aside, and the first that has an id.
const SETS_ASIDE: usize = 10;
const HAS_AN_ID: usize = 11;

/// What a copy says is in the blob store.
#[derive(Clone, Debug, Default)]
pub struct CopyContents {
    /// The database's id; empty in one that is older than its ids.
    pub database: String,
    /// Runs, the deleted ones too.
    pub runs: usize,
    /// Blobs that runs and uploads use.
    pub blobs: Vec<BlobRow>,
    /// Blobs that nothing uses and that are kept all the same.
    pub aside: Vec<Quarantined>,
}

impl Store {
    /// Writes the database at `from`, as it is at one moment, to the new file `to`. Whoever writes
    /// to it meanwhile does not wait, and is not in the copy.
    ///
    /// # Errors
    /// When it is damaged, another program's or a newer version's, or when the disk is full.
    pub fn copy(from: &Path, to: &Path) -> StoreResult<()> {
        let copied = schema::connect(from, Opening::ReadOnly)
            .or_else(|_| schema::connect(from, Opening::ReadWrite))
            .and_then(|connection| {
                schema::version_of(&connection, from)?;
                connection.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
                Ok(())
            });
        copied.map_err(|error| explained(error, from))
    }

    /// Looks at all of a copy, and says what belongs to it. The file is not changed.
    ///
    /// # Errors
    /// When it is damaged, or a newer version's.
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
}

fn contents(connection: &Connection, version: usize) -> StoreResult<CopyContents> {
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
    })
}
