//! Comparisons: a baseline and up to seven runs against it.

use crate::ids::{ComparisonId, RunId};
use serde::{Deserialize, Serialize};
use trace::compare::curves::Align;
use trace::compare::gate::{self, Limits, Verdicts};
use trace::compare::profile::Profile;
use trace::compare::{self, Change, Difference, Leaks, LeaksBeside};
use trace::leaks::Verdict;
use trace::trace::Series;
use trace::watch::{Stopped, Watch};

/// The least and the largest number of runs in a comparison.
pub const RUNS: std::ops::RangeInclusive<usize> = 2..=8;

/// A baseline and the runs compared with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Comparison {
    /// The runs; the first is the baseline.
    pub runs: Vec<ComparedRun>,
    /// One for each run after the first, in order.
    pub against: Vec<Against>,
}

/// A run of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ComparedRun {
    /// Its id; absent for files compared on the command line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<RunId>,
    /// Its name: the user's, or the file's; of a rank, its job and its rank.
    pub name: String,
    /// The torch versions that write such a file.
    pub torch: Option<String>,
}

/// One run against the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Against {
    /// The position in `devices` of the one that is shown for the run; absent without devices.
    pub foremost: Option<u32>,
    /// The difference of each pair of devices, in order.
    pub devices: Vec<Difference>,
    /// Leaks of memory that is in no pair: of devices that only one run has, and of the pinned
    /// memory of the host.
    pub beside: Vec<LeaksBeside>,
    /// What `tidemark gate` says of it with its default limits.
    pub gate: Verdicts,
}

impl Against {
    /// Compares one run with the baseline.
    ///
    /// All steps are judged; the answer lists the first [`Against::MAX_STEPS`] of them.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn while_watched(
        base: &Profile,
        new: &Profile,
        limits: &Limits,
        watch: Watch<'_>,
    ) -> Result<Against, Stopped> {
        let mut devices = compare::compare(base, new, watch)?;
        let mut gate = gate::gate_runs(base, new, &devices, limits);
        gate.findings.truncate(Against::MAX_FINDINGS);
        let steps = Against::MAX_STEPS / devices.len().max(1);
        for device in &mut devices {
            device.steps.truncate(steps);
            device.steps.shrink_to_fit();
        }
        Ok(Against {
            foremost: compare::foremost(&devices).map(|at| at as u32),
            beside: compare::leaks_beside(base, new),
            gate,
            devices,
        })
    }

    /// The same, without anybody who may stop it.
    pub fn of(base: &Profile, new: &Profile, limits: &Limits) -> Against {
        Watch::undisturbed(|watch| Against::while_watched(base, new, limits, watch))
    }

    /// About how many heap bytes it uses.
    pub fn heap_bytes(&self) -> usize {
        const PER_FINDING: usize = 1024;
        const PER_PLACE: usize = 1024;
        let devices = self.devices.iter().map(Difference::heap_bytes);
        let beside = self.beside.iter().flat_map(|one| [&one.base, &one.new]);
        let places = beside.flatten().map(|leaks| leaks.places.len());
        devices.sum::<usize>()
            + self.gate.findings.len() * PER_FINDING
            + places.sum::<usize>() * PER_PLACE
    }

    /// What leaks besides the device that is shown: the name of the memory, then what is said of
    /// the baseline and of the new run, by `told`.
    pub fn other_leaks(&self, told: impl Fn(&Leaks) -> String) -> Vec<[String; 3]> {
        let mut rows = Vec::new();
        for (at, pair) in (0..).zip(&self.devices) {
            let [base, new] = [&pair.base.leaks, &pair.new.leaks];
            let leaks = [base, new].iter().any(|side| side.verdict == Verdict::Leak);
            if leaks && self.foremost != Some(at) {
                rows.push([pair.new.device.name(), told(base), told(new)]);
            }
        }
        rows.extend(self.leaks_beside(told));
        rows
    }

    /// The same of memory that is in no pair.
    pub fn leaks_beside(&self, told: impl Fn(&Leaks) -> String) -> Vec<[String; 3]> {
        let side = |leaks: &Option<Leaks>| {
            let absent = || "not recorded".to_owned();
            leaks.as_ref().map_or_else(absent, &told)
        };
        let rows = self.beside.iter();
        rows.map(|one| [one.device.name(), side(&one.base), side(&one.new)])
            .collect()
    }

    /// The largest number of steps that an answer lists, of all devices together. Both sides give
    /// their full number of steps.
    pub const MAX_STEPS: usize = 16_384;
    /// The largest number of findings in an answer, the most serious ones.
    pub const MAX_FINDINGS: usize = 1000;

    /// The position in `devices` of the pair to show: the wanted one, if these two runs have it.
    /// What is wanted was chosen for another run, or is from an old address.
    pub fn pair(&self, wanted: Option<u32>) -> Option<usize> {
        pair(wanted, self.devices.len(), self.foremost)
    }

    /// The devices besides the one that is shown that are not the same in both runs.
    pub fn others(&self) -> impl Iterator<Item = &Difference> {
        let numbered = (0..).zip(&self.devices);
        let others = numbered.filter(|(at, _)| self.foremost != Some(*at));
        let others = others.map(|(_, difference)| difference);
        others.filter(|other| !matches!(other.change, Change::None | Change::Moved))
    }

    /// The difference that is shown for the run.
    pub fn difference(&self) -> Option<&Difference> {
        self.devices.get(self.foremost? as usize)
    }
}

fn pair(wanted: Option<u32>, there: usize, foremost: Option<u32>) -> Option<usize> {
    let wanted = wanted.filter(|at| (*at as usize) < there);
    wanted.or(foremost).map(|at| at as usize)
}

/// Run ids in the form of a query.
pub fn listed(runs: &[RunId]) -> String {
    let ids: Vec<&str> = runs.iter().map(RunId::as_str).collect();
    ids.join(",")
}

/// Which curves a query asks for.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct CurvesAsked {
    /// How the runs are aligned.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub align: Align,
    /// `requested`, `allocated`, `active` or `reserved`.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>))]
    pub series: Option<Series>,
    /// Which pair of devices, by position.
    #[serde(default)]
    pub pair: u32,
    /// Into how many equal parts the window is divided, 1 to 2000.
    pub parts: Option<u32>,
    /// First place on the axis.
    pub from: Option<f64>,
    /// Last place on the axis.
    pub to: Option<f64>,
}

/// Which curves to draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvesWanted {
    /// How the runs are aligned.
    pub align: Align,
    /// Which series.
    pub series: Series,
    /// Which pair of devices: its position in [`Against::devices`].
    pub pair: u32,
    /// First and last place on the axis; `None`: all of it.
    pub window: Option<(f64, f64)>,
    /// Into how many equal parts the window is divided.
    pub parts: u32,
}

impl CurvesWanted {
    /// The largest number of parts.
    pub const MAX_PARTS: u32 = 2000;
}

/// Curves of all runs of a comparison over one axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Curves {
    /// First and last place of any run on the axis.
    pub whole: (f64, f64),
    /// First and last place of the curves.
    pub window: (f64, f64),
    /// Where the first step of each run lies on an axis of steps.
    #[serde(default)]
    pub begins: Vec<u32>,
    /// One for each run, in order.
    pub runs: Vec<Curve>,
}

/// A curve of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Curve {
    /// Min, max and last level of each part, bytes; `None` where the run has no events.
    pub parts: Vec<Option<[u64; 3]>>,
    /// The event at each border of a part, one more than there are parts.
    pub events: Vec<u32>,
    /// The number on the axis of the step in which each part begins; `None` outside of steps.
    pub steps: Vec<Option<u32>>,
}

/// Longest address of a pull request, bytes.
const PULL_REQUEST_BYTES: usize = 500;

/// What the address of a pull request has to be.
pub const PULL_REQUEST_RULE: &str = "a pull request is an https:// or http:// URL without spaces";

/// The address of a pull request as it is kept; `None` if it is none ([`PULL_REQUEST_RULE`]).
pub fn pull_request(address: &str) -> Option<&str> {
    let address = address.trim();
    let known = address.starts_with("https://") || address.starts_with("http://");
    let plain = address.chars().all(|c| c.is_ascii_graphic());
    let is_one = known && plain && address.len() <= PULL_REQUEST_BYTES;
    is_one.then(|| without_tab(address))
}

/// The tabs of a pull request (`/pull/7/files`) have addresses of their own, and so have places on
/// it: all of them are one pull request.
fn without_tab(address: &str) -> &str {
    let number_in = |mark: &str| {
        let (before, after) = address.split_once(mark)?;
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let ends = after[digits..].chars().next();
        let is_number = digits > 0 && ends.is_none_or(|end| "/?#".contains(end));
        is_number.then_some(before.len() + mark.len() + digits)
    };
    let mut marks = ["/-/merge_requests/", "/pull/"].into_iter();
    let end = marks.find_map(number_in).unwrap_or(address.len());
    &address[..end]
}

/// `POST` to record a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordComparison {
    /// 2 to 8 runs; the first is the baseline.
    pub runs: Vec<RunId>,
    /// The pull request: an `https://` or `http://` URL.
    #[serde(default)]
    pub pr: Option<String>,
    /// A name; by default the names of the runs.
    #[serde(default)]
    pub name: Option<String>,
}

/// A recorded comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedComparison {
    /// Its id: equal runs and pull request have equal ids.
    pub id: ComparisonId,
    /// Its name.
    pub name: String,
    /// Its runs; the first is the baseline.
    pub runs: Vec<RunId>,
    /// The pull request it belongs to.
    pub pr: Option<String>,
    /// When it was recorded first, milliseconds since the epoch.
    pub created_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_of_devices_is_shown_where_it_is() {
        assert_eq!(pair(Some(1), 2, Some(0)), Some(1));
        assert_eq!(pair(Some(2), 2, Some(1)), Some(1));
        assert_eq!(pair(None, 2, Some(1)), Some(1));
        assert_eq!(pair(Some(0), 0, None), None);
    }

    #[test]
    fn only_an_address_of_the_web_is_a_pull_request() {
        let check = |address: &str, expected: Option<&str>| {
            assert_eq!(pull_request(address), expected, "{address}");
        };
        let good = "https://github.com/me/repo/pull/7";
        check(good, Some(good));
        // Its tabs, and places on it.
        for more in ["/files", "/commits/0a1b", "#issuecomment-1", "?w=1", "/"] {
            check(&[good, more].concat(), Some(good));
        }
        let merge = "https://git.example/a/b/-/merge_requests/12";
        check(&[merge, "/diffs?x=/pull/3"].concat(), Some(merge));
        for other in [
            "https://forge/pull/7a",
            "https://forge/pull/",
            "https://forge/pull/x/7",
        ] {
            check(other, Some(other));
        }
        check(" http://forge/7 ", Some("http://forge/7"));
        for bad in [
            "",
            "nonsense",
            "javascript:alert(1)",
            "https://a b",
            "ftp://a",
        ] {
            check(bad, None);
        }
        let long = format!("https://{}", "a".repeat(PULL_REQUEST_BYTES));
        check(&long, None);
    }
}
