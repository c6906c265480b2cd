//! `tidemark prune`: deletes old runs that nobody holds, or says which it would delete.

use super::CliError;
use super::output::{json, print};
use super::remote::{Remote, RemoteArgs};
use api::compare::RecordedComparison;
use api::ids::RunId;
use api::labels::Label;
use api::routes;
use api::runs::{RunSource, RunSummary};
use api::shares::{Share, ShareState};
use clap::Args;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use timeline::format::plural;
use trace::units::Bytes;

const EXAMPLES: &str = "\
Examples:
  tidemark prune --keep 50                          what would be deleted
  tidemark prune --keep 50 --delete                 delete it
  tidemark prune --keep 10 --per branch --per config --label project=vision --delete

A run stays if it is among the newest of its kind, has the label pinned (any value), is opened by a
link that has not ended, stands in a comparison that was recorded for a pull request, or was made by
a bench. All ranks of a job stay or go together, and count as one. A deleted run can be restored
for ten minutes.";

/// The label that keeps a run.
const PINNED: &str = "pinned";

/// Options of `tidemark prune`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PruneArgs {
    /// How many runs stay of each kind, the newest
    #[arg(long, value_name = "N")]
    keep: usize,
    /// Runs with different values of this label are of different kinds; as often as you like
    #[arg(long, value_name = "KEY")]
    per: Vec<String>,
    /// Look only at runs that have this label, as often as you like
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

/// Why a run stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    /// It is among the newest of its kind.
    Newest,
    /// It has the label for that.
    Pinned,
    /// A link opens it.
    Link,
    /// A comparison for a pull request shows it.
    PullRequest,
    /// A bench made it.
    Bench,
}

impl Reason {
    fn words(self) -> &'static str {
        match self {
            Reason::Newest => "among the newest",
            Reason::Pinned => "pinned",
            Reason::Link => "opened by a link",
            Reason::PullRequest => "shown in a pull request",
            Reason::Bench => "made by a bench",
        }
    }
}

/// What holds runs, besides themselves.
#[derive(Debug, Default)]
struct Holders {
    links: HashSet<RunId>,
    pull_requests: HashSet<RunId>,
}

/// A run that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Gone {
    run: RunId,
    name: String,
    file_bytes: Bytes,
}

/// What happens to the runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Plan {
    /// Whether the runs were deleted.
    deleted: bool,
    runs: Vec<Gone>,
    kept: BTreeMap<Reason, usize>,
}

/// Deletes, or says what would be deleted.
///
/// # Errors
/// When the server cannot be reached, or refuses.
pub fn prune(args: &PruneArgs) -> Result<(), CliError> {
    let remote = Remote::new(&args.remote);
    let runs: Vec<RunSummary> = all(&remote, &routes::runs_with(&args.labels))?;
    let holders = Holders::of(&remote)?;
    let mut plan = plan(&runs, &holders, args.keep, &args.per);
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

impl Holders {
    fn of(remote: &Remote<'_>) -> Result<Holders, CliError> {
        let shares: Vec<Share> = all(remote, routes::SHARES)?;
        let active = shares.iter().filter(|s| s.state == ShareState::Active);
        let recorded: Vec<RecordedComparison> = all(remote, routes::COMPARISONS)?;
        let of_pulls = recorded.into_iter().filter(|one| one.pr.is_some());
        Ok(Holders {
            links: active
                .flat_map(|share| share.target.runs().to_vec())
                .collect(),
            pull_requests: of_pulls.flat_map(|one| one.runs).collect(),
        })
    }

    /// Why this run stays, whatever its age.
    fn hold(&self, run: &RunSummary) -> Option<Reason> {
        if run.source == RunSource::Engine {
            Some(Reason::Bench)
        } else if run.labels.contains_key(PINNED) {
            Some(Reason::Pinned)
        } else if self.links.contains(&run.id) {
            Some(Reason::Link)
        } else {
            let shown = self.pull_requests.contains(&run.id);
            shown.then_some(Reason::PullRequest)
        }
    }
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

/// What happens to runs, the newest of which come first.
fn plan(runs: &[RunSummary], holders: &Holders, keep: usize, per: &[String]) -> Plan {
    // The ranks of a job are one thing.
    let mut things: Vec<Vec<&RunSummary>> = Vec::new();
    let mut of_job = HashMap::new();
    let mut seen = HashSet::new();
    // A run that arrives meanwhile moves the others to later pages, so some come twice.
    for run in runs.iter().filter(|run| seen.insert(&run.id)) {
        let at = match &run.job {
            None => things.len(),
            Some(job) => *of_job.entry(&job.job).or_insert(things.len()),
        };
        match things.get_mut(at) {
            Some(thing) => thing.push(run),
            None => things.push(vec![run]),
        }
    }
    let mut counted: HashMap<Vec<Option<&String>>, usize> = HashMap::new();
    let mut plan = Plan::default();
    for thing in things {
        let kind = per.iter().map(|key| thing[0].labels.get(key)).collect();
        let of_kind = counted.entry(kind).or_default();
        *of_kind += 1;
        let is_new = *of_kind <= keep;
        let held = thing.iter().find_map(|run| holders.hold(run));
        match held.or(is_new.then_some(Reason::Newest)) {
            Some(reason) => *plan.kept.entry(reason).or_default() += thing.len(),
            None => plan.runs.extend(thing.into_iter().map(|run| Gone {
                run: run.id.clone(),
                name: run.name.clone(),
                file_bytes: run.file_bytes,
            })),
        }
    }
    plan
}

fn text(plan: &Plan) -> String {
    let mut out = String::new();
    for gone in &plan.runs {
        out += &format!("{}  {}  {}\n", gone.run, gone.file_bytes, gone.name);
    }
    let bytes: Bytes = plan.runs.iter().map(|gone| gone.file_bytes).sum();
    let runs = plural(plan.runs.len() as u64, "run");
    out += &match plan.deleted {
        true => format!("{runs} deleted ({bytes} as uploaded)\n"),
        false if plan.runs.is_empty() => "nothing would be deleted\n".to_owned(),
        false => format!("{runs} would be deleted ({bytes} as uploaded): add --delete\n"),
    };
    for (reason, count) in &plan.kept {
        let runs = plural(*count as u64, "run");
        out += &format!("{runs} kept: {}\n", reason.words());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::jobs::RunOfJob;
    use api::labels::Labels;
    use trace::ranks::Rank;

    fn run(name: &str, labels: &[(&str, &str)]) -> RunSummary {
        let labels = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        RunSummary {
            id: format!("run_{name}").parse().unwrap(),
            name: name.to_owned(),
            source: RunSource::Upload,
            created_ms: 0,
            file_bytes: Bytes(10),
            content_hash: String::new(),
            devices: Vec::new(),
            steps: 0,
            peak_allocated: Bytes::ZERO,
            quality: Vec::new(),
            leaks: None,
            job: None,
            labels: labels.collect::<Labels>(),
            deleted_ms: None,
        }
    }

    fn gone(runs: &[RunSummary], holders: &Holders, keep: usize, per: &[&str]) -> Vec<String> {
        let per: Vec<String> = per.iter().map(|key| (*key).to_owned()).collect();
        let plan = plan(runs, holders, keep, &per);
        plan.runs.into_iter().map(|gone| gone.name).collect()
    }

    #[test]
    fn the_newest_of_each_kind_stay_and_what_is_held() {
        let main = ("branch", "main");
        let mut runs = vec![
            run("a", &[main]),
            run("b", &[("branch", "x")]),
            run("c", &[main]),
            run("d", &[main, ("pinned", "yes")]),
            run("e", &[]),
            run("f", &[main]),
        ];
        let none = Holders::default();
        assert_eq!(gone(&runs, &none, 2, &[]), ["c", "e", "f"]);
        assert_eq!(gone(&runs, &none, 1, &["branch"]), ["c", "f"]);
        assert_eq!(gone(&runs, &none, 9, &[]), [""; 0]);
        let holders = Holders {
            links: HashSet::from([runs[2].id.clone()]),
            pull_requests: HashSet::from([runs[5].id.clone()]),
        };
        assert_eq!(gone(&runs, &holders, 0, &[]), ["a", "b", "e"]);
        runs[1].source = RunSource::Engine;
        assert_eq!(gone(&runs, &holders, 0, &[]), ["a", "e"]);
        // The same run on two pages of the list is one.
        let twice = [runs.clone(), runs].concat();
        assert_eq!(gone(&twice, &holders, 0, &[]), ["a", "e"]);
    }

    #[test]
    fn ranks_of_a_job_stay_or_go_together() {
        let rank = |name: &str, n: u32| RunSummary {
            job: Some(RunOfJob {
                job: "job_a".parse().unwrap(),
                rank: Rank(n),
                name: "a".to_owned(),
            }),
            ..run(name, &[])
        };
        let runs = [
            run("new", &[]),
            rank("r0", 0),
            run("old", &[]),
            rank("r1", 1),
        ];
        let none = Holders::default();
        assert_eq!(gone(&runs, &none, 1, &[]), ["r0", "r1", "old"]);
        assert_eq!(gone(&runs, &none, 2, &[]), ["old"]);
        let holders = Holders {
            links: HashSet::from([runs[3].id.clone()]),
            ..Holders::default()
        };
        assert_eq!(gone(&runs, &holders, 1, &[]), ["old"]);
    }
}
