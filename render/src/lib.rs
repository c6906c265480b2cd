//! Pictures and tables for places without the page: a scene as SVG and PNG, a trace as Parquet and
//! for Perfetto.
//!
//! This crate turns values into bytes. Equal inputs give equal bytes: there is no clock and no
//! system font. The server decides what is in a picture, and who may see it.
//!
//! `svg` and `png` write a scene, `parquet` and `perfetto` a trace.

mod parquet;
mod perfetto;
mod png;
mod svg;

pub use parquet::fleet::LeakOf;
pub use png::png;
pub use svg::{memory_needed as svg_takes, svg};

use api::ids::RunId;
use api::runs::RunSummary;
use api::timeline::TensorDetail;
use std::fs::File;
use std::io::{self, Write};
use trace::trace::Trace;
use trace::units::{DeviceAddr, EventIdx};
use trace::watch::{Stopped, Watch};

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
    /// Which run it is: rows of several are told apart, and joined, by it.
    pub run: &'t RunId,
    /// Its name.
    pub name: &'t str,
}

/// Why a table or a trace was not written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The table cannot be written.
    #[error("cannot write the table: {0}")]
    Table(#[from] ::parquet::errors::ParquetError),
    /// The receiver takes no more.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
    /// The watch stopped it.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The longest name in an export, bytes.
const LONGEST_NAME: usize = 1024;
/// Frames of a stack in an export, the innermost.
const MOST_FRAMES: usize = 1200;
/// The longest stack in an export, bytes.
const LONGEST_STACK: usize = 256 << 10;

/// Writes all allocations as a table, row group by row group. `watch` learns what memory that
/// takes, and may stop it.
///
/// # Errors
/// When `out` cannot be written, or the watch stops it.
pub fn write_parquet(
    source: Source<'_>,
    watch: Watch<'_>,
    out: impl Write + Send,
) -> Result<(), TableError> {
    parquet::allocations::write(source, watch, out)
}

/// Whether a file has the columns that [`write_parquet`] gives. Those that an earlier version wrote
/// may have others.
pub fn is_of_this_version(file: File) -> bool {
    parquet::allocations::is_of_this_version(file)
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
/// When `out` cannot be written, or the watch stops it.
pub fn write_perfetto(
    source: Source<'_>,
    watch: Watch<'_>,
    out: impl Write,
) -> Result<(), TableError> {
    perfetto::write(source, watch, out)
}
