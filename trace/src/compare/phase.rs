//! Where in a step an event lies. Two runs' steps are laid over one another by what they allocate.
//!
//! A patch that adds allocations to the forward pass shifts everything after it, so the fraction of
//! a step's events does not tell the phase. The sequence of allocation sites does: the n-th
//! allocation of a site in one step matches the n-th allocation of that site in the other. Only
//! sites with the same number of allocations in both steps are used. Their longest common
//! subsequence gives anchors; between two anchors phases are interpolated.

use super::beginnings::{self, Course};
use super::numbering::{self, Numbering};
use crate::footprint::{of_map, of_vec};
use crate::growth::settled;
use crate::site::{SiteKey, Sites};
use crate::span::Span;
use crate::stacks::{FxHashMap, Stacks};
use crate::trace::DeviceTrace;
use crate::units::EventIdx;
use crate::watch::{Stopped, Watch};

/// The largest number of anchors kept.
const MAX_ANCHORS: usize = 96;
/// How many allocations of a step are looked at.
const MAX_ALLOCS: usize = 1 << 16;

/// The allocations of a run's typical step. Another run's steps are laid over it.
#[derive(Clone, Debug, Default)]
pub struct Rhythm {
    /// Site, how often it came before in the step, and the position as a fraction of the step's
    /// events.
    allocs: Vec<(SiteKey, u32, f64)>,
    /// How often each site comes.
    counts: FxHashMap<SiteKey, u32>,
    /// The numbers in the steps' names.
    numbering: Option<Numbering>,
    /// The levels of the steps.
    course: Course,
}

impl Rhythm {
    /// The rhythm of a device: that of the settled step whose length is the median.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn of(device: &DeviceTrace, stacks: &Stacks, watch: Watch<'_>) -> Result<Rhythm, Stopped> {
        watch.look(device.steps.len() * 2 * size_of::<Span<EventIdx>>())?;
        let steps = spans_of_steps(device);
        let from = settled(steps.len()).min(steps.len() - 1);
        let mut settled: Vec<Span<EventIdx>> = steps[from..].to_vec();
        settled.sort_by_key(|step| step.len());
        let step = settled[settled.len() / 2];
        let (start, end) = (step.start().0, step.end().0);
        let length = f64::from(end - start).max(1.0);
        let sites = Sites::new_while(&device.blocks, stacks, watch)?;
        let watch = watch.beside(sites.heap_bytes());
        let mut rhythm = Rhythm {
            numbering: Numbering::of_device(device),
            course: Course::of_device(device),
            ..Rhythm::default()
        };
        for (at, index) in device
            .blocks
            .allocated_in(step)
            .take(MAX_ALLOCS)
            .enumerate()
        {
            watch.at_row(at, || 2 * (of_map(&rhythm.counts) + of_vec(&rhythm.allocs)))?;
            let index = index as usize;
            let kind = device.blocks.kind[index].index();
            let key = sites.keys[sites.of_kind[kind] as usize];
            let before = rhythm.counts.entry(key).or_default();
            let fraction = f64::from(device.blocks.alloc[index] - start) / length;
            rhythm.allocs.push((key, *before, fraction));
            *before += 1;
        }
        Ok(rhythm)
    }

    /// Pairs of positions, as fractions of a step: in this rhythm and in the baseline's. Both rise,
    /// and both ends are included.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn over(&self, base: &Rhythm, watch: Watch<'_>) -> Result<Vec<(f64, f64)>, Stopped> {
        // The places of the baseline, the pairs, and the search for the longest rise.
        const PER_ALLOC: usize = 160;
        watch.look((self.allocs.len() + base.allocs.len()) * PER_ALLOC)?;
        let common = |key: &SiteKey| {
            let count = self.counts.get(key);
            count.is_some() && count == base.counts.get(key)
        };
        let places: FxHashMap<(SiteKey, u32), f64> = base
            .allocs
            .iter()
            .filter(|(key, _, _)| common(key))
            .map(|&(key, nth, fraction)| ((key, nth), fraction))
            .collect();
        let pairs: Vec<(f64, f64)> = self
            .allocs
            .iter()
            .filter_map(|&(key, nth, own)| Some((own, *places.get(&(key, nth))?)))
            .collect();
        let rising = longest_rising(&pairs, watch)?;
        let thin = rising.len().div_ceil(MAX_ANCHORS).max(1);
        let mut anchors = vec![(0.0, 0.0)];
        for &(own, theirs) in rising.iter().step_by(thin) {
            let last = anchors[anchors.len() - 1];
            // The two ends of a step are anchors already.
            if own > last.0 && theirs > last.1 && own < 1.0 && theirs < 1.0 {
                anchors.push((own, theirs));
            }
        }
        anchors.push((1.0, 1.0));
        Ok(anchors)
    }
}

/// Where on the axis of steps the first step of a run lies: `base` is the rhythm of the baseline,
/// `None` for the baseline itself. As the table of steps ([`super::over`]), by equal numbers, or
/// where the levels of both agree. A run that begins before the baseline may lie below 0.
pub fn begins_at(device: &DeviceTrace, base: Option<&Rhythm>) -> i64 {
    let own = Numbering::of_device(device);
    let numbers = base.map_or(own.as_ref(), |base| base.numbering.as_ref());
    let numbered = i64::from(numbering::places(numbers, own.as_ref())[1]);
    match base {
        Some(base) if numbers.is_none() || own.is_none() => {
            let course = Course::of_device(device);
            let [of_base, of_own] = beginnings::places([&base.course, &course]).unwrap_or_default();
            numbered + i64::from(of_own) - i64::from(of_base)
        }
        _ => numbered,
    }
}

/// The events of each step of a device. A recording without steps is one pass: all its events.
pub(super) fn spans_of_steps(device: &DeviceTrace) -> Vec<Span<EventIdx>> {
    match device.steps.is_empty() {
        true => vec![Span::new(EventIdx(0), EventIdx(device.events.len()))],
        false => device.steps.iter().map(|step| step.events).collect(),
    }
}

/// The longest subsequence whose second members rise (the first ones do already), by patience
/// sorting.
fn longest_rising(pairs: &[(f64, f64)], watch: Watch<'_>) -> Result<Vec<(f64, f64)>, Stopped> {
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; pairs.len()];
    for (at, pair) in pairs.iter().enumerate() {
        watch.at_row(at, || of_vec(&tails) + of_vec(&before))?;
        let place = tails.partition_point(|&tail| pairs[tail].1 < pair.1);
        before[at] = place.checked_sub(1).map(|previous| tails[previous]);
        match tails.get_mut(place) {
            Some(tail) => *tail = at,
            None => tails.push(at),
        }
    }
    let chain = std::iter::successors(tails.last().copied(), |&at| before[at]);
    let mut rising: Vec<(f64, f64)> = chain.map(|at| pairs[at]).collect();
    rising.reverse();
    Ok(rising)
}

/// The second member that belongs to a first one: a straight line between two anchors.
pub(super) fn interpolate(anchors: &[(f64, f64)], x: f64) -> f64 {
    let after = anchors.partition_point(|anchor| anchor.0 <= x);
    match (
        after.checked_sub(1).map(|at| anchors[at]),
        anchors.get(after),
    ) {
        (Some(low), Some(&high)) => low.1 + (x - low.0) / (high.0 - low.0) * (high.1 - low.1),
        (Some(last), None) => last.1,
        (None, Some(first)) => first.1,
        (None, None) => x,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    fn rhythm(allocs: &[(u64, f64)]) -> Rhythm {
        let mut rhythm = Rhythm::default();
        for &(key, fraction) in allocs {
            let key = SiteKey::Size(Bytes(key));
            let before = rhythm.counts.entry(key).or_default();
            rhythm.allocs.push((key, *before, fraction));
            *before += 1;
        }
        rhythm
    }

    #[test]
    fn what_is_inserted_stretches_its_part_of_the_step_only() {
        let base = rhythm(&[(1, 0.1), (2, 0.4), (2, 0.6), (3, 0.9)]);
        let new = rhythm(&[(1, 0.1), (9, 0.2), (9, 0.3), (2, 0.7), (2, 0.8), (3, 0.95)]);
        let anchors = new.over(&base, Watch::nobody()).unwrap();
        assert_eq!(
            anchors,
            [
                (0.0, 0.0),
                (0.1, 0.1),
                (0.7, 0.4),
                (0.8, 0.6),
                (0.95, 0.9),
                (1.0, 1.0)
            ]
        );
        assert!((interpolate(&anchors, 0.4) - 0.25).abs() < 1e-9);
        assert_eq!(interpolate(&anchors, 1.0), 1.0);
    }

    #[test]
    fn what_came_in_another_order_is_no_anchor() {
        let base = rhythm(&[(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.5)]);
        let new = rhythm(&[(3, 0.1), (1, 0.2), (2, 0.3), (4, 0.5)]);
        let anchors = new.over(&base, Watch::nobody()).unwrap();
        assert_eq!(
            anchors,
            [(0.0, 0.0), (0.2, 0.1), (0.3, 0.2), (0.5, 0.5), (1.0, 1.0)]
        );
    }

    #[test]
    fn without_anything_in_common_fractions_are_phases() {
        let (new, base) = (rhythm(&[(1, 0.3)]), rhythm(&[(2, 0.3)]));
        let anchors = new.over(&base, Watch::nobody()).unwrap();
        assert_eq!(anchors, [(0.0, 0.0), (1.0, 1.0)]);
        assert_eq!(interpolate(&anchors, 0.3), 0.3);
    }
}
