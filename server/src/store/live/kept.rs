//! How much is kept of trainings. A training goes as a whole: what counts is how many there are,
//! and not how many processes each has. Their steps have a limit of their own.

use super::super::{Reader, Store, StoreError, StoreResult, Writer};
use super::training::{RANKS, TRAINING};
use crate::live::{JUDGED, thinned};
use api::ids::LiveId;
use api::live::{LiveStep, MOST_POINTS};
use rusqlite::{named_params, params};

/// Steps kept of one process that runs, the newest.
const STEPS: u64 = 20_000;
/// Steps kept of all processes that run: each training has the same share, whatever the others
/// have of processes.
const RUNNING_STEPS: u64 = 4_000_000;
/// Steps kept of those that have ended.
const ENDED_STEPS: u64 = 4_000_000;
/// Trainings kept that have ended, the newest.
pub(super) const ENDED: u32 = 500;
/// A training of which a process without an outcome was heard of so lately still runs. So many of
/// those are kept besides.
pub(super) const RUNS_FOR_MS: i64 = 24 * 3600 * 1000;
pub(super) const RUNNING: u32 = 2000;
/// Processes of all trainings. Room is made by deleting those that have ended; where all of them
/// run, another process is refused.
pub(super) const PROCESSES: u32 = 20_000;

impl Writer<'_> {
    /// Makes room after a process began: deletes the trainings beyond the limits, those heard of
    /// longest ago first.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if too many processes run.
    pub(super) fn keep_live(&mut self, now_ms: i64) -> StoreResult<()> {
        // Of a process that does not run, at most as many steps are left as a page draws.
        let sql = format!(
            "WITH one AS (SELECT id, {TRAINING} AS training, seen_ms, \
               outcome IS NULL AND seen_ms > :since AS runs FROM live), \
             training AS (SELECT training, max(runs) AS running, max(seen_ms) AS seen, \
               count(*) AS processes, sum(iif(runs, 0, min(:points, coalesce( \
                 (SELECT max(step) FROM live_steps WHERE live = one.id) - \
                 (SELECT min(step) FROM live_steps WHERE live = one.id) + 1, 0)))) AS steps \
               FROM one GROUP BY training), \
             placed AS (SELECT training, running, \
               row_number() OVER (PARTITION BY running ORDER BY seen DESC, training) AS place, \
               sum(processes) OVER (ORDER BY running DESC, seen DESC, training) AS processes, \
               sum(iif(running, 0, steps)) OVER (ORDER BY running DESC, seen DESC, training) \
                 AS steps FROM training) \
             DELETE FROM live WHERE {TRAINING} IN (SELECT training FROM placed WHERE \
               iif(running, place > :running, place > :ended OR processes > :processes \
               OR steps > :steps))"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        statement.execute(named_params! {
            ":since": now_ms - RUNS_FOR_MS,
            ":points": MOST_POINTS as i64,
            ":running": RUNNING,
            ":ended": ENDED,
            ":processes": PROCESSES,
            ":steps": ENDED_STEPS as i64,
        })?;
        let sql = "SELECT count(*) FROM live";
        let left: u32 = self.tx.query_row(sql, [], |row| row.get(0))?;
        match left <= PROCESSES {
            true => Ok(()),
            false => Err(StoreError::Conflict(format!(
                "{PROCESSES} processes of trainings report already, the most of a project"
            ))),
        }
    }

    /// Keeps as many steps of a process that runs as it has a share in.
    pub(super) fn keep_steps(&mut self, id: &LiveId, now_ms: i64) -> StoreResult<()> {
        let sql = format!(
            "SELECT count(DISTINCT {TRAINING}), count(iif({RANKS}, 1, NULL)) FROM live \
             WHERE outcome IS NULL AND seen_ms > ?2"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let running = params![id.as_str(), now_ms - RUNS_FOR_MS];
        let (trainings, processes): (u32, u32) =
            statement.query_row(running, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let kept = share(trainings.into(), processes.into());
        // Rows are counted, not numbers: who reports tokens in place of steps, or goes on at
        // another number, loses nothing. Where the numbers span no more, there are no more rows.
        self.tx.execute(
            "DELETE FROM live_steps WHERE live = ?1 AND step <= iif( \
             (SELECT max(step) FROM live_steps WHERE live = ?1) - \
             (SELECT min(step) FROM live_steps WHERE live = ?1) < ?2, -1, \
             (SELECT step FROM live_steps WHERE live = ?1 ORDER BY step DESC LIMIT 1 OFFSET ?2))",
            params![id.as_str(), kept as i64],
        )?;
        Ok(())
    }

    /// Keeps of a process that has ended as many steps as its page draws, and the last one.
    pub(super) fn thin_live(&mut self, id: &LiveId) -> StoreResult<()> {
        let steps = self.reader().live_steps(id, u64::from(u32::MAX))?;
        if steps.len() <= MOST_POINTS {
            return Ok(());
        }
        let mut kept = drawn(&steps).into_iter().map(|step| step.step).peekable();
        let sql = "DELETE FROM live_steps WHERE live = ?1 AND step = ?2";
        let mut statement = self.tx.prepare_cached(sql)?;
        for LiveStep { step, .. } in steps {
            if kept.next_if_eq(&step).is_none() {
                statement.execute(params![id.as_str(), step as i64])?;
            }
        }
        Ok(())
    }

    /// Thins the steps of those that were killed, and so never said that they ended: who has been
    /// silent for a day since the last training began.
    pub(super) fn thin_silent(&mut self, began_ms: i64, now_ms: i64) -> StoreResult<()> {
        let sql = "SELECT id FROM live WHERE outcome IS NULL AND seen_ms > ?1 AND seen_ms <= ?2";
        let since = params![began_ms - RUNS_FOR_MS, now_ms - RUNS_FOR_MS];
        let mut statement = self.tx.prepare_cached(sql)?;
        let ids = statement.query_map(since, |row| row.get::<_, String>(0))?;
        let ids: Vec<String> = ids.collect::<Result<_, _>>()?;
        drop(statement);
        for id in ids.iter().filter_map(|id| id.parse::<LiveId>().ok()) {
            self.thin_live(&id)?;
        }
        Ok(())
    }
}

impl Reader<'_> {
    /// The processes that do not run, of which more steps are kept than a page draws.
    fn unthinned(&self, now_ms: i64) -> StoreResult<Vec<LiveId>> {
        let sql = "SELECT id FROM live WHERE (outcome IS NOT NULL OR seen_ms <= ?1) \
             AND (SELECT count(*) FROM live_steps WHERE live = live.id) > ?2";
        let mut statement = self.tx.prepare_cached(sql)?;
        let asked = params![now_ms - RUNS_FOR_MS, MOST_POINTS as i64];
        let ids = statement.query_map(asked, |row| row.get::<_, String>(0))?;
        let ids: Vec<String> = ids.collect::<Result<_, _>>()?;
        Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
    }
}

impl Store {
    /// Thins the steps of those that ended under an older version, which kept all of them. Each is
    /// a transaction of its own. Returns how many they were.
    ///
    /// # Errors
    /// The database's.
    pub async fn thin_ended(&self) -> StoreResult<usize> {
        let now = self.latest_ms();
        let found = self.read(move |reader| reader.unthinned(now)).await?;
        for id in &found {
            let id = id.clone();
            self.write(move |writer| writer.thin_live(&id)).await?;
        }
        Ok(found.len())
    }
}

/// How many steps are kept of each process of a training that has so many, while so many trainings
/// run: enough to be judged by, at least.
fn share(trainings: u64, processes: u64) -> u64 {
    let all = trainings.max(1) * processes.max(1);
    (RUNNING_STEPS / all).clamp(JUDGED, STEPS)
}

/// The steps that a page draws, with the last one.
fn drawn(steps: &[LiveStep]) -> Vec<LiveStep> {
    let Some((last, before)) = steps.split_last() else {
        return Vec::new();
    };
    let mut kept = thinned(before, MOST_POINTS - 1);
    kept.push(*last);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::clock::now_ms;
    use api::labels::Labels;
    use api::live::{LiveEnd, LiveOutcome, NewLive};
    use trace::units::Bytes;

    fn id(n: u32) -> LiveId {
        format!("live_{n}").parse().unwrap()
    }

    fn new(job: Option<&str>, rank: Option<u32>) -> NewLive {
        NewLive {
            name: "llama".to_owned(),
            rank,
            ranks: None,
            job: job.map(str::to_owned),
            device: 0,
            limit: None,
            labels: Labels::default(),
        }
    }

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        (folder, store)
    }

    const FAILED: LiveEnd = LiveEnd {
        outcome: LiveOutcome::Failed,
        what: None,
    };

    /// A job of so many ranks begins, all of them at this time.
    fn job(store: &Store, name: &str, ids: std::ops::Range<u32>, now_ms: i64) {
        let begun = store.write_now(|writer| {
            let mut ranked = ids.clone().zip(0..);
            ranked.try_for_each(|(n, rank)| {
                writer.begin_live(&id(n), &new(Some(name), Some(rank)), now_ms)
            })
        });
        begun.unwrap();
    }

    fn end(store: &Store, ids: std::ops::Range<u32>, now_ms: i64) {
        let ended = store.write_now(|writer| {
            let mut ids = ids.clone();
            ids.try_for_each(|n| writer.end_live(&id(n), &FAILED, now_ms))
        });
        ended.unwrap();
    }

    fn left(store: &Store, ids: std::ops::Range<u32>) -> usize {
        let there = |n: &u32| store.read_now(|reader| reader.live(&id(*n))).is_ok();
        ids.filter(there).count()
    }

    /// Two jobs of 300 ranks took the place of everybody else's trainings.
    #[test]
    fn a_job_of_many_ranks_counts_as_one_training() {
        let (_folder, store) = store();
        let singles = store.write_now(|writer| {
            (0..40).try_for_each(|n| writer.begin_live(&id(n), &new(None, None), n.into()))
        });
        singles.unwrap();
        end(&store, 0..40, 100);
        job(&store, "a", 1000..1300, 200);
        end(&store, 1000..1300, 300);
        job(&store, "b", 2000..2300, 400);
        end(&store, 2000..2300, 500);
        job(&store, "c", 3000..3001, 600);
        assert_eq!(left(&store, 0..40), 40);
        assert_eq!(left(&store, 1000..1300), 300);
        assert_eq!(left(&store, 2000..2300), 300);
    }

    #[test]
    fn a_training_goes_as_a_whole() {
        let (_folder, store) = store();
        job(&store, "a", 0..3, 0);
        end(&store, 0..3, 1);
        let filled = store.write_now(|writer| {
            let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
                       WHERE i < ?1) \
                       INSERT INTO live (id, name, device, labels, created_ms, seen_ms, outcome) \
                       SELECT 'live_x' || i, 'llama', 0, '{}', 2, 2, 'done' FROM n";
            Ok(writer.tx.execute(sql, [ENDED - 1])?)
        });
        assert_eq!(filled.unwrap(), ENDED as usize - 1);
        job(&store, "b", 10..12, 3);
        assert_eq!(left(&store, 0..3), 3);
        end(&store, 10..12, 4);
        job(&store, "c", 20..21, 5);
        assert_eq!(left(&store, 0..3), 0);
        assert_eq!(left(&store, 10..12), 2);
        // As long as one of its processes runs, none of a training goes.
        end(&store, 20..21, 6);
        job(&store, "c", 21..22, 7);
        assert_eq!(left(&store, 20..22), 2);
    }

    /// The seventh job of 300 ranks deleted ranks of the first, while it ran.
    #[test]
    fn who_runs_is_never_deleted_because_of_the_processes_of_others() {
        let (_folder, store) = store();
        let fill = |processes: u32| {
            let filled = store.write_now(|writer| {
                let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
                           WHERE i < ?1) \
                           INSERT OR IGNORE INTO live \
                           (id, name, job, rank, device, labels, created_ms, seen_ms) \
                           SELECT 'live_y' || i, 'llama', 'wide', i, 0, '{}', 9, 9 FROM n";
                Ok(writer.tx.execute(sql, [processes])?)
            });
            filled.unwrap();
        };
        job(&store, "a", 0..2, 0);
        fill(2100);
        job(&store, "b", 10..11, 10);
        assert_eq!(left(&store, 0..2), 2, "the one heard of longest ago");
        // There is no room for ever more of them.
        fill(PROCESSES - 3);
        let refused = store.write_now(|writer| writer.begin_live(&id(99), &new(None, None), 11));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("20000 processes"), "{refused}");
        assert_eq!(left(&store, 0..2), 2);
    }

    #[test]
    fn each_training_that_runs_has_the_same_share_of_the_steps() {
        assert_eq!(share(1, 1), STEPS);
        assert_eq!(share(40, 8), 12_500);
        assert_eq!(share(2, 1), STEPS, "beside a job of 300 ranks");
        assert_eq!(share(2, 300), 6_666);
        assert_eq!(share(2000, 4000), JUDGED);
    }

    /// Reports so many steps; the 70th is the highest.
    fn report(store: &Store, n: u32, steps: u64, now_ms: i64) {
        let steps = (1..=steps).map(|step| LiveStep {
            step,
            allocated: Bytes(if step == 70 { 1000 } else { 1 }),
            ..LiveStep::default()
        });
        let steps: Vec<LiveStep> = steps.collect();
        let told = store.write_now(|writer| writer.add_live_steps(&id(n), &steps, now_ms));
        told.unwrap();
    }

    fn kept(store: &Store, n: u32) -> Vec<u64> {
        let read = store.read_now(|reader| reader.live_steps(&id(n), u64::from(u32::MAX)));
        read.unwrap().into_iter().map(|step| step.step).collect()
    }

    /// A training that reported each 1,000th step had 20 of them, and one odd number took the rest.
    #[test]
    fn rows_are_counted_and_not_their_numbers() {
        let (_folder, store) = store();
        job(&store, "a", 0..1, 0);
        let told = |numbers: &mut dyn Iterator<Item = u64>| {
            let steps = numbers.map(|step| LiveStep {
                step,
                ..LiveStep::default()
            });
            let steps: Vec<LiveStep> = steps.collect();
            let told = store.write_now(|writer| writer.add_live_steps(&id(0), &steps, 1));
            told.unwrap();
        };
        told(&mut (1..=400).map(|n| n * 1000));
        assert_eq!(kept(&store, 0).len(), 400);
        told(&mut [1 << 40].into_iter());
        assert_eq!(kept(&store, 0).len(), 401);
        told(&mut (1..=STEPS).map(|n| n * 1001));
        let left = kept(&store, 0);
        assert_eq!(left.len() as u64, STEPS);
        assert_eq!(left.last(), Some(&(1 << 40)));
    }

    #[test]
    fn what_a_page_draws_is_kept_of_a_training_that_has_ended() {
        let (_folder, store) = store();
        job(&store, "a", 0..2, 0);
        report(&store, 0, 5003, 1);
        report(&store, 1, 30, 1);
        assert_eq!(kept(&store, 0).len(), 5003, "it runs");
        end(&store, 0..2, 2);
        let thin = kept(&store, 0);
        assert!((400..=MOST_POINTS).contains(&thin.len()), "{}", thin.len());
        assert!(thin.contains(&70), "the highest");
        assert_eq!(thin.last(), Some(&5003));
        assert_eq!(kept(&store, 1).len(), 30, "they are few");
    }

    #[test]
    fn who_was_killed_is_thinned_a_day_later() {
        let (_folder, store) = store();
        job(&store, "a", 0..1, 0);
        report(&store, 0, 2000, 1);
        job(&store, "b", 1..2, RUNS_FOR_MS);
        assert_eq!(kept(&store, 0).len(), 2000);
        job(&store, "c", 2..3, RUNS_FOR_MS + 1);
        assert!(kept(&store, 0).len() <= MOST_POINTS);
        assert_eq!(kept(&store, 0).last(), Some(&2000));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_ended_under_an_older_version_is_thinned_when_a_server_starts() {
        let (_folder, store) = store();
        let now = now_ms();
        job(&store, "a", 0..4, now);
        for n in 0..3 {
            report(&store, n, 2000, now);
        }
        report(&store, 3, 30, now);
        // As they were left: one has ended, and one was not heard of for months.
        let leave = store.write_now(|writer| {
            let ended = "UPDATE live SET outcome = 'done' WHERE id IN ('live_0', 'live_3')";
            let silent = "UPDATE live SET seen_ms = 1 WHERE id = 'live_1'";
            writer.tx.execute(ended, [])?;
            Ok(writer.tx.execute(silent, [])?)
        });
        leave.unwrap();
        assert_eq!(store.thin_ended().await.unwrap(), 2);
        for n in [0, 1] {
            let thin = kept(&store, n);
            assert!(thin.len() <= MOST_POINTS, "{}", thin.len());
            assert!(thin.contains(&70) && thin.last() == Some(&2000));
        }
        assert_eq!(kept(&store, 2).len(), 2000, "it runs");
        assert_eq!(kept(&store, 3).len(), 30);
        assert_eq!(store.thin_ended().await.unwrap(), 0);
    }
}
