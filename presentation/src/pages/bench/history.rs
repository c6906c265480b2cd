//! Earlier benches, one line each.

use ::timeline::format::plural;
use api::bench::{Bench, BenchRowState, RowCounts};
use api::ids::BenchRowId;

/// `14 done, 1 failed`: the numbers that are not 0, in order of importance.
pub fn counts(rows: RowCounts) -> String {
    let parts = [
        (rows.done, "done"),
        (rows.running, "running"),
        (rows.queued, "waiting"),
        (rows.failed, "failed"),
        (rows.cancelled, "cancelled"),
    ];
    let told = parts.into_iter().filter(|(n, _)| *n > 0);
    let told: Vec<String> = told.map(|(n, word)| format!("{n} {word}")).collect();
    told.join(", ")
}

/// ` · 24.0 GiB of device memory · 40 steps`: what somebody chose instead of what a configuration
/// has. The published numbers beside the rows are not of it.
pub fn chosen(bench: &Bench) -> String {
    let memory = bench.capacity.map(|of| format!("{of} of device memory"));
    let steps = bench.steps.map(|n| plural(n.into(), "step"));
    let chosen = memory.into_iter().chain(steps);
    chosen.map(|part| format!(" · {part}")).collect()
}

/// What the button says that runs what was cancelled, once nothing is under way.
pub fn go_on(rows: RowCounts) -> Option<String> {
    let is_offered = rows.cancelled > 0 && rows.unfinished() == 0;
    is_offered.then(|| format!("Run the {}", plural(rows.cancelled.into(), "cancelled row")))
}

/// The rows that this button runs.
pub fn cancelled(bench: &Bench) -> Vec<BenchRowId> {
    let rows = bench.rows.iter();
    let cancelled = rows.filter(|row| row.state == BenchRowState::Cancelled);
    cancelled.map(|row| row.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::bench::DeviceKind;
    use trace::units::Bytes;

    #[test]
    fn only_what_there_is_is_counted() {
        let rows = RowCounts {
            done: 14,
            failed: 1,
            ..RowCounts::default()
        };
        assert_eq!(counts(rows), "14 done, 1 failed");
    }

    #[test]
    fn what_was_chosen_for_a_bench_is_told() {
        let bench = |capacity, steps| Bench {
            id: "ben_a".parse().unwrap(),
            created_ms: 0,
            device: DeviceKind::Sim,
            steps,
            capacity,
            recorded_steps: 12,
            rows: Vec::new(),
        };
        assert_eq!(chosen(&bench(None, None)), "");
        let memory = Some(Bytes(24 << 30));
        assert_eq!(
            chosen(&bench(memory, Some(40))),
            " · 24.0 GiB of device memory · 40 steps"
        );
    }

    #[test]
    fn what_was_cancelled_is_offered_once_nothing_is_under_way() {
        let check = |cancelled, queued, expected: Option<&str>| {
            let rows = RowCounts {
                done: 3,
                cancelled,
                queued,
                ..RowCounts::default()
            };
            assert_eq!(go_on(rows).as_deref(), expected, "{cancelled}, {queued}");
        };
        check(0, 0, None);
        check(2, 1, None);
        check(1, 0, Some("Run the 1 cancelled row"));
        check(47, 0, Some("Run the 47 cancelled rows"));
    }
}
