//! How much two runs of one program differ.
//!
//! # Where the numbers come from
//!
//! From null pairs: recordings of one program with and without stacks, with C++ frames, with
//! another allocator setting; two ranks of a job; the steps of a run against each other; the halves
//! of a run of 750 steps. `tests/it/compare.rs` repeats the pairs whose files are in the
//! repository. The results:
//!
//! * *Requested* depends only on the program and its order. It is equal to the byte in every null
//!   pair, step by step. So are the work of a step and what is live at its end.
//! * *Allocated* is equal to the byte under the same settings. With other settings (expandable
//!   segments against none) it differs by 0.93 % of the peak, 22 MiB of 2.3 GiB, in two sites. The
//!   reason: a remainder of up to 1 MiB that is too small to split off belongs to its block, and
//!   where that happens depends on addresses. So up to 1 % and 1 MiB of a level, and 2 % of a site,
//!   are not a difference.
//! * *Reserved* differs by 8.6 % between identical runs elsewhere (sglang #38172), by 0.6 % here
//!   where a patch does not touch it, and by 42 % with another setting. It is shown and may cause a
//!   warning, but is never judged.
//! * The peaks of a run's own steps differ by 25 % where sequences vary in length, and not at all
//!   where they do not. So the differences between the steps of each run, apart from their trend,
//!   are added to the tolerance of a comparison. A gate instead compares steps of equal work.

use crate::units::Bytes;

/// Levels (peaks, ends) within this share of each other are the same.
pub const LEVEL_SHARE: f64 = 0.01;
/// Levels within this much of each other are the same: one remainder that was not split off.
pub const LEVEL_FLOOR: Bytes = Bytes::mib(1);
/// What a site holds is the same within this share.
pub const SITE_SHARE: f64 = 0.02;
/// What a site holds is the same within this much: smaller ones come and go with driver and cache.
pub const SITE_FLOOR: Bytes = Bytes::kib(64);
/// Rates of leaks are the same within this share.
pub const RATE_SHARE: f64 = 0.02;
/// Reserved may differ by this share before it is worth a warning.
pub const RESERVED_SHARE: f64 = 0.10;
/// Work (bytes requested in a step) is the same within this share.
pub const WORK_SHARE: f64 = 0.02;
/// Steps of equal work that need more by this share need more: as much as a gate allows.
pub const EXCESS: f64 = 0.02;
/// The steps of a program do different work when it varies by more than this share of its mean.
pub const VARYING_WORK: f64 = 0.01;

/// The tolerance of a level.
pub fn level(base: Bytes, new: Bytes, wobble: Bytes) -> Bytes {
    let share = base.0.max(new.0) as f64 * LEVEL_SHARE;
    Bytes(share as u64).max(LEVEL_FLOOR).max(wobble)
}

/// The tolerance of what a site holds.
pub fn site(base: Bytes, new: Bytes, wobble: Bytes) -> Bytes {
    let share = base.0.max(new.0) as f64 * SITE_SHARE;
    Bytes(share as u64).max(SITE_FLOOR).max(wobble)
}

/// Mean and standard deviation.
pub(super) fn spread(values: &[u64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().map(|&v| v as f64).sum::<f64>() / n;
    let squares: f64 = values.iter().map(|&v| (v as f64 - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0).max(1.0)).sqrt())
}

/// `new - base`, in bytes.
pub(super) fn delta(base: Bytes, new: Bytes) -> i64 {
    new.0 as i64 - base.0 as i64
}
