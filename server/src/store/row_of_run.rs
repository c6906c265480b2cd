//! What the benches know of a run.

use super::rows::{bytes, named, uint};
use super::{Reader, StoreResult};
use api::bench::{BenchStatus, DeviceKind, RowOfRun};
use api::ids::RunId;
use rusqlite::Row;
use trace::units::Bytes;

impl Reader<'_> {
    /// The finished row whose recording is this run. If several rows made the same recording: the
    /// row with most steps, and of these one that knows how the next step ended.
    pub fn bench_row_of_run(&self, run: &RunId) -> StoreResult<Option<RowOfRun>> {
        let sql = "SELECT r.*, b.device FROM bench_rows r JOIN benches b ON b.id = r.bench \
                   WHERE r.run = ?1 AND r.state = 'done' AND r.steps_run IS NOT NULL \
                   ORDER BY r.steps_run DESC, r.crash IS NULL AND r.oom_step IS NULL, \
                   r.corrupted_tensors DESC, r.races DESC, r.id LIMIT 1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([run.as_str()])?;
        rows.next()?.map(row_of_run).transpose()
    }
}

fn row_of_run(row: &Row) -> StoreResult<RowOfRun> {
    let steps: u32 = row.get("steps_run")?;
    let device: String = row.get("device")?;
    let status: Option<String> = row.get("status")?;
    let status = status.map(|word| named("status", &word, BenchStatus::ALL, BenchStatus::word));
    // Nothing is copied out before the first step, so that much older results tell, too.
    let is_copied = bytes(row, "d2h_bytes")? > Bytes::ZERO;
    let began: Option<bool> = row.get("began")?;
    Ok(RowOfRun {
        steps,
        growth_per_step: row.get::<_, f64>("growth_per_step")?.round() as i64,
        planned: row.get("planned_steps")?,
        device: Some(named("device", &device, DeviceKind::ALL, DeviceKind::name)?),
        status: status.transpose()?,
        began: began.or(is_copied.then_some(true)).filter(|_| steps == 0),
        oom_step: row.get("oom_step")?,
        crash: row.get("crash")?,
        corrupted_tensors: uint(row, "corrupted_tensors")?,
        races: uint(row, "races")?,
    })
}
