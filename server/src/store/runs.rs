//! Runs and their small facts.

use super::rows::{bytes, corrupt, source_name, source_of};
use super::{Reader, Slice, StoreError, StoreResult, Writer};
use answers::facts::{DeviceFacts, StepFacts};
use api::bench::{Fault, RowOfRun};
use api::ids::RunId;
use api::jobs::{RunOfJob, called};
use api::labels::{Label, Labels};
use api::leaks::{LeakSummary, Leaks};
use api::runs::RunSource;
use rusqlite::{OptionalExtension, Row, named_params, params};
use std::collections::BTreeSet;
use std::time::Duration;
use trace::device::DeviceIdx;
use trace::trace::{FormatInfo, QualityNote};
use trace::units::Bytes;

/// How long a deletion can be undone.
pub const UNDO: Duration = Duration::from_secs(10 * 60);

/// A run to insert.
pub struct NewRun {
    /// Derived from the hash.
    pub id: RunId,
    /// At first the name of the file.
    pub name: String,
    /// Where it came from.
    pub source: RunSource,
    /// Its blob, which must be stored already.
    pub blob: String,
    /// Who sent it, where people sign in.
    pub uploaded_by: Option<String>,
    /// Its trace, whose chunks must be stored already.
    pub trace: i64,
    /// Facts from the file's header.
    pub format: FormatInfo,
    /// Findings about the data.
    pub quality: Vec<QualityNote>,
    /// Facts of its devices and of the host's pinned memory, and their steps.
    pub devices: Vec<(DeviceFacts, Vec<StepFacts>)>,
    /// The findings about each device; empty if they are not known yet.
    pub leaks: Vec<(DeviceIdx, Leaks)>,
    /// Milliseconds since the epoch.
    pub created_ms: i64,
}

/// A run as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    /// Its id.
    pub id: RunId,
    /// Its name.
    pub name: String,
    /// Where it came from.
    pub source: RunSource,
    /// Milliseconds since the epoch.
    pub created_ms: i64,
    /// Set while the deletion can be undone.
    pub deleted_ms: Option<i64>,
    /// Who sent it, where people sign in.
    pub uploaded_by: Option<String>,
    /// Its blob.
    pub blob: String,
    /// Size as uploaded.
    pub file_bytes: Bytes,
    /// Its trace.
    pub trace: i64,
    /// Pickle protocol.
    pub pickle_protocol: Option<u8>,
    /// The torch versions that write such a file.
    pub torch_guess: Option<String>,
    /// Its devices.
    pub devices: Vec<DeviceFacts>,
    /// The host's pinned memory, if it was recorded.
    pub pinned: Option<DeviceFacts>,
    /// Findings about the data.
    pub quality: Vec<QualityNote>,
    /// What went wrong in the bench row that recorded it.
    pub faults: Vec<Fault>,
    /// Whether it leaks, once that is known.
    pub leaks: Option<LeakSummary>,
    /// Which rank of which job it is.
    pub job: Option<RunOfJob>,
    /// Its labels.
    pub labels: Labels,
}

impl StoredRun {
    /// What it is called beside other runs ([`called`]). It names the job, which a link does not.
    pub fn called(&self) -> String {
        called(&self.name, self.job.as_ref())
    }
}

/// Which runs to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that are not deleted.
    Live,
    /// Those whose deletion can be undone.
    Deleted,
}

/// The part of a run that a request for a picture needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRef {
    /// Its trace.
    pub trace: i64,
    /// Its blob.
    pub blob: String,
}

/// Which runs a statement is about.
#[derive(Clone, Copy)]
pub(super) struct Selected<'a> {
    /// A condition on `runs`, which names what is wanted as `:wanted`.
    pub condition: &'a str,
    /// What is wanted: an id, or several values as a JSON array.
    pub wanted: Option<&'a str>,
}

impl Selected<'_> {
    /// One run.
    pub(super) fn one(run: &RunId) -> Selected<'_> {
        Selected {
            condition: "id = :wanted",
            wanted: Some(run.as_str()),
        }
    }
}

/// The condition that a run has all labels of the second entry of the JSON array `:wanted`: so one
/// statement does for any number of labels.
pub(super) const LABELLED: &str = "id IN (SELECT l.run FROM json_each(:wanted, '$[1]') w \
     JOIN labels l ON l.key = w.value ->> 0 AND l.value = w.value ->> 1 \
     GROUP BY l.run HAVING count(*) = json_array_length(:wanted, '$[1]'))";

impl Reader<'_> {
    /// Runs that have all of these labels, newest first.
    pub fn runs(
        &self,
        which: Which,
        labels: &[Label],
        slice: Slice,
    ) -> StoreResult<Vec<StoredRun>> {
        self.runs_by(which, labels, None, slice)
    }

    /// Runs that have all of these labels and were sent by this person, newest first.
    pub fn runs_by(
        &self,
        which: Which,
        labels: &[Label],
        by: Option<&str>,
        Slice { offset, limit }: Slice,
    ) -> StoreResult<Vec<StoredRun>> {
        let deleted = match which {
            Which::Live => "IS NULL",
            Which::Deleted => "IS NOT NULL",
        };
        let order = format!("ORDER BY created_ms DESC, id LIMIT {limit} OFFSET {offset}");
        if labels.is_empty() && by.is_none() {
            let listed = format!("SELECT id FROM runs WHERE deleted_ms {deleted} {order}");
            return self.runs_where(Selected {
                condition: &format!("id IN ({listed}) AND :wanted IS NULL"),
                wanted: None,
            });
        }
        // What is wanted is passed as one JSON array, the person first.
        let wanted: BTreeSet<_> = labels.iter().map(|l| (&l.key, &l.value)).collect();
        let json = serde_json::to_string(&(by, &wanted)).expect("texts are plain data");
        let sent = match by {
            Some(_) => "AND uploaded_by COLLATE NOCASE = :wanted ->> 0",
            None => "",
        };
        let labelled = match wanted.is_empty() {
            true => "",
            false => &format!("AND {LABELLED}"),
        };
        let listed =
            format!("SELECT id FROM runs WHERE deleted_ms {deleted} {sent} {labelled} {order}");
        self.runs_where(Selected {
            condition: &format!("id IN ({listed})"),
            wanted: Some(&json),
        })
    }

    /// The run with this id, if it is one of these.
    pub fn run_among(&self, which: Which, id: &RunId) -> StoreResult<Vec<StoredRun>> {
        let mut found = self.runs_where(Selected::one(id))?;
        found.retain(|run| run.deleted_ms.is_some() == (which == Which::Deleted));
        Ok(found)
    }

    /// One run, deleted or not.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn run(&self, id: &RunId) -> StoreResult<StoredRun> {
        let found = self.runs_where(Selected::one(id))?.pop();
        found.ok_or_else(|| no_run(id))
    }

    /// How many runs there are, deleted or not.
    pub fn all_runs(&self) -> StoreResult<usize> {
        let sql = "SELECT count(*) FROM runs";
        let runs: u32 = self.tx.query_row(sql, [], |row| row.get(0))?;
        Ok(runs as usize)
    }

    /// Whether the run is there, deleted or not.
    pub fn has_run(&self, id: &RunId) -> StoreResult<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?1)";
        let mut statement = self.tx.prepare_cached(sql)?;
        Ok(statement.query_row([id.as_str()], |row| row.get(0))?)
    }

    /// The place of the trace of a run that is not deleted.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and [`StoreError::Deleted`] while it can be restored.
    pub fn run_ref(&self, id: &RunId) -> StoreResult<RunRef> {
        let sql = "SELECT trace, blob, deleted_ms FROM runs WHERE id = ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let found = statement.query_row([id.as_str()], |row| {
            let found = RunRef {
                trace: row.get(0)?,
                blob: row.get(1)?,
            };
            Ok((found, row.get::<_, Option<i64>>(2)?))
        });
        match found.optional()? {
            None => Err(no_run(id)),
            Some((found, None)) => Ok(found),
            Some((_, Some(at_ms))) => Err(StoreError::Deleted {
                id: id.clone(),
                at_ms,
            }),
        }
    }

    /// Runs whose trace was stored by another version or has lost its chunks, with their blobs.
    /// Runs for which `attempts` attempts have failed are left out.
    pub fn outdated_runs(&self, version: u32, attempts: u32) -> StoreResult<Vec<(RunId, String)>> {
        let sql = "SELECT runs.id, runs.blob FROM runs JOIN traces ON traces.id = runs.trace \
                   WHERE (traces.stored_version <> ?1 \
                   OR NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.trace = runs.trace)) \
                   AND traces.attempts < ?2 \
                   ORDER BY traces.attempts, runs.created_ms DESC";
        let mut statement = self.tx.prepare(sql)?;
        let rows =
            statement.query_map([version, attempts], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut outdated = Vec::new();
        for row in rows {
            let (id, blob): (String, String) = row?;
            outdated.push((id.parse().map_err(|_| corrupt("run id", &id))?, blob));
        }
        Ok(outdated)
    }

    /// The run whose trace this is, with its blob.
    pub fn run_of_trace(&self, trace: i64) -> StoreResult<Option<(RunId, String)>> {
        let sql = "SELECT id, blob FROM runs WHERE trace = ?1";
        let row = self.tx.query_row(sql, [trace], |row| {
            Ok((row.get::<_, String>(0)?, row.get(1)?))
        });
        let Some((id, blob)) = row.optional()? else {
            return Ok(None);
        };
        Ok(Some((
            id.parse().map_err(|_| corrupt("run id", &id))?,
            blob,
        )))
    }

    /// How often somebody tried to derive a trace again.
    pub fn rebuilds(&self, trace: i64) -> StoreResult<u32> {
        let sql = "SELECT attempts FROM traces WHERE id = ?1";
        Ok(self.tx.query_row(sql, [trace], |row| row.get(0))?)
    }

    pub(super) fn runs_where(&self, selected: Selected<'_>) -> StoreResult<Vec<StoredRun>> {
        let Selected { condition, .. } = selected;
        let mut devices = self.devices_where(selected)?;
        let mut quality = self.quality_where(selected)?;
        let mut ends = self.ends_where(selected)?;
        let mut leaks = self.verdicts_where(selected)?;
        let mut jobs = self.jobs_where(selected)?;
        let mut labels = self.labels_where(selected)?;
        let sql = format!(
            "SELECT runs.*, blobs.file_bytes FROM runs JOIN blobs ON blobs.hash = runs.blob \
             WHERE {condition} ORDER BY runs.created_ms DESC, id"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":wanted": selected.wanted })?;
        let mut runs = Vec::new();
        while let Some(row) = rows.next()? {
            let id: String = row.get("id")?;
            let devices = devices.remove(&id).unwrap_or_default();
            let quality = quality.remove(&id).unwrap_or_default();
            let end = ends.remove(&id);
            let faults = end.iter().flat_map(RowOfRun::faults).collect();
            let leaks = leaks.remove(&id);
            let leaks = leaks.map(|leaks| beside(leaks, &devices, end.as_ref()));
            let job = jobs.remove(&id);
            let labels = labels.remove(&id).unwrap_or_default();
            runs.push(StoredRun {
                faults,
                leaks,
                job,
                labels,
                ..run_of(row, id, devices, quality)?
            });
        }
        Ok(runs)
    }
}

impl Writer<'_> {
    /// Inserts a run with its facts. From now on everybody sees it.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when there is already a run of the same bytes.
    pub fn insert_run(&mut self, run: &NewRun) -> StoreResult<()> {
        if self.reader().has_run(&run.id)? {
            return Err(StoreError::Conflict(format!("{} is there already", run.id)));
        }
        self.tx.execute(
            "INSERT INTO runs (id, name, source, created_ms, blob, trace, pickle_protocol, \
             torch_guess, uploaded_by) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                run.id.as_str(),
                run.name,
                source_name(run.source),
                run.created_ms,
                run.blob,
                run.trace,
                run.format.pickle_protocol,
                run.format.torch_guess,
                run.uploaded_by,
            ],
        )?;
        let sql = "DELETE FROM quarantine WHERE hash = ?1";
        self.tx.execute(sql, [&run.blob])?;
        self.insert_facts(run)
    }

    /// Sets the date of a run, for runs whose date the database has lost.
    pub fn date_run(&mut self, id: &RunId, created_ms: i64) -> StoreResult<()> {
        let sql = "UPDATE runs SET created_ms = ?2 WHERE id = ?1";
        self.changed_one(id, self.tx.execute(sql, params![id.as_str(), created_ms])?)
    }

    /// Renames a run that is not deleted.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] and [`StoreError::Deleted`].
    pub fn rename_run(&mut self, id: &RunId, name: &str) -> StoreResult<()> {
        self.reader().run_ref(id)?;
        let sql = "UPDATE runs SET name = ?2 WHERE id = ?1";
        self.changed_one(id, self.tx.execute(sql, params![id.as_str(), name])?)
    }

    /// Hides a run. [`Writer::restore_run`] undoes that, until the run is removed for good.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn delete_run(&mut self, id: &RunId, now_ms: i64) -> StoreResult<()> {
        let sql = "UPDATE runs SET deleted_ms = coalesce(deleted_ms, ?2) WHERE id = ?1";
        self.changed_one(id, self.tx.execute(sql, params![id.as_str(), now_ms])?)
    }

    /// Shows a hidden run again. Does nothing if the run is not hidden.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn restore_run(&mut self, id: &RunId) -> StoreResult<()> {
        let sql = "UPDATE runs SET deleted_ms = NULL WHERE id = ?1";
        self.changed_one(id, self.tx.execute(sql, [id.as_str()])?)
    }

    /// Runs and jobs that were deleted at a time that has not come, by a clock that was wrong, were
    /// deleted now: else they would stay until then.
    pub fn date_deletions(&mut self, now_ms: i64) -> StoreResult<()> {
        for table in ["runs", "jobs"] {
            let sql = format!("UPDATE {table} SET deleted_ms = ?1 WHERE deleted_ms > ?1");
            self.tx.execute(&sql, [now_ms])?;
        }
        Ok(())
    }

    /// Gives runs that have a date that has not come this one. Returns how many.
    pub fn date_runs(&mut self, now_ms: i64) -> StoreResult<usize> {
        let sql = "UPDATE runs SET created_ms = ?1 WHERE created_ms > ?1";
        Ok(self.tx.execute(sql, [now_ms])?)
    }

    /// Removes for good the runs that were deleted before `before_ms`, with their traces. Returns
    /// how many.
    pub fn purge_runs(&mut self, before_ms: i64) -> StoreResult<usize> {
        let sql = "DELETE FROM runs WHERE deleted_ms < ?1 RETURNING trace";
        let mut statement = self.tx.prepare(sql)?;
        let traces = statement.query_map([before_ms], |row| row.get(0))?;
        let traces: Vec<i64> = traces.collect::<Result<_, _>>()?;
        // Only these traces: a trace without a run may also belong to an upload that is being read.
        for &trace in &traces {
            self.drop_trace(trace)?;
        }
        Ok(traces.len())
    }

    /// Gives an existing run another trace and the facts of that trace.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn replace_trace(&mut self, run: &NewRun) -> StoreResult<()> {
        let old: Option<i64> = self
            .tx
            .query_row(
                "SELECT trace FROM runs WHERE id = ?1",
                [run.id.as_str()],
                |row| row.get(0),
            )
            .optional()?;
        let old = old.ok_or_else(|| no_run(&run.id))?;
        for table in ["settings", "quality", "devices", "rank_profiles"] {
            let sql = format!("DELETE FROM {table} WHERE run = ?1");
            self.tx.execute(&sql, [run.id.as_str()])?;
        }
        self.tx.execute(
            "UPDATE runs SET trace = ?2, pickle_protocol = ?3, torch_guess = ?4 WHERE id = ?1",
            params![
                run.id.as_str(),
                run.trace,
                run.format.pickle_protocol,
                run.format.torch_guess,
            ],
        )?;
        self.drop_trace(old)?;
        self.insert_facts(run)
    }

    /// Counts an attempt to derive the trace of a run again.
    pub fn count_rebuild(&mut self, id: &RunId) -> StoreResult<()> {
        let sql = "UPDATE traces SET attempts = attempts + 1 \
                   WHERE id = (SELECT trace FROM runs WHERE id = ?1)";
        self.tx.execute(sql, [id.as_str()])?;
        Ok(())
    }

    /// Removes traces that no run points at. Call this only when no upload is being read: at the
    /// start.
    pub fn purge_traces(&mut self) -> StoreResult<usize> {
        let sql = "DELETE FROM traces WHERE id NOT IN (SELECT trace FROM runs)";
        Ok(self.tx.execute(sql, [])?)
    }

    fn changed_one(&self, id: &RunId, changed: usize) -> StoreResult<()> {
        if changed == 1 {
            Ok(())
        } else {
            Err(no_run(id))
        }
    }
}

fn no_run(id: &RunId) -> StoreError {
    StoreError::NotFound {
        what: "run",
        id: id.to_string(),
    }
}

/// What is said of a run beside what the benches know of it, as on its page.
fn beside(leaks: LeakSummary, devices: &[DeviceFacts], end: Option<&RowOfRun>) -> LeakSummary {
    let mut judged = devices.iter();
    match judged.find(|device| device.device == leaks.device) {
        Some(device) => leaks.beside(end, device.steps),
        None => leaks,
    }
}

fn run_of(
    row: &Row,
    id: String,
    mut devices: Vec<DeviceFacts>,
    quality: Vec<QualityNote>,
) -> StoreResult<StoredRun> {
    // Its number is higher than that of any device.
    let pinned = devices.pop_if(|last| last.device.is_pinned());
    Ok(StoredRun {
        pinned,
        id: id.parse().map_err(|_| corrupt("run id", &id))?,
        name: row.get("name")?,
        source: source_of(&row.get::<_, String>("source")?)?,
        created_ms: row.get("created_ms")?,
        deleted_ms: row.get("deleted_ms")?,
        uploaded_by: row.get("uploaded_by")?,
        blob: row.get("blob")?,
        file_bytes: bytes(row, "file_bytes")?,
        trace: row.get("trace")?,
        pickle_protocol: row.get("pickle_protocol")?,
        torch_guess: row.get("torch_guess")?,
        devices,
        quality,
        faults: Vec::new(),
        leaks: None,
        job: None,
        labels: Labels::new(),
    })
}
