//! Reads from a damaged database what cannot be derived from the blobs again.
//!
//! That is: names, sources, dates, senders, deletions and labels of runs, jobs with their ranks and
//! keys, recorded comparisons, people with their tokens, projects with their members, and links.
//! What cannot be read is left out: such a run gets the name of its blob, and such a link no longer
//! opens.

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
use rusqlite::params;
use std::path::Path;
use std::str::FromStr;
use trace::ranks::Rank;

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
    /// Runs, each with the name of whoever sent it.
    pub senders: Vec<(RunId, String)>,
    /// Labels, each with its run.
    pub labels: Vec<(RunId, Label)>,
    /// Comparisons that were recorded: their runs stay when old ones are deleted.
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
}

impl Salvaged {
    /// Reads what can be read of the database at `path`.
    pub fn of(path: &Path) -> Salvaged {
        let connection = schema::connect(path, Opening::ReadOnly)
            .or_else(|_| schema::connect(path, Opening::Immutable));
        let Ok(connection) = connection else {
            let people = unread_people(path);
            return Salvaged {
                people,
                ..Salvaged::default()
            };
        };
        let reader = Reader { tx: &connection };
        Salvaged {
            runs: reader.remembered(),
            ranks: reader.remembered_ranks().unwrap_or_default(),
            keys: reader.remembered_keys().unwrap_or_default(),
            job_notes: reader.remembered_notes().unwrap_or_default(),
            senders: reader.remembered_senders().unwrap_or_default(),
            labels: reader.remembered_labels().unwrap_or_default(),
            comparisons: reader.readable_comparisons().unwrap_or_default(),
            own_categories: reader.own_categories().unwrap_or_default(),
            views: reader.views().unwrap_or_default(),
            people: reader.people().unwrap_or_else(|_| unread_people(path)),
            tokens: reader.tokens().unwrap_or_default(),
            identities: reader.identities().unwrap_or_default(),
            shares: reader.all_shares().unwrap_or_default(),
            projects: reader.projects().unwrap_or_default(),
            members: reader.members().unwrap_or_default(),
            latest_ms: reader.database().ok().flatten().map_or(0, |(_, ms)| ms),
        }
    }
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
        self.texts_by_id("SELECT id, key FROM jobs WHERE key IS NOT NULL")
    }

    /// Notes too.
    fn remembered_notes(&self) -> StoreResult<Vec<(JobId, String)>> {
        self.texts_by_id("SELECT id, notes FROM jobs WHERE notes IS NOT NULL")
    }

    /// Senders are read separately too, for the same reason.
    fn remembered_senders(&self) -> StoreResult<Vec<(RunId, String)>> {
        self.texts_by_id("SELECT id, uploaded_by FROM runs WHERE uploaded_by IS NOT NULL")
    }

    /// The rows of two columns, an id and a text, up to the first that cannot be read.
    fn texts_by_id<Id: FromStr>(&self, sql: &str) -> StoreResult<Vec<(Id, String)>> {
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
