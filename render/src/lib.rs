//! Pictures and tables for places where there is no page: a scene as SVG and PNG, a trace as
//! Parquet and for Perfetto.
//!
//! Everything here goes from values to bytes. Equal inputs give equal bytes: there is no clock and
//! no system font. What is in a picture, and who may see it, the server decides.

mod parquet;
mod perfetto;
mod png;
mod svg;

pub use parquet::fleet::LeakOf;
pub use png::png;
pub use svg::svg;

use api::runs::RunSummary;
use api::timeline::TensorDetail;
use std::io::{self, Write};
use trace::trace::Trace;
use trace::units::{DeviceAddr, EventIdx};

/// What is known of the tensor in a block: asked with the event of its allocation, or with `None`
/// where that was before the recording, and with its address.
pub type Tensors<'t> = &'t dyn Fn(Option<EventIdx>, DeviceAddr) -> Option<TensorDetail>;

/// What the trace of a run is exported from.
#[derive(Clone, Copy)]
pub struct Source<'t> {
    /// Its trace.
    pub trace: &'t Trace,
    /// What the engine knows of its tensors.
    pub tensors: Option<Tensors<'t>>,
    /// Its name.
    pub name: &'t str,
}

/// Why a table was not written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the table: {0}")]
pub struct TableError(#[from] ::parquet::errors::ParquetError);

/// All allocations as a table, written as it is made.
///
/// # Errors
/// When `out` takes no more.
pub fn write_parquet(source: Source<'_>, out: impl Write + Send) -> Result<(), TableError> {
    parquet::allocations::write(source, out)
}

/// Runs as a table: a row for each device of each.
///
/// # Errors
/// When `out` takes no more.
pub fn write_runs(runs: &[RunSummary], out: impl Write + Send) -> Result<(), TableError> {
    parquet::fleet::write_runs(runs, out)
}

/// What accumulates in runs as a table: a row for each group.
///
/// # Errors
/// When `out` takes no more.
pub fn write_leaks(leaks: &[LeakOf], out: impl Write + Send) -> Result<(), TableError> {
    parquet::fleet::write_leaks(leaks, out)
}

/// Counters of the four series, steps, and the largest allocations, written as they are made.
///
/// # Errors
/// When `out` takes no more.
pub fn write_perfetto(source: Source<'_>, out: impl Write) -> io::Result<()> {
    perfetto::write(source, out)
}
