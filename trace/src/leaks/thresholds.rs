//! How much must be seen to call something a leak. The reasons are in the documentation of the
//! parent module, *Thresholds*.

use crate::units::Bytes;

/// How many growths make a leak.
pub const MIN_GROWTHS: usize = 3;
/// How many growths make a leak if they begin late.
pub const MIN_LATE_GROWTHS: usize = 6;
/// Longest distance between growths, in mean distances.
pub const MAX_GAP_SPREAD: f64 = 4.0;
/// All sites together must add at least this much whenever they grow.
pub const MIN_BYTES: Bytes = Bytes::kib(2);
/// The largest number of blocks listed as evidence of a group, the oldest first.
pub const MAX_EVIDENCE: usize = 256;
