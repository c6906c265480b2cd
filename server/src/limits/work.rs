//! Work that takes time, done away from the threads that answer requests. Work that a viewer waits
//! for comes before background work.

use crate::limits::turns::{Queue, Turns};
use std::sync::LazyLock;
use std::thread;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// How nice background work is: at 10 the system gives it a tenth of the time that others want.
const NICENESS: i32 = 10;

/// Answers that are computed at the same time. More than there are cores would only wait for one
/// another, and each would hold its memory.
static ANSWERS: LazyLock<Turns> = LazyLock::new(|| Turns::new(cores()));

/// The thread that did the work panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a thread panicked")]
pub struct Panicked;

/// Cores of this machine.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// How many answers are computed, and how many wait.
pub fn answers() -> Queue {
    ANSWERS.queue()
}

/// Does work that a request waits for, soon, on a thread that may block.
///
/// # Errors
/// When it panics.
pub async fn answer<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Panicked> {
    answer_in(&ANSWERS, work).await
}

/// The turn belongs to the work, not to the request. Otherwise a client that asks and hangs up
/// again and again would start more work each time.
async fn answer_in<T: Send + 'static>(
    turns: &Turns,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Panicked> {
    let turn = turns.take().await;
    let work = move || {
        let _turn = turn;
        work()
    };
    off_runtime(work).await
}

/// Does work at once, on a thread that may block. It runs to its end, even if the caller drops the
/// future.
///
/// All such work has one type for tokio: otherwise its code for a task would be compiled once for
/// each of two hundred closures, a tenth of the work for this crate.
///
/// # Errors
/// When it panics, or when the server stops before it has begun.
pub async fn off_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Panicked> {
    let (sender, result) = oneshot::channel();
    let span = tracing::Span::current();
    let work: Box<dyn FnOnce() + Send> = Box::new(move || {
        // An error only means that nobody waits.
        let _ = sender.send(span.in_scope(work));
    });
    tokio::task::spawn_blocking(work);
    result.await.map_err(|_| Panicked)
}

/// Starts work that no viewer waits for, on its own thread with low priority. It runs to its end,
/// even if the caller drops the future.
pub fn background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T, Panicked>> + Send + Unpin + 'static {
    let (sender, result) = oneshot::channel();
    let span = tracing::Span::current();
    // The work may enlarge its permit while it runs, and needs the runtime for that.
    let runtime = Handle::try_current();
    let body = move || {
        give_way();
        let _runtime = runtime.as_ref().map(Handle::enter);
        // An error only means that no request waits.
        let _ = sender.send(span.in_scope(work));
    };
    let thread = thread::Builder::new()
        .name("background".to_owned())
        .spawn(body);
    if let Err(error) = thread {
        // The thread was never started, so the sender is dropped and the waiting request gets an
        // error.
        tracing::error!(%error, "cannot start a thread");
    }
    Box::pin(async move { result.await.map_err(|_| Panicked) })
}

/// Gives the calling thread low priority; also does so for a process that has only one thread.
pub fn give_way() {
    // On Linux this call changes only the calling thread. Elsewhere it would change the whole
    // process, which also answers viewers.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "background work cannot give way");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn background_work_gives_way_and_nothing_else_does() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let before = niceness();
        assert_eq!(background(niceness).await, Ok(NICENESS.max(before)));
        assert_eq!(answer(niceness).await, Ok(before));
        assert_eq!(niceness(), before);
    }

    #[tokio::test]
    async fn whoever_hangs_up_leaves_its_turn_to_the_work_until_that_is_done() {
        let turns = Turns::new(1);
        let asked = turns.clone();
        let (begun, begins) = oneshot::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let work = move || {
            begun.send(()).unwrap();
            // Waits until the test sends the signal.
            let _ = ends.recv();
        };
        let request = tokio::spawn(async move { answer_in(&asked, work).await });
        begins.await.unwrap();
        request.abort();
        assert!(request.await.unwrap_err().is_cancelled());
        assert_eq!(turns.queue().taken, 1);
        end.send(()).unwrap();
        assert_eq!(answer_in(&turns, || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_panic_is_told() {
        assert_eq!(
            background(|| panic!("as wanted")).await,
            Err::<(), _>(Panicked)
        );
        assert_eq!(answer(|| panic!("as wanted")).await, Err::<(), _>(Panicked));
    }
}
