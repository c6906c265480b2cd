//! The pages, one folder each.

pub mod bench;
pub mod compare;
pub mod job;
pub mod run;
pub mod runs;
pub mod shared;
