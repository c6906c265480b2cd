//! The bench: systems × patches, one row each.

mod copies;
mod devices;
mod frontier;
mod grid;
mod hypothesis;
mod known;
mod many;
#[cfg(test)]
mod oracle;
mod row;
mod run;
mod spec;
mod table;
mod timing;

pub use copies::{CopyRow, CopySpec, CopyTable, CopyVariant, MeasuredStep, run_copies};
pub use devices::{HostRow, hosts, on_devices};
pub use frontier::{FrontierSpec, FrontierTable, frontier, run_frontier, run_frontiers};
pub use grid::offloader_grid;
pub use many::{outcomes, run_all, run_matrix, run_rows};
pub use row::{Beside, Row};
pub use run::{open, run, run_recorded};
pub use spec::{CopyStream, RunSpec};
pub use table::Table;
