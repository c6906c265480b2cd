//! Which limit refused a failed allocation.

use super::recorded::{Evidence, LimitSeen};
use crate::allocator::Config;
use crate::allocator::caching::Refuser;
use crate::oom::Failure;
use crate::trace::DeviceTrace;
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};

impl LimitSeen {
    /// For each failure, the limit of the process that refused it, if one did and not the device.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn of_refusals(
        device: &DeviceTrace,
        own: &Config,
        failures: &[Failure],
        watch: Watch<'_>,
    ) -> Result<Vec<Option<LimitSeen>>, Stopped> {
        let refused: Vec<_> = failures.iter().map(|one| one.limit_under(own)).collect();
        let seen = match refused.iter().any(Option::is_some) {
            true => Evidence::of(device, own, watch)?.limit,
            false => None,
        };
        let limits = refused.into_iter().zip(failures);
        let limits = limits.map(|(below, failure)| {
            let below = below?;
            let may_be = seen.filter(|seen| seen.may_refuse(failure, below));
            // Otherwise the limit was another one then. It may even have been set below what was
            // reserved.
            Some(may_be.unwrap_or(LimitSeen {
                at_least: Bytes::ZERO,
                below,
                by: Refuser::Process,
            }))
        });
        Ok(limits.collect())
    }

    /// Whether it may have refused a request that so large a limit would not have refused.
    fn may_refuse(self, failure: &Failure, enough: Bytes) -> bool {
        self.by == Refuser::Process && self.at_least < enough && failure.reserved < self.below
    }
}
