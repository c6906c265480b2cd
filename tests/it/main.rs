//! The end-to-end tests: one binary, one module per feature.

mod bench;
mod compare;
mod compare_page;
mod drill_down;
mod explore;
mod front_page;
mod recipes;
mod setup;
mod sharing;
mod tidy;
mod truth;
