//! `tidemark prune`: lists old runs that nothing keeps, or deletes them.

use super::CliError;
use super::number::from_to;
use super::output::{json, print};
use super::remote::{Remote, RemoteArgs};
use crate::projects::retention::{self, Candidate, Holders};
use crate::system::clock::now_ms;
use api::labels::Label;
use api::projects::{Keep, Plan, PullRequestDays};
use api::routes;
use api::runs::{RunSummary, ServerInfo};
use api::shares::Share;
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  tidemark prune --keep 50                          what would be deleted
  tidemark prune --keep 50 --delete                 delete it
  tidemark prune --keep 10 --per branch --per config --label project=vision --delete

A run stays if it is among the newest of its kind, has the label pinned (any value), is opened by a
link that has not ended, was made by a bench, or stands in the newest comparison of a pull request
or in one of the last 30 days (--pr-days), by the clock of the dashboard. All ranks of a job stay,
or all go, and count as one; a rank that is also of another job stays as long as that one does. A
job is of the kinds of all its ranks, and stays if one of them keeps it. A deleted run can be
restored for ten minutes.";

const USUAL_DAYS: PullRequestDays = PullRequestDays(Some(Keep::PULL_REQUEST_DAYS));

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
    /// For how many days each comparison of a pull request keeps its runs, or `forever`; the newest
    /// one of each pull request always does
    #[arg(long, value_name = "N", default_value_t = USUAL_DAYS)]
    pr_days: PullRequestDays,
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
    let mut plan = look_ahead(&remote, args)?;
    if args.delete {
        for gone in &plan.runs {
            remote.delete(&routes::run(&gone.run))?;
        }
        plan.deleted = true;
    }
    print(&match args.json {
        true => json(&plan),
        false => text(&plan),
    })
}

/// What would be deleted.
fn look_ahead(remote: &Remote<'_>, args: &PruneArgs) -> Result<Plan, CliError> {
    // All of them: what decides about a job may be a rank that does not have the labels.
    let runs: Vec<RunSummary> = all(remote, routes::RUNS)?;
    let runs = runs.into_iter().map(Candidate::from).collect();
    let runs = retention::chosen(runs, &args.labels);
    let shares: Vec<Share> = all(remote, routes::SHARES)?;
    let keep = Keep {
        newest: args.keep,
        per: args.per.clone(),
        pull_request_days: args.pr_days.0,
    };
    let recorded = all(remote, routes::COMPARISONS)?;
    // The dates are of its clock, and that of this machine may be wrong.
    let ServerInfo { now_ms: there, .. } = remote.get(routes::SERVER)?;
    let holders = Holders::new(&shares, recorded, &keep, there.unwrap_or_else(now_ms));
    let checked = retention::check_kinds(&keep);
    checked.map_err(|error| CliError::Usage(format!("--per: {error}")))?;
    Ok(retention::plan(&runs, &holders, &keep))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::App;
    use crate::config::Config;
    use crate::http::{Listening, serve};
    use crate::ingest::Sender;
    use crate::samples;
    use api::compare::RecordedComparison;
    use api::ids::RunId;
    use clap::Parser;
    use std::net::SocketAddr;
    use std::sync::Arc;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PruneArgs,
    }

    fn recorded(name: &str, run: &RunId, created_ms: i64) -> RecordedComparison {
        RecordedComparison {
            id: format!("cmp_{}", name.replace('_', "")).parse().unwrap(),
            name: name.to_owned(),
            runs: vec![run.clone()],
            pr: Some("https://github.com/me/repo/pull/7".to_owned()),
            created_ms,
        }
    }

    /// A server, and one run in each of two comparisons of a pull request.
    async fn compared(folder: &std::path::Path) -> (Arc<App>, SocketAddr) {
        let app = App::open(Config::new(folder.join("data"))).await.unwrap();
        let now = now_ms();
        for (name, created_ms) in [("plain_lm", now - 1), ("streams", now)] {
            let sample = samples::find(name).unwrap();
            let run = sample.open(&app.uploads, Sender::Server).await.unwrap().run;
            let comparison = recorded(name, &run, created_ms);
            let write = app
                .store
                .write(move |writer| writer.record_comparison(&comparison, false));
            write.await.unwrap();
        }
        let listening = Listening::on(SocketAddr::from(([127, 0, 0, 1], 0))).await;
        let listening = listening.unwrap();
        let address = listening.address;
        tokio::spawn(serve(listening, Arc::clone(&app)));
        (app, address)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_clock_of_the_server_says_what_is_old() {
        let folder = tempfile::tempdir().unwrap();
        let (app, address) = compared(folder.path()).await;
        let going = async |days: &'static str| {
            let url = format!("http://{address}");
            let asked = tokio::task::spawn_blocking(move || {
                let line = ["prune", "--keep", "0", "--server", &url, "--pr-days", days];
                let Line { args } = Line::parse_from(line);
                look_ahead(&Remote::at(&url, None), &args).unwrap().going
            });
            asked.await.unwrap()
        };
        assert_eq!(going("30").await, 0);
        app.store.pass_ms(31 * 24 * 3600 * 1000);
        assert_eq!(going("30").await, 1);
        assert_eq!(going("32").await, 0);
        assert_eq!(going("forever").await, 0);
    }
}
