//! Which of two runs ran out of memory, and how far it got.

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
            (Some(_), Some(_)) => {
                let [base, new] = steps_before(difference);
                Failure::Both(base.zip(new).map(|(base, new)| new.cmp(&base)))
            }
        }
    }
}

/// How many steps each run had done when it ran out of memory. `None` if it did not, or if its
/// steps are not known: a ring that wrapped does not begin with the first.
pub(super) fn steps_before(difference: &Difference) -> [Option<u32>; 2] {
    let done = |side: &Side, of: fn(&StepDelta) -> &Option<StepSide>| {
        let oom: OutOfMemory = side.oom.filter(|_| !side.wrapped && side.steps > 0)?;
        // The step that failed is often not one: it was cut off.
        let ended = |step: &&StepSide| step.end_event <= oom.event;
        let steps = difference.steps.iter().filter_map(|step| of(step).as_ref());
        let ended = || steps.filter(ended).count() as u32;
        Some(oom.step.unwrap_or_else(ended))
    };
    [
        done(&difference.base, |step| &step.base),
        done(&difference.new, |step| &step.new),
    ]
}
