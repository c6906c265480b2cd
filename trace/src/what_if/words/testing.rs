//! What tests of several sentences need.

use crate::units::Bytes;
use crate::what_if::Spread;

/// Of eight replays, with peaks of *reserved* in MiB.
pub(super) fn spread_of(failed: u32, peaks: [u64; 2], retries: [u64; 2]) -> Spread {
    Spread {
        orders: 8,
        failed,
        failed_at: None,
        peak_allocated: [Bytes::mib(1); 2],
        peak_reserved: peaks.map(Bytes::mib),
        retries,
    }
}
