//! The verdicts of a bench: each row beside the baseline of its configuration.

use api::bench::{BenchResult, BenchRow, BenchStatus};
use api::ids::BenchRowId;
use engine::bench::{Config, Patch, Row, Status};

/// Verdicts that differ from what is written down.
pub fn changed_verdicts(rows: &[BenchRow]) -> Vec<(BenchRowId, BenchStatus)> {
    let baseline = |config: &str| {
        let found = rows
            .iter()
            .find(|row| row.config == config && row.patches.is_empty());
        found.and_then(engine_row)
    };
    let verdict = |row: &BenchRow| {
        let (baseline, of) = (baseline(&row.config)?, engine_row(row)?);
        Some(status(engine::bench::verdict(&of, &baseline)))
    };
    let changed = |row: &BenchRow| {
        let written = row.result.as_ref()?.status;
        let now = verdict(row)?;
        (now != written).then(|| (row.id.clone(), now))
    };
    rows.iter().filter_map(changed).collect()
}

/// The row as the engine had it; `None` without a result.
fn engine_row(row: &BenchRow) -> Option<Row> {
    let result: &BenchResult = row.result.as_ref()?;
    let config = Config::from_id(&row.config)?;
    let patches = row.patches.iter().filter_map(|id| Patch::from_id(id));
    Some(Row {
        config: config.id(),
        base: config.base_name(),
        patches: patches.collect(),
        steps_run: result.steps_run,
        peak_allocated: result.peak_allocated,
        peak_reserved: result.peak_reserved,
        allocated_end: result.allocated_end,
        growth_per_step: result.growth_per_step,
        growth_error: result.growth_error,
        oom_step: result.oom_step,
        crash: result.crash.clone(),
        corrupted_tensors: result.corrupted_tensors,
        races: result.races,
        tracker_end: result.tracker_end,
        bwd_stash_end: result.bwd_stash_end,
        host_pinned_end: result.host_pinned_end,
        d2h_bytes: result.d2h_bytes,
        h2d_bytes: result.h2d_bytes,
        step_seconds: result.step_seconds,
        device: result.device.clone(),
        hardware: None,
        status: Status::Baseline,
        hypothesis: None,
        published: None,
        measured: None,
    })
}

/// The engine's word as the API has it.
pub fn status(status: Status) -> BenchStatus {
    match status {
        Status::Baseline => BenchStatus::Baseline,
        Status::NotReproducible => BenchStatus::NotReproducible,
        Status::RootCauseFix => BenchStatus::RootCauseFix,
        Status::PreventsCrash => BenchStatus::PreventsCrash,
        Status::OutOfMemory => BenchStatus::OutOfMemory,
        Status::Crash => BenchStatus::Crash,
        Status::Corruption => BenchStatus::Corruption,
        Status::LowersPeak => BenchStatus::LowersPeak,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::child::numbers;
    use api::bench::BenchRowState;
    use engine::bench::{RunSpec, run, run_all};

    #[test]
    fn verdicts_from_stored_numbers_are_those_of_the_engine() {
        let sets = [vec![], vec![Patch::ReleaseDedupeKey]];
        let specs = sets.map(|set| RunSpec::new(Config::DedupeReuse, &set));
        let together = run_all(&specs);
        let stored = |(at, spec): (usize, &RunSpec)| BenchRow {
            id: format!("row_{at}").parse().unwrap(),
            config: spec.config.id().to_owned(),
            patches: spec.patches.iter().map(|p| p.id().to_owned()).collect(),
            steps: 10,
            state: BenchRowState::Done,
            result: Some(numbers(&run(spec, &mut |_| true))),
            spark: vec![],
            run: None,
            hypothesis: None,
            published: None,
            measured: None,
            seconds: None,
        };
        let rows: Vec<BenchRow> = specs.iter().enumerate().map(stored).collect();
        let alone = rows[1].result.as_ref().unwrap().status;
        let expected = status(together[1].status);
        assert_ne!(alone, expected, "alone the row cannot know");
        assert_eq!(changed_verdicts(&rows), [(rows[1].id.clone(), expected)]);
        assert_eq!(changed_verdicts(&rows[1..]), [], "without a baseline");
    }
}
