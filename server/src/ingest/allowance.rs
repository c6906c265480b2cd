//! What one upload may use: memory from the budget, and processor time, and only until it is
//! cancelled.
//!
//! A small upload shares the budget with the others. An upload that grows beyond [`SMALL_SHARE`]
//! needs the turn of the large ones, and there is only one. Otherwise two uploads that each hold
//! half of the memory would wait for each other. Even the large one leaves a quarter to the others.

use super::error::IngestError;
use crate::limits::budget::{Budget, NoMemory, Permit};
use crate::limits::processor_time::ProcessorTime;
use crate::limits::turns::Turn;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use trace::reader::Limits;
use trace::units::Bytes;
use trace::watch::Watch;

/// The part of the budget (one in so many) for an upload without the turn of the large ones.
const SMALL_SHARE: u64 = 8;

/// Memory is taken in steps of this size.
const STEP: u64 = 4 << 20;

/// Processor time of each stage: a fixed time for any upload, and more for each MiB that was sent.
/// The largest recording at hand (74 MiB packed, a gigabyte unpacked) takes 3 s to read and 1 s to
/// replay; it may take 38 s.
const TIME: Duration = Duration::from_secs(20);
const TIME_PER_MIB: Duration = Duration::from_millis(250);

/// What all uploads share.
pub struct Allowances {
    budget: Budget,
    large: Arc<Semaphore>,
}

impl Allowances {
    /// Out of a budget.
    pub fn new(budget: Budget) -> Allowances {
        Allowances {
            budget,
            large: Arc::new(Semaphore::new(1)),
        }
    }

    /// The allowance of one upload that has a turn at being read.
    pub fn begin(&self, turn: Turn, cancel: CancellationToken) -> Allowance {
        Allowance {
            total: self.budget.total(),
            permit: self.budget.nothing(),
            turn,
            large: Arc::clone(&self.large),
            large_turn: None,
            cancel,
            runtime: Handle::current(),
            stage: ProcessorTime::from_now(),
            least: TIME,
            sent: 0,
        }
    }
}

/// What one upload may use.
pub struct Allowance {
    total: Bytes,
    permit: Permit,
    /// Its turn at being read. It is held as long as the memory, even if nobody waits for the
    /// upload any more.
    turn: Turn,
    large: Arc<Semaphore>,
    large_turn: Option<OwnedSemaphorePermit>,
    cancel: CancellationToken,
    runtime: Handle,
    /// Processor time that this stage has used.
    stage: ProcessorTime,
    /// Processor time that any upload may use in a stage.
    least: Duration,
    /// Bytes that were sent.
    sent: u64,
}

impl Allowance {
    /// Bytes that one upload may have.
    pub fn most(&self) -> Bytes {
        Bytes(self.total.get() / 4 * 3)
    }

    /// The reader's limits.
    pub fn limits(&self) -> Limits {
        Limits {
            memory: usize::try_from(self.most().get()).unwrap_or(usize::MAX),
            ..Limits::default()
        }
    }

    /// Begins a stage on this thread.
    pub fn begin_stage(&mut self) {
        self.stage = ProcessorTime::from_now();
    }

    /// Notes that more bytes of the upload have arrived.
    pub fn receive(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Checks whether the upload may go on with this many bytes of memory. Must be called often, on
    /// a blocking thread.
    ///
    /// # Errors
    /// Why the upload must end.
    pub fn go_on(&mut self, bytes: usize) -> Result<(), IngestError> {
        if self.cancel.is_cancelled() {
            return Err(IngestError::Cancelled);
        }
        self.check_time()?;
        let wanted = Bytes((bytes as u64).div_ceil(STEP) * STEP);
        let held = self.permit.bytes();
        // Memory is given back only in large pieces, because it may be needed again at once.
        if wanted <= held && held.get() - wanted.get() < 8 * STEP {
            return Ok(());
        }
        self.resize(wanted)
    }

    /// The same where `unpacking` more bytes are needed beside them to unpack the file.
    ///
    /// # Errors
    /// Why the upload must end: a window that is too large is told as the cause.
    pub fn go_on_unpacking(&mut self, bytes: usize, unpacking: usize) -> Result<(), IngestError> {
        self.go_on(bytes + unpacking).map_err(|error| match error {
            IngestError::NoMemory(NoMemory::TooMuch { limit, total })
                if Bytes(bytes as u64) <= limit =>
            {
                let window = Bytes(unpacking as u64);
                NoMemory::Window {
                    window,
                    limit,
                    total,
                }
                .into()
            }
            other => other,
        })
    }

    /// The error for an upload that uses more than it may.
    pub fn too_much(&self) -> IngestError {
        let (limit, total) = (self.most(), self.total);
        NoMemory::TooMuch { limit, total }.into()
    }

    /// The memory of the result, and the turn, to be held while the result is stored.
    pub fn into_parts(self) -> (Permit, Turn) {
        (self.permit, self.turn)
    }

    fn resize(&mut self, wanted: Bytes) -> Result<(), IngestError> {
        if Bytes(wanted.get().saturating_sub(STEP)) > self.most() {
            return Err(self.too_much());
        }
        let wanted = wanted.min(self.most());
        let Allowance {
            permit,
            large,
            large_turn,
            cancel,
            runtime,
            total,
            ..
        } = self;
        let growing = async {
            if large_turn.is_none() && wanted.get() > total.get() / SMALL_SHARE {
                let waiting = Arc::clone(large).acquire_owned().await;
                *large_turn = Some(waiting.map_err(|_| NoMemory::Busy { total: *total })?);
            }
            permit.resize(wanted).await
        };
        runtime.block_on(async {
            tokio::select! {
                grown = growing => Ok(grown?),
                () = cancel.cancelled() => Err(IngestError::Cancelled),
            }
        })
    }

    fn check_time(&self) -> Result<(), IngestError> {
        let mib = u32::try_from(self.sent >> 20).unwrap_or(u32::MAX);
        let limit = self.least + TIME_PER_MIB * mib;
        match self.stage.used() > limit {
            true => Err(IngestError::TooMuchWork { limit }),
            false => Ok(()),
        }
    }
}

/// Runs a stage of the pure core under the watch of an allowance.
///
/// # Errors
/// Why the upload must end.
pub fn watched<T, E>(
    allowance: Allowance,
    work: impl FnOnce(Watch<'_>) -> Result<T, E>,
) -> Result<(T, Allowance), IngestError> {
    let looking = RefCell::new((allowance, None));
    looking.borrow_mut().0.begin_stage();
    let done = work(Watch::new(&|bytes| {
        let (allowance, why) = &mut *looking.borrow_mut();
        let going = allowance.go_on(bytes);
        *why = going.err();
        why.is_none()
    }));
    let (allowance, why) = looking.into_inner();
    match done {
        Ok(value) => Ok((value, allowance)),
        Err(_) => Err(why.unwrap_or(IngestError::Cancelled)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::parse;
    use std::cell::Cell;
    use std::sync::atomic::AtomicU64;
    use tokio::task::spawn_blocking;
    use trace::snapshot::Snapshot;
    use trace::testing::bombs;

    fn turn() -> Turn {
        let one = Arc::new(Semaphore::new(1));
        one.try_acquire_owned().unwrap()
    }

    /// The result for an upload that asks for `bytes`.
    async fn ask(allowances: &Allowances, cancel: CancellationToken, bytes: usize) -> String {
        let mut allowance = allowances.begin(turn(), cancel);
        let asked = spawn_blocking(move || allowance.go_on(bytes));
        asked
            .await
            .unwrap()
            .map_or_else(|error| error.to_string(), |()| "yes".to_owned())
    }

    #[tokio::test]
    async fn an_upload_may_have_three_quarters_of_the_memory() {
        let allowances = Allowances::new(Budget::new(Bytes::mib(256)));
        let check = async |mib: usize| ask(&allowances, CancellationToken::new(), mib << 20).await;
        assert_eq!(check(1).await, "yes");
        assert_eq!(check(192).await, "yes");
        let refused = check(220).await;
        assert!(
            refused.contains("192 MiB") && refused.contains("--memory"),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn a_window_that_is_too_large_is_told_as_the_cause() {
        let allowances = Allowances::new(Budget::new(Bytes::mib(64)));
        let refusal = async |bytes: usize| {
            let mut allowance = allowances.begin(turn(), CancellationToken::new());
            let asked = spawn_blocking(move || allowance.go_on_unpacking(bytes, 128 << 20));
            asked
                .await
                .unwrap()
                .expect_err("128 MiB are too much")
                .to_string()
        };
        let small = refusal(1 << 20).await;
        assert!(
            small.contains("a window of 128 MiB") && small.contains("--long"),
            "{small}"
        );
        let large = refusal(100 << 20).await;
        assert!(large.contains("record fewer events"), "{large}");
    }

    fn bomb(name: &str, n: usize) -> Snapshot {
        let bomb = bombs::ALL.iter().find(|bomb| bomb.name == name).unwrap();
        let file = bomb.file(n);
        parse(std::iter::once(file), &AtomicU64::new(0)).unwrap()
    }

    #[tokio::test]
    async fn a_stage_ends_when_its_time_is_over() {
        let limit = Duration::from_millis(5);
        let mut allowance =
            Allowances::new(Budget::new(Bytes::mib(256))).begin(turn(), CancellationToken::new());
        allowance.least = limit;
        let snapshot = bomb("loops in loops", 110);
        let replay = move || {
            let time = ProcessorTime::from_now();
            let work = |watch: Watch<'_>| trace::replay::run_watched(snapshot, watch);
            (watched(allowance, work).map(drop), time.used())
        };
        let (ended, used) = spawn_blocking(replay).await.unwrap();
        assert!(
            matches!(ended, Err(IngestError::TooMuchWork { .. })),
            "{ended:?}"
        );
        assert!(used < limit + Duration::from_millis(200), "{used:?}");
    }

    /// A cancel, or the end of the time, takes effect at the next check.
    #[test]
    fn no_stage_works_long_without_a_look() {
        for (name, n) in [
            ("loops in loops", 60),
            ("a loop of many lines", 100_000),
            ("functions called once", 100_000),
            ("deep stacks", 1_000),
            ("unpredicted addresses", 100_000),
            ("places within steps", 10_000),
            ("distinct events", 500_000),
        ] {
            let snapshot = bomb(name, n);
            let (last, longest) = (Cell::new(ProcessorTime::from_now()), Cell::default());
            let look = |_| {
                longest.set(last.get().used().max(longest.get()));
                last.set(ProcessorTime::from_now());
                true
            };
            trace::replay::run_watched(snapshot, Watch::new(&look)).unwrap();
            look(0);
            let longest: Duration = longest.get();
            eprintln!("{name}: {longest:?}");
            assert!(longest < Duration::from_millis(200), "{name}: {longest:?}");
        }
    }

    #[tokio::test]
    async fn a_cancelled_upload_waits_no_longer() {
        let budget = Budget::new(Bytes::mib(256));
        let _rest = budget.take(Bytes::mib(256)).await.unwrap();
        let allowances = Allowances::new(budget);
        let cancel = CancellationToken::new();
        let waiting = ask(&allowances, cancel.clone(), 8 << 20);
        let (told, ()) = tokio::join!(waiting, async { cancel.cancel() });
        assert_eq!(told, IngestError::Cancelled.to_string());
    }

    #[tokio::test]
    async fn one_large_upload_goes_after_the_other() {
        let allowances = Allowances::new(Budget::new(Bytes::mib(256)));
        let mut first = allowances.begin(turn(), CancellationToken::new());
        let first = spawn_blocking(move || first.go_on(100 << 20).map(|()| first));
        let first = first.await.unwrap().unwrap();
        let cancel = CancellationToken::new();
        let second = ask(&allowances, cancel.clone(), 64 << 20);
        let third = ask(&allowances, cancel.clone(), 16 << 20);
        let (second, third) = tokio::join!(second, async {
            let third = third.await;
            drop(first);
            third
        });
        assert_eq!((second.as_str(), third.as_str()), ("yes", "yes"));
    }
}
