//! `tidemark export`: hand a trace to other tools.

use super::{CliError, whose};
use crate::blobs::Blobs;
use crate::data_folder::{BLOBS, DATABASE};
use crate::export::{ExportError, Format, Unpacking, file_name, write_snapshot, write_trace};
use crate::ingest::parse;
use crate::store::Store;
use crate::tensors::{self, TensorTable};
use api::ids::RunId;
use api::problem::Problem;
use api::routes;
use clap::{Args, ValueEnum};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use ureq::Agent;

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
    /// Where to; `-` is the standard output [default: a file in this folder, named by the run]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Take the run from this data folder, without a server
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    data: Option<PathBuf>,
    /// Take the run from this dashboard
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEMARK_SERVER",
        default_value = "http://127.0.0.1:7878"
    )]
    server: String,
    /// Its access token; prefer the variable, since others can read command lines
    #[arg(long, env = "TIDEMARK_TOKEN", hide_env_values = true)]
    token: Option<String>,
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
}

fn of_file(args: &ExportArgs, path: &Path) -> Result<(), CliError> {
    let bad = |why: String| CliError::BadInput {
        path: path.to_owned(),
        why,
    };
    let open = || File::open(path).map_err(|error| bad(format!("cannot open it: {error}")));
    let format = args.format.format();
    let name = path.file_name().unwrap_or(path.as_os_str());
    let name = name.to_string_lossy().into_owned();
    let snapshot = parse(pieces(open()?), &AtomicU64::new(0));
    let snapshot = snapshot.map_err(|error| bad(error.to_string()))?;
    let file = open()?;
    write_to(args, &name, |out| {
        if format == Format::Pickle {
            if snapshot.pickle_protocol.is_none() {
                return Err(ExportError::NoPickle);
            }
            let mut unpack = Unpacking::default();
            for piece in pieces(file) {
                unpack.push(&piece, out)?;
            }
            return unpack.finish(out);
        }
        let trace = trace::replay::run(snapshot);
        write_trace(format, &trace, None, &name, out)
    })
}

fn of_data(args: &ExportArgs, id: &RunId, data: &Path) -> Result<(), CliError> {
    let failed = |error: &dyn std::fmt::Display| CliError::Failed(error.to_string());
    let database = data.join(DATABASE);
    if !database.is_file() {
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
    if format == Format::Pickle {
        if row.pickle_protocol.is_none() {
            return Err(failed(&ExportError::NoPickle));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(&error))?;
        let blobs = Blobs::folder(&data.join(BLOBS)).map_err(|error| failed(&error))?;
        return write_to(args, &row.name, |out| {
            write_snapshot(&blobs, runtime.handle(), &row.blob, out)
        });
    }
    let trace = trace::stored::decode(chunks).map_err(|error| failed(&error))?;
    let packed = store.read_now(|reader| reader.tensor_columns(id, tensors::VERSION));
    let packed = packed.map_err(|error| failed(&error))?;
    let table = packed
        .map(|packed| TensorTable::unpack(&packed))
        .transpose();
    let table = table.map_err(|error| failed(&error))?;
    write_to(args, &row.name, |out| {
        write_trace(format, &trace, table.as_ref(), &row.name, out)
    })
}

fn of_server(args: &ExportArgs, id: &RunId) -> Result<(), CliError> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(Duration::from_secs(10)))
        .user_agent(concat!("tidemark/", env!("CARGO_PKG_VERSION")));
    let agent = config.build().new_agent();
    let server = args.server.trim_end_matches('/');
    let format = args.format.format();
    let path = routes::run_export(id, format.name());
    let mut request = agent.get(format!("{server}{path}"));
    if let Some(token) = &args.token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let unreachable = |error| CliError::Failed(format!("cannot reach {server}: {error}"));
    let mut answer = request.call().map_err(unreachable)?;
    if !answer.status().is_success() {
        let status = answer.status();
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        return Err(CliError::Failed(
            match serde_json::from_str::<Problem>(&text) {
                Ok(problem) => format!("{}: {}", problem.title, problem.detail),
                Err(_) => format!("the server answered {status} without a reason"),
            },
        ));
    }
    let body = answer.into_body();
    write_to(args, id.as_str(), |out| {
        io::copy(&mut body.into_reader(), out)?;
        Ok(())
    })
}

/// Writes to the place in the arguments, and prints the file's name. A file that could not be
/// written completely is removed.
fn write_to(
    args: &ExportArgs,
    name: &str,
    write: impl FnOnce(&mut Box<dyn Write + Send>) -> Result<(), ExportError>,
) -> Result<(), CliError> {
    let chosen = args.output.clone();
    let path = chosen.unwrap_or_else(|| file_name(name, args.format.format()).into());
    if path.as_os_str() == "-" {
        let mut out: Box<dyn Write + Send> = Box::new(BufWriter::new(io::stdout()));
        let written = write(&mut out).and_then(|()| Ok(out.flush()?));
        return written.map_err(|error| CliError::Failed(error.to_string()));
    }
    let cannot = |why: &dyn std::fmt::Display| {
        CliError::Failed(format!("cannot write {}: {why}", path.display()))
    };
    let file = File::create(&path).map_err(|error| cannot(&error))?;
    let mut out: Box<dyn Write + Send> = Box::new(BufWriter::with_capacity(PIECE, file));
    let written = write(&mut out).and_then(|()| Ok(out.flush()?));
    if let Err(error) = written {
        drop(out);
        // Half a file is worse than none.
        let _ = std::fs::remove_file(&path);
        return Err(cannot(&error));
    }
    // Fails only if nobody reads stderr any more.
    let _ = writeln!(io::stderr(), "wrote {}", path.display());
    Ok(())
}

fn pieces(mut file: File) -> impl Iterator<Item = Vec<u8>> {
    std::iter::from_fn(move || {
        let mut piece = Vec::with_capacity(PIECE);
        let taken = Read::by_ref(&mut file).take(PIECE as u64);
        // If the file cannot be read to its end, the snapshot is cut and will be refused.
        let read = { taken }.read_to_end(&mut piece).unwrap_or(0);
        (read > 0).then_some(piece)
    })
}
