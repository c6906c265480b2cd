//! Blocks, counted and summed.

use crate::units::Bytes;

/// How many blocks, and their sizes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Blocks.
    pub count: u64,
    /// Σ block sizes.
    pub bytes: Bytes,
}

impl Tally {
    /// Counts one more block.
    pub fn add(&mut self, size: Bytes) {
        self.count += 1;
        self.bytes += size;
    }

    /// Counts others too.
    pub fn join(&mut self, other: Tally) {
        self.count += other.count;
        self.bytes += other.bytes;
    }
}
