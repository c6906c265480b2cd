//! Limits for an answer that somebody waits for: processor time, and memory from the budget as the
//! work needs it. When nobody waits any more, the work ends.

use crate::limits::budget::{NoMemory, Permit};
use crate::limits::processor_time::ProcessorTime;
use crate::limits::work::{self, Panicked};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use trace::units::Bytes;
use trace::watch::{Stopped, Watch};

/// Processor time that an answer may take.
pub const ANSWER_TIME: Duration = Duration::from_secs(20);

/// Memory is taken in steps of this size.
const STEP: u64 = 4 << 20;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It needs more memory than there is.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// It takes too long.
    #[error(
        "this takes more than {} s of a processor, all that one question may have; the command \
         line (`tidemark explain FILE`, `tidemark compare FILE FILE`) has no such limit",
        .0.as_secs_f64()
    )]
    TooLong(Duration),
    /// The client has gone, so nobody would read this.
    #[error("nobody waits for the answer any more")]
    NobodyWaits,
}

/// Why somebody who waited got nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The work had to end.
    Refused(Refused),
    /// The work panicked.
    Panicked,
}

/// Somebody who waits for an answer. The request keeps this, and drops it when the client goes.
pub struct Caller(Arc<AtomicBool>);

/// Tells the work whether somebody still waits.
pub struct Presence(Arc<AtomicBool>);

impl Caller {
    /// A pair: somebody who waits, and the way to ask whether they still do.
    pub fn waits() -> (Caller, Presence) {
        let gone = Arc::new(AtomicBool::new(false));
        (Caller(Arc::clone(&gone)), Presence(gone))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Presence {
    /// Whether nobody waits any more.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Does work that somebody waits for, away from the runtime's threads, within `limit` of processor
/// time. It ends when this future is dropped, because then the client has gone. It has the memory
/// of the permit, and more as it needs it; without a permit, what it holds is too small to count.
///
/// # Errors
/// What the work says, and why it had to end.
pub async fn while_awaited<T, E>(
    memory: impl Into<Option<Permit>>,
    limit: Duration,
    work: impl FnOnce(Watch<'_>) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<NoAnswer> + Send + 'static,
{
    let (_caller, presence) = Caller::waits();
    let memory = memory.into();
    let answer = work::answer(move || {
        allowed(memory, limit, &presence, |watch| {
            watch.look(0)?;
            let done = work(watch);
            // Work that does not look at its watch is not kept either when it took too long.
            watch.look(0)?;
            Ok(done)
        })
    });
    match answer.await {
        Ok(Ok(done)) => done,
        Ok(Err(refused)) => Err(NoAnswer::Refused(refused).into()),
        Err(Panicked) => Err(NoAnswer::Panicked.into()),
    }
}

/// Runs work with a watch that allows `limit` of time, and more memory than the permit already has;
/// without a permit, no memory is counted.
/// Must be called on a thread that may block. Most work is better done by [`while_awaited`]; this
/// is for work that outlives its request, or that nobody waits for.
///
/// # Errors
/// Why the work had to end.
pub fn allowed<T>(
    memory: Option<Permit>,
    limit: Duration,
    presence: &Presence,
    work: impl FnOnce(Watch<'_>) -> Result<T, Stopped>,
) -> Result<T, Refused> {
    let runtime = Handle::current();
    let before = memory.as_ref().map_or(Bytes(0), Permit::bytes);
    let time = ProcessorTime::from_now();
    let state = RefCell::new((memory, None));
    let done = work(Watch::new(&|bytes| {
        let (memory, why) = &mut *state.borrow_mut();
        // After one refusal the work may not go on, even if it later asks for less.
        if why.is_none() {
            let wanted = Bytes((bytes as u64).div_ceil(STEP) * STEP);
            *why = if presence.is_over() {
                Some(Refused::NobodyWaits)
            } else if time.used() > limit {
                Some(Refused::TooLong(limit))
            } else {
                grow(&runtime, memory.as_mut(), before + wanted).err()
            };
        }
        why.is_none()
    }));
    let (_, why) = state.into_inner();
    match (why, done) {
        (None, Ok(value)) => Ok(value),
        (why, _) => Err(why.unwrap_or(Refused::TooLong(limit))),
    }
}

fn grow(runtime: &Handle, memory: Option<&mut Permit>, wanted: Bytes) -> Result<(), Refused> {
    match memory {
        Some(permit) if wanted > permit.bytes() => Ok(runtime.block_on(permit.resize(wanted))?),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::budget::Budget;
    use tokio::sync::oneshot;
    use tokio::task::spawn_blocking;

    /// Who asks.
    #[derive(Clone, Copy, PartialEq)]
    enum Hurry {
        Waits,
        Leaves,
    }

    /// The result of work that asks for these numbers of bytes, one after the other.
    async fn asked(limit: Duration, bytes: &'static [u64], hurry: Hurry) -> Result<(), Refused> {
        let budget = Budget::new(Bytes::mib(64));
        let permit = budget.take(Bytes::mib(8)).await.unwrap();
        let work = move |watch: Watch<'_>| {
            // Work that ignores that it was stopped still counts as stopped.
            for &bytes in bytes {
                let _ = watch.look(bytes as usize);
            }
            Ok(())
        };
        let (caller, presence) = Caller::waits();
        if hurry == Hurry::Leaves {
            drop(caller);
        }
        let done = spawn_blocking(move || allowed(Some(permit), limit, &presence, work))
            .await
            .unwrap();
        let whole = spawn_blocking(move || Handle::current().block_on(budget.take(Bytes::mib(64))));
        assert!(whole.await.unwrap().is_ok(), "all of it was given back");
        done
    }

    #[tokio::test]
    async fn work_has_so_much_time_and_memory() {
        let total = Bytes::mib(64);
        let too_much = Err(NoMemory::TooMuch {
            limit: total,
            total,
        }
        .into());
        let check = async |limit, bytes, expected| {
            assert_eq!(asked(limit, bytes, Hurry::Waits).await, expected);
        };
        check(ANSWER_TIME, &[], Ok(())).await;
        check(ANSWER_TIME, &[0, 40 << 20, 1, 56 << 20], Ok(())).await;
        check(ANSWER_TIME, &[57 << 20, 0], too_much).await;
        let at_once = Duration::ZERO;
        check(at_once, &[0], Err(Refused::TooLong(at_once))).await;
    }

    #[tokio::test]
    async fn work_ends_when_nobody_waits() {
        let left = asked(ANSWER_TIME, &[0, 1], Hurry::Leaves).await;
        assert_eq!(left, Err(Refused::NobodyWaits));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn work_for_an_answer_ends_when_the_client_goes() {
        let budget = Budget::new(Bytes::mib(8));
        let memory = budget.take(Bytes::mib(1)).await.unwrap();
        let (begun, begins) = oneshot::channel();
        let (told, ends) = oneshot::channel();
        let asked = tokio::spawn(while_awaited(memory, ANSWER_TIME, move |watch| {
            begun.send(()).unwrap();
            while watch.look(0).is_ok() {}
            told.send(()).unwrap();
            Ok::<_, NoAnswer>(())
        }));
        begins.await.unwrap();
        asked.abort();
        let ended = tokio::time::timeout(Duration::from_secs(20), ends).await;
        ended.expect("it does not go on").unwrap();
        let all = budget.take(Bytes::mib(8)).await;
        assert!(all.is_ok(), "its memory was given back");
    }
}
