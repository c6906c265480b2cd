//! Questions of language models: tools over HTTP, for clients with the token. See `docs/mcp.md`.

use super::extract::Origin;
use super::here::{Here, Readable};
use super::question::Asker;
use super::runs::{bench_row, kept, summary};
use crate::app::App;
use crate::limits::answering::{ANSWER_TIME, Caller, Presence, Refused, allowed};
use crate::limits::asking::Turn;
use crate::limits::budget::Permit;
use crate::limits::work;
use crate::mcp::{
    self, Agent, Answers, ENOUGH, Library, MOST_RUNS, Page, Panicked, Place, Recording, Reference,
    only_one,
};
use crate::pictures::{Ask, Decoded};
use crate::problems::Error;
use crate::store::{Reader, Slice, Which};
use crate::who::access::Entry;
use api::bench::RowOfRun;
use api::ids::RunId;
use api::projects::{ProjectName, named_by};
use api::runs::RunSummary;
use axum::body::{Body, Bytes};
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rmcp::model::JsonObject;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use std::ops::Deref;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use trace::trace::Trace;
use trace::watch::Watch;

/// Answers one message of the protocol. There are no sessions: a tool needs none.
pub async fn ask(
    Here(app): Here,
    Extension(entry): Extension<Entry>,
    Extension(readable): Extension<Readable>,
    origin: Origin,
    asker: Asker,
    request: Request,
) -> Result<Response, Error> {
    if asker.audience.is_of_link() {
        // A link shows certain views; a tool could ask about data outside of them.
        return Err(Error::TokenNeeded);
    }
    let (parts, body) = request.into_parts();
    let within = app.config.clients.body_within;
    let reading = Bytes::from_request(Request::new(body), &app);
    let body = tokio::time::timeout(within, reading).await;
    let body = body.map_err(|_| Error::SlowBody(within))?;
    let body = body.map_err(JsonRejection::from)?;
    if let Some(refused) = mcp::refusal(&body) {
        return Ok((StatusCode::BAD_REQUEST, axum::Json(refused)).into_response());
    }
    // When the client hangs up, the work ends, and so does the wait for a turn.
    let (_caller, presence) = Caller::waits();
    let gone = CancellationToken::new();
    let _here = gone.clone().drop_guard();
    let agent = Agent(Dashboard {
        are_several: entry.membership.is_some(),
        app,
        readable: readable.0,
        origin: origin.to_string(),
        asker,
        gone,
        presence: Arc::new(presence),
    });
    // The guards have already checked names and origins.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_legacy_session_mode(false)
        .with_json_response(true);
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(agent.clone()), sessions, config);
    let message = Request::from_parts(parts, Body::from(body));
    Ok(service.handle(message).await.map(Body::new))
}

/// The data of this server, for the tools.
#[derive(Clone)]
struct Dashboard {
    /// The project of the request, whose runs are listed.
    app: Arc<App>,
    /// Every project that may be asked about, that one first.
    readable: Vec<Arc<App>>,
    /// Whether the server has several projects, so that links must name theirs.
    are_several: bool,
    /// The beginning of links.
    origin: String,
    asker: Asker,
    /// Fires when the client hangs up.
    gone: CancellationToken,
    presence: Arc<Presence>,
}

impl Answers for Dashboard {
    async fn answer(
        &self,
        tool: String,
        arguments: JsonObject,
    ) -> Result<Result<Page, String>, Panicked> {
        let held = tokio::select! {
            biased;
            () = self.gone.cancelled() => Err(Refused::NobodyWaits.into()),
            held = self.held(&tool, &arguments) => held,
        };
        let held = match held {
            Ok(held) => held,
            Err(why) => return Ok(Err(why.to_string())),
        };
        let presence = Arc::clone(&self.presence);
        let work = move || {
            let Held {
                memory,
                found,
                turn: _turn,
            } = held;
            let ask = |watch: Watch<'_>| mcp::call(&found, watch, &tool, arguments);
            allowed(memory, ANSWER_TIME, &presence, ask)
                .unwrap_or_else(|refused| Err(format!("{refused}.")))
        };
        work::answer(work).await.map_err(|_| Panicked)
    }
}

/// The subject of a question, in memory.
struct Held {
    /// The turn; `None` if it is about no recording.
    turn: Option<Turn>,
    /// The memory that it may take; `None` if it needs almost nothing.
    memory: Option<Permit>,
    found: Found,
}

/// The recordings and runs that are asked about.
struct Found {
    origin: String,
    recordings: Vec<Meant>,
    /// What the question calls it, and why it means no run.
    refused: Vec<(String, String)>,
    runs: Vec<RunSummary>,
}

/// A run that is asked about.
struct Meant {
    /// What the question calls it.
    called: String,
    id: RunId,
    name: String,
    /// The project that its links lead into, if there are several.
    project: Option<ProjectName>,
    decoded: Arc<Decoded>,
    /// What a bench knows of it.
    bench_row: Option<RowOfRun>,
}

impl Dashboard {
    async fn held(&self, tool: &str, arguments: &JsonObject) -> Result<Held, Error> {
        let mut found = Found {
            origin: self.origin.clone(),
            recordings: Vec::new(),
            refused: Vec::new(),
            runs: Vec::new(),
        };
        if tool == mcp::RUNS {
            let newest = Slice {
                offset: 0,
                limit: MOST_RUNS,
            };
            let read = self
                .app
                .store
                .read(move |reader| reader.runs(Which::Live, &[], newest));
            found.runs = read.await?.into_iter().map(summary).collect();
        }
        let turn = match mcp::recordings_of(arguments).next() {
            Some(_) => Some(self.asker.turn(&self.app).await?),
            None => None,
        };
        let mut memory = None;
        for name in mcp::recordings_of(arguments) {
            let (app, run) = match self.meant(name).await? {
                Ok(found) => found,
                Err(why) => {
                    found.refused.push((name.to_owned(), why));
                    continue;
                }
            };
            let traces = &app.pictures.traces;
            let row = kept(app, run.clone()).await?;
            let known = bench_row(app, run.clone(), traces.all_texts()).await?;
            let decoded = traces.get(row.trace).await?;
            let needed = traces.memory_to_ask(&decoded, Ask::Stacks).await?;
            found.recordings.push(Meant {
                called: name.to_owned(),
                id: run,
                name: row.called(),
                project: self.are_several.then(|| app.project.clone()),
                decoded,
                bench_row: known,
            });
            // Of two recordings, only one is asked about at a time.
            memory = memory.into_iter().chain([needed]).max_by_key(Permit::bytes);
        }
        Ok(Held {
            turn,
            memory,
            found,
        })
    }

    /// The run that a text means, and its project; or why it means none. What is called by its name
    /// or its labels is looked for in the project of the request.
    async fn meant(&self, text: &str) -> Result<Result<(&App, RunId), String>, Error> {
        let wanted = match Reference::read(text) {
            Reference::Id(run) => {
                let app = self.holding(&run, named_by(text)).await?;
                return Ok(Ok((app, run)));
            }
            other => other,
        };
        let find = move |reader: &Reader<'_>| {
            let mut found: Vec<RunSummary> = Vec::new();
            let mut offset = 0;
            while found.len() < ENOUGH {
                let slice = Slice {
                    offset,
                    limit: MOST_RUNS,
                };
                let rows = reader.runs(Which::Live, wanted.labels(), slice)?;
                let is_last = rows.len() < MOST_RUNS as usize;
                let runs = rows.into_iter().map(summary);
                found.extend(runs.filter(|run| wanted.means(run)));
                if is_last {
                    break;
                }
                offset += MOST_RUNS;
            }
            Ok(found)
        };
        let found: Vec<RunSummary> = self.app.store.read(find).await?;
        Ok(only_one(text, &found).map(|run| (&*self.app, run.id.clone())))
    }

    /// The project that has a run: the one that its link names, otherwise the first that has it.
    async fn holding(&self, run: &RunId, named: Option<ProjectName>) -> Result<&App, Error> {
        let is_meant = |app: &&Arc<App>| named.as_ref().is_none_or(|name| app.project == *name);
        let mut missing = None;
        for app in self.readable.iter().filter(is_meant) {
            match kept(app, run.clone()).await {
                Ok(_) => return Ok(app),
                Err(error) => missing = missing.or(Some(error)),
            }
        }
        let not_here = || Error::NotFound(format!("run {run}"));
        Err(missing.unwrap_or_else(not_here))
    }
}

impl Library for Found {
    fn recording(&self, name: &str) -> Result<Recording, String> {
        let mut recordings = self.recordings.iter();
        let found = recordings.find(|meant| meant.called == name);
        let meant = found.ok_or_else(|| {
            let refused = self.refused.iter().find(|(called, _)| called == name);
            refused.map_or_else(|| format!("{name} is no run."), |(_, why)| why.clone())
        })?;
        let place = Some(Place {
            server: self.origin.clone(),
            project: meant.project.clone(),
            run: meant.id.clone(),
        });
        let trace = Shown(Arc::clone(&meant.decoded));
        let recording = Recording::new(meant.name.clone(), trace, place);
        Ok(recording.beside(meant.bench_row.clone()))
    }

    fn runs(&self) -> Result<Vec<RunSummary>, String> {
        Ok(self.runs.clone())
    }
}

/// A trace of the cache.
struct Shown(Arc<Decoded>);

impl Deref for Shown {
    type Target = Trace;

    fn deref(&self) -> &Trace {
        &self.0.trace
    }
}
