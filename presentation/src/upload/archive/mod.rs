//! Archives of snapshots: which bytes are which file.

pub mod tar;
pub mod zip;
