//! The front end.

use leptos::prelude::*;
use wasm_bindgen::prelude::wasm_bindgen;

/// Puts the application on the page; the browser calls it when the module is loaded.
#[wasm_bindgen(start)]
pub fn start() {
    mount_to_body(|| view! { <main id="app"><h1>"Tidemark"</h1></main> });
}
