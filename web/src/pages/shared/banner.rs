//! The strip that tells with which kind of link the page was opened.

use api::shares::{Redaction, Share};
use leptos::prelude::*;
use presentation::pages::shared::banner::sentence;

/// The strip.
#[component]
pub fn LinkBanner(share: Share) -> impl IntoView {
    let text = sentence(&share);
    let note = (!share.note.is_empty())
        .then(|| view! { <span class="link-banner-note">{share.note.clone()}</span> });
    let redacted = share.redaction == Redaction::Redacted;
    view! {
        <p class="link-banner" class:redacted=redacted role="status">
            <span>{text}</span>
            {note}
        </p>
    }
}
