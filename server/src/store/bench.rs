//! Benches, their rows, and the queue in which the rows wait.

use super::rows::{Slice, bytes, corrupt, int, named, uint};
use super::{Reader, StoreError, StoreResult, Writer, bench_host};
use api::bench::{
    Bench, BenchProgress, BenchResult, BenchRow, BenchRowState, BenchStatus, BenchStep,
    BenchSummary, CardFacts, DeviceKind, Known, RowCounts,
};
use api::ids::{BenchId, BenchRowId, RunId};
use rusqlite::{OptionalExtension, Row, params};
use std::collections::HashMap;
use trace::units::Bytes;

/// A row that was running when the server died this many times is marked as failed.
const MOST_CLAIMS: u32 = 3;

/// A bench to insert.
#[derive(Clone, Debug, PartialEq)]
pub struct NewBench {
    /// Its id.
    pub id: BenchId,
    /// Milliseconds since the epoch.
    pub created_ms: i64,
    /// Where it runs.
    pub device: DeviceKind,
    /// Steps, where the request named a number.
    pub steps: Option<u32>,
    /// Device memory in bytes, where the request named one.
    pub capacity: Option<Bytes>,
    /// Steps recorded event by event.
    pub recorded_steps: u32,
    /// Its rows, in order.
    pub rows: Vec<NewBenchRow>,
}

/// A row to insert, queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBenchRow {
    /// Its id.
    pub id: BenchRowId,
    /// Id of the configuration.
    pub config: String,
    /// Ids of the patches.
    pub patches: Vec<String>,
    /// Steps to run.
    pub steps: u32,
}

/// A row that the queue has taken up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchJob {
    /// The row.
    pub row: BenchRowId,
    /// Its bench.
    pub bench: BenchId,
    /// Id of the configuration.
    pub config: String,
    /// Ids of the patches.
    pub patches: Vec<String>,
    /// Steps to run.
    pub steps: u32,
    /// Where the row runs.
    pub device: DeviceKind,
    /// Device memory in bytes.
    pub capacity: Option<Bytes>,
    /// Steps recorded event by event.
    pub recorded_steps: u32,
}

/// How a row ended.
#[derive(Clone, Debug, PartialEq)]
pub enum BenchEnd {
    /// With a result.
    Done {
        /// The verdict from this row alone, without the other rows of the bench.
        status: BenchStatus,
        /// The numbers.
        result: Box<BenchResult>,
        /// The version of the program that the patches were applied to.
        base: String,
        /// The run that was made of the recording.
        run: Option<RunId>,
        /// What of it could not be stored, and why.
        note: Option<String>,
    },
    /// Without a result.
    Failed {
        /// Why, as a sentence.
        reason: String,
    },
    /// It was cancelled.
    Cancelled,
}

/// The state of a row at the moment when somebody asked to stop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It was waiting, and is cancelled now.
    Waiting,
    /// It is running: the caller must end its process.
    UnderWay,
}

impl Reader<'_> {
    /// Benches, newest first.
    pub fn benches(&self, Slice { offset, limit }: Slice) -> StoreResult<Vec<BenchSummary>> {
        let sql = "SELECT b.id, b.created_ms, b.device, \
                   sum(r.state = 'queued') AS queued, sum(r.state = 'running') AS running, \
                   sum(r.state = 'done') AS done, sum(r.state = 'failed') AS failed, \
                   sum(r.state = 'cancelled') AS cancelled \
                   FROM benches b JOIN bench_rows r ON r.bench = b.id \
                   WHERE b.id IN (SELECT id FROM benches ORDER BY created_ms DESC, id \
                   LIMIT ?1 OFFSET ?2) \
                   GROUP BY b.id ORDER BY b.created_ms DESC, b.id";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([limit, offset])?;
        let mut benches = Vec::new();
        while let Some(row) = rows.next()? {
            let id: String = row.get("id")?;
            benches.push(BenchSummary {
                created_ms: row.get("created_ms")?,
                device: device_of(row)?,
                configs: self.bench_configs(&id)?,
                rows: RowCounts {
                    queued: row.get("queued")?,
                    running: row.get("running")?,
                    done: row.get("done")?,
                    failed: row.get("failed")?,
                    cancelled: row.get("cancelled")?,
                },
                id: bench_id(&id)?,
            });
        }
        Ok(benches)
    }

    fn bench_configs(&self, bench: &str) -> StoreResult<Vec<String>> {
        let sql = "SELECT config FROM bench_rows WHERE bench = ?1 GROUP BY config \
                   ORDER BY min(position)";
        let mut statement = self.tx.prepare_cached(sql)?;
        let configs = statement.query_map([bench], |row| row.get(0))?;
        configs.map(|config| Ok(config?)).collect()
    }

    /// A bench with its rows, without the figures of others (they are not in the database).
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn bench(&self, id: &BenchId) -> StoreResult<Bench> {
        let sql = "SELECT * FROM benches WHERE id = ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let found = statement.query_row([id.as_str()], |row| {
            Ok((
                row.get("created_ms")?,
                device_of(row),
                row.get("steps")?,
                row.get::<_, Option<i64>>("capacity")?,
                row.get("recorded_steps")?,
            ))
        });
        let missing = || StoreError::NotFound {
            what: "bench",
            id: id.to_string(),
        };
        let (created_ms, device, steps, capacity, recorded_steps) =
            found.optional()?.ok_or_else(missing)?;
        Ok(Bench {
            id: id.clone(),
            created_ms,
            device: device?,
            steps,
            capacity: capacity.map(|bytes| Bytes(bytes.max(0) as u64)),
            recorded_steps,
            rows: self.bench_rows_of(id)?,
        })
    }

    fn bench_rows_of(&self, bench: &BenchId) -> StoreResult<Vec<BenchRow>> {
        let mut sparks = self.sparks(bench)?;
        let sql = "SELECT r.*, runs.id AS live_run, \
                   (SELECT count(*) FROM bench_rows q WHERE q.state = 'running' \
                    OR (q.state = 'queued' AND q.place < r.place)) AS ahead \
                   FROM bench_rows r \
                   LEFT JOIN runs ON runs.id = r.run AND runs.deleted_ms IS NULL \
                   WHERE r.bench = ?1 ORDER BY r.position";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([bench.as_str()])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let id: String = row.get("id")?;
            let spark = sparks.remove(&id).unwrap_or_default();
            let mut row = row_of(row, &id, spark)?;
            if let Some(old) = row.result.as_mut().filter(|r| r.host_pinned_peak.is_none()) {
                let mut steps = self.bench_steps(&row.id)?;
                steps.truncate(old.steps_run as usize);
                old.host_growth_per_step = bench_host::growth_of(&steps);
            }
            found.push(row);
        }
        Ok(found)
    }

    /// Evenly spaced steps of each row, and its last one.
    fn sparks(&self, bench: &BenchId) -> StoreResult<HashMap<String, Vec<Bytes>>> {
        let sql = "SELECT s.row, s.allocated FROM bench_rows r JOIN bench_steps s ON s.row = r.id \
                   WHERE r.bench = ?1 AND (s.step % max(1, (r.planned_steps + ?2 - 1) / ?2) = 0 \
                   OR s.step + 1 = r.steps_run) ORDER BY s.row, s.step";
        let mut statement = self.tx.prepare_cached(sql)?;
        let spaced = BenchRow::SPARK_POINTS as i64 - 1;
        let mut rows = statement.query(params![bench.as_str(), spaced])?;
        let mut found: HashMap<String, Vec<Bytes>> = HashMap::new();
        while let Some(row) = rows.next()? {
            let allocated = bytes(row, "allocated")?;
            found.entry(row.get(0)?).or_default().push(allocated);
        }
        Ok(found)
    }

    /// The bench that a row belongs to.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn bench_of_row(&self, row: &BenchRowId) -> StoreResult<BenchId> {
        let sql = "SELECT bench FROM bench_rows WHERE id = ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let found = statement.query_row([row.as_str()], |row| row.get::<_, String>(0));
        bench_id(&found.optional()?.ok_or_else(|| no_row(row))?)
    }

    /// Rows of a bench that are not finished.
    pub fn unfinished_bench_rows(&self, bench: &BenchId) -> StoreResult<Vec<BenchRowId>> {
        let sql = "SELECT id FROM bench_rows WHERE bench = ?1 AND state IN ('queued', 'running') \
                   ORDER BY position DESC";
        let mut statement = self.tx.prepare_cached(sql)?;
        let rows = statement.query_map([bench.as_str()], |row| row.get::<_, String>(0))?;
        rows.map(|id| row_id(&id?)).collect()
    }

    /// Rows that wait for their turn, of all benches.
    pub fn waiting_bench_rows(&self) -> StoreResult<u64> {
        let sql = "SELECT count(*) FROM bench_rows WHERE state = 'queued'";
        let rows: i64 = self.tx.query_row(sql, [], |row| row.get(0))?;
        Ok(rows.unsigned_abs())
    }

    /// Every step of a row.
    pub fn bench_steps(&self, row: &BenchRowId) -> StoreResult<Vec<BenchStep>> {
        let sql = "SELECT * FROM bench_steps WHERE row = ?1 ORDER BY step";
        let mut statement = self.tx.prepare_cached(sql)?;
        let rows = statement.query_map([row.as_str()], |row| {
            Ok(BenchStep {
                step: row.get("step")?,
                allocated: bytes(row, "allocated")?,
                peak_allocated: bytes(row, "peak_allocated")?,
                reserved: bytes(row, "reserved")?,
                tracker: uint(row, "tracker")?,
                bwd_stash: uint(row, "bwd_stash")?,
                host_pinned: bytes(row, "host_pinned")?,
                seconds: row.get("seconds")?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn bench_job(&self, row: &str) -> StoreResult<BenchJob> {
        let sql = "SELECT r.id, r.bench, r.config, r.patches, r.planned_steps, b.device, \
                   b.capacity, b.recorded_steps FROM bench_rows r \
                   JOIN benches b ON b.id = r.bench WHERE r.id = ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([row])?;
        let row = rows.next()?.ok_or_else(|| corrupt("bench row", row))?;
        let capacity: Option<i64> = row.get("capacity")?;
        Ok(BenchJob {
            row: row_id(&row.get::<_, String>("id")?)?,
            bench: bench_id(&row.get::<_, String>("bench")?)?,
            config: row.get("config")?,
            patches: patches_of(&row.get::<_, String>("patches")?),
            steps: row.get("planned_steps")?,
            device: device_of(row)?,
            capacity: capacity.map(|bytes| Bytes(bytes.max(0) as u64)),
            recorded_steps: row.get("recorded_steps")?,
        })
    }
}

impl Writer<'_> {
    /// Inserts a bench; its rows wait behind all others.
    pub fn insert_bench(&mut self, bench: &NewBench) -> StoreResult<()> {
        self.tx.execute(
            "INSERT INTO benches (id, created_ms, device, steps, capacity, recorded_steps) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                bench.id.as_str(),
                bench.created_ms,
                bench.device.name(),
                bench.steps,
                bench.capacity.map(|bytes| int(bytes.0)),
                bench.recorded_steps
            ],
        )?;
        let first = self.next_place()?;
        let sql = "INSERT INTO bench_rows (id, bench, position, place, config, patches, \
                   planned_steps, state, claims, queued_ms) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'queued', 0, ?8)";
        let mut statement = self.tx.prepare_cached(sql)?;
        for (position, row) in bench.rows.iter().enumerate() {
            statement.execute(params![
                row.id.as_str(),
                bench.id.as_str(),
                position as i64,
                first + position as i64,
                row.config,
                row.patches.join("+"),
                row.steps,
                bench.created_ms
            ])?;
        }
        Ok(())
    }

    fn next_place(&self) -> StoreResult<i64> {
        let sql = "SELECT coalesce(max(place), 0) + 1 FROM bench_rows";
        Ok(self.tx.query_row(sql, [], |row| row.get(0))?)
    }

    /// Takes up the row that has waited longest.
    pub fn claim_bench_row(&mut self, now_ms: i64) -> StoreResult<Option<BenchJob>> {
        let sql = "UPDATE bench_rows SET state = 'running', claims = claims + 1, started_ms = ?1 \
                   WHERE id = (SELECT id FROM bench_rows WHERE state = 'queued' \
                               ORDER BY place LIMIT 1) RETURNING id";
        let claimed = self
            .tx
            .query_row(sql, [now_ms], |row| row.get::<_, String>(0));
        match claimed.optional()? {
            Some(id) => self.reader().bench_job(&id).map(Some),
            None => Ok(None),
        }
    }

    /// Puts back a row that this server has taken up but will not finish.
    pub fn release_bench_row(&mut self, row: &BenchRowId) -> StoreResult<()> {
        let sql = "UPDATE bench_rows SET state = 'queued', claims = claims - 1, \
                   started_ms = NULL WHERE id = ?1 AND state = 'running'";
        self.tx.execute(sql, [row.as_str()])?;
        Ok(())
    }

    /// Puts rows that were running when a server died back into the queue. A row during which
    /// several servers died is marked as failed. Call this only with the data folder locked, before
    /// any row is taken from the queue.
    pub fn requeue_bench_rows(&mut self, now_ms: i64) -> StoreResult<usize> {
        let sql = "UPDATE bench_rows SET state = 'failed', finished_ms = ?1, reason = ?3 \
                   WHERE state = 'running' AND claims >= ?2";
        let reason = format!("the server stopped {MOST_CLAIMS} times while this row ran");
        self.tx.execute(sql, params![now_ms, MOST_CLAIMS, reason])?;
        let sql = "UPDATE bench_rows SET state = 'queued', started_ms = NULL \
                   WHERE state = 'running'";
        Ok(self.tx.execute(sql, [])?)
    }

    /// Ends a row that is under way.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the row is no longer running.
    pub fn finish_bench_row(
        &mut self,
        row: &BenchRowId,
        end: &BenchEnd,
        steps: &[BenchStep],
        now_ms: i64,
    ) -> StoreResult<()> {
        let (state, reason) = match end {
            BenchEnd::Done { note, .. } => ("done", note.as_ref()),
            BenchEnd::Failed { reason } => ("failed", Some(reason)),
            BenchEnd::Cancelled => ("cancelled", None),
        };
        let changed = self.tx.execute(
            "UPDATE bench_rows SET state = ?2, reason = ?3, finished_ms = ?4 \
             WHERE id = ?1 AND state = 'running'",
            params![row.as_str(), state, reason, now_ms],
        )?;
        if changed != 1 {
            return Err(StoreError::Conflict(format!("{row} is not under way")));
        }
        if let BenchEnd::Done {
            status,
            result,
            base,
            run,
            ..
        } = end
        {
            self.set_bench_result(row, result, base, run.as_ref())?;
            self.set_bench_status(row, *status)?;
        }
        self.insert_bench_steps(row, steps)
    }

    /// Fails on each row that ends, as on a full disk.
    #[cfg(test)]
    pub fn end_no_rows(&mut self) -> StoreResult<()> {
        let sql = "CREATE TRIGGER full BEFORE UPDATE ON bench_rows \
                   BEGIN SELECT RAISE(FAIL, 'the disk is full'); END";
        Ok(self.tx.execute_batch(sql)?)
    }

    /// Ends [`Writer::end_no_rows`].
    #[cfg(test)]
    pub fn end_rows_again(&mut self) -> StoreResult<()> {
        Ok(self.tx.execute_batch("DROP TRIGGER full")?)
    }

    fn set_bench_result(
        &mut self,
        row: &BenchRowId,
        result: &BenchResult,
        base: &str,
        run: Option<&RunId>,
    ) -> StoreResult<()> {
        let card = |value: fn(&CardFacts) -> u64| result.card.as_ref().map(|c| int(value(c)));
        self.tx.execute(
            "UPDATE bench_rows SET run = ?2, device_name = ?3, base = ?4, \
             steps_run = ?5, peak_allocated = ?6, peak_reserved = ?7, allocated_end = ?8, \
             growth_per_step = ?9, growth_error = ?10, oom_step = ?11, crash = ?12, \
             corrupted_tensors = ?13, races = ?14, tracker_end = ?15, bwd_stash_end = ?16, \
             host_pinned_end = ?17, d2h_bytes = ?18, h2d_bytes = ?19, step_seconds = ?20, \
             card_total = ?21, card_free_start = ?22, card_free_min = ?23, \
             card_peak_used = ?24, verified_tensors = ?25, early_decisions = ?26, \
             host_growth_per_step = ?27, host_pinned_peak = ?28, began = ?29 WHERE id = ?1",
            params![
                row.as_str(),
                run.map(RunId::as_str),
                result.device,
                base,
                result.steps_run,
                int(result.peak_allocated.0),
                int(result.peak_reserved.0),
                int(result.allocated_end.0),
                result.growth_per_step,
                result.growth_error,
                result.oom_step,
                result.crash,
                int(result.corrupted_tensors),
                int(result.races),
                int(result.tracker_end),
                int(result.bwd_stash_end),
                int(result.host_pinned_end.0),
                int(result.d2h_bytes.0),
                int(result.h2d_bytes.0),
                result.step_seconds,
                card(|card| card.total.0),
                card(|card| card.free_at_start.0),
                card(|card| card.free_min.0),
                card(|card| card.peak_used.0),
                card(|card| card.verified_tensors),
                card(|card| card.early_decisions),
                result.host_growth_per_step,
                int(result.host_pinned_peak.unwrap_or_default().0),
                result.began,
            ],
        )?;
        Ok(())
    }

    fn insert_bench_steps(&mut self, row: &BenchRowId, steps: &[BenchStep]) -> StoreResult<()> {
        let sql = "INSERT INTO bench_steps VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let mut statement = self.tx.prepare_cached(sql)?;
        for step in steps {
            statement.execute(params![
                row.as_str(),
                step.step,
                int(step.allocated.0),
                int(step.peak_allocated.0),
                int(step.reserved.0),
                int(step.tracker),
                int(step.bwd_stash),
                int(step.host_pinned.0),
                step.seconds
            ])?;
        }
        Ok(())
    }

    /// Stores a verdict that changed because of another row of the bench.
    pub fn set_bench_status(&mut self, row: &BenchRowId, status: BenchStatus) -> StoreResult<()> {
        self.tx.execute(
            "UPDATE bench_rows SET status = ?2 WHERE id = ?1 AND state = 'done'",
            params![row.as_str(), status.word()],
        )?;
        Ok(())
    }

    /// Cancels a waiting row. For a running row, only returns that it is running.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and [`StoreError::Conflict`] when the row is finished.
    pub fn stop_bench_row(&mut self, row: &BenchRowId, now_ms: i64) -> StoreResult<Stopped> {
        let sql = "UPDATE bench_rows SET state = 'cancelled', finished_ms = ?2 \
                   WHERE id = ?1 AND state = 'queued'";
        if self.tx.execute(sql, params![row.as_str(), now_ms])? == 1 {
            return Ok(Stopped::Waiting);
        }
        match self.bench_row_state(row)?.as_str() {
            "running" => Ok(Stopped::UnderWay),
            state => Err(StoreError::Conflict(format!("{row} is {state} already"))),
        }
    }

    /// Queues a finished row again, behind all others, and deletes its result. The run that was
    /// made of its recording stays.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and [`StoreError::Conflict`] when it is not finished.
    pub fn rerun_bench_row(&mut self, row: &BenchRowId, now_ms: i64) -> StoreResult<()> {
        let place = self.next_place()?;
        let changed = self.tx.execute(
            "UPDATE bench_rows SET state = 'queued', place = ?2, queued_ms = ?3, claims = 0, \
             reason = NULL, started_ms = NULL, finished_ms = NULL, run = NULL, status = NULL, \
             device_name = NULL, base = NULL, steps_run = NULL, peak_allocated = NULL, \
             peak_reserved = NULL, allocated_end = NULL, growth_per_step = NULL, \
             growth_error = NULL, oom_step = NULL, crash = NULL, corrupted_tensors = NULL, \
             races = NULL, tracker_end = NULL, bwd_stash_end = NULL, host_pinned_end = NULL, \
             d2h_bytes = NULL, h2d_bytes = NULL, step_seconds = NULL, card_total = NULL, \
             card_free_start = NULL, card_free_min = NULL, card_peak_used = NULL, \
             verified_tensors = NULL, early_decisions = NULL, host_growth_per_step = 0, \
             host_pinned_peak = 0, began = NULL \
             WHERE id = ?1 AND state NOT IN ('queued', 'running')",
            params![row.as_str(), place, now_ms],
        )?;
        if changed != 1 {
            let state = self.bench_row_state(row)?;
            return Err(StoreError::Conflict(format!("{row} is {state} already")));
        }
        let sql = "DELETE FROM bench_steps WHERE row = ?1";
        self.tx.execute(sql, [row.as_str()])?;
        Ok(())
    }

    /// Deletes a bench. Its runs stay.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and [`StoreError::Conflict`] while a row is not finished.
    pub fn delete_bench(&mut self, bench: &BenchId) -> StoreResult<()> {
        if !self.reader().unfinished_bench_rows(bench)?.is_empty() {
            let busy = format!("{bench} has rows that are not finished; cancel them first");
            return Err(StoreError::Conflict(busy));
        }
        let sql = "DELETE FROM benches WHERE id = ?1";
        match self.tx.execute(sql, [bench.as_str()])? {
            1 => Ok(()),
            _ => Err(StoreError::NotFound {
                what: "bench",
                id: bench.to_string(),
            }),
        }
    }

    fn bench_row_state(&self, row: &BenchRowId) -> StoreResult<String> {
        let sql = "SELECT state FROM bench_rows WHERE id = ?1";
        let found = self
            .tx
            .query_row(sql, [row.as_str()], |row| row.get(0))
            .optional()?;
        found.ok_or_else(|| no_row(row))
    }
}

fn no_row(row: &BenchRowId) -> StoreError {
    StoreError::NotFound {
        what: "bench row",
        id: row.to_string(),
    }
}

fn bench_id(text: &str) -> StoreResult<BenchId> {
    text.parse().map_err(|_| corrupt("bench id", text))
}

fn row_id(text: &str) -> StoreResult<BenchRowId> {
    text.parse().map_err(|_| corrupt("bench row id", text))
}

fn patches_of(joined: &str) -> Vec<String> {
    let ids = joined.split('+').filter(|id| !id.is_empty());
    ids.map(str::to_owned).collect()
}

fn device_of(row: &Row) -> StoreResult<DeviceKind> {
    let name: String = row.get("device")?;
    named("device", &name, DeviceKind::ALL, DeviceKind::name)
}

fn row_of(row: &Row, id: &str, spark: Vec<Bytes>) -> StoreResult<BenchRow> {
    let run: Option<String> = row.get("live_run")?;
    let started: Option<i64> = row.get("started_ms")?;
    let finished: Option<i64> = row.get("finished_ms")?;
    let run = run.map(|run| run.parse().map_err(|_| corrupt("run id", &run)));
    let state = state_of(row)?;
    Ok(BenchRow {
        id: row_id(id)?,
        config: row.get("config")?,
        patches: patches_of(&row.get::<_, String>("patches")?),
        steps: row.get("planned_steps")?,
        note: match state {
            BenchRowState::Done => row.get("reason")?,
            _ => None,
        },
        state,
        status: status_of(row)?,
        result: result_of(row)?,
        spark,
        run: run.transpose()?,
        hypothesis: None,
        asserted: None,
        known: Known::default(),
        seconds: started
            .zip(finished)
            .map(|(from, to)| (to - from).max(0) as f64 / 1e3),
    })
}

fn state_of(row: &Row) -> StoreResult<BenchRowState> {
    let state: String = row.get("state")?;
    Ok(match state.as_str() {
        "queued" => BenchRowState::Queued {
            ahead: row.get("ahead")?,
        },
        "running" => BenchRowState::Running {
            progress: BenchProgress {
                steps: row.get("planned_steps")?,
                ..BenchProgress::default()
            },
        },
        "done" => BenchRowState::Done,
        "failed" => BenchRowState::Failed {
            reason: row.get::<_, Option<String>>("reason")?.unwrap_or_default(),
        },
        "cancelled" => BenchRowState::Cancelled,
        other => return Err(corrupt("state of a bench row", other)),
    })
}

fn status_of(row: &Row) -> StoreResult<Option<BenchStatus>> {
    let word: Option<String> = row.get("status")?;
    word.map(|word| named("status", &word, BenchStatus::ALL, BenchStatus::word))
        .transpose()
}

fn result_of(row: &Row) -> StoreResult<Option<BenchResult>> {
    if row.get::<_, Option<String>>("status")?.is_none() {
        return Ok(None);
    }
    Ok(Some(BenchResult {
        device: row.get("device_name")?,
        steps_run: row.get("steps_run")?,
        peak_allocated: bytes(row, "peak_allocated")?,
        peak_reserved: bytes(row, "peak_reserved")?,
        began: row.get("began")?,
        allocated_end: bytes(row, "allocated_end")?,
        growth_per_step: row.get("growth_per_step")?,
        growth_error: row.get("growth_error")?,
        host_growth_per_step: row.get("host_growth_per_step")?,
        oom_step: row.get("oom_step")?,
        crash: row.get("crash")?,
        corrupted_tensors: uint(row, "corrupted_tensors")?,
        races: uint(row, "races")?,
        tracker_end: uint(row, "tracker_end")?,
        bwd_stash_end: uint(row, "bwd_stash_end")?,
        host_pinned_end: bytes(row, "host_pinned_end")?,
        host_pinned_peak: bench_host::peak_of(row)?,
        d2h_bytes: bytes(row, "d2h_bytes")?,
        h2d_bytes: bytes(row, "h2d_bytes")?,
        step_seconds: row.get("step_seconds")?,
        card: card_of(row)?,
    }))
}

fn card_of(row: &Row) -> StoreResult<Option<CardFacts>> {
    if row.get::<_, Option<i64>>("card_total")?.is_none() {
        return Ok(None);
    }
    Ok(Some(CardFacts {
        total: bytes(row, "card_total")?,
        free_at_start: bytes(row, "card_free_start")?,
        free_min: bytes(row, "card_free_min")?,
        peak_used: bytes(row, "card_peak_used")?,
        verified_tensors: uint(row, "verified_tensors")?,
        corrupted_tensors: uint(row, "corrupted_tensors")?,
        early_decisions: uint(row, "early_decisions")?,
    }))
}
