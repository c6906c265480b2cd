//! The bench: configurations × patches, one row each.

mod config;
mod known;
mod patch;
mod row;
mod run;

pub use config::{Config, Input, Provenance};
pub use known::{Known, measured_row, published};
pub use patch::Patch;
pub use row::{Row, Status, Table, slope};
pub use run::{RunSpec, StepFacts, run, run_all, run_matrix, run_recorded, run_rows, verdict};
