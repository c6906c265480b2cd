//! Links that were made before, with a button to revoke them.

use super::store_name;
use crate::client;
use crate::format::{self, UnixMillis};
use api::ids::{RunId, ShareId};
use api::problem::Problem;
use api::routes;
use api::shares::{Redaction, Share, ShareKind, ShareState};
use leptos::prelude::*;

/// The links to a run, newest first.
#[component]
pub fn Links(run: RunId, name: RwSignal<String>, changed: RwSignal<u32>) -> impl IntoView {
    let links = RwSignal::new(Vec::<Share>::new());
    let problem = RwSignal::new(None::<Problem>);
    Effect::new(move |_| {
        changed.track();
        let path = routes::shares_of(&run);
        leptos::task::spawn_local_scoped_with_cancellation(async move {
            match client::list(&path).await {
                Ok(found) => drop(links.try_set(found)),
                Err(failed) => drop(problem.try_set(Some(failed))),
            }
        });
    });
    let revoke = Callback::new(move |id: ShareId| {
        let by = name.get_untracked();
        store_name(&by);
        leptos::task::spawn_local(async move {
            let path = routes::revoke_share(&id, &by);
            match client::send::<Share>(client::Method::Delete, &path).await {
                Ok(_) => drop(changed.try_update(|n| *n += 1)),
                Err(failed) => drop(problem.try_set(Some(failed))),
            }
        });
    });
    let list = move || {
        let rows = links.get().into_iter();
        let rows: Vec<_> = rows
            .map(|share| view! { <LinkRow share=share revoke=revoke/> })
            .collect();
        (!rows.is_empty()).then(|| {
            view! {
                <section class="share-links" aria-label="Links to this run">
                    <h3>"Links to this run"</h3>
                    <ul>{rows}</ul>
                </section>
            }
        })
    };
    view! {
        <p class="bad-text" role="alert">{move || problem.get().map(|p| p.detail)}</p>
        {list}
    }
}

#[component]
fn LinkRow(share: Share, revoke: Callback<ShareId>) -> impl IntoView {
    let id = share.id.clone();
    let button = (share.state == ShareState::Active).then(|| {
        view! {
            <button class="link-button" on:click=move |_| revoke.run(id.clone())>"Revoke"</button>
        }
    });
    let note = (!share.note.is_empty()).then(|| view! { <strong>{share.note.clone()}</strong> });
    view! {
        <li class="share-entry" class:ended=share.state != ShareState::Active>
            <div>
                {note}
                <span>{what(&share)}</span>
                <span class="muted">{history(&share)}</span>
            </div>
            {button}
        </li>
    }
}

/// Kind and state of a link.
fn what(share: &Share) -> String {
    let kind = match (share.kind, share.redaction) {
        (ShareKind::Team, _) => "Team link",
        (ShareKind::Capability, Redaction::None) => "Link without login",
        (ShareKind::Capability, Redaction::Redacted) => "Link without login, redacted",
    };
    let when = |ms: Option<i64>| format::date_time(UnixMillis(ms.unwrap_or_default()));
    match share.state {
        ShareState::Active => match share.expires_ms {
            Some(end) => format!("{kind}, until {}", when(Some(end))),
            None => format!("{kind}, without end"),
        },
        ShareState::Expired => format!("{kind}, expired {}", when(share.expires_ms)),
        ShareState::Revoked => {
            let by = share.revoked_by.as_deref().unwrap_or_default();
            let by = if by.is_empty() {
                String::new()
            } else {
                format!(" by {by}")
            };
            format!("{kind}, revoked {}{by}", when(share.revoked_ms))
        }
    }
}

/// Who made it, and when it was last opened.
fn history(share: &Share) -> String {
    let date = |ms: i64| format::date_time(UnixMillis(ms));
    let made = match share.created_by.as_str() {
        "" => format!("made {}", date(share.created_ms)),
        who => format!("made {} by {who}", date(share.created_ms)),
    };
    match share.last_opened_ms {
        Some(opened) => format!("{made} · last opened {}", date(opened)),
        None => format!("{made} · never opened"),
    }
}
