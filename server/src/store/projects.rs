//! Projects and their members, in the database of the server's first project; and what the database
//! of any project holds.

use super::rows::{corrupt, int};
use super::{Reader, StoreResult, Writer};
use api::ids::PersonId;
use api::people::Role;
use api::projects::{Keep, ProjectName, ProjectSettings};
use rusqlite::{Row, params};
use serde_json::Value;
use std::str::FromStr;
use trace::units::Bytes;

/// A project as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRow {
    /// Its name.
    pub name: ProjectName,
    /// When it was made.
    pub created_ms: i64,
    /// When it was closed.
    pub closed_ms: Option<i64>,
    /// How it is kept.
    pub settings: ProjectSettings,
}

/// A member as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRow {
    /// Of which project.
    pub project: ProjectName,
    /// Who.
    pub person: PersonId,
    /// What they may do in it.
    pub role: Role,
}

/// Which table has the things whose ids begin like this.
const TABLES: [(&str, &str); 9] = [
    ("run_", "runs"),
    ("upl_", "uploads"),
    ("shr_", "shares"),
    ("ben_", "benches"),
    ("row_", "bench_rows"),
    ("job_", "jobs"),
    ("cmp_", "comparisons"),
    ("view_", "views"),
    ("live_", "live"),
];

/// Whether a text begins like the id of something that is in a project.
pub fn is_of_a_project(id: &str) -> bool {
    TABLES.iter().any(|(prefix, _)| id.starts_with(prefix))
}

impl Reader<'_> {
    /// Whether this database has the thing with this id, of whatever kind.
    pub fn holds(&self, id: &str) -> StoreResult<bool> {
        let Some((_, table)) = TABLES.iter().find(|(prefix, _)| id.starts_with(prefix)) else {
            return Ok(false);
        };
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE id = ?1)");
        let mut statement = self.tx.prepare_cached(&sql)?;
        Ok(statement.query_row([id], |row| row.get(0))?)
    }

    /// All projects that have a row, by name.
    pub fn projects(&self) -> StoreResult<Vec<ProjectRow>> {
        let mut statement = self
            .tx
            .prepare_cached("SELECT * FROM projects ORDER BY name")?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(project_of(row)?);
        }
        Ok(found)
    }

    /// All members of all projects.
    pub fn members(&self) -> StoreResult<Vec<MemberRow>> {
        let sql = "SELECT project, person, role FROM project_members";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(MemberRow {
                project: parsed("project's name", row.get("project")?)?,
                person: parsed("person's id", row.get("person")?)?,
                role: parsed("role", row.get("role")?)?,
            });
        }
        Ok(found)
    }
}

impl Writer<'_> {
    /// Adds a project, or replaces what is stored about it. Members stay.
    ///
    /// # Errors
    /// The database's.
    pub fn put_project(&mut self, row: &ProjectRow) -> StoreResult<()> {
        let ProjectSettings {
            everybody,
            quota,
            keep,
        } = &row.settings;
        let keep = keep.as_ref().map(|keep| {
            let json = serde_json::to_string(keep);
            json.expect("settings are plain data")
        });
        self.tx.execute(
            "INSERT INTO projects (name, created_ms, closed_ms, everybody, quota, keep) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
             ON CONFLICT (name) DO UPDATE SET closed_ms = ?3, everybody = ?4, quota = ?5, \
             keep = ?6",
            params![
                row.name.as_str(),
                row.created_ms,
                row.closed_ms,
                everybody.map(Role::name),
                quota.map(|bytes| int(bytes.get())),
                keep,
            ],
        )?;
        Ok(())
    }

    /// Forgets a project and its members.
    ///
    /// # Errors
    /// The database's.
    pub fn forget_project(&mut self, project: &ProjectName) -> StoreResult<()> {
        let sql = "DELETE FROM projects WHERE name = ?1";
        self.tx.execute(sql, [project.as_str()])?;
        Ok(())
    }

    /// Says what a person may do in a project; nothing, with `None`.
    ///
    /// # Errors
    /// The database's.
    pub fn set_member(
        &mut self,
        project: &ProjectName,
        person: &PersonId,
        role: Option<Role>,
    ) -> StoreResult<()> {
        let (project, person) = (project.as_str(), person.as_str());
        match role {
            None => self.tx.execute(
                "DELETE FROM project_members WHERE project = ?1 AND person = ?2",
                [project, person],
            )?,
            Some(role) => self.tx.execute(
                "INSERT INTO project_members (project, person, role) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (project, person) DO UPDATE SET role = ?3",
                [project, person, role.name()],
            )?,
        };
        Ok(())
    }
}

fn project_of(row: &Row) -> StoreResult<ProjectRow> {
    let everybody: Option<String> = row.get("everybody")?;
    let keep: Option<String> = row.get("keep")?;
    let quota: Option<i64> = row.get("quota")?;
    let read = |text: String| rule(&text).map_err(|_| corrupt("a project's rule", &text));
    Ok(ProjectRow {
        name: parsed("project's name", row.get("name")?)?,
        created_ms: row.get("created_ms")?,
        closed_ms: row.get("closed_ms")?,
        settings: ProjectSettings {
            everybody: everybody.map(|text| parsed("role", text)).transpose()?,
            quota: quota.map(|bytes| Bytes(bytes.max(0) as u64)),
            keep: keep.map(read).transpose()?,
        },
    })
}

/// A rule for old runs. When a rule could not name days yet, pull requests kept their runs for
/// ever: such a rule goes on like that until somebody sets it again.
fn rule(text: &str) -> serde_json::Result<Keep> {
    let mut rule: serde_json::Map<String, Value> = serde_json::from_str(text)?;
    rule.entry("pull_request_days").or_insert(Value::Null);
    serde_json::from_value(Value::Object(rule))
}

fn parsed<T: FromStr>(what: &'static str, text: String) -> StoreResult<T> {
    text.parse().map_err(|_| corrupt(what, &text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that was updated must not delete what it kept the hour before.
    #[test]
    fn a_rule_from_before_there_were_days_keeps_what_it_kept() {
        let check = |text: &str, days: Option<u32>| {
            let read = rule(text).unwrap();
            assert_eq!((read.newest, read.pull_request_days), (3, days), "{text}");
            let stored = serde_json::to_string(&read).unwrap();
            assert_eq!(rule(&stored).unwrap(), read);
        };
        check("{\"newest\": 3, \"per\": [\"branch\"]}", None);
        check("{\"newest\": 3, \"pull_request_days\": 30}", Some(30));
        assert!(rule("{\"newest\": 3, \"other\": 1}").is_err());
    }
}
