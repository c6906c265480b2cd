//! Runs that were deleted and can still be restored.

use crate::client;
use crate::clock::ticking;
use crate::components::focus::rescue;
use crate::components::permits::may_manage;
use crate::components::toasts::Toasts;
use crate::context::expect_context;
use crate::format::{self, UnixMillis};
use crate::pages::runs_store::RunsStore;
use api::ids::RunId;
use api::routes;
use api::runs::RunSummary;
use leptos::prelude::*;
use std::time::Duration;

/// How often they are read again while there are some: they go for good at some time.
const READ_EVERY: Duration = Duration::from_secs(60);

/// The runs, folded away; empty if there are none, and for those who may not restore them.
#[component]
pub fn RecentlyDeleted() -> impl IntoView {
    let (store, toasts): (RunsStore, Toasts) = (expect_context(), expect_context());
    let deleted = RwSignal::new(Vec::<RunSummary>::new());
    let is_any = Memo::new(move |_| deleted.with(|runs| !runs.is_empty()));
    let now = ticking(READ_EVERY);
    // The store says that it is whole after each reading, also if the list is the same.
    Effect::new(move |_| {
        if is_any.get() {
            now.track();
        }
        // A hidden tab is told to read the runs when it is seen again, and then this.
        if !store.is_whole() || !may_manage() || document().hidden() {
            return;
        }
        leptos::task::spawn_local_scoped_with_cancellation(async move {
            // If the server does not answer, another part of the page says so.
            if let Ok(listed) = client::list::<RunSummary>(routes::DELETED_RUNS).await
                && deleted.try_get_untracked().is_some_and(|old| old != listed)
            {
                let _ = deleted.try_set(listed);
            }
        });
    });
    let restore = move |runs: Vec<RunId>| {
        deleted.update(|left| left.retain(|run| !runs.contains(&run.id)));
        rescue(".runs-deleted summary");
        rescue("#main");
        store.restore_all(toasts, runs);
    };
    let all = move |_| restore(deleted.with_untracked(|runs| ids(runs)));
    let title = move || format!("Recently deleted ({})", deleted.with(Vec::len));
    let rows = move || {
        let row = move |run: RunSummary| {
            let at = UnixMillis(run.deleted_ms.unwrap_or_default());
            let restored = run.id;
            view! {
                <li>
                    <span>{run.name.clone()}</span>
                    <span class="muted">{format::date_time(at)}</span>
                    <button
                        class="button"
                        aria-label=format!("Restore {}", run.name)
                        on:click=move |_| restore(vec![restored.clone()])
                    >
                        "Restore"
                    </button>
                </li>
            }
        };
        deleted.get().into_iter().map(row).collect_view()
    };
    let list = move || {
        view! {
            <details class="runs-deleted">
                <summary>{title}</summary>
                <ul>{rows}</ul>
                <button class="button" on:click=all>"Restore all"</button>
            </details>
        }
    };
    move || is_any.get().then(list)
}

fn ids(runs: &[RunSummary]) -> Vec<RunId> {
    runs.iter().map(|run| run.id.clone()).collect()
}
