//! What an explanation may use that somebody waits for: time of a processor, and memory out of the
//! budget, as the replays ask for it.

use crate::budget::{NoMemory, Permit};
use crate::processor_time::ProcessorTime;
use std::cell::RefCell;
use std::time::Duration;
use tokio::runtime::Handle;
use trace::units::Bytes;
use trace::watch::{Stopped, Watch};

/// Processor time that an explanation may take.
pub const EXPLAINING: Duration = Duration::from_secs(20);

/// Memory is taken in steps of this size.
const STEP: u64 = 4 << 20;

/// Why there is no explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It takes more memory than there is.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// It takes too long.
    #[error(
        "explaining this takes more than {} s of a processor, all that one question may have; \
         `tidemark explain FILE` has no such limit", .0.as_secs_f64()
    )]
    TooLong(Duration),
}

/// Does work under a watch that lets it have `limit` of time, and memory besides what the permit
/// says already. For a thread that may block.
///
/// # Errors
/// Why the work had to end.
pub fn allowed<T>(
    permit: Permit,
    limit: Duration,
    work: impl FnOnce(Watch<'_>) -> Result<T, Stopped>,
) -> Result<T, Refused> {
    let runtime = Handle::current();
    let before = permit.bytes();
    let time = ProcessorTime::from_now();
    let state = RefCell::new((permit, None));
    let done = work(Watch::new(&|bytes| {
        let (permit, why) = &mut *state.borrow_mut();
        // Who was refused once is not let on later, when it asks for less.
        if why.is_none() {
            let wanted = Bytes((bytes as u64).div_ceil(STEP) * STEP);
            *why = match time.used() > limit {
                true => Some(Refused::TooLong(limit)),
                false => grow(&runtime, permit, before + wanted).err(),
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

    /// What work that asks for so many bytes, one after the other, comes to.
    async fn asked(limit: Duration, bytes: &'static [u64]) -> Result<(), Refused> {
        let budget = Budget::new(Bytes::mib(64));
        let permit = budget.take(Bytes::mib(8)).await.unwrap();
        let work = move |watch: Watch<'_>| {
            // What does not hand on that it was stopped is stopped all the same.
            for &bytes in bytes {
                let _ = watch.look(bytes as usize);
            }
            Ok(())
        };
        let done = spawn_blocking(move || allowed(permit, limit, work))
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
        assert_eq!(asked(EXPLAINING, &[]).await, Ok(()));
        assert_eq!(asked(EXPLAINING, &[0, 40 << 20, 1, 56 << 20]).await, Ok(()));
        assert_eq!(asked(EXPLAINING, &[57 << 20, 0]).await, too_much);
        let at_once = Duration::ZERO;
        assert_eq!(asked(at_once, &[0]).await, Err(Refused::TooLong(at_once)));
    }
}
