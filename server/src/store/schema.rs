//! Opening a database: pragmas, migrations, and the checks that refuse a foreign or newer one.

use super::{StoreError, StoreResult};
use rusqlite::Connection;
use rusqlite_migration::{M, Migrations};
use std::path::Path;
use std::time::Duration;

/// In order; `migrations/README.md` says how to add one.
const STEPS: [&str; 9] = [
    include_str!("../../../migrations/0001_runs.sql"),
    include_str!("../../../migrations/0002_devices.sql"),
    include_str!("../../../migrations/0003_columns.sql"),
    include_str!("../../../migrations/0004_uploads.sql"),
    include_str!("../../../migrations/0005_bench.sql"),
    include_str!("../../../migrations/0006_comparisons.sql"),
    include_str!("../../../migrations/0007_leaks.sql"),
    include_str!("../../../migrations/0008_shares.sql"),
    include_str!("../../../migrations/0009_share_names.sql"),
];

/// `Tide`: marks the file as ours, for `file(1)` and for the check below.
const APPLICATION_ID: i32 = 0x5469_6465;

/// Pages given back to the file system in one go, so that writers never wait long.
const SHRINK_PAGES: u32 = 2000;

/// A connection with the pragmas that every one of them needs.
pub(super) fn connect(path: &Path) -> StoreResult<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    // Takes effect only before the first table is made: deleted gigabytes can be given back.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // With WAL a crash of the machine can lose the last commits but never corrupts; uploads that
    // lost theirs are taken up again, so a sync at each commit would buy nothing.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// Brings the schema up to date.
pub(super) fn migrate(connection: &mut Connection) -> StoreResult<()> {
    let path = connection.path().unwrap_or_default().into();
    let found: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found != APPLICATION_ID && (found != 0 || version != 0 || has_tables(connection)?) {
        return Err(StoreError::Foreign { path, found });
    }
    let (found, known) = (version as usize, STEPS.len());
    if found > known {
        return Err(StoreError::TooNew { path, found, known });
    }
    let migrations = Migrations::new(STEPS.iter().map(|sql| M::up(sql)).collect());
    migrations
        .to_latest(connection)
        .map_err(StoreError::Migration)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    Ok(())
}

/// Gives some free pages back to the file system.
pub(super) fn shrink(connection: &Connection) -> StoreResult<()> {
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({SHRINK_PAGES})"))?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Moves the log into the database and empties it. What a reader still needs stays in the log.
pub(super) fn checkpoint(connection: &Connection) -> StoreResult<()> {
    Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
}

fn has_tables(connection: &Connection) -> StoreResult<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema)";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
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
        let mut connection = connect(&folder.path().join("t.db")).unwrap();
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
        let mut fresh = connect(&folder.path().join("fresh.db")).unwrap();
        migrate(&mut fresh).unwrap();
        for done in 1..STEPS.len() {
            let path = folder.path().join(format!("{done}.db"));
            let mut old = connect(&path).unwrap();
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
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
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
}
