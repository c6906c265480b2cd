//! May this change be merged? Pass, regression, or cannot tell, and one sentence that says why.
//!
//! The gate judges *allocated*, and whether it leaks. It only warns about *reserved*, since that
//! differs by several per cent between runs of one program.
//!
//! | question | a regression when |
//! |---|---|
//! | out of memory? | it runs out, and the baseline does not, or only later |
//! | a higher peak? | by more than the limit, over the steps that both runs have |
//! | with steps of varying work? | a step needs more than the baseline's steps of equal work |
//! | a leak? | where the baseline has none, or faster; on any device, and on the host |
//! | in another place? | of one program: where the baseline does not leak, however slow |
//! | faster growth? | by more than the limit and both errors, unless what grows is bounded |
//!
//! What leaks from step to step and what leaks within steps are two kinds of leak, with rates of
//! their own: each is judged beside the same kind in the baseline.
//!
//! Two single passes are compared by the peaks of their phases and of the whole pass. The answer is
//! "cannot tell" if one of them has a phase that the other lacks.
//!
//! The answer is also "cannot tell" when the runs look like two programs, when the highest step
//! does far more work than any of a baseline whose steps vary, when a ring wrapped (its peak is
//! then only a lower bound, but in the steps that both runs have), when there is no history, or
//! when there are too few steps to see a leak.
//!
//! Two runs that agree in every step and at every site pass, even if each alone is too short to
//! judge: whatever they do, they do the same.

mod alone;
mod rules;

use super::Difference;
use super::profile::Profile;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// How much more is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowance {
    /// A share of the baseline: 0.02 is 2 %.
    Share(f64),
    /// Bytes.
    Bytes(Bytes),
}

impl Allowance {
    fn of(self, base: Bytes) -> u64 {
        match self {
            Allowance::Share(share) => (base.0 as f64 * share) as u64,
            Allowance::Bytes(bytes) => bytes.0,
        }
    }
}

/// What is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Growth of the peak of *allocated*.
    pub peak_growth: Allowance,
    /// Growth per step beyond that of the baseline.
    pub step_growth: Bytes,
}

impl Default for Limits {
    /// 2 % of the peak, 1 MiB a step.
    fn default() -> Limits {
        Limits {
            peak_growth: Allowance::Share(0.02),
            step_growth: Bytes::mib(1),
        }
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Outcome {
    /// Nothing got worse by more than is allowed.
    Pass,
    /// Something did.
    Regression,
    /// The data do not say.
    CannotTell,
}

/// What a finding means for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Weight {
    /// It makes a regression.
    Fail,
    /// It forbids a verdict.
    Unknown,
    /// It is worth a look.
    Warn,
    /// It is said for completeness.
    Note,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finding {
    /// What it means for the answer.
    pub weight: Weight,
    /// Stable code, such as `peak`.
    pub code: String,
    /// One sentence.
    pub detail: String,
}

/// The answer and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Verdicts {
    /// The answer.
    pub outcome: Outcome,
    /// Why, in one sentence.
    pub reason: String,
    /// All that was found, the most serious first.
    pub findings: Vec<Finding>,
}

/// Judges two runs, given the differences of their devices. Devices that only the new run has, and
/// pinned memory of the host, must not leak either.
pub fn gate_runs(
    base: &Profile,
    new: &Profile,
    differences: &[Difference],
    limits: &Limits,
) -> Verdicts {
    judged(differences, alone::findings(base, new), limits)
}

/// Judges the differences of all devices.
pub fn gate(differences: &[Difference], limits: &Limits) -> Verdicts {
    judged(differences, Vec::new(), limits)
}

/// What the gate says of a pair of devices by the usual limits. A comparison takes its word, so
/// that neither says "better" where the other does not know.
pub(super) struct Said {
    /// What is worse.
    fails: Vec<Finding>,
    /// What it does not know.
    unknown: Vec<Finding>,
}

impl Said {
    /// Asks the gate.
    pub fn of(difference: &Difference) -> Said {
        let found = rules::findings(difference, &Limits::default());
        let of = |weight: Weight| {
            let found = found.iter().filter(|finding| finding.weight == weight);
            found.cloned().collect()
        };
        Said {
            fails: of(Weight::Fail),
            unknown: of(Weight::Unknown),
        }
    }

    /// Whether something is worse.
    pub fn fails(&self) -> bool {
        !self.fails.is_empty()
    }

    /// Whether it cannot tell. What is worse is so, whatever is not known besides.
    pub fn cannot_tell(&self) -> bool {
        !self.fails() && !self.unknown.is_empty()
    }

    /// Whether it does not know what the runs need; else only whether they leak.
    pub fn lacks_levels(&self) -> bool {
        self.unknown.iter().any(|finding| finding.code != "leak")
    }

    /// What is worse by one question.
    pub fn worse_by(&self, code: &'static str) -> impl Iterator<Item = &str> {
        let fails = self.fails.iter();
        let fails = fails.filter(move |finding| finding.code == code);
        fails.map(|finding| finding.detail.as_str())
    }

    /// What it does not know.
    pub fn not_known(&self) -> String {
        sentences(&self.unknown)
    }

    /// What is worse, and then what it does not know.
    pub fn told(&self) -> String {
        sentences(self.fails.iter().chain(&self.unknown))
    }
}

fn sentences<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> String {
    let details = findings.into_iter().map(|finding| finding.detail.as_str());
    details.collect::<Vec<_>>().join("; ")
}

fn judged(differences: &[Difference], mut findings: Vec<Finding>, limits: &Limits) -> Verdicts {
    for difference in differences {
        let found = rules::findings(difference, limits);
        let device = difference.new.device;
        let several = differences.len() > 1;
        findings.extend(found.into_iter().map(|finding| match several {
            true => Finding {
                detail: format!("device {device}: {}", finding.detail),
                ..finding
            },
            false => finding,
        }));
    }
    if differences.is_empty() {
        findings.push(Finding {
            weight: Weight::Unknown,
            code: "no_devices".to_owned(),
            detail: "there is no device in both runs that holds memory or events".to_owned(),
        });
    }
    findings.sort_by_key(|finding| finding.weight);
    let outcome = match findings.first().map(|finding| finding.weight) {
        Some(Weight::Fail) => Outcome::Regression,
        Some(Weight::Unknown) => Outcome::CannotTell,
        _ => Outcome::Pass,
    };
    Verdicts {
        outcome,
        reason: reason(outcome, &findings, differences),
        findings,
    }
}

fn reason(outcome: Outcome, findings: &[Finding], differences: &[Difference]) -> String {
    let of = |weight: Weight| {
        let chosen = findings.iter().filter(|finding| finding.weight == weight);
        sentences(chosen)
    };
    match outcome {
        Outcome::Regression => of(Weight::Fail),
        Outcome::CannotTell => of(Weight::Unknown),
        Outcome::Pass => {
            let headline = super::foremost(differences).map(|at| &differences[at].headline);
            headline.cloned().unwrap_or_default()
        }
    }
}
