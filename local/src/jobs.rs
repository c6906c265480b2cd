//! Jobs: the ranks of one program that were opened together.

use crate::message::{Request, Response};
use crate::problems::{Refused, bad_request, job_not_open, missing};
use crate::runs::{Run, Runs, run_name};
use answers::ranks::{self, Without};
use api::ids::{JobId, RunId};
use api::jobs::{JobSummary, NewJob, RankCurve};
use serde::Deserialize;
use std::collections::BTreeMap;
use trace::ranks::names::rank_of;
use trace::ranks::{MAX_RANKS, Rank, Survey, Surveyor, missing as absent};

/// The jobs of this tab, oldest first.
#[derive(Default)]
pub struct Jobs(Vec<Job>);

struct Job {
    id: JobId,
    name: String,
    created_ms: i64,
    /// The run of each rank. A run may be in several jobs, as on a server.
    ranks: BTreeMap<Rank, RunId>,
}

/// Which part of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

impl Jobs {
    /// All of them, newest first, without those that are the same as an earlier one.
    pub fn list(&self, runs: &Runs) -> Response {
        let shown = self.0.iter().rev().filter(|job| self.same(job).is_none());
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
        // The time keeps jobs of this tab apart from those before it was loaded again.
        let id = format!(
            "{}{}n{}",
            JobId::PREFIX,
            request.now_ms.max(0),
            self.0.len()
        );
        let job = Job {
            id: id
                .parse()
                .map_err(|_| bad_request("this job cannot be named"))?,
            name,
            created_ms: request.now_ms,
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
        let survey = survey(&ranks);
        match rest {
            [] => {
                let without = Without {
                    missing: absent(ranks.iter().map(|(rank, _)| *rank)),
                    ..Without::default()
                };
                let named = ranks
                    .iter()
                    .map(|(_, run)| (run.id.clone(), run.name.clone()));
                let detail = ranks::detail(summary(job, runs), named, &survey, without);
                Ok(Response::json(&detail))
            }
            ["sites"] => {
                let page: Page = request.asked()?;
                let most = api::page::MOST;
                let limit = page.limit.unwrap_or(most).clamp(1, most);
                let rows = survey.sites.iter().skip(page.offset).take(limit);
                Ok(Response::json(&rows.collect::<Vec<_>>()))
            }
            ["curves", rank] => {
                let rows = survey.ranks.iter().zip(&survey.curves);
                let mut found = rows.filter(|(row, _)| row.rank.to_string() == *rank);
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
        let gone = summary(job, runs);
        let with_runs = request.query().split('&').any(|pair| pair == "runs=delete");
        for run in job.ranks.values().filter(|_| with_runs) {
            // Of a run that was deleted before, nothing may be left.
            if let Ok(run) = runs.change(run.as_str()) {
                run.deleted_ms = Some(request.now_ms);
            }
        }
        // And those that are the same.
        let is_it = |job: &Job| self.same(job).unwrap_or(job).id == gone.id;
        let gone_too: Vec<JobId> = self.0.iter().filter(|job| is_it(job)).map(id_of).collect();
        self.0.retain(|job| !gone_too.contains(&job.id));
        self.tell(runs);
        Ok(Response::json(&gone))
    }

    /// Makes a run a rank of a job, unless that is gone. The run stays in its other jobs.
    pub fn join(&mut self, (job, rank): &(JobId, Rank), run: &RunId, runs: &mut Runs) {
        if let Some(job) = self.0.iter_mut().find(|known| known.id == *job) {
            job.ranks.insert(*rank, run.clone());
        }
        self.tell(runs);
    }

    /// Tells each run which rank of which job it is; of several jobs the newest.
    fn tell(&self, runs: &mut Runs) {
        for run in runs.all() {
            let shown = self.0.iter().rev().filter(|job| self.same(job).is_none());
            let mut places = shown.flat_map(|job| job.ranks.iter().map(move |of| (job, of)));
            let place = places.find(|(_, (_, of))| **of == run.id);
            run.job = place.map(|(job, (rank, _))| (job.id.clone(), job.name.clone(), *rank));
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
        (found.id != job.id && !job.ranks.is_empty()).then_some(found)
    }

    /// The job and rank of a file: the given rank, otherwise the one in its name.
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
        self.get(id.as_str())?;
        let unclear = || {
            bad_request(format!(
                "{file} names no rank, such as rank0: say which rank of {id} it is"
            ))
        };
        let rank = rank.or_else(|| rank_of(file)).ok_or_else(unclear)?;
        match rank.0 < MAX_RANKS {
            true => Ok(Some((id, rank))),
            false => Err(bad_request(format!(
                "a job has at most {MAX_RANKS} ranks, from 0 on; {rank} is too large"
            ))),
        }
    }

    /// One job; of two that are the same, the earlier, whichever is asked for.
    fn get(&self, id: &str) -> Result<&Job, Refused> {
        let found = self.0.iter().find(|job| job.id.as_str() == id);
        let found = found.ok_or_else(job_not_open)?;
        Ok(self.same(found).unwrap_or(found))
    }
}

fn id_of(job: &Job) -> JobId {
    job.id.clone()
}

/// The open ranks of a job, in rising order.
fn ranks_of<'r>(runs: &'r Runs, job: &Job) -> Vec<(Rank, &'r Run)> {
    let ranks = job.ranks.iter();
    let open = ranks.filter_map(|(rank, run)| Some((*rank, runs.get(run.as_str()).ok()?)));
    open.collect()
}

fn survey(ranks: &[(Rank, &Run)]) -> Survey {
    let mut surveyor = Surveyor::default();
    for (rank, run) in ranks {
        surveyor.add(*rank, run.of_rank().clone());
    }
    surveyor.finish()
}

fn summary(job: &Job, runs: &Runs) -> JobSummary {
    JobSummary {
        id: job.id.clone(),
        name: job.name.clone(),
        created_ms: job.created_ms,
        n_ranks: ranks_of(runs, job).len() as u32,
    }
}
