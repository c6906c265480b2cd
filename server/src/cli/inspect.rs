//! `tidemark inspect`: what is in a snapshot.

use super::CliError;
use super::categories::OwnArgs;
use super::files;
use super::output::{json, print};
use super::reading::{apart, trace_of};
use crate::inspection::{self, Inspected, Judgement, Live, Memory};
use api::inspect::Inspection;
use clap::Args;
use std::path::{Path, PathBuf};
use trace::naming::Rules;
use trace::units::Bytes;
use trace::watch::Watch;

const EXAMPLES: &str = "\
Examples:
  tidemark inspect snapshot.pickle
  tidemark inspect --json rank0.pickle.zst rank1.pickle.gz
  tidemark inspect --json snapshot.pickle | jq '.devices[0].allocated.peak'
  tidemark inspect --json --live snapshot.pickle | jq '.devices[0].live[0]'

Exit status: 0 when every file was read, 2 when one was not, 1 when Tidemark failed on one; the
others are printed all the same.";

/// Options of `tidemark inspect`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct InspectArgs {
    /// Snapshots: pickle or JSON, plain or packed with gzip or zstd; `-` is the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON document: an object for one file, an array for several, without those that
    /// cannot be read; sizes in bytes
    #[arg(long)]
    json: bool,
    /// Use this loop's iterations as the steps: a key or a word of the line "can be taken for
    /// steps"
    #[arg(long, value_name = "LEVEL")]
    steps: Option<String>,
    /// The limit of what the process could reserve, such as 24GiB: a recording does not hold it.
    /// One that contradicts the recording is refused
    #[arg(long, value_name = "SIZE")]
    limit: Option<Bytes>,
    /// List every block that is allocated at the end, with its category; needs --json
    #[arg(long, requires = "json")]
    live: bool,
    #[command(flatten)]
    own: OwnArgs,
}

/// Prints the summaries of the files that can be read.
///
/// # Errors
/// [`CliError::Several`] for those that cannot.
pub fn inspect(args: &InspectArgs) -> Result<(), CliError> {
    files::input_once(args.files.iter().map(PathBuf::as_path))?;
    let rules = args.own.rules()?;
    let (mut inspected, mut unread) = (Vec::new(), Vec::new());
    for path in &args.files {
        match apart(path, || inspect_file(path, args, &rules)) {
            Ok(found) => inspected.push(found),
            Err(error) => unread.push(error),
        }
    }
    // The shape of the document depends on what was asked, not on what could be read.
    let text = match (args.json, &inspected[..], args.files.len()) {
        (true, [one], 1) => json(one),
        (true, [], 1) => String::new(),
        (true, several, _) => json(&several),
        (false, several, _) => several
            .iter()
            .map(inspection::text)
            .collect::<Vec<_>>()
            .join("\n"),
    };
    print(&text)?;
    match unread.is_empty() {
        true => Ok(()),
        false => Err(CliError::Several(unread)),
    }
}

fn inspect_file(path: &Path, args: &InspectArgs, rules: &Rules) -> Result<Inspection, CliError> {
    let trace = trace_of(path, args.steps.as_deref(), rules)?;
    let (name, live) = (
        path.display().to_string(),
        match args.live {
            true => Live::Listed,
            false => Live::Summed,
        },
    );
    let subject = Inspected {
        trace: &trace,
        only: None,
        limit: args.limit,
    };
    if let Some(why) = Watch::undisturbed(|watch| subject.refusal(watch)) {
        let (path, why) = (path.to_owned(), format!("--limit: {why}"));
        return Err(CliError::BadInput { path, why });
    }
    // Neither needs the other, and each takes a while on a large recording.
    let (memory, judgement) = std::thread::scope(|scope| {
        let judged = || Watch::undisturbed(|watch| Judgement::of(subject, watch));
        let judgement = scope.spawn(judged);
        let memory = Watch::undisturbed(|watch| Memory::of(subject, live, watch));
        let panicked = |panic| std::panic::resume_unwind(panic);
        (memory, judgement.join().unwrap_or_else(panicked))
    });
    Ok(inspection::of(name, subject, memory, judgement))
}
