//! The pages, one folder each.

pub mod bench;
pub mod runs;
