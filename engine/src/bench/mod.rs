//! The bench: configurations × patches, one row each.

mod base;
mod config;
mod copies;
mod grid;
mod hypothesis;
mod known;
mod patch;
mod row;
mod run;

pub use base::Base;
pub use config::{Config, Input, Provenance};
pub use copies::{CopyRow, CopySpec, CopyTable, CopyVariant, MeasuredStep, run_copies};
pub use grid::offloader_grid;
pub use hypothesis::judge as judge_hypothesis;
pub use known::known;
pub use patch::Patch;
pub use row::{Row, Table, slope};
pub use run::{
    CopyStream, RunSpec, StepFacts, open, outcomes, run, run_all, run_matrix, run_recorded,
    run_rows,
};
