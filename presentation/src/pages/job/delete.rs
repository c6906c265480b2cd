//! What is said before a job is deleted, and after.

use api::ids::JobId;
use api::jobs::{JobSummary, RunOfJob};
use api::runs::RunSummary;
use timeline::format::plural;

/// Whether a run is a rank of a job, which need not be the newest of its jobs.
pub fn is_rank(run: &RunSummary, job: &JobId) -> bool {
    let is_it = |place: &RunOfJob| place.job == *job || place.older.contains(job);
    run.job.as_ref().is_some_and(is_it)
}

/// How many of a job's runs are not its own alone: equal files are one run, however often they are
/// sent.
pub fn shared(runs: &[RunSummary], job: &JobSummary) -> Option<String> {
    let is_shared = |run: &&RunSummary| {
        let other = |place: &RunOfJob| place.job != job.id || !place.older.is_empty();
        run.created_ms < job.created_ms || run.job.as_ref().is_some_and(other)
    };
    match runs.iter().filter(is_shared).count() as u64 {
        0 => None,
        n => Some(format!(
            "Not of this job alone, but there before it or in another job, too: {}.",
            plural(n, "run")
        )),
    }
}

/// That a job is deleted, with so many runs.
pub fn deleted(job: &JobSummary, runs: usize) -> String {
    let runs = match runs {
        0 => String::new(),
        n => [" and ", &plural(n as u64, "run")].concat(),
    };
    ["Deleted job “", &job.name, "”", &runs].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::runs::example::run;
    use trace::ranks::Rank;

    fn id(text: &str) -> JobId {
        text.parse().expect("an id")
    }

    fn job() -> JobSummary {
        JobSummary {
            id: id("job_0000000000000001"),
            name: "ddp".to_owned(),
            created_ms: 5,
            n_ranks: 2,
        }
    }

    fn rank_of(jobs: &[&str], created_ms: i64) -> RunSummary {
        let mut jobs = jobs.iter().map(|job| id(job));
        let place = jobs.next().map(|job| RunOfJob {
            job,
            name: "ddp".to_owned(),
            rank: Rank(0),
            older: jobs.collect(),
        });
        RunSummary {
            job: place,
            created_ms,
            ..run("rank0", 1, 1)
        }
    }

    #[test]
    fn a_rank_of_several_jobs_is_one_of_each() {
        let [own, newer] = ["job_0000000000000001", "job_0000000000000002"];
        let check = |jobs: &[&str], expected| {
            assert_eq!(is_rank(&rank_of(jobs, 9), &job().id), expected, "{jobs:?}");
        };
        check(&[], false);
        check(&[own], true);
        check(&[newer], false);
        check(&[newer, own], true);
    }

    #[test]
    fn what_goes_though_it_is_not_of_this_job_alone_is_counted() {
        let [own, newer] = ["job_0000000000000001", "job_0000000000000002"];
        let told = |runs: &[RunSummary]| shared(runs, &job());
        assert_eq!(told(&[rank_of(&[own], 5), rank_of(&[own], 9)]), None);
        let (before, both) = (rank_of(&[own], 4), rank_of(&[newer, own], 9));
        let one = told(&[before.clone(), rank_of(&[own], 9)]);
        assert!(one.is_some_and(|told| told.ends_with("too: 1 run.")));
        let two = told(&[before, both]);
        assert!(two.is_some_and(|told| told.ends_with("too: 2 runs.")));
    }

    #[test]
    fn what_was_deleted_is_counted() {
        assert_eq!(deleted(&job(), 0), "Deleted job “ddp”");
        assert_eq!(deleted(&job(), 1), "Deleted job “ddp” and 1 run");
        assert_eq!(deleted(&job(), 100), "Deleted job “ddp” and 100 runs");
    }
}
