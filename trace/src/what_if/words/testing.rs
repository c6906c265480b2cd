//! What tests of several sentences need.

use crate::units::{Bytes, EventIdx};
use crate::what_if::{Failed, Spread};

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

/// A request that fails at this event.
pub(super) fn failing_at(event: u32) -> Failed {
    Failed {
        event: EventIdx(event),
        step: 0,
        segment: Some(Bytes::mib(1)),
        allocated: Bytes::mib(1),
        reserved: Bytes::mib(1),
        retries: 1,
        at_once: false,
        may_be_less: false,
    }
}
