//! Reads the tables of a damaged database as far as that is possible: after a page that cannot be
//! read, it goes on with the first row behind it.

use super::super::{StoreResult, schema};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, Statement, params};

/// After so many damaged places of one table the rest of it is given up.
const MOST_BREAKS: u64 = 1000;

/// The columns of a table; none if the database is of a version that did not have the table. `None`
/// if that cannot be read.
pub(super) fn columns(old: &Connection, table: &str) -> Option<Vec<String>> {
    let names = column_names(old, table).ok()?;
    let version = old.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0));
    let is_lost = names.is_empty() && schema::is_latest(version.ok()? as usize);
    (!is_lost).then_some(names)
}

/// The columns of a table; none if there is no such table.
pub(super) fn column_names(database: &Connection, table: &str) -> StoreResult<Vec<String>> {
    let mut statement = database.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// How many rows of a table can be read, and whether that is all of them: the number of places
/// where it cannot be read, here 0 or 1.
pub(super) fn count(old: &Connection, table: &str) -> (u64, u64) {
    let mut rows = 0;
    let counted = match columns(old, table) {
        None => return (0, 1),
        Some(names) if names.is_empty() => return (0, 0),
        Some(_) => count_into(&mut rows, old, table),
    };
    (rows, u64::from(counted.is_err()))
}

fn count_into(count: &mut u64, old: &Connection, table: &str) -> rusqlite::Result<()> {
    let mut statement = old.prepare(&format!("SELECT * FROM \"{table}\""))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {
        *count += 1;
    }
    Ok(())
}

/// Hands on each row that can be read, in the order of its number; `None` stands for a row with a
/// value that is not even text. Returns at how many places nothing could be read.
///
/// `select` asks for the rows of the owner `?1` from the number `?2` on, and its first column is
/// that number.
///
/// # Errors
/// Those of `take`.
pub(super) fn each_row(
    select: &mut Statement<'_>,
    owner: Option<&str>,
    mut take: impl FnMut(Option<Vec<Value>>) -> StoreResult<()>,
) -> StoreResult<u64> {
    let (mut breaks, mut from) = (0, 0);
    while let Stretch::Broken { next } = stretch(select, owner, from, &mut take)? {
        breaks += 1;
        // The number of a damaged row may be any, so it may not lead back.
        let next = next.max(from.saturating_add(1));
        match first_readable(select, owner, next) {
            Some(number) if breaks < MOST_BREAKS => from = number,
            _ => break,
        }
    }
    Ok(breaks)
}

/// How a stretch of rows ended.
enum Stretch {
    /// With the last row.
    Ended,
    /// It cannot be read from about this number on.
    Broken { next: i64 },
}

fn stretch(
    select: &mut Statement<'_>,
    owner: Option<&str>,
    from: i64,
    take: &mut impl FnMut(Option<Vec<Value>>) -> StoreResult<()>,
) -> StoreResult<Stretch> {
    let mut next = from;
    let Ok(mut rows) = select.query(params![owner, from]) else {
        return Ok(Stretch::Broken { next });
    };
    loop {
        match rows.next() {
            Ok(Some(row)) => {
                let number = row.get::<_, i64>(0);
                next = number.map_or(next, |number| number.saturating_add(1));
                take(values(row).ok())?;
            }
            Ok(None) => return Ok(Stretch::Ended),
            Err(_) => return Ok(Stretch::Broken { next }),
        }
    }
}

/// All columns but the first.
fn values(row: &Row<'_>) -> rusqlite::Result<Vec<Value>> {
    let n = row.as_ref().column_count();
    (1..n).map(|at| row.get(at)).collect()
}

/// The lowest number, not below `start`, from which rows can be read, or there are no more. `None`
/// if nothing behind `start` can be read.
fn first_readable(select: &mut Statement<'_>, owner: Option<&str>, start: i64) -> Option<i64> {
    let mut can_read = |from: i64| {
        let rows = select.query(params![owner, from]);
        rows.is_ok_and(|mut rows| rows.next().is_ok())
    };
    let (mut damaged, mut width) = (start.checked_sub(1)?, 1_i64);
    let mut readable = loop {
        let at = start.checked_add(width - 1)?;
        if can_read(at) {
            break at;
        }
        damaged = at;
        width = width.checked_mul(2)?;
    };
    while readable - damaged > 1 {
        let middle = damaged + (readable - damaged) / 2;
        match can_read(middle) {
            true => readable = middle,
            false => damaged = middle,
        }
    }
    Some(readable)
}
