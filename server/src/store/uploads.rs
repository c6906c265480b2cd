//! Uploads: what the client announced, and the result.

use super::jobs::RankOfJob;
use super::rows::{corrupt, int, named, source_name, source_of};
use super::{Reader, StoreError, StoreResult, Writer};
use api::ids::{RunId, UploadId};
use api::problem::Problem;
use api::runs::RunSource;
use rusqlite::{OptionalExtension, Row, params};

/// The state of an upload, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadState {
    /// Its body has not begun.
    Announced,
    /// Under way.
    Running,
    /// It became this run.
    Done(RunId),
    /// It failed.
    Failed(Problem),
    /// The user cancelled it.
    Cancelled,
}

/// An upload as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadRow {
    /// Its id.
    pub id: UploadId,
    /// The file's name.
    pub name: String,
    /// Bytes, when the client said so.
    pub announced: Option<u64>,
    /// What kind of run it becomes.
    pub source: RunSource,
    /// Set while the upload is unfinished but all its bytes are stored.
    pub blob: Option<String>,
    /// Set before all its bytes are put into the blob store under this hash. If a server died, they
    /// may be there or not.
    pub arrived: Option<String>,
    /// How it stands.
    pub state: UploadState,
    /// The rank that its run will be.
    pub in_job: Option<RankOfJob>,
    /// Who sent it, where people sign in.
    pub uploaded_by: Option<String>,
    /// How often a server took it up again after another server had died while reading it.
    pub attempts: u32,
}

impl Reader<'_> {
    /// An upload.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn upload(&self, id: &UploadId) -> StoreResult<UploadRow> {
        let sql = "SELECT * FROM uploads WHERE id = ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let found = statement.query_row([id.as_str()], |row| Ok(upload_of(row)));
        let missing = || StoreError::NotFound {
            what: "upload",
            id: id.to_string(),
        };
        found.optional()?.ok_or_else(missing)?
    }

    /// Uploads that are not finished. Those during which a server died come last.
    pub fn unfinished_uploads(&self) -> StoreResult<Vec<UploadRow>> {
        let sql = "SELECT * FROM uploads WHERE state IN ('announced', 'running') \
                   ORDER BY attempts, created_ms";
        let mut statement = self.tx.prepare(sql)?;
        let rows = statement.query_map([], |row| Ok(upload_of(row)))?;
        rows.map(|row| row?).collect()
    }
}

impl Writer<'_> {
    /// Records an announced upload.
    pub fn insert_upload(
        &mut self,
        id: &UploadId,
        name: &str,
        announced: Option<u64>,
        source: RunSource,
        in_job: Option<&RankOfJob>,
        now_ms: i64,
    ) -> StoreResult<()> {
        self.tx.execute(
            "INSERT INTO uploads (id, name, announced, state, source, created_ms, updated_ms, job, \
             rank) VALUES (?1, ?2, ?3, 'announced', ?4, ?5, ?5, ?6, ?7)",
            params![
                id.as_str(),
                name,
                announced.map(int),
                source_name(source),
                now_ms,
                in_job.map(|place| place.job.as_str()),
                in_job.map(|place| place.rank.0),
            ],
        )?;
        Ok(())
    }

    /// Records who sends an upload.
    pub fn upload_sent_by(&mut self, id: &UploadId, name: Option<&str>) -> StoreResult<()> {
        let sql = "UPDATE uploads SET uploaded_by = ?2 WHERE id = ?1";
        self.tx.execute(sql, params![id.as_str(), name])?;
        Ok(())
    }

    /// Records that all bytes of an upload are about to be put into the blob store.
    pub fn upload_arrived(&mut self, id: &UploadId, hash: &str, now_ms: i64) -> StoreResult<()> {
        self.tx.execute(
            "UPDATE uploads SET arrived = ?2, updated_ms = ?3 WHERE id = ?1",
            params![id.as_str(), hash, now_ms],
        )?;
        Ok(())
    }

    /// Records that all bytes of an upload are in the blob store.
    pub fn upload_stored(&mut self, id: &UploadId, blob: &str, now_ms: i64) -> StoreResult<()> {
        self.tx.execute(
            "UPDATE uploads SET blob = ?2, updated_ms = ?3 WHERE id = ?1",
            params![id.as_str(), blob, now_ms],
        )?;
        Ok(())
    }

    /// Counts that an upload is taken up again.
    pub fn count_attempt(&mut self, id: &UploadId, now_ms: i64) -> StoreResult<()> {
        self.tx.execute(
            "UPDATE uploads SET attempts = attempts + 1, updated_ms = ?2 WHERE id = ?1",
            params![id.as_str(), now_ms],
        )?;
        Ok(())
    }

    /// Fails on each new upload, as on a full disk.
    #[cfg(test)]
    pub fn take_no_uploads(&mut self) -> StoreResult<()> {
        let sql = "CREATE TRIGGER full BEFORE INSERT ON uploads \
                   BEGIN SELECT RAISE(FAIL, 'the disk is full'); END";
        Ok(self.tx.execute_batch(sql)?)
    }

    /// Fails on each upload whose bytes have all arrived, as on a full disk.
    #[cfg(test)]
    pub fn place_no_uploads(&mut self) -> StoreResult<()> {
        let sql = "CREATE TRIGGER full BEFORE UPDATE OF arrived ON uploads \
                   BEGIN SELECT RAISE(FAIL, 'the disk is full'); END";
        Ok(self.tx.execute_batch(sql)?)
    }

    /// Ends [`Writer::take_no_uploads`] and [`Writer::place_no_uploads`].
    #[cfg(test)]
    pub fn take_uploads_again(&mut self) -> StoreResult<()> {
        Ok(self.tx.execute_batch("DROP TRIGGER full")?)
    }

    /// Changes the state of an unfinished upload. A finished upload never changes: that is a
    /// conflict.
    ///
    /// # Errors
    /// [`StoreError::Conflict`].
    pub fn move_upload(
        &mut self,
        id: &UploadId,
        state: &UploadState,
        now_ms: i64,
    ) -> StoreResult<()> {
        let (run, problem) = match state {
            UploadState::Done(run) => (Some(run.as_str()), None),
            UploadState::Failed(problem) => (None, Some(problem_json(problem)?)),
            _ => (None, None),
        };
        // Only an unfinished upload keeps its blob by itself; later the run keeps it.
        let finished = !matches!(state, UploadState::Announced | UploadState::Running);
        let changed = self.tx.execute(
            "UPDATE uploads SET state = ?2, run = ?3, problem = ?4, updated_ms = ?5, \
             blob = CASE WHEN ?6 THEN NULL ELSE blob END \
             WHERE id = ?1 AND state IN ('announced', 'running')",
            params![
                id.as_str(),
                state_name(state),
                run,
                problem,
                now_ms,
                finished
            ],
        )?;
        if changed == 1 {
            Ok(())
        } else {
            Err(StoreError::Conflict(format!("{id} is finished")))
        }
    }

    /// Deletes finished uploads that have not changed since `before_ms`, and announced uploads
    /// whose body never came.
    pub fn forget_uploads(&mut self, before_ms: i64) -> StoreResult<usize> {
        let sql = "DELETE FROM uploads WHERE state <> 'running' AND updated_ms < ?1";
        Ok(self.tx.execute(sql, [before_ms])?)
    }
}

const STATES: [&str; 5] = ["announced", "running", "done", "failed", "cancelled"];

fn state_name(state: &UploadState) -> &'static str {
    match state {
        UploadState::Announced => "announced",
        UploadState::Running => "running",
        UploadState::Done(_) => "done",
        UploadState::Failed(_) => "failed",
        UploadState::Cancelled => "cancelled",
    }
}

fn upload_of(row: &Row) -> StoreResult<UploadRow> {
    let id: String = row.get("id")?;
    let state: String = row.get("state")?;
    Ok(UploadRow {
        name: row.get("name")?,
        announced: row
            .get::<_, Option<i64>>("announced")?
            .map(|n| n.max(0) as u64),
        source: source_of(&row.get::<_, String>("source")?)?,
        blob: row.get("blob")?,
        arrived: row.get("arrived")?,
        in_job: RankOfJob::of(row)?,
        uploaded_by: row.get("uploaded_by")?,
        attempts: row.get("attempts")?,
        state: match named("upload state", &state, STATES, |name| name)? {
            "announced" => UploadState::Announced,
            "running" => UploadState::Running,
            "done" => UploadState::Done(run_of(row)?),
            "failed" => UploadState::Failed(problem_of(row)?),
            _ => UploadState::Cancelled,
        },
        id: id.parse().map_err(|_| corrupt("upload id", &id))?,
    })
}

fn run_of(row: &Row) -> StoreResult<RunId> {
    let run: String = row.get("run")?;
    run.parse().map_err(|_| corrupt("run id", &run))
}

fn problem_of(row: &Row) -> StoreResult<Problem> {
    let problem: String = row.get("problem")?;
    serde_json::from_str(&problem).map_err(|_| corrupt("problem", &problem))
}

fn problem_json(problem: &Problem) -> StoreResult<String> {
    serde_json::to_string(problem).map_err(|_| corrupt("problem", &problem.detail))
}
