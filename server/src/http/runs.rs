//! Runs: list, read, rename, delete, restore.

use super::audience::Audience;
use super::audited::Subject;
use super::extract::{Json, Path, Query, labels_of, run_id};
use super::here::Here;
use super::packed::{self, Keep};
use super::page::PageQuery;
use crate::app::App;
use crate::limits::work::off_runtime;
use crate::problems::Error;
use crate::run_lists::Part;
use crate::store::{StoredRun, Which};
use crate::system::clock::now_ms;
use answers::facts::DeviceFacts;
use answers::run_names;
use answers::texts::Texts;
use api::bench::RowOfRun;
use api::ids::RunId;
use api::problem::Problem;
use api::runs::{RenameRun, RunDetail, RunSummary};
use api::shares::nameless;
use axum::Extension;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use trace::redact::{self, Key};
use trace::trace::{QualityNote, Series};
use trace::units::Micros;

/// Which runs to list.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// List the deleted runs that can still be restored instead.
    #[serde(default)]
    deleted: bool,
    /// Only runs that this person sent, by name.
    by: Option<String>,
    /// Only the run with this id, if it is there. The other filters do not count then.
    #[param(value_type = Option<String>)]
    run: Option<RunId>,
    /// Wait for up to two seconds if runs change all the time, and get the same answer as others.
    #[serde(default)]
    wait: bool,
}

/// Runs, newest first.
///
/// While nothing of them changes, an answer keeps its `ETag`, and who sends that gets 304.
#[utoipa::path(get, path = "/api/runs", tag = "runs",
    params(ListQuery, PageQuery,
        ("label" = Option<String>, Query,
            description = "`key=value`: only runs with this label. It can be given several times; \
                           a run has all of them then.")),
    responses(
        (status = 200, description = "Runs, newest first.", body = Vec<RunSummary>),
        (status = 400, body = Problem),
    ))]
pub async fn list(
    Here(app): Here,
    Query(query): Query<ListQuery>,
    Query(page): Query<PageQuery>,
    Query(pairs): Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let labels = labels_of(&pairs)?;
    let which = if query.deleted {
        Which::Deleted
    } else {
        Which::Live
    };
    let (by, run, slice) = (query.by, query.run, page.slice());
    let coding = packed::coding(&headers);
    let asked = format!("{which:?} {run:?} {by:?} {labels:?}");
    let part = match slice.offset {
        0 => Part::First,
        _ => Part::Later,
    };
    // It comes before the runs are read: they may be newer than it says, and never older. All who
    // may read this project get the same answer, and nobody else gets so far.
    let revision = match query.wait {
        true => {
            let now = || app.store.revision();
            app.run_lists.round(&asked, part, now).await
        }
        false => app.store.revision(),
    };
    let etag = app.run_lists.tag(revision, &format!("{asked} {slice:?}"));
    if let Some(unchanged) = packed::not_modified(&headers, &etag, Keep::Ask) {
        return Ok(unchanged);
    }
    let pack = async {
        let read = app.store.read(move |reader| match &run {
            Some(run) => reader.run_among(which, run),
            None => reader.runs_by(which, &labels, by.as_deref(), slice),
        });
        let runs = read.await?;
        let pack = off_runtime(move || {
            let summaries: Vec<RunSummary> = runs.into_iter().map(summary).collect();
            packed::encoded(coding, &summaries)
        });
        match pack.await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(_)) | Err(_) => Err(Error::Panicked),
        }
    };
    let key = format!("{etag} {coding:?}");
    let bytes = app.run_lists.get(&key, pack).await?;
    Ok(packed::encoded_json(bytes, coding, &etag))
}

/// One run.
#[utoipa::path(get, path = "/api/runs/{run}", tag = "runs", params(("run" = String, Path)),
    responses(
        (status = 200, description = "The run.", body = RunDetail),
        (status = 404, body = Problem),
    ))]
pub async fn get(
    Here(app): Here,
    Path(run): Path<String>,
    audience: Audience,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let id = run_id(&run)?;
    let read = app.store.read(move |reader| {
        // This refuses deleted runs; reading the row alone would not.
        reader.run_ref(&id)?;
        Ok((
            reader.run(&id)?,
            reader.settings(&id)?,
            reader.bench_row_of_run(&id)?,
        ))
    });
    let (row, settings, bench_row) = read.await?;
    // Somebody opens the page of this run, so it is decoded before the first zoom.
    app.pictures.warm(row.trace, audience.texts());
    let mut detail = RunDetail {
        bench_row,
        ..detail(row, settings)
    };
    if audience.is_of_link() {
        leave_out_team(&mut detail.summary);
    }
    if let Texts::Redacted(key) = audience.texts() {
        leave_out_names(&mut detail, key);
    }
    Ok(packed::json(&headers, &detail))
}

/// Renames a run.
#[utoipa::path(patch, path = "/api/runs/{run}", tag = "runs", params(("run" = String, Path)),
    request_body = RenameRun,
    responses(
        (status = 200, description = "The run under its new name.", body = RunSummary),
        (status = 404, body = Problem),
    ))]
pub async fn rename(
    Here(app): Here,
    Path(run): Path<String>,
    Json(request): Json<RenameRun>,
) -> Result<axum::Json<RunSummary>, Error> {
    let (id, name) = (run_id(&run)?, run_names::typed(&request.name)?);
    let write = app.store.write(move |writer| {
        writer.rename_run(&id, &name)?;
        writer.reader().run(&id)
    });
    changed(&app, write.await?)
}

/// Deletes a run; for ten minutes that can be undone. Of a run that is deleted already, the answer
/// is 404: whoever deleted it may undo that.
#[utoipa::path(delete, path = "/api/runs/{run}", tag = "runs", params(("run" = String, Path)),
    responses(
        (status = 200,
            description = "The run that is deleted now. It can be restored for a while.",
            body = RunSummary),
        (status = 404, body = Problem),
    ))]
pub async fn delete(Here(app): Here, Path(run): Path<String>) -> Result<Response, Error> {
    let id = run_id(&run)?;
    let write = app.store.write(move |writer| {
        // This refuses deleted runs: who is told that they deleted it may undo that.
        writer.reader().run_ref(&id)?;
        writer.delete_run(&id, now_ms())?;
        writer.reader().run(&id)
    });
    gone_or_back(&app, write.await?)
}

/// Undoes a deletion. A job that was deleted with its runs comes back with the first of them.
#[utoipa::path(post, path = "/api/runs/{run}/restore", tag = "runs",
    params(("run" = String, Path)),
    responses(
        (status = 200, description = "The run that is restored.", body = RunSummary),
        (status = 404, body = Problem),
    ))]
pub async fn restore(Here(app): Here, Path(run): Path<String>) -> Result<Response, Error> {
    let id = run_id(&run)?;
    let write = app.store.write(move |writer| {
        writer.restore_run(&id)?;
        writer.restore_jobs_of(&id)?;
        writer.reader().run(&id)
    });
    gone_or_back(&app, write.await?)
}

/// The entry of a run in the list.
pub async fn summary_of(app: &App, run: RunId) -> Result<RunSummary, Error> {
    let row = app.store.read(move |reader| reader.run(&run)).await?;
    Ok(summary(row))
}

/// A run that is not deleted.
pub async fn kept(app: &App, run: RunId) -> Result<StoredRun, Error> {
    let read = app.store.read(move |reader| {
        reader.run_ref(&run)?;
        reader.run(&run)
    });
    Ok(read.await?)
}

/// What a bench knows of a run, for a reader who may see these texts.
pub async fn bench_row(app: &App, run: RunId, texts: Texts) -> Result<Option<RowOfRun>, Error> {
    let read = app.store.read(move |reader| reader.bench_row_of_run(&run));
    let row = read.await?;
    Ok(match texts {
        Texts::All(_) => row,
        Texts::Redacted(_) => row.map(RowOfRun::nameless),
    })
}

/// The answer about a run that is deleted or restored, with what the audit says of it.
fn gone_or_back(app: &App, row: StoredRun) -> Result<Response, Error> {
    let subject = Extension(Subject::called(&row.name, &row.id));
    Ok((subject, changed(app, row)?).into_response())
}

fn changed(app: &App, row: StoredRun) -> Result<axum::Json<RunSummary>, Error> {
    app.runs_changed();
    Ok(axum::Json(summary(row)))
}

fn detail(row: StoredRun, settings: Vec<(String, String)>) -> RunDetail {
    RunDetail {
        pickle_protocol: row.pickle_protocol,
        torch_guess: row.torch_guess.clone(),
        settings,
        quality_notes: row.quality.clone(),
        bench_row: None,
        summary: summary(row),
    }
}

/// A link opens runs. It does not show the job of a run, the team's labels, or who sent it. Each
/// field is named, so that a new one is open to readers of links only if somebody says so.
fn leave_out_team(run: &mut RunSummary) {
    let RunSummary {
        uploaded_by,
        job,
        labels,
        id: _,
        name: _,
        source: _,
        created_ms: _,
        file_bytes: _,
        content_hash: _,
        devices: _,
        pinned: _,
        steps: _,
        peak_allocated: _,
        quality: _,
        faults: _,
        leaks: _,
        deleted_ms: _,
    } = run;
    *uploaded_by = None;
    *job = None;
    labels.clear();
}

/// Removes what strangers may not see from the head of a run page, in the same way as
/// `trace::redact` does for the trace. Each field is named, as above; what belongs to the team is
/// gone already.
fn leave_out_names(run: &mut RunDetail, key: Key) {
    let RunDetail {
        summary,
        settings,
        quality_notes,
        bench_row,
        pickle_protocol: _,
        torch_guess: _,
    } = run;
    *bench_row = bench_row.take().map(RowOfRun::nameless);
    for (name, value) in settings {
        (*name, *value) = key.setting(name, value);
    }
    for note in &mut *quality_notes {
        *note = redact::note(note);
    }
    let RunSummary {
        id,
        name,
        content_hash,
        created_ms,
        quality,
        leaks,
        devices,
        pinned,
        source: _,
        faults: _,
        file_bytes: _,
        steps: _,
        peak_allocated: _,
        uploaded_by: _,
        job: _,
        labels: _,
        deleted_ms: _,
    } = summary;
    *name = nameless(id);
    *quality = codes(quality_notes);
    // By the whole hash, somebody could be sure of a guess about the file; the id has most of it
    // (SECURITY.md). The time shows when somebody worked.
    content_hash.clear();
    *created_ms = 0;
    if let Some(leaks) = leaks {
        leaks.reason.clear();
    }
    let times = || {
        let devices = devices.iter().chain(&*pinned);
        devices.filter_map(|device| device.time)
    };
    let start = Micros(times().map(|(first, _)| first).min().unwrap_or_default());
    let devices = devices.iter_mut().chain(pinned);
    for (first, last) in devices.filter_map(|d| d.time.as_mut()) {
        for time in [first, last] {
            *time = redact::since(start, Micros(*time)).0;
        }
    }
}

/// The codes of a run's badges. What is found about the host's pinned memory says nothing about the
/// run, and is told on its page.
fn codes(notes: &[QualityNote]) -> Vec<String> {
    let notes = notes.iter().filter(|note| !note.is_of_pinned());
    notes.map(|note| note.code.clone()).collect()
}

/// A run as an entry of a list.
pub fn summary(row: StoredRun) -> RunSummary {
    let peak = |device: &DeviceFacts| device.series(Series::Allocated).peak;
    RunSummary {
        id: row.id,
        name: row.name,
        source: row.source,
        created_ms: row.created_ms,
        file_bytes: row.file_bytes,
        content_hash: row.blob,
        steps: DeviceFacts::main(&row.devices).map_or(0, |device| device.steps),
        peak_allocated: row.devices.iter().map(peak).max().unwrap_or_default(),
        devices: row.devices.into_iter().map(DeviceFacts::summary).collect(),
        pinned: row.pinned.map(DeviceFacts::summary),
        quality: codes(&row.quality),
        faults: row.faults,
        leaks: row.leaks,
        job: row.job,
        labels: row.labels,
        uploaded_by: row.uploaded_by,
        deleted_ms: row.deleted_ms,
    }
}
