//! Steps as the program counts them.
//!
//! A recording may begin in the middle of a training: a ring wrapped, or it was switched on late.
//! Its first step is then not the first of another run. Where the steps of both have numbers in
//! their names, equal numbers lie over one another; otherwise, equal positions.

use crate::redact::numbered;
use crate::trace::{DeviceTrace, StepSource};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Numbers from here on are no counts of steps.
const HIGHEST: u32 = 1 << 30;

/// Steps whose names are one word with numbers that rise by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbering {
    word: String,
    first: u32,
    count: u32,
}

impl Numbering {
    /// That of names from annotations; `None` where steps are inferred, or not numbered so.
    pub fn of<'n>(
        source: StepSource,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Option<Numbering> {
        if source != StepSource::Annotations {
            return None;
        }
        let mut found: Option<Numbering> = None;
        for name in names {
            let (word, number) = numbered(name).filter(|&(_, number)| number < HIGHEST)?;
            let numbering = found.get_or_insert_with(|| Numbering {
                word: word.to_owned(),
                first: number,
                count: 0,
            });
            if word != numbering.word || number != numbering.first + numbering.count {
                return None;
            }
            numbering.count += 1;
        }
        found
    }

    /// That of a device's steps.
    pub fn of_device(device: &DeviceTrace) -> Option<Numbering> {
        let names = device.steps.iter().map(|step| step.name.as_str());
        Numbering::of(device.step_source, names)
    }

    /// The number of the first step.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Whether both count after the same word.
    pub fn counts_as(&self, other: &Numbering) -> bool {
        self.word == other.word
    }

    /// Whether both have a number in common.
    pub fn overlaps(&self, other: &Numbering) -> bool {
        let (ours, theirs) = (self.numbers(), other.numbers());
        self.counts_as(other) && ours.start < theirs.end && theirs.start < ours.end
    }

    fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.count
    }
}

/// Where the first steps of the baseline and of another run lie: in the baseline's numbers if it
/// has some, otherwise both at 0. Runs that have no number in common begin at the same place.
pub fn places(base: Option<&Numbering>, new: Option<&Numbering>) -> [u32; 2] {
    let Some(base) = base else { return [0, 0] };
    let new = new.filter(|new| base.overlaps(new));
    [base.first, new.map_or(base.first, |new| new.first)]
}

/// Where the first steps of many runs lie, none of which is the baseline: at their numbers. They
/// run at the same time, so those whose numbers lie in one piece count as one program does; the
/// largest such group decides. Others begin where that group does; without any numbers, all at 0.
pub fn places_of_many(runs: &[Option<Numbering>]) -> Vec<u32> {
    let mut sorted: Vec<&Numbering> = runs.iter().flatten().collect();
    sorted.sort_by_key(|own| (&own.word, own.first));
    // The word, the numbers that its runs have together, and how many runs these are.
    let mut groups: Vec<(&str, Range<u32>, usize)> = Vec::new();
    for own in sorted {
        let numbers = own.numbers();
        match groups.last_mut() {
            Some((word, all, runs)) if *word == own.word && numbers.start <= all.end => {
                all.end = all.end.max(numbers.end);
                *runs += 1;
            }
            _ => groups.push((&own.word, numbers, 1)),
        }
    }
    let most = groups.iter().map(|(.., runs)| *runs).max();
    let usual = groups.into_iter().find(|(.., runs)| Some(*runs) == most);
    let Some((word, all, _)) = usual else {
        return vec![0; runs.len()];
    };
    let is_in = |own: &&Numbering| own.word == word && all.contains(&own.first);
    let place = |own: Option<&Numbering>| own.filter(is_in).map_or(all.start, |own| own.first);
    runs.iter().map(|own| place(own.as_ref())).collect()
}

/// The positions in each run of the steps that both have; `counts` are those of all steps.
pub fn common(places: [u32; 2], counts: [usize; 2]) -> [Range<usize>; 2] {
    let end = |at: usize| places[at] as usize + counts[at];
    let first = places[0].max(places[1]) as usize;
    let end = end(0).min(end(1)).max(first);
    places.map(|place| first - place as usize..end - place as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Option<Numbering> {
        Numbering::of(StepSource::Annotations, names.iter().copied())
    }

    #[test]
    fn numbers_rise_by_one_after_one_word() {
        let check = |names: &[&str], first: Option<u32>| {
            assert_eq!(named(names).map(|n| n.first), first, "{names:?}");
        };
        check(&["## step 5 ##", "## step 6 ##"], Some(5));
        check(&["ProfilerStep#9", "ProfilerStep#10"], Some(9));
        check(&["step 5", "step 7"], None);
        check(&["step 5", "request 6"], None);
        check(&["forward", "forward"], None);
        check(&[], None);
        check(&["step 1073741823", "step 1073741824"], None);
        assert_eq!(Numbering::of(StepSource::Inferred, ["step 5"]), None);
    }

    #[test]
    fn equal_numbers_lie_over_one_another() {
        let steps = |first: u32, count: u32| Numbering {
            word: "step ".to_owned(),
            first,
            count,
        };
        let check = |base: Option<&Numbering>, new: Option<&Numbering>, expected: [u32; 2]| {
            assert_eq!(places(base, new), expected, "{base:?} {new:?}");
        };
        let (whole, ring) = (steps(0, 12), steps(6, 6));
        check(Some(&whole), Some(&ring), [0, 6]);
        check(Some(&ring), Some(&whole), [6, 0]);
        check(Some(&whole), None, [0, 0]);
        check(Some(&ring), None, [6, 6]);
        check(None, Some(&ring), [0, 0]);
        // Recorded at different times: step by step they are compared all the same.
        check(Some(&whole), Some(&steps(100, 12)), [0, 0]);
        check(Some(&steps(100, 12)), Some(&whole), [100, 100]);
        let other = Numbering {
            word: "request ".to_owned(),
            ..ring.clone()
        };
        check(Some(&whole), Some(&other), [0, 0]);
    }

    #[test]
    fn many_runs_lie_at_their_numbers() {
        let steps = |first: u32, count: u32| {
            let word = "step ".to_owned();
            Some(Numbering { word, first, count })
        };
        let other = |first: u32| {
            let named = steps(first, 6)?;
            let word = "request ".to_owned();
            Some(Numbering { word, ..named })
        };
        let check = |runs: &[Option<Numbering>], expected: &[u32]| {
            assert_eq!(places_of_many(runs), expected, "{runs:?}");
            let reversed: Vec<_> = runs.iter().rev().cloned().collect();
            let mut places = places_of_many(&reversed);
            places.reverse();
            assert_eq!(places, expected, "{runs:?}, whatever their order");
        };
        check(&[], &[]);
        check(&[None, None], &[0, 0]);
        check(&[steps(0, 12), steps(6, 6), None], &[0, 6, 0]);
        check(&[steps(6, 6), steps(8, 4), None], &[6, 8, 6]);
        // Both lie over the third, and not over one another.
        check(&[steps(0, 5), steps(8, 4), steps(4, 5)], &[0, 8, 4]);
        check(&[steps(0, 5), steps(0, 5), steps(900, 5)], &[0, 0, 0]);
        check(&[steps(4, 6), steps(5, 6), other(9)], &[4, 5, 4]);
    }

    #[test]
    fn common_steps_are_those_of_both() {
        assert_eq!(common([0, 6], [12, 6]), [6..12, 0..6]);
        assert_eq!(common([6, 0], [6, 8]), [0..2, 6..8]);
        assert_eq!(common([0, 0], [3, 5]), [0..3, 0..3]);
        assert_eq!(common([0, 0], [0, 5]), [0..0, 0..0]);
    }
}
