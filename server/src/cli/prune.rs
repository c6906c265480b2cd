//! `tidemark prune`: lists old runs that nothing keeps, or deletes them.

use super::CliError;
use super::number::from_to;
use super::output::{json, print};
use super::remote::{Remote, RemoteArgs};
use crate::projects::retention::{self, Candidate, Holders};
use crate::system::clock::now_ms;
use api::labels::Label;
use api::projects::{Keep, Plan};
use api::routes;
use api::runs::RunSummary;
use api::shares::Share;
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  tidemark prune --keep 50                          what would be deleted
  tidemark prune --keep 50 --delete                 delete it
  tidemark prune --keep 10 --per branch --per config --label project=vision --delete

A run stays if it is among the newest of its kind, has the label pinned (any value), is opened by a
link that has not ended, was made by a bench, or stands in the newest comparison of a pull request
or in one of the last 30 days (--pr-days). All ranks of a job stay, or all go, and count as one; a
rank that is also of another job stays as long as that one does. A job is of the kinds of all its
ranks, and stays if one of them keeps it. A deleted run can be restored for ten minutes.";

/// Options of `tidemark prune`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PruneArgs {
    /// How many runs stay of each kind, the newest; all ranks of a job count as one
    #[arg(long, value_name = "N", value_parser = from_to(0, u32::MAX))]
    keep: u32,
    /// Runs with different values of this label are of different kinds; as often as you like
    #[arg(long, value_name = "KEY")]
    per: Vec<String>,
    /// For how many days each comparison of a pull request keeps its runs; the newest one of each
    /// pull request always does
    #[arg(long, value_name = "N", default_value_t = Keep::PULL_REQUEST_DAYS,
        value_parser = from_to(0, u32::MAX))]
    pr_days: u32,
    /// Look only at runs that have this label, and at jobs of which a rank has it, as often as you
    /// like
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<Label>,
    /// Delete; without this, nothing changes
    #[arg(long)]
    delete: bool,
    /// Print one JSON document; sizes in bytes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Deletes, or says what would be deleted.
///
/// # Errors
/// When the server cannot be reached, or refuses.
pub fn prune(args: &PruneArgs) -> Result<(), CliError> {
    let remote = Remote::new(&args.remote)?;
    // All of them: what decides about a job may be a rank that does not have the labels.
    let runs: Vec<RunSummary> = all(&remote, routes::RUNS)?;
    let runs = runs.into_iter().map(Candidate::from).collect();
    let runs = retention::chosen(runs, &args.labels);
    let shares: Vec<Share> = all(&remote, routes::SHARES)?;
    let keep = Keep {
        newest: args.keep,
        per: args.per.clone(),
        pull_request_days: Some(args.pr_days),
    };
    let recorded = all(&remote, routes::COMPARISONS)?;
    let holders = Holders::new(&shares, recorded, &keep, now_ms());
    let checked = retention::check_kinds(&keep);
    checked.map_err(|error| CliError::Usage(format!("--per: {error}")))?;
    let mut plan = retention::plan(&runs, &holders, &keep);
    if args.delete {
        for gone in &plan.runs {
            let _: RunSummary = remote.delete(&routes::run(&gone.run))?;
        }
        plan.deleted = true;
    }
    print(&match args.json {
        true => json(&plan),
        false => text(&plan),
    })
}

/// All entries of a list.
fn all<T: serde::de::DeserializeOwned + Clone>(
    remote: &Remote<'_>,
    list: &str,
) -> Result<Vec<T>, CliError> {
    let mut found = Vec::new();
    remote.find(list, |entry: &T| {
        found.push(entry.clone());
        false
    })?;
    Ok(found)
}

fn text(plan: &Plan) -> String {
    let mut out = String::new();
    for key in &plan.absent {
        out += &format!("no run has the label {key}: it tells no runs apart\n");
    }
    for gone in &plan.runs {
        out += &format!("{}  {}  {}\n", gone.run, gone.file_bytes, gone.name);
    }
    let bytes = plan.bytes;
    let runs = retention::going_in_words(plan);
    out += &match plan.deleted {
        true => format!("{runs} deleted ({bytes} as uploaded)\n"),
        false if plan.runs.is_empty() => "nothing would be deleted\n".to_owned(),
        false => format!("{runs} would be deleted ({bytes} as uploaded): add --delete\n"),
    };
    for (reason, runs) in retention::kept_in_words(plan) {
        out += &format!("{runs} kept: {}\n", reason.words());
    }
    out
}
