//! Limits for an answer that somebody waits for: processor time, and memory from the budget as the
//! work needs it. When nobody waits any more, the work ends.

use crate::budget::{NoMemory, Permit};
use crate::processor_time::ProcessorTime;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use trace::units::Bytes;
use trace::watch::{Stopped, Watch};

/// Processor time that an answer may take, an explanation as well as any other.
pub const EXPLAINING: Duration = Duration::from_secs(20);

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

/// Somebody who waits. The request keeps this, and drops it when the client goes.
pub struct Waiting(Arc<AtomicBool>);

/// Tells the work whether somebody still waits.
pub struct Waited(Arc<AtomicBool>);

impl Waiting {
    /// A pair: somebody who waits, and the way to ask.
    pub fn begins() -> (Waiting, Waited) {
        let gone = Arc::new(AtomicBool::new(false));
        (Waiting(Arc::clone(&gone)), Waited(gone))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Waited {
    /// Whether nobody waits any more.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs work with a watch that allows `limit` of time, and more memory than the permit already has.
/// Must be called on a thread that may block.
///
/// # Errors
/// Why the work had to end.
pub fn allowed<T>(
    permit: Permit,
    limit: Duration,
    waited: &Waited,
    work: impl FnOnce(Watch<'_>) -> Result<T, Stopped>,
) -> Result<T, Refused> {
    let runtime = Handle::current();
    let before = permit.bytes();
    let time = ProcessorTime::from_now();
    let state = RefCell::new((permit, None));
    let done = work(Watch::new(&|bytes| {
        let (permit, why) = &mut *state.borrow_mut();
        // After one refusal the work may not go on, even if it later asks for less.
        if why.is_none() {
            let wanted = Bytes((bytes as u64).div_ceil(STEP) * STEP);
            *why = match () {
                () if waited.is_over() => Some(Refused::NobodyWaits),
                () if time.used() > limit => Some(Refused::TooLong(limit)),
                () => grow(&runtime, permit, before + wanted).err(),
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

fn grow(runtime: &Handle, permit: &mut Permit, wanted: Bytes) -> Result<(), Refused> {
    match wanted <= permit.bytes() {
        true => Ok(()),
        false => Ok(runtime.block_on(permit.resize(wanted))?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
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
        let (waiting, waited) = Waiting::begins();
        if hurry == Hurry::Leaves {
            drop(waiting);
        }
        let done = spawn_blocking(move || allowed(permit, limit, &waited, work))
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
        check(EXPLAINING, &[], Ok(())).await;
        check(EXPLAINING, &[0, 40 << 20, 1, 56 << 20], Ok(())).await;
        check(EXPLAINING, &[57 << 20, 0], too_much).await;
        let at_once = Duration::ZERO;
        check(at_once, &[0], Err(Refused::TooLong(at_once))).await;
    }

    #[tokio::test]
    async fn work_ends_when_nobody_waits() {
        let left = asked(EXPLAINING, &[0, 1], Hurry::Leaves).await;
        assert_eq!(left, Err(Refused::NobodyWaits));
    }
}
