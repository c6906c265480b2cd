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
use tokio::time::{Instant, timeout_at};

/// A comment is sent this often, so that proxies do not close a quiet stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A listener is told at most this often that runs changed: an upload changes them several times,
/// and a job has hundreds of uploads.
const RUNS_EVERY: Duration = Duration::from_secs(1);

/// An upload to listen to.
pub enum Listen {
    /// The upload is still running.
    Moving(watch::Receiver<UploadProgress>),
    /// The upload has ended.
    Finished(UploadProgress),
}

/// Whatever changes on the server, so that open pages refresh: first how unfinished uploads stand,
/// then each change. A listener that is too slow is told that it missed some.
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
    let changes = Changes::of(app.events.subscribe());
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

/// What happens in a project, as one listener is told.
struct Changes {
    events: broadcast::Receiver<ServerEvent>,
    runs: RunsTold,
}

/// When a listener was told that runs changed, and when they are told again.
#[derive(Default)]
struct RunsTold {
    last: Option<Instant>,
    due: Option<Instant>,
}

impl RunsTold {
    /// Runs changed. Whether to tell that now; else it is due later.
    fn changed(&mut self, now: Instant) -> bool {
        let next = self.last.map(|last| last + RUNS_EVERY);
        self.due = next.filter(|next| now < *next);
        if self.due.is_none() {
            self.last = Some(now);
        }
        self.due.is_none()
    }

    /// Runs changed, which is told as soon as something is told again.
    fn put_off(&mut self, now: Instant) {
        let next = self.last.map(|last| last + RUNS_EVERY);
        self.due = Some(next.map_or(now, |next| next.max(now)));
    }

    /// Whether what was put off is to be told now.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            *self = RunsTold {
                last: Some(now),
                due: None,
            };
        }
        is_due
    }
}

impl Changes {
    fn of(events: broadcast::Receiver<ServerEvent>) -> Changes {
        Changes {
            events,
            runs: RunsTold::default(),
        }
    }
}

async fn next_change(mut changes: Changes) -> Option<(ServerEvent, Changes)> {
    loop {
        if changes.runs.is_due(Instant::now()) {
            return Some((ServerEvent::RunsChanged, changes));
        }
        let next = match changes.runs.due {
            Some(due) => match timeout_at(due, changes.events.recv()).await {
                Ok(next) => next,
                Err(_) => continue,
            },
            None => changes.events.recv().await,
        };
        match next {
            // A listener that fell behind must read everything again. One that does not know the
            // event reads the runs again.
            Err(RecvError::Lagged(_)) => {
                changes.runs.put_off(Instant::now());
                return Some((ServerEvent::Missed, changes));
            }
            Ok(ServerEvent::RunsChanged) => {
                if changes.runs.changed(Instant::now()) {
                    return Some((ServerEvent::RunsChanged, changes));
                }
            }
            Ok(event) => return Some((event, changes)),
            Err(RecvError::Closed) => return None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use api::ids::UploadId;

    #[test]
    fn changes_of_one_second_are_told_at_once_and_once_more_at_its_end() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut told = RunsTold::default();
        assert!(!told.is_due(at(0)));
        assert!(told.changed(at(0)));
        for ms in [1, 300, 999] {
            assert!(!told.changed(at(ms)) && !told.is_due(at(ms)), "{ms}");
        }
        assert!(told.is_due(at(1_000)));
        assert!(!told.is_due(at(1_001)), "nothing changed since");
        assert!(!told.changed(at(1_500)));
        assert!(told.is_due(at(2_600)));
        assert!(told.changed(at(3_600)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_upload_is_one_event_or_two_and_what_else_happens_is_told_meanwhile() {
        let sender = broadcast::Sender::new(64);
        let mut changes = Changes::of(sender.subscribe());
        let upload: UploadId = crate::identity::upload_id();
        for _ in 0..20 {
            sender.send(ServerEvent::RunsChanged).unwrap();
        }
        let progress = UploadProgress::Cancelled;
        let other = ServerEvent::Upload { upload, progress };
        sender.send(other.clone()).unwrap();
        let start = Instant::now();
        let mut told = Vec::new();
        for _ in 0..3 {
            let (event, rest) = next_change(changes).await.unwrap();
            told.push((event, start.elapsed() >= RUNS_EVERY));
            changes = rest;
        }
        let runs = ServerEvent::RunsChanged;
        assert_eq!(told, [(runs.clone(), false), (other, false), (runs, true)]);
        drop(sender);
        assert!(next_change(changes).await.is_none());
    }

    /// The end of an upload may be among what it missed.
    #[tokio::test(start_paused = true)]
    async fn a_listener_that_fell_behind_is_told_to_read_everything_again() {
        let sender = broadcast::Sender::new(2);
        let mut changes = Changes::of(sender.subscribe());
        let upload: UploadId = crate::identity::upload_id();
        for progress in [0, 1, 2].map(|_| UploadProgress::Cancelled) {
            let upload = upload.clone();
            sender
                .send(ServerEvent::Upload { upload, progress })
                .unwrap();
        }
        let mut told = Vec::new();
        for _ in 0..3 {
            let (event, rest) = next_change(changes).await.unwrap();
            told.push(event);
            changes = rest;
        }
        let progress = UploadProgress::Cancelled;
        let kept = ServerEvent::Upload { upload, progress };
        assert_eq!(told, [ServerEvent::Missed, ServerEvent::RunsChanged, kept]);
    }
}
