//! The memory that the process may use, and which work has which part of it.
//!
//! One number (`--memory`) limits everything that grows with what people send and ask: reading and
//! replaying uploads, decoded traces and the work on them. Work that needs memory first takes a
//! [`Permit`] and holds it as long as the memory. If there is too little, the cache of decoded
//! traces first gives back what nobody uses. Then the work waits. In the end it is refused, with a
//! sentence that names the number and the remedy. Memory that does not grow (code, sockets,
//! SQLite's caches) has [`Budget::BESIDE`], outside of the budget.
//!
//! Nobody waits for ever. If two works each wait for what the other one holds, the time limit ends
//! that.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use trace::units::Bytes;

/// The unit of the semaphore.
const UNIT: u64 = 64 << 10;

/// How long work may wait for memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// When to ask again if other work has the memory.
const RETRY: Duration = Duration::from_secs(60);

/// There is not enough memory for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMemory {
    /// The work alone needs more than it may ever have.
    #[error(
        "this takes more than {limit} of memory, all that it may have of the server's {total}; \
         start the server with a larger --memory, or record fewer events"
    )]
    TooMuch {
        /// The most that it may have.
        limit: Bytes,
        /// The whole budget.
        total: Bytes,
    },
    /// Other work has the memory.
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
    /// When to ask again, if that can help.
    pub fn retry(&self) -> Option<Duration> {
        match self {
            NoMemory::TooMuch { .. } => None,
            NoMemory::Busy { .. } => Some(RETRY),
        }
    }
}

/// Something that holds memory which nobody uses at the moment.
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

/// Memory that may be used; it is given back when this is dropped.
pub struct Permit {
    budget: Budget,
    held: OwnedSemaphorePermit,
}

impl Budget {
    /// Memory that the process may use outside of the budget: code, threads, sockets, SQLite's
    /// caches.
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

    /// The part that is in use.
    pub fn in_use(&self) -> Bytes {
        let free = self.inner.free.available_permits() as u64 * UNIT;
        Bytes(self.inner.total.get().saturating_sub(free))
    }

    /// Registers a holder of spare memory, which is asked to give some back when there is too
    /// little.
    pub fn ask_first(&self, spare: Weak<dyn Spare>) {
        self.spares().push(spare);
    }

    /// Takes memory, if necessary after others have given it back.
    ///
    /// # Errors
    /// [`NoMemory`], if it is more than there can be, or does not become free in time.
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

    /// A permit for no memory yet, which can grow.
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

    /// Gives back everything beyond this many bytes.
    pub fn shrink(&mut self, bytes: Bytes) {
        let wanted = usize::try_from(bytes.get().div_ceil(UNIT)).unwrap_or(usize::MAX);
        let more = self.held.num_permits().saturating_sub(wanted);
        drop(self.held.split(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache that holds a permit until it must give it back.
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
