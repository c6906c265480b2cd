//! The rules for the team's own categories.

use super::{Reader, StoreResult, Writer};
use rusqlite::{OptionalExtension, params};

impl Reader<'_> {
    /// The rules as they were typed; empty if there are none.
    pub fn own_categories(&self) -> StoreResult<String> {
        let sql = "SELECT rules FROM own_categories";
        let mut statement = self.tx.prepare_cached(sql)?;
        let rules = statement.query_row([], |row| row.get(0)).optional()?;
        Ok(rules.unwrap_or_default())
    }
}

impl Writer<'_> {
    /// Replaces the rules.
    pub fn set_own_categories(&mut self, rules: &str, who: &str, now_ms: i64) -> StoreResult<()> {
        self.tx.execute(
            "INSERT OR REPLACE INTO own_categories (id, rules, changed_ms, changed_by) \
             VALUES (1, ?1, ?2, ?3)",
            params![rules, now_ms, who],
        )?;
        Ok(())
    }
}
