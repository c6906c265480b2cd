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
//!
//! # Files
//!
//! ```text
//! survey        a trace -> the profile of a run: what each allocation site holds
//! profile       that profile, with its names, stays (what stays between steps) and kept_frames
//! called        what an allocation site is called
//! pairs         which devices are compared with each other
//! numbering     steps as the program counts them
//! beginnings    recordings that begin at different steps, without numbers
//! shared_steps  the steps of both: over these the peaks are compared
//! sites         which sites are the same, and what differs there
//! cancel        rows of the same blocks under other stacks
//! apart         what tells rows apart that are called alike
//! same_program  one program that was changed, or two
//! conditions    what differs besides memory
//! work, pass    steps of varying work; one pass against another
//! failure, kept, rates, leak_places, beside
//!               out of memory, what stays, how fast it grows, which leaks are new
//! noise         how much two runs of one program differ
//! difference    all that was found, as values
//! judge         better or worse
//! headline, words, peak_place
//!               the same in a sentence
//! gate          the same as an exit code
//! phase, curves two runs over one axis
//! ```

pub mod apart;
mod beginnings;
mod beside;
mod called;
mod cancel;

pub mod conditions;
pub mod curves;
mod difference;
mod failure;
pub mod gate;
mod headline;
mod judge;
mod kept;
pub mod kept_frames;
pub mod leak_places;
mod names;
pub mod noise;
pub mod numbering;
pub mod pairs;
pub mod pass;
mod peak_place;
pub mod phase;
mod place;
pub mod profile;
pub mod rates;
mod same_program;
mod shared_steps;
pub mod sites;
mod stays;
mod survey;
pub mod words;
mod work;

use crate::growth::{Growth, wobble};
use crate::leaks::Pattern;
use crate::site::SiteKey;
use crate::stacks::FxHashMap;
use crate::trace::{Series, StepSource};
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
pub use beside::{LeaksBeside, leaks_beside};
use difference::Facts;
pub use difference::{
    Change, Difference, LeakChange, LeakPlace, Leaks, SeriesDelta, Side, StepDelta, StepSide,
    told_peak,
};
use gate::Said;
use judge::{change, ends_part, leak_change, leaks_alike, levels_alike, signs};
use kept::Kept;
pub use names::Names;
use names::Room;
use pairs::Pairs;
use profile::{DeviceProfile, LeakingSite, Place, Profile};
use shared_steps::SharedSteps;
use sites::Matching;
use std::ops::Range;
use work::Excess;

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
        let mut difference = compare_devices(base, new, &mut room, watch.beside(held))?;
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
/// peak of *allocated*, counted only upwards where it is worse. `None` if there are no devices.
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

/// Compares two devices.
fn compare_devices(
    base: &DeviceProfile,
    new: &DeviceProfile,
    room: &mut Room,
    watch: Watch<'_>,
) -> Result<Difference, Stopped> {
    let matching = Matching::of(&base.sites, &new.sites, watch)?;
    // The steps of both, and a row for every site.
    let sites = matching.pairs.len() + matching.gone.len() + matching.new.len();
    let counts = [base.steps.len(), new.steps.len()];
    watch.look(sites * PER_ROW + counts.iter().sum::<usize>() * PER_STEP)?;
    let shared = SharedSteps::of(base, new);
    let [base_side, new_side] = sides([base, new], &matching, &shared, room);
    let (of_base, of_new) = (base_side.common_peak, new_side.common_peak);
    let usual = noise::level(of_base, of_new, Bytes::ZERO);
    let tolerance = usual.max(base_side.wobble).max(new_side.wobble);
    let peak = noise::delta(of_base, of_new);
    // As much as a run's own steps differ by is a difference here, too: the rows add up to it.
    let known = known([base, new], &shared, peak.unsigned_abs() > usual.0);
    let found = sites::deltas([base, new], &matching, known, room);
    let (rows, same) = (found.rows, found.same);
    let left_out = found.left_out + (base.sites_left_out + new.sites_left_out) as usize;
    let series = Series::ALL.map(|series| series_delta(base, new, series));
    let Excess {
        varying,
        share: excess,
        unknown,
    } = Excess::of(base, new, new_side.common_peak);
    let saved = Excess::of(new, base, base_side.common_peak).share;
    let steps = step_deltas(base, new, shared.places);
    let leaks = leak_change(&base_side.leaks, &new_side.leaks);
    let same_leaks = leaks_alike([&base_side.leaks, &new_side.leaks], leaks);
    let mut difference = Difference {
        change: Change::None,
        leaks,
        headline: String::new(),
        conditions: conditions::of_devices(base, new, &matching, &shared),
        alike: !shared.extra
            && rows.is_empty()
            && left_out == 0
            && levels_alike(&series, &steps)
            && same_leaks
            && !(leaks == LeakChange::CannotTell && ends_part(&steps)),
        base: base_side,
        new: new_side,
        series,
        tolerance,
        varying,
        excess,
        phases: phase_deltas(base, new),
        steps,
        sites: rows,
        sites_left_out: left_out as u32,
        sites_same: same,
        unsplit: found.unsplit,
        facts: Facts {
            kept: Kept::between([base, new], shared.places),
            shared,
            is_other_program: same_program::is_other_program(base, new, &matching),
            resized: conditions::resized(base, new, &matching),
            unknown,
        },
    };
    judge(&mut difference, saved);
    Ok(difference)
}

/// Says whether a difference is for the better. `saved` is the excess of the baseline over the new
/// run.
fn judge(difference: &mut Difference, saved: Option<f64>) {
    let said = Said::of(difference);
    let signs = signs(difference, saved, &said);
    difference.change = change(difference, signs, &said);
    difference.headline = headline::of(difference, signs, &said);
}

/// What is known of two runs before their sites are compared.
fn known(runs: [&DeviceProfile; 2], shared: &SharedSteps, peaks_differ: bool) -> sites::Known {
    let [base, new] = runs;
    sites::Known {
        extra_steps: shared.extra_steps(runs),
        peaks_differ,
        requested: knows_requested(base) && knows_requested(new),
        unnamed: cancel::Unnamed::of(runs),
        unreached: runs.map(|run| run.oom.is_some() && run.whole_steps < 2),
    }
}

/// Whether a recording says what was requested.
fn knows_requested(device: &DeviceProfile) -> bool {
    device.summary[Series::Requested as usize].peak > Bytes::ZERO
}

/// The phases of two single passes.
fn phase_deltas(base: &DeviceProfile, new: &DeviceProfile) -> Vec<pass::PhaseDelta> {
    match [base.steps.len(), new.steps.len()] {
        [0 | 1, 0 | 1] => pass::deltas(&base.phases, &new.phases),
        _ => Vec::new(),
    }
}

/// Bytes of a row that has no texts yet, and of a step of both runs.
const PER_ROW: usize = 320;
const PER_STEP: usize = 512;

/// For the position of a site, that of the other run's same site.
type Counterparts = FxHashMap<usize, usize>;

/// Both sides of a difference.
fn sides(
    [base, new]: [&DeviceProfile; 2],
    matching: &Matching,
    shared: &SharedSteps,
    room: &mut Room,
) -> [Side; 2] {
    let [ours, theirs] = shared.steps.clone().map_or([None, None], |at| at.map(Some));
    let pairs = || matching.pairs.iter();
    let there: Counterparts = pairs().map(|&(b, n, _)| (b, n)).collect();
    let back: Counterparts = pairs().map(|&(b, n, _)| (n, b)).collect();
    let base_side = side([base, new], &there, ours, room);
    [base_side, side([new, base], &back, theirs, room)]
}

fn side(
    [device, other]: [&DeviceProfile; 2],
    counterparts: &Counterparts,
    common: Option<Range<usize>>,
    room: &mut Room,
) -> Side {
    let summary = &device.summary[Series::Allocated as usize];
    let common_peak = common.and_then(|at| device.steps[at].iter().map(|step| step.peak).max());
    let common_peak = common_peak.unwrap_or(summary.peak);
    let peaks: Vec<u64> = device.settled_steps().map(|step| step.peak.0).collect();
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
                id: group.key.id(),
                place: group
                    .place
                    .map_or_else(Place::default, |frame| room.place(&device.names, frame)),
                caller: group.caller.map(|frame| room.place(&device.names, frame)),
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

fn step_deltas(base: &DeviceProfile, new: &DeviceProfile, places: [u32; 2]) -> Vec<StepDelta> {
    let side = |device: &DeviceProfile, place: u32, number: u32| {
        let index = number.checked_sub(place)? as usize;
        device.steps.get(index).map(|step| StepSide {
            // Without names of their own, steps are called by their place in the table.
            name: match device.step_source {
                StepSource::Annotations => step.name.clone(),
                StepSource::Inferred | StepSource::None => format!("step {number}"),
            },
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

#[cfg(test)]
pub(crate) mod tests;
