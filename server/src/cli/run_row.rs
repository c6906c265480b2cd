//! `tidemark run-row` and `probe-card`: the child processes of a server; not for people.

use super::CliError;
use crate::bench::{probe_card, run_child};

/// What its help says.
pub const EXAMPLES: &str = "\
Examples:
  tidemark bench vl-qwen3.5-9b               runs rows from the command line";

/// Runs the row that stdin names.
///
/// # Errors
/// When stdin cannot be read, or the result cannot be written.
pub fn run_row() -> Result<(), CliError> {
    run_child().map_err(|why| CliError::Failed(format!("cannot run the row: {why}")))
}

/// Writes to stdout whether there is a card.
///
/// # Errors
/// When stdout cannot be written.
pub fn probe() -> Result<(), CliError> {
    probe_card().map_err(|why| CliError::Failed(format!("cannot say what was found: {why}")))
}
