//! Links that were made before, with a button to revoke them.

use super::store_name;
use crate::client;
use crate::components::focus::rescue;
use crate::components::problem_note::told;
use api::ids::{RunId, ShareId};
use api::problem::Problem;
use api::routes;
use api::shares::{CreatedShare, Share, ShareState};
use leptos::prelude::*;
use presentation::components::share::{history, what};

/// The links to a run, newest first.
#[component]
pub fn Links(
    title: &'static str,
    run: RunId,
    name: RwSignal<String>,
    changed: RwSignal<u32>,
    made: RwSignal<Option<CreatedShare>>,
) -> impl IntoView {
    let links = RwSignal::new(Vec::<Share>::new());
    let problem = RwSignal::new(None::<Problem>);
    Effect::new(move |_| {
        changed.track();
        let path = routes::shares_of(&run);
        leptos::task::spawn_local_scoped_with_cancellation(async move {
            match client::list(&path).await {
                Ok(found) => {
                    let _ = links.try_set(found);
                    // A link that was revoked has no button any more.
                    rescue(".share-links");
                }
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
                Ok(_) => {
                    let _ = changed.try_update(|n| *n += 1);
                    // A link that opens nothing must not be copied.
                    let _ = made.try_update(|made| {
                        made.take_if(|made| made.share.id == id);
                    });
                }
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
                <section class="share-links" aria-label=title tabindex="-1">
                    <h3>{title}</h3>
                    <ul>{rows}</ul>
                </section>
            }
        })
    };
    view! {
        <p class="bad-text" role="alert">{move || problem.get().map(told)}</p>
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
