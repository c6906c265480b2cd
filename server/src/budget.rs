//! The memory that the process may take, and who has which part of it.
//!
//! One number (`--memory`) for everything that grows with what people send and ask: reading and
//! replaying uploads, decoded traces and the work on them. Whoever needs memory takes a
//! [`Permit`] first and holds it as long as the memory. Who finds too little first makes the cache
//! of decoded traces give back what nobody uses, then waits, and at last is refused with a sentence
//! that says the number and the remedy. What does not grow (code, sockets, SQLite's caches) has
//! [`Budget::BESIDE`] beside the budget.
//!
//! Nobody waits for ever: two that each hold what the other waits for are told apart by time.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use trace::units::Bytes;

/// What the semaphore counts in.
const UNIT: u64 = 64 << 10;

/// How long somebody waits for memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// When to ask again for memory that others have.
const RETRY: Duration = Duration::from_secs(60);

/// There is not enough memory for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMemory {
    /// It alone takes more than it may ever have.
    #[error(
        "this takes more than {limit} of memory, all that it may have of the server's {total}; \
         start the server with a larger --memory, or record fewer events"
    )]
    TooMuch {
        /// What it may have at most.
        limit: Bytes,
        /// The whole budget.
        total: Bytes,
    },
    /// Others have it.
    #[error(
        "all of the server's memory ({total}, --memory) is in use by other work; try again in a \
         minute"
    )]
    Busy {
        /// The whole budget.
        total: Bytes,
    },
}

impl NoMemory {
    /// When to ask again, if that may help.
    pub fn retry(&self) -> Option<Duration> {
        match self {
            NoMemory::TooMuch { .. } => None,
            NoMemory::Busy { .. } => Some(RETRY),
        }
    }
}

/// Somebody who holds memory that nobody uses at the moment.
pub trait Spare: Send + Sync {
    /// Gives back about this many bytes, if it can.
    fn give_back(&self, bytes: Bytes);
}

/// The budget. Cloning shares it.
#[derive(Clone)]
pub struct Budget {
    inner: Arc<Inner>,
}

struct Inner {
    total: Bytes,
    patience: Duration,
    free: Arc<Semaphore>,
    spare: Mutex<Vec<Weak<dyn Spare>>>,
}

/// Memory that may be used; given back when it is dropped.
pub struct Permit {
    budget: Budget,
    held: OwnedSemaphorePermit,
}

impl Budget {
    /// What the process may take beside the budget: code, threads, sockets, SQLite's caches.
    pub const BESIDE: Bytes = Bytes::mib(100);

    /// A budget of so many bytes.
    pub fn new(total: Bytes) -> Budget {
        Budget::with_patience(total, PATIENCE)
    }

    fn with_patience(total: Bytes, patience: Duration) -> Budget {
        let units = usize::try_from(total.get() / UNIT).unwrap_or(usize::MAX);
        let inner = Inner {
            total,
            patience,
            free: Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS))),
            spare: Mutex::default(),
        };
        Budget {
            inner: Arc::new(inner),
        }
    }

    /// All of it.
    pub fn total(&self) -> Bytes {
        self.inner.total
    }

    /// What is taken of it.
    pub fn in_use(&self) -> Bytes {
        let free = self.inner.free.available_permits() as u64 * UNIT;
        Bytes(self.inner.total.get().saturating_sub(free))
    }

    /// Names somebody who is asked to give memory back when there is too little.
    pub fn ask_first(&self, spare: Weak<dyn Spare>) {
        self.spares().push(spare);
    }

    /// Takes memory, if need be after others gave it back.
    ///
    /// # Errors
    /// [`NoMemory`], when it is more than there can be, or does not come free in time.
    pub async fn take(&self, bytes: Bytes) -> Result<Permit, NoMemory> {
        let units = self.units(bytes)?;
        if let Some(permit) = self.take_now(units) {
            return Ok(permit);
        }
        self.make_room(bytes);
        let free = Arc::clone(&self.inner.free);
        match tokio::time::timeout(self.inner.patience, free.acquire_many_owned(units)).await {
            Ok(Ok(held)) => Ok(self.permit(held)),
            _ => Err(self.busy()),
        }
    }

    /// No memory at all, to grow from.
    pub fn nothing(&self) -> Permit {
        let held = Arc::clone(&self.inner.free).try_acquire_many_owned(0);
        self.permit(held.expect("nothing is always there"))
    }

    fn take_now(&self, units: u32) -> Option<Permit> {
        let held = Arc::clone(&self.inner.free).try_acquire_many_owned(units);
        held.ok().map(|held| self.permit(held))
    }

    fn permit(&self, held: OwnedSemaphorePermit) -> Permit {
        Permit {
            budget: self.clone(),
            held,
        }
    }

    fn units(&self, bytes: Bytes) -> Result<u32, NoMemory> {
        let total = self.inner.total;
        let units = u32::try_from(bytes.get().div_ceil(UNIT)).ok();
        units.filter(|_| bytes <= total).ok_or(NoMemory::TooMuch {
            limit: total,
            total,
        })
    }

    fn busy(&self) -> NoMemory {
        NoMemory::Busy {
            total: self.inner.total,
        }
    }

    fn make_room(&self, bytes: Bytes) {
        let spares: Vec<_> = self.spares().iter().filter_map(Weak::upgrade).collect();
        spares.iter().for_each(|spare| spare.give_back(bytes));
    }

    fn spares(&self) -> std::sync::MutexGuard<'_, Vec<Weak<dyn Spare>>> {
        self.inner
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Bytes that may be used.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.held.num_permits() as u64 * UNIT)
    }

    /// Makes it larger or smaller.
    ///
    /// # Errors
    /// As [`Budget::take`]; it keeps what it had.
    pub async fn resize(&mut self, bytes: Bytes) -> Result<(), NoMemory> {
        let wanted = self.budget.units(bytes)? as usize;
        let held = self.held.num_permits();
        if wanted > held {
            let more = Bytes((wanted - held) as u64 * UNIT);
            self.held.merge(self.budget.take(more).await?.held);
        } else {
            self.shrink(bytes);
        }
        Ok(())
    }

    /// Gives back what is beyond so many bytes.
    pub fn shrink(&mut self, bytes: Bytes) {
        let wanted = usize::try_from(bytes.get().div_ceil(UNIT)).unwrap_or(usize::MAX);
        let more = self.held.num_permits().saturating_sub(wanted);
        drop(self.held.split(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds a permit until it is asked for it.
    struct Cache(Mutex<Option<Permit>>);

    impl Spare for Cache {
        fn give_back(&self, _: Bytes) {
            self.0.lock().unwrap().take();
        }
    }

    #[tokio::test]
    async fn what_does_not_fit_waits_and_is_refused_at_last() {
        let budget = Budget::with_patience(Bytes::mib(10), Duration::from_millis(20));
        let mut first = budget.take(Bytes::mib(6)).await.unwrap();
        let total = Bytes::mib(10);
        let more = budget.take(Bytes::mib(11)).await.err();
        assert_eq!(
            more,
            Some(NoMemory::TooMuch {
                limit: total,
                total
            })
        );
        let late = budget.take(Bytes::mib(5)).await.err();
        assert_eq!(late, Some(NoMemory::Busy { total }));
        let (waited, shrunk) =
            tokio::join!(budget.take(Bytes::mib(5)), first.resize(Bytes::mib(5)));
        assert_eq!(waited.map(|permit| permit.bytes()), Ok(Bytes::mib(5)));
        assert_eq!(shrunk, Ok(()));
        first.resize(Bytes::mib(10)).await.unwrap();
        assert_eq!(first.bytes(), total);
    }

    #[tokio::test]
    async fn what_nobody_uses_goes_first() {
        let budget = Budget::new(Bytes::mib(10));
        let kept = budget.take(Bytes::mib(8)).await.unwrap();
        let cache = Arc::new(Cache(Mutex::new(Some(kept))));
        let spare: Arc<dyn Spare> = Arc::clone(&cache) as Arc<dyn Spare>;
        budget.ask_first(Arc::downgrade(&spare));
        let mut growing = budget.nothing();
        growing.resize(Bytes::mib(9)).await.unwrap();
        assert!(cache.0.lock().unwrap().is_none());
    }
}
