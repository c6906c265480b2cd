//! Server-sent events.

use super::extract::Client;
use super::here::Here;
use crate::app::App;
use crate::problems::Error;
use crate::who::access::{Entry, Membership};
use api::people::Scope;
use api::problem::Problem;
use api::progress::{ServerEvent, UploadProgress};
use api::projects::ProjectName;
use axum::Extension;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Serialize;
use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

/// A comment is sent this often, so that proxies do not close a quiet stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// An upload to listen to.
pub enum Listen {
    /// The upload is still running.
    Moving(watch::Receiver<UploadProgress>),
    /// The upload has ended.
    Finished(UploadProgress),
}

/// Whatever changes on the server, so that open pages refresh: first how unfinished uploads stand,
/// then each change.
#[utoipa::path(get, path = "/api/events", tag = "server",
    responses(
        (status = 200,
            description = "A stream of events that does not end.",
            body = ServerEvent, content_type = "text/event-stream"),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn all(
    Here(app): Here,
    listener: Listener,
    client: Client,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>> + Send + use<>>, Error> {
    let place = app.event_streams.take(client.address)?;
    // Subscribe first, so that nothing in between is lost.
    let changes = app.events.subscribe();
    let now = app
        .uploads
        .unfinished()
        .into_iter()
        .map(|job| ServerEvent::Upload {
            upload: job.id.clone(),
            progress: job.watch().borrow().clone(),
        });
    let now: Vec<ServerEvent> = now.collect();
    let events = stream::iter(now).chain(stream::unfold(changes, next_change));
    let events = events.take_while(move |_| ready(listener.may(&[Scope::Read])));
    let stopping = app.stopping.clone();
    let events = events.map(move |event| {
        // Held as long as the stream exists.
        let _place = &place;
        Ok(data(Event::default(), &event))
    });
    Ok(Sse::new(events.take_until(stopping.cancelled_owned())).keep_alive(keep_alive()))
}

/// Somebody who listens to a stream of a project.
pub struct Listener {
    /// The server.
    main: Arc<App>,
    /// How they came in.
    entry: Entry,
    /// The project.
    project: ProjectName,
}

impl FromRequestParts<Arc<App>> for Listener {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, main: &Arc<App>) -> Result<Self, Response> {
        let Ok(Here(app)) = Here::from_request_parts(parts, main).await;
        let entry = Extension::<Entry>::from_request_parts(parts, main).await;
        let Extension(entry) = entry.map_err(IntoResponse::into_response)?;
        Ok(Listener {
            main: Arc::clone(main),
            entry,
            project: app.project.clone(),
        })
    }
}

impl Listener {
    /// Whether they still may do one of these. A stream may last, but tokens, sessions, roles and
    /// projects end.
    pub(super) fn may(&self, scopes: &[Scope]) -> bool {
        let Listener {
            main,
            entry,
            project,
        } = self;
        let Some(now) = main.gate.again(entry, main.store.latest_ms()) else {
            return false;
        };
        let Some(role) = main.projects.role(&now, project) else {
            return false;
        };
        let membership = Membership {
            project: project.clone(),
            role,
        };
        let now = match main.projects.are_several() {
            true => now.at(membership),
            false => now,
        };
        scopes.iter().any(|scope| now.may(*scope))
    }
}

/// The events of one upload, until it ends or whoever listens may not any more.
///
/// # Errors
/// When there are too many streams.
pub fn upload_stream(
    app: &App,
    client: Client,
    listener: Listener,
    listen: Listen,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>> + Send + use<>>, Error> {
    let place = app.event_streams.take(client.address)?;
    let states = match listen {
        Listen::Finished(progress) => stream::iter([progress]).boxed(),
        Listen::Moving(watching) => {
            stream::unfold(Some(Watching::First(watching)), next_state).boxed()
        }
    };
    // As `permits` asks of a request during an upload.
    let states = states.take_while(move |_| {
        let may = listener.may(&[Scope::Read, Scope::Upload]);
        ready(may)
    });
    let events = states.map(move |state| {
        let _place = &place;
        Ok(data(Event::default().event("progress"), &state))
    });
    let stopping = app.stopping.clone();
    Ok(Sse::new(events.take_until(stopping.cancelled_owned())).keep_alive(keep_alive()))
}

async fn next_change(
    mut changes: broadcast::Receiver<ServerEvent>,
) -> Option<(ServerEvent, broadcast::Receiver<ServerEvent>)> {
    match changes.recv().await {
        Ok(event) => Some((event, changes)),
        // The listener fell behind, so it must read everything again.
        Err(RecvError::Lagged(_)) => Some((ServerEvent::RunsChanged, changes)),
        Err(RecvError::Closed) => None,
    }
}

/// Where to read the next state; `None` after the last one.
enum Watching {
    /// At once: none was read yet.
    First(watch::Receiver<UploadProgress>),
    /// After the next change.
    Next(watch::Receiver<UploadProgress>),
}

async fn next_state(watching: Option<Watching>) -> Option<(UploadProgress, Option<Watching>)> {
    let mut watching = match watching? {
        Watching::First(watching) => watching,
        Watching::Next(mut watching) => {
            // Without a sender nothing follows: its last message is read before that is told.
            watching.changed().await.ok()?;
            watching
        }
    };
    let state = watching.borrow_and_update().clone();
    match state {
        UploadProgress::Running { .. } => Some((state, Some(Watching::Next(watching)))),
        state => Some((state, None)),
    }
}

fn data(event: Event, value: &impl Serialize) -> Event {
    event.json_data(value).expect("events are plain data")
}

fn keep_alive() -> KeepAlive {
    KeepAlive::new().interval(KEEP_ALIVE)
}
