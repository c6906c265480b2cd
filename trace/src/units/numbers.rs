//! Whether sizes are written rounded or with all their digits.
//!
//! The page asks its reader. Everything else writes them rounded, so this is set nowhere but there:
//! it holds for the thread that sets it, and a browser has one for the page.

use std::cell::Cell;

thread_local! {
    static WRITTEN: Cell<Numbers> = const { Cell::new(Numbers::Rounded) };
}

/// How [`Bytes`](super::Bytes) are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Three digits: `1.50 GiB`.
    #[default]
    Rounded,
    /// All digits: `1,610,612,736 B`.
    Exact,
}

impl Numbers {
    /// How they are written now.
    pub fn written() -> Numbers {
        WRITTEN.get()
    }

    /// From now on they are written like this.
    pub fn write(self) {
        WRITTEN.set(self);
    }
}
