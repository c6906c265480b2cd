//! Verdicts, and the findings about memory that accumulates, as rows.

use super::rows::{bytes, corrupt, int, named, step_source_of, uint};
use super::runs::Selected;
use super::{Reader, StoreResult, Writer};
use api::frames::{ForwardOp, FrameText};
use api::ids::RunId;
use api::leaks::{LeakGroup, LeakSummary, Leaks, Pattern, Verdict};
use rusqlite::{OptionalExtension, Row, named_params, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use trace::device::DeviceIdx;
use trace::leaks::Weight;
use trace::steps::recording::Kind;
use trace::units::Bytes;

/// The condition on `runs` that one is not deleted, and has a device that this version has not
/// judged.
const UNJUDGED: &str = "deleted_ms IS NULL AND EXISTS (SELECT 1 FROM devices d \
     WHERE d.run = runs.id AND NOT EXISTS (SELECT 1 FROM leak_reports r \
     WHERE r.run = d.run AND r.device = d.device AND r.version = ?1))";

impl Reader<'_> {
    /// The findings about a device of a run; `None` when this version has not looked yet.
    ///
    /// # Errors
    /// When a row holds something that this program would never write.
    pub fn leaks(&self, run: &RunId, device: DeviceIdx) -> StoreResult<Option<Leaks>> {
        let sql = "SELECT r.*, d.step_source, d.n_steps \
                   FROM leak_reports r JOIN devices d ON d.run = r.run AND d.device = r.device \
                   WHERE r.run = ?1 AND r.device = ?2 AND r.version = ?3";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query(params![run.as_str(), device.0, Leaks::VERSION])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        Ok(Some(Leaks {
            recording: recording_of(&row.get::<_, String>("recording")?)?,
            verdict: verdict_of(&row.get::<_, String>("verdict")?)?,
            reason: row.get("reason")?,
            caveats: parsed("caveats", &row.get::<_, String>("caveats")?)?,
            bytes_per_step: row.get("bytes_per_step")?,
            step_source: step_source_of(&row.get::<_, String>("step_source")?)?,
            steps: row.get("n_steps")?,
            step: row.get("step")?,
            reserved_growth: row.get("reserved_growth")?,
            groups: self.leak_groups(run, device)?,
        }))
    }

    fn leak_groups(&self, run: &RunId, device: DeviceIdx) -> StoreResult<Vec<LeakGroup>> {
        let sql = "SELECT * FROM leak_groups WHERE run = ?1 AND device = ?2 ORDER BY position";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query(params![run.as_str(), device.0])?;
        let mut groups = Vec::new();
        while let Some(row) = rows.next()? {
            groups.push(group_of(row)?);
        }
        Ok(groups)
    }

    /// Runs with at least one device that this version has not judged.
    ///
    /// # Errors
    /// The database's.
    pub fn unjudged_runs(&self) -> StoreResult<Vec<RunId>> {
        let sql = format!("SELECT id FROM runs WHERE {UNJUDGED} ORDER BY created_ms DESC");
        let mut statement = self.tx.prepare_cached(&sql)?;
        let rows = statement.query_map([Leaks::VERSION], |row| row.get::<_, String>(0))?;
        let ids: Vec<String> = rows.collect::<Result<_, _>>()?;
        let id = |id: String| id.parse().map_err(|_| corrupt("run id", &id));
        ids.into_iter().map(id).collect()
    }

    /// Whether a run is still one of [`Reader::unjudged_runs`].
    ///
    /// # Errors
    /// The database's.
    pub fn is_unjudged(&self, run: &RunId) -> StoreResult<bool> {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?2 AND {UNJUDGED})");
        let mut statement = self.tx.prepare_cached(&sql)?;
        Ok(statement.query_row(params![Leaks::VERSION, run.as_str()], |row| row.get(0))?)
    }

    /// One verdict for each run, that of the device that [`trace::leaks::worst`] chooses. Of the
    /// host's pinned memory only a leak counts.
    pub(super) fn verdicts_where(
        &self,
        selected: Selected<'_>,
    ) -> StoreResult<HashMap<String, LeakSummary>> {
        let Selected { condition, .. } = selected;
        let (version, pinned) = (Leaks::VERSION, DeviceIdx::PINNED);
        let sql = format!(
            "SELECT run, device, recording, verdict, reason, bytes_per_step, step \
             FROM leak_reports \
             WHERE version = {version} AND (device <> {pinned} OR verdict = 'leak') \
             AND run IN (SELECT id FROM runs WHERE {condition})"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":wanted": selected.wanted })?;
        let mut found: HashMap<String, (Weight, LeakSummary)> = HashMap::new();
        while let Some(row) = rows.next()? {
            let device = DeviceIdx(row.get("device")?);
            let verdict = verdict_of(&row.get::<_, String>("verdict")?)?;
            let speed: f64 = row.get("bytes_per_step")?;
            let weight = Weight::new(device, verdict, speed);
            let run: String = row.get("run")?;
            if found.get(&run).is_some_and(|(known, _)| *known > weight) {
                continue;
            }
            let summary = LeakSummary {
                device,
                recording: recording_of(&row.get::<_, String>("recording")?)?,
                verdict,
                reason: row.get("reason")?,
                bytes_per_step: Bytes(speed.round() as u64),
                step: row.get("step")?,
            };
            found.insert(run, (weight, summary));
        }
        let found = found.into_iter();
        Ok(found.map(|(run, (_, summary))| (run, summary)).collect())
    }
}

impl Writer<'_> {
    /// Deletes every verdict; verdicts can be derived again.
    #[cfg(test)]
    pub fn forget_verdicts(&mut self) -> StoreResult<usize> {
        Ok(self.tx.execute("DELETE FROM leak_reports", [])?)
    }

    /// Stores the findings about a device and replaces the earlier ones.
    ///
    /// # Errors
    /// The database's.
    pub fn put_leaks(&mut self, run: &RunId, device: DeviceIdx, leaks: &Leaks) -> StoreResult<()> {
        let sql = "DELETE FROM leak_reports WHERE run = ?1 AND device = ?2";
        self.tx.execute(sql, params![run.as_str(), device.0])?;
        let sql = "SELECT EXISTS (SELECT 1 FROM devices WHERE run = ?1 AND device = ?2)";
        let there = self
            .tx
            .query_row(sql, params![run.as_str(), device.0], |row| row.get(0));
        if !there.optional()?.unwrap_or(false) {
            // The run was removed in the meantime.
            return Ok(());
        }
        self.tx.execute(
            "INSERT INTO leak_reports VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                run.as_str(),
                device.0,
                Leaks::VERSION,
                verdict_name(leaks.verdict),
                leaks.reason,
                json(&leaks.caveats),
                leaks.bytes_per_step,
                leaks.recording.name(),
                leaks.step,
                leaks.reserved_growth,
            ],
        )?;
        for (position, group) in leaks.groups.iter().enumerate() {
            self.insert_group(run, device, position, group)?;
        }
        Ok(())
    }

    fn insert_group(
        &mut self,
        run: &RunId,
        device: DeviceIdx,
        position: usize,
        group: &LeakGroup,
    ) -> StoreResult<()> {
        let sql = "INSERT INTO leak_groups VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, \
                   ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, \
                   ?28)";
        let (frame, alloc) = (group.frame.as_ref(), group.alloc_frame.as_ref());
        self.tx.prepare_cached(sql)?.execute(params![
            run.as_str(),
            device.0,
            position as i64,
            group.site,
            group.stack,
            pattern_name(group.pattern),
            group.every,
            group.scope,
            frame.map(|f| &f.name),
            frame.map(|f| &f.filename),
            frame.map(|f| f.line),
            group.frame_inferred,
            alloc.map(|f| &f.name),
            alloc.map(|f| &f.filename),
            alloc.map(|f| f.line),
            group.forward.as_ref().map(json),
            group.count_per_step,
            group.bytes_per_step,
            group.slope_error,
            group.confidence,
            group.first_step,
            group.last_step,
            int(group.live_count),
            int(group.live_bytes.get()),
            json(&group.evidence),
            group.first_number,
            group.last_number,
            group.made_in.as_ref().map(json),
        ])?;
        Ok(())
    }
}

fn group_of(row: &Row) -> StoreResult<LeakGroup> {
    let forward: Option<String> = row.get("forward")?;
    let forward = forward.map(|text| parsed::<ForwardOp>("forward", &text));
    let made_in: Option<String> = row.get("made_in")?;
    let made_in = made_in.map(|text| parsed::<FrameText>("made_in", &text));
    Ok(LeakGroup {
        site: row.get("site")?,
        stack: row.get("stack")?,
        frame: frame_of(row, ["function", "file", "line"])?,
        frame_inferred: row.get("inferred")?,
        alloc_frame: frame_of(row, ["alloc_function", "alloc_file", "alloc_line"])?,
        made_in: made_in.transpose()?,
        forward: forward.transpose()?,
        pattern: pattern_of(&row.get::<_, String>("pattern")?)?,
        every: row.get("every")?,
        scope: row.get("scope")?,
        count_per_step: row.get("count_per_step")?,
        bytes_per_step: row.get("bytes_per_step")?,
        slope_error: row.get("slope_error")?,
        confidence: row.get("confidence")?,
        first_step: row.get("first_step")?,
        last_step: row.get("last_step")?,
        first_number: row.get("first_number")?,
        last_number: row.get("last_number")?,
        live_count: uint(row, "live_count")?,
        live_bytes: bytes(row, "live_bytes")?,
        evidence: parsed("evidence", &row.get::<_, String>("evidence")?)?,
    })
}

fn frame_of(row: &Row, [name, file, line]: [&str; 3]) -> rusqlite::Result<Option<FrameText>> {
    let name: Option<String> = row.get(name)?;
    let Some(name) = name else { return Ok(None) };
    Ok(Some(FrameText {
        name,
        filename: row.get(file)?,
        line: row.get(line)?,
    }))
}

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Leak => "leak",
        Verdict::Clean => "clean",
        Verdict::CannotTell => "cannot_tell",
    }
}

fn verdict_of(name: &str) -> StoreResult<Verdict> {
    let all = [Verdict::Leak, Verdict::Clean, Verdict::CannotTell];
    named("verdict", name, all, verdict_name)
}

fn recording_of(name: &str) -> StoreResult<Kind> {
    named("recording", name, Kind::ALL, Kind::name)
}

fn pattern_name(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::EveryStep => "every_step",
        Pattern::EveryNth => "every_nth",
        Pattern::WithinStep => "within_step",
        Pattern::Enlarged => "enlarged",
    }
}

fn pattern_of(name: &str) -> StoreResult<Pattern> {
    let all = [
        Pattern::EveryStep,
        Pattern::EveryNth,
        Pattern::WithinStep,
        Pattern::Enlarged,
    ];
    named("pattern", name, all, pattern_name)
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("rows are plain data")
}

fn parsed<T: DeserializeOwned>(what: &'static str, text: &str) -> StoreResult<T> {
    serde_json::from_str(text).map_err(|_| corrupt(what, text))
}
