//! How slow a client may be: the least bytes for the time that the server waited for it.
//!
//! Only waiting counts: the time that the server itself takes does not. A client that sends a byte
//! now and then is as slow as one that sends nothing.

use std::time::Duration;
use trace::units::Bytes;

/// The pace that a client must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bytes a second, on average.
    pub rate: Bytes,
    /// Measured over this much waiting.
    pub over: Duration,
}

/// It was too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("slower than {} a second over {} s", .0.rate, .0.over.as_secs_f64())]
pub struct TooSlow(pub Pace);

/// One client, watched.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    pace: Pace,
    waited: Duration,
    moved: u64,
}

impl Pace {
    /// Begins to watch a client.
    pub fn watch(self) -> Watch {
        Watch {
            pace: self,
            waited: Duration::ZERO,
            moved: 0,
        }
    }

    fn bytes(self) -> u64 {
        let wanted = self.rate.get() as f64 * self.over.as_secs_f64();
        wanted as u64
    }
}

impl Watch {
    /// How much longer to wait for it before it is judged.
    pub fn left(&self) -> Duration {
        self.pace.over.saturating_sub(self.waited)
    }

    /// Notes that the client moved this many bytes.
    pub fn moved(&mut self, bytes: usize) {
        self.moved = self.moved.saturating_add(bytes as u64);
    }

    /// Notes that the server waited this long for it.
    ///
    /// # Errors
    /// When it moved too little in this time.
    pub fn waited(&mut self, time: Duration) -> Result<(), TooSlow> {
        self.waited = self.waited.saturating_add(time);
        if self.waited < self.pace.over {
            return Ok(());
        }
        let enough = self.moved >= self.pace.bytes();
        *self = self.pace.watch();
        enough.then_some(()).ok_or(TooSlow(self.pace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        rate: Bytes(100),
        over: Duration::from_secs(10),
    };

    #[test]
    fn a_byte_now_and_then_is_as_slow_as_none() {
        let check = |every_ms: u64, bytes: usize, ok: bool| {
            let mut watch = PACE.watch();
            let mut fate = Ok(());
            for _ in 0..40_000 / every_ms {
                fate = fate.and(watch.waited(Duration::from_millis(every_ms)));
                watch.moved(bytes);
            }
            assert_eq!(fate.is_ok(), ok, "{bytes} bytes every {every_ms} ms");
        };
        check(5_000, 0, false);
        check(5_000, 10, false);
        check(100, 9, false);
        check(100, 11, true);
        check(5_000, 2_000, true);
    }

    #[test]
    fn an_early_burst_does_not_excuse_silence_for_ever() {
        let mut watch = PACE.watch();
        watch.moved(1 << 30);
        assert_eq!(watch.waited(Duration::from_secs(10)), Ok(()));
        assert_eq!(watch.left(), PACE.over);
        assert_eq!(watch.waited(Duration::from_secs(10)), Err(TooSlow(PACE)));
    }

    #[test]
    fn time_that_the_server_takes_is_not_the_clients() {
        let mut watch = PACE.watch();
        watch.moved(1);
        assert_eq!(watch.waited(Duration::from_secs(4)), Ok(()));
        assert_eq!(watch.left(), Duration::from_secs(6));
    }
}
