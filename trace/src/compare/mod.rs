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
//! peak_lines    what each line of the program holds at the peak
//! called        what an allocation site is called
//! pairs         which devices are compared with each other
//! numbering     steps as the program counts them
//! beginnings    recordings that begin at different steps, without numbers
//! shared_steps  the steps of both: over these the peaks are compared
//! step_rows     the steps, one by one; rhythm: they differ at equal distances only
//! sides         what is known of each run alone, and of its leaks beside the other's
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
//! inferred      in which of the runs categories are inferred
//! judge         better or worse
//! headline, words, peak_place, below_peak
//!               the same in a sentence
//! gate          the same as an exit code
//! phase, curves two runs over one axis
//! ```

pub mod apart;
mod beginnings;
mod below_peak;
mod beside;
mod called;
mod cancel;
pub mod conditions;
pub mod curves;
mod difference;
mod failure;
pub mod gate;
mod headline;
mod inferred;
mod judge;
mod kept;
pub mod kept_frames;
pub mod leak_places;
mod names;
pub mod noise;
pub mod numbering;
pub mod pairs;
pub mod pass;
mod peak_lines;
mod peak_place;
pub mod phase;
mod place;
pub mod profile;
pub mod rates;
mod rhythm;
mod same_program;
mod shared_steps;
mod sides;
pub mod sites;
mod stays;
mod step_rows;
mod survey;
pub mod words;
mod work;

use crate::trace::Series;
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
pub use beside::{LeaksBeside, leaks_beside};
use difference::Facts;
pub use difference::{
    Change, Difference, LeakChange, LeakPlace, Leaks, SeriesDelta, Side, StepDelta, StepSide,
    told_peak,
};
use gate::Said;
pub use inferred::InferredIn;
use judge::{change, ends_part, leak_change, leaks_alike, levels_alike, signs};
use kept::Kept;
pub use names::Names;
use names::Room;
use pairs::Pairs;
use profile::{DeviceProfile, Profile};
use shared_steps::SharedSteps;
use sites::Matching;
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
    watch.look(rows_need([base, new], &matching))?;
    let shared = SharedSteps::of(base, new);
    let steps = step_rows::of(base, new, shared.places);
    let rhythm = rhythm::of(&steps);
    let mut both = sides::of([base, new], &matching, &shared, room);
    // What the steps of a run differ by is no luck then.
    let sure = both.iter_mut().filter(|_| rhythm.is_some());
    sure.for_each(|side| side.wobble = Bytes::ZERO);
    let [base_side, new_side] = both;
    let (of_base, of_new) = (base_side.common_peak, new_side.common_peak);
    let usual = noise::level(of_base, of_new, Bytes::ZERO);
    let tolerance = usual.max(base_side.wobble).max(new_side.wobble);
    let peak = noise::delta(of_base, of_new);
    // As much as a run's own steps differ by is a difference here, too: the rows add up to it.
    let known = known([base, new], &shared, peak.unsigned_abs() > usual.0);
    let found = sites::deltas([base, new], &matching, known, room);
    let left_out = found.left_out + (base.sites_left_out + new.sites_left_out) as usize;
    let series = Series::ALL.map(|series| SeriesDelta::of(base, new, series));
    let excess = || excesses([base, new], [of_base, of_new]);
    let (excess, saved) = rhythm.as_ref().map_or_else(excess, |_| Default::default());
    let whole = &series[Series::Allocated as usize];
    let leaks = leak_change(&base_side.leaks, &new_side.leaks);
    let mut difference = Difference {
        change: Change::None,
        leaks,
        headline: String::new(),
        conditions: conditions::of_devices(base, new, &matching, &shared),
        alike: !shared.extra
            && found.rows.is_empty()
            && left_out == 0
            && levels_alike(&series, &steps)
            && leaks_alike([&base_side.leaks, &new_side.leaks], leaks)
            && !(leaks == LeakChange::CannotTell && ends_part(&steps)),
        base: base_side,
        new: new_side,
        over: ((of_base, of_new) != (whole.base.peak, whole.new.peak)).then(|| shared.told()),
        series,
        tolerance,
        varying: excess.varying,
        excess: excess.share,
        phases: phase_deltas(base, new),
        steps,
        sites: found.rows,
        sites_left_out: left_out as u32,
        sites_same: found.same,
        unsplit: found.untold.unsplit[0],
        unsplit_at_end: found.untold.unsplit[1],
        unlisted: found.untold.unlisted[0],
        unlisted_at_end: found.untold.unlisted[1],
        facts: Facts {
            kept: Kept::between([base, new], shared.places),
            shared,
            is_other_program: same_program::is_other_program(base, new, &matching),
            resized: conditions::resized(base, new, &matching),
            unknown: excess.unknown,
            rhythm,
            lines: [base, new].map(|run| peak_lines::told(run, room)),
            contradictory: [base, new].map(|run| run.contradictory),
        },
    };
    judge(&mut difference, saved);
    Ok(difference)
}

/// What the steps of both take, and a row for every site, bytes.
fn rows_need([base, new]: [&DeviceProfile; 2], matching: &Matching) -> usize {
    let sites = matching.pairs.len() + matching.gone.len() + matching.new.len();
    sites * PER_ROW + (base.steps.len() + new.steps.len()) * PER_STEP
}

/// How the steps of the new run compare with those of equal work, and by how much the baseline's
/// exceed them.
fn excesses(
    [base, new]: [&DeviceProfile; 2],
    [of_base, of_new]: [Bytes; 2],
) -> (Excess, Option<f64>) {
    let saved = Excess::of(new, base, of_base).share;
    (Excess::of(base, new, of_new), saved)
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

/// The phases of two single passes; nothing where a run has steps.
fn phase_deltas(base: &DeviceProfile, new: &DeviceProfile) -> Vec<pass::PhaseDelta> {
    match [base.steps.len(), new.steps.len()] {
        [0 | 1, 0 | 1] => pass::deltas(&base.phases, &new.phases),
        _ => Vec::new(),
    }
}

/// Bytes of a row that has no texts yet, and of a step of both runs.
const PER_ROW: usize = 320;
const PER_STEP: usize = 512;

#[cfg(test)]
pub(crate) mod tests;
