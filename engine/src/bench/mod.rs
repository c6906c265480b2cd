//! The bench: configurations × patches, one row each.

mod config;
mod copies;
mod known;
mod patch;
mod row;
mod run;

pub use config::{Config, Input, Provenance};
pub use copies::{CopyRow, CopySpec, CopyTable, CopyVariant, MeasuredStep, run_copies};
pub use known::{Known, measured_row, published};
pub use patch::Patch;
pub use row::{Row, Status, Table, slope};
pub use run::{
    RunSpec, StepFacts, open, run, run_all, run_matrix, run_recorded, run_rows, verdict,
};
