//! The focus, where the control that had it goes away.

use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{FocusOptions, HtmlElement, ScrollIntoViewOptions, ScrollLogicalPosition};

/// Whether the focus is on no control.
pub fn is_nowhere() -> bool {
    is_on(&["BODY", "MAIN"])
}

fn is_on(places: &[&str]) -> bool {
    let focused = document().active_element();
    focused.is_none_or(|element| places.contains(&element.tag_name().as_str()))
}

/// Once the page has changed: scrolls just so far that an element is on the screen. It shows what
/// was chosen elsewhere.
pub fn show(selector: &'static str) {
    request_animation_frame(move || {
        if let Some(element) = document().query_selector(selector).ok().flatten() {
            let options = ScrollIntoViewOptions::new();
            options.set_block(ScrollLogicalPosition::Nearest);
            element.scroll_into_view_with_scroll_into_view_options(&options);
        }
    });
}

/// Once the page has changed: gives the focus to an element, if the control that had it is gone.
/// Otherwise the Tab key would begin at the top of the page again. Nothing scrolls.
pub fn rescue(selector: &'static str) {
    request_animation_frame(move || {
        if let Some(element) = found(selector).filter(|_| is_on(&["BODY"])) {
            let options = FocusOptions::new();
            options.set_prevent_scroll(true);
            // Fails only for an element that has left the page.
            let _ = element.focus_with_options(&options);
        }
    });
}

/// As [`rescue`], but what gets the focus is scrolled to.
pub fn rescue_at(selector: String) {
    request_animation_frame(move || {
        if is_nowhere() {
            give(&selector);
        }
    });
}

/// Gives the focus to the first element of this kind. Whether there is one.
pub fn give(selector: &str) -> bool {
    // Fails only for an element that has left the page.
    found(selector).is_some_and(|element| element.focus().is_ok())
}

fn found(selector: &str) -> Option<HtmlElement> {
    let element = document().query_selector(selector).ok().flatten();
    element.and_then(|found| found.dyn_into().ok())
}
