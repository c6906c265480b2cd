//! Counts the changes of what a list of runs says. While the count stays, an answer with runs is
//! the same, so it need not be made again for each page that shows it.
//!
//! Triggers of the connection that writes count: no change can be forgotten where it is made, and
//! one that is undone is not counted. They are temporary, so the file has nothing of them.

use super::StoreResult;
use rusqlite::Connection;

/// Tables that no list of runs reads. A new table is not among them, so at worst a list is made
/// again too often.
const NOT_LISTED: [&str; 26] = [
    "audit",
    "bench_steps",
    "blob_removals",
    "chunks",
    "comparison_runs",
    "comparisons",
    "database",
    "explanations",
    "leak_groups",
    "live",
    "live_steps",
    "quarantine",
    "rank_profiles",
    "sessions",
    "settings",
    "share_runs",
    "shares",
    "steps",
    "tensor_columns",
    "tensors",
    "tiles",
    "tokens",
    "trace_numbers",
    "traces",
    "uploads",
    "views",
];

/// From now on counts what this connection changes.
pub(super) fn watch(connection: &Connection) -> StoreResult<()> {
    let mut sql = String::from(
        "CREATE TEMP TABLE run_changes (n INTEGER NOT NULL) STRICT; \
         INSERT INTO run_changes VALUES (0);",
    );
    for table in tables(connection)? {
        if NOT_LISTED.contains(&table.as_str()) {
            continue;
        }
        for change in ["INSERT", "UPDATE", "DELETE"] {
            sql.push_str(&format!(
                "CREATE TEMP TRIGGER {table}_{change} AFTER {change} ON main.{table} \
                 BEGIN UPDATE run_changes SET n = n + 1; END;"
            ));
        }
    }
    Ok(connection.execute_batch(&sql)?)
}

/// How many changes there were; `None` if nobody counts.
pub(super) fn counted(connection: &Connection) -> Option<i64> {
    let mut statement = connection
        .prepare_cached("SELECT n FROM run_changes")
        .ok()?;
    statement.query_row([], |row| row.get(0)).ok()
}

fn tables(connection: &Connection) -> StoreResult<Vec<String>> {
    let sql = "SELECT name FROM main.sqlite_schema \
               WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
    let mut statement = connection.prepare(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn what_no_list_reads_is_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        let names = store.read_now(|reader| tables(reader.tx)).unwrap();
        for name in NOT_LISTED {
            assert!(names.iter().any(|table| table == name), "{name}");
        }
        for read in [
            "runs", "devices", "series", "ooms", "quality", "labels", "blobs",
        ] {
            assert!(!NOT_LISTED.contains(&read), "{read}");
        }
    }

    #[test]
    fn only_what_a_list_reads_and_what_is_kept_counts() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        let changed = |sql: &'static str| {
            let before = store.revision();
            let done = store.write_now(|writer| Ok(writer.tx.execute_batch(sql)?));
            (done.is_ok(), store.revision() - before)
        };
        let job = "INSERT INTO jobs (id, name, created_ms) VALUES ('job_a', 'a', 0)";
        assert_eq!(changed(job), (true, 1));
        assert_eq!(changed("UPDATE jobs SET name = 'b'"), (true, 1));
        assert_eq!(
            changed("UPDATE jobs SET name = 'c' WHERE id = 'none'"),
            (true, 0)
        );
        assert_eq!(changed("DELETE FROM jobs"), (true, 1));
        assert_eq!(changed("DELETE FROM live; DELETE FROM audit"), (true, 0));
        let undone = format!("{job}; INSERT INTO nothing VALUES (1)");
        let undone: &'static str = Box::leak(undone.into_boxed_str());
        assert_eq!(changed(undone), (false, 0));
    }
}
