//! The end-to-end tests: one binary, one module per feature.

mod bench;
mod explore;
mod front_page;
mod setup;
mod tidy;
mod truth;
