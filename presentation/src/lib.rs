//! What the pages show and say, as plain Rust: no browser, no components.
//!
//! Each module stands beside the part of `web` that puts it on the page, in a folder with the same
//! name. It says which words, numbers, places and rows there are, and what a key, a click or a
//! typed text means; `web` draws that and listens. All of it has native tests.
//!
//! In reading order: the pages ([`pages`]), the answers below a run's picture ([`questions`]), the
//! hands on the picture ([`timeline`]), files on their way ([`upload`]), what they share
//! ([`components`], [`letters`], [`query`]), and the words of the server ([`objects`]).

pub mod components;
pub mod letters;
pub mod objects;
pub mod pages;
pub mod query;
pub mod questions;
pub mod timeline;
pub mod upload;
