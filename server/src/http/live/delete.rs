//! Deletes trainings.

use super::super::account::SignedIn;
use super::super::audited::Subject;
use super::super::extract::Path;
use super::super::here::Here;
use super::super::permits;
use super::{live_id, measure};
use crate::app::App;
use crate::problems::Error;
use api::people::Scope;
use api::problem::Problem;
use api::routes;
use axum::Extension;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};

/// Deletes a training with all its processes; they cannot be restored, and report no more.
#[utoipa::path(delete, path = "/api/live/{live}", tag = "live",
    params(("live" = String, Path)),
    responses(
        (status = 204, description = "It is deleted."),
        (status = 404, body = Problem),
    ))]
pub async fn delete(Here(app): Here, Path(live): Path<String>) -> Result<Response, Error> {
    let subject = deleted(&app, &live).await?;
    Ok((StatusCode::NO_CONTENT, subject, ()).into_response())
}

/// Deletes a training.
pub async fn delete_on_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Path(live): Path<String>,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Manage)?;
    let subject = deleted(&app, &live).await?;
    Ok((subject, Redirect::to(routes::LIVE_PAGE)).into_response())
}

/// Deletes a training, and says for the audit which one it was.
async fn deleted(app: &App, live: &str) -> Result<Extension<Subject>, Error> {
    let id = live_id(live)?;
    let run = app
        .store
        .write(move |writer| writer.delete_live(&id))
        .await?;
    measure(app).await?;
    Ok(Extension(Subject::called(&run.name, &run.id)))
}
