//! Uploads: a queue of files, one at a time, with the server's own progress.
//!
//! [`queue`] holds the state of each file and all its changes (pure); [`driver`] sends the files
//! and updates the queue. [`archive`] finds the files in archives.

mod archive;
pub mod driver;
pub mod queue;
mod transfer;

use trace::ranks::MAX_RANKS;

/// The largest number of files taken from a folder or an archive; one with more was probably chosen
/// by mistake.
pub const MOST: usize = 2 * MAX_RANKS as usize;
