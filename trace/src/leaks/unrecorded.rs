//! Recordings of which events are missing. What they do not hold may be what keeps memory, or what
//! gives it back, so nothing is said of their leaks.

use super::reason::Teller;
use super::report::{LeakReport, Verdict};
use crate::device::DeviceIdx;
use crate::quality_code;
use crate::trace::QualityNote;

/// What to do about it.
const ADVICE: &str =
    "record with `torch.cuda.memory._record_memory_history()`, without `skip_actions`";

/// Why nothing can be said of a device; `None` if no event is known to be missing.
pub fn why(device: DeviceIdx, quality: &[QualityNote]) -> Option<String> {
    // Pinned memory has a recorder of its own.
    let says = |code: &str| {
        let mut notes = quality.iter().filter(|note| note.code == code);
        !device.is_pinned() && notes.any(|note| note.concerns(device))
    };
    if says(quality_code::EVENTS_LEFT_OUT) {
        return Some(format!(
            "allocations or frees were left out of the recording, so it does not show what each \
             step keeps; {ADVICE}"
        ));
    }
    says(quality_code::CONTRADICTORY).then(|| {
        format!("events are missing: those that were recorded contradict one another; {ADVICE}")
    })
}

/// The report on such a device.
pub fn report(teller: Teller<'_>, reason: String) -> LeakReport {
    LeakReport {
        verdict: Verdict::CannotTell,
        reason,
        caveats: teller.caveats,
        groups: Vec::new(),
        bytes_per_step: 0.0,
        growth: None,
        reserved_growth: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaks;
    use crate::testing;

    #[test]
    fn where_events_are_missing_nothing_is_said_of_leaks() {
        let trace = testing::trace("a alloc 1MiB at f m.py:1");
        let check = |code: &str, detail: &str, expected: &str| {
            let note = QualityNote {
                code: code.to_owned(),
                detail: detail.to_owned(),
            };
            let report = leaks::find(&trace.devices[0], &trace.stacks, &[note]);
            assert_eq!(report.verdict, Verdict::CannotTell, "{code}");
            assert!(report.reason.starts_with(expected), "{}", report.reason);
        };
        let left_out = "allocations or frees were left out";
        check("events_left_out", "why", left_out);
        check("events_left_out", "device 0: why", left_out);
        check("contradictory", "why", "events are missing");
        check(
            "contradictory",
            "device 1: why",
            "only the state at the end",
        );
    }
}
