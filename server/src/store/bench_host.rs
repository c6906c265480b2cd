//! What results of before migration 15 tell of pinned host memory: they have 0 in the columns that
//! it added.

use super::rows::bytes;
use api::bench::BenchStep;
use rusqlite::Row;
use trace::growth::Line;
use trace::units::Bytes;

/// Most pinned host memory that a row took; `None` where the result is too old to tell.
pub(super) fn peak_of(row: &Row) -> rusqlite::Result<Option<Bytes>> {
    let peak = bytes(row, "host_pinned_peak")?;
    // Whatever was copied to the host was copied into pinned memory.
    let (copied, end) = (bytes(row, "d2h_bytes")?, bytes(row, "host_pinned_end")?);
    let is_told = peak > Bytes::ZERO || copied.max(end) == Bytes::ZERO;
    Ok(is_told.then_some(peak))
}

/// How much pinned host memory in use grows a step, by the rule of the engine, from the steps that
/// completed.
pub(super) fn growth_of(completed: &[BenchStep]) -> f64 {
    let ends: Vec<u64> = completed.iter().map(|step| step.host_pinned.0).collect();
    Line::settled(&ends).map_or(0.0, |line| line.slope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    #[test]
    fn a_result_that_copied_into_no_pinned_memory_is_too_old_to_tell() {
        let check = |peak: u64, copied: u64, end: u64, expected: Option<u64>| {
            let sql = format!(
                "SELECT {peak} AS host_pinned_peak, {copied} AS d2h_bytes, \
                 {end} AS host_pinned_end"
            );
            let database = Connection::open_in_memory().unwrap();
            let found = database.query_row(&sql, [], peak_of).unwrap();
            assert_eq!(found, expected.map(Bytes), "{sql}");
        };
        check(0, 0, 0, Some(0));
        check(0, 7, 0, None);
        check(0, 0, 7, None);
        check(8, 7, 7, Some(8));
    }

    #[test]
    fn the_steps_tell_what_the_column_does_not() {
        let steps = |per_step: u64| -> Vec<BenchStep> {
            let step = |at: u32| BenchStep {
                step: at,
                allocated: Bytes::ZERO,
                peak_allocated: Bytes::ZERO,
                reserved: Bytes::ZERO,
                tracker: 0,
                bwd_stash: 0,
                host_pinned: Bytes(u64::from(at) * per_step),
                seconds: 0.5,
            };
            (0..12).map(step).collect()
        };
        assert!((growth_of(&steps(4096)) - 4096.0).abs() < 1e-6);
        assert_eq!((growth_of(&steps(0)), growth_of(&[])), (0.0, 0.0));
    }
}
