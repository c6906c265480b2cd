//! The side of each run in a difference: what is known of it alone, and of its leaks beside the
//! other run's.

use super::difference::{LeakPlace, Leaks, Side};
use super::names::Room;
use super::profile::{DeviceProfile, LeakingSite, Place};
use super::shared_steps::SharedSteps;
use super::sites::Matching;
use crate::growth::{Growth, wobble};
use crate::leaks::Pattern;
use crate::site::SiteKey;
use crate::stacks::FxHashMap;
use crate::trace::Series;
use crate::units::Bytes;
use std::ops::Range;

/// For the position of a site, that of the other run's same site.
pub(super) type Counterparts = FxHashMap<usize, usize>;

/// Both sides of a difference.
pub(super) fn of(
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
        inferred: device.inferred.iter().copied().collect(),
        growth: device.growth,
        growth_told: device.growth.and_then(Growth::told),
        common_peak,
        wobble: Bytes(wobble(&peaks)),
        leaks: leaks_of([device, other], counterparts, room),
    }
}

/// What leaks in one run, and whether the other one has the places.
pub(super) fn leaks_of(
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
