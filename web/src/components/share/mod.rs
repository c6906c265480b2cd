//! Sharing a view: making and revoking links.

mod form;
mod links;
mod preview;

use crate::components::dialog::{Closing, Dialog};
use crate::components::drafts;
use crate::components::icon::{Icon, IconView};
use crate::kept;
use api::shares::{CreatedShare, ShareTarget};
use form::NewLink;
use leptos::prelude::*;
use links::Links;
use presentation::components::share::Draft;

/// The key in `localStorage` for the name under which links are made and revoked.
const NAME_KEY: &str = "tidemark.name";

/// A button that opens the dialog.
#[component]
pub fn ShareButton(
    /// What is shared.
    target: Signal<ShareTarget>,
    /// The view: the query of the page.
    query: Signal<String>,
) -> impl IntoView {
    let open = RwSignal::new(false);
    let content = move || {
        open.get().then(|| {
            let (target, query) = (target.get_untracked(), query.get_untracked());
            view! { <ShareDialog target=target query=query/> }
        })
    };
    view! {
        <button class="button share-open" on:click=move |_| open.set(true)>
            <IconView icon=Icon::Share/>
            "Share"
        </button>
        <Dialog open=open title="Share this view" closing=Closing::Free>
            {content}
        </Dialog>
    }
}

#[component]
fn ShareDialog(target: ShareTarget, query: String) -> impl IntoView {
    let name = RwSignal::new(stored_name());
    // Raised when a link was made or revoked, so that the list is read again.
    let changed = RwSignal::new(0_u32);
    // The link that was just made, as long as it opens.
    let made = RwSignal::new(None::<CreatedShare>);
    let first = target.runs().first().cloned();
    let title = match &target {
        ShareTarget::Run { .. } => "Links to this run",
        ShareTarget::Comparison { .. } => "Links to the baseline",
    };
    view! {
        <NewLink target=target query=query name=name changed=changed made=made/>
        {first.map(|run| {
            view! { <Links title=title run=run name=name changed=changed made=made/> }
        })}
    }
}

/// The name typed before; empty if there was none, or if storage is not available.
fn stored_name() -> String {
    kept::read(NAME_KEY).unwrap_or_default()
}

/// Remembers the name. If storage is not available, it must be typed again.
fn store_name(name: &str) {
    kept::keep(NAME_KEY, name);
}

/// The key in `sessionStorage` for what is filled in on this page.
fn draft_key() -> String {
    format!(
        "tidemark.share {}",
        window().location().pathname().unwrap_or_default()
    )
}

/// What was filled in before, in this tab; the defaults if there was nothing.
fn stored_draft() -> Draft {
    let draft = drafts::kept(&draft_key());
    draft
        .and_then(|draft| Draft::read(&draft))
        .unwrap_or_default()
}

fn store_draft(draft: &Draft) {
    drafts::keep(&draft_key(), &draft.write());
}

fn forget_draft() {
    drafts::forget(&draft_key());
}
