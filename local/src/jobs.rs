//! Jobs: the ranks of one program that were opened together.

use crate::message::{Request, Response};
use crate::problems::{Refused, bad_request, job_not_open, missing};
use crate::runs::{Run, Runs, run_name};
use answers::ranks::{self, Without};
use api::ids::JobId;
use api::jobs::{JobSummary, NewJob, RankCurve};
use serde::Deserialize;
use trace::ranks::names::rank_of;
use trace::ranks::{MAX_RANKS, Rank, Survey, Surveyor, missing as absent};

/// The jobs of this tab, oldest first.
#[derive(Default)]
pub struct Jobs(Vec<Job>);

struct Job {
    id: JobId,
    name: String,
    created_ms: i64,
}

/// Which part of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

impl Jobs {
    /// All of them, newest first.
    pub fn list(&self, runs: &Runs) -> Response {
        let jobs = self.0.iter().rev().map(|job| summary(job, runs));
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
        let ranks = ranks_of(runs, &job.id);
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
        let gone = summary(self.get(id)?, runs);
        let with_runs = request.query().split('&').any(|pair| pair == "runs=delete");
        let deleted = with_runs.then_some(request.now_ms);
        runs.leave(&gone.id, deleted);
        self.0.retain(|job| job.id != gone.id);
        Ok(Response::json(&gone))
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
    ) -> Result<Option<(JobId, String, Rank)>, Refused> {
        let Some(id) = job else { return Ok(None) };
        let job = self.get(id.as_str())?;
        let unclear = || {
            bad_request(format!(
                "{file} names no rank, such as rank0: say which rank of {id} it is"
            ))
        };
        let rank = rank.or_else(|| rank_of(file)).ok_or_else(unclear)?;
        match rank.0 < MAX_RANKS {
            true => Ok(Some((id, job.name.clone(), rank))),
            false => Err(bad_request(format!(
                "a job has at most {MAX_RANKS} ranks, from 0 on; {rank} is too large"
            ))),
        }
    }

    fn get(&self, id: &str) -> Result<&Job, Refused> {
        let found = self.0.iter().find(|job| job.id.as_str() == id);
        found.ok_or_else(job_not_open)
    }
}

/// The open ranks of a job, in rising order; of a rank that was opened twice, the newest.
fn ranks_of<'r>(runs: &'r Runs, id: &JobId) -> Vec<(Rank, &'r Run)> {
    let ranks = runs.newest().filter_map(|run| {
        let (job, _, rank) = run.job.as_ref()?;
        (job == id).then_some((*rank, run))
    });
    let mut ranks: Vec<(Rank, &Run)> = ranks.collect();
    ranks.sort_by_key(|(rank, _)| *rank);
    ranks.dedup_by_key(|(rank, _)| *rank);
    ranks
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
        n_ranks: ranks_of(runs, &job.id).len() as u32,
    }
}
