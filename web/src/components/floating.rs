//! A `<details>` whose content lies over the page, like a menu. The browser closes it only where it
//! was opened; people expect that Escape, a click elsewhere and a choice close it too.

use crate::components::keys::is_shortcut;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{Element, Event, HtmlElement, Node};

/// Those that are open. Both classes are of elements that are drawn over the page.
const OPEN: &str = "details.export-menu[open], details.note[open]";

/// Closes them for the whole application. To be called before any page listens to keys, so that
/// Escape closes a menu and does nothing else.
pub fn close_when_left() {
    let outside = |event: Event| {
        let target = event.target().and_then(|target| target.dyn_into().ok());
        close(|menu| !menu.contains(target.as_ref()));
    };
    let _ = window_event_listener_untyped("pointerdown", outside);
    let _ = window_event_listener_untyped("focusin", outside);
    let _ = window_event_listener(leptos::ev::click, |event| {
        let target = event.target().and_then(|target| target.dyn_into().ok());
        let chosen = target.and_then(|t: Element| t.closest("details a").ok().flatten());
        if let Some(chosen) = chosen {
            focus(close(|menu| menu.contains(Some(&chosen))));
        }
    });
    let _ = window_event_listener(leptos::ev::keydown, |event| {
        if event.key() == "Escape" && is_shortcut(&event) && focus(close(|_| true)) {
            event.prevent_default();
        }
    });
}

/// Closes those that `is_left` names; the last of them.
fn close(is_left: impl Fn(&Node) -> bool) -> Option<Element> {
    let open = document().query_selector_all(OPEN).ok()?;
    let menus = (0..open.length()).filter_map(|at| open.get(at)?.dyn_into::<Element>().ok());
    let left = menus.filter(|menu| is_left(menu)).inspect(|menu| {
        // Fails only for names that are no names.
        let _ = menu.remove_attribute("open");
    });
    left.last()
}

/// Gives the focus to what opens a menu, since it may have been in what is hidden now. Whether
/// there is a menu.
fn focus(closed: Option<Element>) -> bool {
    let summary = closed
        .as_ref()
        .and_then(|menu| menu.query_selector("summary").ok()?);
    if let Some(summary) = summary.and_then(|summary| summary.dyn_into::<HtmlElement>().ok()) {
        // Fails only for an element that has left the page.
        let _ = summary.focus();
    }
    closed.is_some()
}
