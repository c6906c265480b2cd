//! What the benches know of a run.

use super::rows::{bytes, named, uint};
use super::runs::Selected;
use super::{Reader, StoreResult};
use api::bench::{BenchStatus, DeviceKind, RowOfRun};
use api::ids::RunId;
use rusqlite::{Row, named_params};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use trace::units::Bytes;

/// The finished rows that recorded something.
const ROWS: &str = "SELECT r.*, b.device FROM bench_rows r JOIN benches b ON b.id = r.bench \
                    WHERE r.state = 'done' AND r.steps_run IS NOT NULL";
/// If several rows made the same recording, the one that counts comes first: the row with most
/// steps, and of these one that knows how the next step ended.
const ORDER: &str = "r.steps_run DESC, r.crash IS NULL AND r.oom_step IS NULL, \
                     r.corrupted_tensors DESC, r.races DESC, r.id";

impl Reader<'_> {
    /// The finished row whose recording is this run.
    pub fn bench_row_of_run(&self, run: &RunId) -> StoreResult<Option<RowOfRun>> {
        let sql = format!("{ROWS} AND r.run = ?1 ORDER BY {ORDER} LIMIT 1");
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query([run.as_str()])?;
        rows.next()?.map(row_of_run).transpose()
    }

    /// How the rows ended whose recordings these runs are, and nothing else of them.
    pub(super) fn ends_where(
        &self,
        selected: Selected<'_>,
    ) -> StoreResult<HashMap<String, RowOfRun>> {
        let Selected { condition, .. } = selected;
        let sql = format!(
            "{ROWS} AND r.run IN (SELECT id FROM runs WHERE {condition}) ORDER BY r.run, {ORDER}"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":wanted": selected.wanted })?;
        let mut found: HashMap<String, RowOfRun> = HashMap::new();
        while let Some(row) = rows.next()? {
            if let Entry::Vacant(first) = found.entry(row.get("run")?) {
                first.insert(end_of(row)?);
            }
        }
        Ok(found)
    }
}

fn row_of_run(row: &Row) -> StoreResult<RowOfRun> {
    let device: String = row.get("device")?;
    let status: Option<String> = row.get("status")?;
    let status = status.map(|word| named("status", &word, BenchStatus::ALL, BenchStatus::word));
    Ok(RowOfRun {
        growth_per_step: row.get::<_, f64>("growth_per_step")?.round() as i64,
        device: Some(named("device", &device, DeviceKind::ALL, DeviceKind::name)?),
        status: status.transpose()?,
        ..end_of(row)?
    })
}

/// What went wrong in a row, and when.
fn end_of(row: &Row) -> StoreResult<RowOfRun> {
    let steps: u32 = row.get("steps_run")?;
    // Nothing is copied out before the first step, so that much older results tell, too.
    let is_copied = bytes(row, "d2h_bytes")? > Bytes::ZERO;
    let began: Option<bool> = row.get("began")?;
    Ok(RowOfRun {
        steps,
        planned: row.get("planned_steps")?,
        began: began.or(is_copied.then_some(true)).filter(|_| steps == 0),
        oom_step: row.get("oom_step")?,
        crash: row.get("crash")?,
        corrupted_tensors: uint(row, "corrupted_tensors")?,
        races: uint(row, "races")?,
        ..RowOfRun::default()
    })
}
