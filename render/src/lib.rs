//! Pictures and tables for places without the page: a scene as SVG and PNG, a trace as Parquet and
//! for Perfetto.
//!
//! This crate turns values into bytes. Equal inputs give equal bytes: there is no clock and no
//! system font. The server decides what is in a picture, and who may see it.

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

/// Looks up what is known about the tensor in a block. It gets the event of the block's allocation
/// (`None` if that was before the recording) and the block's address.
pub type Tensors<'t> = &'t dyn Fn(Option<EventIdx>, DeviceAddr) -> Option<TensorDetail>;

/// The input of an export.
#[derive(Clone, Copy)]
pub struct Source<'t> {
    /// Its trace.
    pub trace: &'t Trace,
    /// What the engine knows about its tensors.
    pub tensors: Option<Tensors<'t>>,
    /// Its name.
    pub name: &'t str,
}

/// Why a table was not written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the table: {0}")]
pub struct TableError(#[from] ::parquet::errors::ParquetError);

/// Writes all allocations as a table, row group by row group.
///
/// # Errors
/// When `out` cannot be written.
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

/// Writes counters of the four series, steps, and the largest allocations, one after the other.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_perfetto(source: Source<'_>, out: impl Write) -> io::Result<()> {
    perfetto::write(source, out)
}
