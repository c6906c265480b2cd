//! Exports a run for other tools: PyTorch's own viewers, dataframes, Perfetto.
//!
//! Everything is written to a stream while it is made, so a large run needs no second copy in
//! memory. The crate `render` makes tables.

use crate::blobs::{BlobError, Blobs};
use crate::ingest::IngestError;
use crate::ingest::decompress::Decompressor;
use crate::limits::answering::Refused;
use crate::tensors::TensorTable;
use api::ids::RunId;
use render::{Source, Tensors, write_parquet, write_perfetto};
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use tokio::runtime::Handle;
use trace::trace::Trace;
use trace::watch::{Stopped, Watch};

/// What a run can be exported as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The snapshot that PyTorch wrote, or would have written.
    Pickle,
    /// A table of all allocations.
    Parquet,
    /// A trace for ui.perfetto.dev, and for Chrome's viewer.
    Perfetto,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 3] = [Format::Pickle, Format::Parquet, Format::Perfetto];

    /// Its public name.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Pickle => "pickle",
            Format::Parquet => "parquet",
            Format::Perfetto => "perfetto",
        }
    }

    /// The format with this name.
    pub fn called(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The ending of its files.
    pub const fn extension(self) -> &'static str {
        match self {
            Format::Pickle => "pickle",
            Format::Parquet => "parquet",
            Format::Perfetto => "perfetto.json",
        }
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Format::Pickle => "application/octet-stream",
            Format::Parquet => "application/vnd.apache.parquet",
            Format::Perfetto => "application/json",
        }
    }
}

/// Why a run was not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The receiver of the export takes no more data.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
    /// The uploaded bytes cannot be read.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// They cannot be unpacked.
    #[error(transparent)]
    Unpack(#[from] IngestError),
    /// The table cannot be written.
    #[error(transparent)]
    Table(#[from] render::TableError),
    /// It needs more memory or time than it may have, or nobody waits for it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Its watch stopped it.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// There is no pickle of it.
    #[error(
        "this run was uploaded as JSON or HTML, there is no pickle of it; it can be exported as \
         parquet and perfetto"
    )]
    NoPickle,
}

/// Writes the unpacked snapshot from the blob store. Must be called on a blocking thread.
///
/// # Errors
/// When the blob cannot be read or unpacked, `out` takes no more data, or the watch stops it.
pub fn write_snapshot(
    blobs: &Blobs,
    runtime: &Handle,
    hash: &str,
    watch: Watch<'_>,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let mut unpack = Unpacking::default();
    blobs.read(runtime, hash, |piece| unpack.push(piece, watch, out))?;
    unpack.finish(out)
}

/// Unpacks a snapshot while it is written out.
#[derive(Default)]
pub struct Unpacking {
    unpack: Decompressor,
}

impl Unpacking {
    /// Takes a piece of the file. `watch` learns what memory unpacking takes: a few bytes may ask
    /// for a window of 128 MiB.
    ///
    /// # Errors
    /// When it cannot be unpacked, `out` takes no more, or the watch stops it.
    pub fn push(
        &mut self,
        piece: &[u8],
        watch: Watch<'_>,
        out: &mut impl Write,
    ) -> Result<(), ExportError> {
        let held = self.unpack.held();
        self.unpack.push(piece, &mut |bytes| {
            watch.look(held.load(Ordering::Relaxed))?;
            taken(out.write_all(bytes))
        })
    }

    /// Ends the file.
    ///
    /// # Errors
    /// When it ended too early, or `out` takes no more.
    pub fn finish(mut self, out: &mut impl Write) -> Result<(), ExportError> {
        self.unpack
            .finish(&mut |bytes| taken(out.write_all(bytes)))?;
        Ok(out.flush()?)
    }
}

fn taken(written: io::Result<()>) -> Result<(), ExportError> {
    Ok(written?)
}

impl From<crate::ingest::decompress::DecompressError> for ExportError {
    fn from(error: crate::ingest::decompress::DecompressError) -> ExportError {
        ExportError::Unpack(error.into())
    }
}

/// Writes a format that is made from the trace.
///
/// # Errors
/// When `out` takes no more, or the watch stops it.
pub fn write_trace(
    format: Format,
    trace: &Trace,
    tensors: Option<&TensorTable>,
    run: &RunId,
    name: &str,
    watch: Watch<'_>,
    out: &mut (impl Write + Send),
) -> Result<(), ExportError> {
    let find = tensors.map(|table| |alloc, addr| table.find(alloc, addr));
    let source = Source {
        trace,
        tensors: find.as_ref().map(|find| find as Tensors<'_>),
        run,
        name,
    };
    match format {
        Format::Parquet => Ok(write_parquet(source, watch, out)?),
        Format::Pickle | Format::Perfetto => Ok(write_perfetto(source, watch, out)?),
    }
}

/// A name that every file system accepts, made of the name of a run; `None` if nothing of that is
/// left.
pub fn file_name(run: &str, format: Format) -> Option<String> {
    let stem = run.trim_end_matches(".zst").trim_end_matches(".gz");
    let stem = stem.trim_end_matches(".pickle").trim_end_matches(".pkl");
    let kept = |c: char| match c {
        c if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+') => c,
        _ => '_',
    };
    let mut name: String = stem.chars().take(120).map(kept).collect();
    while name.contains("__") {
        name = name.replace("__", "_");
    }
    let name = name.trim_matches(['_', '.']);
    (!name.is_empty()).then(|| format!("{name}.{}", format.extension()))
}

/// The same, or the run's id, as the name.
pub fn file_name_of(name: &str, run: &RunId, format: Format) -> String {
    let by_id = || format!("{run}.{}", format.extension());
    file_name(name, format).unwrap_or_else(by_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_keeps_what_every_system_takes() {
        let check = |run: &str, expected: &str| {
            let id = "run_7Kq".parse().unwrap();
            assert_eq!(file_name_of(run, &id, Format::Perfetto), expected, "{run}");
        };
        check(
            "vl-qwen3.5-9b · P3 + key",
            "vl-qwen3.5-9b_P3_+_key.perfetto.json",
        );
        check("a.pickle.zst", "a.perfetto.json");
        check("../../etc/passwd", "etc_passwd.perfetto.json");
        // A file without a name would be a hidden one.
        for nothing_left in ["训练.pickle", "基准测试.pickle.zst", "..", "", "?.gz"] {
            check(nothing_left, "run_7Kq.perfetto.json");
        }
        check("训练 3.pickle", "3.perfetto.json");
    }

    #[test]
    fn formats_are_called_by_their_names() {
        for format in Format::ALL {
            assert_eq!(Format::called(format.name()), Some(format));
        }
        assert_eq!(Format::called("docx"), None);
    }
}
