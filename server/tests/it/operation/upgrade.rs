//! Stores of every earlier schema: after the upgrade, their runs are there and give the same
//! answers as before.

use crate::durable::rig::{SNAPSHOTS, Server, copy_all, files_in, text, tidemark, wait_until};
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The first schema that stores the columns of a trace. A store of an older schema reads each trace
/// from its file again.
const KEEPS_COLUMNS: usize = 3;

/// The first schema that stores verdicts, and the first that stores verdicts of today's method.
/// Verdicts of older schemas came from another method, so they are computed again.
const JUDGES: usize = 7;
const JUDGES_AS_TODAY: usize = 41;

/// The migrations, in order.
fn migrations() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "sql"));
    files.sort();
    let read = files
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap());
    read.collect()
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Turns the database of a store into one of an older schema, with those data that the older schema
/// had.
fn set_back(data: &Path, migrations: &[String]) {
    let (path, newest) = (data.join("tidemark.db"), data.join("newest.db"));
    std::fs::rename(&path, &newest).unwrap();
    let old = Connection::open(&path).unwrap();
    old.pragma_update(None, "auto_vacuum", "INCREMENTAL")
        .unwrap();
    for sql in migrations {
        old.execute_batch(sql).unwrap();
    }
    old.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    old.execute("ATTACH ?1 AS newest", [newest.to_str().unwrap()])
        .unwrap();
    let columns = |schema: &str, table: &str| -> BTreeSet<String> {
        let sql = format!("SELECT name FROM pragma_table_info('{table}', '{schema}')");
        texts(&old, &sql).into_iter().collect()
    };
    let tables = "SELECT name FROM main.sqlite_schema WHERE type = 'table' \
                  AND name NOT LIKE 'sqlite!_%' ESCAPE '!'";
    for table in texts(&old, tables) {
        let (then, now) = (columns("main", &table), columns("newest", &table));
        let both: Vec<&str> = then.intersection(&now).map(String::as_str).collect();
        let both = both.join(", ");
        let sql = format!(
            "INSERT OR REPLACE INTO main.{table} ({both}) SELECT {both} FROM newest.{table}"
        );
        old.execute(&sql, [])
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    if migrations.len() < KEEPS_COLUMNS {
        old.execute("UPDATE traces SET stored_version = 0", [])
            .unwrap();
    }
    if (JUDGES..JUDGES_AS_TODAY).contains(&migrations.len()) {
        old.execute("UPDATE leak_reports SET version = 0", [])
            .unwrap();
    }
    old.execute_batch("DETACH newest").unwrap();
    old.pragma_update(None, "user_version", migrations.len() as i64)
        .unwrap();
    old.pragma_update(None, "application_id", 0x5469_6465)
        .unwrap();
    drop(old);
    std::fs::remove_file(newest).unwrap();
}

/// `doctor` looks at the store, says that it is of an older version, and leaves it so.
fn only_looked_at(data: &Path) {
    let content = || {
        let files = files_in(data).into_iter();
        files
            .map(|path| (std::fs::read(&path).unwrap(), path))
            .collect::<Vec<_>>()
    };
    let before = content();
    let seen = tidemark(&["doctor", "--data", data.to_str().unwrap()]);
    let told = text(&seen);
    assert!(
        seen.status.success() && told.contains("whole, 2 runs; of an older"),
        "{told}"
    );
    assert!(content() == before, "doctor changed it: {told}");
}

/// Everything that a visitor sees of the runs.
fn answers(server: &Server, runs: &[String]) -> Vec<(String, Vec<u8>)> {
    let mut asked = vec!["/api/runs".to_owned()];
    for run in runs {
        asked.push(format!("/api/runs/{run}"));
        for what in ["series/0/0", "marks", "leaks", "growth"] {
            asked.push(format!("/api/runs/{run}/devices/0/{what}"));
        }
    }
    let answer = |path: String| {
        let body = server.get(&path).body;
        (path, body)
    };
    asked.into_iter().map(answer).collect()
}

#[test]
fn every_schema_is_upgraded_and_its_runs_answer_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let newest = folder.path().join("newest");
    let server = Server::start(&newest);
    let runs: Vec<String> = (0..2)
        .map(|n| server.upload(&format!("{n}.pickle"), SNAPSHOTS[n]))
        .collect();
    let before = answers(&server, &runs);
    server.stop();
    let migrations = migrations();
    for version in 1..migrations.len() {
        let data = folder.path().join(format!("version {version}"));
        copy_all(&newest, &data);
        // The file that names the owner belongs to the newest version; the oldest versions had
        // none.
        std::fs::remove_file(data.join("blobs/owner")).unwrap();
        set_back(&data, &migrations[..version]);
        only_looked_at(&data);
        let server = Server::start(&data);
        let list = |answers: &[(String, Vec<u8>)]| answers[0].1.clone();
        // Stores of the oldest versions are read from their files again, in the background.
        wait_until(&format!("the runs of version {version} are there"), || {
            list(&answers(&server, &[])) == list(&before)
        });
        for (now, then) in answers(&server, &runs).iter().zip(&before) {
            let [now_is, then_was] = [now, then].map(|(_, body)| String::from_utf8_lossy(body));
            assert!(
                now == then,
                "version {version}, {}: {now_is:.500}\n{then_was:.500}",
                now.0
            );
        }
        server.stop();
        let known: i64 = crate::durable::rig::count(&data, "PRAGMA user_version");
        assert_eq!(known as usize, migrations.len());
    }
}

#[test]
fn an_older_program_refuses_a_newer_store_and_leaves_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    Server::start(data).stop();
    let database = crate::durable::rig::database(data);
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    // The bytes of the database without two counters in its head that change whenever it is opened.
    let content = || {
        let mut bytes = std::fs::read(data.join("tidemark.db")).unwrap();
        bytes[24..28].fill(0);
        bytes[92..96].fill(0);
        bytes
    };
    let before = content();
    let said = Server::with(data, &[]).map(drop).unwrap_err();
    assert!(
        said.contains("newer Tidemark") && said.contains("update the program"),
        "{said}"
    );
    assert!(content() == before, "it was changed");
}
