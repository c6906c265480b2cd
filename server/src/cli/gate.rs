//! `tidemark gate`: whether a change may be merged.

use super::alert::AlertArgs;
use super::compare::compare_files;
use super::labels::{LabelArgs, environment};
use super::output::{json, print};
use super::pull_request::{self, CommentArgs};
use super::{CliError, files};
use answers::cards::markdown;
use api::compare::Comparison;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use trace::compare::gate::{Allowance, Finding, Limits, Outcome, Weight};
use trace::naming::Rules;
use trace::units::Bytes;

const EXAMPLES: &str = "\
Examples:
  tidemark gate base.pickle new.pickle
  tidemark gate base.pickle new.pickle --max-peak-growth 512MiB --max-step-growth 0
  tidemark gate base.pickle new.pickle --markdown >> \"$GITHUB_STEP_SUMMARY\"
  tidemark gate base.pickle new.pickle --pr https://github.com/me/repo/pull/7 --comment

Allocated memory is judged, and whether it leaks. Reserved memory only gives a warning, because it
differs by several per cent between runs of one program. The verdict is the first line.

Exit status: 0 pass, 1 regression, 2 a file could not be read or the verdict could not be
written, 3 cannot tell (such as a ring of events that wrapped, too few steps, or another part of
the program).";

/// Options of `tidemark gate`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct GateArgs {
    /// The baseline: a snapshot
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// The run to judge
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// How much higher the peak of allocated may be: a percentage or a size. A rise of up to 1 MiB
    /// always passes. So does a rise no larger than the difference between the baseline's own
    /// steps
    #[arg(long, value_name = "LIMIT", default_value = "2%", value_parser = allowance,
          allow_hyphen_values = true)]
    max_peak_growth: Allowance,
    /// How much more allocated may grow with each step
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1MiB",
        allow_hyphen_values = true
    )]
    max_step_growth: Bytes,
    /// Print one JSON document; sizes in bytes
    #[arg(long)]
    json: bool,
    /// Print Markdown, for a pull request or a job summary
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    #[command(flatten)]
    comment: CommentArgs,
    #[command(flatten)]
    alert: AlertArgs,
    /// Use this loop's iterations as the steps, as `tidemark inspect` names it
    #[arg(long, value_name = "LEVEL")]
    steps: Option<String>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    outcome: Outcome,
    exit_code: u8,
    reason: &'a str,
    findings: &'a [Finding],
    limits: Limits,
    comparison: &'a Comparison,
}

/// Judges the new run.
///
/// # Errors
/// [`CliError::Regression`] and [`CliError::CannotTell`] are answers; [`CliError::BadInput`] for
/// the first file that cannot be read. A failure of another kind has no status of an answer.
pub fn gate(args: &GateArgs) -> Result<(), CliError> {
    judged(args).map_err(|error| match error {
        CliError::Regression(_) | CliError::CannotTell(_) | CliError::Said(_) => error,
        other if other.exit_code() == 2 => other,
        other => CliError::NotJudged(Box::new(other)),
    })
}

fn judged(args: &GateArgs) -> Result<(), CliError> {
    let limits = Limits {
        peak_growth: args.max_peak_growth,
        step_growth: args.max_step_growth,
    };
    let thread = args.comment.thread()?;
    if thread.is_none() && args.comment.pr.is_some() {
        let why = "--pr says where to comment: add --comment".to_owned();
        return Err(CliError::Usage(why));
    }
    let alert = args.alert.alert()?;
    let new = std::slice::from_ref(&args.new);
    files::input_once([&args.base, &args.new].into_iter().map(PathBuf::as_path))?;
    let level = args.steps.as_deref();
    let (comparison, unread) = compare_files(&args.base, new, &limits, level, &Rules::default())?;
    if !unread.is_empty() {
        return Err(CliError::Several(unread));
    }
    let verdicts = &comparison.against[0].gate;
    let answer = match verdicts.outcome {
        Outcome::Pass => Ok(()),
        Outcome::Regression => Err(CliError::Regression(verdicts.reason.clone())),
        Outcome::CannotTell => Err(CliError::CannotTell(verdicts.reason.clone())),
    };
    let text = if args.json {
        json(&Report {
            outcome: verdicts.outcome,
            exit_code: answer.as_ref().err().map_or(0, CliError::exit_code),
            reason: &verdicts.reason,
            findings: &verdicts.findings,
            limits,
            comparison: &comparison,
        })
    } else if args.markdown {
        markdown::gate(&comparison, verdicts)
    } else {
        lines(verdicts)
    };
    print(&text)?;
    let status = pull_request::status(std::iter::once(verdicts), None);
    if let Some(thread) = thread {
        thread.post(&markdown::gate(&comparison, verdicts), &status);
    }
    if let Some(alert) = alert {
        alert.send(&status, &LabelArgs::default().all(environment));
    }
    // The lines have the verdict. A document does not show it to who reads the log of a job.
    match args.json || args.markdown {
        true => answer,
        false => answer.map_err(|error| CliError::Said(Box::new(error))),
    }
}

fn lines(verdicts: &trace::compare::gate::Verdicts) -> String {
    let word = match verdicts.outcome {
        Outcome::Pass => "pass",
        Outcome::Regression => "regression",
        Outcome::CannotTell => "cannot tell",
    };
    let mut out = format!("{word}: {}\n", verdicts.reason);
    for finding in &verdicts.findings {
        let word = match finding.weight {
            Weight::Fail | Weight::Unknown => continue,
            Weight::Warn => "warning",
            Weight::Note => "note",
        };
        out += &format!("  {word}: {}\n", finding.detail);
    }
    out
}

/// `2%`, or a size.
fn allowance(text: &str) -> Result<Allowance, String> {
    let Some(percent) = text.strip_suffix('%') else {
        return match text.parse() {
            Ok(size) => Ok(Allowance::Bytes(size)),
            Err(error) => Err(format!("{error}, or a percentage such as 2%")),
        };
    };
    match percent.trim().parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => {
            Ok(Allowance::Share(percent / 100.0))
        }
        _ => Err("expected a percentage such as 2% or a size such as 512MiB".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_percentages_are_read() {
        let check = |text: &str, expected: Allowance| {
            assert_eq!(allowance(text), Ok(expected), "{text}");
        };
        check("2%", Allowance::Share(0.02));
        check("0.5 %", Allowance::Share(0.005));
        check("512MiB", Allowance::Bytes(Bytes::mib(512)));
        check("1.5 GiB", Allowance::Bytes(Bytes::mib(1536)));
        check("2GB", Allowance::Bytes(Bytes(2_000_000_000)));
        check("0", Allowance::Bytes(Bytes::ZERO));
        for bad in ["", "x%", "-1%", "-5MiB", "1MiBB", "nan", "inf%"] {
            assert!(allowance(bad).is_err(), "{bad}");
        }
    }
}
