//! The audit: what was done, and by whom.

use super::rows::{corrupt, uint};
use super::{Reader, Slice, StoreResult, Writer};
use api::people::AuditEntry;
use api::projects::ProjectName;
use rusqlite::{Row, params};

/// How many entries are kept; older ones are deleted.
const KEPT: i64 = 100_000;

/// Which entries; all of them where nothing is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhichEntries {
    /// What somebody of this name did.
    pub who: Option<String>,
    /// What is called this.
    pub action: Option<String>,
    /// What was done to something with this text in its name or id, in whatever case.
    pub about: Option<String>,
    /// What was done in this project. What names none is of the first one.
    pub project: Option<ProjectName>,
}

impl Reader<'_> {
    /// Entries, newest first.
    pub fn audit(&self, which: &WhichEntries, slice: Slice) -> StoreResult<Vec<AuditEntry>> {
        let sql = "SELECT id, at_ms, who, address, action, subject, project FROM audit \
                   WHERE (?1 IS NULL OR who = ?1) AND (?2 IS NULL OR action = ?2) \
                   AND (?3 IS NULL OR instr(lower(subject), lower(?3)) > 0) \
                   AND (?4 IS NULL OR coalesce(project, ?5) = ?4) \
                   ORDER BY id DESC LIMIT ?6 OFFSET ?7";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query(params![
            which.who,
            which.action,
            which.about,
            which.project.as_ref().map(ProjectName::as_str),
            ProjectName::MAIN,
            slice.limit,
            slice.offset
        ])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(AuditEntry {
                id: uint(row, "id")?,
                at_ms: row.get("at_ms")?,
                who: row.get("who")?,
                address: row.get("address")?,
                action: row.get("action")?,
                subject: row.get("subject")?,
                project: project_of(row)?,
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
            "INSERT INTO audit (at_ms, who, address, action, subject, project) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                entry.at_ms,
                entry.who,
                entry.address,
                entry.action,
                entry.subject,
                entry.project.as_ref().map(ProjectName::as_str),
            ],
        )?;
        let sql = "DELETE FROM audit WHERE id <= ?1";
        self.tx.execute(sql, [self.tx.last_insert_rowid() - KEPT])?;
        Ok(())
    }
}

fn project_of(row: &Row) -> StoreResult<Option<ProjectName>> {
    let project: Option<String> = row.get("project")?;
    let parse = |text: String| text.parse().map_err(|_| corrupt("project's name", &text));
    project.map(parse).transpose()
}
