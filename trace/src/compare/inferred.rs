//! In which of two runs a category is inferred. A recorder may note what each block is for, as the
//! bench does; of an upload it is inferred.

use super::difference::{Difference, Side};
use crate::categories::Named;

/// The runs in which it is inferred what some memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferredIn {
    /// The recordings say it.
    Neither,
    /// Only the new run's recording says it.
    Baseline,
    /// Only the baseline's recording says it.
    NewRun,
    /// Neither recording says it.
    Both,
}

impl InferredIn {
    /// In words; empty where the recordings say it.
    pub const fn told(self) -> &'static str {
        match self {
            InferredIn::Neither => "",
            InferredIn::Baseline => "inferred in the baseline",
            InferredIn::NewRun => "inferred in the new run",
            InferredIn::Both => "inferred",
        }
    }

    /// The same behind a name: ` (inferred)`.
    pub fn mark(self) -> String {
        match self.told() {
            "" => String::new(),
            told => format!(" ({told})"),
        }
    }
}

impl Difference {
    /// In which of the runs one of these categories is inferred.
    pub fn inferred_in(&self, categories: &[Named]) -> InferredIn {
        let is_in = |side: &Side| categories.iter().any(|one| is_inferred(side, *one));
        match (is_in(&self.base), is_in(&self.new)) {
            (false, false) => InferredIn::Neither,
            (true, false) => InferredIn::Baseline,
            (false, true) => InferredIn::NewRun,
            (true, true) => InferredIn::Both,
        }
    }
}

/// That a run holds none of a category is inferred, too, if it is inferred what others are.
fn is_inferred(side: &Side, category: Named) -> bool {
    let is_held = side.at_peak.iter().any(|(held, _)| *held == category);
    match is_held {
        true => side.inferred.contains(&category),
        false => !side.inferred.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categories::Category;
    use crate::compare::compare;
    use crate::compare::profile::{DeviceProfile, Profile};
    use crate::testing::{TraceBuilder, block_of};
    use crate::trace::BlockKind;
    use crate::units::Bytes;
    use crate::watch::Watch;
    use std::collections::BTreeSet;

    const WEIGHTS: Named = Named::Ours(Category::Parameter);
    const BATCH: Named = Named::Ours(Category::Input);
    const OLD: Named = Named::Ours(Category::Before);

    fn peak(held: &[(Named, u64)], inferred: &[Named]) -> Profile {
        Profile {
            devices: vec![DeviceProfile {
                at_peak: held.iter().map(|&(c, bytes)| (c, Bytes(bytes))).collect(),
                inferred: inferred.iter().copied().collect(),
                ..DeviceProfile::default()
            }],
            ..Profile::default()
        }
    }

    #[test]
    fn what_a_recording_says_is_inferred_in_no_run() {
        let held = [(WEIGHTS, 100), (BATCH, 5)];
        let [noted, found] = [peak(&held, &[]), peak(&held, &[WEIGHTS, BATCH])];
        let check = |runs: [&Profile; 2], told: &[Named], expected: InferredIn| {
            let compared = Watch::undisturbed(|watch| compare(runs[0], runs[1], watch));
            assert_eq!(compared[0].inferred_in(told), expected, "{told:?}");
        };
        check([&noted, &noted], &[WEIGHTS], InferredIn::Neither);
        check([&found, &noted], &[WEIGHTS], InferredIn::Baseline);
        check([&noted, &found], &[WEIGHTS, BATCH], InferredIn::NewRun);
        check([&found, &found], &[BATCH], InferredIn::Both);
        check([&found, &found], &[], InferredIn::Neither);
        // That one has none of them is inferred as well; that it is old is seen.
        let other = peak(&[(BATCH, 5), (OLD, 5)], &[BATCH]);
        check([&other, &found], &[WEIGHTS], InferredIn::Both);
        check([&other, &noted], &[OLD], InferredIn::Neither);
    }

    /// A recorder wrote down what one block is for.
    #[test]
    fn a_profile_knows_what_its_recorder_noted() {
        let inferred = |others: &[u64]| {
            let mut builder = TraceBuilder::default();
            builder.preexisting(block_of(Bytes::mib(1)));
            let noted = builder.stacks.strings.push("PARAMETER");
            builder.alloc(BlockKind {
                metadata: Some(noted),
                ..block_of(Bytes::mib(4))
            });
            for mib in others {
                builder.alloc(block_of(Bytes::mib(*mib)));
            }
            let device = Profile::of(&builder.finish()).devices.remove(0);
            let held: Vec<Named> = device.at_peak.iter().map(|(held, _)| *held).collect();
            assert!(held.contains(&WEIGHTS) && held.contains(&OLD), "{held:?}");
            device.inferred
        };
        assert_eq!(inferred(&[]), BTreeSet::new());
        let unknown = Named::Ours(Category::Unknown);
        assert_eq!(inferred(&[2]), BTreeSet::from([unknown]));
    }

    #[test]
    fn a_mark_says_which_run_it_is() {
        let all = [
            (InferredIn::Neither, ""),
            (InferredIn::Baseline, " (inferred in the baseline)"),
            (InferredIn::NewRun, " (inferred in the new run)"),
            (InferredIn::Both, " (inferred)"),
        ];
        for (which, expected) in all {
            assert_eq!(which.mark(), expected);
        }
    }
}
