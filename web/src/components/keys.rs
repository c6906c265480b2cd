//! Which key press means what outside of text fields.

use leptos::prelude::*;
use presentation::components::keys::takes_text;
use wasm_bindgen::JsCast;
use web_sys::{Element, KeyboardEvent};

/// Whether a press is a shortcut: no modifier is held, no text field has the focus, nothing else
/// has taken it, and no dialog lies over what it would change.
pub fn is_shortcut(event: &KeyboardEvent) -> bool {
    !event.default_prevented() && !dialog_is_open() && is_plain(event)
}

/// Whether no modifier is held and no text field has the focus.
pub fn is_plain(event: &KeyboardEvent) -> bool {
    let held = event.ctrl_key() || event.meta_key() || event.alt_key();
    let target = event
        .target()
        .and_then(|target| target.dyn_into::<Element>().ok());
    !held && !target.is_some_and(|element| takes_text(&element.tag_name()))
}

/// Listens for presses on the whole page until the owner is cleaned up.
pub fn on_key(react: impl Fn(&KeyboardEvent) + 'static) {
    let handle = window_event_listener(leptos::ev::keydown, move |event| react(&event));
    on_cleanup(move || handle.remove());
}

/// Whether a dialog is open: it takes the keys.
fn dialog_is_open() -> bool {
    let open = document().query_selector("dialog[open]");
    open.ok().flatten().is_some()
}
