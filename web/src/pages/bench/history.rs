//! Earlier benches, one line each; the one on the page is marked.

use super::store::BenchStore;
use crate::clock::ticking;
use crate::components::icon::{Icon, IconView};
use crate::components::toasts::Toasts;
use crate::context::expect_context;
use crate::format::{self, UnixMillis};
use crate::pages::runs_store::Loaded;
use crate::url_state::UrlState;
use api::bench::{BenchSummary, DeviceKind};
use leptos::prelude::*;
use presentation::pages::bench::bench_state::BenchState;
use presentation::pages::bench::history::counts;
use std::time::Duration;

/// How often ages are updated.
const AGES_EVERY: Duration = Duration::from_secs(30);

/// The history, folded away; empty while there is at most one bench.
#[component]
pub fn History(view: UrlState<BenchState>) -> impl IntoView {
    let store: BenchStore = expect_context();
    let benches = Memo::new(move |_| {
        store.history().with(|history| match history {
            Loaded::Ready(benches) => benches.clone(),
            Loaded::Loading | Loaded::Failed(_) => Vec::new(),
        })
    });
    let now = ticking(AGES_EVERY);
    let several = move || benches.with(|benches| benches.len() > 1);
    let title = move || format!("{} benches", benches.with(Vec::len));
    let lines = move || {
        let line = |bench: BenchSummary| line(bench, view, store, now);
        benches.get().into_iter().map(line).collect_view()
    };
    view! {
        <Show when=several>
            <details class="bench-history">
                <summary>{title}</summary>
                <ul>{lines}</ul>
            </details>
        </Show>
    }
}

fn line(
    bench: BenchSummary,
    view: UrlState<BenchState>,
    store: BenchStore,
    now: ReadSignal<UnixMillis>,
) -> impl IntoView {
    let toasts: Toasts = expect_context();
    let created = UnixMillis(bench.created_ms);
    let id = bench.id.clone();
    let shown = {
        let id = id.clone();
        let shown = move |loaded: &Loaded<api::bench::Bench>| match loaded {
            Loaded::Ready(bench) => bench.id == id,
            Loaded::Loading | Loaded::Failed(_) => false,
        };
        Memo::new(move |_| store.bench().with(&shown))
    };
    let open = {
        let bench = Some(id.clone());
        move |_| {
            view.set(BenchState {
                bench: bench.clone(),
                ..BenchState::default()
            });
        }
    };
    let busy = bench.rows.unfinished() > 0;
    let remove = move |_| {
        store.delete(toasts, id.clone(), move || view.set(BenchState::default()));
    };
    let device = match bench.device {
        DeviceKind::Sim => "simulated",
        DeviceKind::Cuda => "GPU",
    };
    let configs = bench.configs.join(", ");
    view! {
        <li class:shown=shown>
            <button
                class="bench-history-line"
                aria-current=move || shown.get().then_some("true")
                on:click=open
            >
                <span class="bench-history-configs">{configs.clone()}</span>
                <span class="muted">{format!("{device} · {}", counts(bench.rows))}</span>
                <span class="muted" title=format::date_time(created)>
                    {move || format::age(created, now.get())}
                </span>
            </button>
            <button
                class="icon-button"
                prop:disabled=busy
                title="Remove from the history; its runs stay"
                aria-label=format!("Remove the bench of {configs}")
                on:click=remove
            >
                <IconView icon=Icon::Delete/>
            </button>
        </li>
    }
}
