//! Bundled sample runs, one click away.

use super::extract::{Addresses, Client, Path};
use super::here::Here;
use super::uploads::finished;
use crate::ingest::Sender;
use crate::problems::Error;
use crate::samples;
use api::problem::Problem;
use api::runs::{FinishedUpload, Sample};
use axum::response::Response;

/// The bundled samples.
#[utoipa::path(get, path = "/api/samples", tag = "samples",
    responses((status = 200, description = "The bundled samples.", body = Vec<Sample>)))]
pub async fn list() -> axum::Json<Vec<Sample>> {
    axum::Json(
        samples::ALL
            .iter()
            .map(samples::BundledSample::describe)
            .collect(),
    )
}

/// Makes a run of a sample, or finds the one that it is already.
#[utoipa::path(post, path = "/api/samples/{name}", tag = "samples",
    params(("name" = String, Path)),
    responses(
        (status = 201, description = "The sample was stored as a run.", body = FinishedUpload),
        (status = 200, description = "The sample was already a run.", body = FinishedUpload),
        (status = 404, body = Problem),
    ))]
pub async fn open(
    Here(app): Here,
    Path(name): Path<String>,
    client: Client,
    addresses: Addresses,
) -> Result<Response, Error> {
    let missing = || Error::NotFound(format!("sample {name}"));
    let sample = samples::find(&name).ok_or_else(missing)?;
    let sender = Sender::Client {
        address: client.address,
        // A sample is nobody's upload.
        name: None,
        lasts: None,
    };
    let arrived = sample.open(&app.uploads, sender).await?;
    finished(&app, arrived, &addresses).await
}
