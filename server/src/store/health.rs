//! Is the database intact? Every start makes a short check, `doctor` makes a full one.

use super::schema::damaged;
use super::{StoreError, StoreResult};
use rusqlite::Connection;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Most findings that are listed.
const MOST_FINDINGS: u32 = 20;

/// How much of the database was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// All of it.
    Whole,
    /// As much as was possible in the time allowed.
    Part,
}

/// Checks the tables that everything depends on, then the rest until `limit` has passed.
///
/// # Errors
/// [`StoreError::Damaged`].
pub(super) fn quick_check(
    connection: &Connection,
    path: &Path,
    limit: Duration,
) -> StoreResult<Looked> {
    let interrupt = connection.get_interrupt_handle();
    let checked = std::thread::scope(|scope| {
        let (done, waiting) = channel::<()>();
        scope.spawn(move || {
            if waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                interrupt.interrupt();
            }
        });
        let checked = check_all(connection);
        drop(done);
        checked
    });
    match checked {
        Ok(None) => Ok(Looked::Whole),
        Ok(Some(found)) => Err(damaged(path, found)),
        Err(StoreError::Sqlite(error))
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) =>
        {
            Ok(Looked::Part)
        }
        Err(error) => Err(error),
    }
}

/// The first fault that is found.
fn check_all(connection: &Connection) -> StoreResult<Option<String>> {
    // These two tables are left out: they are nearly all of the file, and can be derived again.
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' \
               AND name NOT LIKE 'sqlite!_%' ESCAPE '!' AND name NOT IN ('chunks', 'tiles')";
    let mut statement = connection.prepare(sql)?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    for name in names.collect::<Result<Vec<_>, _>>()? {
        let check = format!("PRAGMA integrity_check(\"{name}\")");
        if let Some(found) = findings(connection, &check)?.pop() {
            return Ok(Some(found));
        }
    }
    Ok(findings(connection, "PRAGMA quick_check(1)")?.pop())
}

/// Checks everything, however long it takes: structure, indexes, and foreign keys.
///
/// # Errors
/// When SQLite cannot even run the checks.
pub(super) fn full_check(connection: &Connection) -> StoreResult<Vec<String>> {
    let check = format!("PRAGMA integrity_check({MOST_FINDINGS})");
    let mut found = findings(connection, &check)?;
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
        found.push(format!("a row of `{table}` belongs to none of `{parent}`"));
        if found.len() >= MOST_FINDINGS as usize {
            break;
        }
    }
    Ok(found)
}

fn findings(connection: &Connection, check: &str) -> StoreResult<Vec<String>> {
    let mut statement = connection.prepare(check)?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut found = rows.collect::<Result<Vec<_>, _>>()?;
    found.retain(|line| line != "ok");
    // SQLite puts a heading above its list.
    let plain = |line: String| {
        line.trim_start_matches("*** in database main ***")
            .trim()
            .to_owned()
    };
    Ok(found.into_iter().map(plain).collect())
}
