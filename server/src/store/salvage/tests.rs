//! What comes along from databases that are damaged in several ways.

use super::*;
use crate::store::{NewBench, NewBenchRow, Quarantined, Slice, Store, WhichEntries};
use api::bench::DeviceKind;
use api::ids::{BenchId, BenchRowId};
use api::people::AuditEntry;
use tempfile::TempDir;

/// Bytes of a page of the database.
const PAGE: usize = 4096;

/// Tables that a rebuilt database does without the damaged one: they are found again in the stored
/// files, or are about a moment that is over. Who has signed in signs in again, who was sending
/// sends again, and a file that was about to be removed is a run again.
const DERIVED: [&str; 18] = [
    "blob_removals",
    "blobs",
    "chunks",
    "devices",
    "explanations",
    "leak_groups",
    "leak_reports",
    "ooms",
    "quality",
    "rank_profiles",
    "series",
    "sessions",
    "settings",
    "steps",
    "tiles",
    "trace_numbers",
    "traces",
    "uploads",
];

#[test]
fn every_table_is_derived_or_salvaged() {
    let old = Old::new();
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' \
               AND name NOT LIKE 'sqlite!_%' ESCAPE '!'";
    let tables = old.store().read_now(|reader| {
        let mut statement = reader.tx.prepare(sql)?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        Ok(names.collect::<Result<Vec<_>, _>>()?)
    });
    let tables = tables.unwrap();
    let read = READ.iter().map(|(table, _)| *table);
    let carried = carry::TABLES.iter().map(|table| table.name);
    let salvaged: Vec<&str> = read.chain(carried).collect();
    for table in &tables {
        let lists = [&DERIVED[..], &salvaged[..]];
        let found = lists.iter().flat_map(|list| list.iter());
        let times = found.filter(|name| **name == table).count();
        assert_eq!(
            times, 1,
            "`{table}` must be in one of DERIVED, READ, TABLES"
        );
    }
    let listed = DERIVED.len() + salvaged.len();
    assert_eq!(listed, tables.len(), "a table in a list is gone");
}

/// A database that gets damaged, and the new one.
struct Old {
    folder: TempDir,
}

impl Old {
    fn new() -> Old {
        let folder = tempfile::tempdir().unwrap();
        Old { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("old.db")
    }

    fn store(&self) -> Store {
        Store::open(&self.path()).unwrap()
    }

    fn write(&self, change: impl FnOnce(&mut Writer) -> StoreResult<()>) {
        self.store().write_now(change).unwrap();
    }

    /// Changes what only damage changes.
    fn damage(&self, sql: &str) {
        let old = Connection::open(self.path()).unwrap();
        old.execute_batch(sql).unwrap();
    }

    /// Overwrites the first page on which these bytes stand.
    fn lose_page_of(&self, wanted: &[u8]) {
        let (old, copy) = (self.path(), self.folder.path().join("copy.db"));
        // A copy has neither a log nor free pages.
        Store::copy(&old, &copy).unwrap();
        let mut bytes = std::fs::read(&copy).unwrap();
        let at = bytes.windows(wanted.len()).position(|part| part == wanted);
        let page = at.unwrap() / PAGE * PAGE;
        bytes[page..page + PAGE].fill(0x5a);
        for part in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{part}", old.display()));
        }
        std::fs::write(&old, bytes).unwrap();
    }

    /// A new database, and what became of a table that was carried over.
    fn carried(&self, table: &str) -> (Store, Rescued) {
        let new = Store::open(&self.folder.path().join("new.db")).unwrap();
        let [first, again] = [(); 2].map(|()| {
            let carry = |writer: &mut Writer| writer.carry_over(&self.path(), |_, _| true);
            new.write_now(carry).unwrap()
        });
        assert_eq!(first, again, "an interrupted call continues");
        let found = first.into_iter().find(|one| one.table == table);
        (new, found.unwrap())
    }
}

fn entry(n: usize) -> AuditEntry {
    AuditEntry {
        id: 0,
        at_ms: n as i64,
        who: "ada".to_owned(),
        address: String::new(),
        action: "upload".to_owned(),
        subject: format!("subject-{n:04}"),
        project: None,
    }
}

fn subjects(store: &Store) -> Vec<String> {
    let read = store.read_now(|reader| reader.audit(&WhichEntries::default(), Slice::ALL));
    let entries = read.unwrap().into_iter();
    entries.map(|entry| entry.subject).collect()
}

#[test]
fn what_stands_before_and_behind_a_damaged_page_comes_along() {
    let old = Old::new();
    old.write(|writer| (0..3000).try_for_each(|n| writer.note(&entry(n))));
    old.lose_page_of(b"subject-1500");
    let (new, audit) = old.carried("audit");
    let found = subjects(&new);
    assert_eq!((audit.breaks, audit.left_out), (1, 0));
    assert_eq!(audit.kept, found.len() as u64);
    assert!((2800..3000).contains(&found.len()), "{}", found.len());
    assert_eq!(found[0], "subject-2999");
    assert_eq!(found.last().unwrap(), "subject-0000");
    assert!(found.is_sorted_by(|newer, older| newer > older));
    assert!(!found.contains(&"subject-1500".to_owned()));
}

/// The next entry is counted from the highest number, and those far below it are deleted.
#[test]
fn a_damaged_number_of_an_entry_ends_no_audit() {
    let old = Old::new();
    old.write(|writer| (0..3).try_for_each(|n| writer.note(&entry(n))));
    old.damage("UPDATE audit SET id = 9223372036854775807 WHERE id = 2");
    let (new, audit) = old.carried("audit");
    assert_eq!((audit.kept, audit.left_out), (3, 0));
    new.write_now(|writer| writer.note(&entry(3))).unwrap();
    assert_eq!(subjects(&new).len(), 4);
}

const BENCH: &str = "ben_1";
const ROWS: [&str; 2] = ["row_a", "row_b"];

/// Puts a bench of two rows into a database, one of them with steps.
fn insert_bench(writer: &mut Writer) -> StoreResult<()> {
    let rows = ROWS.map(|id| NewBenchRow {
        id: id.parse().unwrap(),
        config: "te-fused-attention-fp8".to_owned(),
        patches: Vec::new(),
        steps: 2000,
    });
    writer.insert_bench(&NewBench {
        id: BENCH.parse().unwrap(),
        created_ms: 1,
        device: DeviceKind::Sim,
        steps: None,
        capacity: None,
        recorded_steps: 3,
        rows: rows.to_vec(),
    })?;
    let sql = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1999) \
               INSERT INTO bench_steps SELECT 'row_a', i, 7, 7, 7, 7, 7, ?1 + i, 0.5 FROM n";
    writer.tx.execute(sql, [MARKED])?;
    Ok(())
}

/// A number with a pattern that stands nowhere else, of the first step.
const MARKED: i64 = 0x1449_4445_0102_0000;

fn rows_of(store: &Store) -> Vec<String> {
    let bench: BenchId = BENCH.parse().unwrap();
    let bench = store.read_now(|reader| reader.bench(&bench)).unwrap();
    let rows = bench.rows.into_iter();
    rows.map(|row| row.id.as_str().to_owned()).collect()
}

fn steps_of(store: &Store, row: &str) -> Vec<u32> {
    let row: BenchRowId = row.parse().unwrap();
    let steps = store.read_now(|reader| reader.bench_steps(&row)).unwrap();
    steps.into_iter().map(|step| step.step).collect()
}

#[test]
fn steps_around_a_damaged_page_come_along() {
    let old = Old::new();
    old.write(insert_bench);
    old.lose_page_of(&(MARKED + 1000).to_be_bytes());
    let (new, steps) = old.carried("bench_steps");
    assert_eq!(rows_of(&new), ROWS);
    let found = steps_of(&new, ROWS[0]);
    assert_eq!((steps.breaks, steps.kept), (1, found.len() as u64));
    assert!((1500..2000).contains(&found.len()), "{}", found.len());
    assert_eq!((found[0], found.last()), (0, Some(&1999)));
    assert!(!found.contains(&1000));
}

#[test]
fn rows_that_nobody_could_read_stay_behind() {
    let check = |damage: &str, table: &str, expected: (u64, u64)| {
        let old = Old::new();
        old.write(insert_bench);
        old.write(|writer| writer.note(&entry(0)));
        old.damage(&format!("PRAGMA foreign_keys = OFF; {damage}"));
        let (new, found) = old.carried(table);
        assert_eq!((found.kept, found.left_out), expected, "{damage}");
        assert_eq!(found.breaks, 0, "{damage}");
        drop(new);
        // A start reads it, too.
        let new = Store::open(&old.folder.path().join("new.db")).unwrap();
        new.read_now(|reader| {
            for bench in reader.benches(Slice::ALL)? {
                reader.bench(&bench.id)?;
            }
            reader.audit(&WhichEntries::default(), Slice::ALL)
        })
        .unwrap();
    };
    let of_b = "WHERE id = 'row_b'";
    check("", "bench_rows", (2, 0));
    check("", "bench_steps", (2000, 0));
    let below = format!("UPDATE bench_rows SET planned_steps = -5 {of_b}");
    check(&below, "bench_rows", (1, 1));
    let unnamed = format!("UPDATE bench_rows SET id = 'nobody writes this' {of_b}");
    check(&unnamed, "bench_rows", (1, 1));
    let no_text = format!("UPDATE bench_rows SET config = CAST(x'ff' AS TEXT) {of_b}");
    check(&no_text, "bench_rows", (1, 1));
    check("UPDATE benches SET steps = -1", "benches", (0, 1));
    check("UPDATE benches SET steps = -1", "bench_rows", (0, 2));
    check(
        "UPDATE bench_steps SET step = -1 WHERE step = 3",
        "bench_steps",
        (1999, 0),
    );
    let beyond = "UPDATE bench_steps SET step = 5000000000 WHERE step = 3";
    check(beyond, "bench_steps", (1999, 1));
    check("UPDATE audit SET project = '?'", "audit", (0, 1));
}

#[test]
fn tables_and_columns_of_an_older_version_are_not_missed() {
    let old = Old::new();
    old.write(insert_bench);
    let gone = "DROP TABLE live_steps; DROP TABLE live; \
                ALTER TABLE bench_rows DROP COLUMN began; PRAGMA user_version = 22";
    old.damage(gone);
    let (new, live) = old.carried("live");
    assert_eq!((live.kept, live.left_out, live.breaks), (0, 0, 0));
    assert_eq!(rows_of(&new), ROWS);
    assert_eq!(steps_of(&new, ROWS[0]).len(), 2000);
    // Today's version has them.
    let old = Old::new();
    old.write(insert_bench);
    old.damage("DROP TABLE live_steps; DROP TABLE live");
    let (_, live) = old.carried("live");
    assert_eq!((live.kept, live.left_out, live.breaks), (0, 0, 1));
}

#[test]
fn a_database_that_is_rubbish_is_said_to_be_lost() {
    let old = Old::new();
    std::fs::write(
        old.path(),
        "rubbish, and more than a header of it".repeat(300),
    )
    .unwrap();
    let (_, audit) = old.carried("audit");
    assert_eq!((audit.kept, audit.left_out, audit.breaks), (0, 0, 1));
    let salvaged = Salvaged::of(&old.path());
    assert_eq!(salvaged.tables.len(), READ.len());
    assert!(salvaged.tables.iter().all(|table| table.breaks == 1));
}

#[test]
fn files_in_quarantine_keep_their_names_and_views_that_are_lost_are_counted() {
    let old = Old::new();
    let aside = |name: &str| Quarantined {
        hash: "00ff".to_owned(),
        name: name.to_owned(),
        why: "it is cut".to_owned(),
    };
    old.write(|writer| writer.set_aside(&aside("a.pickle"), 1));
    old.damage("INSERT INTO views VALUES ('nobody writes this', 'mine', '/', 1, '')");
    let salvaged = Salvaged::of(&old.path());
    let lost = salvaged.tables.iter().filter(|table| table.left_out > 0);
    let lost: Vec<(&str, u64)> = lost.map(|one| (one.table, one.left_out)).collect();
    assert_eq!(lost, [("views", 1)]);
    assert!(salvaged.tables.iter().all(|table| table.breaks == 0));

    let new = Store::open(&old.folder.path().join("new.db")).unwrap();
    let named = new.write_now(|writer| {
        writer.set_aside(&aside("recovered-00ff"), 2)?;
        for (hash, name) in &salvaged.file_names {
            writer.remember_file_name(hash, name)?;
        }
        writer.reader().quarantine()
    });
    assert_eq!(named.unwrap(), [aside("a.pickle")]);
}
