//! Runs with the same labels, one after the other, and where a number changed for good.

use crate::bench::Fault;
use crate::ids::RunId;
use crate::labels::Labels;
use crate::leaks::Verdict;
use crate::projects::ProjectName;
use crate::quality::{is_state, told_peak};
use serde::{Deserialize, Serialize};
use trace::device::DeviceIdx;
use trace::steps::Word;
use trace::units::Bytes;

/// The largest number of runs in a history; the newest are kept. A job counts as one.
pub const MOST_RUNS: usize = trace::history::MOST;

/// The name of the parameter that asks for older runs: those before this run.
pub const BEFORE: &str = "before";

/// What is followed from run to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Peak of *allocated*.
    Peak,
    /// *Allocated* after the last event.
    End,
    /// What leaks with each step, as it is proven block by block. Comparisons also tell how the
    /// level itself grows, which in a run without a leak is something else.
    Growth,
    /// *Reserved* at its peak beyond the peak of *allocated*.
    Unused,
}

impl Measure {
    /// All, in the order in which they are shown.
    pub const ALL: [Measure; 4] = [
        Measure::Peak,
        Measure::End,
        Measure::Growth,
        Measure::Unused,
    ];

    /// The name for people.
    pub const fn label(self) -> &'static str {
        match self {
            Measure::Peak => "peak",
            Measure::End => "end",
            Measure::Growth => "leak a step",
            Measure::Unused => "reserved beyond allocated",
        }
    }
}

/// Runs, oldest first, and what changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct History {
    /// The newest runs with these labels, or the newest before the one that was asked for; the
    /// oldest first.
    pub runs: Vec<HistoryRun>,
    /// Changes for good among these runs, oldest first; several measures can change at one run.
    pub changes: Vec<HistoryChange>,
    /// How many runs have these labels in all; a job counts as one. 0 from servers that are older
    /// than this field.
    #[serde(default)]
    pub total: u32,
    /// Where there are older runs: the run to ask `before` for them. The newest of what is answered
    /// then are also the oldest here, so that no change is lost between two parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older: Option<RunId>,
    /// The project that they are in, where the server has several: links name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectName>,
}

/// One run of a history: of its device with the highest peak. What accumulates is that of the
/// device that the verdict is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryRun {
    /// Its id.
    pub run: RunId,
    /// Its name; of a rank, its job and its rank.
    pub name: String,
    /// When it arrived, milliseconds since the epoch.
    pub created_ms: i64,
    /// What the team says of it.
    pub labels: Labels,
    /// Peak of *allocated*.
    pub peak: Bytes,
    /// *Allocated* after the last event.
    pub end: Bytes,
    /// What leaks with each step: 0 if nothing does, `null` where that cannot be told.
    pub growth: Option<Bytes>,
    /// The device on which that much accumulates, where it is another than the one with the highest
    /// peak.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>))]
    pub growth_device: Option<DeviceIdx>,
    /// What one of its steps is called: `step`, or `token`, `request` and so on.
    #[serde(default = "crate::leaks::step")]
    pub step: String,
    /// *Reserved* at its peak beyond the peak of *allocated*.
    pub unused: Bytes,
    /// Whether it leaks; `null` until that was looked at.
    pub verdict: Option<Verdict>,
    /// Whether an allocation failed, on any device: the peak of that device is then the available
    /// memory, not the needed memory.
    pub out_of_memory: bool,
    /// What went wrong in the bench row whose first steps it is; the recording need not show it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub faults: Vec<Fault>,
    /// Codes of findings about its recording, such as `ring_wrapped`: its numbers are then those of
    /// what was recorded.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub quality: Vec<String>,
}

impl HistoryRun {
    /// One of its numbers. Of a state alone neither peak is known, so their difference is no
    /// number.
    pub fn measured(&self, measure: Measure) -> Option<Bytes> {
        match measure {
            Measure::Peak => Some(self.peak),
            Measure::End => Some(self.end),
            Measure::Growth => self.growth,
            Measure::Unused => Some(self.unused).filter(|_| !is_state(&self.quality)),
        }
    }

    /// Its peak in words: of a recording that lost its beginning, it is only known to be no lower.
    pub fn peak(&self) -> String {
        told_peak(self.peak, &self.quality)
    }

    /// What went wrong, as its recording and its bench know it.
    pub fn went_wrong(&self) -> Vec<Fault> {
        Fault::with_recorded(&self.faults, self.out_of_memory)
    }

    /// Whether its numbers say what the program needs. A run that raised needs little, and where
    /// data are wrong, memory may look well.
    pub fn is_measure(&self) -> bool {
        let is_none = |fault: &Fault| matches!(fault, Fault::Crash | Fault::Corruption);
        !self.faults.iter().any(is_none)
    }

    /// What leaks, for a column that is headed "leak a step".
    pub fn leaked(&self) -> Option<String> {
        let growth = self.growth?;
        let of = self.growth_device;
        let of = of.map_or_else(String::new, |device| format!(" ({})", device.name()));
        Some(match Word::called(&self.step) {
            Word::Step => format!("{growth}{of}"),
            word => format!("{growth} {}{of}", word.a()),
        })
    }

    /// Its name for people: the beginning of its commit, or its name.
    pub fn called(&self) -> String {
        match self.labels.get("commit") {
            Some(commit) => commit.chars().take(8).collect(),
            None => self.name.clone(),
        }
    }
}

/// A change for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryChange {
    /// Of what.
    pub measure: Measure,
    /// The last run before it that has this number.
    pub before: RunId,
    /// The first run with it.
    pub first: RunId,
    /// The level before: the median of its runs.
    pub from: Bytes,
    /// The level since.
    pub to: Bytes,
    /// Runs on the new level. One is what was seen once; it may be odd.
    pub runs: u32,
}
