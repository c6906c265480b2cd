//! The state of the server, for programs that collect measurements: `GET /metrics`.
//!
//! Requests and uploads are counted as they happen; everything else is measured when somebody asks.
//! Only readers of the API may read this: nobody else learns how much is stored.

use crate::app::App;
use crate::limits::turns::Queue;
use crate::store::{StoreError, StoreResult, Stored};
use crate::who::access::Entry;
use api::usage::StoredParts;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The text format of Prometheus and related programs.
const TEXT: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// A label and its value.
type Label = [(&'static str, &'static str); 1];

/// A project. Only admins make them, so clients cannot make new labels.
type ByProject = [(&'static str, String); 1];

/// A project, and a part of what it stores.
type ByPart = [(&'static str, String); 2];

/// All measurements. Those of a database that cannot be read are missing.
pub async fn all(State(app): State<Arc<App>>, Extension(entry): Extension<Entry>) -> Response {
    let held = held(&app).await;
    let benches = readable(&app, app.benches.queue().await);
    let mut now = Measured(Registry::with_prefix("tidemark"));
    let help = "Whether the database of the first project cannot be read: what it says is missing";
    let is_unreadable = held.is_none() || benches.is_none();
    now.gauge("database_unreadable", help, is_unreadable.into());
    uploads(&mut now, &app);
    queues(&mut now, &app, benches);
    room(&mut now, &app);
    if let Some((stored, parts)) = held {
        now.gauge("runs", "Runs that are listed", stored.runs);
        let help = "Stored files, as they are packed";
        now.bytes("blobs", help, stored.blob_bytes);
        database(&mut now, &parts);
    }
    // Others do not learn which projects there are.
    if app.projects.are_several() && entry.is_admin() {
        by_project(&mut now, &app).await;
    }
    let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
    now.0.register("build", "The program", version);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode_registry(&mut text, app.requests.registry());
    let _ = encode_registry(&mut text, &now.0);
    let _ = encode_eof(&mut text);
    let headers = [
        (header::CONTENT_TYPE, TEXT),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, text).into_response()
}

/// What the database of a project says that it holds, if it can be read.
async fn held(app: &App) -> Option<(Stored, StoredParts)> {
    let stored = app.store.read(|reader| reader.stored()).await;
    let stored = readable(app, stored)?;
    let parts = readable(app, app.sizes.parts(&app.store).await)?;
    Some((stored, parts))
}

fn readable<T>(app: &App, read: StoreResult<T>) -> Option<T> {
    let failed =
        |error: StoreError| tracing::debug!(project = %app.project, %error, "cannot be measured");
    read.map_err(failed).ok()
}

/// What each project holds.
async fn by_project(now: &mut Measured, main: &Arc<App>) {
    let (unreadable, runs, disk, stored_parts) = (
        Family::<ByProject, Gauge>::default(),
        Family::<ByProject, Gauge>::default(),
        Family::<ByProject, Gauge>::default(),
        Family::<ByPart, Gauge>::default(),
    );
    for app in main.projects.all_open(main) {
        let label = [("project", app.project.to_string())];
        let used = app.uploads.share().used();
        disk.get_or_create(&label).set(used.get() as i64);
        let held = held(&app).await;
        let is_unreadable = i64::from(held.is_none());
        unreadable.get_or_create(&label).set(is_unreadable);
        let Some((stored, parts)) = held else {
            continue;
        };
        runs.get_or_create(&label).set(stored.runs as i64);
        let [project] = label;
        for (part, _, size) in parts.named() {
            let label = [project.clone(), ("part", part.to_owned())];
            let gauge = stored_parts.get_or_create(&label).clone();
            gauge.set(size.get() as i64);
        }
    }
    let help = "Whether the database of a project cannot be read: what it says is missing";
    now.0.register("project_unreadable", help, unreadable);
    let shut = "Projects that cannot be opened, although they are not closed";
    now.gauge("projects_shut", shut, main.projects.shut() as u64);
    now.0
        .register("project_runs", "Runs that are listed, by project", runs);
    let help = "Stored files and database, by project";
    now.0
        .register_with_unit("project_disk", help, Unit::Bytes, disk);
    let help = "What is stored, by project and part, at most ten minutes ago";
    now.0
        .register_with_unit("project_part", help, Unit::Bytes, stored_parts);
}

fn uploads(now: &mut Measured, app: &App) {
    let tally = app.uploads.tally();
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let begun = "Uploads whose bytes began to come";
    now.counter("uploads_begun", begun, read(&tally.begun));
    let refused = "Uploads that were told to come later, or that there is no room";
    now.counter("uploads_refused", refused, read(&tally.refused));
    let ended = [
        ("new", &tally.new),
        ("known", &tally.known),
        ("cancelled", &tally.cancelled),
        ("failed", &tally.failed),
    ];
    let finished = Family::<Label, Counter>::default();
    for (outcome, count) in ended {
        let counter = finished.get_or_create(&[("outcome", outcome)]);
        counter.inc_by(read(count));
    }
    let help = "Uploads that ended: as a new run, as one that was there, cancelled, failed";
    now.0.register("uploads_finished", help, finished);
    let bytes = "Bytes of uploads, as they were sent";
    now.bytes_counted("upload_received", bytes, read(&tally.bytes));
    let events = "Events of recordings that were read to their end";
    now.counter("upload_events", events, read(&tally.events));
    let under_way = "Uploads of clients under way";
    now.gauge(
        "uploads_under_way",
        under_way,
        app.uploads.under_way() as u64,
    );
}

fn queues(now: &mut Measured, app: &App, benches: Option<Queue>) {
    let mut queues = vec![
        ("questions", app.asking.queue()),
        ("answers", crate::limits::work::answers()),
        ("reading", app.uploads.reading()),
        ("judging", app.uploads.judge().queue()),
        ("jobs", app.jobs.queue()),
    ];
    queues.extend(benches.map(|queue| ("benches", queue)));
    let family = |value: fn(&Queue) -> usize| {
        let family = Family::<Label, Gauge>::default();
        for (name, queue) in &queues {
            let gauge = family.get_or_create(&[("queue", *name)]).clone();
            gauge.set(value(queue) as i64);
        }
        family
    };
    let of = |what: &str| {
        format!(
            "{what}: questions about a run, answers that take time, files being read, verdicts, \
             ranks, bench rows"
        )
    };
    now.0.register(
        "queue_turns",
        of("Work that may run at a time"),
        family(|q| q.turns),
    );
    now.0
        .register("queue_running", of("Work under way"), family(|q| q.taken));
    now.0.register(
        "queue_waiting",
        of("Work that waits"),
        family(|q| q.waiting),
    );
    let streams = &app.event_streams;
    now.gauge(
        "event_streams",
        "Streams of events to open pages",
        streams.held() as u64,
    );
    let most = "Streams of events that there may be";
    now.gauge("event_streams_limit", most, streams.all() as u64);
}

fn room(now: &mut Measured, app: &App) {
    let used = "Memory of the budget that is in use, decoded traces that nobody uses among it";
    now.bytes("memory_used", used, app.budget.in_use().get());
    now.bytes(
        "memory_limit",
        "The budget, --memory",
        app.budget.total().get(),
    );
    let database = "The database with its log";
    now.bytes("database", database, app.store.file_bytes());
    if let Some(free) = crate::system::disk::free_bytes(&app.config.data) {
        now.bytes("disk_free", "Room on the disk of the data folder", free);
    }
    if let Some(free) = app.uploads.blobs().free_bytes() {
        now.bytes(
            "blobs_disk_free",
            "Room on the disk of the stored files",
            free,
        );
    }
}

/// What is in the database: everything but the files.
fn database(now: &mut Measured, parts: &StoredParts) {
    let family = Family::<Label, Gauge>::default();
    for (part, _, size) in parts.named().into_iter().filter(|one| one.0 != "files") {
        let gauge = family.get_or_create(&[("part", part)]).clone();
        gauge.set(size.get() as i64);
    }
    let help = "The database by what is in it, at most ten minutes ago";
    now.0
        .register_with_unit("database_part", help, Unit::Bytes, family);
}

/// The measurements at this moment.
struct Measured(Registry);

impl Measured {
    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, ConstGauge::new(value));
    }

    fn bytes(&mut self, name: &str, help: &str, value: u64) {
        let gauge = ConstGauge::new(value);
        self.0.register_with_unit(name, help, Unit::Bytes, gauge);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, ConstCounter::new(value));
    }

    fn bytes_counted(&mut self, name: &str, help: &str, value: u64) {
        let counter = ConstCounter::new(value);
        self.0.register_with_unit(name, help, Unit::Bytes, counter);
    }
}
