//! A question about a device of a stored run: reading it, and sending its answer.

use super::audience::Audience;
use super::extract::{Client, Path, Query, run_id};
use super::here::Here;
use super::packed::{self, Keep};
use crate::app::App;
use crate::limits::answering::{ANSWER_TIME, while_awaited};
use crate::limits::asking::Turn;
use crate::limits::budget::Permit;
use crate::pictures::{Ask, Decoded};
use crate::problems::Error;
use api::ids::RunId;
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::sync::Arc;
use trace::alive::Dimension;
use trace::device::DeviceIdx;
use trace::trace::DeviceTrace;
use trace::watch::Watch;

/// Who asks: what they may see, and where they are.
#[derive(Clone)]
pub struct Asker {
    pub(super) audience: Audience,
    pub(super) client: Client,
}

impl FromRequestParts<Arc<App>> for Asker {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Asker, Infallible> {
        Ok(Asker {
            audience: Audience::from_request_parts(parts, app).await?,
            client: Client::of(&parts.extensions),
        })
    }
}

impl Asker {
    /// A turn at a question, before any memory is taken for it.
    pub(super) async fn turn(&self, app: &App) -> Result<Turn, Error> {
        let asker = self.audience.asker();
        Ok(app.asking.turn(asker, self.client.address).await?)
    }
}

/// A question: who asks, which run, and which device.
pub struct Question {
    pub(super) app: Arc<App>,
    pub(super) run: RunId,
    pub(super) device: DeviceIdx,
    pub(super) asker: Asker,
    /// The word or the key of the loop whose iterations are the steps; `None` for the loop that
    /// Tidemark finds.
    pub(super) steps: Option<String>,
    pub(super) headers: HeaderMap,
    /// What is needed to answer.
    pub(super) asks: Ask,
}

/// What is taken for steps.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StepsQuery {
    /// The loop whose iterations are the steps, by its word (`epochs`) or its key: `levels` of the
    /// device's contents.
    steps: Option<String>,
}

impl StepsQuery {
    /// Its word or its key, if there is one.
    pub fn level(&self) -> Option<&str> {
        self.steps.as_deref()
    }
}

/// The parts of the path that every question has. They have names, so that a refusal names the one
/// that cannot be read.
#[derive(Deserialize)]
pub struct Place {
    pub(super) run: String,
    pub(super) device: DeviceIdx,
}

impl FromRequestParts<Arc<App>> for Question {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, main: &Arc<App>) -> Result<Question, Error> {
        let Path(Place { run, device }) = Path::from_request_parts(parts, main).await?;
        let Query(StepsQuery { steps }) = Query::from_request_parts(parts, main).await?;
        let Ok(asker) = Asker::from_request_parts(parts, main).await;
        let Ok(Here(app)) = Here::from_request_parts(parts, main).await;
        Ok(Question {
            app,
            run: run_id(&run)?,
            device,
            asker,
            steps,
            headers: parts.headers.clone(),
            asks: Ask::Known,
        })
    }
}

impl Question {
    /// The same question with another grouping.
    pub(super) fn by(self, by: Dimension) -> Question {
        let asks = match by {
            Dimension::Category => Ask::Stacks,
            _ => self.asks,
        };
        Question { asks, ..self }
    }

    /// The same question, for answers that search loops or leaks.
    pub(super) fn of_stacks(self) -> Question {
        Question {
            asks: Ask::Stacks,
            ..self
        }
    }

    /// Asks the decoded trace, outside of the runtime's threads. `what` is the question and
    /// `details` its parameters. A run's id stands for its content, so both together identify the
    /// answer. The watch ends the work when it takes too long, and when the client goes.
    pub(super) async fn answer<T: Serialize + Send + 'static>(
        self,
        what: &str,
        details: &str,
        ask: impl FnOnce(&Decoded, &DeviceTrace, Watch<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<Response, Error> {
        let Question {
            app,
            run,
            device,
            asker,
            steps,
            headers,
            asks,
        } = self;
        let version = api::alive::VERSION;
        let of = steps.as_deref().unwrap_or_default();
        let of: String = of.bytes().map(|byte| format!("{byte:02x}")).collect();
        let asked = brief(format!("{details}-{of}"));
        let etag = format!("W/\"{run}-{device}-{what}-{asked}-v{version}\"");
        let etag = asker.audience.tagged(etag);
        let trace = app.store.read(move |reader| reader.run_ref(&run));
        let trace = trace.await?.trace;
        if let Some(response) = packed::not_modified(&headers, &etag, Keep::Ask) {
            return Ok(response);
        }
        let turn = asker.turn(&app).await?;
        let traces = &app.pictures.traces;
        let decoded = traces
            .get_cut(trace, asker.audience.texts(), steps.as_deref())
            .await?;
        let memory = traces.memory_to_ask(&decoded, asks).await?;
        let value = answered(memory, move |watch| {
            // The turn belongs to the work: it may go on for a moment after the client went.
            let _turn = turn;
            ask(&decoded, decoded.device(device)?, watch)
        });
        let value = value.await?;
        Ok(packed::immutable_json(&headers, &value, etag, Keep::Ask))
    }
}

/// Does work that a request waits for, within the time of an answer.
pub(super) async fn answered<T: Send + 'static>(
    memory: Permit,
    work: impl FnOnce(Watch<'_>) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    while_awaited(memory, ANSWER_TIME, work).await
}

/// The question in short, for a tag: clients refuse headers of many kilobytes.
fn brief(asked: String) -> String {
    const LONGEST: usize = 128;
    match asked.len() <= LONGEST {
        true => asked,
        false => blake3::hash(asked.as_bytes()).to_hex().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_stay_short_and_tell_questions_apart() {
        assert_eq!(brief("0-100-".to_owned()), "0-100-");
        let long = |end: &str| brief(format!("{}{end}", "a".repeat(60_000)));
        assert!(long("a").len() <= 64 && long("a") != long("b"));
    }
}
