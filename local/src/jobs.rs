//! Jobs: the ranks of one program that were opened together.

use crate::message::{Request, Response, in_path};
use crate::problems::{Refused, bad_request, job_not_open, missing};
use crate::runs::{Run, Runs, run_name};
use answers::identity::{DIGITS, base62, leading};
use answers::ranks::{self, Without};
use api::ids::{JobId, RunId};
use api::jobs::{JobNotes, JobSummary, NewJob, RankCurve};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use trace::ranks::names::rank_of;
use trace::ranks::{MAX_RANKS, Rank, Survey, Surveyor};

/// The jobs of this tab, oldest first.
#[derive(Default)]
pub struct Jobs(Vec<Job>);

struct Job {
    /// What names it while its files are sent: nothing is known of them yet.
    made: JobId,
    /// What named it when it had fewer ranks, or others: pages may still show that.
    earlier: Vec<JobId>,
    name: String,
    created_ms: i64,
    notes: JobNotes,
    /// The run of each rank. A run may be in several jobs, as on a server.
    ranks: BTreeMap<Rank, RunId>,
}

/// Which part of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    offset: usize,
    limit: Option<NonZeroUsize>,
}

impl Jobs {
    /// All of them, newest first, without those that are the same as an earlier one and those whose
    /// runs are all deleted.
    pub fn list(&self, runs: &Runs) -> Response {
        let is_there = |job: &Job| job.ranks.is_empty() || !ranks_of(runs, job).is_empty();
        let shown = self.0.iter().rev().filter(|job| self.same(job).is_none());
        let shown = shown.filter(|job| is_there(job));
        let jobs = shown.map(|job| summary(job, runs));
        Response::json(&jobs.collect::<Vec<_>>())
    }

    /// Makes one.
    ///
    /// # Errors
    /// When its name is no name.
    pub fn make(&mut self, runs: &Runs, request: &Request) -> Result<Response, Refused> {
        let new: NewJob = request.sent()?;
        let name = run_name(&new.name)?;
        // The time keeps it apart from jobs before the tab was loaded again.
        let made = format!(
            "{}{}n{}",
            JobId::PREFIX,
            request.now_ms.max(0),
            self.0.len()
        );
        let job = Job {
            made: made
                .parse()
                .map_err(|_| bad_request("this job cannot be named"))?,
            earlier: Vec::new(),
            name,
            created_ms: request.now_ms,
            notes: new.notes,
            ranks: BTreeMap::new(),
        };
        let made = Response::created(&summary(&job, runs));
        self.0.push(job);
        Ok(made)
    }

    /// Answers a question about a job; `rest` is the end of its path.
    ///
    /// # Errors
    /// When it is not open, or has no such rank.
    pub fn answer(
        &self,
        id: &str,
        rest: &[&str],
        runs: &Runs,
        request: &Request,
    ) -> Result<Response, Refused> {
        let job = self.get(id)?;
        let ranks = ranks_of(runs, job);
        let missing_ranks = job.notes.missing(ranks.iter().map(|(rank, _)| *rank));
        let survey = survey(&ranks, &missing_ranks);
        match rest {
            [] => {
                let without = Without {
                    missing: missing_ranks,
                    ..Without::default()
                };
                let named = ranks
                    .iter()
                    .map(|(_, run)| (run.id.clone(), run.name.clone()));
                let detail = ranks::detail(summary(job, runs), named, &survey, without, &job.notes);
                Ok(Response::json(&detail))
            }
            ["sites"] => {
                let page: Page = request.asked()?;
                let most = api::page::MOST;
                let limit = page.limit.map_or(most, |limit| limit.get().min(most));
                let rows = survey.sites.iter().skip(page.offset).take(limit);
                Ok(Response::json(&rows.collect::<Vec<_>>()))
            }
            ["curves", rank] => {
                let rank = in_path(rank, "rank")?;
                let rows = survey.ranks.iter().zip(&survey.curves);
                let mut found = rows.filter(|(row, _)| row.rank == Rank(rank));
                let gone = || missing(format!("rank {rank} in {id}"));
                let (row, curve) = found.next().ok_or_else(gone)?;
                Ok(Response::json(&RankCurve::of(row.rank, curve)))
            }
            _ => Err(crate::problems::no_route(request.place())),
        }
    }

    /// Forgets a job, and its runs too if that is asked for.
    ///
    /// # Errors
    /// When it is not open.
    pub fn delete(
        &mut self,
        id: &str,
        runs: &mut Runs,
        request: &Request,
    ) -> Result<Response, Refused> {
        let job = self.get(id)?;
        let (gone, made) = (summary(job, runs), job.made.clone());
        let with_runs = request.query().split('&').any(|pair| pair == "runs=delete");
        for run in job.ranks.values().filter(|_| with_runs) {
            // Of a run that was deleted before, nothing may be left.
            if let Ok(run) = runs.change(run.as_str()) {
                run.deleted_ms = Some(request.now_ms);
            }
        }
        // And those that are the same.
        let is_it = |job: &&Job| self.same(job).unwrap_or(job).made == made;
        let gone_too = self.0.iter().filter(is_it);
        let gone_too: Vec<JobId> = gone_too.map(|job| job.made.clone()).collect();
        self.0.retain(|job| !gone_too.contains(&job.made));
        self.tell(runs);
        Ok(Response::json(&gone))
    }

    /// Makes a run a rank of a job, unless that is gone. The run stays in its other jobs.
    pub fn join(&mut self, (job, rank): &(JobId, Rank), run: &RunId, runs: &mut Runs) {
        if let Some(job) = self.0.iter_mut().find(|known| known.made == *job) {
            let earlier = job.id();
            job.ranks.insert(*rank, run.clone());
            if earlier != job.id() {
                job.earlier.push(earlier);
            }
        }
        self.tell(runs);
    }

    /// Tells each run which rank of which job it is; of several jobs the newest.
    pub fn tell(&self, runs: &mut Runs) {
        for run in runs.all() {
            let shown = self.0.iter().rev().filter(|job| self.same(job).is_none());
            let mut places = shown.flat_map(|job| job.ranks.iter().map(move |of| (job, of)));
            let place = places.find(|(_, (_, of))| **of == run.id);
            run.job = place.map(|(job, (rank, _))| (job.id(), job.name.clone(), *rank));
        }
    }

    /// The first job that has all ranks of this one, recording for recording, if it is an earlier
    /// one: then both are the same.
    fn same(&self, job: &Job) -> Option<&Job> {
        let has_all = |earlier: &&Job| {
            let mut ranks = job.ranks.iter();
            ranks.all(|(rank, run)| earlier.ranks.get(rank) == Some(run))
        };
        let found = self.0.iter().find(has_all)?;
        (found.made != job.made && !job.ranks.is_empty()).then_some(found)
    }

    /// The job of a file, by what named it first, and its rank: the given one, otherwise the one
    /// in its name.
    ///
    /// # Errors
    /// When there is no such job, or no rank.
    pub fn place(
        &self,
        job: Option<JobId>,
        rank: Option<Rank>,
        file: &str,
    ) -> Result<Option<(JobId, Rank)>, Refused> {
        let Some(id) = job else { return Ok(None) };
        // Not the one that is the same so far: this one may become another.
        let made = self.named(id.as_str())?.made.clone();
        let unclear = || {
            bad_request(format!(
                "{file} names no rank, such as rank0: say which rank of {id} it is"
            ))
        };
        let rank = rank.or_else(|| rank_of(file)).ok_or_else(unclear)?;
        match rank.0 < MAX_RANKS {
            true => Ok(Some((made, rank))),
            false => Err(bad_request(format!(
                "a job has at most {MAX_RANKS} ranks, from 0 on; {rank} is too large"
            ))),
        }
    }

    /// One job; of two that are the same, the earlier, whichever is asked for.
    fn get(&self, id: &str) -> Result<&Job, Refused> {
        let found = self.named(id)?;
        Ok(self.same(found).unwrap_or(found))
    }

    /// The job that is called so, or else was.
    fn named(&self, id: &str) -> Result<&Job, Refused> {
        let is = |job: &&Job| job.id().as_str() == id || job.made.as_str() == id;
        let was = |job: &&Job| job.earlier.iter().any(|earlier| earlier.as_str() == id);
        let found = self.0.iter().find(is);
        let found = found.or_else(|| self.0.iter().find(was));
        found.ok_or_else(job_not_open)
    }
}

impl Job {
    /// Its id: that of its ranks, in whatever order they came. So the address of a job is right
    /// again when the same files are opened in another tab.
    fn id(&self) -> JobId {
        if self.ranks.is_empty() {
            return self.made.clone();
        }
        let mut hasher = blake3::Hasher::new();
        for (rank, run) in &self.ranks {
            hasher.update(format!("{rank} {run}\n").as_bytes());
        }
        let digits = base62(leading(hasher.finalize().as_bytes()), DIGITS);
        let id = format!("{}{digits}", JobId::PREFIX);
        id.parse().expect("base 62 digits are an id")
    }
}

/// The open ranks of a job, in rising order.
fn ranks_of<'r>(runs: &'r Runs, job: &Job) -> Vec<(Rank, &'r Run)> {
    let ranks = job.ranks.iter();
    let open = ranks.filter_map(|(rank, run)| Some((*rank, runs.get(run.as_str()).ok()?)));
    open.collect()
}

fn survey(ranks: &[(Rank, &Run)], missing: &[Rank]) -> Survey {
    let mut surveyor = Surveyor::default();
    if !missing.is_empty() {
        surveyor.lacks_some();
    }
    for (rank, run) in ranks {
        surveyor.add(*rank, run.of_rank().clone());
    }
    surveyor.finish()
}

fn summary(job: &Job, runs: &Runs) -> JobSummary {
    JobSummary {
        id: job.id(),
        name: job.name.clone(),
        created_ms: job.created_ms,
        n_ranks: ranks_of(runs, job).len() as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job with these recordings as its ranks, opened in this order.
    fn opened(jobs: &mut Jobs, now_ms: i64, ranks: &[(u32, &str)]) -> (JobId, JobId) {
        let mut runs = Runs::default();
        let request = Request {
            body: r#"{"name":"out"}"#.to_owned(),
            now_ms,
            ..Request::default()
        };
        let made = jobs.make(&runs, &request).expect("a name");
        let made: JobSummary = serde_json::from_slice(&made.body).expect("a job");
        for (rank, run) in ranks {
            let run = run.parse().expect("an id");
            jobs.join(&(made.id.clone(), Rank(*rank)), &run, &mut runs);
        }
        let job = jobs.get(made.id.as_str()).expect("it was made");
        (made.id, job.id())
    }

    #[test]
    fn a_job_is_named_by_its_ranks_whenever_they_are_opened() {
        let ranks = [(0, "run_a"), (1, "run_b"), (2, "run_a")];
        let mut jobs = Jobs::default();
        let (made, id) = opened(&mut jobs, 1, &ranks);
        let check = |ranks: &[(u32, &str)], is_it: bool| {
            let (_, again) = opened(&mut Jobs::default(), 2, ranks);
            assert_eq!(again == id, is_it, "{ranks:?}");
        };
        check(&ranks, true);
        check(&[ranks[2], ranks[0], ranks[1]], true);
        check(&ranks[..2], false);
        check(&[(0, "run_b"), (1, "run_a"), (2, "run_a")], false);
        check(&[], false);
        // Pages may still show what named it before all ranks were there.
        let (_, before) = opened(&mut Jobs::default(), 3, &ranks[..2]);
        for name in [made, before] {
            assert_eq!(jobs.get(name.as_str()).map(Job::id), Ok(id.clone()));
        }
    }

    #[test]
    fn a_job_that_is_the_same_so_far_may_become_another() {
        let mut jobs = Jobs::default();
        let (_, first) = opened(&mut jobs, 1, &[(0, "run_a"), (1, "run_b")]);
        let (made, second) = opened(&mut jobs, 2, &[(0, "run_a")]);
        assert_eq!(second, first);
        let place = jobs.place(Some(made), Some(Rank(1)), "a.pickle");
        let place = place.ok().flatten().expect("a place");
        jobs.join(
            &place,
            &"run_c".parse().expect("an id"),
            &mut Runs::default(),
        );
        let kept = jobs.get(first.as_str()).map(|job| job.ranks.len());
        assert_eq!(kept, Ok(2));
        let other = jobs.get(place.0.as_str()).map(Job::id);
        assert_ne!(other, Ok(first));
    }
}
