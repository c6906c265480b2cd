//! The link on whose behalf pages are shown.

use api::shares::{Share, ShareKind};
use leptos::prelude::*;

/// The link on whose behalf the page is shown; in the context of the whole application.
#[derive(Clone, Copy)]
pub struct OpenedLink(pub RwSignal<Option<Share>>);

impl OpenedLink {
    /// Whether whoever looks may see what the link opens and no other page. Tracks.
    pub fn is_all(self) -> bool {
        self.0.with(Self::opens_no_more)
    }

    /// The same on a page that the link opened: it stays that link's.
    pub fn is_all_here(self) -> bool {
        self.0.with_untracked(Self::opens_no_more)
    }

    fn opens_no_more(share: &Option<Share>) -> bool {
        let share = share.as_ref();
        share.is_some_and(|share| share.kind == ShareKind::Capability)
    }
}
