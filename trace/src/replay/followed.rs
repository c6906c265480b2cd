//! A device, followed along its recorded addresses, as often as that explains more of them.

use super::gone::Gone;
use super::initial::Initial;
use super::simulate::Simulated;
use crate::trace::Fidelity;
use crate::watch::{Stopped, Watch};

/// How often a device is followed again with what was learnt about pools.
const ROUNDS: usize = 4;

/// A device, followed under some rules.
pub struct Followed {
    /// Segments and blocks before the first event.
    pub initial: Initial,
    /// The sizes of the blocks.
    pub simulated: Simulated,
    /// What was added to each request.
    pub padding: u64,
    /// Segments of pools that were given up.
    pub gone: Gone,
    /// Heap bytes of the first two.
    pub held: usize,
}

impl Followed {
    /// Whether every allocation lies where the rules put it.
    pub fn is_explained(&self) -> bool {
        let Fidelity { allocs, predicted } = self.simulated.fidelity;
        predicted == allocs
    }

    /// Follows the device again, with what it passed over in pools that were given up, as long as
    /// that explains more addresses.
    pub fn with_pools_told_apart(
        self,
        watch: Watch<'_>,
        again: impl Fn(&Gone, Watch<'_>) -> Result<Followed, Stopped>,
    ) -> Result<Followed, Stopped> {
        let mut best = self;
        for _ in 0..ROUNDS {
            if best.simulated.passed.is_empty() {
                break;
            }
            let gone = best.gone.with(&best.simulated.passed);
            let before = best.simulated.fidelity.predicted;
            best = best.or_better(watch, |_, watch| again(&gone, watch))?;
            if best.simulated.fidelity.predicted == before {
                break;
            }
        }
        Ok(best)
    }

    /// The device followed in another way, with the same pools given up, if that explains more
    /// addresses.
    pub fn or_better(
        self,
        watch: Watch<'_>,
        again: impl Fn(&Gone, Watch<'_>) -> Result<Followed, Stopped>,
    ) -> Result<Followed, Stopped> {
        let other = again(&self.gone, watch.beside(self.held))?;
        let predicted = |of: &Followed| of.simulated.fidelity.predicted;
        Ok(match predicted(&other) > predicted(&self) {
            true => other,
            false => self,
        })
    }
}
