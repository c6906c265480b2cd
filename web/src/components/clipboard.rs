//! The clipboard, where the browser has one for the page.

use js_sys::Promise;
use leptos::prelude::window;

/// Begins to put a text there, and promises to have done so. `None` where there is no clipboard:
/// the page is neither on localhost nor on HTTPS.
pub fn put(text: &str) -> Option<Promise> {
    let clipboard = window().navigator().clipboard();
    (!clipboard.is_undefined()).then(|| clipboard.write_text(text))
}
