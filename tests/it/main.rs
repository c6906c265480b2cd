//! The end-to-end tests: one binary, one module per feature.

mod bench;
mod circles;
mod citations;
mod compare;
mod compare_page;
mod drill_down;
mod edges;
mod explore;
mod eyes;
mod folders;
mod front_page;
mod job_page;
mod live;
mod prune;
mod recipes;
mod recorded;
mod sessions;
mod setup;
mod sharing;
mod styles;
mod tables;
mod tabs;
mod team;
mod tidy;
mod truth;
mod units;
