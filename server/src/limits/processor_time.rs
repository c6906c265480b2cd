//! Processor time that a piece of work may use. Unlike wall time, it does not grow when the machine
//! is busy with other work.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use trace::watch::Watch;

/// How much processor time the calling thread has used since a moment.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorTime {
    began: Duration,
}

impl ProcessorTime {
    /// Starts now. Must be read on the same thread.
    pub fn from_now() -> ProcessorTime {
        ProcessorTime {
            began: of_this_thread(),
        }
    }

    /// What was used so far.
    pub fn used(self) -> Duration {
        of_this_thread().saturating_sub(self.began)
    }
}

/// Runs work whose watch stops it after `limit` of processor time.
pub fn within<T>(limit: Duration, work: impl FnOnce(Watch<'_>) -> T) -> T {
    let time = ProcessorTime::from_now();
    work(Watch::new(&|_| time.used() <= limit))
}

fn of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn only_what_the_thread_itself_works_counts() {
        let time = ProcessorTime::from_now();
        // Another thread works for a moment, while this one waits for it.
        let other = thread::spawn(|| {
            let its = ProcessorTime::from_now();
            while its.used() < Duration::from_millis(200) {}
        });
        other.join().unwrap();
        assert!(
            time.used() < Duration::from_millis(150),
            "{:?}",
            time.used()
        );
    }
}
