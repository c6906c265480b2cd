//! What this browser keeps of its reader's choices, under a name.

use leptos::prelude::window;

/// What was kept; `None` if there is nothing, or if storage is not available.
pub fn read(name: &str) -> Option<String> {
    let storage = window().local_storage().ok().flatten()?;
    storage.get_item(name).ok().flatten()
}

/// Keeps a text. Without storage (private windows) it lasts as long as the page.
pub fn keep(name: &str, text: &str) {
    if let Ok(Some(storage)) = window().local_storage() {
        let _ = storage.set_item(name, text);
    }
}
