//! `tidemark replay`: compares the engine's offloader with recorded calls of the real one.

use super::CliError;
use super::output::{json, print};
use clap::Args;
use engine::tape::{self, Replayed, TapeVersion};
use std::path::{Path, PathBuf};
use timeline::format::plural;

const EXAMPLES: &str = "\
Examples:
  tidemark replay trl-1.5_dense.jsonl.zst
  tidemark replay recorded.jsonl --version trl-1.8 --json

Exit status: 0 when everything agrees, 1 when something differs, 2 for a tape that cannot be read.";

/// Options of `tidemark replay`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ReplayArgs {
    /// Recorded calls, JSON lines, plain or packed with zstd
    #[arg(value_name = "TAPE")]
    tape: PathBuf,
    /// TRL release whose offloader is driven, such as trl-1.14, or with patches, trl-0.29+P3+P4;
    /// default: from the file's name, otherwise the one that agrees best
    #[arg(long)]
    version: Option<String>,
    /// Print one JSON document: {"version", "equally_good", "calls", "mismatches", "first",
    /// "reused_ids"}
    #[arg(long)]
    json: bool,
}

/// Replays and reports.
///
/// # Errors
/// [`CliError::Mismatch`] after the report, when something differs.
pub fn replay(args: &ReplayArgs) -> Result<(), CliError> {
    let version = args.version.as_deref().map(version).transpose()?;
    let bad_input = |why: tape::TapeError| CliError::BadInput {
        path: args.tape.clone(),
        why: why.to_string(),
    };
    let replayed = tape::replay_file(&args.tape, version).map_err(bad_input)?;
    let text = match args.json {
        true => json(&replayed),
        false => for_people(&args.tape, &replayed) + &unknown_name(args),
    };
    print(&text)?;
    match replayed.report.mismatches {
        0 => Ok(()),
        _ => Err(CliError::Mismatch),
    }
}

/// A label, or the name of a tape that has one.
fn version(text: &str) -> Result<TapeVersion, CliError> {
    let label = TapeVersion::from_label(text);
    let named = label.or_else(|why| TapeVersion::from_name(text).ok_or(why));
    named.map_err(|why| CliError::Usage(why.to_string()))
}

/// A line about a version that only the file's name has, and nobody knows.
fn unknown_name(args: &ReplayArgs) -> String {
    let name = args.tape.file_name().map(|name| name.to_string_lossy());
    let unknown = name.as_deref().and_then(TapeVersion::unknown_in_name);
    match unknown.filter(|_| args.version.is_none()) {
        Some(label) => format!("  the name says {label}, which is not known here\n"),
        None => String::new(),
    }
}

fn for_people(tape: &Path, replayed: &Replayed) -> String {
    let report = &replayed.report;
    let mut text = format!(
        "{}: {}, {}, {} {}\n",
        tape.display(),
        replayed.version,
        plural(report.calls, "call"),
        plural(report.mismatches, "value"),
        if report.mismatches == 1 {
            "differs"
        } else {
            "differ"
        }
    );
    let equal = replayed.equally_good.iter().map(TapeVersion::to_string);
    let equal: Vec<String> = equal.collect();
    if !equal.is_empty() {
        text += &format!("  equally good: {}\n", equal.join(", "));
    }
    if let Some(first) = &report.first {
        text += &format!(
            "  first at line {}: {} of {} is {} here, {} in the recording\n",
            first.line, first.field, first.op, first.computed, first.recorded
        );
    }
    if report.reused_ids > 0 {
        text += &format!(
            "  {} of ids that the forward pass before had too: if its backward pass is meant, its \
             gradients are wrong\n",
            plural(report.reused_ids, "restore")
        );
    }
    text
}
