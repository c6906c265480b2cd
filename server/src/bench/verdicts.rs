//! The verdicts of a bench: compares each row with the baseline of its configuration.

use api::bench::{BenchRow, BenchStatus, verdict};
use api::ids::BenchRowId;

/// Verdicts that differ from the stored ones.
pub fn changed_verdicts(rows: &[BenchRow]) -> Vec<(BenchRowId, BenchStatus)> {
    let baseline = |config: &str| {
        let found = rows
            .iter()
            .find(|row| row.config == config && row.patches.is_empty());
        found.and_then(|row| row.result.as_ref())
    };
    let changed = |row: &BenchRow| {
        let result = row.result.as_ref()?;
        let now = verdict(result, !row.patches.is_empty(), baseline(&row.config));
        (row.status != Some(now)).then(|| (row.id.clone(), now))
    };
    rows.iter().filter_map(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::bench::{BenchRowState, Known};
    use engine::bench::{RunSpec, run, run_all};
    use engine::patches::Patch;
    use engine::systems::System;

    #[test]
    fn verdicts_from_stored_numbers_are_those_of_the_engine() {
        let sets = [vec![], vec![Patch::RELEASE_DEDUPE_KEY]];
        let specs = sets.map(|set| RunSpec::new(System::REUSE, &set));
        let together = run_all(&specs);
        let stored = |(at, spec): (usize, &RunSpec)| {
            let result = run(spec, &mut |_| true);
            BenchRow {
                id: format!("row_{at}").parse().unwrap(),
                config: spec.system.id.to_owned(),
                patches: spec.patches.iter().map(|p| p.id.to_owned()).collect(),
                steps: 10,
                state: BenchRowState::Done,
                status: Some(verdict(&result, !spec.patches.is_empty(), None)),
                result: Some(result),
                spark: vec![],
                run: None,
                note: None,
                hypothesis: None,
                asserted: None,
                known: Known::default(),
                seconds: None,
            }
        };
        let rows: Vec<BenchRow> = specs.iter().enumerate().map(stored).collect();
        let (alone, expected) = (rows[1].status, together[1].status);
        assert_ne!(alone, Some(expected), "alone the row cannot know");
        assert_eq!(changed_verdicts(&rows), [(rows[1].id.clone(), expected)]);
        assert_eq!(changed_verdicts(&rows[1..]), [], "without a baseline");
    }
}
