//! The progress of an upload: its threads raise counters, which are read a few times a second.

use api::progress::{Phase, UploadProgress};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The rate is that of the last second.
const RATE_WINDOW: Duration = Duration::from_secs(1);

const PHASES: [Phase; 4] = [
    Phase::Waiting,
    Phase::Receiving,
    Phase::Replaying,
    Phase::Storing,
];

/// Counters of one upload.
pub struct Progress {
    total: Option<u64>,
    phase: AtomicU8,
    received: AtomicU64,
    /// Events read so far.
    pub events: AtomicU64,
    samples: Mutex<VecDeque<(Instant, u64)>>,
}

impl Progress {
    /// An upload that has not started, of `total` bytes when that is known.
    pub fn new(total: Option<u64>) -> Progress {
        Progress {
            total,
            phase: AtomicU8::new(0),
            received: AtomicU64::new(0),
            events: AtomicU64::new(0),
            samples: Mutex::default(),
        }
    }

    /// Bytes announced.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Bytes received so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Adds received bytes; returns their total.
    pub fn receive(&self, bytes: usize) -> u64 {
        let more = bytes as u64;
        self.received.fetch_add(more, Ordering::Relaxed) + more
    }

    /// Begins another phase.
    pub fn enter(&self, phase: Phase) {
        let position = PHASES.iter().position(|&p| p == phase);
        self.phase
            .store(position.unwrap_or_default() as u8, Ordering::Relaxed);
    }

    /// The progress now.
    pub fn sample(&self, now: Instant) -> UploadProgress {
        let received = self.received();
        UploadProgress::Running {
            phase: PHASES[usize::from(self.phase.load(Ordering::Relaxed))],
            received,
            total: self.total,
            events: self.events.load(Ordering::Relaxed),
            rate: self.rate(now, received),
        }
    }

    fn rate(&self, now: Instant, received: u64) -> u64 {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.push_back((now, received));
        // Keeps one sample that is at least a second old, to measure the rate from.
        while samples
            .get(1)
            .is_some_and(|&(at, _)| now.duration_since(at) >= RATE_WINDOW)
        {
            samples.pop_front();
        }
        let &(since, before) = samples.front().expect("one was just added");
        let elapsed = now.duration_since(since).as_secs_f64();
        match elapsed > 0.0 {
            true => ((received - before) as f64 / elapsed) as u64,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_second() {
        let progress = Progress::new(Some(10_000));
        let start = Instant::now();
        let rate = |at_ms: u64| match progress.sample(start + Duration::from_millis(at_ms)) {
            UploadProgress::Running { rate, .. } => rate,
            other => panic!("{other:?}"),
        };
        assert_eq!(rate(0), 0);
        progress.receive(500);
        assert_eq!(rate(500), 1000);
        progress.receive(500);
        assert_eq!(rate(1000), 1000);
        assert_eq!(rate(2000), 0);
        progress.receive(3000);
        assert_eq!(rate(3000), 3000);
    }
}
