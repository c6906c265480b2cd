//! Counts the results of uploads since the start.

use super::error::IngestError;
use super::upload::Arrived;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts.
#[derive(Debug, Default)]
pub struct Tally {
    /// Uploads whose bytes began to come.
    pub begun: AtomicU64,
    /// Uploads that were asked to come later, or that found no space.
    pub refused: AtomicU64,
    /// Uploads that became runs.
    pub new: AtomicU64,
    /// Uploads of bytes that were stored already.
    pub known: AtomicU64,
    /// Uploads that were cancelled.
    pub cancelled: AtomicU64,
    /// Uploads that failed: damaged, too large, interrupted …
    pub failed: AtomicU64,
    /// Bytes that arrived, in the form in which they were sent.
    pub bytes: AtomicU64,
    /// Events of the recordings that were read to their end.
    pub events: AtomicU64,
}

impl Tally {
    /// Adds one.
    pub(super) fn count(of: &AtomicU64) {
        of.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an upload that has ended, after so many events were read.
    pub(super) fn ended(&self, events: u64, outcome: &Result<Arrived, IngestError>) {
        Tally::count(match outcome {
            Ok(Arrived { known: false, .. }) => &self.new,
            Ok(Arrived { known: true, .. }) => &self.known,
            Err(IngestError::Cancelled) => &self.cancelled,
            Err(_) => &self.failed,
        });
        self.events.fetch_add(events, Ordering::Relaxed);
    }
}
