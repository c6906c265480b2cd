//! How fast memory accumulates: from step to step, or within steps.
//!
//! The two are counted by different things, bytes a step and bytes a part of a step. So they are
//! never added, and each is compared only with its own kind in the other run.

use super::{LeakChange, noise};
use crate::leaks::{self, MIN_BYTES, Pattern};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// What a leak is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It accumulates from step to step.
    BySteps,
    /// It accumulates with each part of a step, and is given back at the end of the step.
    ByParts,
}

impl Counted {
    /// Both; what is told first is first.
    pub const ALL: [Counted; 2] = [Counted::BySteps, Counted::ByParts];

    /// Of a leak that grows so.
    pub fn of(pattern: Pattern) -> Counted {
        Counted::within(pattern == Pattern::WithinStep)
    }

    /// Of a leak that grows within steps, or does not.
    pub fn within(within_step: bool) -> Counted {
        match within_step {
            true => Counted::ByParts,
            false => Counted::BySteps,
        }
    }

    /// `a step`, or `a part of a step`.
    pub fn unit(self) -> &'static str {
        leaks::rate_unit(self == Counted::ByParts)
    }
}

/// How fast all places of one kind accumulate together; 0 without such places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LeakRate))]
pub struct Rate {
    /// Bytes.
    pub bytes: f64,
    /// Half of the 95 % interval.
    pub error: f64,
}

/// How fast a device leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// From step to step: bytes a step.
    pub by_steps: Rate,
    /// Within steps: bytes a part of a step.
    pub by_parts: Rate,
}

/// A part that is larger than this share is all.
const ALL: f64 = 0.99;

/// What places keep of so many bytes a step, if something else grows too and they keep less.
pub(super) fn part(part: f64, all: f64) -> Option<Bytes> {
    let [told, of] = [part, all].map(|bytes| Bytes(bytes.round() as u64));
    (part < ALL * all && told.to_string() != of.to_string()).then_some(told)
}

impl Rates {
    /// The rate of one kind.
    pub fn of(&self, counted: Counted) -> Rate {
        match counted {
            Counted::BySteps => self.by_steps,
            Counted::ByParts => self.by_parts,
        }
    }

    /// The kinds that there are.
    pub fn kinds(&self) -> impl Iterator<Item = Counted> + '_ {
        let there = |counted: &Counted| self.of(*counted).bytes > 0.0;
        Counted::ALL.into_iter().filter(there)
    }

    /// The kind that is told where only one is: from step to step, if anything is.
    pub fn told(&self) -> Counted {
        self.kinds().next().unwrap_or(Counted::BySteps)
    }

    /// What became of the leaks of one kind.
    pub fn change_of(counted: Counted, base: &Rates, new: &Rates) -> LeakChange {
        let [base, new] = [base, new].map(|rates| rates.of(counted));
        let more = new.bytes - base.bytes;
        match (base.bytes > 0.0, new.bytes > 0.0) {
            (false, false) => LeakChange::NeverLeaked,
            (false, true) => LeakChange::Appeared,
            (true, false) => LeakChange::Fixed,
            _ if more.abs() <= tolerance(base, new) => LeakChange::Same,
            _ if more > 0.0 => LeakChange::Faster,
            _ => LeakChange::Slower,
        }
    }

    /// What became of the leaks of two runs that both leak: the worst news, then the best.
    pub fn change(base: &Rates, new: &Rates) -> LeakChange {
        let changes = Counted::ALL.map(|counted| Rates::change_of(counted, base, new));
        let in_order = [
            LeakChange::Appeared,
            LeakChange::Faster,
            LeakChange::Slower,
            LeakChange::Same,
        ];
        match in_order.into_iter().find(|one| changes.contains(one)) {
            // One kind is gone, and the other is still there.
            Some(LeakChange::Same) if changes.contains(&LeakChange::Fixed) => LeakChange::Slower,
            Some(change) => change,
            None => LeakChange::Same,
        }
    }
}

/// Two rates count as the same if they differ by no more than this, bytes.
fn tolerance(base: Rate, new: Rate) -> f64 {
    let share = base.bytes.max(new.bytes) * noise::RATE_SHARE;
    (base.error + new.error).max(share).max(MIN_BYTES.0 as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mib([by_steps, by_parts]: [u64; 2]) -> Rates {
        let rate = |mib: u64| Rate {
            bytes: (mib << 20) as f64,
            error: 0.0,
        };
        Rates {
            by_steps: rate(by_steps),
            by_parts: rate(by_parts),
        }
    }

    #[test]
    fn each_rate_is_compared_with_its_own_kind() {
        let check = |base, new, expected: LeakChange| {
            let change = Rates::change(&mib(base), &mib(new));
            assert_eq!(change, expected, "{base:?} {new:?}");
        };
        check([8, 0], [8, 0], LeakChange::Same);
        check([8, 0], [9, 0], LeakChange::Faster);
        check([0, 8], [0, 4], LeakChange::Slower);
        // However fast the other kind was or is.
        check([0, 100], [8, 100], LeakChange::Appeared);
        check([0, 100], [8, 0], LeakChange::Appeared);
        check([8, 0], [0, 1], LeakChange::Appeared);
        check([8, 100], [0, 100], LeakChange::Slower);
        check([8, 100], [8, 0], LeakChange::Slower);
        check([8, 100], [0, 101], LeakChange::Slower);
        check([8, 100], [9, 50], LeakChange::Faster);
        check([8, 100], [4, 110], LeakChange::Faster);
    }

    #[test]
    fn what_accumulates_from_step_to_step_is_told_first() {
        let check = |rates, expected: Counted| assert_eq!(mib(rates).told(), expected, "{rates:?}");
        check([1, 100], Counted::BySteps);
        check([1, 0], Counted::BySteps);
        check([0, 1], Counted::ByParts);
        check([0, 0], Counted::BySteps);
    }
}
