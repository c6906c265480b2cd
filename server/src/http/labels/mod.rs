//! Labels of a run: set by the person who pushes it, changed by anybody of the team. Those of a job
//! are those of its ranks.

mod page;

pub use page::{change_on_page, labels_page};

use super::audited::Subject;
use super::extract::{Json, Path, job_id, run_id};
use super::here::Here;
use super::permits;
use super::runs::summary;
use crate::app::App;
use crate::problems::Error;
use crate::who::access::Entry;
use api::ids::RunId;
use api::jobs::JobSummary;
use api::labels::{ChangeLabels, Label, MOST};
use api::people::Scope;
use api::problem::Problem;
use api::runs::RunSummary;
use axum::Extension;
use axum::response::{IntoResponse, Response};

/// Changes labels of a run; those that are not named stay.
#[utoipa::path(patch, path = "/api/runs/{run}/labels", tag = "runs",
    params(("run" = String, Path)), request_body = ChangeLabels,
    responses(
        (status = 200, description = "The run with its labels.", body = RunSummary),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem),
    ))]
pub async fn change(
    Here(app): Here,
    Extension(entry): Extension<Entry>,
    Path(run): Path<String>,
    Json(request): Json<ChangeLabels>,
) -> Result<axum::Json<RunSummary>, Error> {
    let id = run_id(&run)?;
    if !entry.may(Scope::Read) {
        // The answer says what the run is: to who may only send, it does so of what they sent.
        let asked = id.clone();
        let row = app.store.read(move |reader| reader.run(&asked)).await?;
        let is_own = row.uploaded_by.is_some() && row.uploaded_by == entry.sender();
        if !is_own {
            permits::scope(&entry, Scope::Read)?;
        }
    }
    let summary = change_of(&app, id, request).await?;
    Ok(axum::Json(summary))
}

/// Changes labels of all ranks of a job, or of none; those that are not named stay. Ranks that
/// arrive later have their own.
#[utoipa::path(patch, path = "/api/jobs/{job}/labels", tag = "jobs",
    params(("job" = String, Path)), request_body = ChangeLabels,
    responses(
        (status = 200, description = "The job: so many ranks have the labels now.",
            body = JobSummary),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem),
    ))]
pub async fn change_ranks(
    Here(app): Here,
    Extension(entry): Extension<Entry>,
    Path(job): Path<String>,
    Json(request): Json<ChangeLabels>,
) -> Result<Response, Error> {
    // The answer says what the job is.
    permits::scope(&entry, Scope::Read)?;
    let (id, change) = (job_id(&job)?, checked(request)?);
    let write = app.store.write(move |writer| {
        let job = writer.reader().job(&id)?;
        writer.change_labels_of_job(&job.id, &change)?;
        Ok(job)
    });
    let job = write.await?;
    app.runs_changed();
    let subject = Extension(Subject::called(&job.name, &job.id));
    Ok((subject, axum::Json(job)).into_response())
}

/// Changes labels of a run, and tells the pages that list it.
async fn change_of(app: &App, id: RunId, request: ChangeLabels) -> Result<RunSummary, Error> {
    let change = checked(request)?;
    let write = app.store.write(move |writer| {
        writer.change_labels(&id, &change)?;
        writer.reader().run(&id)
    });
    let row = write.await?;
    app.runs_changed();
    Ok(summary(row))
}

/// Checks keys and values, and puts them into the stored form.
fn checked(request: ChangeLabels) -> Result<ChangeLabels, Error> {
    let bad = |why: String| Error::BadRequest(why);
    if request.labels.len() > MOST {
        return Err(bad(format!("{MOST} labels at most can be changed at once")));
    }
    let kept = request.labels.into_iter().map(|(key, value)| {
        // Removing a label needs no value; its key is checked anyway.
        let label = Label::new(&key, value.as_deref().unwrap_or("-"));
        let label = label.map_err(|error| bad(format!("{key}: {error}")))?;
        Ok((label.key, value.map(|_| label.value)))
    });
    Ok(ChangeLabels {
        labels: kept.collect::<Result<_, Error>>()?,
    })
}
