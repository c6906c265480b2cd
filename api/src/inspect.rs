//! What `tidemark inspect --json` prints: one [`Inspection`] per file.
//!
//! One document on stdout: the object itself for one file, an array of them for several. A file
//! that cannot be read has no entry in the array; stderr says why.

use crate::frames::{ForwardOp, FrameText};
use crate::leaks::{Pattern, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use trace::categories::Named;
use trace::device::DeviceIdx;
use trace::known::Unknown;
use trace::steps::choices::LoopChoice;
use trace::steps::recording::Recording;
use trace::trace::{Fidelity, QualityNote, SeriesSummary, StepSource};
use trace::units::{Bytes, EventIdx};

/// Summary of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// Path as given.
    pub file: String,
    /// What the file says about itself.
    pub format: Format,
    /// Its devices.
    pub devices: Vec<Device>,
    /// The pinned memory of the host, as a device with the number 128; only where it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Device>,
    /// What the recording holds; `null` without devices.
    #[serde(default)]
    pub recording: Option<Recording>,
    /// Steps of the device that has most of them.
    pub steps: Steps,
    /// Whether memory is left behind, step after step.
    pub leaks: Leaks,
    /// Findings about the data.
    pub quality: Vec<QualityNote>,
}

/// What a file says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// Pickle protocol; `null` for JSON.
    pub pickle_protocol: Option<u8>,
    /// The torch versions that write such a file.
    pub torch_guess: Option<String>,
    /// Whether this project's engine wrote it, in that layout and without any torch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub engine: bool,
}

/// Summary of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// CUDA ordinal as the process saw it.
    pub device: DeviceIdx,
    /// Events.
    pub events: u32,
    /// Σ of requested bytes.
    pub requested: SeriesSummary,
    /// `torch.cuda.memory_allocated()`.
    pub allocated: SeriesSummary,
    /// Allocated plus pending frees.
    pub active: SeriesSummary,
    /// `torch.cuda.memory_reserved()`.
    pub reserved: SeriesSummary,
    /// Levels of these that the recording does not show. The number in place of such a level is a
    /// bound, or means nothing.
    #[serde(default, skip_serializing_if = "Unknown::is_empty")]
    pub unknown: Unknown,
    /// Frees of memory that the trace did not see allocated.
    pub unmatched_frees: u64,
    /// Blocks that existed before the first event.
    pub preexisting_blocks: u32,
    /// How well the allocator's rules reproduced the trace.
    pub fidelity: Fidelity,
    /// What *allocated* consists of after the last event, by category. Empty categories are left
    /// out.
    pub categories_at_end: BTreeMap<Named, Bytes>,
    /// The same at the peak of *allocated*; empty where that is not known.
    pub categories_at_peak: BTreeMap<Named, Bytes>,
    /// Why no category is told, and what to do. Absent where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories_unknown: Option<String>,
    /// The categories with blocks of which that is inferred: neither noted by the recorder, nor
    /// said by the team's own rules alone.
    #[serde(default)]
    pub inferred: BTreeSet<Named>,
    /// The blocks that are allocated after the last event, by address; with `--live`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Vec<LiveBlock>>,
    /// Failed allocations, in order.
    pub out_of_memory: Vec<OutOfMemory>,
    /// Single changes that would have got past the first of them, the one that reserves least
    /// first. `null` if no allocation failed, or if the replay does not reproduce the failure.
    #[serde(default)]
    pub remedies: Option<Vec<Remedy>>,
}

/// A block that is allocated after the last event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveBlock {
    /// First address, `0x` and hexadecimal digits.
    pub address: String,
    /// Bytes of the block.
    pub size: Bytes,
    /// What it is for.
    pub category: Named,
    /// Whether that is inferred rather than noted by the recorder.
    pub inferred: bool,
    /// Where it was allocated, in one line.
    pub site: String,
}

/// A single change that would have got past the first failed allocation, under any limit that fits
/// the recording. The recording does not say what the program would have asked for next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// A setting in the form of `PYTORCH_CUDA_ALLOC_CONF`, or `no leaks`: what leaks is given back
    /// at the end of the step that made it.
    pub change: String,
    /// Highest *reserved*, up to there.
    pub peak_reserved: Bytes,
    /// Requests that needed the cache emptied first.
    pub retries: u64,
}

/// A failed allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfMemory {
    /// The event.
    pub event: EventIdx,
    /// Position of the step in which it failed.
    pub step: Option<u32>,
    /// What that step is called: `step 21`, `request 3`. Its number is the program's own.
    pub step_name: Option<String>,
    /// The requested bytes.
    pub asked: Bytes,
    /// The free bytes of the driver; `null` where the recording does not say.
    pub free: Option<Bytes>,
    /// Upper bound (exclusive) of the process's own limit, where one must have refused since the
    /// driver had enough.
    pub limit: Option<Bytes>,
    /// Lower bound of that limit.
    #[serde(default)]
    pub limit_at_least: Option<Bytes>,
    /// *Allocated* at that moment.
    pub allocated: Bytes,
    /// *Reserved* at that moment.
    pub reserved: Bytes,
    /// The frame that asked; `null` without a stack.
    pub frame: Option<FrameText>,
    /// What was allocated, by category.
    pub held: BTreeMap<Named, Bytes>,
    /// Whether the program went on as if nothing had happened.
    #[serde(default)]
    pub passed_over: bool,
}

/// Steps of the main device: the one that ran out of memory, else the one that held most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// Which device; `null` without devices.
    pub device: Option<DeviceIdx>,
    /// Where they come from.
    pub source: StepSource,
    /// The loops that can be chosen as steps, fewest iterations first.
    #[serde(default)]
    pub levels: Vec<LoopChoice>,
    /// The key of the chosen one; `null` without steps, or if the steps belong to no listed loop.
    #[serde(default)]
    pub chosen: Option<String>,
    /// The steps.
    pub items: Vec<StepLevels>,
}

/// One step and the levels in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLevels {
    /// Position among the steps, from 0.
    pub index: u32,
    /// As annotated, or `step N` when inferred.
    pub name: String,
    /// Its first event.
    pub first_event: EventIdx,
    /// One past its last event.
    pub end_event: EventIdx,
    /// *Allocated* after its last event.
    pub allocated_end: Bytes,
    /// Largest *allocated* in it.
    pub allocated_peak: Bytes,
    /// *Reserved* after its last event.
    pub reserved_end: Bytes,
    /// *Requested* after its last event.
    pub requested_end: Bytes,
    /// Whether its beginning is missing, because the ring of events wrapped within it. Then its
    /// peak was no lower than this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

impl StepLevels {
    /// Its peak in words, as those of whole recordings are told.
    pub fn told_peak(&self) -> String {
        match self.is_cut {
            true => format!("≥ {}", self.allocated_peak),
            false => self.allocated_peak.to_string(),
        }
    }
}

/// What is left behind, step after step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leaks {
    /// The device that the verdict and the reason are about; 128 is pinned memory of the host.
    pub device: Option<DeviceIdx>,
    /// Yes, no, or cannot tell.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
    /// Bytes more after each step on this device: what its groups keep, less where they take turns,
    /// and what else grows. 0 unless it leaks from step to step.
    #[serde(default)]
    pub bytes_per_step: f64,
    /// That *reserved* grows though *allocated* does not need it, and what to do, in one sentence.
    /// It is no part of the verdict. Absent where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_growth: Option<String>,
    /// What grows, largest first.
    pub groups: Vec<LeakGroup>,
}

/// Allocations that grow together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeakGroup {
    /// The device; 128 is pinned memory of the host.
    pub device: DeviceIdx,
    /// Bytes more after each step.
    pub bytes_per_step: f64,
    /// What they are counted by, in the word that was found for the steps: `a step`, `a request`,
    /// `a part of a step`.
    pub counted_by: String,
    /// Blocks more after each step.
    pub count_per_step: f64,
    /// Bytes live at the end of the last whole step; after its last part, where it grows within
    /// steps.
    pub live_bytes: Bytes,
    /// Where they are allocated.
    pub frame: FrameText,
    /// Where `frame` names other groups, too: the innermost function that tells this one from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_in: Option<FrameText>,
    /// From 0 to 1.
    pub confidence: f64,
    /// The call shape: equal in another trace of the same program.
    pub site: String,
    /// How it grows.
    pub pattern: Pattern,
    /// With [`Pattern::EveryNth`], every how many steps.
    pub every: Option<u32>,
    /// Half of the 95 % interval of the slope of its level, bytes per step.
    pub slope_error: f64,
    /// Position of the first step that added to it.
    pub first_step: u32,
    /// Position of the last one.
    pub last_step: u32,
    /// Blocks live at the end.
    pub live_count: u64,
    /// Whether `frame` is inferred from neighbouring allocations.
    pub frame_inferred: bool,
    /// For allocations of a backward pass without a stack: the forward operation, inferred.
    pub forward: Option<ForwardOp>,
}

impl Eq for Leaks {}

impl Eq for LeakGroup {}
