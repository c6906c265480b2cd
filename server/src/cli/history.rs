//! `tidemark history`: which numbers changed for good from run to run, and at which run.

use super::CliError;
use super::output::{json, print};
use super::remote::{Remote, RemoteArgs};
use crate::system::table::Table;
use api::history::{History, HistoryChange, HistoryRun, Measure};
use api::labels::Label;
use api::quality::cautions;
use api::routes;
use clap::Args;
use timeline::format::{UnixMillis, date_time};

const EXAMPLES: &str = "\
Examples:
  tidemark history --label branch=main --label config=qlora
  tidemark history --label branch=main --json

A run is one row, the newest last. A change is for good: it lasts two runs, or is in the newest.
Less than 1 % or 4 MiB (of a leak: 1 MiB a step) is none. A leak is what blocks prove: how the
level itself grows, `compare` tells.";

/// Options of `tidemark history`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct HistoryArgs {
    /// Only runs with this label, as often as you like
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<Label>,
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
    let history: History = remote.get(&routes::history(&args.labels))?;
    print(&match args.json {
        true => json(&history),
        false => text(&history, |change| {
            let pair = [change.before.clone(), change.first.clone()];
            remote.page_in(history.project.as_ref(), &routes::compare_page(&pair))
        }),
    })
}

fn text(history: &History, link: impl Fn(&HistoryChange) -> String) -> String {
    if history.runs.is_empty() {
        return "no run has these labels; `tidemark push --label KEY=VALUE` gives them\n"
            .to_owned();
    }
    let mut table = Table::new(["run", "added", "peak", "end", "leak a step", "unused"]);
    for run in &history.runs {
        let mut peak = run.peak();
        let out = run.out_of_memory.then_some("out of memory");
        let cautions = cautions(&run.quality).into_iter().map(|(word, _)| word);
        let marks: Vec<&str> = out.into_iter().chain(cautions).collect();
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
    let mut out = table.print("");
    out.push('\n');
    if history.changes.is_empty() {
        out += "nothing changed for good\n";
    }
    for change in &history.changes {
        out += &format!("{}\n  {}\n", sentence(history, change), link(change));
    }
    out
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
