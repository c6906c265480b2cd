//! The focus on a row of the list: on the link with its name.

use crate::components::focus::give;
use leptos::prelude::*;
use std::time::Duration;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement};

/// The links of the rows, in order.
fn links() -> impl Iterator<Item = HtmlElement> {
    let links = document().query_selector_all(".runs .run-link").ok();
    let length = links.as_ref().map_or(0, |links| links.length());
    let links = move |at| links.as_ref()?.get(at)?.dyn_into().ok();
    (0..length).filter_map(links)
}

/// Position of the row that has the focus.
pub fn focused_row() -> Option<u32> {
    let row = document().active_element()?.closest("tr").ok().flatten()?;
    position(&row)
}

/// Position of a row.
pub fn position(row: &Element) -> Option<u32> {
    let at = links().position(|link| row.contains(Some(&link)))?;
    u32::try_from(at).ok()
}

/// Gives the focus to the row at a position, or to the last one; if there is none, to the filter,
/// or to the page.
pub fn focus_row(at: u32) {
    let link = links().take(at.saturating_add(1) as usize).last();
    // Fails only for an element that has left the page.
    let has_it = link.is_some_and(|link| link.focus().is_ok());
    let _ = has_it || give(".search input") || give("#main");
}

/// As [`focus_row`], once the rows are there: the row that takes the place of a deleted one gets
/// the focus.
pub fn focus_soon(at: u32) {
    set_timeout(move || focus_row(at), Duration::ZERO);
}
