//! Facts about the database itself: its id, and the latest time that it has seen.

use super::{Reader, StoreResult, Writer};
use rusqlite::{OptionalExtension, params};

impl Reader<'_> {
    /// The database's id and the latest time that it has seen; `None` before the first start.
    pub fn database(&self) -> StoreResult<Option<(String, i64)>> {
        let sql = "SELECT id, latest_ms FROM database";
        let mut statement = self.tx.prepare_cached(sql)?;
        let row = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)));
        Ok(row.optional()?)
    }
}

impl Writer<'_> {
    /// Gives the database its id, once.
    pub fn name_database(&mut self, id: &str, now_ms: i64) -> StoreResult<()> {
        let sql = "INSERT INTO database (one, id, latest_ms) VALUES (1, ?1, ?2) \
                   ON CONFLICT (one) DO NOTHING";
        self.tx.execute(sql, params![id, now_ms])?;
        Ok(())
    }

    /// Forgets that a time was seen that has not come, because a clock was wrong, and the sessions
    /// that began then.
    pub fn forget_time(&mut self, now_ms: i64) -> StoreResult<()> {
        let sql = "UPDATE database SET latest_ms = min(latest_ms, ?1)";
        self.tx.execute(sql, [now_ms])?;
        let sql = "DELETE FROM sessions WHERE created_ms > ?1";
        self.tx.execute(sql, [now_ms])?;
        Ok(())
    }

    /// Remembers the latest time that was seen.
    pub fn saw_time(&mut self, latest_ms: i64) -> StoreResult<()> {
        let sql = "UPDATE database SET latest_ms = max(latest_ms, ?1)";
        self.tx.execute(sql, [latest_ms])?;
        Ok(())
    }
}
