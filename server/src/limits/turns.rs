//! Turns: a limit on how many may do something at the same time, and how many wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A turn, held until it is dropped.
pub type Turn = OwnedSemaphorePermit;

/// The state of a limit at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Number of turns.
    pub turns: usize,
    /// Turns in use.
    pub taken: usize,
    /// How many wait for a turn.
    pub waiting: usize,
}

/// A limit. Clones share it.
#[derive(Clone)]
pub struct Turns {
    all: usize,
    free: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

impl Turns {
    /// A limit of `all` turns at the same time.
    pub fn new(all: usize) -> Turns {
        Turns {
            all,
            free: Arc::new(Semaphore::new(all)),
            waiting: Arc::default(),
        }
    }

    /// A turn, if one is free now.
    pub fn take_now(&self) -> Option<Turn> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// A turn, after everybody who asked before has had one.
    pub async fn take(&self) -> Turn {
        let _waiting = Waiting::among(&self.waiting);
        let turn = Arc::clone(&self.free).acquire_owned().await;
        turn.expect("turns are never closed")
    }

    /// The state now.
    pub fn queue(&self) -> Queue {
        Queue {
            turns: self.all,
            taken: self.all.saturating_sub(self.free.available_permits()),
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }
}

/// Counts a waiting caller until it is dropped, so that a caller who gives up is not counted any
/// more.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn among(count: &AtomicUsize) -> Waiting<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn who_waits_is_counted_until_it_has_a_turn_or_gives_up() {
        let turns = Turns::new(1);
        let stands = |taken, waiting| {
            let queue = Queue {
                turns: 1,
                taken,
                waiting,
            };
            assert_eq!(turns.queue(), queue);
        };
        let first = turns.take().await;
        stands(1, 0);
        let (mut second, mut third) = (Box::pin(turns.take()), Box::pin(turns.take()));
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        stands(1, 2);
        drop(third);
        stands(1, 1);
        assert!(turns.take_now().is_none());
        drop(first);
        let second = second.await;
        stands(1, 0);
        drop(second);
        stands(0, 0);
    }
}
