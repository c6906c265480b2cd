//! The list of runs.

pub mod list_state;
pub mod table;
