//! A question to a device of a stored run: how it comes in, and how its answer goes out.

use super::App;
use super::audience::Audience;
use super::extract::{Path, Query, run_id};
use super::packed::{self, Keep};
use crate::pictures::Decoded;
use crate::problems::Error;
use crate::work;
use api::ids::RunId;
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trace::trace::DeviceTrace;

/// Who asks which device of which run.
pub struct Question {
    pub(super) app: Arc<App>,
    pub(super) run: RunId,
    pub(super) device: u32,
    pub(super) audience: Audience,
    /// The key of the loop that is taken for steps; `None`: what is found.
    pub(super) steps: Option<String>,
    pub(super) headers: HeaderMap,
}

/// What is taken for steps.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StepsQuery {
    /// The key of a loop (`levels` of the device's contents) whose iterations are the steps.
    steps: Option<String>,
}

impl StepsQuery {
    /// The key, where there is one.
    pub fn level(&self) -> Option<&str> {
        self.steps.as_deref()
    }
}

/// The parts of the path that every question has.
#[derive(Deserialize)]
struct Place {
    run: String,
    device: u32,
}

impl FromRequestParts<Arc<App>> for Question {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Question, Error> {
        let Path(Place { run, device }) = Path::from_request_parts(parts, app).await?;
        let Query(StepsQuery { steps }) = Query::from_request_parts(parts, app).await?;
        let Ok(audience) = Audience::from_request_parts(parts, app).await;
        Ok(Question {
            app: Arc::clone(app),
            run: run_id(&run)?,
            device,
            audience,
            steps,
            headers: parts.headers.clone(),
        })
    }
}

impl Question {
    /// Asks the decoded trace, off the runtime's threads. `what` is asked and `details` say how:
    /// since a run's id names its content, both together name the answer.
    pub(super) async fn answer<T: Serialize + Send + 'static>(
        self,
        what: &str,
        details: &str,
        ask: impl FnOnce(&Decoded, &DeviceTrace) -> Result<T, Error> + Send + 'static,
    ) -> Result<Response, Error> {
        let Question {
            app,
            run,
            device,
            audience,
            steps,
            headers,
        } = self;
        let version = api::alive::VERSION;
        let of = steps.as_deref().unwrap_or_default();
        let of: String = of.bytes().map(|byte| format!("{byte:02x}")).collect();
        let etag = format!("W/\"{run}-{device}-{what}-{details}-{of}-v{version}\"");
        let etag = audience.tagged(etag);
        let trace = app.store.read(move |reader| reader.run_ref(&run));
        let trace = trace.await?.trace;
        if let Some(response) = packed::not_modified(&headers, &etag, Keep::Ask) {
            return Ok(response);
        }
        let traces = &app.pictures.traces;
        let decoded = traces
            .get_cut(trace, audience.texts(), steps.as_deref())
            .await?;
        let memory = traces.memory_to_ask(&decoded).await?;
        let answer = work::answer(move || {
            let answer = ask(&decoded, decoded.device(device)?);
            drop(memory);
            answer
        });
        let value = answer.await.map_err(|_| Error::Panicked)??;
        Ok(packed::immutable_json(&headers, &value, etag, Keep::Ask))
    }
}
