//! Earlier benches, one line each.

use api::bench::RowCounts;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_there_is_is_counted() {
        let rows = RowCounts {
            done: 14,
            failed: 1,
            ..RowCounts::default()
        };
        assert_eq!(counts(rows), "14 done, 1 failed");
    }
}
