//! Whether sizes and times are rounded or exact; remembered in this browser, in no link.

use crate::kept;
use crate::url_state;
use leptos::prelude::*;
use trace::units::numbers::Numbers;

/// The name under which it is kept, and what is kept for exact numbers.
const NAME: &str = "tidemark.numbers";
const EXACT: &str = "exact";

/// How numbers are written; in the context of the whole application.
#[derive(Clone, Copy)]
pub struct Shown(pub RwSignal<Numbers>);

impl Shown {
    /// As they were before.
    pub fn as_kept() -> Shown {
        let is_exact = kept::read(NAME).is_some_and(|kept| kept == EXACT);
        Shown(RwSignal::new(match is_exact {
            true => Numbers::Exact,
            false => Numbers::Rounded,
        }))
    }

    /// The other way, from now on.
    pub fn switch(self) {
        let (now, name) = match self.0.get_untracked() {
            Numbers::Rounded => (Numbers::Exact, EXACT),
            Numbers::Exact => (Numbers::Rounded, ""),
        };
        kept::keep(NAME, name);
        url_state::stays();
        self.0.set(now);
    }

    /// What is built after this is written like that, and is built anew when it changes.
    pub fn write(self) {
        self.0.get().write();
    }
}
