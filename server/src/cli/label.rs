//! `tidemark label`: puts labels on a run of a dashboard or on all ranks of a job, or takes them
//! off.

use super::CliError;
use super::output::print;
use super::remote::{Remote, RemoteArgs};
use api::ids::{JobId, RunId};
use api::jobs::JobSummary;
use api::labels::{ChangeLabels, Label};
use api::routes;
use api::runs::RunSummary;
use clap::Args;
use std::str::FromStr;
use timeline::format::plural;

const EXAMPLES: &str = "\
Examples:
  tidemark label job_4Tz0fSb1cV2k config=qlora team=vision
  tidemark label run_9hQ2mXw7aLp3 pinned=yes
  tidemark label job_4Tz0fSb1cV2k --remove pinned

A job has the labels of its ranks: all of them get these labels, or none if the server refuses one.
Ids are at the end of the addresses of pages.";

/// Options of `tidemark label`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct LabelArgs {
    /// A run, or a job: all its ranks
    #[arg(value_name = "RUN|JOB")]
    what: Labelled,
    /// Labels to put on; the value of a key that is there already is replaced
    #[arg(value_name = "KEY=VALUE", required_unless_present = "remove")]
    labels: Vec<Label>,
    /// Take the label with this key off; as often as you like
    #[arg(long, value_name = "KEY")]
    remove: Vec<String>,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// What gets labels.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Labelled {
    Run(RunId),
    Job(JobId),
}

impl FromStr for Labelled {
    type Err = String;
    fn from_str(text: &str) -> Result<Labelled, String> {
        let run = text.parse().map(Labelled::Run);
        let found = run.or_else(|_| text.parse().map(Labelled::Job));
        found.map_err(|_| "expected the id of a run (run_…) or of a job (job_…)".to_owned())
    }
}

impl LabelArgs {
    /// What is named on the command line; a label that is put on is not taken off.
    fn change(&self) -> ChangeLabels {
        let off = self.remove.iter().map(|key| (key.clone(), None));
        let on = self.labels.iter().cloned();
        let on = on.map(|Label { key, value }| (key, Some(value)));
        ChangeLabels {
            labels: off.chain(on).collect(),
        }
    }
}

/// Changes labels, and says of what.
///
/// # Errors
/// When the server cannot be reached, or refuses.
pub fn label(args: &LabelArgs) -> Result<(), CliError> {
    let remote = Remote::new(&args.remote)?;
    let change = args.change();
    print(&match &args.what {
        Labelled::Run(run) => {
            let run: RunSummary = remote.patch(&routes::run_labels(run), &change)?;
            let all = run
                .labels
                .iter()
                .map(|(key, value)| format!(" {key}={value}"));
            format!("{}:{}\n", run.name, all.collect::<String>())
        }
        Labelled::Job(job) => {
            let job: JobSummary = remote.patch(&routes::job_labels(job), &change)?;
            let ranks = plural(u64::from(job.n_ranks), "rank");
            format!("{}: labels of {ranks} changed\n", job.name)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: LabelArgs,
    }

    #[test]
    fn a_run_or_a_job_gets_labels_and_loses_some() {
        let read = |line: &str| {
            let words = std::iter::once("label").chain(line.split(' '));
            Line::try_parse_from(words).map(|Line { args }| args)
        };
        let check = |line: &str, what: Labelled, expected: &[(&str, Option<&str>)]| {
            let args = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(args.what, what, "{line}");
            let change = args.change().labels.into_iter();
            let change: Vec<(String, Option<String>)> = change.collect();
            let change: Vec<(&str, Option<&str>)> = change
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_deref()))
                .collect();
            assert_eq!(change, expected, "{line}");
        };
        let run = || Labelled::Run("run_a".parse().unwrap());
        let job = || Labelled::Job("job_a".parse().unwrap());
        check(
            "run_a b=1 a=x=y",
            run(),
            &[("a", Some("x=y")), ("b", Some("1"))],
        );
        check("job_a --remove old", job(), &[("old", None)]);
        check("job_a a=1 --remove a", job(), &[("a", Some("1"))]);
        for wrong in ["job_a", "live_a a=1", "job_a pinned", "a=1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
