//! A summary of a run, small enough to keep: it has everything that a comparison needs except the
//! curves.
//!
//! The module `survey` makes it.

use super::names::Names;
use super::numbering::Numbering;
use super::pass::PhasePeak;
pub use super::place::Place;
use super::rates::{Counted, Rates};
use crate::categories::Named;
use crate::device::DeviceIdx;
use crate::footprint::of_vec;
use crate::growth::Growth;
use crate::leaks::{Pattern, Verdict};
use crate::site::SiteKey;
use crate::span::Span;
use crate::stacks::{Frame, StackIdx};
use crate::trace::{SeriesSummary, StepSource};
use crate::units::{Bytes, EventIdx};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Sites that leak which are named, those that grow fastest.
pub const MAX_LEAKING: usize = 500;

/// A run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The torch versions that write such a file.
    pub torch: Option<String>,
    /// Allocator settings, as the file has them.
    pub settings: Vec<(String, String)>,
    /// Its devices, by ordinal.
    pub devices: Vec<DeviceProfile>,
    /// Whether the pinned memory of the host leaks, if it was recorded; nothing else is kept of it.
    pub pinned: Option<DeviceProfile>,
}

/// One device of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceProfile {
    /// CUDA ordinal.
    pub device: DeviceIdx,
    /// The names that its frames point into: those of the whole run.
    pub names: Arc<Names>,
    /// Events.
    pub events: u32,
    /// Start, peak and end, in the order of [`Series::ALL`].
    pub summary: [SeriesSummary; 4],
    /// What *allocated* consists of at its peak, most bytes first.
    pub at_peak: Vec<(Named, Bytes)>,
    /// Those of these categories that are inferred of some of the blocks.
    pub inferred: BTreeSet<Named>,
    /// Lines of the program, and what each holds at that peak; most bytes first.
    pub lines: Vec<(Frame, Held)>,
    /// Where the steps come from.
    pub step_source: StepSource,
    /// The steps.
    pub steps: Vec<StepProfile>,
    /// How many of them ran to their end, counted from the first.
    pub whole_steps: u32,
    /// Whether the ring of events wrapped: what came before it is not known.
    pub wrapped: bool,
    /// Whether events are missing, since others contradict one another: levels are not certain.
    pub contradictory: bool,
    /// Whether stacks were recorded, at least for some.
    pub has_stacks: bool,
    /// Whether C++ frames were recorded.
    pub has_native: bool,
    /// The first failed allocation.
    pub oom: Option<OutOfMemory>,
    /// Growth of *allocated* at the ends of whole steps.
    pub growth: Option<Growth>,
    /// The peaks of the phases of a single pass; empty if the run has steps.
    pub phases: Vec<PhasePeak>,
    /// Whether it leaks.
    pub leaks: LeakProfile,
    /// Allocation sites.
    pub sites: Vec<SiteProfile>,
    /// Requested sizes of what is alive at the end of the last whole step, and how many of each.
    pub stays: Vec<(Bytes, u64)>,
    /// Sites that are not kept, because there are too many.
    pub sites_left_out: u32,
}

/// A failed allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutOfMemory {
    /// The event.
    pub event: EventIdx,
    /// Position of the step in which it failed.
    pub step: Option<u32>,
    /// The requested bytes.
    pub wanted: Bytes,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepProfile {
    /// Its name.
    pub name: String,
    /// Its events.
    pub events: Span<EventIdx>,
    /// Largest *allocated* in it, the level at its beginning included.
    pub peak: Bytes,
    /// *Allocated* after its last event.
    pub end: Bytes,
    /// *Reserved* after its last event.
    pub reserved_end: Bytes,
    /// *Requested* after its last event.
    pub requested_end: Bytes,
    /// Bytes requested by all allocations in it, whether given back or not: the work.
    pub work: Bytes,
    /// Allocations in it.
    pub allocs: u32,
}

/// Whether a device leaks.
#[derive(Clone, Debug, PartialEq)]
pub struct LeakProfile {
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
    /// How fast all sites together do.
    pub rates: Rates,
    /// The sites, in the order of the report; at most [`MAX_LEAKING`].
    pub groups: Vec<LeakingSite>,
}

impl Default for LeakProfile {
    fn default() -> LeakProfile {
        LeakProfile {
            verdict: Verdict::CannotTell,
            reason: String::new(),
            rates: Rates::default(),
            groups: Vec::new(),
        }
    }
}

impl LeakProfile {
    /// The rate that is told, and what it is counted by.
    pub fn told(&self) -> (f64, Counted) {
        let counted = self.rates.told();
        (self.rates.of(counted).bytes, counted)
    }

    /// The first site of one kind.
    pub fn first(&self, counted: Counted) -> Option<&LeakingSite> {
        let mut groups = self.groups.iter();
        groups.find(|group| group.counted() == counted)
    }
}

/// A site that leaks.
#[derive(Clone, Debug, PartialEq)]
pub struct LeakingSite {
    /// Which.
    pub key: SiteKey,
    /// The function that explains it best.
    pub place: Option<Frame>,
    /// The program's innermost line, if `place` is in a package.
    pub caller: Option<Frame>,
    /// How it grows.
    pub pattern: Pattern,
    /// Bytes a step (a part of a step, when it grows within steps).
    pub bytes_per_step: f64,
    /// Half of the 95 % interval of the slope.
    pub error: f64,
}

impl LeakingSite {
    /// What its rate is counted by.
    pub fn counted(&self) -> Counted {
        Counted::of(self.pattern)
    }
}

/// A function of a call shape, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionHash {
    /// Module and name.
    pub full: u64,
    /// The name alone.
    pub name: u64,
}

/// What a site's live blocks asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Requested {
    /// At its own highest moment.
    pub peak: Bytes,
    /// At the peak of the device's *allocated*.
    pub at_peak: Bytes,
    /// After the last event.
    pub at_end: Bytes,
}

/// What a line of the program holds at the peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Blocks whose stack has it.
    pub all: u64,
    /// Blocks of which it is the innermost line of the program.
    pub own: u64,
    /// Of these, those of its backward pass. Inferred.
    pub backward: u64,
}

/// One allocation site: a call shape, or a size where there are no stacks.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteProfile {
    /// Equal in another run of the same program.
    pub key: SiteKey,
    /// The stack that accounts for most of it, as an index into its own trace.
    pub stack: StackIdx,
    /// Its frames, innermost first: at most [`super::kept_frames::MAX`].
    pub frames: Vec<Frame>,
    /// The frame that a person would recognise.
    pub headline: Option<Frame>,
    /// The functions that make the key, innermost first.
    pub functions: Vec<FunctionHash>,
    /// The innermost function of the program itself, hashed with its module.
    pub own: Option<u64>,
    /// Blocks, including those from before the trace.
    pub count: u64,
    /// Bytes of all of them.
    pub made: Bytes,
    /// Live bytes at the site's own highest moment.
    pub peak: Bytes,
    /// Live bytes at the peak of the device's *allocated*.
    pub at_peak: Bytes,
    /// Live after the last event.
    pub at_end: Bytes,
    /// The same in requested bytes, without what the allocator rounds up or does not split off.
    pub requested: Requested,
    /// Growth of what is live at the ends of steps, bytes a step.
    pub growth: f64,
    /// How much its peaks in settled steps differ, apart from their trend.
    pub wobble: Bytes,
    /// How much it holds more or less at the ends of settled steps, apart from their trend, and
    /// after the last event.
    pub end_wobble: Bytes,
    /// Requested sizes and how many of each, those with most bytes first.
    pub sizes: Vec<(Bytes, u64)>,
    /// Whether it is one of the sites that leak.
    pub leaks: bool,
}

impl Profile {
    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        let names = self.devices.first().map_or(0, |one| one.names.heap_bytes());
        let devices = self.devices.iter().chain(&self.pinned);
        let devices = devices.map(DeviceProfile::heap_bytes);
        names + devices.sum::<usize>()
    }
}

impl DeviceProfile {
    /// The numbers in the names of its steps.
    pub(crate) fn numbering(&self) -> Option<Numbering> {
        let names = self.steps.iter().map(|step| step.name.as_str());
        Numbering::of(self.step_source, names)
    }

    /// Whether its peaks are only known to be no lower: the ring wrapped, or there are no events.
    pub(crate) fn is_least(&self) -> bool {
        self.wrapped || self.events == 0
    }

    /// Whether the beginning of a step is missing, because the ring wrapped within it.
    pub(super) fn is_cut(&self, step: &StepProfile) -> bool {
        self.wrapped && step.events.start().0 == 0
    }

    /// The settled whole steps.
    pub(super) fn settled_steps(&self) -> impl Iterator<Item = &StepProfile> {
        let whole = self.whole_steps as usize;
        self.steps[crate::growth::settled(whole)..whole].iter()
    }

    /// Bytes requested in each settled whole step.
    pub(super) fn settled_work(&self) -> Vec<u64> {
        self.settled_steps().map(|step| step.work.0).collect()
    }

    /// Heap bytes that it uses, without the names.
    fn heap_bytes(&self) -> usize {
        let sites: usize = self.sites.iter().map(SiteProfile::heap_bytes).sum();
        let steps: usize = self.steps.iter().map(|step| step.name.capacity()).sum();
        size_of::<DeviceProfile>()
            + of_vec(&self.sites)
            + sites
            + of_vec(&self.steps)
            + steps
            + of_vec(&self.leaks.groups)
            + of_vec(&self.stays)
            + of_vec(&self.lines)
    }
}

impl SiteProfile {
    /// Heap bytes that it uses.
    pub(super) fn heap_bytes(&self) -> usize {
        of_vec(&self.frames) + of_vec(&self.functions) + of_vec(&self.sizes)
    }
}
