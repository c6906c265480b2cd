//! `tidemark tables`: all runs of a dashboard as Parquet, for questions over many of them.

use super::CliError;
use super::output::{print, tell};
use super::remote::{Remote, RemoteArgs};
use api::ids::RunId;
use api::leaks::{Leaks, Verdict};
use api::projects::{Project, ProjectName};
use api::routes;
use api::runs::RunSummary;
use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use render::LeakOf;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use timeline::format::{self, UnixMillis};

const EXAMPLES: &str = "\
Examples:
  tidemark tables fleet                      from the dashboard at 127.0.0.1:7878
  tidemark tables fleet --allocations        and every allocation of every run
  tidemark tables fleet --label branch=main --server http://gpu-box:7878
  tidemark tables fleet --project vision     of this project only, not of all that you may enter

fleet/runs and fleet/leaks are written anew each time; fleet/allocations takes only runs that it has
not. Each is partitioned by project and day of arrival, as DuckDB, Spark and Ray read it:
SELECT * FROM read_parquet('fleet/runs/**/*.parquet', hive_partitioning = true)";

/// Says that a folder was made by this command, so that what is in it may be replaced.
const MARK: &str = "made-by-tidemark-tables";

/// In the server's first project: the label that says which project a run is of.
const PROJECT: &str = "project";

/// The project of such a run without that label.
const NO_PROJECT: &str = "none";

/// What a folder's name has instead: all but letters, digits and these two.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// Options of `tidemark tables`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TablesArgs {
    /// The folder to write to: a new one, an empty one, or one that this command made
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Only runs that have this label, as often as you like
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<api::labels::Label>,
    /// Also every allocation of every run: a file each
    #[arg(long)]
    allocations: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Where the runs of a project and a day are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Partition {
    project: String,
    day: String,
}

impl Partition {
    /// Teams that have no projects on the server may still have labelled their runs.
    fn of(run: &RunSummary, project: &ProjectName) -> Partition {
        let label = || run.labels.get(PROJECT).map(String::as_str);
        let project = match project.is_main() {
            true => label().unwrap_or(NO_PROJECT),
            false => project.as_str(),
        };
        Partition {
            project: project.to_owned(),
            day: format::date(UnixMillis(run.created_ms)),
        }
    }

    /// As Hive names partitions: `project=vision/day=2026-11-20`.
    fn folder(&self) -> PathBuf {
        let project = utf8_percent_encode(&self.project, ENCODED);
        PathBuf::from(format!("project={project}")).join(format!("day={}", self.day))
    }
}

/// Writes the tables.
///
/// # Errors
/// When the dashboard cannot be asked, or the folder not be written, or is somebody else's.
pub fn tables(args: &TablesArgs) -> Result<(), CliError> {
    let _lock = own(&args.folder)?;
    let projects = projects(&args.remote)?;
    let in_project = |project| Ok(Remote::new(&args.remote)?.of(Some(project)));
    let remotes = projects.iter().map(in_project);
    let remotes = remotes.collect::<Result<Vec<Remote<'_>>, CliError>>()?;
    let mut runs = listed(&projects, &remotes, &args.labels)?;
    let mut gone = BTreeSet::new();
    let (mut found, mut leaking) = (0, 0);
    let [of_runs, of_leaks] = ["runs", "leaks"].map(|name| Tree::new(&args.folder, name));
    for (partition, of_day) in &mut runs {
        let leaks = leaks(of_day, &mut gone)?;
        if of_day.runs.is_empty() {
            continue;
        }
        found += of_day.runs.len() as u64;
        leaking += of_day.runs.iter().filter(|run| leaks_any(run)).count() as u64;
        of_runs.put(partition, "runs", |out| {
            render::write_runs(&of_day.runs, out)
        })?;
        of_leaks.put(partition, "leaks", |out| render::write_leaks(&leaks, out))?;
    }
    of_runs.finish()?;
    of_leaks.finish()?;
    let told = leaking_in_words(found, leaking);
    print(&format!("{told}, in {}\n", args.folder.display()))?;
    if args.allocations {
        allocations(&args.folder, &runs, &mut gone)?;
    }
    if !gone.is_empty() {
        tell(&gone_in_words(gone.len() as u64));
    }
    Ok(())
}

/// All runs with these labels, by project and day. A run that a team has in a project of its own,
/// and in the first one under the label of that project, counts once, as one of the project.
fn listed<'a>(
    projects: &[ProjectName],
    remotes: &'a [Remote<'a>],
    labels: &[api::labels::Label],
) -> Result<BTreeMap<Partition, OfDay<'a>>, CliError> {
    let mut runs: BTreeMap<Partition, OfDay<'a>> = BTreeMap::new();
    let list = routes::runs_with(labels);
    let mut seen = BTreeSet::new();
    let mut homes: Vec<(&ProjectName, &Remote<'a>)> = projects.iter().zip(remotes).collect();
    homes.sort_by_key(|(project, _)| project.is_main());
    for (project, remote) in homes {
        remote.find(&list, |run: &RunSummary| {
            let partition = Partition::of(run, project);
            // A run that arrives meanwhile moves the others to later pages, too.
            if seen.insert((partition.project.clone(), run.id.clone())) {
                let of_day = runs.entry(partition).or_default();
                of_day.runs.push(run.clone());
                of_day.homes.push(remote);
            }
            false
        })?;
    }
    Ok(runs)
}

/// What is said of runs that were deleted since they were listed.
fn gone_in_words(gone: u64) -> String {
    let of = format::plural(gone, "run");
    let verb = if gone == 1 { "was" } else { "were" };
    format!("{of} {verb} deleted meanwhile, and left out")
}

/// `3 runs, of which 1 leaks`.
fn leaking_in_words(runs: u64, leaking: u64) -> String {
    let of = format::plural(runs, "run");
    let verb = if leaking == 1 { "leaks" } else { "leak" };
    format!("{of}, of which {} {verb}", format::count(leaking))
}

/// What became of the files of allocations.
fn files_in_words(new: u64, removed: u64) -> String {
    let of = format::plural(new, "run");
    let were = if removed == 1 { "was" } else { "were" };
    let files = format::plural(removed, "file");
    format!("allocations: those of {of} are new, {files} {were} removed")
}

/// The runs of a partition.
#[derive(Default)]
struct OfDay<'a> {
    runs: Vec<RunSummary>,
    /// For each run, the project to ask about it.
    homes: Vec<&'a Remote<'a>>,
}

impl<'a> OfDay<'a> {
    fn iter(&self) -> impl Iterator<Item = (&RunSummary, &'a Remote<'a>)> {
        self.runs.iter().zip(self.homes.iter().copied())
    }

    fn leave_out(&mut self, gone: &BTreeSet<RunId>) {
        let all = std::mem::take(&mut self.runs).into_iter();
        let all = all.zip(std::mem::take(&mut self.homes));
        (self.runs, self.homes) = all.filter(|(run, _)| !gone.contains(&run.id)).unzip();
    }
}

/// The projects whose runs are written: the one that was named, or all that the sender may enter.
fn projects(args: &RemoteArgs) -> Result<Vec<ProjectName>, CliError> {
    if let Some(named) = args.project() {
        return Ok(vec![named.clone()]);
    }
    let all: Vec<Project> = Remote::new(args)?.get(routes::PROJECTS)?;
    let open = all
        .into_iter()
        .filter(|project| project.closed_ms.is_none());
    Ok(open.map(|project| project.name).collect())
}

fn leaks_any(run: &RunSummary) -> bool {
    run.leaks
        .as_ref()
        .is_some_and(|leaks| leaks.verdict == Verdict::Leak)
}

/// What accumulates in these runs. Those that were deleted meanwhile are left out of them.
fn leaks(of_day: &mut OfDay<'_>, gone: &mut BTreeSet<RunId>) -> Result<Vec<LeakOf>, CliError> {
    let mut found = Vec::new();
    let mut lost = BTreeSet::new();
    for (run, home) in of_day.iter().filter(|(run, _)| leaks_any(run)) {
        match leaks_of(run, home)? {
            Some(groups) => found.extend(groups),
            None => drop(lost.insert(run.id.clone())),
        }
    }
    of_day.leave_out(&lost);
    gone.extend(lost);
    Ok(found)
}

/// What accumulates in a run; `None` if it was deleted meanwhile.
fn leaks_of(run: &RunSummary, home: &Remote<'_>) -> Result<Option<Vec<LeakOf>>, CliError> {
    let mut found = Vec::new();
    for device in run.devices.iter().chain(&run.pinned) {
        let leaks = home.get_if_there(&routes::leaks(&run.id, device.device))?;
        let Some(leaks): Option<Leaks> = leaks else {
            return Ok(None);
        };
        found.extend(leaks.groups.into_iter().map(|group| LeakOf {
            run: run.id.clone(),
            device: device.device,
            group,
        }));
    }
    Ok(Some(found))
}

/// Makes the folder this command's for as long as the file is open, unless it is somebody else's,
/// or another such command writes in it.
fn own(folder: &Path) -> Result<File, CliError> {
    let mark = folder.join(MARK);
    if !mark.is_file() {
        take(folder, &mark)?;
    }
    let lock = File::open(&mark).map_err(|error| unwritable(&mark, &error))?;
    match lock.try_lock() {
        // Some network drives have no locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(CliError::Failed(format!(
            "another `tidemark tables` writes in {} right now: let it end first",
            folder.display()
        ))),
    }
}

/// Marks a new or an empty folder as this command's.
fn take(folder: &Path, mark: &Path) -> Result<(), CliError> {
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    let mut entries = fs::read_dir(folder).map_err(|error| unwritable(folder, &error))?;
    if entries.next().is_some() {
        let why = format!(
            "{}: the folder holds other files, which would get lost: name a new or an empty one",
            folder.display()
        );
        return Err(CliError::Usage(why));
    }
    let about = "Parquet tables by `tidemark tables`, which replaces what is in this folder.\n";
    fs::write(mark, about).map_err(|error| unwritable(mark, &error))
}

fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::Failed(format!("cannot write {}: {error}", path.display()))
}

/// A table of many files, which takes the place of the one before when it is whole.
struct Tree {
    half: PathBuf,
    whole: PathBuf,
}

impl Tree {
    fn new(folder: &Path, name: &str) -> Tree {
        let half = folder.join(format!("{name}.unfinished"));
        // Of a command that was stopped.
        let _ = fs::remove_dir_all(&half);
        Tree {
            half,
            whole: folder.join(name),
        }
    }

    fn put<E: std::fmt::Display>(
        &self,
        partition: &Partition,
        name: &str,
        write: impl FnOnce(BufWriter<File>) -> Result<(), E>,
    ) -> Result<(), CliError> {
        let folder = self.half.join(partition.folder());
        fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
        let path = folder.join(format!("{name}.parquet"));
        let file = File::create(&path).map_err(|error| unwritable(&path, &error))?;
        write(BufWriter::new(file)).map_err(|error| unwritable(&path, &error))
    }

    fn finish(self) -> Result<(), CliError> {
        let Tree { half, whole } = self;
        fs::create_dir_all(&half).map_err(|error| unwritable(&half, &error))?;
        match fs::remove_dir_all(&whole) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(unwritable(&whole, &error));
            }
            _ => {}
        }
        fs::rename(&half, &whole).map_err(|error| unwritable(&whole, &error))
    }
}

/// The allocations of each run that is not there yet. Those of runs that are gone are removed.
fn allocations(
    folder: &Path,
    runs: &BTreeMap<Partition, OfDay<'_>>,
    gone: &mut BTreeSet<RunId>,
) -> Result<(), CliError> {
    let folder = folder.join("allocations");
    let mut wanted = BTreeSet::new();
    let mut written = 0;
    fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
    for (partition, of_day) in runs {
        let place = folder.join(partition.folder());
        fs::create_dir_all(&place).map_err(|error| unwritable(&place, &error))?;
        for (run, home) in of_day.iter() {
            let path = place.join(format!("{}.parquet", run.id));
            // One without today's columns does not stand beside the others.
            if !File::open(&path).is_ok_and(render::is_of_this_version) {
                let half = path.with_extension("unfinished");
                let from = home.open_if_there(&routes::run_export(&run.id, "parquet"))?;
                let Some(mut from) = from else {
                    gone.insert(run.id.clone());
                    continue;
                };
                let mut to = File::create(&half).map_err(|error| unwritable(&half, &error))?;
                let copied = io::copy(&mut from, &mut to).and_then(|_| fs::rename(&half, &path));
                copied.map_err(|error| unwritable(&path, &error))?;
                written += 1;
            }
            wanted.insert(path);
        }
    }
    let removed = remove_others(&folder, &wanted);
    let removed = removed.map_err(|error| unwritable(&folder, &error))?;
    print(&(files_in_words(written, removed) + "\n"))
}

/// Removes the files of a folder that nobody wants; how many these were.
fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> io::Result<u64> {
    let mut removed = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        // A link is a file here: what it leads to is not ours.
        if entry.file_type()?.is_dir() {
            removed += remove_others(&path, wanted)?;
        } else if !wanted.contains(&path) {
            fs::remove_file(&path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::projects::HEADER;
    use axum::Router;
    use axum::http::HeaderMap;
    use axum::routing::get;
    use trace::trace::{Fidelity, SeriesSummary};

    #[test]
    fn a_partition_is_named_as_hive_does() {
        let check = |project: &str, expected: &str| {
            let partition = Partition {
                project: project.to_owned(),
                day: "2026-11-20".to_owned(),
            };
            assert_eq!(partition.folder(), Path::new(expected));
        };
        check("my-vision_2", "project=my-vision_2/day=2026-11-20");
        check("../a b", "project=%2E%2E%2Fa%20b/day=2026-11-20");
    }

    fn run(id: &str, project: Option<&str>, verdict: Verdict) -> RunSummary {
        let labels = project.map(|project| (PROJECT.to_owned(), project.to_owned()));
        let json = serde_json::json!({
            "id": id, "name": id, "source": "upload", "created_ms": 0, "file_bytes": 1,
            "content_hash": "", "steps": 0, "peak_allocated": 0, "quality": [], "pinned": null,
            "job": null, "deleted_ms": null, "uploaded_by": null,
            "labels": labels.into_iter().collect::<BTreeMap<_, _>>(),
            "devices": [{
                "device": 0, "events": 1, "blocks": 1, "series": vec![SeriesSummary::default(); 4],
                "fidelity": Fidelity::default(), "unmatched_frees": 0, "step_source": "none",
                "steps": 0, "time": null, "oom_events": [],
            }],
            "leaks": {
                "device": 0, "recording": "loop", "verdict": verdict, "reason": "",
                "bytes_per_step": 0, "step": "step",
            },
        });
        serde_json::from_value(json).unwrap()
    }

    /// A dashboard that lists runs of two projects, and has nothing else of them any more.
    async fn dashboard() -> String {
        let of_main = vec![
            run("run_both", Some("vision"), Verdict::Clean),
            run("run_alone", None, Verdict::Clean),
            run("run_gone", None, Verdict::Leak),
        ];
        let of_vision = vec![run("run_both", None, Verdict::Clean)];
        let list = move |headers: HeaderMap| async move {
            match headers.get(HEADER).unwrap().as_bytes() {
                b"vision" => axum::Json(of_vision),
                _ => axum::Json(of_main),
            }
        };
        let router = Router::new().route(routes::RUNS, get(list));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await });
        url
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_run_of_a_project_stands_there_once_and_those_that_are_gone_are_counted() {
        let url = dashboard().await;
        let asked = tokio::task::spawn_blocking(move || {
            let projects = ["main", "vision"].map(|name| name.parse::<ProjectName>().unwrap());
            let in_project = |project| Remote::at(&url, None).of(Some(project));
            let remotes: Vec<Remote<'_>> = projects.iter().map(in_project).collect();
            let mut runs = listed(&projects, &remotes, &[]).unwrap();
            let mut gone = BTreeSet::new();
            for of_day in runs.values_mut() {
                assert_eq!(leaks(of_day, &mut gone).unwrap(), []);
            }
            let all = runs.iter().flat_map(|(partition, of_day)| {
                let told = |(run, home): (&RunSummary, &Remote<'_>)| {
                    let of_vision = std::ptr::eq(home, &remotes[1]);
                    (partition.project.clone(), run.id.to_string(), of_vision)
                };
                of_day.iter().map(told).collect::<Vec<_>>()
            });
            let all: Vec<(String, String, bool)> = all.collect();
            let folder = tempfile::tempdir().unwrap();
            allocations(folder.path(), &runs, &mut gone).unwrap();
            (all, gone.len())
        });
        let (all, gone) = asked.await.unwrap();
        let expected = [
            (NO_PROJECT, "run_alone", false),
            ("vision", "run_both", true),
        ];
        let expected = expected.map(|(project, run, own)| (project.into(), run.into(), own));
        assert_eq!(all, expected);
        // One was gone when its leaks were asked for, and the others when their allocations were.
        assert_eq!(gone, 3);
        assert_eq!(
            gone_in_words(1),
            "1 run was deleted meanwhile, and left out"
        );
    }

    #[test]
    fn one_is_told_as_one() {
        let check = |runs, leaking, expected: &str| {
            assert_eq!(leaking_in_words(runs, leaking), expected);
        };
        check(3, 1, "3 runs, of which 1 leaks");
        check(1, 0, "1 run, of which 0 leak");
        check(1000, 100, "1,000 runs, of which 100 leak");
        let files = |new, removed| files_in_words(new, removed).split_off("allocations: ".len());
        assert_eq!(files(1, 1), "those of 1 run are new, 1 file was removed");
        assert_eq!(files(3, 0), "those of 3 runs are new, 0 files were removed");
    }

    #[test]
    fn a_folder_with_other_files_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("new");
        drop(own(&at).unwrap());
        fs::write(at.join("x"), "").unwrap();
        let lock = own(&at).unwrap();
        let refused = own(&at).unwrap_err();
        assert!(refused.to_string().contains("another"), "{refused}");
        drop(lock);
        own(&at).unwrap();
        fs::write(folder.path().join("thesis.tex"), "").unwrap();
        let refused = own(folder.path()).unwrap_err();
        assert!(refused.to_string().contains("other files"), "{refused}");
    }
}
