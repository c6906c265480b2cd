//! `tidemark explain`: a recording on one page of Markdown.

use super::CliError;
use super::categories::OwnArgs;
use super::number::from_to;
use super::output::{json, print};
use super::reading::trace_of;
use answers::explain::{explain as explained, page, refusal_of};
use clap::Args;
use std::path::PathBuf;
use trace::device::DeviceIdx;
use trace::main_device;
use trace::trace::{DeviceTrace, Trace};
use trace::units::Bytes;
use trace::watch::Watch;

const EXAMPLES: &str = "\
Examples:
  tidemark explain snapshot.pickle
  tidemark explain snapshot.pickle > memory.md
  tidemark explain --limit 24GiB snapshot.pickle
  tidemark explain --json snapshot.pickle | jq -r '.device.out_of_memory.why'

Exit status: 0 when the file was read, 2 when it was not, or when the limit contradicts it.";

/// Options of `tidemark explain`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// A snapshot: pickle or JSON, plain or packed with gzip or zstd; `-` is the standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// CUDA ordinal. Default: the device that ran out of memory, otherwise the one that held most
    #[arg(long, value_name = "N", value_parser = from_to(0, u32::MAX))]
    device: Option<u32>,
    /// Use this loop's iterations as the steps, as `inspect` lists them
    #[arg(long, value_name = "LEVEL")]
    steps: Option<String>,
    /// The limit of what the process could reserve, such as 24GiB: a recording does not hold it.
    /// One that contradicts the recording is refused
    #[arg(long, value_name = "SIZE")]
    limit: Option<Bytes>,
    /// Print one JSON document instead; sizes in bytes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    own: OwnArgs,
}

/// Explains.
///
/// # Errors
/// [`CliError::BadInput`] for a file that cannot be read or holds no such device.
pub fn explain(args: &ExplainArgs) -> Result<(), CliError> {
    let trace = trace_of(&args.file, args.steps.as_deref(), &args.own.rules()?)?;
    let device = device(&trace, args)?;
    let name = args.file.file_name().unwrap_or(args.file.as_os_str());
    let name = name.to_string_lossy();
    let refusal = Watch::undisturbed(|watch| refusal_of(args.limit, &trace, device, watch));
    if let Some(why) = refusal {
        let (path, why) = (args.file.clone(), format!("--limit: {why}"));
        return Err(CliError::BadInput { path, why });
    }
    let explain = |watch: Watch<'_>| explained(&name, &trace, device, args.limit, watch);
    let explanation = Watch::undisturbed(explain);
    print(&match args.json {
        true => json(&explanation),
        false => page(&explanation),
    })
}

fn device<'a>(trace: &'a Trace, args: &ExplainArgs) -> Result<Option<&'a DeviceTrace>, CliError> {
    let Some(ordinal) = args.device.map(DeviceIdx) else {
        return Ok(main_device::of(trace));
    };
    let found = trace.with_pinned().find(|device| device.device == ordinal);
    found.map(Some).ok_or_else(|| CliError::BadInput {
        path: args.file.clone(),
        why: format!("it holds nothing of device {ordinal}"),
    })
}
