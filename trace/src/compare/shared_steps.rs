//! Over which steps the peaks of two runs are compared.
//!
//! Steps that only one run has must not count against it, because each of them adds growth. So
//! where the runs have other steps, their peaks are those of the steps that both have. Left out is
//! a step of which a part is missing, since it may have needed more than was seen: the last one,
//! where the recording or the memory ended in it, and the first one of a ring that wrapped.

use super::beginnings::Beginnings;
use super::numbering;
use super::profile::DeviceProfile;
use crate::units::Bytes;
use std::ops::Range;

/// The steps whose peaks are compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SharedSteps {
    /// Their positions in each run; `None` where the peaks of whole recordings are compared.
    pub steps: Option<[Range<usize>; 2]>,
    /// Where the first steps of each run lie over one another.
    pub places: [u32; 2],
    /// Whether one run has steps that the other has not.
    pub extra: bool,
    /// Whether the peaks are known to be of other steps, or may be: a ring that wrapped, or a
    /// recording that begins later, does not begin with the first one, and nothing says with which.
    pub may_differ: bool,
    /// How the beginnings of the recordings lie to one another, where no numbers say it.
    pub beginnings: Beginnings,
    /// Where one recording begins later, at a step that is not known: the peaks of as many steps of
    /// each run from its first one on.
    pub lowest: Option<[Bytes; 2]>,
}

impl SharedSteps {
    pub fn of(base: &DeviceProfile, new: &DeviceProfile) -> SharedSteps {
        let numberings = [base.numbering(), new.numbering()];
        let [of_base, of_new] = numberings.each_ref().map(Option::as_ref);
        let beginnings = match of_base.zip(of_new) {
            Some(_) => Beginnings::Together,
            None => Beginnings::of([base, new]),
        };
        let mut places = numbering::places(of_base, of_new);
        if let Beginnings::Apart(apart) = beginnings {
            places = [places[0] + apart[0], places[1] + apart[1]];
        }
        let overlap = of_base.zip(of_new).is_some_and(|(a, b)| a.overlaps(b));
        let by_number = overlap || matches!(beginnings, Beginnings::Apart(_));
        let counts = [base.steps.len(), new.steps.len()];
        let all = numbering::common(places, counts);
        let extra = counts.iter().any(|&steps| steps != all[0].len());
        let wraps = base.wrapped || new.wrapped;
        if beginnings == Beginnings::Unknown {
            let first = whole_steps([base, new], places).unwrap_or_else(|| all.clone());
            return SharedSteps {
                steps: None,
                places,
                extra,
                may_differ: true,
                beginnings,
                lowest: lowest([base, new], first),
            };
        }
        if beginnings == Beginnings::OneIsFlat {
            return SharedSteps {
                places,
                extra,
                beginnings,
                ..SharedSteps::default()
            };
        }
        let steps = match (extra, by_number || !wraps) {
            (true, true) => whole_steps([base, new], places),
            _ => None,
        };
        // Without a whole step in both, the parts of steps are better than nothing, unless nobody
        // knows which parts they are.
        let steps = steps.or_else(|| (extra && !wraps && !all[0].is_empty()).then_some(all));
        SharedSteps {
            may_differ: wraps && steps.is_none() && (extra || !by_number),
            steps,
            places,
            extra,
            beginnings,
            lowest: None,
        }
    }

    /// How many steps later the new run ends.
    pub fn extra_steps(&self, [base, new]: [&DeviceProfile; 2]) -> i64 {
        let ends = |run: &DeviceProfile, place: u32| i64::from(place) + i64::from(run.whole_steps);
        ends(new, self.places[1]) - ends(base, self.places[0])
    }

    /// The numbers of the steps, as the baseline counts.
    fn numbers(&self) -> Option<Range<u32>> {
        let [base, _] = self.steps.as_ref()?;
        let number = |at: usize| self.places[0] + at as u32;
        Some(number(base.start)..number(base.end))
    }

    /// Whether they are the first steps of both runs.
    fn are_first(&self) -> bool {
        self.steps
            .as_ref()
            .is_some_and(|steps| steps.iter().all(|at| at.start == 0))
    }

    /// The steps in words: `the 5 steps of both`, `steps 5 to 9 of both`; empty for whole
    /// recordings.
    pub fn told(&self) -> String {
        let Some(numbers) = self.numbers() else {
            return String::new();
        };
        let (first, last) = (numbers.start, numbers.end - 1);
        match numbers.len() {
            1 if self.are_first() => "the first step of both".to_owned(),
            n if self.are_first() => format!("the {n} steps of both"),
            1 => format!("step {first} of both"),
            2 => format!("steps {first} and {last} of both"),
            _ => format!("steps {first} to {last} of both"),
        }
    }
}

/// The peaks of these steps of each run.
fn lowest([base, new]: [&DeviceProfile; 2], at: [Range<usize>; 2]) -> Option<[Bytes; 2]> {
    let [of_base, of_new] = at;
    let highest = |run: &DeviceProfile, at: Range<usize>| {
        let steps = run.steps.get(at).unwrap_or_default();
        steps.iter().map(|step| step.peak).max()
    };
    Some([highest(base, of_base)?, highest(new, of_new)?])
}

/// The steps that both runs recorded from beginning to end; `None` if there are none.
fn whole_steps(runs: [&DeviceProfile; 2], places: [u32; 2]) -> Option<[Range<usize>; 2]> {
    let counts = runs.map(|run| run.whole_steps as usize);
    let mut common = numbering::common(places, counts);
    let is_cut = |(run, at): (&DeviceProfile, &Range<usize>)| {
        let first = run.steps.first().filter(|_| at.start == 0);
        first.is_some_and(|step| run.is_cut(step))
    };
    if runs.into_iter().zip(&common).any(is_cut) {
        common = common.map(|at| at.start + 1..at.end);
    }
    common.iter().all(|at| !at.is_empty()).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::profile::StepProfile;
    use crate::span::Span;
    use crate::trace::StepSource;
    use crate::units::{Bytes, EventIdx};

    /// Steps of these numbers; `cut` says that the ring wrapped, and began within the first one.
    fn run(numbers: Range<u32>, cut: bool) -> DeviceProfile {
        let start = numbers.start;
        let step = |number: u32| StepProfile {
            name: format!("## step {number} ##"),
            events: Span::new(
                EventIdx((number - start) * 10),
                EventIdx((number - start) * 10 + 9),
            ),
            peak: Bytes::ZERO,
            end: Bytes::ZERO,
            reserved_end: Bytes::ZERO,
            requested_end: Bytes::ZERO,
            work: Bytes::ZERO,
            allocs: 0,
        };
        DeviceProfile {
            step_source: StepSource::Annotations,
            whole_steps: numbers.len() as u32,
            steps: numbers.map(step).collect(),
            wrapped: cut,
            ..DeviceProfile::default()
        }
    }

    #[test]
    fn peaks_are_compared_over_the_whole_steps_of_both() {
        let check = |base: &DeviceProfile, new: &DeviceProfile, told: &str, may_differ: bool| {
            for pair in [[base, new], [new, base]] {
                let shared = SharedSteps::of(pair[0], pair[1]);
                assert_eq!((&*shared.told(), shared.may_differ), (told, may_differ));
            }
        };
        let whole = run(0..13, false);
        check(&whole, &whole, "", false);
        check(&whole, &run(0..21, false), "the 13 steps of both", false);
        check(&run(0..1, false), &whole, "the first step of both", false);
        check(&whole, &run(5..15, false), "steps 5 to 12 of both", false);
        check(
            &whole,
            &run(11..21, false),
            "steps 11 and 12 of both",
            false,
        );
        // The ring cut the first of them, and with it perhaps its peak.
        check(&whole, &run(11..21, true), "step 12 of both", false);
        check(&whole, &run(12..21, true), "", true);
        check(&whole, &run(30..40, true), "", true);
        check(&run(3..13, true), &run(3..13, true), "", false);
        // It failed in step 12.
        let failed = DeviceProfile {
            whole_steps: 12,
            ..whole.clone()
        };
        check(&failed, &run(0..21, false), "the 12 steps of both", false);
        check(&failed, &run(11..21, true), "", true);
        // Without numbers, nobody knows which steps a ring holds.
        let inferred = |run: DeviceProfile| DeviceProfile {
            step_source: StepSource::Inferred,
            ..run
        };
        check(
            &inferred(run(0..13, false)),
            &inferred(run(0..13, true)),
            "",
            true,
        );
        check(
            &whole,
            &inferred(run(0..8, false)),
            "the 8 steps of both",
            false,
        );
        check(&whole, &DeviceProfile::default(), "", false);
    }
}
