//! The link with which the page was opened.

use api::shares::{Share, ShareKind};
use leptos::prelude::*;

/// The link with which the page was opened; in the context of the whole application.
#[derive(Clone, Copy)]
pub struct OpenedLink(pub RwSignal<Option<Share>>);

impl OpenedLink {
    /// Whether the reader may see only what the link opens, and no other page. Tracks.
    pub fn is_all(self) -> bool {
        self.0.with(Self::opens_no_more)
    }

    /// The same, for a page that the link opened: it keeps this link.
    pub fn is_all_here(self) -> bool {
        self.0.with_untracked(Self::opens_no_more)
    }

    fn opens_no_more(share: &Option<Share>) -> bool {
        let share = share.as_ref();
        share.is_some_and(|share| share.kind == ShareKind::Capability)
    }
}
