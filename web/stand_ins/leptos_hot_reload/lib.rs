//! The parts of `leptos_hot_reload` that `leptos` and its macros name. The page loads itself again
//! with `webbuild watch`, not with `cargo-leptos`.
#![forbid(unsafe_code)]

#[cfg(not(target_arch = "wasm32"))]
pub mod parsing;

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;

/// The script with which `cargo-leptos` replaces parts of a page: none.
pub const HOT_RELOAD_JS: &str = "";

/// A name for a view, which `cargo-leptos` finds again in the page. Only debug builds have it.
#[cfg(not(target_arch = "wasm32"))]
pub fn span_to_stable_id(file: impl AsRef<Path>, line: usize) -> String {
    format!("{}-{line}", file.as_ref().display()).replace(['/', '\\'], "-")
}
