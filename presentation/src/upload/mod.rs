//! Files on their way to the server: one of them, the queue, and what is in archives.

pub mod archive;
pub mod item;
pub mod queue;

use trace::ranks::MAX_RANKS;

/// The largest number of files taken from a folder or an archive; one with more was probably chosen
/// by mistake.
pub const MOST: usize = 2 * MAX_RANKS as usize;
