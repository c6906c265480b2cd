//! Saved views: a name for an address, for everybody of the team.

mod badge;
mod page;

pub use badge::badge;
pub use page::{forget_on_page, save_on_page, views_page};

use super::audited::Subject;
use super::extract::{Json, Origin, Path};
use super::here::Here;
use crate::app::App;
use crate::identity;
use crate::problems::Error;
use crate::system::clock::now_ms;
use crate::who::access::Entry;
use api::ids::ViewId;
use api::problem::Problem;
use api::views::{NewView, View, Views};
use axum::Extension;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// Saved views, by name.
#[utoipa::path(get, path = "/api/views", tag = "views",
    responses((status = 200, description = "All of them.", body = Views)))]
pub async fn list(Here(app): Here) -> Result<axum::Json<Views>, Error> {
    let views = app.store.read(|reader| reader.views()).await?;
    Ok(axum::Json(Views { views }))
}

/// Saves a view; one with the same name is replaced.
#[utoipa::path(post, path = "/api/views", tag = "views", request_body = NewView,
    responses(
        (status = 201, description = "The view.", body = View),
        (status = 400, body = Problem), (status = 409, body = Problem),
    ))]
pub async fn save(
    Here(app): Here,
    Extension(entry): Extension<Entry>,
    origin: Origin,
    Json(new): Json<NewView>,
) -> Result<Response, Error> {
    let view = saved(&app, &entry, &origin, new).await?;
    let subject = Subject::of(&view.name);
    Ok((StatusCode::CREATED, subject, axum::Json(view)).into_response())
}

async fn saved(app: &App, entry: &Entry, origin: &Origin, new: NewView) -> Result<View, Error> {
    let new = new.checked(&origin.to_string());
    let new = new.map_err(|why| Error::BadRequest(why.to_string()))?;
    let view = View {
        id: identity::view_id(),
        name: new.name,
        path: new.path,
        created_ms: now_ms(),
        created_by: entry.name().to_owned(),
    };
    let kept = view.clone();
    let write = app.store.write(move |writer| writer.put_view(&kept));
    let id = write.await?;
    Ok(View { id, ..view })
}

/// Forgets a view.
#[utoipa::path(delete, path = "/api/views/{view}", tag = "views",
    params(("view" = String, Path)),
    responses(
        (status = 204, description = "It is gone."),
        (status = 404, body = Problem),
    ))]
pub async fn forget(Here(app): Here, Path(view): Path<String>) -> Result<StatusCode, Error> {
    forgotten(&app, &view).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn forgotten(app: &App, view: &str) -> Result<(), Error> {
    let unknown = |_| Error::NotFound(format!("view {view}"));
    let id: ViewId = view.parse().map_err(unknown)?;
    Ok(app
        .store
        .write(move |writer| writer.forget_view(&id))
        .await?)
}
