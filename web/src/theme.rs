//! Light, dark, or like the system; remembered in this browser.

use crate::kept;
use leptos::prelude::document;
use presentation::theme::Theme;

/// The key in `localStorage`.
const KEY: &str = "tidemark.theme";

/// The stored choice; [`Theme::Auto`] if there is none, or if storage is not available.
pub fn stored() -> Theme {
    kept::read(KEY)
        .as_deref()
        .map(Theme::named)
        .unwrap_or_default()
}

/// Shows the page in `theme`. The style sheets do the rest.
pub fn apply(theme: Theme) {
    if let Some(root) = document().document_element() {
        // Fails only for a malformed attribute name.
        let _ = root.set_attribute("data-theme", theme.name());
    }
}

/// Remembers `theme`. Without storage (private windows) it lasts as long as the page.
pub fn store(theme: Theme) {
    kept::keep(KEY, theme.name());
}
