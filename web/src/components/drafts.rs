//! What was typed and did not arrive: kept in this tab (`sessionStorage`), because a session may
//! end before it is sent. Without storage it must be typed again.

use leptos::prelude::window;
use web_sys::Storage;

fn storage() -> Option<Storage> {
    window().session_storage().ok().flatten()
}

/// What was kept under a key.
pub fn kept(key: &str) -> Option<String> {
    storage()?.get_item(key).ok().flatten()
}

/// Keeps a text.
pub fn keep(key: &str, text: &str) {
    if let Some(storage) = storage() {
        let _ = storage.set_item(key, text);
    }
}

/// Forgets what was kept: it arrived, or nobody wants it any more.
pub fn forget(key: &str) {
    if let Some(storage) = storage() {
        let _ = storage.remove_item(key);
    }
}
