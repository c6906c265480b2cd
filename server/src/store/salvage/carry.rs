//! Carries over from a damaged database, row by row, what was measured, reported or written down
//! and stands in no uploaded file: benches, what the engine knew of tensors, live trainings, and
//! the audit.
//!
//! Ids stay: that of a run comes from its bytes, so it is the same in the new database. What is not
//! there in an older version is left out.

use super::super::{Reader, Slice, StoreResult, WhichEntries, Writer};
use super::{Rescued, opened, scan};
use api::ids::{BenchId, BenchRowId, LiveId, RunId};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, Statement, params_from_iter};
use std::ops::RangeInclusive;
use std::path::Path;

/// Whether these bytes, of this version, are a packed table of tensors that can be unpacked.
type IsTensors = fn(i64, &[u8]) -> bool;

/// Whether a row fits, and whether all rows of an owner do.
type RowFits = fn(&Judge<'_>, &Fields<'_>) -> bool;
type OwnerFits = fn(&Judge<'_>, &str) -> bool;

/// A table whose rows are carried over.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// What one row is, and several.
    words: [&'static str; 2],
    order: Order,
}

/// How the rows of a table are found one after the other, and which of them fit: a value that this
/// program never writes would be damage in the new database, too.
enum Order {
    /// By the number that SQLite gives each row.
    Rows { fits: RowFits },
    /// Those of each owner by a number: the table has no other numbers.
    Of { keys: Keys, fits: OwnerFits },
}

/// The columns that tell rows apart. `owners` asks the new database for all owners.
#[derive(Clone, Copy)]
struct Keys {
    owner: &'static str,
    number: &'static str,
    owners: &'static str,
}

/// The tables: first those that others refer to. `tensors` and `tensor_columns` refer to runs.
pub(super) const TABLES: [Table; 8] = [
    Table {
        name: "benches",
        words: ["bench", "benches"],
        order: Order::Rows {
            fits: |judge, row| judge.is_bench(row.text("id")),
        },
    },
    Table {
        name: "bench_rows",
        words: ["row of a bench", "rows of benches"],
        order: Order::Rows {
            fits: |judge, row| judge.is_bench(row.text("bench")),
        },
    },
    Table {
        name: "bench_steps",
        words: ["step of a bench", "steps of benches"],
        order: Order::Of {
            keys: Keys {
                owner: "row",
                number: "step",
                owners: "SELECT id FROM bench_rows",
            },
            fits: |judge, row| judge.has_bench_steps(row),
        },
    },
    Table {
        name: "tensor_columns",
        words: ["table of tensors", "tables of tensors"],
        order: Order::Rows {
            fits: |judge, row| (judge.is_tensors)(row.integer("version"), row.blob("bytes")),
        },
    },
    Table {
        name: "tensors",
        words: ["tensor that stays alive", "tensors that stay alive"],
        order: Order::Of {
            keys: Keys {
                owner: "run",
                number: "position",
                owners: "SELECT id FROM runs",
            },
            fits: |judge, run| judge.has_tensors(run),
        },
    },
    Table {
        name: "live",
        words: ["live training", "live trainings"],
        order: Order::Rows {
            fits: |judge, row| judge.is_live(row.text("id")),
        },
    },
    Table {
        name: "live_steps",
        words: ["report of a live training", "reports of live trainings"],
        order: Order::Of {
            keys: Keys {
                owner: "live",
                number: "step",
                owners: "SELECT id FROM live",
            },
            fits: |judge, live| judge.is_live(live),
        },
    },
    Table {
        name: AUDIT,
        words: ["entry of the audit", "entries of the audit"],
        order: Order::Rows {
            fits: |judge, _| judge.is_entry(),
        },
    },
];

/// Entries of the audit get new numbers, in the same order: the next one is counted from the
/// highest, and a damaged number may be any.
const AUDIT: &str = "audit";
const AUDIT_NUMBER: &str = "id";

/// What numbers an owner may give its rows.
const OF_OWNER: RangeInclusive<i64> = 0..=u32::MAX as i64;

/// Says whether the new database can read what was put into it.
struct Judge<'c> {
    reader: Reader<'c>,
    is_tensors: IsTensors,
}

impl Judge<'_> {
    fn is_bench(&self, id: &str) -> bool {
        let id = id.parse::<BenchId>();
        id.is_ok_and(|id| self.reader.bench(&id).is_ok())
    }

    fn has_bench_steps(&self, row: &str) -> bool {
        let row = row.parse::<BenchRowId>();
        row.is_ok_and(|row| self.reader.bench_steps(&row).is_ok())
    }

    fn has_tensors(&self, run: &str) -> bool {
        let run = run.parse::<RunId>();
        run.is_ok_and(|run| self.reader.alive_tensors(&run).is_ok())
    }

    /// A live training with its last step.
    fn is_live(&self, id: &str) -> bool {
        let id = id.parse::<LiveId>();
        id.is_ok_and(|id| self.reader.live(&id).is_ok())
    }

    /// The newest entry of the audit, which was put in just now.
    fn is_entry(&self) -> bool {
        let newest = Slice {
            offset: 0,
            limit: 1,
        };
        self.reader.audit(&WhichEntries::default(), newest).is_ok()
    }
}

/// A row, with the names of its columns.
struct Fields<'r> {
    columns: &'r [String],
    values: &'r [Value],
}

impl Fields<'_> {
    fn value(&self, column: &str) -> &Value {
        let at = self.columns.iter().position(|name| name == column);
        at.and_then(|at| self.values.get(at))
            .unwrap_or(&Value::Null)
    }

    fn text(&self, column: &str) -> &str {
        match self.value(column) {
            Value::Text(text) => text,
            _ => "",
        }
    }

    fn integer(&self, column: &str) -> i64 {
        match self.value(column) {
            Value::Integer(number) => *number,
            _ => 0,
        }
    }

    fn blob(&self, column: &str) -> &[u8] {
        match self.value(column) {
            Value::Blob(bytes) => bytes,
            _ => &[],
        }
    }
}

impl Writer<'_> {
    /// Carries over the tables that no other way restores from the damaged database at `path`, as
    /// far as they can be read and fit. A table that has rows already was carried over by an
    /// earlier call, and stays. Runs must have been derived again before, for only their tensors
    /// are looked for.
    ///
    /// # Errors
    /// The new database's. What is wrong with the damaged one is no error: it is counted.
    pub fn carry_over(&mut self, path: &Path, is_tensors: IsTensors) -> StoreResult<Vec<Rescued>> {
        let old = opened(path);
        let judge = Judge {
            reader: self.reader(),
            is_tensors,
        };
        let mut rescued = Vec::new();
        for table in &TABLES {
            let was_empty = self.count(table.name)? == 0;
            let (read, breaks) = match &old {
                Some(old) => self.carry(old, table, was_empty.then_some(&judge))?,
                None => (0, 1),
            };
            let kept = self.count(table.name)?;
            rescued.push(Rescued {
                table: table.name,
                words: table.words,
                kept,
                left_out: read.saturating_sub(kept),
                breaks,
            });
        }
        Ok(rescued)
    }

    /// Reads a table, and puts its rows into the new database if there is a judge of them. Returns
    /// how many rows there were, and at how many places nothing could be read.
    fn carry(
        &self,
        old: &Connection,
        table: &Table,
        judge: Option<&Judge<'_>>,
    ) -> StoreResult<(u64, u64)> {
        let Some(there) = scan::columns(old, table.name) else {
            return Ok((0, 1));
        };
        let mut columns = scan::column_names(self.tx, table.name)?;
        columns.retain(|name| there.contains(name));
        columns.retain(|name| (table.name, name.as_str()) != (AUDIT, AUDIT_NUMBER));
        if columns.is_empty() {
            return Ok((0, 0));
        }
        let Ok(mut select) = old.prepare(&selects(table, &columns)) else {
            return Ok((0, 1));
        };
        match table.order {
            Order::Rows { fits } => {
                let put = judge.map(|judge| (judge, fits));
                self.carry_rows(&mut select, table.name, &columns, put)
            }
            Order::Of { keys, fits } => {
                let put = judge.map(|judge| (judge, fits));
                self.carry_owned(&mut select, (table.name, keys), &columns, put)
            }
        }
    }

    fn carry_rows(
        &self,
        select: &mut Statement<'_>,
        table: &str,
        columns: &[String],
        put: Option<(&Judge<'_>, RowFits)>,
    ) -> StoreResult<(u64, u64)> {
        let mut insert = self.tx.prepare(&inserts(table, columns))?;
        let take_back = format!("DELETE FROM \"{table}\" WHERE rowid = ?1");
        let mut read = 0;
        let breaks = scan::each_row(select, None, |values| {
            read += 1;
            let (Some(values), Some((judge, fits))) = (values, put) else {
                return Ok(());
            };
            let values = values.as_slice();
            if is_put(&mut insert, values)? && !fits(judge, &Fields { columns, values }) {
                let row = self.tx.last_insert_rowid();
                self.tx.execute(&take_back, [row])?;
            }
            Ok(())
        })?;
        Ok((read, breaks))
    }

    /// The same for the rows of one owner after the other. All of an owner's fit, or none.
    fn carry_owned(
        &self,
        select: &mut Statement<'_>,
        (table, keys): (&str, Keys),
        columns: &[String],
        put: Option<(&Judge<'_>, OwnerFits)>,
    ) -> StoreResult<(u64, u64)> {
        let mut insert = self.tx.prepare(&inserts(table, columns))?;
        let take_back = format!("DELETE FROM \"{table}\" WHERE \"{}\" = ?1", keys.owner);
        let (mut read, mut breaks) = (0, 0);
        for id in self.texts(keys.owners)? {
            let before = read;
            breaks += scan::each_row(select, Some(&id), |values| {
                read += 1;
                let (Some(values), Some(_)) = (values, put) else {
                    return Ok(());
                };
                let values = values.as_slice();
                if OF_OWNER.contains(&Fields { columns, values }.integer(keys.number)) {
                    is_put(&mut insert, values)?;
                }
                Ok(())
            })?;
            if let Some((judge, fits)) = put
                && read > before
                && !fits(judge, &id)
            {
                self.tx.execute(&take_back, [&id])?;
            }
        }
        Ok((read, breaks))
    }

    fn texts(&self, sql: &str) -> StoreResult<Vec<String>> {
        let mut statement = self.tx.prepare(sql)?;
        let texts = statement.query_map([], |row| row.get(0))?;
        Ok(texts.collect::<Result<_, _>>()?)
    }

    fn count(&self, table: &str) -> StoreResult<u64> {
        let sql = format!("SELECT count(*) FROM \"{table}\"");
        let rows: i64 = self.tx.query_row(&sql, [], |row| row.get(0))?;
        Ok(rows.unsigned_abs())
    }
}

/// Asks for rows as [`scan::each_row`] wants them.
fn selects(table: &Table, columns: &[String]) -> String {
    let (name, columns) = (table.name, quoted(columns));
    match table.order {
        Order::Rows { .. } => {
            format!("SELECT rowid, {columns} FROM \"{name}\" WHERE rowid >= ?2 ORDER BY rowid")
        }
        Order::Of { keys, .. } => {
            let Keys { owner, number, .. } = keys;
            format!(
                "SELECT \"{number}\", {columns} FROM \"{name}\" \
                 WHERE \"{owner}\" = ?1 AND \"{number}\" >= ?2 ORDER BY \"{number}\""
            )
        }
    }
}

fn inserts(table: &str, columns: &[String]) -> String {
    let places: Vec<String> = (1..=columns.len()).map(|n| format!("?{n}")).collect();
    format!(
        "INSERT INTO \"{table}\" ({}) VALUES ({}) ON CONFLICT DO NOTHING",
        quoted(columns),
        places.join(", ")
    )
}

fn quoted(columns: &[String]) -> String {
    let names: Vec<String> = columns.iter().map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}

/// Puts a row into the new database, if its rules allow that.
fn is_put(insert: &mut Statement<'_>, values: &[Value]) -> StoreResult<bool> {
    match insert.execute(params_from_iter(values)) {
        Ok(rows) => Ok(rows == 1),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
