//! `tidemark doctor`: look after a data folder.

use super::output::{self, print};
use super::{CliError, whose};
use crate::config::Config;
use crate::doctor::{Repair, Report, examine};
use crate::private;
use crate::projects;
use crate::store::Salvaged;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  tidemark doctor --data /srv/tidemark             read everything, change nothing
  tidemark doctor --data /srv/tidemark --adopt     make runs of files that are none yet
  tidemark doctor --data /srv/tidemark --rebuild   move a damaged database aside, make a new one

The exit status is 1 when something is damaged.";

/// Options of `tidemark doctor`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Folder of the database and the uploaded files
    #[arg(long, value_name = "DIR", default_value = "tidemark-data")]
    data: PathBuf,
    /// Where uploaded files are kept, if `serve` uses another place [default: DIR/blobs]
    #[arg(long, value_name = "WHERE")]
    blobs: Option<String>,
    /// Make runs of stored files that the database does not know
    #[arg(long, conflicts_with = "rebuild")]
    adopt: bool,
    /// Move a damaged database aside, and make a new one of the stored files
    #[arg(long)]
    rebuild: bool,
    /// Print one JSON document with the findings (not with --adopt or --rebuild)
    #[arg(long, conflicts_with_all = ["adopt", "rebuild"])]
    json: bool,
}

/// Examines a data folder, or repairs it.
///
/// # Errors
/// When something is damaged, or cannot be repaired.
pub fn doctor(args: &DoctorArgs) -> Result<(), CliError> {
    if !args.data.is_dir() {
        return Err(CliError::BadInput {
            path: args.data.clone(),
            why: "there is no such folder".to_owned(),
        });
    }
    private::make_everything_private();
    let config = Config {
        blobs: args.blobs.clone(),
        ..Config::new(args.data.clone())
    };
    whose::check(&args.data)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| CliError::Failed(format!("no threads: {error}")))?;
    runtime.block_on(async {
        match (args.adopt, args.rebuild) {
            (true, _) => adopt(&Repair::begin(&config).await?).await,
            (_, true) => rebuild(&config).await,
            _ => look(&config, args.json).await,
        }
    })
}

async fn look(config: &Config, json: bool) -> Result<(), CliError> {
    let mut report = examine(config).await?;
    for project in projects::found_in(&config.data) {
        let of_project = examine(&projects::config_of(config, &project)).await?;
        report.projects.insert(project, of_project);
    }
    let text = match json {
        true => output::json(&report).trim_end().to_owned(),
        false => told_all(&report),
    };
    say(&text);
    let bad = report.is_bad() || report.projects.values().any(Report::is_bad);
    match bad {
        true => Err(CliError::Failed(
            "something is damaged; see above".to_owned(),
        )),
        false => Ok(()),
    }
}

/// The report, with those of the other projects. Those are repaired one by one.
fn told_all(report: &Report) -> String {
    let others = report.projects.iter().map(|(project, report)| {
        let data = report.database.parent().unwrap_or(&report.database);
        let repair = match report.is_bad() || !report.unused.is_empty() {
            true => format!("\n  to repair it: --data {}", data.display()),
            false => String::new(),
        };
        format!("project {project}: {}{repair}", told(report))
    });
    std::iter::once(told(report))
        .chain(others)
        .collect::<Vec<_>>()
        .join("\n")
}

fn told(report: &Report) -> String {
    let database = report.database.display();
    let mut lines = match report.damage.as_slice() {
        [] if report.database.exists() => {
            vec![format!("{database}: whole, {} runs", report.runs)]
        }
        [] => vec![format!("{database}: there is none")],
        damage => {
            let first = format!("{database}: damaged; `--rebuild` makes a new one");
            let rest = damage.iter().map(|line| format!("  {line}"));
            std::iter::once(first).chain(rest).collect()
        }
    };
    lines.push(format!(
        "stored files: {} read to their end, {} of them bad",
        report.checked,
        report.bad_blobs.len()
    ));
    lines.extend(report.bad_blobs.iter().map(|line| format!("  {line}")));
    if !report.unused.is_empty() {
        let n = report.unused.len();
        lines.push(format!(
            "stored files that are no runs: {n}; `--adopt` takes them up"
        ));
    }
    let unused = report.unused.iter();
    lines.extend(unused.map(|blob| format!("  {} ({}): {}", blob.hash, blob.name, blob.why)));
    lines.join("\n")
}

async fn adopt(repair: &Repair) -> Result<(), CliError> {
    let unused = repair.unused().await.map_err(|error| failed(&error))?;
    let mut failures = 0;
    for blob in &unused {
        match repair.adopt(blob).await {
            Ok(arrived) => say(&format!("{}  {}", arrived.run, blob.name)),
            Err(error) => {
                failures += 1;
                say(&format!("{} stays in quarantine: {error}", blob.hash));
            }
        }
    }
    say(&format!(
        "{} of {} taken up",
        unused.len() - failures,
        unused.len()
    ));
    match failures {
        0 => Ok(()),
        n => Err(CliError::Failed(format!(
            "{n} stored files do not become runs"
        ))),
    }
}

async fn rebuild(config: &Config) -> Result<(), CliError> {
    let (repair, salvaged, aside) = Repair::rebuild(config)
        .await
        .map_err(|error| failed(&error))?;
    say(&format!("the damaged database is now {}", aside.display()));
    let adopted = adopt(&repair).await;
    let Salvaged {
        runs,
        people,
        tokens,
        shares,
        ..
    } = &salvaged;
    let (names, links) = (runs.len(), shares.len());
    let locked_out = !people.is_empty() && tokens.is_empty();
    let kept = repair.remember(salvaged).await;
    let (_, put_back) = kept.map_err(|error| failed(&error))?;
    say(&format!(
        "names and dates of {names} runs, and {put_back} of {links} links, were kept"
    ));
    if locked_out {
        say(
            "nobody's tokens could be read: `tidemark people list` says who there is, and \
             `tidemark people token NAME` makes a new one",
        );
    }
    adopted
}

fn say(line: &str) {
    // The work is done, even if nobody can read about it.
    let _ = print(&format!("{line}\n"));
}

fn failed(error: &dyn std::error::Error) -> CliError {
    CliError::Failed(error.to_string())
}
