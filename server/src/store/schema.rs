//! Opening a database: pragmas, migrations, and the checks that refuse a foreign or a newer
//! database.

use super::{StoreError, StoreResult};
use rusqlite::{Connection, OpenFlags};
use rusqlite_migration::{M, Migrations};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The migrations in order; `migrations/README.md` says how to add one.
const STEPS: [&str; 41] = [
    include_str!("../../../migrations/0001_runs.sql"),
    include_str!("../../../migrations/0002_devices.sql"),
    include_str!("../../../migrations/0003_columns.sql"),
    include_str!("../../../migrations/0004_uploads.sql"),
    include_str!("../../../migrations/0005_bench.sql"),
    include_str!("../../../migrations/0006_comparisons.sql"),
    include_str!("../../../migrations/0007_leaks.sql"),
    include_str!("../../../migrations/0008_shares.sql"),
    include_str!("../../../migrations/0009_share_names.sql"),
    include_str!("../../../migrations/0010_blobs.sql"),
    include_str!("../../../migrations/0011_database.sql"),
    include_str!("../../../migrations/0012_sessions.sql"),
    include_str!("../../../migrations/0013_session_seen.sql"),
    include_str!("../../../migrations/0014_recording.sql"),
    include_str!("../../../migrations/0015_bench_host_growth.sql"),
    include_str!("../../../migrations/0016_rows_of_runs.sql"),
    include_str!("../../../migrations/0017_jobs.sql"),
    include_str!("../../../migrations/0018_job_keys.sql"),
    include_str!("../../../migrations/0019_explanations.sql"),
    include_str!("../../../migrations/0020_labels.sql"),
    include_str!("../../../migrations/0021_people.sql"),
    include_str!("../../../migrations/0022_own_categories.sql"),
    include_str!("../../../migrations/0023_live.sql"),
    include_str!("../../../migrations/0024_views.sql"),
    include_str!("../../../migrations/0025_arrived.sql"),
    include_str!("../../../migrations/0026_live_told.sql"),
    include_str!("../../../migrations/0027_identities.sql"),
    include_str!("../../../migrations/0028_projects.sql"),
    include_str!("../../../migrations/0029_uploaded_by.sql"),
    include_str!("../../../migrations/0030_pinned.sql"),
    include_str!("../../../migrations/0031_n_steps.sql"),
    include_str!("../../../migrations/0032_same_jobs.sql"),
    include_str!("../../../migrations/0033_step_word.sql"),
    include_str!("../../../migrations/0034_trace_numbers.sql"),
    include_str!("../../../migrations/0035_step_numbers.sql"),
    include_str!("../../../migrations/0036_equal_ranks.sql"),
    include_str!("../../../migrations/0037_bench_began.sql"),
    include_str!("../../../migrations/0038_made_in.sql"),
    include_str!("../../../migrations/0039_job_notes.sql"),
    include_str!("../../../migrations/0040_deleted_jobs.sql"),
    include_str!("../../../migrations/0041_reserved_growth.sql"),
];

/// `Tide`: marks the file as Tidemark's, for `file(1)` and for the check below.
const APPLICATION_ID: i32 = 0x5469_6465;

/// Pages that are given back to the file system at a time; few, so that writers never wait long.
const SHRINK_PAGES: u32 = 2000;

/// How a database file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// For reading and writing, as usual.
    ReadWrite,
    /// Read-only, with its log: the disk cannot be written.
    ReadOnly,
    /// Read-only and without a log: even the shared-memory file cannot be made.
    Immutable,
}

/// Opens a connection and sets the pragmas that every connection needs.
pub(super) fn connect(path: &Path, opening: Opening) -> StoreResult<Connection> {
    let connection = match opening {
        Opening::ReadWrite => Connection::open(path)?,
        Opening::ReadOnly => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            Connection::open_with_flags(path, flags)?
        }
        Opening::Immutable => immutable(path)?,
    };
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    if opening == Opening::ReadWrite {
        // Works only if set before the first table is made. It lets us give the space of deleted
        // rows back.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A change whose success was reported is on disk: no power cut may bring a revoked link
        // back.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
    }
    Ok(connection)
}

fn immutable(path: &Path) -> StoreResult<Connection> {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'/')
        .remove(b'.')
        .remove(b'-')
        .remove(b'_');
    let path = utf8_percent_encode(path.to_str().unwrap_or_default(), KEPT);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(Connection::open_with_flags(
        format!("file:{path}?immutable=1"),
        flags,
    )?)
}

/// Checks that the file is Tidemark's, and returns its version.
pub(super) fn version_of(connection: &Connection, path: &Path) -> StoreResult<usize> {
    let found: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let objects = objects_of(connection)?;
    if found != APPLICATION_ID && (found != 0 || version != 0 || !objects.is_empty()) {
        let names = ["runs", "blobs", "traces"];
        let is_ours = names.iter().all(|&name| objects.contains_key(name));
        match (is_ours, found) {
            // The power failed while the database was made: the application id is written last.
            (true, 0) => {}
            (true, _) => return Err(damaged(path, format!("its application id is {found:#x}"))),
            (false, _) => {
                let path = path.to_owned();
                return Err(StoreError::Foreign { path, found });
            }
        }
    }
    let (found, known) = (version as usize, STEPS.len());
    if found > known {
        let path = path.to_owned();
        return Err(StoreError::TooNew { path, found, known });
    }
    check_schema(&objects, found, path)?;
    Ok(found)
}

/// Whether a database of this version needs no migration.
pub(super) fn is_latest(version: usize) -> bool {
    version == STEPS.len()
}

/// Checks that the tables are those of this version.
fn check_schema(found: &Objects, version: usize, path: &Path) -> StoreResult<()> {
    let (expected, latest) = (schema_at(version)?, schema_at(STEPS.len())?);
    let missing = expected
        .iter()
        .find(|&(name, sql)| found.get(name) != Some(sql));
    let early = latest
        .keys()
        .find(|&name| !expected.contains_key(name) && found.contains_key(name));
    match (missing, early) {
        (Some((name, _)), _) => Err(damaged(path, format!("`{name}` is not what it should be"))),
        (None, Some(name)) => Err(damaged(
            path,
            format!("it says that it has version {version}, but it has `{name}`"),
        )),
        (None, None) => Ok(()),
    }
}

/// Names of tables and indexes, each with the SQL that makes it.
type Objects = BTreeMap<String, String>;

fn schema_at(version: usize) -> StoreResult<Objects> {
    let mut connection = Connection::open_in_memory()?;
    let migrations = Migrations::new(STEPS.iter().map(|sql| M::up(sql)).collect());
    migrations
        .to_version(&mut connection, version)
        .map_err(StoreError::Migration)?;
    objects_of(&connection)
}

fn objects_of(connection: &Connection) -> StoreResult<Objects> {
    let sql = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn damaged(path: &Path, found: String) -> StoreError {
    let path = path.to_owned();
    StoreError::Damaged { path, found }
}

/// Brings the schema up to date.
pub(super) fn migrate(connection: &mut Connection) -> StoreResult<()> {
    let migrations = Migrations::new(STEPS.iter().map(|sql| M::up(sql)).collect());
    migrations
        .to_latest(connection)
        .map_err(StoreError::Migration)?;
    let found: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if found != APPLICATION_ID {
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    Ok(())
}

/// Gives some free pages back to the file system. Returns whether more are left that it can give
/// back.
pub(super) fn shrink(connection: &Connection) -> StoreResult<bool> {
    let free = || connection.pragma_query_value(None, "freelist_count", |row| row.get::<_, u32>(0));
    let before = free()?;
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({SHRINK_PAGES})"))?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    let after = free()?;
    Ok(0 < after && after < before)
}

/// Moves the log into the database and empties it. Parts that a reader still needs stay in the log.
pub(super) fn checkpoint(connection: &Connection) -> StoreResult<()> {
    Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    fn schema_of(connection: &Connection) -> String {
        let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC, name";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0));
        let all: Vec<String> = rows.unwrap().map(Result::unwrap).collect();
        all.join(";\n\n")
    }

    #[test]
    fn the_resulting_schema_is_the_reviewed_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = connect(&folder.path().join("t.db"), Opening::ReadWrite).unwrap();
        migrate(&mut connection).unwrap();
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../../../migrations");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!("schema", schema_of(&connection)));
    }

    #[test]
    fn every_upgrade_path_ends_in_the_same_schema() {
        let folder = tempfile::tempdir().unwrap();
        let mut fresh = connect(&folder.path().join("fresh.db"), Opening::ReadWrite).unwrap();
        migrate(&mut fresh).unwrap();
        for done in 1..STEPS.len() {
            let path = folder.path().join(format!("{done}.db"));
            let mut old = connect(&path, Opening::ReadWrite).unwrap();
            let first = STEPS[..done].iter().map(|sql| M::up(sql)).collect();
            Migrations::new(first).to_latest(&mut old).unwrap();
            old.pragma_update(None, "application_id", APPLICATION_ID)
                .unwrap();
            migrate(&mut old).unwrap();
            assert_eq!(schema_of(&old), schema_of(&fresh), "from version {done}");
        }
    }

    #[test]
    fn redacted_links_from_before_get_keys_of_their_own() {
        let mut connection = Connection::open_in_memory().unwrap();
        let before = STEPS[..8].iter().map(|sql| M::up(sql)).collect();
        Migrations::new(before).to_latest(&mut connection).unwrap();
        for (id, redaction) in [
            ("shr_a", "redacted"),
            ("shr_b", "redacted"),
            ("shr_c", "none"),
        ] {
            let sql = "INSERT INTO shares (id, kind, token_hash, target, query, redaction, note, \
                       created_ms, created_by) VALUES (?1, 'capability', ?1, 'run', '', ?2, '', \
                       0, '')";
            connection.execute(sql, [id, redaction]).unwrap();
        }
        let all = STEPS.iter().map(|sql| M::up(sql)).collect();
        Migrations::new(all).to_latest(&mut connection).unwrap();
        let sql = "SELECT names_key FROM shares ORDER BY id";
        let mut statement = connection.prepare(sql).unwrap();
        let keys = statement.query_map([], |row| row.get::<_, Option<Vec<u8>>>(0));
        let keys: Vec<_> = keys.unwrap().map(Result::unwrap).collect();
        let [Some(first), Some(second), None] = &keys[..] else {
            panic!("{keys:?}");
        };
        assert!(first.len() == 16 && second.len() == 16 && first != second);
    }

    #[test]
    fn migrations_are_listed_in_order_without_gaps() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
        let names = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name());
        let mut files: Vec<String> = names
            .map(|name| name.into_string().unwrap())
            .filter(|name| name.ends_with(".sql"))
            .collect();
        files.sort();
        assert_eq!(files.len(), STEPS.len());
        for (at, file) in files.iter().enumerate() {
            assert!(file.starts_with(&format!("{:04}_", at + 1)), "{file}");
        }
    }

    #[test]
    fn a_database_that_was_made_a_moment_before_the_power_went_is_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        drop(Store::open(&path).unwrap());
        let made = Connection::open(&path).unwrap();
        made.pragma_update(None, "application_id", 0).unwrap();
        drop(made);
        drop(Store::open(&path).unwrap());
        let again = Connection::open(&path).unwrap();
        let id: i32 = again
            .pragma_query_value(None, "application_id", |r| r.get(0))
            .unwrap();
        assert_eq!(id, APPLICATION_ID);
    }

    #[test]
    fn a_newer_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        drop(Store::open(&path).unwrap());
        let newer = Connection::open(&path).unwrap();
        newer.pragma_update(None, "user_version", 99).unwrap();
        let refused = Store::open(&path).map(drop).unwrap_err().to_string();
        assert!(refused.contains("newer Tidemark"), "{refused}");
    }

    #[test]
    fn another_programs_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let other = Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE notes (text)").unwrap();
        let refused = Store::open(&path).map(drop);
        assert!(matches!(refused, Err(StoreError::Foreign { .. })));
    }

    #[tokio::test]
    async fn all_free_pages_are_given_back_however_many_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        let fill = "CREATE TABLE heap (page BLOB); \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) \
             INSERT INTO heap SELECT zeroblob(4000) FROM n";
        let run = async |sql: &'static str| {
            let done = store.write(move |writer| Ok(writer.tx.execute_batch(sql)?));
            done.await.unwrap();
        };
        let free = || {
            let read = store.read_now(|reader| {
                let free = reader
                    .tx
                    .pragma_query_value(None, "freelist_count", |row| row.get(0));
                Ok(free?)
            });
            read.map(|pages: u32| pages).unwrap()
        };
        run(fill).await;
        run("DELETE FROM heap").await;
        assert!(free() > 2 * SHRINK_PAGES, "{}", free());
        store.shrink().await.unwrap();
        assert_eq!(free(), 0);
    }
}
