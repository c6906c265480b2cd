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
        let found = document().query_selector(selector).ok().flatten();
        let element = found.filter(|_| is_on(&["BODY"]));
        if let Some(element) = element.and_then(|found| found.dyn_into::<HtmlElement>().ok()) {
            let options = FocusOptions::new();
            options.set_prevent_scroll(true);
            // Fails only for an element that has left the page.
            let _ = element.focus_with_options(&options);
        }
    });
}
