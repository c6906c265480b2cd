//! Reads from a damaged database what cannot be derived from the blobs again.
//!
//! That is: names, sources, dates, senders, deletions and labels of runs, jobs with their ranks,
//! keys and deletions, recorded comparisons, people with their tokens, projects with their members,
//! links, and names of files in quarantine. These are read here. Benches, tensors, live trainings
//! and the audit are carried over as they are (`carry`). What cannot be read is left out: such a
//! run gets the name of its blob, and such a link no longer opens. Each table is counted
//! ([`Rescued`]).

mod carry;
mod scan;
#[cfg(test)]
mod tests;

use super::jobs::RankOfJob;
use super::rows::{source_name, source_of};
use super::schema::{self, Opening};
use super::{IdentityRow, MemberRow, ProjectRow, Reader, ShareRow, StoreResult, TokenRow, Writer};
use crate::identity;
use crate::system::clock::now_ms;
use crate::system::data_folder::HAS_PEOPLE;
use api::compare::RecordedComparison;
use api::ids::{JobId, RunId};
use api::labels::Label;
use api::people::{Person, Role};
use api::runs::RunSource;
use api::views::View;
use rusqlite::types::FromSql;
use rusqlite::{Connection, params};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use trace::ranks::Rank;

/// The tables that are read into [`Salvaged`], each with the words for one row and for several.
const READ: [(&str, [&str; 2]); 17] = [
    ("runs", ["name of a run", "names of runs"]),
    ("labels", ["label", "labels"]),
    ("jobs", ["job", "jobs"]),
    ("job_ranks", ["rank of a job", "ranks of jobs"]),
    (
        "comparisons",
        ["recorded comparison", "recorded comparisons"],
    ),
    (
        "comparison_runs",
        ["run of a comparison", "runs of comparisons"],
    ),
    (
        "own_categories",
        ["list of own categories", "lists of own categories"],
    ),
    ("views", ["saved view", "saved views"]),
    ("people", ["person", "people"]),
    ("tokens", ["token", "tokens"]),
    (
        "identities",
        ["identity at a provider", "identities at providers"],
    ),
    ("shares", ["link", "links"]),
    ("share_runs", ["run of a link", "runs of links"]),
    ("projects", ["project", "projects"]),
    (
        "project_members",
        ["member of a project", "members of projects"],
    ),
    ("quarantine", ["name of a file", "names of files"]),
    ("database", ["latest time seen", "latest times seen"]),
];

/// What became of a table of the damaged database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rescued {
    /// Its name.
    pub table: &'static str,
    /// What one row is, and several.
    #[serde(skip)]
    pub words: [&'static str; 2],
    /// Rows that were kept: those that could be read and understood.
    pub kept: u64,
    /// Rows that were met and not kept: they hold what this program never writes, or belong to
    /// something that could not be kept.
    pub left_out: u64,
    /// Places where it could not be read. Nobody knows how many rows were there.
    pub breaks: u64,
}

/// Facts about a run that are not in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Which run.
    pub id: RunId,
    /// Its name.
    pub name: String,
    /// Where it came from.
    pub source: RunSource,
    /// When the run was made.
    pub created_ms: i64,
    /// Set while its deletion can be undone.
    pub deleted_ms: Option<i64>,
}

/// A rank of a job that a person put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedRank {
    /// Which job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created_ms: i64,
    /// The rank.
    pub rank: Rank,
    /// Its run.
    pub run: RunId,
}

/// What could be read.
#[derive(Clone, Debug, Default)]
pub struct Salvaged {
    /// Runs.
    pub runs: Vec<Remembered>,
    /// Ranks of jobs.
    pub ranks: Vec<RememberedRank>,
    /// Keys of jobs: a push finds its job by such a key.
    pub keys: Vec<(JobId, String)>,
    /// What was said of jobs when they were made, as it is stored.
    pub job_notes: Vec<(JobId, String)>,
    /// Jobs whose deletion can be undone, each with when it was deleted.
    pub deleted_jobs: Vec<(JobId, i64)>,
    /// Runs, each with the name of whoever sent it.
    pub senders: Vec<(RunId, String)>,
    /// Labels, each with its run.
    pub labels: Vec<(RunId, Label)>,
    /// Comparisons that were recorded: the runs of those of a pull request stay when old ones are
    /// deleted.
    pub comparisons: Vec<RecordedComparison>,
    /// The rules for the team's own categories.
    pub own_categories: String,
    /// Saved views.
    pub views: Vec<View>,
    /// People.
    pub people: Vec<Person>,
    /// Their tokens.
    pub tokens: Vec<TokenRow>,
    /// Who they are for providers of OpenID Connect.
    pub identities: Vec<IdentityRow>,
    /// Links.
    pub shares: Vec<ShareRow>,
    /// Projects, and who may enter them.
    pub projects: Vec<ProjectRow>,
    /// Their members.
    pub members: Vec<MemberRow>,
    /// The latest time seen.
    pub latest_ms: i64,
    /// Files in quarantine by their hash, each with the name that it came with.
    pub file_names: Vec<(String, String)>,
    /// What became of the tables that all this was read from.
    pub tables: Vec<Rescued>,
    /// The damaged database, of which other tables are carried over ([`Writer::carry_over`]).
    pub database: PathBuf,
}

impl Salvaged {
    /// Reads what can be read of the database at `path`.
    pub fn of(path: &Path) -> Salvaged {
        let connection = opened(path);
        let mut salvaged = match &connection {
            Some(connection) => Salvaged::read(&Reader { tx: connection }),
            None => Salvaged::default(),
        };
        salvaged.tables = salvaged.rescued(connection.as_ref());
        salvaged.database = path.to_owned();
        let knows_people = |tx| Reader { tx }.people().is_ok();
        if !connection.as_ref().is_some_and(knows_people) {
            salvaged.people = unread_people(path);
        }
        salvaged
    }

    fn read(reader: &Reader<'_>) -> Salvaged {
        Salvaged {
            runs: reader.remembered(),
            ranks: reader.remembered_ranks().unwrap_or_default(),
            keys: reader.remembered_keys().unwrap_or_default(),
            job_notes: reader.remembered_notes().unwrap_or_default(),
            deleted_jobs: reader.remembered_deletions().unwrap_or_default(),
            senders: reader.remembered_senders().unwrap_or_default(),
            labels: reader.remembered_labels().unwrap_or_default(),
            comparisons: reader.readable_comparisons().unwrap_or_default(),
            own_categories: reader.own_categories().unwrap_or_default(),
            views: reader.views().unwrap_or_default(),
            people: reader.people().unwrap_or_default(),
            tokens: reader.tokens().unwrap_or_default(),
            identities: reader.identities().unwrap_or_default(),
            shares: reader.all_shares().unwrap_or_default(),
            projects: reader.projects().unwrap_or_default(),
            members: reader.members().unwrap_or_default(),
            latest_ms: reader.database().ok().flatten().map_or(0, |(_, ms)| ms),
            file_names: reader.remembered_file_names().unwrap_or_default(),
            ..Salvaged::default()
        }
    }

    /// Compares what was read of each table with the rows that it has.
    fn rescued(&self, connection: Option<&Connection>) -> Vec<Rescued> {
        let read = |table: &str| {
            Some(match table {
                "runs" => self.runs.len(),
                "labels" => self.labels.len(),
                "jobs" => self
                    .ranks
                    .iter()
                    .map(|rank| &rank.job)
                    .collect::<BTreeSet<_>>()
                    .len(),
                "job_ranks" => self.ranks.len(),
                "comparisons" => self.comparisons.len(),
                "comparison_runs" => self.comparisons.iter().map(|one| one.runs.len()).sum(),
                "views" => self.views.len(),
                "people" => self.people.len(),
                "tokens" => self.tokens.len(),
                "identities" => self.identities.len(),
                "shares" => self.shares.len(),
                "share_runs" => self
                    .shares
                    .iter()
                    .map(|row| row.share.target.runs().len())
                    .sum(),
                "projects" => self.projects.len(),
                "project_members" => self.members.len(),
                "quarantine" => self.file_names.len(),
                // Tables of one row.
                _ => return None,
            })
        };
        let of_table = |&(table, words): &(&'static str, [&'static str; 2])| {
            let (rows, breaks) = connection.map_or((0, 1), |old| scan::count(old, table));
            let kept = read(table).map_or(rows, |n| n as u64);
            Rescued {
                table,
                words,
                kept,
                left_out: rows.saturating_sub(kept),
                breaks,
            }
        };
        READ.iter().map(of_table).collect()
    }
}

/// The damaged database, if that can be opened at all.
fn opened(path: &Path) -> Option<Connection> {
    let connection = schema::connect(path, Opening::ReadOnly)
        .or_else(|_| schema::connect(path, Opening::Immutable));
    connection.ok()
}

/// People, when the table of people cannot be read. If there were any, one admin without tokens
/// stands for them. Without that, a server that asked everybody to sign in would now let everybody
/// in.
fn unread_people(database: &Path) -> Vec<Person> {
    let admin = Person {
        id: identity::person_id(),
        name: "admin".to_owned(),
        role: Role::Admin,
        created_ms: now_ms(),
        left_ms: None,
    };
    let were_there = database.with_file_name(HAS_PEOPLE).exists();
    were_there.then_some(admin).into_iter().collect()
}

impl Reader<'_> {
    fn remembered(&self) -> Vec<Remembered> {
        let sql = "SELECT id, name, source, created_ms, deleted_ms FROM runs";
        let mut found = Vec::new();
        let Ok(mut statement) = self.tx.prepare(sql) else {
            return found;
        };
        let Ok(mut rows) = statement.query([]) else {
            return found;
        };
        while let Ok(Some(row)) = rows.next() {
            let read = || {
                Some(Remembered {
                    id: row.get::<_, String>(0).ok()?.parse().ok()?,
                    name: row.get(1).ok()?,
                    source: source_of(&row.get::<_, String>(2).ok()?).ok()?,
                    created_ms: row.get(3).ok()?,
                    deleted_ms: row.get(4).ok()?,
                })
            };
            found.extend(read());
        }
        found
    }

    fn remembered_ranks(&self) -> StoreResult<Vec<RememberedRank>> {
        let sql = "SELECT jobs.id, jobs.name, jobs.created_ms, r.rank, r.run \
                   FROM job_ranks r JOIN jobs ON jobs.id = r.job";
        let mut statement = self.tx.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Ok(Some(row)) = rows.next() {
            let read = || {
                Some(RememberedRank {
                    job: row.get::<_, String>(0).ok()?.parse().ok()?,
                    name: row.get(1).ok()?,
                    created_ms: row.get(2).ok()?,
                    rank: Rank(row.get(3).ok()?),
                    run: row.get::<_, String>(4).ok()?.parse().ok()?,
                })
            };
            found.extend(read());
        }
        Ok(found)
    }

    /// Keys are read separately from the ranks, because databases of older versions have no keys.
    fn remembered_keys(&self) -> StoreResult<Vec<(JobId, String)>> {
        self.values_by_id("SELECT id, key FROM jobs WHERE key IS NOT NULL")
    }

    /// Notes too.
    fn remembered_notes(&self) -> StoreResult<Vec<(JobId, String)>> {
        self.values_by_id("SELECT id, notes FROM jobs WHERE notes IS NOT NULL")
    }

    /// And deletions of jobs.
    fn remembered_deletions(&self) -> StoreResult<Vec<(JobId, i64)>> {
        self.values_by_id("SELECT id, deleted_ms FROM jobs WHERE deleted_ms IS NOT NULL")
    }

    /// Names of files that did not become runs.
    fn remembered_file_names(&self) -> StoreResult<Vec<(String, String)>> {
        self.values_by_id("SELECT hash, name FROM quarantine")
    }

    /// Senders are read separately too, for the same reason.
    fn remembered_senders(&self) -> StoreResult<Vec<(RunId, String)>> {
        self.values_by_id("SELECT id, uploaded_by FROM runs WHERE uploaded_by IS NOT NULL")
    }

    /// The rows of two columns, an id and a value, up to the first that cannot be read.
    fn values_by_id<Id: FromStr, V: FromSql>(&self, sql: &str) -> StoreResult<Vec<(Id, V)>> {
        let mut statement = self.tx.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Ok(Some(row)) = rows.next() {
            let read = || {
                let id: String = row.get(0).ok()?;
                Some((id.parse().ok()?, row.get(1).ok()?))
            };
            found.extend(read());
        }
        Ok(found)
    }

    fn remembered_labels(&self) -> StoreResult<Vec<(RunId, Label)>> {
        let mut statement = self.tx.prepare("SELECT run, key, value FROM labels")?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Ok(Some(row)) = rows.next() {
            let read = || {
                let [run, key, value]: [String; 3] =
                    [row.get(0).ok()?, row.get(1).ok()?, row.get(2).ok()?];
                Some((run.parse().ok()?, Label::new(&key, &value).ok()?))
            };
            found.extend(read());
        }
        Ok(found)
    }
}

impl Writer<'_> {
    /// Lets a job be found by its key again.
    pub fn remember_key(&mut self, job: &JobId, key: &str) -> StoreResult<()> {
        let sql = "UPDATE OR IGNORE jobs SET key = ?2 WHERE id = ?1";
        self.tx.execute(sql, params![job.as_str(), key])?;
        Ok(())
    }

    /// Says again of a job what no rank tells.
    pub fn remember_notes(&mut self, job: &JobId, notes: &str) -> StoreResult<()> {
        let sql = "UPDATE jobs SET notes = ?2 WHERE id = ?1";
        self.tx.execute(sql, [job.as_str(), notes])?;
        Ok(())
    }

    /// Gives a file that was in quarantine the name that it came with, whether it is a run now or
    /// in quarantine again.
    pub fn remember_file_name(&mut self, hash: &str, name: &str) -> StoreResult<()> {
        for sql in [
            "UPDATE quarantine SET name = ?2 WHERE hash = ?1",
            "UPDATE runs SET name = ?2 WHERE blob = ?1",
        ] {
            self.tx.execute(sql, [hash, name])?;
        }
        Ok(())
    }

    /// Says again who sent a run that was derived again.
    pub fn remember_sender(&mut self, run: &RunId, name: &str) -> StoreResult<()> {
        let sql = "UPDATE runs SET uploaded_by = ?2 WHERE id = ?1";
        self.tx.execute(sql, [run.as_str(), name])?;
        Ok(())
    }

    /// Puts a label back on a run that was derived again.
    pub fn remember_label(&mut self, run: &RunId, label: &Label) -> StoreResult<()> {
        self.tx.execute(
            "INSERT OR IGNORE INTO labels (run, key, value) \
             SELECT id, ?2, ?3 FROM runs WHERE id = ?1",
            params![run.as_str(), label.key, label.value],
        )?;
        Ok(())
    }

    /// Gives a run that was derived again its old name, source and dates.
    pub fn remember_run(&mut self, run: &Remembered) -> StoreResult<()> {
        self.tx.execute(
            "UPDATE runs SET name = ?2, created_ms = ?3, deleted_ms = ?4, source = ?5 \
             WHERE id = ?1",
            params![
                run.id.as_str(),
                run.name,
                run.created_ms,
                run.deleted_ms,
                source_name(run.source)
            ],
        )?;
        Ok(())
    }

    /// Hides a job again whose deletion can be undone. Call this between its ranks and those of
    /// jobs that are not deleted: no job is the same as one that is.
    pub fn remember_deletion(&mut self, job: &JobId, deleted_ms: i64) -> StoreResult<()> {
        let sql = "UPDATE jobs SET deleted_ms = ?2 WHERE id = ?1";
        self.tx.execute(sql, params![job.as_str(), deleted_ms])?;
        Ok(())
    }

    /// Makes a run that was derived again the same rank as before.
    pub fn remember_rank(&mut self, rank: &RememberedRank) -> StoreResult<()> {
        if !self.reader().has_run(&rank.run)? {
            return Ok(());
        }
        self.tx.execute(
            "INSERT OR IGNORE INTO jobs (id, name, created_ms) VALUES (?1, ?2, ?3)",
            params![rank.job.as_str(), rank.name, rank.created_ms],
        )?;
        let place = RankOfJob {
            job: rank.job.clone(),
            rank: rank.rank,
        };
        self.join_job(&place, &rank.run)
    }

    /// Puts a link back unchanged, revoked or not.
    pub fn restore_share(&mut self, row: &ShareRow) -> StoreResult<()> {
        self.insert_share(row)?;
        let (share, sql) = (
            &row.share,
            "UPDATE shares SET revoked_ms = ?2, revoked_by = ?3, last_opened_ms = ?4 WHERE id = ?1",
        );
        self.tx.execute(
            sql,
            params![
                share.id.as_str(),
                share.revoked_ms,
                share.revoked_by,
                share.last_opened_ms
            ],
        )?;
        Ok(())
    }
}
