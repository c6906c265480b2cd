//! What is known of a run's devices: their facts, steps, settings and notes.

use super::rows::{
    NOT_KNOWN, bytes, event, int, known_bytes, series_of, step_source_name, step_source_of, uint,
};
use super::runs::{NewRun, Selected};
use super::{Reader, StoreResult, Writer};
use answers::facts::{DeviceFacts, OomFact, StepFacts};
use api::ids::RunId;
use rusqlite::{Row, named_params, params};
use std::collections::HashMap;
use trace::device::DeviceIdx;
use trace::span::Span;
use trace::trace::{Fidelity, QualityNote, Series, SeriesSummary, Step};
use trace::units::{EventIdx, Micros};

pub(super) type PerRun<T> = HashMap<String, Vec<T>>;

impl Reader<'_> {
    /// Allocator settings of a run, in the file's order.
    pub fn settings(&self, id: &RunId) -> StoreResult<Vec<(String, String)>> {
        let sql = "SELECT name, value FROM settings WHERE run = ?1 ORDER BY position";
        let mut statement = self.tx.prepare_cached(sql)?;
        let rows = statement.query_map([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Steps of one device of a run.
    pub fn steps(&self, id: &RunId, device: DeviceIdx) -> StoreResult<Vec<StepFacts>> {
        let sql = "SELECT * FROM steps WHERE run = ?1 AND device = ?2 ORDER BY idx";
        let mut statement = self.tx.prepare_cached(sql)?;
        let rows = statement.query_map(params![id.as_str(), device.0], step_of)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(super) fn devices_where(&self, selected: Selected<'_>) -> StoreResult<PerRun<DeviceFacts>> {
        let Selected { condition, .. } = selected;
        let mut series = self.series_where(selected)?;
        let mut ooms = self.ooms_where(selected)?;
        let sql = format!(
            "SELECT * FROM devices WHERE run IN (SELECT id FROM runs WHERE {condition}) \
             ORDER BY run, device"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":wanted": selected.wanted })?;
        let mut found = PerRun::new();
        while let Some(row) = rows.next()? {
            let key = (row.get("run")?, DeviceIdx(row.get("device")?));
            let series = series.remove(&key).unwrap_or_default();
            let ooms = ooms.remove(&key).unwrap_or_default();
            let device = device_of(row, series, ooms)?;
            found.entry(key.0).or_default().push(device);
        }
        Ok(found)
    }

    fn series_where(
        &self,
        selected: Selected<'_>,
    ) -> StoreResult<HashMap<(String, DeviceIdx), [SeriesSummary; 4]>> {
        let Selected { condition, .. } = selected;
        let sql =
            format!("SELECT * FROM series WHERE run IN (SELECT id FROM runs WHERE {condition})");
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":wanted": selected.wanted })?;
        let mut found: HashMap<_, [SeriesSummary; 4]> = HashMap::new();
        while let Some(row) = rows.next()? {
            let series = series_of(&row.get::<_, String>("series")?)?;
            let summaries = found
                .entry((row.get("run")?, DeviceIdx(row.get("device")?)))
                .or_default();
            summaries[series as usize] = SeriesSummary {
                start: bytes(row, "start_bytes")?,
                peak: bytes(row, "peak_bytes")?,
                peak_event: event(row, "peak_event")?,
                end: bytes(row, "end_bytes")?,
            };
        }
        Ok(found)
    }

    fn ooms_where(
        &self,
        selected: Selected<'_>,
    ) -> StoreResult<HashMap<(String, DeviceIdx), Vec<OomFact>>> {
        let Selected { condition, .. } = selected;
        let sql = format!(
            "SELECT * FROM ooms WHERE run IN (SELECT id FROM runs WHERE {condition}) \
             ORDER BY run, device, event"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":wanted": selected.wanted })?;
        let mut found: HashMap<_, Vec<OomFact>> = HashMap::new();
        while let Some(row) = rows.next()? {
            let list = found
                .entry((row.get("run")?, DeviceIdx(row.get("device")?)))
                .or_default();
            list.push(OomFact {
                event: EventIdx(row.get("event")?),
                wanted: bytes(row, "wanted_bytes")?,
                device_free: known_bytes(row, "free_bytes")?,
            });
        }
        Ok(found)
    }

    pub(super) fn quality_where(&self, selected: Selected<'_>) -> StoreResult<PerRun<QualityNote>> {
        let Selected { condition, .. } = selected;
        let sql = format!(
            "SELECT * FROM quality WHERE run IN (SELECT id FROM runs WHERE {condition}) \
             ORDER BY run, position"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":wanted": selected.wanted })?;
        let mut found = PerRun::new();
        while let Some(row) = rows.next()? {
            let note = QualityNote {
                code: row.get("code")?,
                detail: row.get("detail")?,
            };
            found
                .entry(row.get("run")?)
                .or_insert_with(Vec::new)
                .push(note);
        }
        Ok(found)
    }
}

impl Writer<'_> {
    /// Inserts the facts of a run, without the run itself.
    pub(super) fn insert_facts(&mut self, run: &NewRun) -> StoreResult<()> {
        self.insert_notes(run)?;
        for (facts, steps) in &run.devices {
            self.insert_device(&run.id, facts)?;
            self.insert_steps(&run.id, DeviceIdx(facts.device.0), steps)?;
        }
        for (device, leaks) in &run.leaks {
            self.put_leaks(&run.id, *device, leaks)?;
        }
        Ok(())
    }

    fn insert_notes(&mut self, run: &NewRun) -> StoreResult<()> {
        let sql = "INSERT INTO settings (run, position, name, value) VALUES (?1, ?2, ?3, ?4)";
        let mut statement = self.tx.prepare_cached(sql)?;
        for (position, (name, value)) in run.format.settings.iter().enumerate() {
            statement.execute(params![run.id.as_str(), position as i64, name, value])?;
        }
        let sql = "INSERT INTO quality (run, position, code, detail) VALUES (?1, ?2, ?3, ?4)";
        let mut statement = self.tx.prepare_cached(sql)?;
        for (position, note) in run.quality.iter().enumerate() {
            statement.execute(params![
                run.id.as_str(),
                position as i64,
                note.code,
                note.detail
            ])?;
        }
        Ok(())
    }

    fn insert_device(&mut self, run: &RunId, facts: &DeviceFacts) -> StoreResult<()> {
        let (first, last) = facts.time.unzip();
        self.tx.execute(
            "INSERT INTO devices VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                run.as_str(),
                facts.device.0,
                facts.events,
                facts.blocks,
                int(facts.fidelity.allocs),
                int(facts.fidelity.predicted),
                int(facts.unmatched_frees),
                step_source_name(facts.step_source),
                first.map(|t| t.0),
                last.map(|t| t.0),
                facts.steps,
            ],
        )?;
        for series in Series::ALL {
            let summary = facts.series(series);
            self.tx.execute(
                "INSERT INTO series VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    run.as_str(),
                    facts.device.0,
                    series.name(),
                    int(summary.start.get()),
                    int(summary.peak.get()),
                    summary.peak_event.map(|e| e.0),
                    int(summary.end.get()),
                ],
            )?;
        }
        let sql = "INSERT INTO ooms VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut statement = self.tx.prepare_cached(sql)?;
        for oom in &facts.ooms {
            let free = oom.device_free.map_or(NOT_KNOWN, |free| int(free.get()));
            let wanted = int(oom.wanted.get());
            statement.execute(params![
                run.as_str(),
                facts.device.0,
                oom.event.0,
                wanted,
                free
            ])?;
        }
        Ok(())
    }

    fn insert_steps(
        &mut self,
        run: &RunId,
        device: DeviceIdx,
        steps: &[StepFacts],
    ) -> StoreResult<()> {
        let sql = "INSERT INTO steps VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        let mut statement = self.tx.prepare_cached(sql)?;
        for facts in steps {
            statement.execute(params![
                run.as_str(),
                device.0,
                facts.step.index,
                facts.step.name,
                facts.step.events.start().0,
                facts.step.events.end().0,
                int(facts.allocated_end.get()),
                int(facts.allocated_peak.get()),
                int(facts.reserved_end.get()),
                int(facts.requested_end.get()),
            ])?;
        }
        Ok(())
    }
}

fn device_of(
    row: &Row,
    series: [SeriesSummary; 4],
    ooms: Vec<OomFact>,
) -> StoreResult<DeviceFacts> {
    let first: Option<i64> = row.get("first_us")?;
    let last: Option<i64> = row.get("last_us")?;
    Ok(DeviceFacts {
        device: DeviceIdx(row.get("device")?),
        events: row.get("events")?,
        blocks: row.get("blocks")?,
        series,
        fidelity: Fidelity {
            allocs: uint(row, "fidelity_allocs")?,
            predicted: uint(row, "fidelity_predicted")?,
        },
        unmatched_frees: uint(row, "unmatched_frees")?,
        step_source: step_source_of(&row.get::<_, String>("step_source")?)?,
        steps: row.get("n_steps")?,
        time: first.zip(last).map(|(a, b)| (Micros(a), Micros(b))),
        ooms,
    })
}

fn step_of(row: &Row) -> rusqlite::Result<StepFacts> {
    let first: u32 = row.get("first_event")?;
    let end: u32 = row.get("end_event")?;
    Ok(StepFacts {
        step: Step {
            index: row.get("idx")?,
            name: row.get("name")?,
            events: Span::new(EventIdx(first), EventIdx(end.max(first))),
        },
        allocated_end: bytes(row, "allocated_end")?,
        allocated_peak: bytes(row, "allocated_peak")?,
        reserved_end: bytes(row, "reserved_end")?,
        requested_end: bytes(row, "requested_end")?,
    })
}
