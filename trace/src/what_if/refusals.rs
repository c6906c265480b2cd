//! Which limit refused a failed allocation, also where somebody tells it.

use super::evidence;
use super::recorded::{Evidence, LimitSeen};
use crate::allocator::Config;
use crate::allocator::caching::Refuser;
use crate::oom::Failure;
use crate::trace::{DeviceTrace, Series};
use crate::units::Bytes;
use crate::units::size::exact;
use crate::watch::{Stopped, Watch};

/// Why a limit that somebody tells was not in force when a device was recorded.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NotTheLimit {
    /// More was granted.
    #[error(
        "the recorded process was not held to {}: it was granted {}",
        exact(.told.0 as f64), exact(.granted.0 as f64)
    )]
    TooSmall {
        /// The limit that was told.
        told: Bytes,
        /// What it could reserve.
        granted: Bytes,
    },
    /// What was refused would have been granted.
    #[error(
        "under a limit of {} nothing would have been refused; the recording's own was less than {}",
        exact(.told.0 as f64), exact(.below.0 as f64)
    )]
    TooLarge {
        /// The limit that was told.
        told: Bytes,
        /// What would have been enough.
        below: Bytes,
    },
    /// It was no limit of the process that refused.
    #[error(
        "no limit of {} refused the request that failed: the device was full when the process \
         could reserve {}",
        exact(.told.0 as f64), exact(.had.0 as f64)
    )]
    DeviceWasFull {
        /// The limit that was told.
        told: Bytes,
        /// What the process could reserve.
        had: Bytes,
    },
}

/// Whether a device may have been recorded under a limit that somebody tells.
///
/// # Errors
/// [`Stopped`].
pub fn contradiction(
    device: &DeviceTrace,
    own: &Config,
    told: Bytes,
    watch: Watch<'_>,
) -> Result<Option<NotTheLimit>, Stopped> {
    Ok(match evidence(device, own, watch)?.limit {
        Some(seen) => seen.told(told).err(),
        None => {
            let granted = device.summary[Series::Reserved as usize].peak;
            (told < granted).then_some(NotTheLimit::TooSmall { told, granted })
        }
    })
}

impl LimitSeen {
    /// The limit as it was told, if that fits; else what the recording shows.
    pub fn or_told(self, told: Option<Bytes>) -> LimitSeen {
        let told = told.and_then(|told| self.told(told).ok());
        told.unwrap_or(self)
    }

    /// The limit to the byte, as somebody tells it.
    ///
    /// # Errors
    /// [`NotTheLimit`], if the recording shows another one.
    pub fn told(self, told: Bytes) -> Result<LimitSeen, NotTheLimit> {
        let had = self.at_least;
        if (self.at_least..self.below).contains(&told) {
            return Ok(LimitSeen {
                at_least: told,
                below: Bytes(told.0 + 1),
                by: self.by,
            });
        }
        Err(match self.by {
            Refuser::Device => NotTheLimit::DeviceWasFull { told, had },
            Refuser::Process if told < had => NotTheLimit::TooSmall { told, granted: had },
            Refuser::Process => NotTheLimit::TooLarge {
                told,
                below: self.below,
            },
        })
    }

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
        let by_process = |failure: &Failure| failure.limit_under(own).is_some();
        let seen = match failures.iter().any(by_process) {
            true => Evidence::of(device, own, watch)?.limit,
            false => None,
        };
        let limits = failures
            .iter()
            .map(|failure| LimitSeen::of_refusal(seen, own, failure));
        Ok(limits.collect())
    }

    /// The limit of the process that refused a request, if one did and not the device; `seen` is
    /// the limit that the whole recording shows.
    pub fn of_refusal(
        seen: Option<LimitSeen>,
        own: &Config,
        failure: &Failure,
    ) -> Option<LimitSeen> {
        let below = failure.limit_under(own)?;
        let may_be = seen.filter(|seen| seen.may_refuse(failure, below));
        // Otherwise the limit was another one then. It may even have been set below what was
        // reserved.
        Some(may_be.unwrap_or(LimitSeen {
            at_least: Bytes::ZERO,
            below,
            by: Refuser::Process,
        }))
    }

    /// Whether it may have refused a request that so large a limit would not have refused.
    fn may_refuse(self, failure: &Failure, enough: Bytes) -> bool {
        self.by == Refuser::Process && self.at_least < enough && failure.reserved < self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_told_must_fit_what_was_recorded() {
        let check = |by: Refuser, mib: u64, expected: Result<(), &str>| {
            let seen = LimitSeen {
                at_least: Bytes::mib(1000),
                below: Bytes::mib(1064),
                by,
            };
            let told = seen.told(Bytes::mib(mib));
            match (told, expected) {
                (Ok(seen), Ok(())) => {
                    assert_eq!(
                        (seen.at_least, seen.taken()),
                        (Bytes::mib(mib), Bytes::mib(mib))
                    );
                }
                (told, expected) => {
                    let why = told.map(|_| ()).map_err(|why| why.to_string());
                    assert_eq!(why.as_ref().map_err(String::as_str).copied(), expected);
                }
            }
        };
        check(Refuser::Process, 1000, Ok(()));
        check(Refuser::Process, 1063, Ok(()));
        check(
            Refuser::Process,
            900,
            Err("the recorded process was not held to 900.000 MiB: it was granted 1000.000 MiB"),
        );
        check(
            Refuser::Process,
            2048,
            Err(
                "under a limit of 2.000 GiB nothing would have been refused; the recording's own \
                 was less than 1.039 GiB",
            ),
        );
        check(
            Refuser::Device,
            2048,
            Err(
                "no limit of 2.000 GiB refused the request that failed: the device was full when \
                 the process could reserve 1000.000 MiB",
            ),
        );
    }
}
