//! One pass against another: a recording without a loop has no steps, but it has phases.
//!
//! A whole step needs more memory than its forward pass alone; that says nothing about the code. So
//! the peak of each phase is compared with the same phase of the other recording.

use crate::phases::{Phase, Phases};
use crate::stacks::Stacks;
use crate::trace::DeviceTrace;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// The phases that make up a pass, in order.
const WORK: [Phase; 3] = [Phase::Forward, Phase::Backward, Phase::Optimizer];

/// Largest *allocated* in a phase, including the level at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhasePeak {
    /// The phase.
    pub phase: Phase,
    /// Its peak.
    pub peak: Bytes,
}

/// The peak of a phase in both recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PhaseDelta {
    /// The phase.
    pub phase: Phase,
    /// In the baseline, where it has the phase.
    pub base: Option<Bytes>,
    /// In the new run, where it has the phase.
    pub new: Option<Bytes>,
}

/// The peaks of the phases of a device.
pub fn peaks(device: &DeviceTrace, stacks: &Stacks) -> Vec<PhasePeak> {
    let phases = Phases::of(device, stacks);
    let peak = |phase| {
        let spans = phases.spans().iter().filter(|span| span.phase == phase);
        let peak = spans.map(|span| device.allocated_peak(span.events)).max()?;
        Some(PhasePeak { phase, peak })
    };
    WORK.into_iter().filter_map(peak).collect()
}

/// Pairs the phases of both recordings.
pub(super) fn deltas(base: &[PhasePeak], new: &[PhasePeak]) -> Vec<PhaseDelta> {
    let of = |peaks: &[PhasePeak], phase| {
        let found = peaks.iter().find(|peak| peak.phase == phase);
        found.map(|found| found.peak)
    };
    let rows = WORK.map(|phase| PhaseDelta {
        phase,
        base: of(base, phase),
        new: of(new, phase),
    });
    let held = |row: &PhaseDelta| row.base.is_some() || row.new.is_some();
    rows.into_iter().filter(held).collect()
}

/// Phases that are missing: `forward or backward`.
pub fn names(phases: &[Phase]) -> String {
    match phases {
        [] => "no phase".to_owned(),
        [one] => one.name().to_owned(),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(|phase| phase.name()).collect();
            format!("{} or {}", first.join(", "), last.name())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gate::{Limits, Outcome, Verdicts, gate};
    use super::super::{compare, profile::Profile};
    use crate::phases::program::{ADAM, MODULE, Program, TENSOR};
    use crate::trace::Trace;
    use crate::watch::Watch;

    const MIB: u64 = 1 << 20;

    /// A made-up pass: what each phase needs beyond what is there already, in MiB.
    fn pass(forward: u64, backward: Option<u64>, optimizer: Option<u64>) -> Trace {
        let mut program = Program::default();
        let batch = program.alloc(MIB, &["main t.py:1", "run t.py:9"]);
        program.free(batch);
        let call = format!("_call_impl {MODULE}:1562");
        let saved = program.alloc(
            forward * MIB,
            &["main t.py:1", "run t.py:10", &call, "forward m.py:3"],
        );
        if let Some(bytes) = backward {
            let engine = format!("backward {TENSOR}:500");
            let gradient = program.alloc(bytes * MIB, &["main t.py:1", "run t.py:11", &engine]);
            program.free(saved);
            if let Some(bytes) = optimizer {
                let step = format!("step {ADAM}:200");
                let scratch = program.alloc(bytes * MIB, &["main t.py:1", "run t.py:12", &step]);
                program.free(scratch);
            }
            program.free(gradient);
        }
        program.finish()
    }

    fn gated(base: &Trace, new: &Trace) -> Verdicts {
        let differences = compare(&Profile::of(base), &Profile::of(new), Watch::nobody()).unwrap();
        gate(&differences, &Limits::default())
    }

    #[test]
    fn passes_are_judged_phase_by_phase() {
        let check = |base: &Trace, new: &Trace, expected: Outcome, said: &str| {
            let verdicts = gated(base, new);
            assert_eq!(verdicts.outcome, expected, "{verdicts:?}");
            let told = verdicts.findings.iter().any(|f| f.detail.contains(said));
            assert!(told, "{said}: {verdicts:?}");
        };
        let whole = pass(100, Some(50), Some(400));
        let judged = "the peaks of the phases are judged";
        check(
            &whole,
            &pass(100, Some(50), Some(405)),
            Outcome::Pass,
            judged,
        );
        // The optimizer's peak is higher, so it hides the change in the backward pass.
        let more = pass(100, Some(90), Some(360));
        check(
            &whole,
            &more,
            Outcome::Regression,
            "the backward phase peaks 40.0 MiB higher",
        );
        check(&more, &whole, Outcome::Pass, judged);
        // A whole step needs more than a forward pass, which is not a regression.
        let forward = pass(100, None, None);
        check(
            &forward,
            &whole,
            Outcome::CannotTell,
            "the baseline holds no backward or optimizer",
        );
        check(
            &whole,
            &forward,
            Outcome::CannotTell,
            "the new run holds no backward or optimizer",
        );
        // For example because the optimizer's state is there all the time.
        let larger = pass(200, Some(50), Some(400));
        check(
            &forward,
            &larger,
            Outcome::CannotTell,
            "the forward phase peaks 100 MiB higher",
        );
    }
}
