//! Jobs: make, list, read, delete.

use super::audited::Subject;
use super::extract::{Json, Path, Query, job_id};
use super::here::Here;
use super::packed;
use super::page::PageQuery;
use super::question::Asker;
use crate::app::App;
use crate::identity;
use crate::jobs::Surveyed;
use crate::problems::Error;
use crate::store::RankOfJob;
use crate::system::clock::now_ms;
use answers::ranks;
use answers::run_names;
use api::ids::JobId;
use api::jobs::{JobDetail, JobSummary, NewJob, RankCurve};
use api::problem::Problem;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use trace::ranks::names::rank_of;
use trace::ranks::sites::SiteAcross;
use trace::ranks::{MAX_RANKS, Rank};

/// What becomes of the runs of a job that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunsOfJob {
    /// They stay, each by itself.
    #[default]
    Keep,
    /// They are deleted. For a while that can be undone, run by run; the job comes back with the
    /// first of them.
    Delete,
}

/// How to delete a job.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DeleteQuery {
    /// What becomes of its runs.
    #[serde(default)]
    #[param(inline)]
    runs: RunsOfJob,
}

/// Jobs, newest first.
#[utoipa::path(get, path = "/api/jobs", tag = "jobs", params(PageQuery),
    responses((status = 200, description = "Jobs, newest first.", body = Vec<JobSummary>)))]
pub async fn list(
    Here(app): Here,
    Query(page): Query<PageQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let slice = page.slice();
    let read = app.store.read(move |reader| reader.jobs(slice));
    Ok(packed::json(&headers, &read.await?))
}

/// Makes a job, unless one was made with the same key. Its ranks are uploaded into it. If they turn
/// out to be those of an earlier job, recording for recording, its address leads to that one. An
/// empty job is deleted after a while.
#[utoipa::path(post, path = "/api/jobs", tag = "jobs", request_body = NewJob,
    responses(
        (status = 201, description = "The job, without ranks.", body = JobSummary),
        (status = 200, description = "The job that has this key; its name stays.",
            body = JobSummary),
        (status = 400, body = Problem), (status = 409, body = Problem),
    ))]
pub async fn create(Here(app): Here, Json(request): Json<NewJob>) -> Result<Response, Error> {
    let (id, name) = (identity::job_id(), run_names::typed(&request.name)?);
    let key = request.key.as_deref().map(run_names::typed).transpose()?;
    if !request.notes.are_short() {
        return Err(Error::BadRequest("the notes are too long".to_owned()));
    }
    let write = app.store.write(move |writer| {
        let known = key.as_deref().map(|key| writer.reader().job_by_key(key));
        if let Some(job) = known.transpose()?.flatten() {
            return Ok((StatusCode::OK, job));
        }
        writer.insert_job(&id, &name, key.as_deref(), now_ms())?;
        writer.put_job_notes(&id, &request.notes)?;
        Ok((StatusCode::CREATED, writer.reader().job(&id)?))
    });
    let (status, job) = write.await?;
    Ok((status, Subject::of(&job.id), axum::Json(job)).into_response())
}

/// How the ranks of a job differ, which are odd, and why.
#[utoipa::path(get, path = "/api/jobs/{job}", tag = "jobs", params(("job" = String, Path)),
    responses(
        (status = 200,
            description = "The job. While ranks are still looked at, it tells of the others.",
            body = JobDetail),
        (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn get(
    Here(app): Here,
    Path(job): Path<String>,
    asker: Asker,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let summary = summary(&app, &job_id(&job)?).await?;
    let surveyed = surveyed(&app, &summary.id, &asker).await?;
    Ok(packed::json(&headers, &detail(summary, surveyed)))
}

/// The same allocation site in all ranks: those that differ, the largest difference first.
#[utoipa::path(get, path = "/api/jobs/{job}/sites", tag = "jobs",
    params(("job" = String, Path), PageQuery),
    responses(
        (status = 200, description = "Sites that differ.", body = Vec<SiteAcross>),
        (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn sites(
    Here(app): Here,
    Path(job): Path<String>,
    Query(page): Query<PageQuery>,
    asker: Asker,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let JobSummary { id, .. } = summary(&app, &job_id(&job)?).await?;
    let surveyed = surveyed(&app, &id, &asker).await?;
    let slice = page.slice();
    let rows = surveyed.survey.sites.iter();
    let rows = rows.skip(slice.offset as usize).take(slice.limit as usize);
    Ok(packed::json(&headers, &rows.collect::<Vec<_>>()))
}

/// A rank in a path.
#[derive(Deserialize)]
pub struct Place {
    job: String,
    rank: u32,
}

/// *Allocated* of one rank, over the axis of its job.
#[utoipa::path(get, path = "/api/jobs/{job}/curves/{rank}", tag = "jobs",
    params(("job" = String, Path), ("rank" = u32, Path)),
    responses(
        (status = 200, description = "The curve.", body = RankCurve),
        (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn curve(
    Here(app): Here,
    Path(Place { job, rank }): Path<Place>,
    asker: Asker,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let JobSummary { id, .. } = summary(&app, &job_id(&job)?).await?;
    let Surveyed { survey, .. } = surveyed(&app, &id, &asker).await?;
    let rows = survey.ranks.iter().zip(&survey.curves);
    let mut found = rows.filter(|(row, _)| row.rank == Rank(rank));
    let missing = || Error::NotFound(format!("rank {rank} in {job}"));
    let (row, curve) = found.next().ok_or_else(missing)?;
    Ok(packed::json(&headers, &RankCurve::of(row.rank, curve)))
}

/// Deletes a job; its runs stay unless you ask to delete them.
#[utoipa::path(delete, path = "/api/jobs/{job}", tag = "jobs",
    params(("job" = String, Path), DeleteQuery),
    responses(
        (status = 200, description = "The job that is deleted now.", body = JobSummary),
        (status = 404, body = Problem),
    ))]
pub async fn delete(
    Here(app): Here,
    Path(job): Path<String>,
    Query(query): Query<DeleteQuery>,
) -> Result<Response, Error> {
    let id = job_id(&job)?;
    let write = app.store.write(move |writer| {
        let summary = writer.reader().job(&id)?;
        if query.runs == RunsOfJob::Keep {
            writer.forget_job(&summary.id)?;
            return Ok((summary, 0));
        }
        let (going, now) = (writer.reader().ranks_of(&summary.id, 0)?, now_ms());
        for rank in &going {
            writer.delete_run(&rank.run, now)?;
        }
        writer.delete_job(&summary.id, now)?;
        Ok((summary, going.len()))
    });
    let (summary, runs) = write.await?;
    app.runs_changed();
    let Subject(job) = Subject::called(&summary.name, &summary.id);
    let subject = match runs {
        0 => job,
        1 => format!("{job} with its run"),
        runs => format!("{job} with its {runs} runs"),
    };
    Ok((Subject::of(subject), axum::Json(summary)).into_response())
}

/// The job and rank of an upload: the given rank, otherwise the rank in the file's name.
///
/// # Errors
/// When there is no such job, when the rank is not valid, or when the name has no rank.
pub async fn place(
    app: &App,
    job: Option<JobId>,
    rank: Option<Rank>,
    name: &str,
) -> Result<Option<RankOfJob>, Error> {
    let Some(job) = job else { return Ok(None) };
    summary(app, &job).await?;
    let unclear = || {
        let text = format!("{name} names no rank, such as rank0: say which rank of {job} it is");
        Error::BadRequest(text)
    };
    let rank = rank.or_else(|| rank_of(name)).ok_or_else(unclear)?;
    match rank.0 < MAX_RANKS {
        true => Ok(Some(RankOfJob { job, rank })),
        false => Err(Error::BadRequest(format!(
            "a job has at most {MAX_RANKS} ranks, from 0 on; {rank} is too large"
        ))),
    }
}

/// What is known about a job. New ranks are looked at in the background, one after the other; the
/// profiles of all ranks are read in a turn.
async fn surveyed(app: &App, job: &JobId, asker: &Asker) -> Result<Surveyed, Error> {
    let profiled = app.jobs.profiled(job).await?;
    let _turn = asker.turn(app).await?;
    Ok(app.jobs.survey(profiled).await?)
}

async fn summary(app: &App, id: &JobId) -> Result<JobSummary, Error> {
    let id = id.clone();
    Ok(app.store.read(move |reader| reader.job(&id)).await?)
}

fn detail(summary: JobSummary, surveyed: Surveyed) -> JobDetail {
    let Surveyed {
        ranks,
        survey,
        without,
        notes,
    } = surveyed;
    let runs = ranks.into_iter().map(|rank| (rank.run, rank.name));
    ranks::detail(summary, runs, &survey, without, &notes)
}
