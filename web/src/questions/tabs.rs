//! The tabs of a run: only the picture, or the picture with an answer below it.

use super::Asker;
use super::alive_tab::AliveTab;
use super::allocations_tab::AllocationsTab;
use super::leaks_tab::LeaksTab;
use super::map_tab::MapTab;
use super::reveal::reveal;
use super::what_if_tab::WhatIfTab;
use crate::components::focus;
use crate::components::keys::{is_shortcut, on_key};
use crate::url_state::UrlState;
use api::view_state::{Tab, ViewState};
use leptos::prelude::*;
use presentation::questions::tabs::{after_key, all, id, shown, title};
use web_sys::KeyboardEvent;

/// The bar. Arrow keys move along it; the keys 1 to 6 work anywhere on the page.
#[component]
pub fn TabBar(
    view: UrlState<ViewState>,
    /// Without events, it has the tabs of a state alone.
    has_events: bool,
) -> impl IntoView {
    let state = view.state();
    let chosen = Memo::new(move |_| state.with(|s| shown(s.tab, has_events)));
    let choose = move |tab: Tab| {
        view.update(|state| state.tab = tab);
        if tab != Tab::Timeline {
            reveal();
        }
    };
    on_key(move |event| {
        let number = event.key().parse::<usize>().ok();
        let tab = number.and_then(|n| Tab::ALL.get(n.checked_sub(1)?).copied());
        let is_here = |tab: &Tab| is_shortcut(event) && all(has_events).contains(tab);
        if let Some(tab) = tab.filter(is_here) {
            choose(tab);
            let on_bar = document().query_selector(".tabs :focus");
            if on_bar.ok().flatten().is_some() {
                give_focus(tab);
            }
        }
    });
    let keys = move |event: KeyboardEvent| {
        if let Some(tab) = after_key(all(has_events), chosen.get_untracked(), &event.key()) {
            event.prevent_default();
            event.stop_propagation();
            choose(tab);
            give_focus(tab);
        }
    };
    let numbered = Tab::ALL.into_iter().enumerate();
    let tabs = numbered
        .filter(|(_, tab)| all(has_events).contains(tab))
        .map(|(at, tab)| {
            let selected = move || chosen.get() == tab;
            view! {
                <button
                    role="tab"
                    id=id(tab)
                    class="tab"
                    class:selected=selected
                    title=format!("{} ({})", title(tab), at + 1)
                    aria-selected=move || selected().to_string()
                    aria-controls="questions"
                    tabindex=move || if selected() { "0" } else { "-1" }
                    on:click=move |_| choose(tab)
                >
                    {title(tab)}
                </button>
            }
        });
    view! {
        <div class="tabs" role="tablist" aria-label="Questions" on:keydown=keys>
            {tabs.collect_view()}
        </div>
    }
}

fn give_focus(tab: Tab) {
    focus::give(&format!("#{}", id(tab)));
}

/// What is shown below the picture.
#[component]
pub fn Questions(asker: Asker) -> impl IntoView {
    let has_events = asker.has_events();
    let tab = asker.memo(move |state| shown(state.tab, has_events));
    let content = move || match tab.get() {
        Tab::Timeline => ().into_any(),
        Tab::Leaks => view! { <LeaksTab asker=asker/> }.into_any(),
        Tab::Alive => view! { <AliveTab asker=asker/> }.into_any(),
        Tab::Allocations => view! { <AllocationsTab asker=asker/> }.into_any(),
        Tab::Map => view! { <MapTab asker=asker/> }.into_any(),
        Tab::WhatIf => view! { <WhatIfTab asker=asker/> }.into_any(),
    };
    let hidden = move || tab.get() == Tab::Timeline;
    view! {
        <div
            id="questions"
            class="questions"
            role="tabpanel"
            aria-labelledby=move || id(tab.get())
            hidden=hidden
        >
            {content}
        </div>
    }
}
