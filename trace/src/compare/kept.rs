//! What is kept between steps: how much more or less each step leaves behind than the baseline's.
//!
//! A peak does not tell it: a run that keeps its gradients needs more between steps, and perhaps no
//! more at its peak.

use super::profile::{DeviceProfile, StepProfile};
use super::{noise, numbering};
use crate::growth::settled;
use crate::units::Bytes;

/// The level at the ends of steps, where it differs by the same amount at each end. If one run
/// leaks and the other does not, the ends part with each step, and the leak is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kept {
    /// At the end of the last step of both.
    pub base: Bytes,
    /// At the same end.
    pub new: Bytes,
}

/// Fewer ends say nothing: a recording may end within its step.
const LEAST: usize = 2;

impl Kept {
    /// That of two runs, whose first steps lie at these places. `None` where the ends are the same,
    /// or part.
    pub fn between([base, new]: [&DeviceProfile; 2], places: [u32; 2]) -> Option<Kept> {
        let counts = [base, new].map(|run| run.whole_steps as usize);
        let [of_base, of_new] = numbering::common(places, counts);
        let (of_base, of_new) = (base.steps.get(of_base)?, new.steps.get(of_new)?);
        let pairs: Vec<_> = of_base.iter().zip(of_new).collect();
        let pairs = &pairs[settled(pairs.len())..];
        let (last_base, last_new) = *pairs.last().filter(|_| pairs.len() >= LEAST)?;
        let differs = |end: fn(&StepProfile) -> Bytes| {
            let tolerance = noise::level(end(last_base), end(last_new), Bytes::ZERO).0;
            let by = || {
                pairs
                    .iter()
                    .map(|(base, new)| noise::delta(end(base), end(new)))
            };
            let (least, most) = (by().min()?, by().max()?);
            let is_same = least.unsigned_abs().min(most.unsigned_abs()) <= tolerance;
            let parts = least.abs_diff(most) > tolerance;
            (!is_same && !parts).then_some(())
        };
        // What the allocator does not split off is kept by nobody.
        let is_known = last_base.requested_end.min(last_new.requested_end) > Bytes::ZERO;
        differs(|step| step.end)?;
        if is_known {
            differs(|step| step.requested_end)?;
        }
        Some(Kept {
            base: last_base.end,
            new: last_new.end,
        })
    }

    /// How much more is kept, bytes.
    pub fn by(self) -> i64 {
        noise::delta(self.base, self.new)
    }

    /// Whether it is another change than that of the peaks.
    pub fn is_news(self, base: Bytes, new: Bytes) -> bool {
        let peak = noise::delta(base, new);
        peak.abs_diff(self.by()) > noise::level(base, new, Bytes::ZERO).0
    }
}
