//! Trainings that report their memory after each step, while they run.

use crate::ids::LiveId;
use crate::labels::Labels;
use serde::{Deserialize, Serialize};
use trace::units::Bytes;

/// Most steps in one report.
pub const MOST_STEPS: usize = 1000;
/// Most steps that a snapshot can be asked for.
pub const MOST_CAPTURED: u32 = 100;
/// Most live runs in an answer.
pub const MOST_RUNS: usize = 200;
/// Most points of a curve.
pub const MOST_POINTS: usize = 500;
/// Most warnings about one run.
pub const MOST_WARNINGS: usize = 2;

/// A training begins to report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewLive {
    /// What it is called.
    pub name: String,
    /// Which of its processes this is, from 0.
    pub rank: Option<u32>,
    /// How many there are; 1 at least.
    pub ranks: Option<u32>,
    /// The key that all its processes share.
    pub job: Option<String>,
    /// CUDA ordinal; 127 at most.
    pub device: u32,
    /// How much of the device's memory the process may use; 1 byte at least, absent where it is
    /// not known.
    pub limit: Option<Bytes>,
    /// What is said of it.
    #[serde(default)]
    pub labels: Labels,
}

/// A training that reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LiveMade {
    /// Its id, for reports.
    pub live: LiveId,
    /// Its page.
    pub page: String,
}

/// Reports, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reports {
    /// Each: step (from 1), Unix time in milliseconds, bytes allocated, the highest of these so
    /// far, bytes reserved, retries of allocations, allocations that failed.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<[u64; 7]>))]
    pub steps: Vec<[u64; 7]>,
}

/// The answer to reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Heard {
    /// The snapshot that somebody asks for.
    pub capture: Option<Capture>,
    /// What somebody should look at, a sentence each.
    pub warnings: Vec<String>,
}

/// A snapshot of the next steps is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Capture {
    /// Tells it from earlier ones.
    pub id: u32,
    /// How many steps it should hold.
    pub steps: u32,
}

/// Asks for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AskCapture {
    /// Of how many steps; 1 to 100.
    pub steps: u32,
}

/// How a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum LiveOutcome {
    /// It came to its end.
    Done,
    /// An error ended it.
    Failed,
    /// It ran out of memory.
    OutOfMemory,
}

/// A training has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LiveEnd {
    /// How.
    pub outcome: LiveOutcome,
    /// The kind of the error (`RuntimeError`).
    pub what: Option<String>,
}

/// A training, as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LiveRun {
    /// Its id.
    pub id: LiveId,
    /// What it is called.
    pub name: String,
    /// Which of its processes this is.
    pub rank: Option<u32>,
    /// How many there are.
    pub ranks: Option<u32>,
    /// The key that all its processes share.
    pub job: Option<String>,
    /// CUDA ordinal.
    pub device: u32,
    /// How much of the device's memory the process may use.
    pub limit: Option<Bytes>,
    /// What is said of it.
    pub labels: Labels,
    /// When it began.
    pub created_ms: i64,
    /// When it was last heard of.
    pub seen_ms: i64,
    /// How it ended; absent while it runs.
    pub outcome: Option<LiveOutcome>,
    /// The kind of the error that ended it.
    pub what: Option<String>,
    /// The snapshot that is asked for and not taken yet.
    pub capture: Option<Capture>,
    /// The last report.
    pub last: Option<LiveStep>,
    /// What somebody should look at, a sentence each.
    pub warnings: Vec<String>,
    /// In the list of trainings: how all processes of its training stand, for which this one
    /// stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<LiveProcesses>,
}

/// How the processes of a training stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LiveProcesses {
    /// All of them.
    pub all: u32,
    /// Those that run.
    pub running: u32,
    /// Those that never said that they ended, and were not heard of for ten minutes.
    pub silent: u32,
    /// Those that failed or ran out of memory.
    pub failed: u32,
    /// Those that run and at which somebody should look.
    pub warned: u32,
}

/// What was in memory after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LiveStep {
    /// The step, counted from 1.
    pub step: u64,
    /// When it ended.
    pub at_ms: i64,
    /// *Allocated*.
    pub allocated: Bytes,
    /// The highest *allocated* so far.
    pub peak: Bytes,
    /// *Reserved*.
    pub reserved: Bytes,
    /// Allocations that were tried again after cached memory was given back.
    pub retries: u64,
    /// Allocations that failed.
    pub ooms: u64,
}

/// Trainings, each by the process that needs somebody most; or the processes of one training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LiveRuns {
    /// Those of this page.
    pub runs: Vec<LiveRun>,
    /// How many there are on all pages.
    #[serde(default)]
    pub total: u32,
}

/// A live run with its curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LiveCurve {
    /// The run.
    pub run: LiveRun,
    /// Steps in order. Of many, the one with the highest *allocated* stands for its neighbours.
    pub steps: Vec<LiveStep>,
}
