//! Jobs: which runs are the ranks of one program, and the profile of each rank.

use super::rows::{Slice, corrupt};
use super::runs::Selected;
use super::{Reader, StoreError, StoreResult, Writer};
use api::ids::{JobId, RunId};
use api::jobs::{JobNotes, JobSummary, RunOfJob};
use api::quality::NOT_RECORDED;
use rusqlite::{OptionalExtension, Row, named_params, params};
use std::collections::HashMap;
use trace::device::DeviceIdx;
use trace::ranks::Rank;
use trace::units::Bytes;

/// Which rank of which job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankOfJob {
    /// The job.
    pub job: JobId,
    /// The rank.
    pub rank: Rank,
}

impl RankOfJob {
    /// From the columns `job` and `rank`.
    pub(super) fn of(row: &Row) -> StoreResult<Option<RankOfJob>> {
        let job: Option<String> = row.get("job")?;
        let rank: Option<u32> = row.get("rank")?;
        let (Some(job), Some(rank)) = (job, rank) else {
            return Ok(None);
        };
        Ok(Some(RankOfJob {
            job: job_id(job)?,
            rank: Rank(rank),
        }))
    }
}

/// A rank of a job and its run, which is not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankRun {
    /// The rank.
    pub rank: Rank,
    /// Its run.
    pub run: RunId,
    /// The run's name.
    pub name: String,
    /// The run's trace.
    pub trace: i64,
    /// Whether its profile of the wanted version is stored.
    pub is_profiled: bool,
}

/// A job, and what its ranks have come to. Ranks whose runs are deleted do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    /// The job.
    pub job: JobSummary,
    /// Ranks that leak on any of their devices.
    pub leaking: u32,
    /// Ranks that ran out of memory.
    pub out_of_memory: u32,
    /// Ranks of which a part was not recorded ([`NOT_RECORDED`]).
    pub not_whole: u32,
    /// The lowest and the highest peak of *allocated* that a rank has; none without ranks.
    pub peaks: Option<(Bytes, Bytes)>,
}

/// Jobs that a project may have.
const MOST: u32 = 100_000;

/// Jobs with the number of their ranks whose runs are not deleted.
const SUMMARIES: &str = "SELECT jobs.id, jobs.name, jobs.created_ms, \
     (SELECT count(*) FROM job_ranks j JOIN runs ON runs.id = j.run \
      WHERE j.job = jobs.id AND runs.deleted_ms IS NULL) AS n_ranks FROM jobs";

/// Which jobs are listed: not those that are deleted or the same as an earlier one, not those whose
/// runs are all deleted, and not those of which nothing came, because all that was sent into them
/// was cancelled or failed. The latter two are kept for a while, for whoever restores a run or
/// sends the ranks again.
const LISTED: &str = "same_as IS NULL AND deleted_ms IS NULL \
     AND (EXISTS (SELECT 1 FROM job_ranks j JOIN runs ON runs.id = j.run \
         WHERE j.job = jobs.id AND runs.deleted_ms IS NULL) \
       OR EXISTS (SELECT 1 FROM uploads WHERE uploads.job = jobs.id \
         AND state IN ('announced', 'running')) \
       OR NOT EXISTS (SELECT 1 FROM job_ranks j WHERE j.job = jobs.id) \
         AND NOT EXISTS (SELECT 1 FROM uploads WHERE uploads.job = jobs.id \
           AND state IN ('cancelled', 'failed')))";

impl Reader<'_> {
    /// Jobs, newest first, without those that are deleted, as such or with all their runs, those
    /// that are the same as an earlier one, and those of which nothing came.
    pub fn jobs(&self, Slice { offset, limit }: Slice) -> StoreResult<Vec<JobSummary>> {
        let sql =
            format!("{SUMMARIES} WHERE {LISTED} ORDER BY created_ms DESC, id LIMIT ?1 OFFSET ?2");
        let mut statement = self.tx.prepare_cached(&sql)?;
        let rows = statement.query_map(params![limit, offset], |row| Ok(summary_of(row)))?;
        rows.map(|row| row?).collect()
    }

    /// Jobs with what their ranks have come to, in the order of [`Reader::jobs`].
    pub fn job_rows(&self, Slice { offset, limit }: Slice) -> StoreResult<Vec<JobRow>> {
        let sql = format!(
            "WITH listed AS (SELECT * FROM jobs WHERE {LISTED} \
                     ORDER BY created_ms DESC, id LIMIT ?1 OFFSET ?2), \
                   ranks AS (SELECT j.job, \
                     (SELECT max(peak_bytes) FROM series s \
                      WHERE s.run = j.run AND s.device <> ?3 AND s.series = 'allocated') AS peak, \
                     EXISTS (SELECT 1 FROM leak_reports l \
                      WHERE l.run = j.run AND l.device <> ?3 AND l.verdict = 'leak') AS leaks, \
                     EXISTS (SELECT 1 FROM ooms o WHERE o.run = j.run) AS failed, \
                     EXISTS (SELECT 1 FROM quality q WHERE q.run = j.run AND \
                       q.code IN (SELECT value FROM json_each(?4))) AS cut \
                     FROM job_ranks j JOIN runs ON runs.id = j.run \
                     WHERE runs.deleted_ms IS NULL AND j.job IN (SELECT id FROM listed)) \
                   SELECT listed.id, listed.name, listed.created_ms, \
                     count(ranks.job) AS n_ranks, total(ranks.leaks) AS leaking, \
                     total(ranks.failed) AS out_of_memory, total(ranks.cut) AS not_whole, \
                     min(ranks.peak) AS lowest, max(ranks.peak) AS highest \
                   FROM listed LEFT JOIN ranks ON ranks.job = listed.id \
                   GROUP BY listed.id ORDER BY listed.created_ms DESC, listed.id"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let parts = format!(
            "[{}]",
            NOT_RECORDED.map(|code| format!("\"{code}\"")).join(",")
        );
        let mut rows = statement.query(params![limit, offset, DeviceIdx::PINNED.0, parts])?;
        let mut jobs = Vec::new();
        while let Some(row) = rows.next()? {
            let peak = |name| -> StoreResult<Option<Bytes>> {
                let found: Option<i64> = row.get(name)?;
                Ok(found.map(|bytes| Bytes(bytes.max(0) as u64)))
            };
            // `total` is a floating-point number, of small counts.
            let count = |name| -> StoreResult<u32> { Ok(row.get::<_, f64>(name)? as u32) };
            jobs.push(JobRow {
                job: summary_of(row)?,
                leaking: count("leaking")?,
                out_of_memory: count("out_of_memory")?,
                not_whole: count("not_whole")?,
                peaks: peak("lowest")?.zip(peak("highest")?),
            });
        }
        Ok(jobs)
    }

    /// One job that is not deleted; of two that are the same, the earlier, whichever is asked for.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn job(&self, id: &JobId) -> StoreResult<JobSummary> {
        let sql = format!(
            "{SUMMARIES} WHERE jobs.id = coalesce((SELECT same_as FROM jobs WHERE id = ?1), ?1) \
             AND jobs.deleted_ms IS NULL"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let found = statement.query_row([id.as_str()], |row| Ok(summary_of(row)));
        found.optional()?.ok_or_else(|| missing(id))?
    }

    /// What was said of a job when it was made.
    pub fn job_notes(&self, id: &JobId) -> StoreResult<JobNotes> {
        let mut statement = self
            .tx
            .prepare_cached("SELECT notes FROM jobs WHERE id = ?1")?;
        let found = statement.query_row([id.as_str()], |row| row.get::<_, Option<String>>(0));
        let notes = found.optional()?.flatten();
        let Some(text) = notes else {
            return Ok(JobNotes::default());
        };
        serde_json::from_str(&text).map_err(|_| corrupt("notes", &text))
    }

    /// The job that was made with a key, even if it is the same as an earlier one for now: a rank
    /// that is still to come may tell them apart.
    pub fn job_by_key(&self, key: &str) -> StoreResult<Option<JobSummary>> {
        let sql = format!("{SUMMARIES} WHERE jobs.key = ?1 AND jobs.deleted_ms IS NULL");
        let mut statement = self.tx.prepare_cached(&sql)?;
        let found = statement.query_row([key], |row| Ok(summary_of(row)));
        found.optional()?.transpose()
    }

    /// The ranks of a job in order, without those whose runs are deleted. `version` is the version
    /// of the profiles that the caller can use.
    pub fn ranks_of(&self, id: &JobId, version: u32) -> StoreResult<Vec<RankRun>> {
        let sql = "SELECT j.rank, j.run, runs.name, runs.trace, \
                   EXISTS (SELECT 1 FROM rank_profiles p WHERE p.run = j.run AND p.version = ?2) \
                   AS is_profiled FROM job_ranks j JOIN runs ON runs.id = j.run \
                   WHERE j.job = ?1 AND runs.deleted_ms IS NULL ORDER BY j.rank";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query(params![id.as_str(), version])?;
        let mut ranks = Vec::new();
        while let Some(row) = rows.next()? {
            ranks.push(RankRun {
                rank: Rank(row.get("rank")?),
                run: run_id(row.get("run")?)?,
                name: row.get("name")?,
                trace: row.get("trace")?,
                is_profiled: row.get("is_profiled")?,
            });
        }
        Ok(ranks)
    }

    /// The packed profile of a rank.
    pub fn rank_profile(&self, run: &RunId, version: u32) -> StoreResult<Option<Vec<u8>>> {
        let sql = "SELECT profile FROM rank_profiles WHERE run = ?1 AND version = ?2";
        let mut statement = self.tx.prepare_cached(sql)?;
        let found = statement.query_row(params![run.as_str(), version], |row| row.get(0));
        Ok(found.optional()?)
    }

    /// For runs that meet a condition: the job and rank of each. Of several jobs it is the newest,
    /// which names the others, and of several ranks with equal recordings the lowest.
    pub(super) fn jobs_where(
        &self,
        selected: Selected<'_>,
    ) -> StoreResult<HashMap<String, RunOfJob>> {
        let Selected { condition, .. } = selected;
        let sql = format!(
            "SELECT j.run, j.job, jobs.name, j.rank FROM job_ranks j JOIN jobs ON jobs.id = j.job \
             WHERE jobs.same_as IS NULL AND jobs.deleted_ms IS NULL \
             AND j.run IN (SELECT id FROM runs WHERE {condition}) \
             ORDER BY jobs.created_ms, jobs.id, j.rank DESC"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":wanted": selected.wanted })?;
        let mut found: HashMap<String, RunOfJob> = HashMap::new();
        while let Some(row) = rows.next()? {
            let run: String = row.get("run")?;
            let job = job_id(row.get("job")?)?;
            // The newest job comes last.
            let before = found.remove(&run);
            let older = match before {
                Some(before) if before.job == job => before.older,
                Some(before) => {
                    let older = std::iter::once(before.job).chain(before.older);
                    older.take(RunOfJob::MOST_OLDER).collect()
                }
                None => Vec::new(),
            };
            let place = RunOfJob {
                job,
                name: row.get("name")?,
                rank: Rank(row.get("rank")?),
                older,
            };
            found.insert(run, place);
        }
        Ok(found)
    }
}

impl Writer<'_> {
    /// Says of a job what no rank tells.
    pub fn put_job_notes(&mut self, id: &JobId, notes: &JobNotes) -> StoreResult<()> {
        let sql = "UPDATE jobs SET notes = ?2 WHERE id = ?1";
        let told = serde_json::to_string(notes).expect("notes are plain data");
        let notes = (!notes.is_empty()).then_some(told);
        self.tx.execute(sql, params![id.as_str(), notes])?;
        Ok(())
    }

    /// Makes a job without ranks. If it has a `key`, later pushes find it by that, and no longer a
    /// deleted job that had it.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when there are too many.
    pub fn insert_job(
        &mut self,
        id: &JobId,
        name: &str,
        key: Option<&str>,
        now_ms: i64,
    ) -> StoreResult<()> {
        let sql = "UPDATE jobs SET key = NULL WHERE key = ?1 AND deleted_ms IS NOT NULL";
        self.tx.execute(sql, [key])?;
        let sql = "INSERT INTO jobs (id, name, key, created_ms) VALUES (?1, ?2, ?3, ?4)";
        self.tx
            .execute(sql, params![id.as_str(), name, key, now_ms])?;
        let sql = "SELECT count(*) FROM jobs";
        let count: u32 = self.tx.query_row(sql, [], |row| row.get(0))?;
        match count <= MOST {
            true => Ok(()),
            false => Err(StoreError::Conflict(format!(
                "there are {MOST} jobs already: delete some that nobody needs"
            ))),
        }
    }

    /// Makes a run a rank of a job. It replaces the run that was this rank before, and stays in its
    /// other jobs: a push never changes what another job shows. It also stays the other ranks of
    /// this job that it is: ranks whose recordings are the same bytes are one run. If the job does
    /// not exist or is deleted, the run stays alone.
    pub fn join_job(&mut self, place: &RankOfJob, run: &RunId) -> StoreResult<()> {
        let RankOfJob { job, rank } = place;
        let sql = "SELECT EXISTS (SELECT 1 FROM jobs WHERE id = ?1 AND deleted_ms IS NULL)";
        if !self.tx.query_row(sql, [job.as_str()], |row| row.get(0))? {
            return Ok(());
        }
        let sql = "INSERT OR REPLACE INTO job_ranks (job, rank, run) VALUES (?1, ?2, ?3)";
        self.tx
            .execute(sql, params![job.as_str(), rank.0, run.as_str()])?;
        self.find_same_jobs(job, run)
    }

    /// Finds out again which jobs are the same as an earlier one, after `run` became a rank of
    /// `job`. A job is the same if the earlier one has all of its ranks, recording for recording,
    /// and is not deleted.
    ///
    /// Others than these cannot have changed: the jobs of that run, which may be part of `job` now,
    /// and the jobs that were the same as `job`, which may have lost a rank that they share.
    fn find_same_jobs(&mut self, job: &JobId, run: &RunId) -> StoreResult<()> {
        const CHANGED: &str = "(SELECT job FROM job_ranks WHERE run = ?2 \
             UNION SELECT id FROM jobs WHERE same_as = ?1)";
        let sql = format!("SELECT id FROM jobs WHERE id IN {CHANGED}");
        let mut statement = self.tx.prepare_cached(&sql)?;
        let rows = statement.query_map([job.as_str(), run.as_str()], |row| row.get(0))?;
        let changed: Vec<String> = rows.collect::<Result<_, _>>()?;
        // The earliest job that has all ranks is never itself the same as another one, or it would
        // not be the earliest. So those that are being looked at may all count as themselves.
        for id in &changed {
            let sql = "UPDATE jobs SET same_as = NULL WHERE id = ?1";
            self.tx.prepare_cached(sql)?.execute([id])?;
        }
        let sql = "UPDATE jobs SET same_as = (SELECT earlier.id FROM jobs earlier \
             WHERE earlier.same_as IS NULL AND earlier.deleted_ms IS NULL \
             AND (earlier.created_ms, earlier.id) < (jobs.created_ms, jobs.id) \
             AND earlier.id IN (SELECT job FROM job_ranks WHERE run = \
               (SELECT run FROM job_ranks WHERE job = jobs.id LIMIT 1)) \
             AND NOT EXISTS (SELECT 1 FROM job_ranks mine WHERE mine.job = jobs.id \
               AND NOT EXISTS (SELECT 1 FROM job_ranks its WHERE its.job = earlier.id \
                 AND its.rank = mine.rank AND its.run = mine.run)) \
             ORDER BY earlier.created_ms, earlier.id LIMIT 1) WHERE id = ?1";
        for id in &changed {
            self.tx.prepare_cached(sql)?.execute([id])?;
        }
        Ok(())
    }

    /// Hides a job, and those that are the same. [`Writer::restore_jobs_of`] undoes that, until the
    /// job is removed for good.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn delete_job(&mut self, id: &JobId, now_ms: i64) -> StoreResult<()> {
        let sql = "UPDATE jobs SET deleted_ms = ?2 WHERE id = ?1 OR same_as = ?1";
        match self.tx.execute(sql, params![id.as_str(), now_ms])? {
            0 => Err(missing(id)),
            _ => Ok(()),
        }
    }

    /// Shows the hidden jobs of a run again, and those that are the same.
    pub fn restore_jobs_of(&mut self, run: &RunId) -> StoreResult<()> {
        const ITS: &str = "(SELECT job FROM job_ranks WHERE run = ?1)";
        let sql = format!(
            "UPDATE jobs SET deleted_ms = NULL WHERE deleted_ms IS NOT NULL \
             AND (id IN {ITS} OR same_as IN {ITS})"
        );
        self.tx.execute(&sql, [run.as_str()])?;
        Ok(())
    }

    /// Removes for good the jobs that were deleted before `before_ms`, and those whose runs all
    /// were: call this before [`Writer::purge_runs`]. Jobs into which ranks may still come stay, as
    /// in [`Writer::forget_empty_jobs`].
    pub fn purge_jobs(&mut self, before_ms: i64, awaited: &[JobId]) -> StoreResult<()> {
        let sql = "DELETE FROM jobs WHERE deleted_ms < ?1";
        self.tx.execute(sql, [before_ms])?;
        let sql = "SELECT id FROM jobs WHERE id IN (SELECT job FROM job_ranks WHERE run IN \
               (SELECT id FROM runs WHERE deleted_ms < ?1)) \
             AND NOT EXISTS (SELECT 1 FROM job_ranks j JOIN runs ON runs.id = j.run \
               WHERE j.job = jobs.id AND (runs.deleted_ms IS NULL OR runs.deleted_ms >= ?1)) \
             AND NOT EXISTS (SELECT 1 FROM uploads WHERE uploads.job = jobs.id \
               AND state IN ('announced', 'running'))";
        self.forget_unawaited(sql, before_ms, awaited).map(drop)
    }

    /// Removes a job for good, and those that are the same; its runs stay.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn forget_job(&mut self, id: &JobId) -> StoreResult<()> {
        match self
            .tx
            .execute("DELETE FROM jobs WHERE id = ?1", [id.as_str()])?
        {
            0 => Err(missing(id)),
            _ => Ok(()),
        }
    }

    /// Deletes jobs without ranks that were made before `before_ms`. Ranks may still come into the
    /// `awaited` ones: they are announced, which the database does not know.
    pub fn forget_empty_jobs(&mut self, before_ms: i64, awaited: &[JobId]) -> StoreResult<usize> {
        let sql = "SELECT id FROM jobs WHERE created_ms < ?1 \
             AND id NOT IN (SELECT job FROM job_ranks) \
             AND NOT EXISTS (SELECT 1 FROM uploads WHERE uploads.job = jobs.id \
               AND state IN ('announced', 'running'))";
        self.forget_unawaited(sql, before_ms, awaited)
    }

    /// Removes for good the jobs that `sql` finds, but those that are awaited. Returns how many.
    fn forget_unawaited(
        &mut self,
        sql: &str,
        before_ms: i64,
        awaited: &[JobId],
    ) -> StoreResult<usize> {
        let mut statement = self.tx.prepare_cached(sql)?;
        let rows = statement.query_map([before_ms], |row| row.get(0))?;
        let mut found: Vec<String> = rows.collect::<Result<_, _>>()?;
        found.retain(|id| awaited.iter().all(|job| job.as_str() != id));
        for id in &found {
            let sql = "DELETE FROM jobs WHERE id = ?1";
            self.tx.prepare_cached(sql)?.execute([id])?;
        }
        Ok(found.len())
    }

    /// Stores the packed profile of a rank and replaces the earlier one.
    pub fn put_rank_profile(
        &mut self,
        run: &RunId,
        version: u32,
        packed: &[u8],
    ) -> StoreResult<()> {
        // The run may have been removed in the meantime.
        let sql = "INSERT OR REPLACE INTO rank_profiles (run, version, profile) \
                   SELECT id, ?2, ?3 FROM runs WHERE id = ?1";
        self.tx
            .execute(sql, params![run.as_str(), version, packed])?;
        Ok(())
    }

    /// Damages every profile; profiles can be derived again.
    #[cfg(test)]
    pub fn damage_rank_profiles(&mut self) -> StoreResult<usize> {
        let sql = "UPDATE rank_profiles SET profile = x'00'";
        Ok(self.tx.execute(sql, [])?)
    }

    /// Deletes the profile of a rank, which is derived data.
    pub fn forget_rank_profile(&mut self, run: &RunId) -> StoreResult<()> {
        let sql = "DELETE FROM rank_profiles WHERE run = ?1";
        self.tx.execute(sql, [run.as_str()])?;
        Ok(())
    }
}

fn summary_of(row: &Row) -> StoreResult<JobSummary> {
    Ok(JobSummary {
        id: job_id(row.get("id")?)?,
        name: row.get("name")?,
        created_ms: row.get("created_ms")?,
        n_ranks: row.get("n_ranks")?,
    })
}

fn job_id(text: String) -> StoreResult<JobId> {
    text.parse().map_err(|_| corrupt("job id", &text))
}

fn run_id(text: String) -> StoreResult<RunId> {
    text.parse().map_err(|_| corrupt("run id", &text))
}

fn missing(id: &JobId) -> StoreError {
    StoreError::NotFound {
        what: "job",
        id: id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn there_are_only_so_many_jobs() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        let make = |id: &str| {
            let id: JobId = id.parse().unwrap();
            store.write_derived_now(|writer| writer.insert_job(&id, "wide", None, 0))
        };
        let fill = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MOST}) \
             INSERT INTO jobs (id, name, created_ms) SELECT printf('job_%016d', i), 'j', 0 FROM n \
             WHERE i < {MOST}"
        );
        store
            .write_derived_now(|writer| Ok(writer.tx.execute(&fill, [])?))
            .unwrap();
        make("job_aaaaaaaaaaaaaaaa").unwrap();
        let refused = make("job_bbbbbbbbbbbbbbbb").unwrap_err();
        let expected = "there are 100000 jobs already: delete some that nobody needs";
        assert_eq!(refused.to_string(), expected);
        let forget =
            |writer: &mut Writer| writer.forget_job(&"job_aaaaaaaaaaaaaaaa".parse().unwrap());
        store.write_derived_now(forget).unwrap();
        make("job_bbbbbbbbbbbbbbbb").unwrap();
    }
}
