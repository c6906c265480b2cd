//! Steps of varying work: how much memory a step needs depends on how much it requests.
//!
//! Where sequences vary in length, the highest step of a run is a matter of luck. The peaks of the
//! baseline's steps, drawn over their work, make a line. It bends where another phase becomes the
//! highest. The steps of the new run are compared with this line. Steps a little longer than all of
//! the baseline's need at most in proportion to their work, because a level has a constant part and
//! a part that grows with work; and they need no more if they lie on the line. What the baseline
//! would have needed for much longer ones is not known: attention may need four times the memory
//! for twice the length.

use super::noise::{self, LEVEL_SHARE, VARYING_WORK};
use super::profile::{DeviceProfile, StepProfile};
use crate::growth;
use crate::leaks::Verdict;
use crate::units::Bytes;

/// How the steps of a new run compare with the baseline's of equal work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Excess {
    /// Whether the steps of the baseline vary in work. Else nothing is said of the rest.
    pub varying: bool,
    /// The largest share by which a step of the new run exceeds steps of equal work; `None` if no
    /// step can be compared.
    pub share: Option<f64>,
    /// Where the highest level of the new run lies, if that has no counterpart in the baseline.
    pub unknown: Option<Unknown>,
}

/// Why nobody knows what the baseline would have needed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unknown {
    /// The step does so many times the work of the baseline's largest one.
    Beyond(f64),
    /// It is in no whole step.
    Outside,
}

impl Excess {
    /// `peak` is that of the new run that is compared.
    pub fn of(base: &DeviceProfile, new: &DeviceProfile, peak: Bytes) -> Excess {
        let (mean, deviation) = noise::spread(&base.settled_work());
        if mean <= 0.0 || deviation <= VARYING_WORK * mean {
            return Excess::default();
        }
        // Where both runs leak, later steps begin at a higher level. What a step adds does not
        // change, so levels are counted from the start of each step.
        let from_its_start =
            base.leaks.verdict == Verdict::Leak && new.leaks.verdict == Verdict::Leak;
        let points = |device| points(device, from_its_start);
        let ([first_base, base_steps], [mut first_new, new_steps]) = (points(base), points(new));
        // How much work it was to come so high is not known of a step without its beginning.
        if new.steps.first().is_some_and(|step| new.is_cut(step)) {
            first_new.drain(..first_new.len().min(1));
        }
        // A first step may do more than its work says: the optimizer makes its state.
        let first = first_base.iter().map(|point| point.1).fold(0.0, f64::max);
        let needs = Needs::of(base_steps);
        let highest = base.steps.iter().map(|step| step.peak.0).max().unwrap_or(0) as f64;
        let share = |peak: f64, need: f64| (peak - need) / highest.max(1.0);
        let settled = new_steps
            .iter()
            .filter_map(|&(work, peak)| Some(share(peak, needs.at(work)?)));
        let unsettled = first_new.iter().filter_map(|&(work, peak)| {
            let need = needs.at(work).map(|need| need.max(first));
            let need = need.or_else(|| (peak <= first).then_some(first));
            Some(share(peak, need?))
        });
        Excess {
            varying: true,
            share: settled.chain(unsettled).max_by(f64::total_cmp),
            unknown: needs.unknown((new, peak), first, first_new.iter().chain(&new_steps)),
        }
    }
}

/// Work and peak of each whole step: of the first ones, and of those that are settled.
fn points(device: &DeviceProfile, from_its_start: bool) -> [Vec<(f64, f64)>; 2] {
    let whole = device.whole_steps as usize;
    let start = |index: usize| match index {
        0 => 0,
        index => device.steps[index - 1].end.0,
    };
    let point = |(index, step): (usize, &StepProfile)| {
        let floor = if from_its_start { start(index) } else { 0 };
        (step.work.0 as f64, step.peak.0.saturating_sub(floor) as f64)
    };
    let steps = device.steps[..whole].iter().enumerate();
    let mut first: Vec<_> = steps.map(point).collect();
    let settled = first.split_off(growth::settled(whole));
    [first, settled]
}

/// A step of so much more work than the baseline's largest may still be compared with it. It needs
/// at most in proportion to its work.
const BEYOND: f64 = 0.25;

/// A line to the largest step begins at one that does less work by at least this share. Otherwise
/// it would be of their differences by chance.
const APART: f64 = 0.05;

/// How much memory steps need, by their work.
struct Needs {
    /// Sorted by rising work; for equal work, the highest peak.
    points: Vec<(f64, f64)>,
}

impl Needs {
    fn of(mut points: Vec<(f64, f64)>) -> Needs {
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        points.dedup_by(|later, first| later.0 == first.0);
        Needs { points }
    }

    /// Why it is not known what the highest level of the new run would have needed in the baseline.
    /// `first` is the highest peak of its first steps.
    fn unknown<'a>(
        &self,
        (new, peak): (&DeviceProfile, Bytes),
        first: f64,
        steps: impl Iterator<Item = &'a (f64, f64)>,
    ) -> Option<Unknown> {
        let whole = new.steps[..new.whole_steps as usize].iter();
        let whole = whole.filter(|step| !new.is_cut(step));
        let in_steps = whole.map(|step| step.peak).max();
        if in_steps < Some(peak) {
            return Some(Unknown::Outside);
        }
        let (work, peak) = *steps.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let last = self.points.last()?.0;
        let expected = self.beyond(work).filter(|_| self.at(work).is_some());
        let most = expected.map_or(0.0, |need| need * (1.0 + LEVEL_SHARE));
        let is_unknown = work > last && peak > first.max(most);
        is_unknown.then(|| Unknown::Beyond(work / last.max(1.0)))
    }

    /// What a step above all of the baseline's is expected to need: on the steepest line through
    /// the largest step, and at most in proportion to its work.
    fn beyond(&self, work: f64) -> Option<f64> {
        let last = self.points.last()?;
        let apart = |point: &&(f64, f64)| point.0 < last.0 * (1.0 - APART);
        let slope = |point: &(f64, f64)| (last.1 - point.1) / (last.0 - point.0);
        let slopes = self.points.iter().filter(apart).map(slope);
        let steepest = slopes.max_by(f64::total_cmp).unwrap_or(0.0);
        let in_proportion = last.1 / last.0.max(1.0);
        Some(last.1 + steepest.clamp(0.0, in_proportion.max(0.0)) * (work - last.0))
    }

    /// Between two steps of the baseline: on the line between them. Below all of them: the lowest.
    /// A little above all of them: in proportion to the work. `None` further above: nobody knows.
    fn at(&self, work: f64) -> Option<f64> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        if work <= first.0 {
            return Some(first.1);
        }
        if work >= last.0 {
            let more = work / last.0.max(1.0);
            return (more <= 1.0 + BEYOND).then_some(last.1 * more);
        }
        let after = self.points.partition_point(|point| point.0 <= work);
        let (low, high) = (self.points[after - 1], self.points[after]);
        let share = (work - low.0) / (high.0 - low.0);
        Some(low.1 + share * (high.1 - low.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Span;
    use crate::units::EventIdx;

    /// The ring begins where the first step holds most, and has made nothing since.
    #[test]
    fn a_step_without_its_beginning_is_held_against_none_of_equal_work() {
        let step = |at: u32, work: u64, peak: u64| StepProfile {
            name: String::new(),
            events: Span::new(EventIdx(at * 10), EventIdx(at * 10 + 9)),
            peak: Bytes(peak),
            end: Bytes::ZERO,
            reserved_end: Bytes::ZERO,
            requested_end: Bytes::ZERO,
            work: Bytes(work),
            allocs: 0,
        };
        let steps = (0..12).map(|at| match at > 4 && at % 2 == 1 {
            true => step(at, 20, 200),
            false => step(at, 10, 100),
        });
        let base = DeviceProfile {
            whole_steps: 12,
            steps: steps.collect(),
            ..DeviceProfile::default()
        };
        let check = |peak: u64, expected: Option<Unknown>| {
            let mut new = base.clone();
            new.wrapped = true;
            (new.steps[0].work, new.steps[0].peak) = (Bytes::ZERO, Bytes(peak));
            let excess = Excess::of(&base, &new, Bytes(peak));
            assert!(excess.varying);
            assert_eq!((excess.share, excess.unknown), (Some(0.0), expected));
        };
        check(200, None);
        check(300, Some(Unknown::Outside));
    }

    #[test]
    fn steps_between_others_need_what_the_line_says_and_longer_ones_more() {
        let needs = Needs::of(vec![(10.0, 100.0), (30.0, 120.0), (10.0, 90.0)]);
        let check = |work: f64, expected: f64| assert_eq!(needs.at(work), Some(expected));
        check(5.0, 100.0);
        check(10.0, 100.0);
        check(20.0, 110.0);
        check(31.5, 126.0);
        assert_eq!(needs.beyond(31.5), Some(121.5));
        assert_eq!(needs.at(60.0), None);
        assert_eq!(Needs::of(Vec::new()).at(1.0), None);
    }
}
