//! Whether a run leaks, how fast, since when, and which code it is.

use crate::bench::RowOfRun;
use crate::frames::{ForwardOp, FrameText};
use serde::{Deserialize, Serialize};
use trace::device::DeviceIdx;
pub use trace::leaks::Verdict;
use trace::steps::recording::Kind;
use trace::trace::StepSource;
use trace::units::Bytes;

/// What was found about one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Leaks {
    /// What the recording holds: of one pass there is no verdict.
    pub recording: Kind,
    /// The answer.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// What limits the answer, a sentence each.
    pub caveats: Vec<String>,
    /// Bytes that all groups add for each step; 0 if they grow within steps only.
    pub bytes_per_step: f64,
    /// Where the steps come from.
    pub step_source: StepSource,
    /// How many steps there are.
    pub steps: u32,
    /// What one of them is called: `step`, or `token`, `request` and so on.
    #[serde(default = "step")]
    pub step: String,
    /// That *reserved* grows though *allocated* does not need it, and what to do, in one sentence.
    /// It is no part of the verdict. Absent where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_growth: Option<String>,
    /// What accumulates: first what does so from step to step, then what does within steps; of
    /// both, most bytes first.
    pub groups: Vec<LeakGroup>,
}

impl Leaks {
    /// Version of the meaning of these answers, combined with that of the method; part of their
    /// address.
    pub const VERSION: u32 = 6 + 100 * trace::leaks::VERSION;

    /// The same beside what a bench knows of the run.
    #[must_use]
    pub fn beside(mut self, row: Option<&RowOfRun>) -> Leaks {
        if let Some(why) = known_better(self.verdict, self.steps, row) {
            self.reason = why;
        }
        self
    }
}

/// Why a bench says that nobody can tell, where it knows that better than the recording with so
/// many steps.
fn known_better(verdict: Verdict, steps: u32, row: Option<&RowOfRun>) -> Option<String> {
    let why = row.and_then(|row| row.too_few_steps(steps));
    why.filter(|_| verdict == Verdict::CannotTell)
}

/// The answer in a list of runs: of the device that leaks most. Pinned memory of the host is named
/// if it leaks and no device does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeakSummary {
    /// The device that it is about: its CUDA ordinal, or 128 for the host's pinned memory.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub device: DeviceIdx,
    /// What the recording of that device holds.
    pub recording: Kind,
    /// The answer.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// Bytes that accumulate for each step, rounded.
    pub bytes_per_step: Bytes,
    /// What one of the steps is called: `step`, or `token`, `request` and so on.
    #[serde(default = "step")]
    pub step: String,
}

impl LeakSummary {
    /// The same beside what a bench knows of the run, of which the device has so many steps.
    #[must_use]
    pub fn beside(mut self, row: Option<&RowOfRun>, steps: u32) -> LeakSummary {
        if let Some(why) = known_better(self.verdict, steps, row) {
            self.reason = why;
        }
        self
    }
}

/// What a step is called by servers that do not say it.
pub(crate) fn step() -> String {
    "step".to_owned()
}

/// How a group grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// In every step, or nearly.
    EveryStep,
    /// In every n-th step; `every` says which.
    EveryNth,
    /// In each part of a step; what was kept is given back at the step's end.
    WithinStep,
    /// One buffer is replaced by a larger one again and again.
    Enlarged,
}

/// Allocations of one site that accumulate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeakGroup {
    /// The call shape: equal in another trace of the same program.
    pub site: String,
    /// Key of its stack's band in the mountain; absent without a stack.
    pub stack: Option<u32>,
    /// The function that explains it best.
    pub frame: Option<FrameText>,
    /// Whether `frame` is taken from the allocations beside it, since these have no stack.
    pub frame_inferred: bool,
    /// Where it was allocated.
    pub alloc_frame: Option<FrameText>,
    /// Where `frame` names other groups, too: the innermost function that tells this one from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_in: Option<FrameText>,
    /// For allocations of a backward pass without a Python stack: the forward operation, inferred.
    pub forward: Option<ForwardOp>,
    /// How it grows.
    pub pattern: Pattern,
    /// With [`Pattern::EveryNth`], every how many steps.
    pub every: Option<u32>,
    /// Name of the scopes that are the parts of a step, when it grows within steps.
    pub scope: Option<String>,
    /// Blocks added for each step (for each part, when it grows within steps).
    pub count_per_step: f64,
    /// Bytes added for each step (for each part, when it grows within steps).
    pub bytes_per_step: f64,
    /// Half of the 95 % interval of the slope of its level, bytes per step.
    pub slope_error: f64,
    /// How likely it goes on, from 0 to 1.
    pub confidence: f64,
    /// The first step (its position among the steps) that added to it.
    pub first_step: u32,
    /// The last one.
    pub last_step: u32,
    /// The number in the first step's name, as the program counts its steps; its position where the
    /// name has no number.
    pub first_number: u32,
    /// The last step's.
    pub last_number: u32,
    /// Blocks alive at the end of the last whole step.
    pub live_count: u64,
    /// Bytes alive at the end of the last whole step.
    pub live_bytes: Bytes,
    /// The blocks, oldest first; `live_count` says how many there are.
    pub evidence: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_crashed_early_is_not_told_to_record_more() {
        let advice = "one step is too few; record 4 steps or more";
        let told = |verdict| {
            let leaks = Leaks {
                recording: Kind::Unknown,
                verdict,
                reason: advice.to_owned(),
                caveats: Vec::new(),
                bytes_per_step: 0.0,
                step_source: StepSource::Annotations,
                steps: 1,
                step: step(),
                reserved_growth: None,
                groups: Vec::new(),
            };
            let row = RowOfRun {
                steps: 1,
                crash: Some(String::new()),
                ..RowOfRun::default()
            };
            assert_eq!(leaks.clone().beside(None), leaks);
            leaks.beside(Some(&row)).reason
        };
        let crashed = told(Verdict::CannotTell);
        assert!(
            crashed.starts_with("the run crashed in step 1: "),
            "{crashed}"
        );
        assert_eq!(told(Verdict::Leak), advice);
    }
}
