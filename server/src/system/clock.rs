//! The server's clocks: the current time, and a time that never goes back.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that is further behind than this was wrong before, and not set back a little: a day.
pub const FAR_MS: i64 = 24 * 3600 * 1000;

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| {
        i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
    })
}

/// A clock that never goes back, even if the wall clock is set back. While the wall clock is behind
/// the last known time, this clock goes on from there.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    latest_ms: i64,
    at: Instant,
    kept_ms: i64,
}

impl Steady {
    /// A clock that has seen this time before.
    pub fn new(seen_ms: i64) -> Steady {
        Steady {
            latest_ms: seen_ms,
            at: Instant::now(),
            kept_ms: seen_ms,
        }
    }

    /// The time, when the wall clock shows `wall_ms`.
    pub fn latest_ms(&mut self, wall_ms: i64) -> i64 {
        // Only whole milliseconds are counted; the rest counts the next time.
        let passed = Duration::from_millis(self.at.elapsed().as_millis() as u64);
        self.at += passed;
        let passed_ms = i64::try_from(passed.as_millis()).unwrap_or(i64::MAX);
        self.latest_ms = self.latest_ms.saturating_add(passed_ms).max(wall_ms);
        self.latest_ms
    }

    /// The latest time that is stored, so that it survives a restart.
    pub fn kept_ms(&self) -> i64 {
        self.kept_ms
    }

    /// Notes that this time is stored.
    pub fn keep(&mut self, ms: i64) {
        self.kept_ms = self.kept_ms.max(ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let mut clock = Steady::new(1_000_000);
        let walls = [2_000_000, 5_000, 1_999_999, -7, 2_000_001, i64::MAX - 1, 3];
        let mut before = 1_000_000;
        for wall in walls {
            let now = clock.latest_ms(wall);
            assert!(now >= before && now >= wall, "{wall}: {now} after {before}");
            before = now;
        }
    }

    #[test]
    fn a_clock_that_is_behind_goes_on_from_what_was_seen() {
        let mut clock = Steady::new(2_000_000);
        let first = clock.latest_ms(0);
        while clock.latest_ms(0) == first {
            std::thread::yield_now();
        }
        assert!(clock.latest_ms(0) > first);
    }
}
