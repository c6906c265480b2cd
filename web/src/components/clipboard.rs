//! The clipboard, if the browser allows it on this page.

use js_sys::Promise;
use leptos::prelude::window;

/// Starts to put a text there; the promise ends when that is done. `None` if there is no clipboard:
/// the page is neither on localhost nor on HTTPS.
pub fn put(text: &str) -> Option<Promise> {
    let clipboard = window().navigator().clipboard();
    (!clipboard.is_undefined()).then(|| clipboard.write_text(text))
}
