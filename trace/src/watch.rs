//! A watch on long work: it learns how much memory the work holds, and may stop it.
//!
//! This crate has no clock and no thread. So only the caller knows whether the user cancelled, the
//! time is over, or no more memory may be used.

/// Rows between two checks. Hostile rows may take a microsecond each, or a thousand.
pub(crate) const EVERY: usize = 256;

/// The watch stopped the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work was stopped")]
pub struct Stopped;

/// Watches a piece of work, and may stop it.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    go_on: &'a dyn Fn(usize) -> bool,
    /// Bytes that are held besides those that the current stage reports.
    beside: usize,
}

impl<'a> Watch<'a> {
    /// Calls `go_on` again and again, with the bytes of memory that the work holds or is about to
    /// request. The work ends soon after the answer is no.
    pub fn new(go_on: &'a dyn Fn(usize) -> bool) -> Watch<'a> {
        Watch { go_on, beside: 0 }
    }

    /// A watch that never stops the work.
    pub fn nobody() -> Watch<'static> {
        Watch::new(&|_| true)
    }

    /// Does work to its end, without a watch that could stop it.
    ///
    /// # Panics
    /// Never: nothing stops it.
    pub fn undisturbed<T>(work: impl FnOnce(Watch<'static>) -> Result<T, Stopped>) -> T {
        work(Watch::nobody()).expect("nobody stops it")
    }

    /// Does work that may hold at most so many bytes; `None` if it needs more.
    ///
    /// # Errors
    /// [`Stopped`] by this watch.
    pub fn within<T>(
        self,
        most: usize,
        work: impl FnOnce(Watch<'_>) -> Result<T, Stopped>,
    ) -> Result<Option<T>, Stopped> {
        let stopped = std::cell::Cell::new(false);
        let go_on = |bytes| {
            stopped.set(stopped.get() || self.look(bytes).is_err());
            bytes <= most && !stopped.get()
        };
        match work(Watch::new(&go_on)) {
            Ok(done) => Ok(Some(done)),
            Err(Stopped) if stopped.get() => Err(Stopped),
            Err(Stopped) => Ok(None),
        }
    }

    /// The same, for a stage during which `bytes` more are held.
    pub fn beside(self, bytes: usize) -> Watch<'a> {
        Watch {
            beside: self.beside + bytes,
            ..self
        }
    }

    /// Call this before requesting `bytes`.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn look(&self, bytes: usize) -> Result<(), Stopped> {
        match (self.go_on)(self.beside + bytes) {
            true => Ok(()),
            false => Err(Stopped),
        }
    }

    /// Call this at row `row` of a loop; it asks the watch only now and then.
    ///
    /// # Errors
    /// [`Stopped`].
    #[inline]
    pub fn at_row(&self, row: usize, bytes: impl FnOnce() -> usize) -> Result<(), Stopped> {
        match row.is_multiple_of(EVERY) {
            true => self.look(bytes()),
            false => Ok(()),
        }
    }
}
