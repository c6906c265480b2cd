//! Trainings that report while they run.

use super::rows::{bytes, corrupt, uint};
use super::{Reader, StoreError, StoreResult, Writer};
use crate::live::Concern;
use api::ids::LiveId;
use api::live::{Capture, LiveEnd, LiveOutcome, LiveRun, LiveStep, NewLive};
use rusqlite::{OptionalExtension, Row, named_params, params};
use trace::units::Bytes;

/// Steps kept of one run, the newest.
const STEPS: u64 = 20_000;
/// Runs kept, the newest.
const RUNS: u32 = 500;
/// A run without an outcome that was heard of so lately still runs. So many of those are kept
/// besides.
const RUNS_FOR_MS: i64 = 24 * 3600 * 1000;
const MOST_RUNNING: u32 = 2000;
/// In lists, who was not heard of for so long stands with those that have ended. Longer than most
/// steps take: rows do not change places while somebody reads.
const HEARD_MS: i64 = 10 * 60_000;

/// How many live runs are read.
#[derive(Clone, Copy, Debug)]
pub struct MostLive {
    /// In all.
    pub runs: usize,
    /// Ranks of one training that run, and as many that do not.
    pub ranks: usize,
}

const COLUMNS: &str = "id, name, job, rank, ranks, device, limit_bytes, labels, created_ms, \
                       seen_ms, outcome, what, capture, capture_steps";

/// All ranks of the training `?1`.
const RANKS: &str = "(id = ?1 OR job = (SELECT job FROM live WHERE id = ?1))";

const OUTCOMES: [(LiveOutcome, &str); 3] = [
    (LiveOutcome::Done, "done"),
    (LiveOutcome::Failed, "failed"),
    (LiveOutcome::OutOfMemory, "out_of_memory"),
];

impl Reader<'_> {
    /// Live runs; all, or the ranks of one training. Those first that run, in an order that stays
    /// while they report: the newest first, then by job and rank. Then those that have ended or
    /// fell silent, the one heard of last first.
    ///
    /// Of the ranks of a training, those that failed are the last to be left out.
    pub fn live_runs(
        &self,
        job: Option<&str>,
        most: MostLive,
        now_ms: i64,
    ) -> StoreResult<Vec<LiveRun>> {
        let sql = format!(
            "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY coalesce(job, id), runs \
             ORDER BY outcome IS NOT NULL AND outcome <> 'done' DESC, rank, id) AS place FROM \
             (SELECT {COLUMNS}, outcome IS NULL AND seen_ms > :since AS runs FROM live \
             WHERE :job IS NULL OR job = :job)) WHERE place <= :ranks \
             ORDER BY runs DESC, iif(runs, created_ms, seen_ms) DESC, job, rank, id LIMIT :most"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! {
            ":job": job,
            ":most": most.runs as i64,
            ":ranks": i64::try_from(most.ranks).unwrap_or(i64::MAX),
            ":since": now_ms - HEARD_MS,
        })?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(self.live_of(row)?);
        }
        Ok(found)
    }

    /// How many live runs there are; of all, or the ranks of one training.
    pub fn count_live(&self, job: Option<&str>) -> StoreResult<u32> {
        let sql = "SELECT count(*) FROM live WHERE :job IS NULL OR job = :job";
        let mut statement = self.tx.prepare_cached(sql)?;
        Ok(statement.query_row(named_params! { ":job": job }, |row| row.get(0))?)
    }

    /// One live run.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn live(&self, id: &LiveId) -> StoreResult<LiveRun> {
        let sql = format!("SELECT {COLUMNS} FROM live WHERE id = ?1");
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query([id.as_str()])?;
        match rows.next()? {
            Some(row) => self.live_of(row),
            None => Err(missing(id)),
        }
    }

    fn live_of(&self, row: &Row) -> StoreResult<LiveRun> {
        let id: String = row.get("id")?;
        let labels: String = row.get("labels")?;
        let outcome: Option<String> = row.get("outcome")?;
        let known = |text: &String| OUTCOMES.into_iter().find(|(_, name)| name == text);
        let limit: Option<i64> = row.get("limit_bytes")?;
        let capture = Capture {
            id: row.get("capture")?,
            steps: row.get("capture_steps")?,
        };
        let id: LiveId = id.parse().map_err(|_| corrupt("a live id", &id))?;
        Ok(LiveRun {
            last: self.last_step(&id)?,
            id,
            name: row.get("name")?,
            rank: row.get("rank")?,
            ranks: row.get("ranks")?,
            job: row.get("job")?,
            device: row.get("device")?,
            limit: limit.map(|limit| Bytes(limit.max(0) as u64)),
            labels: serde_json::from_str(&labels).unwrap_or_default(),
            created_ms: row.get("created_ms")?,
            seen_ms: row.get("seen_ms")?,
            outcome: outcome.as_ref().and_then(known).map(|(outcome, _)| outcome),
            what: row.get("what")?,
            capture: (capture.id > 0).then_some(capture),
            warnings: Vec::new(),
        })
    }

    fn last_step(&self, id: &LiveId) -> StoreResult<Option<LiveStep>> {
        Ok(self.live_steps(id, 1)?.pop())
    }

    /// The last steps of a live run, at most so many, oldest first.
    pub fn live_steps(&self, id: &LiveId, most: u64) -> StoreResult<Vec<LiveStep>> {
        let sql = "SELECT step, at_ms, allocated, peak, reserved, retries, ooms FROM live_steps \
                   WHERE live = ?1 ORDER BY step DESC LIMIT ?2";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query(params![id.as_str(), most as i64])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(LiveStep {
                step: uint(row, "step")?,
                at_ms: row.get("at_ms")?,
                allocated: bytes(row, "allocated")?,
                peak: bytes(row, "peak")?,
                reserved: bytes(row, "reserved")?,
                retries: uint(row, "retries")?,
                ooms: uint(row, "ooms")?,
            });
        }
        found.reverse();
        Ok(found)
    }
}

impl Writer<'_> {
    /// A training begins. When too many have ended, or were not heard of for a day, those of them
    /// heard of longest ago are deleted; so are those that run when too many do.
    pub fn begin_live(&mut self, id: &LiveId, new: &NewLive, now_ms: i64) -> StoreResult<()> {
        let labels = serde_json::to_string(&new.labels).expect("labels are plain data");
        // If the answer to the first attempt was lost, the process begins again.
        self.tx.execute(
            "DELETE FROM live WHERE job = ?1 AND rank IS ?2 AND outcome IS NULL \
             AND NOT EXISTS (SELECT 1 FROM live_steps WHERE live = live.id)",
            params![new.job, new.rank],
        )?;
        self.tx.execute(
            "INSERT INTO live (id, name, job, rank, ranks, device, limit_bytes, labels, \
             created_ms, seen_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)",
            params![
                id.as_str(),
                new.name,
                new.job,
                new.rank,
                new.ranks,
                new.device,
                new.limit.map(|limit| limit.get() as i64),
                labels,
                now_ms
            ],
        )?;
        let sql = "WITH placed AS (SELECT id, runs, row_number() OVER \
                   (PARTITION BY runs ORDER BY seen_ms DESC, id) AS place FROM \
                   (SELECT id, seen_ms, outcome IS NULL AND seen_ms > ?1 AS runs FROM live)) \
                   DELETE FROM live WHERE id IN \
                   (SELECT id FROM placed WHERE place > iif(runs, ?2, ?3))";
        self.tx
            .execute(sql, params![now_ms - RUNS_FOR_MS, MOST_RUNNING, RUNS])?;
        Ok(())
    }

    /// Adds reports of a training that has not ended, and returns the snapshot that is asked for.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Conflict`] after its end.
    pub fn add_live_steps(
        &mut self,
        id: &LiveId,
        steps: &[LiveStep],
        now_ms: i64,
    ) -> StoreResult<Option<Capture>> {
        self.must_run(id)?;
        let sql = "INSERT OR REPLACE INTO live_steps (live, step, at_ms, allocated, peak, \
                   reserved, retries, ooms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let mut statement = self.tx.prepare_cached(sql)?;
        for step in steps {
            statement.execute(params![
                id.as_str(),
                step.step as i64,
                step.at_ms,
                step.allocated.get() as i64,
                step.peak.get() as i64,
                step.reserved.get() as i64,
                step.retries as i64,
                step.ooms as i64
            ])?;
        }
        drop(statement);
        self.tx.execute(
            "DELETE FROM live_steps WHERE live = ?1 AND step <= \
             (SELECT max(step) FROM live_steps WHERE live = ?1) - ?2",
            params![id.as_str(), STEPS as i64],
        )?;
        let capture = self.reader().live(id)?.capture;
        self.tx.execute(
            "UPDATE live SET seen_ms = ?2 WHERE id = ?1",
            params![id.as_str(), now_ms],
        )?;
        Ok(capture)
    }

    /// Notes that somebody is told of this concern, and returns whether it is new: no rank of this
    /// training was the cause of such a message before.
    pub fn tell_live(&mut self, id: &LiveId, concern: Concern) -> StoreResult<bool> {
        let bit = match concern {
            Concern::Growth => 1,
            Concern::Limit => 2,
        };
        let sql = format!("SELECT count(*) FROM live WHERE told & ?2 <> 0 AND {RANKS}");
        let told = params![id.as_str(), bit];
        let known: u32 = self.tx.query_row(&sql, told, |row| row.get(0))?;
        if known > 0 {
            return Ok(false);
        }
        let sql = "UPDATE live SET told = told | ?2 WHERE id = ?1";
        self.tx.execute(sql, told)?;
        Ok(true)
    }

    /// Asks a training for a snapshot of the next steps: all its ranks, under one number, which
    /// makes a job of their snapshots.
    ///
    /// # Errors
    /// As [`Writer::add_live_steps`].
    pub fn ask_live(&mut self, id: &LiveId, steps: u32) -> StoreResult<()> {
        self.must_run(id)?;
        let sql = format!("SELECT max(capture) + 1 FROM live WHERE {RANKS}");
        let number: u32 = self.tx.query_row(&sql, [id.as_str()], |row| row.get(0))?;
        let sql = format!(
            "UPDATE live SET capture = ?2, capture_steps = ?3 WHERE outcome IS NULL AND {RANKS}"
        );
        self.tx.execute(&sql, params![id.as_str(), number, steps])?;
        Ok(())
    }

    /// A training has ended.
    ///
    /// # Errors
    /// As [`Writer::add_live_steps`].
    pub fn end_live(&mut self, id: &LiveId, end: &LiveEnd, now_ms: i64) -> StoreResult<()> {
        self.must_run(id)?;
        let mut outcomes = OUTCOMES.into_iter();
        let name = outcomes.find(|(outcome, _)| *outcome == end.outcome);
        self.tx.execute(
            "UPDATE live SET outcome = ?2, what = ?3, seen_ms = ?4 WHERE id = ?1",
            params![id.as_str(), name.map(|(_, name)| name), end.what, now_ms],
        )?;
        Ok(())
    }

    fn must_run(&self, id: &LiveId) -> StoreResult<()> {
        let sql = "SELECT outcome IS NOT NULL FROM live WHERE id = ?1";
        let ended: Option<bool> = self
            .tx
            .query_row(sql, [id.as_str()], |row| row.get(0))
            .optional()?;
        match ended {
            None => Err(missing(id)),
            Some(true) => Err(StoreError::Conflict("this training has ended".to_owned())),
            Some(false) => Ok(()),
        }
    }
}

fn missing(id: &LiveId) -> StoreError {
    StoreError::NotFound {
        what: "live run",
        id: id.as_str().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use api::labels::Labels;

    const ALL: MostLive = MostLive {
        runs: 10,
        ranks: usize::MAX,
    };

    fn id(n: u32) -> LiveId {
        format!("live_{n}").parse().unwrap()
    }

    /// Begins trainings at these times, one a millisecond.
    fn begin(store: &Store, ids: std::ops::Range<u32>, from_ms: i64) {
        let new = NewLive {
            name: "llama".to_owned(),
            rank: None,
            ranks: None,
            job: None,
            device: 0,
            limit: None,
            labels: Labels::default(),
        };
        let begun = store.write_now(|writer| {
            let mut numbered = ids.clone().zip(from_ms..);
            numbered.try_for_each(|(n, now)| writer.begin_live(&id(n), &new, now))
        });
        begun.unwrap();
    }

    fn end(store: &Store, ids: std::ops::Range<u32>, from_ms: i64) {
        let done = LiveEnd {
            outcome: LiveOutcome::Done,
            what: None,
        };
        let ended = store.write_now(|writer| {
            let mut numbered = ids.clone().zip(from_ms..);
            numbered.try_for_each(|(n, now)| writer.end_live(&id(n), &done, now))
        });
        ended.unwrap();
    }

    #[test]
    fn a_training_that_runs_outlives_those_that_have_ended() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        let there = |n: u32| store.read_now(|reader| reader.live(&id(n))).is_ok();
        let count = || store.read_now(|reader| reader.count_live(None)).unwrap();
        begin(&store, 0..1, 0);
        begin(&store, 1..RUNS + 50, 1);
        assert_eq!(count(), RUNS + 50, "all of them run");
        end(&store, 1..RUNS + 50, 10_000);
        begin(&store, 1000..1001, 20_000);
        assert_eq!(count(), RUNS + 2);
        assert!(there(0) && there(1000), "they run");
        assert!(!there(1) && there(RUNS + 49), "the oldest that ended went");
        // Who is silent for a day does not count as running.
        begin(&store, 1001..1002, 20_000 + RUNS_FOR_MS);
        assert_eq!(count(), RUNS + 1);
        assert!(!there(0), "the one heard of longest ago went");
        assert!(there(1000) && there(1001));
    }

    #[test]
    fn trainings_that_run_keep_their_places() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        let check = |now_ms: i64, expected: &[u32]| {
            let read = store.read_now(|reader| reader.live_runs(None, ALL, now_ms));
            let ids: Vec<LiveId> = read.unwrap().into_iter().map(|run| run.id).collect();
            let expected: Vec<LiveId> = expected.iter().copied().map(id).collect();
            assert_eq!(ids, expected, "at {now_ms}");
        };
        let report = |n: u32, now_ms: i64| {
            let said = store.write_now(|writer| writer.add_live_steps(&id(n), &[], now_ms));
            said.unwrap();
        };
        begin(&store, 0..4, 0);
        check(10, &[3, 2, 1, 0]);
        report(1, 5000);
        report(0, 6000);
        check(6000, &[3, 2, 1, 0]);
        // What has ended follows, and so does who fell silent: each at its time.
        end(&store, 2..3, 7000);
        check(7000, &[3, 1, 0, 2]);
        report(0, 7000 + HEARD_MS);
        check(7000 + HEARD_MS, &[0, 2, 1, 3]);
    }

    #[test]
    fn a_training_with_many_ranks_does_not_hide_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        begin(&store, 100..101, 0);
        let filled = store.write_now(|writer| {
            let sql = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL \
                       SELECT i + 1 FROM n WHERE i < 39) \
                       INSERT INTO live (id, name, job, rank, device, labels, created_ms, seen_ms, \
                       outcome) SELECT 'live_' || i, 'llama', 'j', i, 0, '{}', 9, 9, \
                       iif(i = 30, 'failed', NULL) FROM n";
            Ok(writer.tx.execute(sql, [])?)
        });
        assert_eq!(filled.unwrap(), 40);
        let check = |ranks: usize, now_ms: i64, expected: &[u32]| {
            let most = MostLive { ranks, ..ALL };
            let read = store.read_now(|reader| reader.live_runs(None, most, now_ms));
            let ids: Vec<LiveId> = read.unwrap().into_iter().map(|run| run.id).collect();
            let expected: Vec<LiveId> = expected.iter().copied().map(id).collect();
            assert_eq!(ids, expected, "{ranks} at {now_ms}");
        };
        check(usize::MAX, 10, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        check(4, 10, &[0, 1, 2, 3, 100, 30]);
        // All of them fell silent: the one that failed is among those that are shown.
        check(4, 9 + HEARD_MS, &[0, 1, 2, 30, 100]);
    }

    #[test]
    fn the_number_of_trainings_that_run_is_bounded_too() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        let filled = store.write_now(|writer| {
            let sql = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n \
                       WHERE i + 1 < ?1) \
                       INSERT INTO live (id, name, device, labels, created_ms, seen_ms) \
                       SELECT 'live_' || i, 'llama', 0, '{}', i, i FROM n";
            Ok(writer.tx.execute(sql, [MOST_RUNNING])?)
        });
        assert_eq!(filled.unwrap(), MOST_RUNNING as usize);
        begin(&store, MOST_RUNNING..MOST_RUNNING + 3, MOST_RUNNING.into());
        let read = store.read_now(|reader| {
            let oldest = [2, 3].map(|n| reader.live(&id(n)).is_ok());
            Ok((reader.count_live(None)?, oldest))
        });
        assert_eq!(read.unwrap(), (MOST_RUNNING, [false, true]));
    }
}
