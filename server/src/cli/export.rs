//! `tidemark export`: hand a trace to other tools.

use super::files;
use super::output::{json, print};
use super::progress::Shown;
use super::reading::{read_from, shown};
use super::remote::{Remote, RemoteArgs};
use super::written::{Target, Written};
use super::{CliError, whose};
use crate::blobs::Blobs;
use crate::export::{
    ExportError, Format, Unpacking, file_name, file_name_of, write_snapshot, write_trace,
};
use crate::identity::run_id;
use crate::pictures::decode;
use crate::store::Store;
use crate::system::data_folder::{BLOBS, DATABASE};
use crate::tensors::{self, TensorTable};
use api::ids::RunId;
use api::routes;
use clap::{Args, ValueEnum};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use trace::snapshot::Snapshot;
use trace::watch::Watch;

const EXAMPLES: &str = "\
Examples:
  tidemark export snapshot.pickle --format perfetto         for ui.perfetto.dev
  tidemark export run_7Kq… --format pickle -o run.pickle    from the dashboard at 127.0.0.1:7878
  tidemark export run_7Kq… --data tidemark-data --format parquet -o - | duckdb …

pickle is a snapshot as PyTorch writes it: of an upload what was uploaded, unpacked; of an engine
run its recorded steps. parquet is a table of all allocations. perfetto holds counters of the four
series, steps, and the largest 30000 allocations of each device; it says what was left out.";

/// Bytes read from a file at once.
const PIECE: usize = 1 << 20;

/// Options of `tidemark export`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// A snapshot file, or the id of a run
    #[arg(value_name = "RUN")]
    run: String,
    /// What to write
    #[arg(long, value_enum)]
    format: As,
    /// Where to; a file that is there is replaced; `-` is the standard output [default: a new file
    /// in this folder, named by the run]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON document about the file on the standard output: {"file", "bytes"}
    #[arg(long)]
    json: bool,
    /// Take the run from this data folder, and ask no server
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// The formats under their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum As {
    Pickle,
    Parquet,
    Perfetto,
}

impl As {
    const fn format(self) -> Format {
        match self {
            As::Pickle => Format::Pickle,
            As::Parquet => Format::Parquet,
            As::Perfetto => Format::Perfetto,
        }
    }
}

/// Writes the export.
///
/// # Errors
/// When the run cannot be read or the file cannot be written.
pub fn export(args: &ExportArgs) -> Result<(), CliError> {
    let path = Path::new(&args.run);
    match (args.run.parse::<RunId>(), path.exists(), &args.data) {
        (_, true, _) => of_file(args, path),
        (Ok(id), false, Some(data)) => of_data(args, &id, data),
        (Ok(id), false, None) => of_server(args, &id),
        (Err(_), false, _) => Err(CliError::Usage(format!(
            "`{}` is neither a file nor a run id such as run_7Kq",
            args.run
        ))),
    }
    .and_then(|written| told(args, &written))
}

fn of_file(args: &ExportArgs, path: &Path) -> Result<Written, CliError> {
    let bad = |why: String| CliError::BadInput {
        path: path.to_owned(),
        why,
    };
    let format = args.format.format();
    let name = path.file_name().unwrap_or(path.as_os_str());
    let name = name.to_string_lossy().into_owned();
    let default = match file_name(&name, format) {
        Some(default) => default,
        None => file_name_of(&name, &files::run_of(path).map_err(bad)?, format),
    };
    let target = target(args, &default, &[path])?;
    let (snapshot, run) = hashed(path).map_err(bad)?;
    if format != Format::Pickle {
        let trace = trace::replay::run(snapshot);
        return target
            .write(|out| write_trace(format, &trace, None, &run, &name, Watch::nobody(), out));
    }
    if snapshot.pickle_protocol.is_none() {
        let why = "it is JSON or HTML, there is no pickle of it; it can be exported as parquet and \
                   perfetto";
        return Err(bad(why.to_owned()));
    }
    drop(snapshot);
    let file = files::open(path).map_err(bad)?;
    target.write(|out| {
        let mut unpack = Unpacking::default();
        for piece in pieces(file) {
            unpack.push(&piece?, Watch::nobody(), out)?;
        }
        unpack.finish(out)
    })
}

/// What a file holds, and the id that its run has wherever it is sent to.
fn hashed(path: &Path) -> Result<(Snapshot, RunId), String> {
    let mut file = shown(path)?;
    let mut hasher = blake3::Hasher::new();
    let snapshot = read_from(Box::new(Hashing {
        file: &mut file,
        hasher: &mut hasher,
    }))?;
    // What follows the snapshot counts, too.
    let rest = io::copy(&mut file, &mut hasher);
    rest.map_err(|error| format!("cannot read it: {error}"))?;
    Ok((snapshot, run_id(&hasher.finalize())))
}

/// A file whose bytes are hashed while they are read.
struct Hashing<'h> {
    file: &'h mut Shown,
    hasher: &'h mut blake3::Hasher,
}

impl Read for Hashing<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let filled = self.file.read(to)?;
        self.hasher.update(&to[..filled]);
        Ok(filled)
    }
}

fn of_data(args: &ExportArgs, id: &RunId, data: &Path) -> Result<Written, CliError> {
    let failed = |error: &dyn std::fmt::Display| CliError::Failed(error.to_string());
    let database = data.join(DATABASE);
    if !whose::has_database(data)? {
        let why = "it is not a data folder of tidemark".to_owned();
        let path = data.to_owned();
        return Err(CliError::BadInput { path, why });
    }
    whose::check(data)?;
    let store = Store::open(&database).map_err(|error| failed(&error))?;
    let read = store.read_now(|reader| {
        let at = reader.run_ref(id)?;
        Ok((reader.run(id)?, reader.chunks(at.trace)?))
    });
    let (row, chunks) = read.map_err(|error| failed(&error))?;
    let format = args.format.format();
    let default = file_name_of(&row.name, id, format);
    let target = target(args, &default, &[&database, &data.join(BLOBS)])?;
    if format == Format::Pickle {
        if row.pickle_protocol.is_none() {
            return Err(failed(&ExportError::NoPickle));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(&error))?;
        let blobs = Blobs::folder(&data.join(BLOBS)).map_err(|error| failed(&error))?;
        return target.write(|out| {
            write_snapshot(&blobs, runtime.handle(), &row.blob, Watch::nobody(), out)
        });
    }
    let trace = decode(chunks).map_err(|error| failed(&error))?;
    let packed = store.read_now(|reader| reader.tensor_columns(id, tensors::VERSION));
    let packed = packed.map_err(|error| failed(&error))?;
    let table = packed
        .map(|packed| TensorTable::unpack(&packed))
        .transpose();
    let table = table.map_err(|error| failed(&error))?;
    target.write(|out| {
        write_trace(
            format,
            &trace,
            table.as_ref(),
            id,
            &row.name,
            Watch::nobody(),
            out,
        )
    })
}

fn of_server(args: &ExportArgs, id: &RunId) -> Result<Written, CliError> {
    let format = args.format.format();
    let target = target(args, &file_name_of(id.as_str(), id, format), &[])?;
    let path = routes::run_export(id, format.name());
    let mut body = Remote::new(&args.remote)?.open(&path)?;
    target.write(|out| -> Result<(), ExportError> {
        io::copy(&mut body, out)?;
        Ok(())
    })
}

/// Where the export goes, when these are read; without `--output` to the default.
fn target(args: &ExportArgs, default: &str, inputs: &[&Path]) -> Result<Target, CliError> {
    let target = Target::find(args.output.as_deref(), default, inputs)?;
    match args.json && target.is_stdout() {
        true => Err(CliError::Usage(
            "--json prints about the file on the standard output: name a file with --output"
                .to_owned(),
        )),
        false => Ok(target),
    }
}

/// Says on stderr what was written, or prints a document about it.
fn told(args: &ExportArgs, written: &Written) -> Result<(), CliError> {
    match (args.json, written) {
        (true, written) => print(&json(written)),
        (false, Written { bytes: None, .. }) => Ok(()),
        (false, Written { file, .. }) => {
            // Fails only if nobody reads stderr any more.
            let _ = writeln!(io::stderr(), "wrote {file}");
            Ok(())
        }
    }
}

/// The bytes of a file, piece by piece.
fn pieces(mut file: File) -> impl Iterator<Item = io::Result<Vec<u8>>> {
    std::iter::from_fn(move || {
        let mut piece = Vec::with_capacity(PIECE);
        let taken = Read::by_ref(&mut file).take(PIECE as u64);
        match { taken }.read_to_end(&mut piece) {
            Ok(0) => None,
            Ok(_) => Some(Ok(piece)),
            Err(error) => Some(Err(error)),
        }
    })
}
