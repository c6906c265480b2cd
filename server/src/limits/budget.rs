//! The memory that the process may use, and which work has which part of it.
//!
//! One number (`--memory`) limits everything that grows with what people send and ask: reading and
//! replaying uploads, decoded traces and the work on them. Work that needs memory first takes a
//! [`Permit`] and holds it as long as the memory. If there is too little, the cache of decoded
//! traces first gives back what nobody uses. Then the work waits: work that holds memory already
//! goes before work that has none yet, because only what goes on gives memory back. In the end it
//! is refused, with a sentence that names the number and the remedy. Memory that does not grow
//! (code, sockets, SQLite's caches) has [`Budget::BESIDE`], outside of the budget.
//!
//! Nobody waits for ever. If two works each wait for what the other one holds, the time limit ends
//! that.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::oneshot;
use trace::units::Bytes;

/// Memory is counted in these.
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
    /// The work would fit, but not beside the window with which its file has to be unpacked.
    #[error(
        "unpacking this takes a window of {window} of memory, as `zstd --long` asks for, and one \
         upload may have {limit} of the server's {total}; send it unpacked, pack it without \
         --long, or start the server with a larger --memory"
    )]
    Window {
        /// What unpacking takes.
        window: Bytes,
        /// The most that the work may have.
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
            NoMemory::TooMuch { .. } | NoMemory::Window { .. } => None,
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
    room: Mutex<Room>,
    spare: Mutex<Vec<Weak<dyn Spare>>>,
}

/// What is free, and who waits for it.
struct Room {
    /// Units.
    free: u64,
    /// Work that holds memory already.
    holders: VecDeque<Waiter>,
    /// Work that holds none yet.
    newcomers: VecDeque<Waiter>,
}

struct Waiter {
    units: u64,
    tell: oneshot::Sender<Held>,
}

/// Units in use; they are given back when this is dropped.
struct Held {
    inner: Arc<Inner>,
    units: u64,
}

/// Who asks for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Holder,
    Newcomer,
}

/// Memory that may be used; it is given back when this is dropped.
pub struct Permit {
    budget: Budget,
    held: Held,
    /// What the same work holds besides, by another permit.
    beside: Bytes,
}

impl Room {
    /// The next one whose memory is there now; it is no longer free. Of the holders that is the
    /// first that fits: while they wait, each holds what another one may need. Newcomers come in
    /// order, and only when no holder waits.
    fn next(&mut self) -> Option<Waiter> {
        for queue in [&mut self.holders, &mut self.newcomers] {
            queue.retain(|waiter| !waiter.tell.is_closed());
        }
        let fits = |waiter: &Waiter| waiter.units <= self.free;
        let next = match self.holders.is_empty() {
            false => {
                let at = self.holders.iter().position(fits)?;
                self.holders.remove(at)?
            }
            true => {
                self.newcomers.front().filter(|first| fits(first))?;
                self.newcomers.pop_front()?
            }
        };
        self.free -= next.units;
        Some(next)
    }
}

impl Inner {
    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(self: &Arc<Inner>, asker: Asker, waiter: Waiter) {
        let mut room = self.room();
        match asker {
            Asker::Holder => room.holders.push_back(waiter),
            Asker::Newcomer => room.newcomers.push_back(waiter),
        }
        drop(room);
        self.hand_out();
    }

    /// Gives what is free to those who wait for it.
    fn hand_out(self: &Arc<Inner>) {
        let mut room = self.room();
        let next: Vec<Waiter> = std::iter::from_fn(|| room.next()).collect();
        drop(room);
        for Waiter { units, tell } in next {
            let inner = Arc::clone(self);
            // Whoever has just given up drops it, which gives it back.
            drop(tell.send(Held { inner, units }));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.inner.room().free += self.units;
        self.inner.hand_out();
    }
}

/// Lets others go on when somebody waits no longer.
struct Leaves<'a>(&'a Arc<Inner>);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.hand_out();
    }
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
        let room = Room {
            free: total.get() / UNIT,
            holders: VecDeque::new(),
            newcomers: VecDeque::new(),
        };
        let inner = Inner {
            total,
            patience,
            room: Mutex::new(room),
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
        let free = self.inner.room().free * UNIT;
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
        self.take_as(Asker::Newcomer, bytes).await
    }

    /// Takes memory for work that holds some already, such as a decoded trace.
    ///
    /// # Errors
    /// As [`Budget::take`].
    pub async fn take_more(&self, bytes: Bytes) -> Result<Permit, NoMemory> {
        self.take_as(Asker::Holder, bytes).await
    }

    /// Takes memory for work that already holds so many bytes, and gives them back only at its end.
    /// It never waits for these.
    ///
    /// # Errors
    /// As [`Budget::take`].
    pub async fn take_beside(&self, held: Bytes, bytes: Bytes) -> Result<Permit, NoMemory> {
        self.fits_beside(held, bytes)?;
        let permit = self.take_more(bytes).await?;
        Ok(Permit {
            beside: held,
            ..permit
        })
    }

    fn fits_beside(&self, held: Bytes, bytes: Bytes) -> Result<(), NoMemory> {
        let total = self.inner.total;
        let limit = total.saturating_sub(held);
        match bytes <= limit {
            true => Ok(()),
            false => Err(NoMemory::TooMuch { limit, total }),
        }
    }

    async fn take_as(&self, asker: Asker, bytes: Bytes) -> Result<Permit, NoMemory> {
        let units = self.units(bytes)?;
        // Dropped after `told`, so it finds that nobody waits there any more.
        let _leaves = Leaves(&self.inner);
        let (tell, mut told) = oneshot::channel();
        self.inner.queue(asker, Waiter { units, tell });
        if let Ok(held) = told.try_recv() {
            return Ok(self.permit(held));
        }
        self.make_room(bytes);
        match tokio::time::timeout(self.inner.patience, &mut told).await {
            Ok(Ok(held)) => Ok(self.permit(held)),
            _ => Err(self.busy()),
        }
    }

    /// A permit for no memory yet, which can grow.
    pub fn nothing(&self) -> Permit {
        let inner = Arc::clone(&self.inner);
        self.permit(Held { inner, units: 0 })
    }

    fn permit(&self, held: Held) -> Permit {
        Permit {
            budget: self.clone(),
            held,
            beside: Bytes::ZERO,
        }
    }

    fn units(&self, bytes: Bytes) -> Result<u64, NoMemory> {
        self.fits_beside(Bytes::ZERO, bytes)?;
        Ok(bytes.get().div_ceil(UNIT))
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

    fn spares(&self) -> MutexGuard<'_, Vec<Weak<dyn Spare>>> {
        self.inner
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Bytes that may be used.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.held.units * UNIT)
    }

    /// Makes it larger or smaller.
    ///
    /// # Errors
    /// As [`Budget::take`]; it keeps what it had.
    pub async fn resize(&mut self, bytes: Bytes) -> Result<(), NoMemory> {
        self.budget.fits_beside(self.beside, bytes)?;
        let wanted = self.budget.units(bytes)?;
        let asker = match self.held.units {
            0 => Asker::Newcomer,
            _ => Asker::Holder,
        };
        if wanted > self.held.units {
            let more = Bytes((wanted - self.held.units) * UNIT);
            let mut more = self.budget.take_as(asker, more).await?;
            self.held.units += std::mem::take(&mut more.held.units);
        } else {
            self.shrink(bytes);
        }
        Ok(())
    }

    /// Gives back everything beyond this many bytes.
    pub fn shrink(&mut self, bytes: Bytes) {
        let more = self.held.units.saturating_sub(bytes.get().div_ceil(UNIT));
        self.held.units -= more;
        let inner = Arc::clone(&self.budget.inner);
        drop(Held { inner, units: more });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

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

    /// Waiting would not help: only its own end gives back what it holds.
    #[tokio::test]
    async fn what_does_not_fit_beside_what_the_work_holds_is_refused_at_once() {
        let (mib, total) = (Bytes::mib, Bytes::mib(10));
        let budget = Budget::new(total);
        let _decoded = budget.take(mib(6)).await.unwrap();
        let limit = mib(4);
        let refused = Err(NoMemory::TooMuch { limit, total });
        let more = budget.take_beside(mib(6), mib(5)).now_or_never();
        assert_eq!(more.map(|more| more.map(drop)), Some(refused));
        let mut permit = budget.take_beside(mib(6), mib(2)).await.unwrap();
        assert_eq!(permit.resize(mib(4)).now_or_never(), Some(Ok(())));
        assert_eq!(permit.resize(mib(5)).now_or_never(), Some(refused));
    }

    #[tokio::test]
    async fn who_holds_memory_goes_before_who_has_none() {
        let mib = Bytes::mib;
        let budget = Budget::with_patience(mib(10), Duration::from_millis(200));
        let mut first = budget.take(mib(4)).await.unwrap();
        let mut second = budget.take(mib(4)).await.unwrap();
        // A newcomer waits, and does not keep the holders from the two that are free.
        let mut newcomer = Box::pin(budget.take(mib(5)));
        assert!((&mut newcomer).now_or_never().is_none());
        // Of two holders, the one that fits goes on, although the other one came first.
        let mut large = Box::pin(first.resize(mib(7)));
        assert!((&mut large).now_or_never().is_none());
        let grown = second.resize(mib(6)).now_or_never();
        assert_eq!(grown, Some(Ok(())));
        // What becomes free goes to the holder.
        drop(second);
        assert_eq!((&mut large).now_or_never(), Some(Ok(())));
        drop(large);
        assert!((&mut newcomer).now_or_never().is_none());
        drop(first);
        let newcomer = newcomer.now_or_never().unwrap().unwrap();
        assert_eq!(budget.in_use(), newcomer.bytes());
    }

    #[tokio::test]
    async fn newcomers_come_in_order_and_who_gives_up_holds_up_nobody() {
        let mib = Bytes::mib;
        let budget = Budget::with_patience(mib(10), Duration::from_millis(200));
        let _held = budget.take(mib(4)).await.unwrap();
        let mut large = Box::pin(budget.take(mib(8)));
        assert!((&mut large).now_or_never().is_none());
        let mut small = Box::pin(budget.take(mib(2)));
        assert!((&mut small).now_or_never().is_none());
        drop(large);
        let small = small.now_or_never().unwrap().unwrap();
        // What was handed out to somebody who gives up before looking is free again.
        let mut late = Box::pin(budget.take(mib(6)));
        assert!((&mut late).now_or_never().is_none());
        drop(small);
        assert_eq!(budget.in_use(), mib(10));
        drop(late);
        assert_eq!(budget.in_use(), mib(4));
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
