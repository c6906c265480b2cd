//! The pages, one module each.

pub mod bench;
pub mod compare;
pub mod job;
pub mod not_found;
pub mod run;
pub mod runs;
pub mod runs_store;
pub mod shared;
