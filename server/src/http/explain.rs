//! A run in words: the same as `tidemark explain` prints for its file.

use super::audience::Audience;
use super::extract::{Client, Path, Query, run_id};
use super::here::Here;
use super::packed::{Keep, Packed, not_modified};
use super::question::{StepsQuery, answered};
use super::runs::{bench_row, kept};
use crate::app::App;
use crate::pictures::Ask;
use crate::problems::Error;
use crate::store::{Reader, StoreError, StoredRun};
use answers::explain;
use answers::texts::Texts;
use api::bench::RowOfRun;
use api::explain::Explanation;
use api::problem::Problem;
use api::shares::nameless;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use serde::Deserialize;
use trace::device::DeviceIdx;
use trace::main_device;
use trace::units::Bytes;
use trace::watch::Watch;

/// Which device.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ExplainQuery {
    /// Its CUDA ordinal; unless given, the device that ran out of memory, or held most.
    #[param(value_type = Option<u32>)]
    device: Option<DeviceIdx>,
    /// The limit of what the process could reserve, such as `24GiB`: a recording does not hold it.
    limit: Option<String>,
}

/// The form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A page of Markdown.
    Page,
    /// A document.
    Json,
}

impl Form {
    /// The first form that the client accepts; a page if it accepts anything.
    fn wanted(headers: &HeaderMap) -> Form {
        let values = headers.get_all(header::ACCEPT).iter();
        let named = values.filter_map(|value| value.to_str().ok());
        let named = named.flat_map(|value| value.split(','));
        let mut known = named.filter_map(|range| {
            let (name, _) = range.split_once(';').unwrap_or((range, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "application/json" | "application/*" => Some(Form::Json),
                "text/markdown" | "text/*" | "*/*" => Some(Form::Page),
                _ => None,
            }
        });
        known.next().unwrap_or(Form::Page)
    }

    const fn media_type(self) -> &'static str {
        match self {
            Form::Page => "text/markdown; charset=utf-8",
            Form::Json => "application/json",
        }
    }

    fn file(self, explanation: &Explanation) -> Vec<u8> {
        match self {
            Form::Page => explain::page(explanation).into_bytes(),
            Form::Json => serde_json::to_vec(explanation).expect("explanations are plain data"),
        }
    }
}

/// What is explained, and for whom.
struct Subject {
    row: StoredRun,
    device: Option<DeviceIdx>,
    limit: Option<Bytes>,
    /// The key of the loop whose iterations are the steps.
    steps: Option<String>,
    texts: Texts,
    form: Form,
    /// What a bench knows of the run.
    known: Option<RowOfRun>,
}

/// The run in words, for a person or a language model: what held its memory, what leaks, why it
/// ran out and what would have helped. As JSON if the request asks for it.
#[utoipa::path(get, path = "/api/runs/{run}/explain", tag = "runs",
    params(("run" = String, Path), ExplainQuery, StepsQuery),
    responses(
        (status = 200, description = "The page, or the document.",
            content((String = "text/markdown"), (Explanation = "application/json"))),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 413, body = Problem), (status = 429, body = Problem),
        (status = 503, body = Problem),
    ))]
pub async fn explain(
    Here(app): Here,
    Path(run): Path<String>,
    Query(ExplainQuery { device, limit }): Query<ExplainQuery>,
    Query(steps): Query<StepsQuery>,
    client: Client,
    audience: Audience,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let limit = limit.as_deref().map(str::parse::<Bytes>).transpose();
    let (id, texts) = (run_id(&run)?, audience.texts());
    let subject = Subject {
        known: bench_row(&app, id.clone(), texts).await?,
        row: kept(&app, id).await?,
        device,
        limit: limit.map_err(|error| Error::BadRequest(format!("limit: {error}")))?,
        steps: steps.level().map(str::to_owned),
        texts,
        form: Form::wanted(&headers),
    };
    let (etag, form) = (subject.etag(), subject.form);
    let mut response = match not_modified(&headers, &etag, Keep::Ask) {
        Some(response) => response,
        None => {
            let tell = subject.told(&app);
            let shelf = app.explanations.of(audience.asker());
            let told = shelf.get(&etag, client.address, tell).await?;
            let packed = Packed {
                zstd: told.to_vec(),
                media_type: form.media_type(),
                etag,
                keep: Keep::Ask,
            };
            packed.respond(&headers)
        }
    };
    let accept = HeaderValue::from_static("accept");
    response.headers_mut().append(header::VARY, accept);
    Ok(response)
}

impl Subject {
    /// The name that the reader may see.
    fn name(&self) -> String {
        match self.texts {
            Texts::All(_) => self.row.name.clone(),
            Texts::Redacted(_) => nameless(&self.row.id),
        }
    }

    /// Identifies everything that goes into the words. A name that the reader may not see is left
    /// out: from a hash of it, the name could be guessed.
    fn etag(&self) -> String {
        let parts = format!(
            "{} {:?} {:?} {:?} {:?} {:?} {:?} {:?} v{}",
            self.row.id,
            self.name(),
            self.device,
            self.limit,
            self.steps,
            self.texts.tag(),
            self.form,
            self.known,
            explain::VERSION
        );
        format!("W/\"{}\"", &blake3::hash(parts.as_bytes()).to_hex()[..32])
    }

    /// The answer, packed.
    async fn told(self, app: &App) -> Result<Vec<u8>, Error> {
        if let Some(kept) = self.kept(app).await? {
            return self.packed(kept);
        }
        let traces = &app.pictures.traces;
        let steps = self.steps.as_deref();
        let decoded = traces.get_cut(self.row.trace, self.texts, steps).await?;
        let memory = traces.memory_to_ask(&decoded, Ask::Stacks).await?;
        let tell = move |watch: Watch<'_>| {
            let device = match self.device {
                Some(device) => Some(decoded.device(device)?),
                None => main_device::of(&decoded.trace),
            };
            let (trace, limit) = (&decoded.trace, self.limit);
            if let Some(why) = explain::refusal_of(limit, trace, device, watch)? {
                return Err(Error::BadRequest(format!("limit: {why}")));
            }
            let told = explain::explain(&self.name(), trace, device, limit, watch)?;
            self.packed(told)
        };
        answered(memory, tell).await
    }

    /// The explanation that was stored when the run was judged. It uses the run's own steps, and
    /// has all names.
    async fn kept(&self, app: &App) -> Result<Option<Explanation>, Error> {
        if self.steps.is_some() || self.limit.is_some() {
            return Ok(None);
        }
        let Texts::All(own) = self.texts else {
            return Ok(None);
        };
        let (run, device) = (self.row.id.clone(), self.device);
        let version = explain::version(own);
        let read = move |reader: &Reader<'_>| reader.explanation(&run, device, version);
        let kept = app.store.read(read).await?;
        Ok(kept.map(|explanation| Explanation {
            file: self.name(),
            ..explanation
        }))
    }

    /// The words beside what a bench knows, packed.
    fn packed(&self, explanation: Explanation) -> Result<Vec<u8>, Error> {
        let told = explain::beside(explanation, self.known.clone());
        let file = self.form.file(&told);
        Ok(zstd::bulk::compress(&file, 1).map_err(StoreError::Packing)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_first_that_the_client_names() {
        let check = |accept: Option<&'static str>, expected: Form| {
            let value = accept.map(|accept| (header::ACCEPT, HeaderValue::from_static(accept)));
            assert_eq!(
                Form::wanted(&HeaderMap::from_iter(value)),
                expected,
                "{accept:?}"
            );
        };
        check(None, Form::Page);
        check(Some("*/*"), Form::Page);
        check(Some("application/json"), Form::Json);
        check(Some("Application/JSON;q=0.9, */*"), Form::Json);
        check(
            Some("text/html, text/markdown, application/json"),
            Form::Page,
        );
        check(Some("image/png"), Form::Page);
    }
}
