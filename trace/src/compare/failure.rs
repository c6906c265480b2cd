//! Which of two runs ran out of memory, and how far it got.

use super::numbering::Numbering;
use super::profile::OutOfMemory;
use super::{Difference, Side, StepDelta, StepSide};
use std::cmp::Ordering;

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Neither run ran out of memory.
    None,
    /// Only the new run did.
    Appeared,
    /// Only the baseline did.
    Gone,
    /// Both did; how much further the new run got, if that is known.
    Both(Option<Ordering>),
}

impl Failure {
    pub fn of(difference: &Difference) -> Failure {
        match (difference.base.oom, difference.new.oom) {
            (None, None) => Failure::None,
            (None, Some(_)) => Failure::Appeared,
            (Some(_), None) => Failure::Gone,
            (Some(_), Some(_)) => Failure::Both(further(difference)),
        }
    }
}

/// How far a run had come when it ran out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// It had done so many steps.
    After(u32),
    /// It was in the step of this number, as the program counts.
    In(u32),
}

impl Reached {
    /// In words, with a space before them.
    pub fn told(self) -> String {
        match self {
            Reached::After(1) => " after one step".to_owned(),
            Reached::After(done) => format!(" after {done} steps"),
            Reached::In(number) => format!(" in step {number}"),
        }
    }
}

/// How far the baseline and the new run had come. `None` if it did not run out of memory, or if its
/// steps are not known: a ring that wrapped does not begin with the first, so only numbers tell.
pub(super) fn reached(difference: &Difference) -> [Option<Reached>; 2] {
    Failed::both(difference).map(|run| {
        let run = run?;
        match run.number() {
            Some(number) if run.wrapped || run.done < number => Some(Reached::In(number)),
            _ => (!run.wrapped).then_some(Reached::After(run.done)),
        }
    })
}

/// How much further the new run got.
fn further(difference: &Difference) -> Option<Ordering> {
    let [Some(base), Some(new)] = &Failed::both(difference) else {
        return None;
    };
    let is_whole = !base.wrapped && !new.wrapped;
    let by_steps = new.done.cmp(&base.done);
    let of_both = base.numbering.as_ref().zip(new.numbering.as_ref());
    let Some((ours, theirs)) = of_both.filter(|(ours, theirs)| ours.counts_as(theirs)) else {
        return is_whole.then_some(by_steps);
    };
    let by_number = new.number().cmp(&base.number());
    // Without a number in both, one run was recorded late, or it went on from a checkpoint.
    let is_sure = ours.overlaps(theirs) || !is_whole || by_number == by_steps;
    is_sure.then_some(by_number)
}

/// A run that ran out of memory.
struct Failed {
    /// Recorded steps that were done.
    done: u32,
    wrapped: bool,
    numbering: Option<Numbering>,
}

impl Failed {
    fn both(difference: &Difference) -> [Option<Failed>; 2] {
        [
            Failed::of(difference, &difference.base, |step| &step.base),
            Failed::of(difference, &difference.new, |step| &step.new),
        ]
    }

    fn of(
        difference: &Difference,
        side: &Side,
        of: fn(&StepDelta) -> &Option<StepSide>,
    ) -> Option<Failed> {
        let oom: OutOfMemory = side.oom.filter(|_| side.steps > 0)?;
        let steps = || difference.steps.iter().filter_map(|step| of(step).as_ref());
        // The step that failed is often not one: it was cut off.
        let ended = || steps().filter(|step| step.end_event <= oom.event).count() as u32;
        let names = steps().map(|step| step.name.as_str());
        Some(Failed {
            done: oom.step.unwrap_or_else(ended),
            wrapped: side.wrapped,
            numbering: Numbering::of(side.step_source, names),
        })
    }

    /// The number of the step in which it failed.
    fn number(&self) -> Option<u32> {
        let first = self.numbering.as_ref()?.first();
        Some(first + self.done)
    }
}
