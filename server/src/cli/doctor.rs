//! `tidemark doctor`: look after a data folder.

use super::output::{self, print};
use super::sizes::sizes;
use super::{CliError, whose};
use crate::config::Config;
use crate::doctor::{Repair, Report, examine, forget_time};
use crate::projects;
use crate::store::{Rescued, Salvaged};
use crate::system::private;
use api::ids::RunId;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use timeline::format::{doing, plural};

const EXAMPLES: &str = "\
Examples:
  tidemark doctor --data /srv/tidemark             read everything, change nothing
  tidemark doctor --data /srv/tidemark --adopt     make runs of files that are none yet
  tidemark doctor --data /srv/tidemark --rebuild   move a damaged database aside, make a new one
  tidemark doctor --data /srv/tidemark --forget-time  after a clock was far ahead
  tidemark doctor --data /srv/tidemark --sizes     what takes the disk, also while a server runs

A rebuild that was interrupted is continued by the same command; until then no server starts. The
exit status is 1 when something is damaged.";

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
    /// After a clock was wrong: forget the times in the future that it showed. Runs with such a
    /// date get today's, and people who signed in then sign in again. In all projects
    #[arg(long, conflicts_with_all = ["adopt", "rebuild", "json"])]
    forget_time: bool,
    /// Say what takes the disk, and change nothing: each part of what is stored, each project, the
    /// largest runs, and what the rules for old runs would free. A server may run on the folder
    #[arg(long, conflicts_with_all = ["adopt", "rebuild", "forget_time"])]
    sizes: bool,
    /// Print one JSON document: the findings, or what became of the files: {"adopted", "refused"}
    #[arg(long)]
    json: bool,
}

/// What `--adopt --json` and `--rebuild --json` print.
#[derive(Default, Serialize)]
struct Repaired {
    /// Files that are runs now.
    adopted: Vec<Adopted>,
    /// Files that are not, and why.
    refused: Vec<Refused>,
    /// Where the damaged database is now, and what of it was kept; with `--rebuild`.
    #[serde(skip_serializing_if = "Option::is_none")]
    rebuilt: Option<Rebuilt>,
}

#[derive(Serialize)]
struct Adopted {
    run: RunId,
    name: String,
}

#[derive(Serialize)]
struct Refused {
    hash: String,
    why: String,
}

#[derive(Serialize)]
struct Rebuilt {
    aside: PathBuf,
    /// Runs whose names and dates could be read.
    names: usize,
    /// Links that could be read, and how many of them open again.
    links: usize,
    links_kept: usize,
    /// What became of each table that no stored file can make again.
    tables: Vec<Rescued>,
    /// Whether nobody's token could be read, though there are people.
    locked_out: bool,
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
    if args.sizes {
        return sizes(&args.data, args.json);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| CliError::Failed(format!("no threads: {error}")))?;
    // Each step is said when it is done, because many files take long.
    let tell = |line: &str| {
        if !args.json {
            say(line);
        }
    };
    runtime.block_on(async {
        if args.forget_time {
            let dated = forget_time(&config).await.map_err(|error| failed(&error))?;
            say(&format!(
                "{} had a date that has not come",
                plural(dated as u64, "run")
            ));
            return Ok(());
        }
        let repaired = match (args.adopt, args.rebuild) {
            (true, _) => adopt(&Repair::begin(&config).await?, &tell).await?,
            (_, true) => rebuild(&config, &tell).await?,
            _ => return look(&config, args.json).await,
        };
        if args.json {
            say(output::json(&repaired).trim_end());
        }
        match repaired.refused.len() as u64 {
            0 => Ok(()),
            1 => Err(CliError::Failed(
                "1 stored file does not become a run".to_owned(),
            )),
            n => Err(CliError::Failed(format!(
                "{n} stored files do not become runs"
            ))),
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
    print(&format!("{text}\n"))?;
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
            let runs = plural(report.runs as u64, "run");
            let older = match report.older {
                true => "; of an older version, which the next start of `serve` brings up to date",
                false => "",
            };
            vec![format!("{database}: whole, {runs}{older}")]
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

async fn adopt(repair: &Repair, tell: &impl Fn(&str)) -> Result<Repaired, CliError> {
    let mut repaired = Repaired::default();
    for blob in repair.unused().await.map_err(|error| failed(&error))? {
        match repair.adopt(&blob).await {
            Ok(arrived) => {
                tell(&format!("{}  {}", arrived.run, blob.name));
                repaired.adopted.push(Adopted {
                    run: arrived.run,
                    name: blob.name,
                });
            }
            Err(error) => {
                tell(&format!("{} stays in quarantine: {error}", blob.hash));
                repaired.refused.push(Refused {
                    hash: blob.hash,
                    why: error.to_string(),
                });
            }
        }
    }
    let taken = repaired.adopted.len();
    tell(&format!(
        "{taken} of {} taken up",
        taken + repaired.refused.len()
    ));
    Ok(repaired)
}

async fn rebuild(config: &Config, tell: &impl Fn(&str)) -> Result<Repaired, CliError> {
    let (repair, salvaged, aside) = Repair::rebuild(config)
        .await
        .map_err(|error| failed(&error))?;
    tell(&format!("the damaged database is now {}", aside.display()));
    let mut repaired = adopt(&repair, tell).await?;
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
    let kept = kept.map_err(|error| failed(&error))?;
    let links_kept = kept.links;
    tell(&format!(
        "names and dates of {}, and {links_kept} of {}, were kept",
        plural(names as u64, "run"),
        plural(links as u64, "link")
    ));
    if let Some(line) = also_kept(&kept.carried) {
        tell(&line);
    }
    let tables = [kept.read, kept.carried].concat();
    let lost = not_kept(&tables);
    lost.iter().for_each(|line| tell(line));
    if !lost.is_empty() {
        let place = aside.display();
        tell(&format!("keep {place}, if you may need what was not kept"));
    }
    if locked_out {
        let data = config.data.display();
        tell(&format!(
            "nobody's tokens could be read: `tidemark people list --data {data}` says who there \
             is, and `tidemark people token NAME --data {data}` makes a new one"
        ));
    }
    repaired.rebuilt = Some(Rebuilt {
        aside,
        names,
        links,
        links_kept,
        tables,
        locked_out,
    });
    Ok(repaired)
}

/// What was carried over, in words.
fn also_kept(carried: &[Rescued]) -> Option<String> {
    let kept = carried.iter().filter(|table| table.kept > 0);
    let kept: Vec<String> = kept.map(|table| rows(table, table.kept)).collect();
    (!kept.is_empty()).then(|| format!("also kept: {}", kept.join(", ")))
}

/// What was not, a line each: rows that were met, and places where nothing could be read.
fn not_kept(tables: &[Rescued]) -> Vec<String> {
    let is_lost = |table: &Rescued| table.breaks > 0 && table.kept == 0;
    if tables.iter().all(is_lost) {
        return vec!["nothing in it could be read".to_owned()];
    }
    let left_out = tables.iter().filter(|table| table.left_out > 0);
    let left_out: Vec<String> = left_out.map(|table| rows(table, table.left_out)).collect();
    let torn = tables.iter().filter(|table| table.breaks > 0);
    let torn: Vec<&str> = torn.map(|table| table.words[1]).collect();
    let lines = [
        ("not kept", left_out.join(", ")),
        ("could not be read, or not all of them", torn.join(", ")),
    ];
    let lines = lines.into_iter().filter(|(_, list)| !list.is_empty());
    lines
        .map(|(what, list)| format!("{what}: {list}"))
        .collect()
}

fn rows(table: &Rescued, n: u64) -> String {
    let [one, several] = table.words;
    doing(n, one, several)
}

fn say(line: &str) {
    // The work is done, even if nobody can read about it.
    let _ = print(&format!("{line}\n"));
}

fn failed(error: &dyn std::error::Error) -> CliError {
    CliError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_and_what_was_not_is_told() {
        let of = |words, [kept, left_out, breaks]: [u64; 3]| Rescued {
            table: "of_a_test",
            words,
            kept,
            left_out,
            breaks,
        };
        let benches = |numbers| of(["bench", "benches"], numbers);
        let links = |numbers| of(["link", "links"], numbers);
        let check = |tables: [Rescued; 2], kept: Option<&str>, lost: &[&str]| {
            assert_eq!(also_kept(&tables).as_deref(), kept);
            assert_eq!(not_kept(&tables), lost);
        };
        check(
            [benches([1, 0, 0]), links([1200, 0, 0])],
            Some("also kept: 1 bench, 1,200 links"),
            &[],
        );
        check(
            [benches([0, 2, 0]), links([3, 1, 1])],
            Some("also kept: 3 links"),
            &[
                "not kept: 2 benches, 1 link",
                "could not be read, or not all of them: links",
            ],
        );
        let nothing = "nothing in it could be read";
        check([benches([0, 0, 1]), links([0, 0, 1])], None, &[nothing]);
        // An older database had neither.
        check([benches([0, 0, 0]), links([0, 0, 0])], None, &[]);
    }
}
