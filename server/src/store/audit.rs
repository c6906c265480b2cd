//! The audit: what was done, and by whom.

use super::rows::{corrupt, uint};
use super::{Reader, Slice, StoreResult, Writer};
use api::people::AuditEntry;
use api::projects::ProjectName;
use rusqlite::{Row, params};

/// How many entries are kept; older ones are deleted.
const KEPT: i64 = 100_000;

/// The id in a subject: all of it, or what is in the last brackets (`llama (2) (run_a)`). Where
/// that is the only bracket, it is found five times as fast.
const ID: &str = "rtrim(substr(subject, 1 + \
    iif(instr(substr(subject, instr(subject, '(') + 1), '('), \
        length(rtrim(subject, replace(subject, '(', ''))), \
        instr(subject, '('))), ')')";

/// Which entries; all of them where nothing is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhichEntries {
    /// What somebody of this name did.
    pub who: Option<String>,
    /// What is called this.
    pub action: Option<String>,
    /// What was done to something with this text in its name or id, in whatever case.
    pub about: Option<String>,
    /// Beside that, what was done to one of these things, whatever it was called then.
    pub ids: Vec<String>,
    /// What was done in this project. What names none is of the first one.
    pub project: Option<ProjectName>,
}

impl Reader<'_> {
    /// Entries, newest first.
    pub fn audit(&self, which: &WhichEntries, slice: Slice) -> StoreResult<Vec<AuditEntry>> {
        let sql = format!(
            "SELECT id, at_ms, who, address, action, subject, project FROM audit \
             WHERE (?1 IS NULL OR who = ?1) AND (?2 IS NULL OR action = ?2) \
             AND (?3 IS NULL OR instr(lower(subject), lower(?3)) > 0 \
             OR {ID} IN (SELECT value FROM json_each(?8))) \
             AND (?4 IS NULL OR coalesce(project, ?5) = ?4) \
             ORDER BY id DESC LIMIT ?6 OFFSET ?7"
        );
        let ids = serde_json::to_string(&which.ids).expect("ids are plain data");
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(params![
            which.who,
            which.action,
            which.about,
            which.project.as_ref().map(ProjectName::as_str),
            ProjectName::MAIN,
            slice.limit,
            slice.offset,
            ids
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

    /// The ids of things with this text in the name that they have now, in whatever case. Many
    /// entries name a thing only by its id.
    pub fn ids_called(&self, text: &str) -> StoreResult<Vec<String>> {
        let sql = "SELECT id FROM (SELECT id, name FROM runs UNION ALL SELECT id, name FROM jobs \
                   UNION ALL SELECT id, name FROM live \
                   UNION ALL SELECT id, name FROM comparisons \
                   UNION ALL SELECT id, name FROM people UNION ALL SELECT id, name FROM tokens) \
                   WHERE instr(lower(name), lower(?1)) > 0";
        let mut statement = self.tx.prepare_cached(sql)?;
        let ids = statement.query_map([text], |row| row.get(0))?;
        Ok(ids.collect::<Result<_, _>>()?)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn entries_are_found_by_the_id_that_they_name() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        let subjects = ["run_a", "llama (run_a)", "llama (2) (run_a)", "run_ab", "a"];
        let noted = store.write_now(|writer| {
            subjects.iter().try_for_each(|subject| {
                writer.note(&AuditEntry {
                    id: 0,
                    at_ms: 1,
                    who: "ada".to_owned(),
                    address: "127.0.0.1".to_owned(),
                    action: "delete_run".to_owned(),
                    subject: (*subject).to_owned(),
                    project: None,
                })
            })
        });
        noted.unwrap();
        let which = WhichEntries {
            about: Some("the name of now".to_owned()),
            ids: vec!["run_a".to_owned()],
            ..WhichEntries::default()
        };
        let found = store.read_now(|reader| reader.audit(&which, Slice::ALL));
        let found = found.unwrap();
        let found: Vec<&str> = found.iter().map(|entry| entry.subject.as_str()).collect();
        assert_eq!(found, ["llama (2) (run_a)", "llama (run_a)", "run_a"]);
    }
}
