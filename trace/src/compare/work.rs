//! Steps of varying work: how much memory a step needs depends on how much it requests.
//!
//! Where sequences vary in length, the highest step of a run is a matter of luck. The peaks of the
//! baseline's steps, drawn over their work, make a line. It bends where another phase becomes the
//! highest. The steps of the new run are compared with this line. Steps longer than all of the
//! baseline's may need more in proportion to their work, because a level has a constant part and a
//! part that grows with work.

use super::conditions;
use super::noise::{self, VARYING_WORK};
use super::profile::{DeviceProfile, StepProfile};
use crate::growth;
use crate::leaks::Verdict;

/// Whether the steps of the baseline vary in work. If so, the largest share by which a step of the
/// new run exceeds steps of equal work.
pub fn excess(base: &DeviceProfile, new: &DeviceProfile) -> (bool, Option<f64>) {
    let (mean, deviation) = noise::spread(&conditions::settled_work(base));
    if mean <= 0.0 || deviation <= VARYING_WORK * mean {
        return (false, None);
    }
    // Where both runs leak, later steps begin at a higher level. What a step adds does not change,
    // so levels are counted from the start of each step.
    let from_its_start = base.leaks.verdict == Verdict::Leak && new.leaks.verdict == Verdict::Leak;
    let needs = Needs::of(points(base, from_its_start));
    let highest = base.steps.iter().map(|step| step.peak.0).max().unwrap_or(0) as f64;
    let excesses = points(new, from_its_start)
        .into_iter()
        .filter_map(|(work, peak)| Some((peak - needs.at(work)?) / highest.max(1.0)));
    (true, excesses.max_by(f64::total_cmp))
}

/// Work and peak of each settled step.
fn points(device: &DeviceProfile, from_its_start: bool) -> Vec<(f64, f64)> {
    let whole = device.whole_steps as usize;
    let settled = growth::settled(whole)..whole;
    let start = |index: usize| match index {
        0 => 0,
        index => device.steps[index - 1].end.0,
    };
    let point = |(index, step): (usize, &StepProfile)| {
        let floor = if from_its_start { start(index) } else { 0 };
        (step.work.0 as f64, step.peak.0.saturating_sub(floor) as f64)
    };
    let steps = device.steps.iter().enumerate();
    steps
        .filter(|(index, _)| settled.contains(index))
        .map(point)
        .collect()
}

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

    /// Between two steps of the baseline: on the line between them. Below all of them: the lowest.
    /// Above all of them: in proportion to the work.
    fn at(&self, work: f64) -> Option<f64> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        if work <= first.0 {
            return Some(first.1);
        }
        if work >= last.0 {
            return Some(last.1 * (work / last.0.max(1.0)));
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

    #[test]
    fn steps_between_others_need_what_the_line_says_and_longer_ones_more() {
        let needs = Needs::of(vec![(10.0, 100.0), (30.0, 120.0), (10.0, 90.0)]);
        let check = |work: f64, expected: f64| assert_eq!(needs.at(work), Some(expected));
        check(5.0, 100.0);
        check(10.0, 100.0);
        check(20.0, 110.0);
        check(60.0, 240.0);
        assert_eq!(Needs::of(Vec::new()).at(1.0), None);
    }
}
