//! How exactly the limit is known.

use api::explain::OutOfMemory;
use trace::units::Bytes;

/// An estimate that is no further from a limit than one part in so many does not tell whether there
/// is room.
pub const ABOUT: u64 = 20;

/// Whether it is known to the byte what the process could reserve.
pub(super) fn is_known(oom: &OutOfMemory) -> bool {
    match (oom.limit_at_least, oom.limit_below) {
        (Some(least), Some(below)) => below.saturating_sub(least) <= Bytes(1),
        _ => false,
    }
}
