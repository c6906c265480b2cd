//! What the pages show and say, as plain Rust: no browser, no components.
//!
//! Each module stands beside the part of `web` that puts it on the page, in a folder with the same
//! name. It says which words, numbers, places and rows there are, and what a key, a click or a
//! typed text means; `web` draws that and listens. All of it has native tests.
//!
//! In reading order: the pages ([`pages`]), the answers below a run's picture ([`questions`]), the
//! picture's keys and panel ([`timeline`]), files on their way ([`upload`]), what these share
//! ([`components`], [`letters`], [`theme`]), the address ([`query`]), and what the server says
//! ([`json`], [`response`], [`events`], [`connection`]) and how often it is asked ([`pace`]).

pub mod components;
pub mod connection;
pub mod events;
pub mod json;
pub mod letters;
pub mod pace;
pub mod pages;
pub mod query;
pub mod questions;
pub mod response;
pub mod theme;
pub mod timeline;
pub mod upload;
