//! The audit: what was done, and by whom.

use super::rows::uint;
use super::{Reader, Slice, StoreResult, Writer};
use api::people::AuditEntry;
use rusqlite::params;

/// How many entries are kept; older ones are deleted.
const KEPT: i64 = 100_000;

impl Reader<'_> {
    /// Entries, newest first; all of them, or those of one person.
    pub fn audit(&self, who: Option<&str>, slice: Slice) -> StoreResult<Vec<AuditEntry>> {
        let sql = "SELECT id, at_ms, who, address, action, subject FROM audit \
                   WHERE ?1 IS NULL OR who = ?1 ORDER BY id DESC LIMIT ?2 OFFSET ?3";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query(params![who, slice.limit, slice.offset])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(AuditEntry {
                id: uint(row, "id")?,
                at_ms: row.get("at_ms")?,
                who: row.get("who")?,
                address: row.get("address")?,
                action: row.get("action")?,
                subject: row.get("subject")?,
            });
        }
        Ok(found)
    }
}

impl Writer<'_> {
    /// Adds an entry. The number in `entry` is ignored.
    ///
    /// # Errors
    /// The database's.
    pub fn note(&mut self, entry: &AuditEntry) -> StoreResult<()> {
        self.tx.execute(
            "INSERT INTO audit (at_ms, who, address, action, subject) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                entry.at_ms,
                entry.who,
                entry.address,
                entry.action,
                entry.subject,
            ],
        )?;
        let sql = "DELETE FROM audit WHERE id <= ?1";
        self.tx.execute(sql, [self.tx.last_insert_rowid() - KEPT])?;
        Ok(())
    }
}
