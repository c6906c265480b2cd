//! `tidemark history`: which numbers changed for good from run to run, and at which run.

use super::CliError;
use super::output::{json, print};
use super::remote::{Remote, RemoteArgs};
use crate::system::table::Table;
use api::bench::Fault;
use api::history::{History, HistoryChange, HistoryRun, Measure};
use api::ids::RunId;
use api::labels::Label;
use api::quality::cautions;
use api::routes;
use clap::Args;
use timeline::format::{UnixMillis, count, date_time};

const EXAMPLES: &str = "\
Examples:
  tidemark history --label branch=main --label config=qlora
  tidemark history --label branch=main --json
  tidemark history --label branch=main --before RUN

A run is one row, the newest last. Of more than 400, the newest are shown; the answer then says how
to see older ones. A change is for good: it lasts two runs, or is in the newest. Less than 1 % or
4 MiB (of a leak: 1 MiB a step) is none. A leak is what blocks prove: how the level itself grows,
`compare` tells.";

/// Options of `tidemark history`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct HistoryArgs {
    /// Only runs with this label, as often as you like
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<Label>,
    /// Only runs that arrived before this one
    #[arg(long, value_name = "RUN")]
    before: Option<RunId>,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Print the server's answer as one JSON document
    #[arg(long)]
    json: bool,
}

/// Prints runs and changes.
///
/// # Errors
/// When the server cannot be reached, or refuses.
pub fn history(args: &HistoryArgs) -> Result<(), CliError> {
    let remote = Remote::new(&args.remote)?;
    let newest = routes::history(&args.labels);
    let asked = match &args.before {
        None => newest,
        Some(run) => routes::before(&newest, run),
    };
    let history: History = remote.get(&asked)?;
    print(&match args.json {
        true => json(&history),
        false => {
            let page = |change: &HistoryChange| {
                let pair = [change.before.clone(), change.first.clone()];
                remote.page_in(history.project.as_ref(), &routes::compare_page(&pair))
            };
            text(&history, args.before.as_ref(), page)
        }
    })
}

fn text(
    history: &History,
    before: Option<&RunId>,
    link: impl Fn(&HistoryChange) -> String,
) -> String {
    if let (true, Some(run)) = (history.runs.is_empty(), before) {
        return format!("no run with these labels is older than {run}\n");
    }
    if history.runs.is_empty() {
        return "no run has these labels; `tidemark push --label KEY=VALUE` gives them\n"
            .to_owned();
    }
    let mut table = Table::new(["run", "added", "peak", "end", "leak a step", "unused"]);
    for run in &history.runs {
        let mut peak = run.peak();
        let wrong = run.went_wrong().into_iter().map(Fault::label);
        let cautions = cautions(&run.quality).into_iter().map(|(word, _)| word);
        let marks: Vec<&str> = wrong.chain(cautions).collect();
        if !marks.is_empty() {
            peak += &format!(" ({})", marks.join(", "));
        }
        table.row([
            run.called(),
            date_time(UnixMillis(run.created_ms)),
            peak,
            run.end.to_string(),
            run.leaked().unwrap_or("cannot tell".to_owned()),
            run.measured(Measure::Unused)
                .map_or("cannot tell".to_owned(), |bytes| bytes.to_string()),
        ]);
    }
    let mut out = part(history, before);
    out += &table.print("");
    out.push('\n');
    if history.changes.is_empty() {
        out += "nothing changed for good\n";
    }
    for change in &history.changes {
        out += &format!("{}\n  {}\n", sentence(history, change), link(change));
    }
    out
}

/// How many of the runs these are, where they are not all, and how to see the older ones.
fn part(history: &History, before: Option<&RunId>) -> String {
    let [shown, all] = [history.runs.len() as u64, u64::from(history.total)].map(count);
    let told = match (before, &history.older) {
        (None, None) => return String::new(),
        (None, Some(_)) => format!("the newest {shown} of {all} runs"),
        (Some(_), _) => format!("older runs: {shown} of {all}"),
    };
    match &history.older {
        None => format!("{told}\n\n"),
        Some(run) => format!("{told}; `--before {run}` shows older ones\n\n"),
    }
}

/// `since 3f2a1c: peak +412 MiB (8.21 GiB to 8.61 GiB), 4 runs`.
fn sentence(history: &History, change: &HistoryChange) -> String {
    let first = history.runs.iter().find(|run| run.run == change.first);
    let first = first.map_or_else(|| change.first.to_string(), HistoryRun::called);
    let (sign, by) = match change.to >= change.from {
        true => ('+', change.to.saturating_sub(change.from)),
        false => ('-', change.from.saturating_sub(change.to)),
    };
    let runs = match change.runs {
        1 => "seen once".to_owned(),
        n => format!("{n} runs"),
    };
    format!(
        "since {first}: {} {sign}{by} ({} to {}), {runs}",
        change.measure.label(),
        change.from,
        change.to
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_that_is_longer_says_so() {
        let run = |id: &str| id.parse::<RunId>().unwrap();
        let told = |before: Option<&str>, older: Option<&str>| {
            let history = History {
                runs: Vec::new(),
                changes: Vec::new(),
                total: 1600,
                older: older.map(run),
                project: None,
            };
            part(&history, before.map(run).as_ref())
        };
        assert_eq!(told(None, None), "");
        let newest = "the newest 0 of 1,600 runs; `--before run_b` shows older ones\n\n";
        assert_eq!(told(None, Some("run_b")), newest);
        let oldest = "older runs: 0 of 1,600\n\n";
        assert_eq!(told(Some("run_b"), None), oldest);
    }
}
