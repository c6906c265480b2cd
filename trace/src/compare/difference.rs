//! What is found to differ between two runs, as values.

use super::PER_STEP;
use super::beginnings::is_growth;
use super::conditions::Condition;
use super::kept::Kept;
use super::noise;
use super::pass::PhaseDelta;
use super::peak_lines::{self, PeakLine};
use super::profile::{DeviceProfile, OutOfMemory, Place};
use super::rates::{self, Counted, Rate, Rates};
use super::shared_steps::SharedSteps;
use super::sites::SiteDelta;
use super::work::Unknown;
use crate::categories::Named;
use crate::device::DeviceIdx;
use crate::growth::Growth;
use crate::leaks::Verdict;
use crate::trace::{Series, SeriesSummary, StepSource};
use crate::units::{Bytes, EventIdx};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Whether the new run is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Change {
    /// Peak, growth, leaks, sites and the peaks of most steps are the same.
    None,
    /// Peak and growth are the same; sites or the peaks of most steps differ.
    Moved,
    /// Peak, growth or leaks are better, none is worse.
    Better,
    /// Worse, and none is better.
    Worse,
    /// Some better, some worse.
    Mixed,
    /// The gate cannot tell: two programs, other parts of one, steps of far more work, rings that
    /// wrapped, no history; or whether it leaks is not known. What is better all the same, the
    /// headline says.
    NotComparable,
}

/// What became of the leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum LeakChange {
    /// Neither run leaks.
    NeverLeaked,
    /// Only the new run leaks; or both do, and only the new run from step to step, or within steps.
    Appeared,
    /// Only the baseline leaks.
    Fixed,
    /// Both leak, the new run faster.
    Faster,
    /// Both leak, the new run slower; or only from step to step, or within steps, where the
    /// baseline does both.
    Slower,
    /// Both leak at the same rate.
    Same,
    /// At least one of them does not say.
    CannotTell,
}

/// One of the four series in both runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SeriesDelta {
    /// In the baseline.
    pub base: SeriesSummary,
    /// In the new run.
    pub new: SeriesSummary,
    /// Difference of the peaks, bytes.
    pub peak: i64,
    /// Difference of the ends, bytes.
    pub end: i64,
}

impl SeriesDelta {
    pub(super) fn of(base: &DeviceProfile, new: &DeviceProfile, series: Series) -> SeriesDelta {
        let (base, new) = (base.summary[series as usize], new.summary[series as usize]);
        SeriesDelta {
            base,
            new,
            peak: noise::delta(base.peak, new.peak),
            end: noise::delta(base.end, new.end),
        }
    }
}

/// One run's side of a difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Side {
    /// CUDA ordinal.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub device: DeviceIdx,
    /// Events.
    pub events: u32,
    /// Steps.
    pub steps: u32,
    /// Of them, those that ran to their end.
    pub whole_steps: u32,
    /// Where they come from.
    pub step_source: StepSource,
    /// Whether the ring of events wrapped.
    pub wrapped: bool,
    /// The first failed allocation.
    pub oom: Option<OutOfMemory>,
    /// What *allocated* consists of at its peak, most bytes first.
    pub at_peak: Vec<(Named, Bytes)>,
    /// The categories of `at_peak` that are inferred of some of the blocks: neither noted by the
    /// recorder, nor said by the team's own rules alone.
    #[serde(default)]
    pub inferred: Vec<Named>,
    /// Growth of *allocated* at the ends of steps.
    pub growth: Option<Growth>,
    /// What is told of this growth, bytes a step: 0 if it is within its error, `null` if its error
    /// is not known.
    #[serde(default)]
    pub growth_told: Option<f64>,
    /// Largest *allocated* over the steps that both runs have.
    pub common_peak: Bytes,
    /// How much the peaks of its settled steps differ, apart from their trend.
    pub wobble: Bytes,
    /// Whether it leaks.
    pub leaks: Leaks,
}

/// Whether a run leaks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ComparedLeaks))]
pub struct Leaks {
    /// The answer.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// Bytes a step; 0 if it grows within steps only.
    pub rate: f64,
    /// Half of the 95 % interval of the rate.
    pub error: f64,
    /// What grows within steps, bytes a part of a step; 0 if nothing does.
    pub within_steps: Rate,
    /// Where: what grows from step to step first, then the fastest first; at most 500 places.
    pub places: Vec<LeakPlace>,
}

impl Leaks {
    /// How fast it leaks, both kinds apart.
    pub fn rates(&self) -> Rates {
        Rates {
            by_steps: Rate {
                bytes: self.rate,
                error: self.error,
            },
            by_parts: self.within_steps,
        }
    }

    /// The places whose rates are counted so, in their order.
    pub fn places_of(&self, counted: Counted) -> impl Iterator<Item = &LeakPlace> + Clone {
        let places = self.places.iter();
        places.filter(move |place| place.counted() == counted)
    }

    /// In a few words: `no`, `cannot tell`, `8.00 MiB a step`.
    pub fn told(&self) -> String {
        self.told_with(|_| String::new())
    }

    /// The same with the reason, or the place: `8.00 MiB a step in save`. Of several places, how
    /// many: the rate is that of all. Where something else grows too, how much of it is there:
    /// `8.00 MiB a step, 5.00 MiB of them in save`.
    pub fn told_where(&self) -> String {
        if self.verdict == Verdict::CannotTell {
            return format!("cannot tell ({})", self.reason);
        }
        self.told_with(|counted| {
            let mut places = self.places_of(counted);
            let there = self.part_at(places.clone(), counted);
            let there = there.map_or_else(String::new, |part| format!(", {part} of them"));
            let first = places.next().map(LeakPlace::within).unwrap_or_default();
            match places.count() {
                0 if first.is_empty() => first,
                0 => there + &first,
                more => format!("{there} in {} places", more + 1),
            }
        })
    }

    /// What these places keep of all that leaks so, if that is less.
    pub(super) fn part_at<'a>(
        &self,
        places: impl Iterator<Item = &'a LeakPlace>,
        counted: Counted,
    ) -> Option<Bytes> {
        let part = places.map(|place| place.rate).sum();
        rates::part(part, self.rates().of(counted).bytes)
    }

    /// Each rate with its unit and what `place` says of its kind.
    fn told_with(&self, place: impl Fn(Counted) -> String) -> String {
        let rates = self.rates();
        let kinds = rates.kinds();
        let told = |counted: Counted| {
            let rate = Bytes(rates.of(counted).bytes.round() as u64);
            format!("{rate} {}{}", counted.unit(), place(counted))
        };
        match self.verdict {
            Verdict::Clean => "no".to_owned(),
            Verdict::CannotTell => "cannot tell".to_owned(),
            Verdict::Leak => kinds.map(told).collect::<Vec<_>>().join(" and "),
        }
    }
}

/// A site that leaks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeakPlace {
    /// Names its row of the table of differences, where it has one.
    pub id: String,
    /// The function that explains it best.
    pub place: Place,
    /// The program's innermost line, if `place` is in a package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Place>,
    /// Bytes a step (a part of a step, when it grows within steps).
    pub rate: f64,
    /// Whether it grows within steps and is given back at their ends.
    pub within_step: bool,
    /// Whether the other run's same site leaks too, from step to step or within steps as this one.
    pub in_both: bool,
    /// Whether the other run has the site at all.
    pub known: bool,
}

impl LeakPlace {
    /// ` in save (train.py:7)`: half of all leaks are in some `forward`, so that the function alone
    /// names nothing. Empty without a stack.
    pub fn within(&self) -> String {
        match self.place.name.as_str() {
            "" => String::new(),
            _ => format!(" in {}", self.place_told()),
        }
    }

    /// `forward (net.py:30) called by save (train.py:7)`: for a place in a package, the program's
    /// line, too.
    pub fn place_told(&self) -> String {
        let caller = self.caller.as_ref();
        let caller = caller.map_or_else(String::new, |call| format!(" called by {}", call.told()));
        self.place.told() + &caller
    }

    /// What its rate is counted by.
    pub fn counted(&self) -> Counted {
        Counted::within(self.within_step)
    }
}

/// One step of both runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepDelta {
    /// Its number, as the baseline's program counts; its position where the baseline's steps have
    /// no numbers.
    pub index: u32,
    /// In the baseline.
    pub base: Option<StepSide>,
    /// In the new run.
    pub new: Option<StepSide>,
}

impl StepDelta {
    /// Both sides, where both runs recorded the whole step: of a part, the peak is only a bound.
    pub fn of_whole_steps(&self) -> Option<[&StepSide; 2]> {
        let (base, new) = (self.base.as_ref()?, self.new.as_ref()?);
        (!base.is_cut && !new.is_cut).then_some([base, new])
    }
}

/// One step of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepSide {
    /// Its name.
    pub name: String,
    /// First event.
    pub first_event: EventIdx,
    /// One past its last event.
    pub end_event: EventIdx,
    /// Largest *allocated* in it.
    pub peak: Bytes,
    /// *Allocated* after its last event.
    pub end: Bytes,
    /// *Reserved* after its last event.
    pub reserved_end: Bytes,
    /// Requested by all allocations in it.
    pub work: Bytes,
    /// Allocations.
    pub allocs: u32,
    /// Whether its beginning is missing, because the ring of events wrapped within it. Then its
    /// peak was no lower than this, and it made no less.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

impl StepSide {
    /// Its peak in words.
    pub fn told_peak(&self) -> String {
        told_peak(self.peak, self.is_cut)
    }
}

/// What differs between a device of the baseline and one of the new run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Difference {
    /// Whether the new run is better.
    pub change: Change,
    /// What became of the leaks.
    pub leaks: LeakChange,
    /// The headline in one sentence.
    pub headline: String,
    /// What differs before any memory does.
    pub conditions: Vec<Condition>,
    /// The baseline.
    pub base: Side,
    /// The new run.
    pub new: Side,
    /// Start, peak and end, in the order of [`Series::ALL`].
    pub series: [SeriesDelta; 4],
    /// Over which steps the peaks are compared, if those are not the peaks of both runs: `the 5
    /// steps of both`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Differences of a peak below this are none, bytes.
    pub tolerance: Bytes,
    /// Whether every step, every site and the verdict on leaks are the same, even without the
    /// allowance for differences between steps.
    pub alike: bool,
    /// Whether the steps do different amounts of work, as with sequences of varying length.
    pub varying: bool,
    /// Largest share by which the new run's steps need more than the baseline's steps of equal
    /// work; only where steps vary.
    pub excess: Option<f64>,
    /// The phases, where both runs are one pass.
    pub phases: Vec<PhaseDelta>,
    /// The steps, one by one.
    pub steps: Vec<StepDelta>,
    /// Sites that differ, the largest difference first.
    pub sites: Vec<SiteDelta>,
    /// Sites that differ but are not in `sites`, since there are too many.
    pub sites_left_out: u32,
    /// Sites that are the same.
    pub sites_same: u32,
    /// How much more the new run holds at its peak of what was rounded up or not split off by the
    /// allocator, at sites that ask for the same, bytes.
    #[serde(default)]
    pub unsplit: i64,
    /// The same at the end.
    #[serde(default)]
    pub unsplit_at_end: i64,
    /// How much more the new run holds at its peak at sites without a row, of what they ask for,
    /// bytes: each differs no more than steps do, or by what further steps add. With the rows and
    /// `unsplit`, it adds up to the difference of the peaks.
    #[serde(default)]
    pub unlisted: i64,
    /// The same at the end.
    #[serde(default)]
    pub unlisted_at_end: i64,
    /// What its sentence and the gate need besides; only while the runs are compared.
    #[serde(skip)]
    pub(super) facts: Facts,
}

/// What is known of two runs while they are compared, and is not stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    /// The steps whose peaks are compared.
    pub shared: SharedSteps,
    /// Whether they look like runs of two programs.
    pub is_other_program: bool,
    /// What is kept between steps, where that differs.
    pub kept: Option<Kept>,
    /// How many times as large the new run's tensors are, where steps ask for more or less because
    /// of that.
    pub resized: Option<String>,
    /// Why the new run's peak cannot be compared by work, where steps vary.
    pub unknown: Option<Unknown>,
    /// The numbers of the steps that differ, if they do so at equal distances only.
    pub rhythm: Option<Vec<u32>>,
    /// What lines of the program hold at the peak of each run.
    pub lines: [Vec<PeakLine>; 2],
    /// Whether events are missing in the baseline, and in the new run, as others show.
    pub contradictory: [bool; 2],
}

impl Side {
    /// A peak of this side in words. A state without events, or a ring that wrapped, tells only
    /// that it was no lower.
    pub fn peak(&self, peak: Bytes) -> String {
        told_peak(peak, self.is_least())
    }

    /// Whether its peaks are only known to be no lower.
    pub fn is_least(&self) -> bool {
        self.wrapped || self.events == 0
    }
}

/// A peak in words; `is_least` if it is only known to be no lower.
pub fn told_peak(peak: Bytes, is_least: bool) -> String {
    match is_least {
        true => format!("at least {peak}"),
        false => peak.to_string(),
    }
}

impl Difference {
    /// Whether both runs are a single pass each, with known phases.
    pub fn is_of_single_passes(&self) -> bool {
        let is_pass = |side: &Side| side.steps <= 1 && side.events > 1 && !side.wrapped;
        is_pass(&self.base) && is_pass(&self.new)
    }

    /// Whether both recordings hold the same part of the program: single passes must have the same
    /// phases, and a state without history has no peak.
    pub fn is_comparable(&self) -> bool {
        let in_both = |phase: &PhaseDelta| phase.base.is_some() && phase.new.is_some();
        let agrees = !self.lacks_history() || self.is_of_states() && self.alike;
        agrees && self.phases.iter().all(in_both)
    }

    /// Whether the levels of the runs can be held against one another: not those of two programs,
    /// or of other parts of one.
    pub(super) fn has_levels(&self) -> bool {
        self.is_comparable() && (self.alike || !self.facts.is_other_program)
    }

    /// Whether a peak is not known, because a recording is a state without events.
    pub(super) fn lacks_history(&self) -> bool {
        self.base.events == 0 || self.new.events == 0
    }

    /// Whether both recordings are states without events.
    pub(super) fn is_of_states(&self) -> bool {
        self.base.events == 0 && self.new.events == 0
    }

    /// Whether the peaks differ by more than those of two runs of one program.
    pub fn peaks_differ(&self) -> bool {
        let peak = noise::delta(self.base.common_peak, self.new.common_peak);
        peak.unsigned_abs() > self.tolerance.0
    }

    /// Whether the lower peak is of a ring that wrapped: then the run may have needed as much as
    /// the other one. Peaks of the steps that both have are no such bounds.
    pub(super) fn is_bounded(&self) -> bool {
        let (base, new) = (&self.base, &self.new);
        let delta = noise::delta(base.common_peak, new.common_peak);
        let lower = if delta > 0 { base } else { new };
        lower.wrapped && self.facts.shared.steps.is_none() && self.peaks_differ()
    }

    /// Whether the peaks say nothing of one another: a ring that wrapped may hold other steps, and
    /// each step adds growth.
    pub(super) fn is_of_other_steps(&self) -> bool {
        self.facts.shared.may_differ && !self.alike && self.grows().contains(&true)
    }

    /// Whether memory grows with each step of the baseline, and of the new run.
    pub(super) fn grows(&self) -> [bool; 2] {
        [&self.base, &self.new].map(|side| is_growth(side.growth, side.leaks.verdict))
    }

    /// What is kept between steps, where it is known to differ, and the peak does not tell it.
    pub(super) fn kept_besides(&self) -> Option<Kept> {
        let is_known = !self.is_of_other_steps() && self.has_levels();
        let (base, new) = (self.base.common_peak, self.new.common_peak);
        self.facts
            .kept
            .filter(|kept| is_known && kept.is_news(base, new))
    }

    /// Why the peaks may be of other steps, in words.
    pub(super) fn why_other_steps(&self) -> &'static str {
        match (self.base.wrapped, self.new.wrapped) {
            (true, true) => "the rings of both runs wrapped",
            (true, false) => "the ring of the baseline wrapped",
            (false, true) => "the ring of the new run wrapped",
            (false, false) => {
                "one recording begins later than the other, at a step that is not known"
            }
        }
    }

    /// How much the peak of a series changed, in words, where one of the peaks is only known to be
    /// no lower, or both are: `at most +960 MiB`, `at least 403 MiB less`, `not known`.
    pub fn bounded_change(&self, series: Series) -> Option<String> {
        let by = self.series(series).peak;
        let size = Bytes(by.unsigned_abs());
        // The change is no more than this if it is the baseline that may have had a higher peak.
        let is_most = match (self.base.is_least(), self.new.is_least()) {
            (false, false) => return None,
            (true, true) => return Some("not known".to_owned()),
            (is_most, _) => is_most,
        };
        Some(match (by.cmp(&0), is_most) {
            (Ordering::Greater, true) => format!("at most +{size}"),
            (Ordering::Greater, false) => format!("at least +{size}"),
            (Ordering::Less, true) => format!("at least {size} less"),
            (Ordering::Less, false) => format!("at most {size} less"),
            (Ordering::Equal, true) => "same or less".to_owned(),
            (Ordering::Equal, false) => "same or more".to_owned(),
        })
    }

    /// One of the series.
    pub fn series(&self, series: Series) -> &SeriesDelta {
        &self.series[series as usize]
    }

    /// About how many heap bytes it uses.
    pub fn heap_bytes(&self) -> usize {
        let of_place = |place: &Place| size_of::<Place>() + place.name.len() + place.filename.len();
        let sides = self
            .sites
            .iter()
            .flat_map(|row| [&row.base, &row.new])
            .flatten();
        let places = sides.flat_map(|side| side.frames.iter().chain(&side.place));
        let leaks = [&self.base, &self.new].map(|side| &side.leaks.places);
        let leaks = leaks.into_iter().flatten();
        let leaks = leaks.flat_map(|leak| [&leak.place].into_iter().chain(&leak.caller));
        let places: usize = places.chain(leaks).map(of_place).sum();
        let lines = self.facts.lines.iter();
        let lines: usize = lines.map(|lines| peak_lines::heap_bytes(lines)).sum();
        places
            + lines
            + self.sites.len() * size_of::<SiteDelta>()
            + self.steps.len() * PER_STEP
            + size_of::<Difference>()
    }

    /// The change of each category that either peak holds, the largest first.
    pub fn category_changes(&self) -> Vec<(Named, i64)> {
        let held = |side: &Side, category| {
            let found = side.at_peak.iter().find(|(c, _)| *c == category);
            found.map(|(_, bytes)| bytes.get() as i64)
        };
        let both = self.base.at_peak.iter().chain(&self.new.at_peak);
        let names: BTreeSet<Named> = both.map(|(category, _)| *category).collect();
        let change = |category| {
            let (before, after) = (held(&self.base, category), held(&self.new, category));
            (category, after.unwrap_or(0) - before.unwrap_or(0))
        };
        let mut changes: Vec<_> = names.into_iter().map(change).collect();
        changes.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes.unsigned_abs()));
        changes
    }
}
