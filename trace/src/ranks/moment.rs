//! Where in its program a rank stands highest.
//!
//! Two moments of a program often stand almost equally high, and which of them is the peak then
//! differs from rank to rank by chance. What a site holds at one of them says nothing of the other.

use crate::compare::noise;
use crate::compare::profile::DeviceProfile;
use crate::growth::settled;
use crate::site::{self, SiteKey};
use crate::span::Span;
use crate::stacks::Stacks;
use crate::trace::{Action, BlockIdx, DeviceTrace, Series};
use crate::units::{Bytes, EventIdx};
use serde::{Deserialize, Serialize};

/// Moments this far from one another, in thousandths of a step, may be the same.
const NEAR: u32 = 50;
/// Events before a peak that are searched for an allocation that other ranks have, too.
const LOOKED_AT: u32 = 64;

/// A moment of a program, as far as other processes of it have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The site of the block that was allocated last; empty before the first event.
    pub site: String,
    /// How far the step is, in thousandths of its events; outside of steps, the recording.
    pub part: u32,
    /// The step, if only the first ones stand so high: later ones have the optimizer's state.
    pub early: Option<u32>,
}

impl Moment {
    /// Where *allocated* of a device stands highest.
    pub fn of_peak(profile: &DeviceProfile, device: &DeviceTrace, stacks: &Stacks) -> Moment {
        let Some(peak) = device.summary[Series::Allocated as usize].peak_event else {
            return Moment::default();
        };
        let (event, site) = allocated(profile, device, stacks, peak).unwrap_or_default();
        let in_step = device.steps.iter().position(|s| s.events.contains(event));
        let recording = Span::new(EventIdx(0), EventIdx(device.events.len()));
        let of = in_step.map_or(recording, |step| device.steps[step].events);
        let thousand = u64::from(event.0 - of.start().0) * 1000;
        let length = u64::from(of.len());
        Moment {
            site,
            part: (thousand / length.max(1)) as u32,
            early: in_step.and_then(|step| early(profile, step)),
        }
    }

    /// Whether two processes stand at the same place of their program.
    pub fn is_like(&self, other: &Moment) -> bool {
        self.site == other.site
            && self.part.abs_diff(other.part) <= NEAR
            && self.early == other.early
    }
}

/// Whether ranks stand highest at different moments, and which of them stand elsewhere than most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Apart {
    /// Whether not all stand at the usual moment.
    pub differ: bool,
    /// Positions of the ranks that do not, rising; none if no more than half of them do, or if
    /// there are two: then nobody can tell which is odd.
    pub odd: Vec<usize>,
}

impl Apart {
    /// Compares each with the usual one. No rank is special: in another order of the ranks, the
    /// answer is the same.
    pub fn of(moments: &[Moment]) -> Apart {
        let Some(usual) = usual(moments) else {
            return Apart::default();
        };
        let odd = (0..moments.len()).filter(|&at| !moments[at].is_like(&usual));
        let odd: Vec<usize> = odd.collect();
        let is_told = moments.len() > 2 && odd.len() * 2 < moments.len();
        Apart {
            differ: !odd.is_empty(),
            odd: if is_told { odd } else { Vec::new() },
        }
    }
}

/// The moment at which most stand: at the site where most do, the median part of the step.
fn usual(moments: &[Moment]) -> Option<Moment> {
    let mut sorted: Vec<&Moment> = moments.iter().collect();
    sorted.sort_by_key(|moment| (&moment.site, moment.early, moment.part));
    let same_place = |a: &&Moment, b: &&Moment| (&a.site, a.early) == (&b.site, b.early);
    let places = sorted.chunk_by(same_place);
    // Of two with equally many, the one that sorts later, whatever the order of the ranks.
    let most = places.max_by_key(|place| place.len())?;
    // One that is there: the mean of two would be near to both.
    Some(most[(most.len() - 1) / 2].clone())
}

/// The last allocation, and its site. What leaks in this rank is passed over: other ranks do not
/// have it.
fn allocated(
    profile: &DeviceProfile,
    device: &DeviceTrace,
    stacks: &Stacks,
    peak: EventIdx,
) -> Option<(EventIdx, String)> {
    let leaks = |key: SiteKey| {
        profile
            .sites
            .iter()
            .any(|site| site.leaks && site.key == key)
    };
    let near = peak.0.saturating_sub(LOOKED_AT)..=peak.0;
    let mut made = near.rev().filter_map(|event| {
        let at = event as usize;
        let is_alloc = device.events.action[at] == Action::Alloc;
        let block = is_alloc.then_some(BlockIdx(device.events.target[at]))?;
        let kind = device.blocks.kind(block);
        Some((EventIdx(event), site::key(stacks, kind), kind.alloc_stack))
    });
    let (event, key, stack) = made.find(|(_, key, _)| !leaks(*key))?;
    Some((event, site::key_in_ranks(stacks, stack, key).id()))
}

/// The step of a peak, if no settled step stands about as high. Only the first steps of a program
/// are early, not those that are the first in a recording which lost the others.
fn early(profile: &DeviceProfile, step: usize) -> Option<u32> {
    let lost = match profile.numbering() {
        Some(numbering) => numbering.first() as usize,
        None if profile.wrapped => return None,
        None => 0,
    };
    let whole = &profile.steps[..profile.steps.len().min(profile.whole_steps as usize)];
    let first = settled(whole.len());
    let peak = profile.summary[Series::Allocated as usize].peak;
    let later = whole[first..].iter().map(|step| step.peak).max();
    let reached = later
        .is_some_and(|later| peak.saturating_sub(later) <= noise::level(peak, later, Bytes::ZERO));
    (lost + step < first && !reached).then_some((lost + step) as u32)
}
