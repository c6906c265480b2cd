//! Trainings that report while they run. [`training`] says which processes are one training,
//! [`kept`] how much is kept of them.

mod kept;
mod training;

use super::rows::{Slice, bytes, corrupt, uint};
use super::{Reader, StoreError, StoreResult, Writer};
use crate::live::Concern;
use crate::live::trainings::HEARD_MS;
use api::ids::LiveId;
use api::live::{Capture, LiveEnd, LiveRun, LiveStep, NewLive};
use rusqlite::{OptionalExtension, Row, params};
use trace::units::Bytes;
use training::{RANKS, outcome_name, outcome_of};

const COLUMNS: &str = "id, name, job, rank, ranks, device, limit_bytes, labels, created_ms, \
                       seen_ms, outcome, what, capture, capture_steps";

impl Reader<'_> {
    /// The processes of the training of this one: those that failed first, then those that fell
    /// silent, those that run, and those that are done; each in the order of ranks, which stays
    /// while they report.
    pub fn live_ranks(&self, id: &LiveId, slice: Slice, now_ms: i64) -> StoreResult<Vec<LiveRun>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM live WHERE {RANKS} ORDER BY CASE \
             WHEN outcome = 'done' THEN 3 WHEN outcome IS NOT NULL THEN 0 \
             WHEN seen_ms > ?2 THEN 2 ELSE 1 END, rank, id LIMIT ?3 OFFSET ?4"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let since = now_ms - HEARD_MS;
        let mut rows = statement.query(params![id.as_str(), since, slice.limit, slice.offset])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(self.live_of(row)?);
        }
        Ok(found)
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
            outcome: outcome_of(outcome.as_deref()),
            what: row.get("what")?,
            capture: (capture.id > 0).then_some(capture),
            warnings: Vec::new(),
            training: None,
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
    /// A process of a training begins. When too many trainings have ended, or were not heard of
    /// for a day, those of them heard of longest ago are deleted, with all their processes; so are
    /// those that run when too many do.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if too many processes run.
    pub fn begin_live(&mut self, id: &LiveId, new: &NewLive, now_ms: i64) -> StoreResult<()> {
        let labels = serde_json::to_string(&new.labels).expect("labels are plain data");
        // If the answer to the first attempt was lost, the process begins again.
        self.tx.execute(
            "DELETE FROM live WHERE job = ?1 AND rank IS ?2 AND outcome IS NULL \
             AND NOT EXISTS (SELECT 1 FROM live_steps WHERE live = live.id)",
            params![new.job, new.rank],
        )?;
        let sql = "SELECT coalesce(max(created_ms), 0) FROM live";
        let began_ms = self.tx.query_row(sql, [], |row| row.get(0))?;
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
        self.thin_silent(began_ms, now_ms)?;
        self.keep_live(now_ms)
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
        self.keep_steps(id, now_ms)?;
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

    /// A process of a training has ended. Of its steps those are kept that its page draws.
    ///
    /// # Errors
    /// As [`Writer::add_live_steps`].
    pub fn end_live(&mut self, id: &LiveId, end: &LiveEnd, now_ms: i64) -> StoreResult<()> {
        self.must_run(id)?;
        self.tx.execute(
            "UPDATE live SET outcome = ?2, what = ?3, seen_ms = ?4 WHERE id = ?1",
            params![id.as_str(), outcome_name(end.outcome), end.what, now_ms],
        )?;
        self.thin_live(id)
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
    use super::kept::{ENDED, RUNNING, RUNS_FOR_MS};
    use super::*;
    use crate::store::Store;
    use api::labels::Labels;
    use api::live::LiveOutcome;

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

    fn count(store: &Store) -> usize {
        store
            .read_now(|reader| reader.live_states(""))
            .unwrap()
            .len()
    }

    #[test]
    fn a_training_that_runs_outlives_those_that_have_ended() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        let there = |n: u32| store.read_now(|reader| reader.live(&id(n))).is_ok();
        begin(&store, 0..1, 0);
        begin(&store, 1..ENDED + 50, 1);
        assert_eq!(count(&store), ENDED as usize + 50, "all of them run");
        end(&store, 1..ENDED + 50, 10_000);
        begin(&store, 1000..1001, 20_000);
        assert_eq!(count(&store), ENDED as usize + 2);
        assert!(there(0) && there(1000), "they run");
        assert!(!there(1) && there(ENDED + 49), "the oldest that ended went");
        // Who is silent for a day does not count as running.
        begin(&store, 1001..1002, 20_000 + RUNS_FOR_MS);
        assert_eq!(count(&store), ENDED as usize + 1);
        assert!(!there(0), "the one heard of longest ago went");
        assert!(there(1000) && there(1001));
    }

    /// Ranks 0 to 5 of a job, of which 2 failed, 3 fell silent and 4 is done; and another training.
    fn job(store: &Store) {
        begin(store, 100..101, HEARD_MS);
        let filled = store.write_now(|writer| {
            let sql = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 5) \
                       INSERT INTO live (id, name, job, rank, device, labels, created_ms, seen_ms, \
                       outcome) SELECT 'live_' || i, 'gpt', 'j', i, 0, '{\"config\":\"Big\"}', \
                       9, iif(i = 3, 0, ?1), CASE i WHEN 2 THEN 'failed' WHEN 4 THEN 'done' END \
                       FROM n";
            Ok(writer.tx.execute(sql, [HEARD_MS])?)
        });
        assert_eq!(filled.unwrap(), 6);
    }

    #[test]
    fn the_ranks_that_need_somebody_are_the_first_of_a_job() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        job(&store);
        let check = |of: u32, slice: Slice, expected: &[u32]| {
            let read = store.read_now(|reader| reader.live_ranks(&id(of), slice, HEARD_MS));
            let ids: Vec<LiveId> = read.unwrap().into_iter().map(|run| run.id).collect();
            let expected: Vec<LiveId> = expected.iter().copied().map(id).collect();
            assert_eq!(ids, expected, "{slice:?}");
            let n = store.read_now(|reader| reader.count_live_ranks(&id(of)));
            assert_eq!(n.unwrap(), if of == 100 { 1 } else { 6 });
        };
        check(0, Slice::ALL, &[2, 3, 0, 1, 5, 4]);
        let middle = Slice {
            offset: 1,
            limit: 3,
        };
        check(5, middle, &[3, 0, 1]);
        check(100, Slice::ALL, &[100]);
    }

    #[test]
    fn trainings_are_found_by_name_and_label() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        job(&store);
        let found = |search: &str| {
            let read = store.read_now(|reader| reader.live_states(search));
            read.unwrap().len()
        };
        let searches = ["", "gpt", "lla", "config=big", "none"];
        assert_eq!(searches.map(found), [7, 6, 1, 6, 0]);
    }

    #[test]
    fn a_training_is_deleted_with_all_its_ranks_and_steps() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        job(&store);
        let deleted = store.write_now(|writer| {
            writer.add_live_steps(&id(1), &[LiveStep::default()], HEARD_MS)?;
            let run = writer.delete_live(&id(0))?;
            let sql = "SELECT count(*) FROM live_steps";
            let steps: u32 = writer.tx.query_row(sql, [], |row| row.get(0))?;
            Ok((run.name, steps))
        });
        assert_eq!(deleted.unwrap(), ("gpt".to_owned(), 0));
        assert_eq!(count(&store), 1);
        let again = store.write_now(|writer| writer.delete_live(&id(0)));
        assert!(matches!(again, Err(StoreError::NotFound { .. })));
        let alone = store.write_now(|writer| writer.delete_live(&id(100)));
        assert_eq!((alone.unwrap().id, count(&store)), (id(100), 0));
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
            Ok(writer.tx.execute(sql, [RUNNING])?)
        });
        assert_eq!(filled.unwrap(), RUNNING as usize);
        begin(&store, RUNNING..RUNNING + 3, RUNNING.into());
        let read = store.read_now(|reader| Ok([2, 3].map(|n| reader.live(&id(n)).is_ok())));
        assert_eq!(read.unwrap(), [false, true]);
        assert_eq!(count(&store), RUNNING as usize);
    }
}
