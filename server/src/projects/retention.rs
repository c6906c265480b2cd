//! Which runs of a project stay, and which are deleted.
//!
//! A run stays if it is among the newest of its kind, has the label `pinned`, is opened by a link
//! that has not ended, stands in a comparison that was recorded for a pull request, or was made by
//! a bench. All ranks of a job stay or go together; a recording that is a rank of several jobs goes
//! when all of them do.

use super::{MOST_KINDS, ProjectError, refuse};
use crate::store::{Reader, Slice, Store, StoreResult, StoredRun, Which};
use crate::system::clock::now_ms;
use api::compare::RecordedComparison;
use api::ids::{JobId, RunId};
use api::jobs::RunOfJob;
use api::labels::{Label, Labels, NotALabel};
use api::projects::{Going, JobsAmong, Keep, Plan, WhyKept};
use api::runs::{RunSource, RunSummary};
use api::shares::{Share, ShareState};
use std::collections::{HashMap, HashSet};
use timeline::format::plural;
use trace::units::Bytes;

/// The label that keeps a run.
const PINNED: &str = "pinned";

/// Runs that an answer lists.
pub const MOST_PLANNED: usize = 1000;

/// Whether a rule can hold.
///
/// # Errors
/// [`ProjectError::Refused`].
pub fn check(keep: &Keep) -> Result<(), ProjectError> {
    if keep.newest == 0 {
        return refuse("at least the newest run of each kind stays");
    }
    check_kinds(keep)
}

/// Whether the labels that tell kinds apart can be labels at all. With one that no run can have,
/// all runs would be of one kind.
///
/// # Errors
/// [`ProjectError::Refused`].
pub fn check_kinds(Keep { per, .. }: &Keep) -> Result<(), ProjectError> {
    if per.len() > MOST_KINDS {
        return refuse("runs are told apart by 8 labels at most");
    }
    match per.iter().find(|key| Label::new(key, "-").is_err()) {
        None => Ok(()),
        Some(key) => Err(ProjectError::Refused(format!(
            "no run can have the label “{key}”: {}",
            NotALabel::Key
        ))),
    }
}

/// What decides whether a run stays.
#[derive(Clone, Debug)]
pub struct Candidate {
    run: RunId,
    name: String,
    file_bytes: Bytes,
    source: RunSource,
    /// The jobs that it is a rank of, the newest first.
    jobs: Vec<JobId>,
    labels: Labels,
}

impl Candidate {
    fn going(&self) -> Going {
        Going {
            run: self.run.clone(),
            name: self.name.clone(),
            file_bytes: self.file_bytes,
        }
    }
}

/// All jobs of a run, the newest first.
fn jobs_of(place: Option<RunOfJob>) -> Vec<JobId> {
    let jobs = place.map(|place| std::iter::once(place.job).chain(place.older));
    jobs.into_iter().flatten().collect()
}

impl From<RunSummary> for Candidate {
    fn from(run: RunSummary) -> Candidate {
        Candidate {
            run: run.id,
            name: run.name,
            file_bytes: run.file_bytes,
            source: run.source,
            jobs: jobs_of(run.job),
            labels: run.labels,
        }
    }
}

impl From<StoredRun> for Candidate {
    fn from(run: StoredRun) -> Candidate {
        Candidate {
            run: run.id,
            name: run.name,
            file_bytes: run.file_bytes,
            source: run.source,
            jobs: jobs_of(run.job),
            labels: run.labels,
        }
    }
}

/// What holds runs, besides themselves.
#[derive(Debug, Default)]
pub struct Holders {
    links: HashSet<RunId>,
    pull_requests: HashSet<RunId>,
}

impl Holders {
    /// These links and comparisons.
    pub fn new(shares: &[Share], recorded: Vec<RecordedComparison>) -> Holders {
        let active = shares.iter().filter(|s| s.state == ShareState::Active);
        let of_pulls = recorded.into_iter().filter(|one| one.pr.is_some());
        Holders {
            links: active
                .flat_map(|share| share.target.runs().to_vec())
                .collect(),
            pull_requests: of_pulls.flat_map(|one| one.runs).collect(),
        }
    }

    /// Why this run stays, whatever its age.
    fn hold(&self, run: &Candidate) -> Option<WhyKept> {
        if run.source == RunSource::Engine {
            Some(WhyKept::Bench)
        } else if run.labels.contains_key(PINNED) {
            Some(WhyKept::Pinned)
        } else if self.links.contains(&run.run) {
            Some(WhyKept::Link)
        } else {
            let shown = self.pull_requests.contains(&run.run);
            shown.then_some(WhyKept::PullRequest)
        }
    }
}

/// Those of the runs that are alone and have all of these labels, and the whole jobs of which a
/// rank has them; but no rank of another job.
pub fn chosen(runs: Vec<Candidate>, labels: &[Label]) -> Vec<Candidate> {
    let has = |run: &Candidate, label: &Label| run.labels.get(&label.key) == Some(&label.value);
    let has_all = |run: &Candidate| labels.iter().all(|label| has(run, label));
    let jobs = runs.iter().filter(|run| has_all(run));
    let jobs: HashSet<JobId> = jobs.flat_map(|run| run.jobs.clone()).collect();
    let is_chosen = |run: &Candidate| match run.jobs.as_slice() {
        [] => has_all(run),
        of => of.iter().all(|job| jobs.contains(job)),
    };
    runs.into_iter().filter(is_chosen).collect()
}

/// What stays or goes as one: a run, or the ranks of a job.
struct Thing<'r> {
    runs: Vec<&'r Candidate>,
    is_job: bool,
}

/// The things, the newest first. A run that is a rank of several jobs is in each of them.
fn things(runs: &[Candidate]) -> Vec<Thing<'_>> {
    let mut things: Vec<Thing<'_>> = Vec::new();
    let mut of_job: HashMap<&JobId, usize> = HashMap::new();
    let mut seen = HashSet::new();
    // A run that arrives meanwhile moves the others to later pages, so some come twice.
    for run in runs.iter().filter(|run| seen.insert(&run.run)) {
        let alone = run.jobs.is_empty().then_some(None);
        for job in alone.into_iter().chain(run.jobs.iter().map(Some)) {
            let new = things.len();
            let at = job.map_or(new, |job| *of_job.entry(job).or_insert(new));
            if at == new {
                things.push(Thing {
                    runs: Vec::new(),
                    is_job: job.is_some(),
                });
            }
            things[at].runs.push(run);
        }
    }
    things
}

/// What happens to runs, the newest of which come first. A job must be there with all its ranks.
pub fn plan(runs: &[Candidate], holders: &Holders, keep: &Keep) -> Plan {
    let things = things(runs);
    let mut counted: HashMap<Vec<Option<&String>>, u32> = HashMap::new();
    let reasons = things.iter().map(|thing| {
        let labels = &thing.runs[0].labels;
        let kind = keep.per.iter().map(|key| labels.get(key)).collect();
        let of_kind = counted.entry(kind).or_default();
        *of_kind += 1;
        let is_new = *of_kind <= keep.newest;
        let held = thing.runs.iter().find_map(|run| holders.hold(run));
        held.or(is_new.then_some(WhyKept::Newest))
    });
    let reasons: Vec<Option<WhyKept>> = reasons.collect();
    let mut plan = Plan::default();
    // A rank goes when no job holds it, and counts once.
    let mut told: HashSet<&RunId> = HashSet::new();
    let stays = |(_, reason): &(&Thing<'_>, &Option<WhyKept>)| reason.is_some();
    let (staying, going): (Vec<_>, Vec<_>) = things.iter().zip(&reasons).partition(stays);
    for (thing, reason) in staying.into_iter().chain(going) {
        let mut counts = thing.runs.clone();
        counts.retain(|run| told.insert(&run.run));
        if counts.is_empty() {
            continue;
        }
        if thing.is_job {
            let jobs = match reason {
                Some(reason) => plan.kept_jobs.entry(*reason).or_default(),
                None => &mut plan.going_jobs,
            };
            jobs.add(counts.len());
        }
        match reason {
            Some(reason) => *plan.kept.entry(*reason).or_default() += counts.len(),
            None => plan.runs.extend(counts.iter().map(|run| run.going())),
        }
    }
    let is_absent = |key: &&String| !runs.iter().any(|run| run.labels.contains_key(*key));
    plan.absent = keep.per.iter().filter(is_absent).cloned().collect();
    plan.going = plan.runs.len();
    plan.bytes = plan.runs.iter().map(|going| going.file_bytes).sum();
    plan
}

/// `3 runs and 2 jobs (16 ranks)`: what goes.
pub fn going_in_words(plan: &Plan) -> String {
    in_words(plan.going, plan.going_jobs)
}

/// Each reason for which runs stay, and how many, in the same words.
pub fn kept_in_words(plan: &Plan) -> impl Iterator<Item = (WhyKept, String)> {
    plan.kept.iter().map(|(reason, runs)| {
        let jobs = plan.kept_jobs.get(reason).copied().unwrap_or_default();
        (*reason, in_words(*runs, jobs))
    })
}

fn in_words(runs: usize, JobsAmong { jobs, ranks }: JobsAmong) -> String {
    let told = |n: usize, noun: &str| plural(n as u64, noun);
    let of_jobs = format!("{} ({})", told(jobs, "job"), told(ranks, "rank"));
    match (runs.saturating_sub(ranks), jobs) {
        (_, 0) => told(runs, "run"),
        (0, _) => of_jobs,
        (alone, _) => format!("{} and {of_jobs}", told(alone, "run")),
    }
}

/// What would happen to the runs of a project; only the first ones are listed.
///
/// # Errors
/// The database's.
pub async fn look_ahead(store: &Store, keep: Keep) -> StoreResult<Plan> {
    let now = store.latest_ms();
    let read = store.read(move |reader| plan_of(reader, &keep, now));
    let mut plan = read.await?;
    plan.runs.truncate(MOST_PLANNED);
    Ok(plan)
}

/// Deletes the runs of a project that do not stay. For ten minutes that can be undone.
///
/// # Errors
/// The database's.
pub async fn carry_out(store: &Store, keep: Keep) -> StoreResult<Plan> {
    let now = store.latest_ms();
    // Looking and deleting are one transaction: no link is made in between.
    let delete = store.write(move |writer| {
        let mut plan = plan_of(&writer.reader(), &keep, now)?;
        for going in &plan.runs {
            writer.delete_run(&going.run, now_ms())?;
        }
        plan.deleted = true;
        Ok(plan)
    });
    delete.await
}

fn plan_of(reader: &Reader, keep: &Keep, now_ms: i64) -> StoreResult<Plan> {
    let runs = reader.runs(Which::Live, &[], Slice::ALL)?;
    let shares = reader.shares(None, Slice::ALL, now_ms)?;
    let recorded = reader.comparisons(None, Slice::ALL)?;
    let runs: Vec<Candidate> = runs.into_iter().map(Candidate::from).collect();
    Ok(plan(&runs, &Holders::new(&shares, recorded), keep))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, labels: &[(&str, &str)]) -> Candidate {
        let labels = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Candidate {
            run: format!("run_{name}").parse().unwrap(),
            name: name.to_owned(),
            source: RunSource::Upload,
            file_bytes: Bytes(10),
            jobs: Vec::new(),
            labels: labels.collect::<Labels>(),
        }
    }

    fn gone(runs: &[Candidate], holders: &Holders, newest: u32, per: &[&str]) -> Vec<String> {
        let per: Vec<String> = per.iter().map(|key| (*key).to_owned()).collect();
        let plan = plan(runs, holders, &Keep { newest, per });
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
        let keep = |per: &[&str]| Keep {
            newest: 1,
            per: per.iter().map(|key| (*key).to_owned()).collect(),
        };
        assert_eq!(
            plan(&runs, &none, &keep(&["branch", "brnach"])).absent,
            ["brnach"]
        );
        assert!(check(&keep(&["branch", "a/b.c"])).is_ok());
        let refused = check(&keep(&["not a key!!"])).unwrap_err().to_string();
        assert!(refused.contains("“not a key!!”"), "{refused}");
        assert_eq!(gone(&runs, &none, 9, &[]), [""; 0]);
        let holders = Holders {
            links: HashSet::from([runs[2].run.clone()]),
            pull_requests: HashSet::from([runs[5].run.clone()]),
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
        let rank = |name: &str| Candidate {
            jobs: vec!["job_a".parse().unwrap()],
            ..run(name, &[])
        };
        let runs = [run("new", &[]), rank("r0"), run("old", &[]), rank("r1")];
        let none = Holders::default();
        assert_eq!(gone(&runs, &none, 1, &[]), ["r0", "r1", "old"]);
        assert_eq!(gone(&runs, &none, 2, &[]), ["old"]);
        let holders = Holders {
            links: HashSet::from([runs[3].run.clone()]),
            ..Holders::default()
        };
        assert_eq!(gone(&runs, &holders, 1, &[]), ["old"]);
    }

    #[test]
    fn a_recording_of_two_jobs_stays_with_each_of_them() {
        let rank = |name: &str, jobs: &[&str], labels: &[(&str, &str)]| Candidate {
            jobs: jobs
                .iter()
                .map(|job| format!("job_{job}").parse().unwrap())
                .collect(),
            ..run(name, labels)
        };
        let runs = vec![
            rank("new0", &["new"], &[("branch", "x")]),
            rank("shared", &["new", "old"], &[]),
            rank("old0", &["old"], &[("pinned", "yes")]),
            rank("other", &["other"], &[]),
        ];
        let none = Holders::default();
        assert_eq!(gone(&runs, &none, 0, &[]), ["new0", "other"]);
        let of_x = chosen(runs.clone(), &["branch=x".parse().unwrap()]);
        assert_eq!(gone(&of_x, &none, 0, &[]), ["new0"]);
        let keep = Keep {
            newest: 0,
            per: Vec::new(),
        };
        let plan = plan(&runs, &none, &keep);
        assert_eq!(going_in_words(&plan), "2 jobs (2 ranks)");
        let kept = kept_in_words(&plan).map(|(_, runs)| runs);
        assert_eq!(kept.collect::<Vec<_>>(), ["1 job (2 ranks)"]);
        // Without the pin, the shared rank goes with both.
        let unpinned: Vec<Candidate> = runs
            .into_iter()
            .map(|run| Candidate {
                labels: Labels::new(),
                ..run
            })
            .collect();
        assert_eq!(
            gone(&unpinned, &none, 0, &[]),
            ["new0", "shared", "old0", "other"]
        );
    }

    #[test]
    fn labels_choose_whole_jobs() {
        let rank = |name: &str, job: &str, labels: &[(&str, &str)]| Candidate {
            jobs: vec![format!("job_{job}").parse().unwrap()],
            ..run(name, labels)
        };
        let main = ("branch", "main");
        let runs = vec![
            run("alone", &[main, ("config", "a")]),
            run("other", &[("config", "a")]),
            rank("x0", "x", &[("pinned", "yes")]),
            rank("x1", "x", &[main]),
            rank("y0", "y", &[main]),
            rank("y1", "y", &[]),
            rank("z0", "z", &[("branch", "fix")]),
        ];
        let check = |labels: &[&str], expected: &[&str], goes: &[&str]| {
            let labels: Vec<Label> = labels.iter().map(|label| label.parse().unwrap()).collect();
            let chosen = chosen(runs.clone(), &labels);
            let names: Vec<&str> = chosen.iter().map(|run| run.name.as_str()).collect();
            assert_eq!(names, expected);
            assert_eq!(gone(&chosen, &Holders::default(), 0, &[]), goes);
        };
        // The job x stays for the sake of a rank that does not have the label.
        let of_main = ["alone", "x0", "x1", "y0", "y1"];
        check(&["branch=main"], &of_main, &["alone", "y0", "y1"]);
        check(&["branch=main", "config=a"], &["alone"], &["alone"]);
        check(&["branch=none"], &[], &[]);
    }

    #[test]
    fn a_job_is_told_as_one_thing_with_ranks() {
        let rank = |name: &str, job: &str| Candidate {
            jobs: vec![format!("job_{job}").parse().unwrap()],
            ..run(name, &[])
        };
        let mut runs = vec![run("new", &[]), run("b", &[])];
        for job in ["x", "y", "z"] {
            runs.extend((0..4).map(|n| rank(&format!("{job}{n}"), job)));
        }
        runs.push(run("old", &[("pinned", "yes")]));
        let check = |newest: u32, goes: &str, stays: &[&str]| {
            let per = Vec::new();
            let plan = plan(&runs, &Holders::default(), &Keep { newest, per });
            assert_eq!(going_in_words(&plan), goes, "{newest}");
            let kept = kept_in_words(&plan);
            let kept: Vec<String> = kept.map(|(why, n)| format!("{n}: {why:?}")).collect();
            assert_eq!(kept, stays, "{newest}");
            // Runs and jobs together are everything.
            let all = plan.going + plan.kept.values().sum::<usize>();
            assert_eq!(all, runs.len());
        };
        let pinned = "1 run: Pinned";
        check(0, "2 runs and 3 jobs (12 ranks)", &[pinned]);
        check(1, "1 run and 3 jobs (12 ranks)", &["1 run: Newest", pinned]);
        let both = "2 runs and 1 job (4 ranks): Newest";
        check(3, "2 jobs (8 ranks)", &[both, pinned]);
        let all = "2 runs and 3 jobs (12 ranks): Newest";
        check(9, "0 runs", &[all, pinned]);
    }
}
