//! The pages, one folder each.

pub mod bench;
pub mod compare;
pub mod run;
pub mod runs;
pub mod shared;
