//! Compares two runs and tells what differs.
//!
//! # Method
//!
//! Each run is reduced to a [`Profile`]: the four series, steps, leaks, and what each allocation
//! site held. Two profiles are compared device by device, in order:
//!
//! 1. [`conditions`]: what differs besides memory (settings, versions, work a step).
//! 2. Peaks and ends of the four series; growth per step by least squares from a settled step on
//!    ([`crate::growth`]), with its error; whether it leaks, and where.
//! 3. The steps, one by one, by their numbers ([`numbering`]); for two single passes, the phases
//!    ([`pass`]).
//! 4. Allocation sites ([`sites`]). They are matched even if lines moved, files were installed
//!    elsewhere or functions were renamed.
//!
//! A change that is larger than the noise of null pairs ([`noise`]) is a difference; everything
//! else counts as the same. Addresses never count. [`gate`] turns a difference into pass,
//! regression, or cannot tell.

mod beside;
pub mod conditions;
pub mod curves;
mod failure;
pub mod gate;
pub mod headline;
mod names;
pub mod noise;
pub mod numbering;
mod over;
pub mod pairs;
pub mod pass;
pub mod phase;
pub mod profile;
pub mod rates;
pub mod sites;
mod survey;
mod work;

use crate::categories::Named;
use crate::growth::{Growth, wobble};
use crate::leaks::{Pattern, Verdict};
use crate::site::SiteKey;
use crate::stacks::FxHashMap;
use crate::trace::{Series, SeriesSummary, StepSource};
use crate::units::{Bytes, EventIdx};
use crate::watch::{Stopped, Watch};
pub use beside::{LeaksBeside, leaks_beside};
use conditions::Condition;
use failure::Failure;
pub use names::Names;
use names::Room;
use over::Over;
use pairs::Pairs;
use pass::PhaseDelta;
use profile::{DeviceProfile, LeakingSite, OutOfMemory, Place, Profile};
use rates::{Counted, Rate, Rates};
use serde::{Deserialize, Serialize};
use sites::{Matching, SiteDelta};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;
use work::Excess;

/// Whether the new run is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Change {
    /// Peak, growth, leaks and sites are the same.
    None,
    /// Peak and growth are the same; sites differ.
    Moved,
    /// Peak, growth or leaks are better, none is worse.
    Better,
    /// Worse, and none is better.
    Worse,
    /// Some better, some worse.
    Mixed,
    /// The recordings hold different parts of the program, or only one holds history.
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

/// One run's side of a difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Side {
    /// CUDA ordinal.
    pub device: u32,
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
    /// What *allocated* consists of at its peak, most bytes first. Inferred.
    pub at_peak: Vec<(Named, Bytes)>,
    /// Growth of *allocated* at the ends of steps.
    pub growth: Option<Growth>,
    /// What is told of this growth, bytes a step: 0 if it is within its error.
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

    /// The same with the reason, or the place that grows fastest: `8.00 MiB a step in save`.
    pub fn told_where(&self) -> String {
        if self.verdict == Verdict::CannotTell {
            return format!("cannot tell ({})", self.reason);
        }
        self.told_with(|counted| {
            let first = self.places_of(counted).next();
            match first.map(|leak| leak.place.name.as_str()) {
                None | Some("") => String::new(),
                Some(name) => format!(" in {name}"),
            }
        })
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
    /// Over which steps the peaks are compared; only while the runs are compared.
    #[serde(skip)]
    over: Over,
    /// Whether they look like runs of two programs; only while the runs are compared.
    #[serde(skip)]
    is_other_program: bool,
    /// Why its peak cannot be compared by work, where steps vary; only while the runs are compared.
    #[serde(skip)]
    unknown: Option<work::Unknown>,
}

impl Side {
    /// A peak of this side in words. A state without events, or a ring that wrapped, tells only
    /// that it was no lower.
    pub fn peak(&self, peak: Bytes) -> String {
        told_peak(peak, self.wrapped || self.events == 0)
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

    /// Whether a peak is not known, because a recording is a state without events.
    fn lacks_history(&self) -> bool {
        self.base.events == 0 || self.new.events == 0
    }

    /// Whether both recordings are states without events.
    fn is_of_states(&self) -> bool {
        self.base.events == 0 && self.new.events == 0
    }

    /// Whether the peaks differ by more than those of two runs of one program.
    pub fn peaks_differ(&self) -> bool {
        let peak = noise::delta(self.base.common_peak, self.new.common_peak);
        peak.unsigned_abs() > self.tolerance.0
    }

    /// Whether the lower peak is of a ring that wrapped: then the run may have needed as much as
    /// the other one. Peaks of the steps that both have are no such bounds.
    fn is_bounded(&self) -> bool {
        let (base, new) = (&self.base, &self.new);
        let delta = noise::delta(base.common_peak, new.common_peak);
        let lower = if delta > 0 { base } else { new };
        lower.wrapped && self.over.steps.is_none() && self.peaks_differ()
    }

    /// Whether the peaks say nothing of one another: a ring that wrapped may hold other steps, and
    /// each step adds growth.
    fn is_of_other_steps(&self) -> bool {
        let sides = [&self.base, &self.new];
        let grows = |side: &&Side| {
            let growth = side
                .growth
                .is_some_and(|growth| growth.slope > 0.0 && !is_flat(growth));
            growth || side.leaks.verdict == Verdict::Leak
        };
        self.over.may_differ && !self.alike && sides.iter().any(grows)
    }

    /// The rings that wrapped, in words.
    fn wrapped_rings(&self) -> &'static str {
        match (self.base.wrapped, self.new.wrapped) {
            (true, true) => "the rings of both runs",
            (true, false) => "the ring of the baseline",
            (false, _) => "the ring of the new run",
        }
    }

    /// One of the series.
    pub fn series(&self, series: Series) -> &SeriesDelta {
        &self.series[series as usize]
    }
}

impl Difference {
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
        let leaks = leaks.into_iter().flatten().map(|leak| &leak.place);
        let places: usize = places.chain(leaks).map(of_place).sum();
        places
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

/// Compares two runs: a difference for each pair of devices, in order.
///
/// # Errors
/// [`Stopped`].
pub fn compare(
    base: &Profile,
    new: &Profile,
    watch: Watch<'_>,
) -> Result<Vec<Difference>, Stopped> {
    let of_runs = conditions::of_runs(base, new);
    let pairs = Pairs::of(&base.devices, &new.devices).pairs;
    let (mut room, mut held) = (Room::new(), 0);
    let pairs = pairs.into_iter().map(|[base, new]| {
        let mut difference = devices(base, new, &mut room, watch.beside(held))?;
        held += difference.heap_bytes();
        let about_devices = std::mem::replace(&mut difference.conditions, of_runs.clone());
        difference.conditions.extend(about_devices);
        Ok(difference)
    });
    pairs.collect()
}

/// The position of the difference that stands for the two runs: the one with the worst news. What
/// is worse comes before what cannot be told, and that before what is better. Of several, the one
/// with the most important news about leaks, and of those the one with the largest change of the
/// peak of
/// *allocated*, counted only upwards where it is worse. `None` if there are no devices.
pub fn foremost(differences: &[Difference]) -> Option<usize> {
    let weight = |d: &Difference| {
        let peak = noise::delta(d.base.common_peak, d.new.common_peak);
        let news = match d.leaks {
            LeakChange::Appeared | LeakChange::Faster => 3,
            LeakChange::Fixed => 2,
            LeakChange::Slower | LeakChange::Same => 1,
            LeakChange::NeverLeaked | LeakChange::CannotTell => 0,
        };
        match d.change {
            Change::Worse | Change::Mixed => (3, news / 3, peak.max(0).unsigned_abs()),
            Change::NotComparable => (2, news, peak.unsigned_abs()),
            Change::Better => (1, news, peak.unsigned_abs()),
            Change::None | Change::Moved => (0, news, peak.unsigned_abs()),
        }
    };
    let numbered = differences.iter().enumerate();
    let most = numbered.max_by_key(|(at, d)| (weight(d), std::cmp::Reverse(*at)));
    most.map(|(at, _)| at)
}

fn devices(
    base: &DeviceProfile,
    new: &DeviceProfile,
    room: &mut Room,
    watch: Watch<'_>,
) -> Result<Difference, Stopped> {
    let matching = Matching::of(&base.sites, &new.sites, watch)?;
    let extra_steps = i64::from(new.whole_steps) - i64::from(base.whole_steps);
    // The steps of both, and a row for every site.
    let sites = matching.pairs.len() + matching.gone.len() + matching.new.len();
    let counts = [base.steps.len(), new.steps.len()];
    watch.look(sites * PER_ROW + counts.iter().sum::<usize>() * PER_STEP)?;
    let over = Over::of(base, new);
    let [ours, theirs] = over.steps.clone().map_or([None, None], |at| at.map(Some));
    let there: Counterparts = matching.pairs.iter().map(|&(b, n, _)| (b, n)).collect();
    let base_side = side([base, new], &there, ours, room);
    let back: Counterparts = matching.pairs.iter().map(|&(b, n, _)| (n, b)).collect();
    let new_side = side([new, base], &back, theirs, room);
    let tolerance = noise::level(
        base_side.common_peak,
        new_side.common_peak,
        base_side.wobble.max(new_side.wobble),
    );
    let peak = noise::delta(base_side.common_peak, new_side.common_peak);
    let held = sites::Held {
        extra_steps,
        peaks_differ: peak.unsigned_abs() > tolerance.0,
    };
    let (rows, left_out, same) = sites::deltas([base, new], &matching, held, room);
    let left_out = left_out + (base.sites_left_out + new.sites_left_out) as usize;
    let series = Series::ALL.map(|series| series_delta(base, new, series));
    let Excess {
        varying,
        share: excess,
        unknown,
    } = Excess::of(base, new, new_side.common_peak);
    let saved = Excess::of(new, base, base_side.common_peak).share;
    let steps = steps(base, new, over.places);
    let leaks = leak_change(&base_side.leaks, &new_side.leaks);
    let same_leaks = base_side.leaks.verdict == new_side.leaks.verdict
        && matches!(
            leaks,
            LeakChange::NeverLeaked | LeakChange::Same | LeakChange::CannotTell
        );
    let mut difference = Difference {
        change: Change::None,
        leaks,
        headline: String::new(),
        conditions: conditions::of_devices(base, new, &matching, &over),
        alike: !over.extra
            && rows.is_empty()
            && left_out == 0
            && levels_alike(&series, &steps)
            && same_leaks,
        base: base_side,
        new: new_side,
        series,
        tolerance,
        varying,
        excess,
        phases: match counts {
            [0 | 1, 0 | 1] => pass::deltas(&base.phases, &new.phases),
            _ => Vec::new(),
        },
        steps,
        sites: rows,
        sites_left_out: left_out as u32,
        sites_same: same,
        over,
        is_other_program: conditions::is_other_program(base, new, &matching),
        unknown,
    };
    difference.change = change(&difference, saved);
    difference.headline = headline::of(&difference);
    Ok(difference)
}

/// Bytes of a row that has no texts yet, and of a step of both runs.
const PER_ROW: usize = 320;
const PER_STEP: usize = 512;

/// For the position of a site, that of the other run's same site.
type Counterparts = FxHashMap<usize, usize>;

fn side(
    [device, other]: [&DeviceProfile; 2],
    counterparts: &Counterparts,
    common: Option<Range<usize>>,
    room: &mut Room,
) -> Side {
    let summary = &device.summary[Series::Allocated as usize];
    let common_peak = common.and_then(|at| device.steps[at].iter().map(|step| step.peak).max());
    let common_peak = common_peak.unwrap_or(summary.peak);
    let peaks: Vec<u64> = conditions::settled_steps(device)
        .map(|step| step.peak.0)
        .collect();
    Side {
        device: device.device,
        events: device.events,
        steps: device.steps.len() as u32,
        whole_steps: device.whole_steps,
        step_source: device.step_source,
        wrapped: device.wrapped,
        oom: device.oom,
        at_peak: device.at_peak.clone(),
        growth: device.growth,
        growth_told: device.growth.map(Growth::told),
        common_peak,
        wobble: Bytes(wobble(&peaks)),
        leaks: leaks_of([device, other], counterparts, room),
    }
}

/// What leaks in one run, and whether the other one has the places.
fn leaks_of(
    [device, other]: [&DeviceProfile; 2],
    counterparts: &Counterparts,
    room: &mut Room,
) -> Leaks {
    let leaks = &device.leaks;
    let sites = device.sites.iter().zip(0..);
    let own: FxHashMap<SiteKey, usize> = sites
        .filter(|(site, _)| site.leaks)
        .map(|(site, at)| (site.key, at))
        .collect();
    // Whether the other run has the site, and whether it leaks there in the same way.
    let there = |group: &LeakingSite| {
        let alike = |theirs: &&LeakingSite| theirs.counted() == group.counted();
        let mut leaking = other.leaks.groups.iter();
        // A leak of blocks of any size, without stacks, is no single site of the table.
        if matches!(group.key, SiteKey::Size(_)) {
            let is_size = |theirs: &LeakingSite| matches!(theirs.key, SiteKey::Size(_));
            return match leaking.any(|theirs| is_size(theirs) && alike(&theirs)) {
                true => Some(true),
                false => (!other.has_stacks).then_some(false),
            };
        }
        // Without stacks, the other run may leak anywhere.
        if !other.has_stacks {
            return Some(leaking.any(|theirs| alike(&theirs)));
        }
        let with = |key| leaking.clone().filter(move |theirs| theirs.key == key);
        // Sites may be left out of the table.
        if with(group.key).any(|theirs| alike(&theirs)) {
            return Some(true);
        }
        let theirs = &other.sites[*counterparts.get(own.get(&group.key)?)?];
        let mut same = with(theirs.key).peekable();
        // Where there are too many, only the fastest are listed.
        let unlisted = same.peek().is_none();
        Some(theirs.leaks && (unlisted || same.any(|theirs| alike(&theirs))))
    };
    Leaks {
        verdict: leaks.verdict,
        reason: leaks.reason.clone(),
        rate: leaks.rates.by_steps.bytes,
        error: leaks.rates.by_steps.error,
        within_steps: leaks.rates.by_parts,
        places: leaks
            .groups
            .iter()
            .map(|group| LeakPlace {
                id: sites::id(group.key),
                place: group
                    .place
                    .map_or_else(Place::default, |frame| room.place(&device.names, frame)),
                rate: group.bytes_per_step,
                within_step: group.pattern == Pattern::WithinStep,
                in_both: there(group) == Some(true),
                known: there(group).is_some(),
            })
            .collect(),
    }
}

fn series_delta(base: &DeviceProfile, new: &DeviceProfile, series: Series) -> SeriesDelta {
    let (base, new) = (base.summary[series as usize], new.summary[series as usize]);
    SeriesDelta {
        base,
        new,
        peak: noise::delta(base.peak, new.peak),
        end: noise::delta(base.end, new.end),
    }
}

fn steps(base: &DeviceProfile, new: &DeviceProfile, places: [u32; 2]) -> Vec<StepDelta> {
    let side = |device: &DeviceProfile, place: u32, number: u32| {
        let index = number.checked_sub(place)? as usize;
        device.steps.get(index).map(|step| StepSide {
            name: step.name.clone(),
            first_event: step.events.start(),
            end_event: step.events.end(),
            peak: step.peak,
            end: step.end,
            reserved_end: step.reserved_end,
            work: step.work,
            allocs: step.allocs,
        })
    };
    let end = |device: &DeviceProfile, place: u32| place + device.steps.len() as u32;
    (places[0].min(places[1])..end(base, places[0]).max(end(new, places[1])))
        .map(|number| StepDelta {
            index: number,
            base: side(base, places[0], number),
            new: side(new, places[1], number),
        })
        .collect()
}

/// Whether levels agree everywhere, without the allowance for differences between steps.
fn levels_alike(series: &[SeriesDelta; 4], steps: &[StepDelta]) -> bool {
    let same = |base: Bytes, new: Bytes| {
        noise::delta(base, new).unsigned_abs() <= noise::level(base, new, Bytes::ZERO).0
    };
    let allocated = &series[Series::Allocated as usize];
    let steps_agree = steps.iter().all(|step| match (&step.base, &step.new) {
        (Some(base), Some(new)) => same(base.peak, new.peak) && same(base.end, new.end),
        _ => false,
    });
    let ends_agree = same(allocated.base.end, allocated.new.end);
    steps_agree && same(allocated.base.peak, allocated.new.peak) && ends_agree
}

fn leak_change(base: &Leaks, new: &Leaks) -> LeakChange {
    match (base.verdict, new.verdict) {
        (Verdict::CannotTell, _) | (_, Verdict::CannotTell) => LeakChange::CannotTell,
        (Verdict::Clean, Verdict::Clean) => LeakChange::NeverLeaked,
        (Verdict::Clean, Verdict::Leak) => LeakChange::Appeared,
        (Verdict::Leak, Verdict::Clean) => LeakChange::Fixed,
        (Verdict::Leak, Verdict::Leak) => Rates::change(&base.rates(), &new.rates()),
    }
}

/// Whether it is no more than its error, or than nothing.
fn is_flat(growth: Growth) -> bool {
    let least = noise::LEVEL_FLOOR.0 as f64 / 16.0;
    growth.slope.abs() <= growth.error.unwrap_or(0.0).max(least)
}

/// Growth differs by more than its errors and by more than the floor of a level.
fn growth_change(difference: &Difference) -> i8 {
    let (Some(base), Some(new)) = (difference.base.growth, difference.new.growth) else {
        return 0;
    };
    let (Some(error_b), Some(error_n)) = (base.error, new.error) else {
        return 0;
    };
    let tolerance = (error_b + error_n).max(noise::LEVEL_FLOOR.0 as f64);
    match new.slope - base.slope {
        more if more > tolerance => 1,
        less if less < -tolerance => -1,
        _ => 0,
    }
}

/// Whether the peak is higher (1), lower (−1), or the same. `saved` is the excess of the baseline
/// over the new run.
fn peak_change(difference: &Difference, saved: Option<f64>) -> i8 {
    let (base, new) = (&difference.base, &difference.new);
    let delta = noise::delta(base.common_peak, new.common_peak);
    let sign = delta.signum() as i8;
    // A run that fails in its first step needs more than it got.
    let lower = if sign > 0 { base } else { new };
    let is_unknown = difference.is_bounded() || difference.is_of_other_steps();
    if is_unknown || lower.oom.is_some() && lower.steps == 0 {
        return 0;
    }
    if difference.peaks_differ() {
        return sign;
    }
    // Where steps vary, the highest step is a matter of luck, but steps of equal work are not.
    let more = if sign > 0 { difference.excess } else { saved };
    let usual = noise::level(base.common_peak, new.common_peak, Bytes::ZERO);
    let is_more = more.is_some_and(|more| more > noise::EXCESS);
    match is_more && delta.unsigned_abs() > usual.0 {
        true => sign,
        false => 0,
    }
}

fn change(difference: &Difference, saved: Option<f64>) -> Change {
    if !difference.is_comparable() {
        return Change::NotComparable;
    }
    let peak = peak_change(difference, saved);
    let failure = match Failure::of(difference) {
        Failure::Appeared | Failure::Both(Some(Ordering::Less)) => 1,
        Failure::Gone | Failure::Both(Some(Ordering::Greater)) => -1,
        Failure::None | Failure::Both(_) => 0,
    };
    let leaks = match difference.leaks {
        LeakChange::Appeared | LeakChange::Faster => 1,
        LeakChange::Fixed | LeakChange::Slower => -1,
        LeakChange::NeverLeaked | LeakChange::Same | LeakChange::CannotTell => 0,
    };
    let signs = [failure, peak, leaks, growth_change(difference)];
    let (worse, better) = (signs.contains(&1), signs.contains(&-1));
    match (worse, better) {
        (false, false) if difference.is_bounded() || difference.is_of_other_steps() => {
            Change::NotComparable
        }
        (true, true) => Change::Mixed,
        (true, false) => Change::Worse,
        (false, true) => Change::Better,
        (false, false) if difference.sites.is_empty() => Change::None,
        (false, false) => Change::Moved,
    }
}

#[cfg(test)]
pub(crate) mod tests;
