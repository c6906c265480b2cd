//! Steps of two runs that are the same but for some at equal distances.
//!
//! Where the steps of a run differ, it may be luck which of two runs has the highest. But if their
//! steps peak the same, one by one, and some at equal distances do not and make more or fewer
//! blocks (an evaluation, a line of logging), then the program is another one there. Longer data
//! make larger blocks, not more. Two such steps have one distance, and one distance is no rhythm.

use super::difference::{StepDelta, StepSide};
use super::noise;
use crate::units::Bytes;

/// So many steps at equal distances are no luck.
const LEAST: usize = 3;

/// The numbers of the steps that differ.
pub(super) fn of(steps: &[StepDelta]) -> Option<Vec<u32>> {
    let mut differ: Vec<(u32, bool)> = Vec::new();
    for step in steps {
        let (base, new) = (step.base.as_ref()?, step.new.as_ref()?);
        // A part of a step says nothing of the step.
        if base.is_cut || new.is_cut {
            continue;
        }
        let is_same = is_same(base, new);
        if is_same != (base.allocs == new.allocs) {
            return None;
        }
        if !is_same {
            differ.push((step.index, base.peak < new.peak));
        }
    }
    let (first, one_way) = (
        differ.first()?.0,
        differ.windows(2).all(|w| w[0].1 == w[1].1),
    );
    let distance = differ.get(1)?.0 - first;
    let is_even = differ.windows(2).all(|w| w[1].0 - w[0].0 == distance);
    let is_rhythm = differ.len() >= LEAST && is_even && distance > 1;
    let others = steps.len() - differ.len();
    (is_rhythm && one_way && others >= differ.len())
        .then(|| differ.into_iter().map(|(index, _)| index).collect())
}

fn is_same(base: &StepSide, new: &StepSide) -> bool {
    let usual = noise::level(base.peak, new.peak, Bytes::ZERO);
    noise::delta(base.peak, new.peak).unsigned_abs() <= usual.0
}
