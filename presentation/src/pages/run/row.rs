//! What went wrong in a run of a bench, as the bench knows it: no memory shows it.

use crate::components::problem_note::sentence;
use crate::letters::capital;
use api::bench::Fault;
use api::runs::RunDetail;

/// Each thing that went wrong, in a word or two, and how. What the recording shows is told there.
pub fn faults(run: &RunDetail) -> Vec<(&'static str, String)> {
    let Some(row) = &run.bench_row else {
        return Vec::new();
    };
    let is_recorded = run.summary.ran_out_of_memory();
    let faults = row.faults();
    let faults = faults.filter(|fault| *fault != Fault::OutOfMemory || !is_recorded);
    let told = faults.map(|fault| (fault.label(), sentence(&row.about(fault))));
    told.collect()
}

/// The label of a fault as the beginning of a paragraph.
pub fn beginning(label: &str) -> String {
    capital(label) + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(row: &serde_json::Value, oom_events: &[u32]) -> RunDetail {
        let none = serde_json::json!({"start": 0, "peak": 0, "end": 0, "peak_event": null});
        let device = serde_json::json!({
            "device": 0, "events": 1, "blocks": 1, "series": vec![none; 4],
            "fidelity": {"allocs": 0, "predicted": 0}, "unmatched_frees": 0,
            "step_source": "none", "steps": 0, "time": null, "oom_events": oom_events,
        });
        let run = serde_json::json!({
            "id": "run_a", "name": "a", "source": "engine", "created_ms": 0, "file_bytes": 1,
            "content_hash": "", "devices": [device], "pinned": null, "steps": 12,
            "peak_allocated": 1, "quality": [], "leaks": null, "job": null,
            "pickle_protocol": 4, "torch_guess": null, "settings": [],
            "quality_notes": [], "bench_row": row,
        });
        serde_json::from_str(&run.to_string()).unwrap()
    }

    #[test]
    fn what_no_memory_shows_is_told() {
        let check = |row: serde_json::Value, oom_events: &[u32], expected: &[(&str, &str)]| {
            let told = faults(&run(&row, oom_events));
            let told = told.iter().map(|(label, how)| (*label, how.as_str()));
            assert_eq!(told.collect::<Vec<_>>(), expected);
        };
        check(serde_json::json!(null), &[], &[]);
        let mut row = serde_json::json!({"steps": 3, "growth_per_step": 0, "planned": 8});
        check(row.clone(), &[], &[]);
        row["corrupted_tensors"] = 2.into();
        row["races"] = 1.into();
        row["device"] = "sim".into();
        let raced = "2 kernels or copies may have worked on wrong bytes (1 pair of places races).";
        check(row.clone(), &[], &[("corrupted data", raced)]);
        row["oom_step"] = 3.into();
        let place = "In step 3 (after 3 of 8 steps).";
        let both = [("out of memory", place), ("corrupted data", raced)];
        check(row.clone(), &[], &both);
        check(row, &[7], &both[1..]);
        assert_eq!(beginning("crashed"), "Crashed.");
    }
}
