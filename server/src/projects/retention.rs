//! Which runs of a project stay, and which are deleted.
//!
//! A run stays if it is among the newest of its kind, has the label `pinned`, is opened by a link
//! that has not ended, stands in the newest comparison of a pull request or in one that is young
//! enough, or was made by a bench. All ranks of a job stay or go together; a recording that is a
//! rank of several jobs goes when all of them do. [`outlook()`] says what holds runs and what a
//! rule would delete.

mod outlook;

pub use outlook::{Outlook, outlook};

use super::{MOST_KINDS, ProjectError, refuse};
use crate::store::{Reader, Slice, Store, StoreResult, StoredRun, Which};
use crate::system::clock::now_ms;
use api::compare::RecordedComparison;
use api::ids::{JobId, RunId};
use api::jobs::{JobSummary, RunOfJob};
use api::labels::{Label, Labels, NotALabel};
use api::projects::{Going, JobsAmong, Keep, Plan, WhyKept};
use api::runs::{RunSource, RunSummary};
use api::shares::{Share, ShareState};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use timeline::format::plural;
use trace::units::Bytes;

/// The label that keeps a run.
const PINNED: &str = "pinned";

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

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
    /// Whether it is also a rank of a job that is not looked at. Then it stays, but what it says
    /// counts for its other jobs.
    is_elsewhere: bool,
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
            name: run.called(),
            run: run.id,
            file_bytes: run.file_bytes,
            source: run.source,
            jobs: jobs_of(run.job),
            is_elsewhere: false,
            labels: run.labels,
        }
    }
}

impl From<StoredRun> for Candidate {
    fn from(run: StoredRun) -> Candidate {
        Candidate {
            name: run.called(),
            run: run.id,
            file_bytes: run.file_bytes,
            source: run.source,
            jobs: jobs_of(run.job),
            is_elsewhere: false,
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
    /// These links, and those of the comparisons that hold their runs under this rule now.
    pub fn new(
        shares: &[Share],
        recorded: Vec<RecordedComparison>,
        keep: &Keep,
        now_ms: i64,
    ) -> Holders {
        let active = shares.iter().filter(|s| s.state == ShareState::Active);
        Holders {
            links: active
                .flat_map(|share| share.target.runs().to_vec())
                .collect(),
            pull_requests: shown_in_pulls(recorded, keep.pull_request_days, now_ms),
        }
    }

    /// All for which this run stays, whatever its age.
    fn holding(&self, run: &Candidate) -> impl Iterator<Item = WhyKept> {
        let all = [
            (WhyKept::Bench, run.source == RunSource::Engine),
            (WhyKept::Pinned, run.labels.contains_key(PINNED)),
            (WhyKept::Link, self.links.contains(&run.run)),
            (WhyKept::PullRequest, self.pull_requests.contains(&run.run)),
        ];
        all.into_iter()
            .filter_map(|(why, holds)| holds.then_some(why))
    }

    /// The first of them.
    fn hold(&self, run: &Candidate) -> Option<WhyKept> {
        self.holding(run).next()
    }
}

/// The runs of the newest comparison of each pull request, and of those that are younger than so
/// many days; without a number, of all.
fn shown_in_pulls(
    mut recorded: Vec<RecordedComparison>,
    days: Option<u32>,
    now_ms: i64,
) -> HashSet<RunId> {
    let since = days.map_or(i64::MIN, |days| now_ms - i64::from(days) * DAY_MS);
    recorded.sort_by_key(|one| Reverse(one.created_ms));
    let mut seen: HashSet<String> = HashSet::new();
    let mut held = HashSet::new();
    for one in recorded {
        let Some(pr) = one.pr else { continue };
        let is_newest = seen.insert(pr);
        if is_newest || one.created_ms > since {
            held.extend(one.runs);
        }
    }
    held
}

/// Those of the runs that are alone and have all of these labels, and the whole jobs of which a
/// rank has them. A rank that is also of another job is there, but does not go.
pub fn chosen(runs: Vec<Candidate>, labels: &[Label]) -> Vec<Candidate> {
    let has = |run: &Candidate, label: &Label| run.labels.get(&label.key) == Some(&label.value);
    let has_all = |run: &Candidate| labels.iter().all(|label| has(run, label));
    let jobs = runs.iter().filter(|run| has_all(run));
    let jobs: HashSet<JobId> = jobs.flat_map(|run| run.jobs.clone()).collect();
    let seen = |mut run: Candidate| {
        if run.jobs.is_empty() {
            return has_all(&run).then_some(run);
        }
        let before = run.jobs.len();
        run.jobs.retain(|job| jobs.contains(job));
        run.is_elsewhere = run.jobs.len() < before;
        (!run.jobs.is_empty()).then_some(run)
    };
    runs.into_iter().filter_map(seen).collect()
}

/// What stays or goes as one: a run, or the ranks of a job.
struct Thing<'r> {
    runs: Vec<&'r Candidate>,
    job: Option<&'r JobId>,
}

/// What kinds differ by: the value of each label of the rule.
type Kind<'r> = Vec<Option<&'r String>>;

impl<'r> Thing<'r> {
    /// The kinds that it counts in: those of its ranks. A rank without a label counts as if it had
    /// that of the first rank which has it: a label may stand on one rank only, and the labels of a
    /// rank may have been refused.
    fn kinds(&self, per: &[String]) -> HashSet<Kind<'r>> {
        // The newest rank comes first here.
        let first = |key: &String| -> Option<&'r String> {
            let mut ranks = self.runs.iter().rev();
            ranks.find_map(|run| run.labels.get(key))
        };
        let first: Kind<'r> = per.iter().map(first).collect();
        let kind = |run: &&'r Candidate| -> Kind<'r> {
            let labels = &run.labels;
            let keys = per.iter().zip(&first);
            keys.map(|(key, first)| labels.get(key).or(*first))
                .collect()
        };
        self.runs.iter().map(kind).collect()
    }
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
                    job,
                });
            }
            things[at].runs.push(run);
        }
    }
    things
}

/// What happens to runs, the newest of which come first. A job must be there with all its ranks.
pub fn plan(runs: &[Candidate], holders: &Holders, keep: &Keep) -> Plan {
    sorted_out(runs, holders, keep).0
}

/// Why each of the things stays; `None`: it goes.
fn reasons<'r>(things: &[Thing<'r>], holders: &Holders, keep: &Keep) -> Vec<Option<WhyKept>> {
    let mut counted: HashMap<Kind<'r>, u32> = HashMap::new();
    let reason = |thing: &Thing<'r>| {
        let mut is_new = false;
        for kind in thing.kinds(&keep.per) {
            let of_kind = counted.entry(kind).or_default();
            *of_kind += 1;
            is_new |= *of_kind <= keep.newest;
        }
        let held = thing.runs.iter().find_map(|run| holders.hold(run));
        held.or(is_new.then_some(WhyKept::Newest))
    };
    things.iter().map(reason).collect()
}

/// The plan, and the things that go: those ranks of each that nothing else keeps.
fn sorted_out<'r>(runs: &'r [Candidate], holders: &Holders, keep: &Keep) -> (Plan, Vec<Thing<'r>>) {
    let things = things(runs);
    let reasons = reasons(&things, holders, keep);
    let mut plan = Plan::default();
    let mut gone = Vec::new();
    // A rank goes when no job holds it, and counts once.
    let mut told: HashSet<&RunId> = HashSet::new();
    let stays = |(_, reason): &(Thing<'r>, Option<WhyKept>)| reason.is_some();
    let (staying, going): (Vec<_>, Vec<_>) = things.into_iter().zip(reasons).partition(stays);
    for (mut thing, reason) in staying.into_iter().chain(going) {
        let counts = |run: &&'r Candidate| !run.is_elsewhere && told.insert(&run.run);
        thing.runs.retain(counts);
        if thing.runs.is_empty() {
            continue;
        }
        if thing.job.is_some() {
            let jobs = match reason {
                Some(reason) => plan.kept_jobs.entry(reason).or_default(),
                None => &mut plan.going_jobs,
            };
            jobs.add(thing.runs.len());
        }
        match reason {
            Some(reason) => *plan.kept.entry(reason).or_default() += thing.runs.len(),
            None => {
                plan.runs.extend(thing.runs.iter().map(|run| run.going()));
                gone.push(thing);
            }
        }
    }
    let is_absent = |key: &&String| !runs.iter().any(|run| run.labels.contains_key(*key));
    plan.absent = keep.per.iter().filter(is_absent).cloned().collect();
    plan.going = plan.runs.len();
    plan.bytes = plan.runs.iter().map(|going| going.file_bytes).sum();
    (plan, gone)
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
    let read = store.read(move |reader| {
        let (runs, holders) = candidates(reader, &keep, now)?;
        Ok(plan(&runs, &holders, &keep))
    });
    let mut plan = read.await?;
    plan.runs.truncate(MOST_PLANNED);
    Ok(plan)
}

/// What a rule deleted as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// A run that is no rank of a job.
    Run(Going),
    /// A job.
    Job {
        /// As it was.
        job: JobSummary,
        /// How many of its ranks went: those that no other job keeps.
        ranks: usize,
    },
}

impl Gone {
    /// Runs that were deleted with it.
    pub const fn runs(&self) -> usize {
        match self {
            Gone::Run(_) => 1,
            Gone::Job { ranks, .. } => *ranks,
        }
    }
}

/// Deletes the runs of a project that do not stay. For ten minutes that can be undone.
///
/// # Errors
/// The database's.
pub async fn carry_out(store: &Store, keep: Keep) -> StoreResult<Vec<Gone>> {
    let now = store.latest_ms();
    // Looking and deleting are one transaction: no link is made in between.
    let delete = store.write(move |writer| {
        let (runs, holders) = candidates(&writer.reader(), &keep, now)?;
        let (_, going) = sorted_out(&runs, &holders, &keep);
        let mut gone = Vec::new();
        for Thing { runs, job } in going {
            match job {
                None => gone.extend(runs.iter().map(|run| Gone::Run(run.going()))),
                Some(job) => gone.push(Gone::Job {
                    job: writer.reader().job(job)?,
                    ranks: runs.len(),
                }),
            }
            for run in runs {
                writer.delete_run(&run.run, now_ms())?;
            }
            // With its last rank a job leaves the list anyway; a rank that another job keeps does
            // not keep this one.
            if let Some(job) = job
                && !writer.reader().ranks_of(job, 0)?.is_empty()
            {
                writer.delete_job(job, now_ms())?;
            }
        }
        Ok(gone)
    });
    delete.await
}

/// The runs of a project, and what holds them.
fn candidates(reader: &Reader, keep: &Keep, now_ms: i64) -> StoreResult<(Vec<Candidate>, Holders)> {
    let runs = reader.runs(Which::Live, &[], Slice::ALL)?;
    let shares = reader.shares(None, Slice::ALL, now_ms)?;
    let recorded = reader.comparisons(None, Slice::ALL)?;
    let runs = runs.into_iter().map(Candidate::from).collect();
    Ok((runs, Holders::new(&shares, recorded, keep, now_ms)))
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
            is_elsewhere: false,
            labels: labels.collect::<Labels>(),
        }
    }

    fn rule(newest: u32, per: &[&str]) -> Keep {
        Keep {
            newest,
            per: per.iter().map(|key| (*key).to_owned()).collect(),
            pull_request_days: Some(Keep::PULL_REQUEST_DAYS),
        }
    }

    fn gone(runs: &[Candidate], holders: &Holders, newest: u32, per: &[&str]) -> Vec<String> {
        let plan = plan(runs, holders, &rule(newest, per));
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
        let keep = |per: &[&str]| rule(1, per);
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

    /// The newest rank says nothing: its labels were refused, or somebody labelled another one.
    #[test]
    fn a_job_is_of_the_kinds_of_all_its_ranks() {
        let rank = |job: &str, n: u32, labels: &[(&str, &str)]| Candidate {
            jobs: vec![format!("job_{job}").parse().unwrap()],
            ..run(&format!("{job}{n}"), labels)
        };
        let job = |name: &str, labels: &[(&str, &str)]| {
            [rank(name, 1, &[]), rank(name, 0, labels)].to_vec()
        };
        let (dev, release) = (("branch", "dev"), ("branch", "release"));
        let none = Holders::default();
        let runs = [
            job("d", &[dev]),
            job("c", &[dev]),
            job("b", &[release]),
            job("a", &[release]),
            vec![run("alone", &[])],
        ]
        .concat();
        assert_eq!(gone(&runs, &none, 1, &["branch"]), ["c1", "c0", "a1", "a0"]);
        assert_eq!(gone(&runs, &none, 2, &["branch"]), [""; 0]);
        // A rank of each kind: it counts in both, and one that keeps it is enough.
        let both = vec![rank("x", 1, &[dev]), rank("x", 0, &[release])];
        let older = [job("d", &[dev]), job("r", &[release])].concat();
        let runs = [both.clone(), older].concat();
        let all_older = ["d1", "d0", "r1", "r0"];
        assert_eq!(gone(&runs, &none, 1, &["branch"]), all_older);
        let newer = [job("d", &[dev]), both].concat();
        assert_eq!(gone(&newer, &none, 1, &["branch"]), [""; 0]);
        // What one rank lacks, another one tells: no kind of its own.
        let (config, other) = (("config", "a"), ("config", "b"));
        let runs = [
            vec![rank("x", 1, &[config]), rank("x", 0, &[dev])],
            vec![run("same", &[config, dev]), run("other", &[other, dev])],
            vec![run("half", &[config])],
        ]
        .concat();
        assert_eq!(gone(&runs, &none, 1, &["branch", "config"]), ["same"]);
    }

    #[test]
    fn a_pull_request_holds_its_newest_comparison_and_young_ones() {
        let now = 100 * DAY_MS;
        let recorded = |name: &str, pr: Option<&str>, days: i64| RecordedComparison {
            id: format!("cmp_{name}").parse().unwrap(),
            name: name.to_owned(),
            runs: vec![run(name, &[]).run, run("base", &[]).run],
            pr: pr.map(str::to_owned),
            created_ms: now - days * DAY_MS,
        };
        let names = ["base", "one", "two", "three", "four", "other", "none"];
        let check = |days: Option<u32>, expected: &[&str]| {
            let all = vec![
                recorded("one", Some("a"), 50),
                recorded("four", Some("a"), 2),
                recorded("three", Some("a"), 29),
                recorded("two", Some("a"), 31),
                recorded("other", Some("b"), 90),
                recorded("none", None, 1),
            ];
            let keep = Keep {
                pull_request_days: days,
                ..rule(0, &[])
            };
            let holders = Holders::new(&[], all, &keep, now);
            let runs: Vec<Candidate> = names.iter().map(|name| run(name, &[])).collect();
            let plan = plan(&runs, &holders, &keep);
            let gone: Vec<&str> = plan.runs.iter().map(|gone| gone.name.as_str()).collect();
            assert_eq!(gone, expected, "{days:?}");
        };
        check(Some(30), &["one", "two", "none"]);
        check(Some(0), &["one", "two", "three", "none"]);
        check(Some(u32::MAX), &["none"]);
        check(None, &["none"]);
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
        // What the shared rank says counts for its chosen job, too.
        let mut held = runs.clone();
        held[1].labels = [("pinned".to_owned(), "yes".to_owned())].into();
        let of_x = chosen(held, &["branch=x".parse().unwrap()]);
        assert_eq!(gone(&of_x, &none, 0, &[]), [""; 0]);
        let plan = plan(&runs, &none, &rule(0, &[]));
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
            let plan = plan(&runs, &Holders::default(), &rule(newest, &[]));
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
