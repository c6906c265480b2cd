//! The team's own categories: the rules, and what they take of a run.

mod page;

pub use page::{categories_page, save_on_page};

use super::extract::{Json, Path, run_id};
use super::here::Here;
use super::question::{Asker, answered};
use crate::app::App;
use crate::own_categories;
use crate::pictures::Ask;
use crate::problems::Error;
use crate::who::access::Entry;
use api::categories::{OwnCategories, OwnRules, TakenOfDevice, TakenOfRun};
use api::ids::RunId;
use api::problem::Problem;
use axum::Extension;
use trace::naming::Rules;
use trace::watch::Watch;

/// The rules for the team's own categories.
#[utoipa::path(get, path = "/api/categories", tag = "categories",
    responses((status = 200, description = "The rules that hold.", body = OwnCategories)))]
pub async fn get(Here(app): Here) -> Result<axum::Json<OwnCategories>, Error> {
    own_categories::of(&app).await.map(axum::Json)
}

/// Replaces the rules for the team's own categories.
#[utoipa::path(put, path = "/api/categories", tag = "categories", request_body = OwnRules,
    responses(
        (status = 200, description = "The rules that hold now.", body = OwnCategories),
        (status = 400, body = Problem),
    ))]
pub async fn put(
    Here(app): Here,
    Extension(entry): Extension<Entry>,
    Json(request): Json<OwnRules>,
) -> Result<axum::Json<OwnCategories>, Error> {
    let who = entry.name().to_owned();
    own_categories::change(&app, request.rules, who).await?;
    own_categories::of(&app).await.map(axum::Json)
}

/// What rules would take of a run, without keeping them.
#[utoipa::path(post, path = "/api/runs/{run}/categories", tag = "categories",
    params(("run" = String, Path)), request_body = OwnRules,
    responses(
        (status = 200, description = "What each rule takes of each device.",
            body = TakenOfRun),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn preview(
    Here(app): Here,
    Path(run): Path<String>,
    asker: Asker,
    Json(request): Json<OwnRules>,
) -> Result<axum::Json<TakenOfRun>, Error> {
    let rules = own_categories::parse(&request.rules)?;
    let devices = taken_of(&app, run_id(&run)?, rules, &asker).await?;
    Ok(axum::Json(TakenOfRun { devices }))
}

/// What rules take of a run.
async fn taken_of(
    app: &App,
    run: RunId,
    rules: Rules,
    asker: &Asker,
) -> Result<Vec<TakenOfDevice>, Error> {
    let read = app.store.read(move |reader| reader.run_ref(&run));
    let trace = read.await?.trace;
    let turn = asker.turn(app).await?;
    let traces = &app.pictures.traces;
    let decoded = traces.get(trace).await?;
    let memory = traces.memory_to_ask(&decoded, Ask::Stacks).await?;
    let look = move |watch: Watch<'_>| {
        let _turn = turn;
        Ok(own_categories::taken(&rules, &decoded.trace, watch)?)
    };
    answered(memory, look).await
}
