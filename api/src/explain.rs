//! A recording explained: what it is, what held its memory, why it ran out, what would have helped.
//!
//! `tidemark explain --json` prints this, and the API answers with it. The sentences of the page
//! are made from it.

use crate::bench::RowOfRun;
use crate::contents::CategoryBytes;
use crate::frames::FrameText;
use crate::leaks::{Pattern, Verdict};
use serde::{Deserialize, Serialize};
use trace::device::DeviceIdx;
use trace::known::Unknown;
use trace::phases::Phase;
use trace::steps::recording::Recording;
use trace::trace::{Fidelity, QualityNote, SeriesSummary, StepSource};
use trace::units::{Bytes, EventIdx};

/// What is said of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// Its name.
    pub file: String,
    /// What a bench knows of the run: how its row ended. Absent for what no bench recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bench_row: Option<RowOfRun>,
    /// The limit of the process, if the question tells it: a recording does not hold it.
    pub limit: Option<Bytes>,
    /// The torch versions that write such a file; none of a recording of this project's engine.
    pub torch: Option<String>,
    /// The device that is explained; `null` where none holds memory or events.
    pub device: Option<DeviceExplained>,
    /// The others, in short.
    pub other_devices: Vec<OtherDevice>,
    /// Findings about the data.
    pub notes: Vec<QualityNote>,
}

/// A device that is not explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OtherDevice {
    /// CUDA ordinal as the process saw it.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub device: DeviceIdx,
    /// Events.
    pub events: u32,
    /// Highest *allocated*.
    pub peak_allocated: Bytes,
    /// Highest *reserved*.
    pub peak_reserved: Bytes,
    /// Whether an allocation failed on it.
    pub out_of_memory: bool,
    /// Whether it leaks.
    pub verdict: Verdict,
    /// What is wrong there, in words: `leaks 4.00 MiB a step`. Absent if nothing is.
    pub trouble: Option<String>,
    /// The foremost place that leaks there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaking_place: Option<String>,
}

/// What is said of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceExplained {
    /// CUDA ordinal as the process saw it.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub device: DeviceIdx,
    /// Events.
    pub events: u32,
    /// What the recording holds, in a sentence.
    pub recording: Recording,
    /// Where the steps come from.
    pub step_source: StepSource,
    /// How many steps there are.
    pub steps: u32,
    /// How well the allocator's rules reproduced the trace.
    pub fidelity: Fidelity,
    /// `torch.cuda.memory_allocated()`.
    pub allocated: SeriesSummary,
    /// `torch.cuda.memory_reserved()`.
    pub reserved: SeriesSummary,
    /// Levels of these that the recording does not show.
    #[serde(default, skip_serializing_if = "Unknown::is_empty")]
    pub unknown: Unknown,
    /// What was held where *allocated* peaks, or in the only state; `null` without memory.
    pub peak: Option<Moment>,
    /// How the step of the peak differs from the others. Absent if most peak about as high, if
    /// memory ran out, or if something leaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlike: Option<UnlikeOthers>,
    /// What the step before had made, and was still held at the peak. Absent if that is little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlived: Option<OutlivedStep>,
    /// Why no category is told, and what to do. Absent where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories_unknown: Option<String>,
    /// Where memory lay then; `null` where segments are not those of an allocator.
    pub room: Option<Room>,
    /// Where it lay at the peak of *reserved*. Absent unless far more was free there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room_at_reserved: Option<Room>,
    /// What other settings would change of it, if that is too little to try them. Absent where they
    /// were not tried, or are among what to try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_settings: Option<String>,
    /// What is left behind, step after step.
    pub leaks: Leaks,
    /// The first failed allocation.
    pub out_of_memory: Option<OutOfMemory>,
    /// Failed allocations after which the program went on as if nothing had happened.
    pub passed_over: u64,
    /// What to try, the most promising first.
    pub to_try: Vec<Advice>,
}

/// What was held at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ExplainedMoment))]
pub struct Moment {
    /// The event; `null`: before the first one.
    pub event: Option<EventIdx>,
    /// The step that it lies in.
    pub step: Option<String>,
    /// The phase of the program's work, inferred.
    pub phase: Phase,
    /// The innermost scope around it that the program itself named (`record_function`). Absent
    /// without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// *Allocated* then.
    pub allocated: Bytes,
    /// *Reserved* then.
    pub reserved: Bytes,
    /// What it was for, most bytes first.
    pub categories: Vec<CategoryBytes>,
    /// The places that had asked for it, most bytes first.
    pub places: Vec<PlaceBytes>,
    /// Places left out.
    pub places_left_out: u64,
}

/// How the step of the peak differs from most others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnlikeOthers {
    /// The first steps that peak about as high, four at most; empty if the peak is outside of all
    /// steps.
    pub steps: Vec<String>,
    /// How many steps peak about as high.
    pub n_steps: u64,
    /// Whether no step peaks below the one before.
    pub rises: bool,
    /// The peak of the median step; outside of all steps, the highest peak of a step.
    pub usual_peak: Bytes,
    /// A line that asks for nothing in the other steps. Absent unless it and what it calls hold
    /// half of the difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What they hold; 0 without such a line.
    pub place_bytes: Bytes,
    /// How many times as much it asks for at the same lines as the median step. Absent where that
    /// is not known, or a line is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_as_large: Option<f64>,
    /// All of it in words.
    pub sentence: String,
}

impl UnlikeOthers {
    /// So many steps are named.
    pub const MAX_STEPS: usize = 4;
}

/// What was made in the step before the peak's, and went later in that step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutlivedStep {
    /// Its bytes.
    pub bytes: Bytes,
    /// The place that asked for most of it.
    pub place: String,
    /// The highest *allocated* if it had gone at the end of its step, in each step: computed.
    pub peak_without: Bytes,
    /// What it was, in words.
    pub sentence: String,
}

/// What a place in the code had asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlaceBytes {
    /// The place, in words.
    pub place: String,
    /// The line of the program; `null` where none is recorded.
    pub frame: Option<FrameText>,
    /// How many blocks.
    pub count: u64,
    /// Their bytes.
    pub bytes: Bytes,
}

/// Where memory lay at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Room {
    /// The event; absent when it is before the first one.
    pub event: Option<EventIdx>,
    /// Reserved and not in use.
    pub free: Bytes,
    /// Of that, in segments nothing of which is in use: it could be given back.
    pub cached: Bytes,
    /// Of that, in segments that are partly in use (`inactive_split_bytes`), or of a private pool
    /// that is.
    pub split: Bytes,
    /// Of that, in whole segments of private pools, of CUDA graphs for example: they stay reserved
    /// as long as the pool is in use.
    #[serde(default)]
    pub kept: Bytes,
    /// The largest free range.
    pub largest_gap: Bytes,
    /// By pool and stream, those that hold most first.
    pub pools: Vec<PoolRoom>,
    /// Who holds segments less than half of which is in use, by free bytes that they hold.
    pub pins: Vec<Pin>,
}

/// Where the memory of a pool and stream lay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PoolRoom {
    /// Which, in words.
    pub name: String,
    /// Bytes of its segments.
    pub reserved: Bytes,
    /// Reserved and not in use.
    pub free: Bytes,
    /// Of that, in segments that are partly in use, or of a private pool that is.
    pub split: Bytes,
    /// Of that, in whole segments: they stay reserved as long as the pool is in use.
    #[serde(default)]
    pub kept: Bytes,
    /// The largest free range.
    pub largest_gap: Bytes,
}

/// Blocks of a place that keep segments from being given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pin {
    /// The place, in words: the one with most bytes in each segment.
    pub place: String,
    /// How many segments.
    pub segments: u64,
    /// What is in use in them.
    pub used: Bytes,
    /// What is free in them.
    pub free: Bytes,
}

/// What is left behind, step after step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ExplainedLeaks))]
pub struct Leaks {
    /// Yes, no, or cannot tell.
    pub verdict: Verdict,
    /// Why; where it cannot be told, with the one thing to do.
    pub reason: String,
    /// What limits the answer.
    pub caveats: Vec<String>,
    /// That *reserved* grows though *allocated* does not need it, and what to do, in one sentence.
    /// It is no part of the verdict. Absent where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_growth: Option<String>,
    /// Bytes that all of it adds for each step; 0 if it grows within steps only.
    pub bytes_per_step: f64,
    /// The same in what the first group is counted by: bytes a part of a step, if it grows within
    /// steps only.
    pub rate: f64,
    /// What accumulates: first what does so from step to step, then what does within steps; of
    /// both, most bytes first. The first one is told.
    pub groups: Vec<LeakExplained>,
    /// Groups left out.
    pub groups_left_out: u64,
}

/// Allocations that accumulate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeakExplained {
    /// The place that explains it best, in words.
    pub place: String,
    /// Where `place` names other leaks, too: the innermost function that tells this one from them.
    pub made_in: Option<FrameText>,
    /// How it grows.
    pub pattern: Pattern,
    /// Bytes added for each step (for each part, when it grows within steps).
    pub bytes_per_step: f64,
    /// What the program requests of these, where the allocator gives a hundredth more or beyond.
    #[serde(default)]
    pub requested_per_step: Option<f64>,
    /// What they are counted by, in the word that was found for the steps: `a step`, `a request`,
    /// `a part of a step`.
    pub counted_by: String,
    /// Blocks added for each step.
    pub count_per_step: f64,
    /// Bytes alive at the end of the last whole step.
    pub live_bytes: Bytes,
    /// From 0 to 1: how likely it goes on.
    pub confidence: f64,
    /// For allocations of a backward pass without a stack: the forward operation, inferred.
    pub forward: Option<String>,
    /// The stack that accounts for most of it, innermost first, without PyTorch's frames.
    pub stack: Vec<FrameText>,
    /// The innermost line of the program itself, if `place` is in a package. It may lie further out
    /// than `stack` reaches.
    pub caller: Option<FrameText>,
}

/// A failed allocation explained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ExplainedFailure))]
pub struct OutOfMemory {
    /// What was held then.
    pub held: Moment,
    /// Where memory lay then, the cache emptied; `null` where segments are missing.
    pub room: Option<Room>,
    /// The phase in which it failed, inferred.
    pub phase: Phase,
    /// The requested bytes.
    pub asked: Bytes,
    /// The segment that would have been needed; `null` where replay does not give the failure.
    pub segment: Option<Bytes>,
    /// The free bytes of the driver; `null` where the recording does not say.
    pub free: Option<Bytes>,
    /// What refused it.
    pub refused_by: Refusal,
    /// Lower bound of what the process could reserve.
    pub limit_at_least: Option<Bytes>,
    /// Upper bound (exclusive) of what the process could reserve.
    pub limit_below: Option<Bytes>,
    /// Whether these bounds are narrower than the recording shows: replay gives this failure only
    /// within them, as far as that was tried.
    #[serde(default)]
    pub is_limit_narrowed: bool,
    /// Requests before it for which the cache was emptied, as replayed.
    pub retries_before: Option<u64>,
    /// Of what was held, what earlier steps had leaked.
    pub leaked: Bytes,
    /// Failed allocations after this one.
    pub later_failures: u64,
    /// The main cause.
    pub cause: Cause,
    /// Why, in sentences.
    pub why: String,
    /// What would have helped, in sentences.
    pub what_would_have_helped: String,
    /// The single changes that get past it, ranked.
    pub remedies: Vec<Remedy>,
    /// Where no settings do for sure: those that would under the largest limit that fits the
    /// recording. Absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings_perhaps: Vec<String>,
    /// What the whole pass would have needed in which it failed; `null` where no pass like it was
    /// recorded before, or something leaks.
    pub whole_pass: Option<WholePass>,
    /// What its pass had taken by then, if that is more than any whole one before took: how much it
    /// needs in all, nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outgrown: Option<Bytes>,
}

/// What a whole pass needs, as the passes before tell it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WholePass {
    /// The least, if it is like any of them; where it is larger, as an estimate.
    pub least: Bytes,
    /// How many times as much it asked for as the largest of them, at the same lines; `null` if as
    /// much, or nobody knows.
    pub times_as_large: Option<f64>,
    /// Whether that is more than the limit; an estimate, by more than a twentieth of it.
    pub is_too_much: bool,
    /// The largest share of the batch with which one like the largest of them is likely to fit and
    /// the failed request is got past, as an estimate: `1/2 of the batch`. `null` if none of those
    /// that are tried is, or nobody knows.
    pub batch: Option<String>,
    /// What it would need then; `null` without such a share.
    pub with_batch: Option<Bytes>,
}

/// What refused an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = FailureRefusal))]
pub enum Refusal {
    /// The device was full.
    Device,
    /// A limit of the process: the device had enough free.
    ProcessLimit,
    /// One of the two: the recording does not say what the device had free.
    NotKnown,
}

/// Why memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = FailureCause))]
pub enum Cause {
    /// What earlier steps left behind.
    Leak,
    /// There was enough, in pieces that were too small.
    Fragmentation,
    /// The memory in use and the request together exceed the limit.
    Demand,
    /// One of the last two: the limit is not known exactly, or not how much more was to follow.
    NotKnown,
}

/// How a number was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AdviceBasis))]
pub enum Basis {
    /// The recorded requests were replayed.
    Computed,
    /// They were replayed with sizes that are estimated.
    Estimated,
    /// Advice without a number.
    NotComputed,
}

/// A single change that gets past the failed allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Remedy {
    /// What is changed: `no leaks`, a setting as `PYTORCH_CUDA_ALLOC_CONF` has it, `1/2 of the
    /// batch`.
    pub change: String,
    /// How that was found out.
    pub basis: Basis,
    /// Highest *reserved*, up to there.
    pub peak_reserved: Bytes,
    /// Bytes then left to the limit.
    pub left: Bytes,
    /// Steps after which the leak has filled that, if they are like those before; `null` without a
    /// leak, or where it is gone.
    pub steps_until_full: Option<u64>,
    /// The same if what leaks takes all that is free, within what is reserved, too. Absent with the
    /// other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_until_full_at_most: Option<u64>,
}

/// Something to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Advice {
    /// How it was found out.
    pub basis: Basis,
    /// What, in a sentence or two.
    pub sentence: String,
}
