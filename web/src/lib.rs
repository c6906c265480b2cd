//! The front end of Tidemark: client-side rendered, compiled to WebAssembly.
//!
//! It holds no state that must be kept. All data comes from the server through [`client`] and
//! [`events`], and everything that a link reopens is in the address ([`url_state`]). What the pages
//! show and say is in the crate `presentation`, with tests; this crate only connects it to the
//! page.
//!
//! Modules in reading order: the shell ([`app`], and [`context`]: what all components share), the
//! pages ([`pages`], and [`questions`] below a run's picture), the parts they share
//! ([`components`], [`timeline`], [`upload`]), what is open ([`project`], [`opened_link`]), and the
//! borders to the browser ([`client`], [`connection`], [`events`], [`turn`], [`paced`],
//! [`url_state`], [`kept`], [`theme`], [`numbers`], [`clock`]).

#![allow(
    missing_docs,
    reason = "the macro of a component makes fields that cannot be documented"
)]

mod app;
mod client;
mod clock;
mod components;
mod connection;
mod context;
mod events;
mod kept;
mod numbers;
mod opened_link;
mod paced;
mod pages;
mod project;
mod questions;
mod theme;
mod timeline;
mod turn;
mod upload;
mod url_state;

pub use ::timeline::format;

use leptos::prelude::*;
use wasm_bindgen::prelude::wasm_bindgen;

/// Puts the application on the page; the browser calls it when the module is loaded.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|info| {
        web_sys::console::error_1(&info.to_string().into());
    }));
    theme::apply(theme::stored());
    if let Ok(Some(note)) = document().query_selector(".starting") {
        note.remove();
    }
    mount_to_body(app::App);
}
