//! One row of the result table.

use api::bench::{BenchResult, BenchStatus, Hypothesis, Known, verdict};
use serde::Serialize;

use super::hypothesis::{self, Conditions};
use super::known::known;
use super::spec::RunSpec;
use crate::device::Ordinal;
use crate::patches::Patch;

/// A run, with all that is known about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Id of the configuration.
    pub config: &'static str,
    /// Version before patches.
    pub base: String,
    /// Ids of the patches; none for the baseline.
    pub patches: Vec<&'static Patch>,
    /// Which of the host's devices ran it.
    pub device_index: Ordinal,
    /// Steps that it was to have.
    #[serde(skip)]
    pub steps: u32,
    /// The verdict.
    pub status: BenchStatus,
    /// What the run found out; none if the row only tests an assumption, or nothing was run.
    #[serde(flatten)]
    pub outcome: Option<BenchResult>,
    /// What was assumed about a patch without public source, and the result of the check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypothesis: Option<Hypothesis>,
    /// Why a patch changes nothing here, if this was read from its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asserted: Option<&'static str>,
    /// What is known besides the computed numbers.
    #[serde(flatten)]
    pub known: Known,
}

/// What is shown next to the numbers of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    /// What is known about it.
    pub known: Known,
    /// What was assumed, and the result of the check.
    pub hypothesis: Option<Hypothesis>,
    /// Why its only patch changes nothing, if this was read from its source.
    pub asserted: Option<&'static str>,
}

impl Beside {
    /// What is shown next to a run. `result` is what the run found out, if it has run.
    pub fn of(spec: &RunSpec, result: Option<&BenchResult>) -> Beside {
        let patches = &spec.patches[..];
        let known = known(spec.system, spec.base, patches);
        let about = patches.iter().find_map(|patch| patch.hypothesis());
        let conditions = Conditions {
            steps: spec.planned_steps(),
            capacity: spec.capacity(),
        };
        let published = known.published.as_ref();
        let judge = |about| hypothesis::judge(about, result, conditions, published);
        Beside {
            hypothesis: about.map(judge),
            asserted: match patches {
                [only] => only.asserted(),
                _ => None,
            },
            known,
        }
    }
}

impl Row {
    /// A run with its verdict (compared with its baseline, if there is one), and what is known
    /// about it.
    pub fn new(spec: &RunSpec, outcome: &BenchResult, baseline: Option<&BenchResult>) -> Row {
        let beside = Beside::of(spec, Some(outcome));
        let hypothesis = beside.hypothesis;
        Row {
            config: spec.system.id,
            base: spec.base_in_words(),
            patches: spec.patches.clone(),
            device_index: spec.ordinal,
            steps: spec.planned_steps(),
            status: match hypothesis {
                Some(_) => BenchStatus::SourceUnavailable,
                None => verdict(outcome, !spec.patches.is_empty(), baseline),
            },
            outcome: hypothesis.is_none().then(|| outcome.clone()),
            hypothesis,
            asserted: beside.asserted,
            known: beside.known,
        }
    }
}
