//! Benches: configurations × sets of patches on the engine, which of them run, and the results.
//!
//! Sizes are bytes. A number is *computed* (by the engine on the simulated device), of the *engine
//! on a card*, *measured* (of the real software) or *published* (by somebody else). Each kind has a
//! place of its own. [`outcome`] is the result of a row, [`verdict`] what the result means in
//! comparison with its baseline, [`row_of_run`] what is said of it beside its recording,
//! [`evidence`] what others say.

mod evidence;
mod frontier;
mod offloaders;
mod outcome;
mod row_of_run;
mod verdict;

pub use evidence::{Evidence, EvidenceKind, Fate, Hypothesis, Known, Losses};
pub use frontier::{
    Frontier, FrontierCard, FrontierKind, FrontierLimits, FrontierMeasured, FrontierPoint,
};
pub use offloaders::{GridCell, Offloader, OffloaderGrid, Trouble};
pub use outcome::{BenchResult, CardFacts};
pub use row_of_run::{Fault, GATE_CODE, RowOfRun, wrong_bytes};
pub use verdict::{BenchStatus, FEWEST_STEPS, GROWS, corrupts, grows, shows_growth, verdict};

use crate::ids::{BenchId, BenchRowId, RunId};
use crate::lacks::Lacks;
use serde::{Deserialize, Serialize};
use trace::units::Bytes;

/// What can be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchCatalog {
    /// Configurations.
    pub configs: Vec<BenchConfig>,
    /// Patches, in the order of the published table.
    pub patches: Vec<BenchPatch>,
    /// Where rows can run, and where they cannot, with the reason.
    pub devices: Vec<BenchDevice>,
    /// What a row may take.
    pub limits: BenchLimits,
}

/// A configuration: a workload with its inputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchConfig {
    /// Public id.
    pub id: String,
    /// One sentence on what it is.
    pub about: String,
    /// The version that patches are applied to.
    pub base: String,
    /// Steps unless a request says otherwise.
    pub default_steps: u32,
    /// Device memory of the published run, where it limits anything.
    pub capacity: Option<Bytes>,
    /// What the workload is made of, and who says so.
    pub inputs: Vec<BenchInput>,
    /// Patches that touch anything it runs.
    pub applicable: Vec<String>,
    /// The combination that was published or merged as the solution; empty where there is none.
    pub combination: Vec<String>,
    /// Sets of patches, each with one more than the one before, in the order in which upstream
    /// merged them: what the root-cause chain is drawn from.
    pub chain: Vec<Vec<String>>,
    /// What was published but cannot be derived, and why.
    pub published_only: Vec<PublishedOnly>,
}

/// Where an input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Stated by the source of the published numbers.
    Published,
    /// Taken from the model's or program's public source.
    Source,
    /// Assumed here, because nobody published it.
    Assumed,
}

/// One input of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchInput {
    /// What.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// A published statement that has no computed counterpart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublishedOnly {
    /// What was published.
    pub what: String,
    /// By whom.
    pub source: String,
    /// Why it cannot be derived.
    pub why: String,
}

/// A patch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchPatch {
    /// Public id.
    pub id: String,
    /// What it is called in a table: `P3`, `enter-reset`.
    pub label: String,
    /// The project that it changes.
    pub project: String,
    /// The pull request or commit; none for what has no public source.
    pub pr: Option<String>,
    /// Its address.
    pub url: Option<String>,
    /// What it changes, in a sentence.
    pub about: String,
    /// What is assumed of it, where its source was never published.
    pub hypothesis: Option<String>,
}

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// The simulated device.
    Sim,
    /// A real GPU.
    Cuda,
}

impl DeviceKind {
    /// Both.
    pub const ALL: [DeviceKind; 2] = [DeviceKind::Sim, DeviceKind::Cuda];

    /// Its public name.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::Sim => "sim",
            DeviceKind::Cuda => "cuda",
        }
    }
}

/// A device and whether rows can run on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchDevice {
    /// Which kind.
    pub kind: DeviceKind,
    /// What it is, in a few words.
    pub about: String,
    /// Why nothing can run on it; none where rows can run.
    pub unavailable: Option<String>,
}

/// What a request and a row may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchLimits {
    /// Rows of one bench.
    pub rows: u32,
    /// Steps of one row.
    pub steps: u32,
    /// Steps recorded event by event unless a request says otherwise; all are kept as numbers.
    pub recorded_steps: u32,
    /// Most steps that can be recorded event by event.
    pub most_recorded_steps: u32,
    /// Seconds after which a row has failed.
    pub seconds: u64,
    /// Memory of the row's process, above which it has failed.
    pub memory: Bytes,
}

/// `POST` to start a bench.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StartBench {
    /// What to run. The baseline of each configuration runs in any case: the status of the other
    /// rows is judged by it.
    pub rows: Vec<BenchChoice>,
    /// Where.
    pub device: DeviceKind,
    /// Steps; else each configuration's own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Device memory; else each configuration's own, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Bytes>,
    /// Steps, from the first, that are recorded event by event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_steps: Option<u32>,
}

/// A configuration with a set of patches; none is the baseline.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchChoice {
    /// Id of the configuration.
    pub config: String,
    /// Ids of the patches.
    pub patches: Vec<String>,
}

/// A bench in the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchSummary {
    /// Its id.
    pub id: BenchId,
    /// When it was asked for, milliseconds since the epoch.
    pub created_ms: i64,
    /// Where it runs.
    pub device: DeviceKind,
    /// Its configurations.
    pub configs: Vec<String>,
    /// Its rows, by how they stand.
    pub rows: RowCounts,
}

/// Rows by how they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RowCounts {
    /// Waiting.
    pub queued: u32,
    /// Under way.
    pub running: u32,
    /// Finished with a result.
    pub done: u32,
    /// Ended without one.
    pub failed: u32,
    /// Cancelled.
    pub cancelled: u32,
}

impl RowCounts {
    /// All of them.
    pub fn total(self) -> u32 {
        self.queued + self.running + self.done + self.failed + self.cancelled
    }

    /// Those that are not finished.
    pub fn unfinished(self) -> u32 {
        self.queued + self.running
    }
}

/// A bench with its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Bench {
    /// Its id.
    pub id: BenchId,
    /// When it was asked for, milliseconds since the epoch.
    pub created_ms: i64,
    /// Where it runs.
    pub device: DeviceKind,
    /// Steps, where the request named a number.
    pub steps: Option<u32>,
    /// Device memory, where the request named one.
    pub capacity: Option<Bytes>,
    /// Steps recorded event by event.
    pub recorded_steps: u32,
    /// Its rows, in the order in which they were asked for.
    pub rows: Vec<BenchRow>,
}

/// One row: a configuration with a set of patches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "ReadRow")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchRow {
    /// Its id.
    pub id: BenchRowId,
    /// Id of the configuration.
    pub config: String,
    /// Ids of the patches; none for the baseline.
    pub patches: Vec<String>,
    /// Steps to run.
    pub steps: u32,
    /// How it stands.
    pub state: BenchRowState,
    /// The verdict: alone, or beside the baseline of the same bench once that is done.
    pub status: Option<BenchStatus>,
    /// What came of it, once it is done. A row that only tests a hypothesis has none: its numbers
    /// are part of `hypothesis`.
    pub result: Option<BenchResult>,
    /// Allocated memory at the end of steps, evenly spaced, at most [`BenchRow::SPARK_POINTS`].
    pub spark: Vec<Bytes>,
    /// The run that its recording became, while that is there.
    pub run: Option<RunId>,
    /// What of it could not be stored, and why: the row is done without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What was assumed of a patch that has no public source, and whether it can be true.
    pub hypothesis: Option<Hypothesis>,
    /// Why a patch changes nothing here, where that is asserted from its source and not computed.
    pub asserted: Option<String>,
    /// What is known of such a run beside the computed numbers.
    #[serde(flatten)]
    pub known: Known,
    /// Seconds that the last attempt took, once it is finished.
    pub seconds: Option<f64>,
}

/// It as it is read; `crate::lacks` says why.
#[derive(Deserialize)]
struct ReadRow {
    id: BenchRowId,
    config: String,
    patches: Vec<String>,
    steps: u32,
    state: BenchRowState,
    status: Option<BenchStatus>,
    result: Option<BenchResult>,
    spark: Vec<Bytes>,
    run: Option<RunId>,
    note: Option<String>,
    hypothesis: Option<Hypothesis>,
    asserted: Option<String>,
    measured: Option<Evidence>,
    engine_on_card: Option<Evidence>,
    published: Option<Evidence>,
    seconds: Option<f64>,
}

impl From<ReadRow> for BenchRow {
    fn from(row: ReadRow) -> BenchRow {
        BenchRow {
            id: row.id,
            config: row.config,
            patches: row.patches,
            steps: row.steps,
            state: row.state,
            status: row.status,
            result: row.result,
            spark: row.spark,
            run: row.run,
            note: row.note,
            hypothesis: row.hypothesis,
            asserted: row.asserted,
            known: Known {
                measured: row.measured,
                engine_on_card: row.engine_on_card,
                published: row.published,
            },
            seconds: row.seconds,
        }
    }
}

impl BenchRow {
    /// The largest number of points in a sparkline.
    pub const SPARK_POINTS: usize = 64;
}

/// How a row stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "state", rename_all = "snake_case", try_from = "ReadState")]
pub enum BenchRowState {
    /// It waits.
    Queued {
        /// Rows that come before it, of any bench.
        ahead: u32,
    },
    /// It runs.
    Running {
        /// How far it is.
        progress: BenchProgress,
    },
    /// It has a result. A run that ran out of memory has one too: that is what it found out.
    Done,
    /// Its process ended without a result.
    Failed {
        /// Why, as a sentence.
        reason: String,
    },
    /// Somebody cancelled it.
    Cancelled,
}

/// It as it is read; `crate::lacks` says why.
#[derive(Deserialize)]
struct ReadState {
    state: StateTag,
    ahead: Option<u32>,
    progress: Option<BenchProgress>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StateTag {
    Queued,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl TryFrom<ReadState> for BenchRowState {
    type Error = Lacks;

    fn try_from(read: ReadState) -> Result<BenchRowState, Lacks> {
        Ok(match read.state {
            StateTag::Queued => BenchRowState::Queued {
                ahead: read.ahead.ok_or(Lacks("ahead"))?,
            },
            StateTag::Running => BenchRowState::Running {
                progress: read.progress.ok_or(Lacks("progress"))?,
            },
            StateTag::Done => BenchRowState::Done,
            StateTag::Failed => BenchRowState::Failed {
                reason: read.reason.ok_or(Lacks("reason"))?,
            },
            StateTag::Cancelled => BenchRowState::Cancelled,
        })
    }
}

/// How far a row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchProgress {
    /// Steps done.
    pub step: u32,
    /// Steps to run.
    pub steps: u32,
    /// Allocated memory at the end of the last step.
    pub allocated: Bytes,
    /// Highest allocated memory so far.
    pub peak: Bytes,
}

/// Which tensors a row keeps that another row of its bench does not, and the other way round: what
/// is alive at the ends of their recordings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TensorChanges {
    /// Steps recorded event by event of the row that is compared with; its tensors are those at
    /// the end of the last one.
    pub steps_before: u32,
    /// Those of the row itself.
    pub steps_after: u32,
    /// Tensors of which there are fewer or more, most bytes of difference first; at most
    /// [`TensorChanges::MOST`].
    pub changes: Vec<TensorChange>,
    /// Changes that were not sent.
    pub left_out: u64,
}

impl TensorChanges {
    /// The largest number of changes in an answer.
    pub const MOST: usize = 12;
}

/// Tensors alike: same holder, use, shape and element type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TensorChange {
    /// What keeps them alive, without the numbers that tell one from another:
    /// `held by bwd_tensor_stash`.
    pub owner: String,
    /// What they are for: `parameter`, `activation`, `restored` …
    pub role: String,
    /// Shape; empty for a number, and for memory that is no tensor.
    pub shape: Vec<u64>,
    /// Element type under PyTorch's name; none for memory that is no tensor.
    pub dtype: Option<String>,
    /// The name of one of them.
    pub example: String,
    /// How many the row has that is compared with.
    pub count_before: u64,
    /// How many the row itself has.
    pub count_after: u64,
    /// Their bytes in the row that is compared with, as asked for.
    pub bytes_before: Bytes,
    /// Their bytes in the row itself.
    pub bytes_after: Bytes,
}

/// One step of a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchStep {
    /// From 0.
    pub step: u32,
    /// Allocated at its end.
    pub allocated: Bytes,
    /// Highest allocated within it.
    pub peak_allocated: Bytes,
    /// Reserved at its end.
    pub reserved: Bytes,
    /// Entries of the tracker.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub tracker: u64,
    /// Tensors in the backward stash.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub bwd_stash: u64,
    /// Pinned host memory in use.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub host_pinned: Bytes,
    /// How long it took, in the device's own time.
    pub seconds: f64,
}
