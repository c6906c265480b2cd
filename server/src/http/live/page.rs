//! A training as a page: what stands in it is read anew every few seconds.

use super::super::account::SignedIn;
use super::super::audited::Subject;
use super::super::extract::{Form, Path, Query};
use super::super::here::Here;
use super::super::permits;
use super::super::shell::{date, page, problem};
use super::list::ranks;
use super::{asked, curve, live_id};
use crate::app::App;
use crate::live::trainings::SILENT_MS;
use crate::problems::Error;
use crate::store::{Slice, StoredRun, Which};
use crate::system::clock::now_ms;
use crate::who::access::Entry;
use api::ids::LiveId;
use api::labels::Label;
use api::live::{LiveCurve, LiveOutcome, LiveRun, LiveRuns, LiveStep, MOST_CAPTURED, MOST_RUNS};
use api::people::Scope;
use api::routes;
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use std::fmt::Write as _;
use trace::units::Bytes;

/// The address of the script that reads the page anew.
pub const LIVE_SCRIPT: &str = "/live.js";
/// How many snapshots of one training are listed.
const SNAPSHOTS: u32 = 50;
/// Size of a curve, in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 220.0;
const TOP: f64 = 12.0;

/// How many steps the snapshot should hold.
#[derive(Deserialize)]
pub struct AskForm {
    steps: u32,
}

/// Which of its ranks.
#[derive(Deserialize)]
pub struct RanksQuery {
    /// Ranks before those of this page.
    #[serde(default)]
    offset: u32,
}

/// The script that reads the page anew.
pub async fn script() -> Response {
    let kind = [(header::CONTENT_TYPE, "text/javascript; charset=utf-8")];
    (kind, include_str!("live.js")).into_response()
}

/// Where the script says that what stands there is old.
pub(super) fn away() -> Markup {
    html! { p class="live-warning" role="status" data-away="" hidden {} }
}

/// The rows of a page of the list.
pub(super) const fn on_page(offset: u32) -> Slice {
    Slice {
        offset,
        limit: MOST_RUNS as u32,
    }
}

/// Which of them are shown where they are on several pages, and the way to the others. `list` is
/// the address of the list, up to its offset.
pub(super) fn pages(shown: &LiveRuns, list: &str, offset: u32) -> Markup {
    let (n, total) = (shown.runs.len() as u32, shown.total);
    let at = |offset: u32| format!("{list}offset={offset}");
    let on_page = MOST_RUNS as u32;
    let until = offset.saturating_add(n);
    html! {
        @if n < total {
            nav class="account-row" aria-label="Pages of the list" {
                span class="muted" {
                    @if n == 0 { "0 of " (total) " are shown." }
                    @else { (n) " of " (total) " are shown: " (offset + 1) " to " (until) "." }
                }
                @if offset > 0 { a href=(at(offset.saturating_sub(on_page))) { "Those before" } }
                @if until < total { a href=(at(until)) { "Those after" } }
            }
        }
    }
}

fn table(LiveRuns { runs, .. }: &LiveRuns) -> Markup {
    html! {
        div class="account-wide stacked" tabindex="0" { table class="account-table" {
            thead { tr { th { "Training" } th { "Rank" } (memory_heads()) } }
            tbody { @for run in runs { tr {
                td { a href=(routes::live_page(&run.id)) { (run.name) } }
                td data-label="Rank" { (rank(run)) }
                (memory(run))
                td data-label="State" { (state(run)) }
            } } }
        } }
    }
}

/// The heads of [`memory`], and of the state that follows.
pub(super) fn memory_heads() -> Markup {
    html! {
        @for number in ["Step", "Allocated", "Peak", "Reserved", "May use"] {
            th class="account-number" { (number) }
        }
        th { "State" }
    }
}

/// The cells with what was in memory after the last step.
pub(super) fn memory(run: &LiveRun) -> Markup {
    let last = |value: fn(LiveStep) -> String| reported(run, value);
    html! {
        td class="account-number" data-label="Step" { (last(|step| step.step.to_string())) }
        td class="account-number" data-label="Allocated" {
            (last(|step| step.allocated.to_string()))
        }
        td class="account-number" data-label="Peak" { (last(|step| step.peak.to_string())) }
        td class="account-number" data-label="Reserved" {
            (last(|step| step.reserved.to_string()))
        }
        td class="account-number" data-label="May use" {
            @match run.limit { Some(limit) => { (limit) } None => { "–" } }
        }
    }
}

/// A number of the last step; a dash before the first report.
fn reported(run: &LiveRun, value: fn(LiveStep) -> String) -> String {
    run.last.map_or_else(|| "–".to_owned(), value)
}

fn rank(run: &LiveRun) -> String {
    match (run.rank, run.ranks) {
        (Some(rank), Some(ranks)) => format!("{rank} of {ranks}"),
        (Some(rank), None) => rank.to_string(),
        _ => "–".to_owned(),
    }
}

/// How a process stands, in words.
pub(super) fn state(run: &LiveRun) -> Markup {
    let silent = (now_ms() - run.seen_ms) / 1000;
    let what = run.what.as_deref().map(|what| format!(": {what}"));
    let what = what.unwrap_or_default();
    html! {
        @match run.outcome {
            Some(LiveOutcome::Done) => "done",
            Some(LiveOutcome::Failed) => span class="badge bad" { "failed" (what) },
            Some(LiveOutcome::OutOfMemory) => span class="badge bad" { "out of memory" (what) },
            // Who was killed cannot say so. What it was last warned of comes after that.
            None if silent * 1000 > SILENT_MS => {
                span class="badge bad" { "silent for " (silent / 60) " min" }
                @if !run.warnings.is_empty() { ": it was growing, or near its limit" }
            }
            None if !run.warnings.is_empty() => span class="badge bad" { "look at it" },
            None => "runs",
        }
    }
}

/// One training, with all its ranks.
pub async fn live_run_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Path(live): Path<String>,
    Query(RanksQuery { offset }): Query<RanksQuery>,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Read)?;
    let place = Place {
        id: live_id(&live)?,
        offset,
    };
    shown(&app, &entry, place, None).await
}

/// Which training is shown, and which of its ranks: those after so many.
struct Place {
    id: LiveId,
    offset: u32,
}

/// The page; `refused`: why no snapshot could be asked for.
async fn shown(
    app: &App,
    entry: &Entry,
    Place { id, offset }: Place,
    refused: Option<&str>,
) -> Result<Response, Error> {
    let shown = curve(app, id.clone()).await?;
    let ranks = ranks(app, id.clone(), on_page(offset)).await?;
    let snapshots = snapshots(app, &id).await?;
    let run = &shown.run;
    let body = html! {
        p class="muted" { a href=(routes::LIVE_PAGE) { "All trainings" } }
        @if let Some(why) = refused { (problem(why)) }
        (away())
        div class="live-now" data-live="" {
            p {
                strong { (run.name) } " on device " (run.device) ", since " (date(run.created_ms))
                " · " (state(run))
            }
            @for warning in &run.warnings { p class="live-warning" role="status" { (warning) } }
            (drawn(&shown))
            @if ranks.total > 1 {
                h2 { "Its ranks" }
                (pages(&ranks, &format!("{}?", routes::live_page(&id)), offset))
                @if !ranks.runs.is_empty() { (table(&ranks)) }
            }
            (taken(run, &snapshots))
            @if run.outcome.is_none() && entry.may(Scope::Upload) { (form(run)) }
        }
        // What is read anew would close the question.
        @if entry.may(Scope::Manage) { (delete_form(run, ranks.total)) }
        script src=(LIVE_SCRIPT) {}
    };
    Ok(page(app, Some(entry), "Live", &body))
}

/// The snapshots that the training sent when it was asked.
async fn snapshots(app: &App, id: &LiveId) -> Result<Vec<StoredRun>, Error> {
    let label = Label::new("live", id.as_str());
    let labels: Vec<Label> = label.into_iter().collect();
    let newest = Slice {
        offset: 0,
        limit: SNAPSHOTS,
    };
    let read = move |reader: &crate::store::Reader<'_>| reader.runs(Which::Live, &labels, newest);
    Ok(app.store.read(read).await?)
}

fn taken(run: &LiveRun, snapshots: &[StoredRun]) -> Markup {
    let names: Vec<&str> = snapshots.iter().map(|run| run.name.as_str()).collect();
    html! {
        @if run.capture.is_some() || !snapshots.is_empty() {
            h2 { "Snapshots" }
            @if is_awaited(run, &names) {
                p { "Asked for: it comes when its steps are over." }
            }
            ul { @for run in snapshots {
                li { a href=(routes::run_page(&run.id)) { (run.name) } " " (date(run.created_ms)) }
            } }
        }
    }
}

/// Whether the snapshot that was asked for last has still to come. The recipe puts its number into
/// the name (`llama-live2.pickle`). Numbers before may never come: of those asked for between two
/// reports, the training hears of the last.
fn is_awaited(run: &LiveRun, names: &[&str]) -> bool {
    let Some(asked) = run.capture.map(|capture| capture.id) else {
        return false;
    };
    let mark = format!("live{asked}");
    let says_so = |name: &&str| {
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| word == mark)
    };
    let is_there = names.iter().any(says_so) || names.len() >= asked as usize;
    run.outcome.is_none() && !is_there
}

fn form(run: &LiveRun) -> Markup {
    html! {
        form class="account-form" method="post" action=(routes::live_capture_page(&run.id)) {
            h2 { "Ask for a snapshot" }
            label for="steps" { "Of how many next steps" }
            input id="steps" class="input" name="steps" type="number" min="1"
                max=(MOST_CAPTURED) value="3" required;
            p class="muted" {
                "Where PyTorch's recorder is off, it runs for these steps."
                @if run.ranks.is_some_and(|ranks| ranks > 1) { " All ranks are asked." }
            }
            button class="button primary" type="submit" { "Ask" }
        }
    }
}

/// The button that deletes a training, behind a question: it cannot be restored.
fn delete_form(run: &LiveRun, processes: u32) -> Markup {
    html! {
        form method="post" action=(routes::delete_live_page(&run.id)) {
            details class="account-ask" {
                summary { "Delete this training" }
                p {
                    "What it reported is deleted, "
                    @if processes > 1 { "of all its " (processes) " processes, " }
                    "and cannot be restored. Its snapshots stay."
                    @if run.outcome.is_none() {
                        " If it still runs, it goes on, and reports no more."
                    }
                }
                button class="button" type="submit" { "Delete " (run.name) }
            }
        }
    }
}

/// Asks a training for a snapshot.
pub async fn ask_on_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Path(live): Path<String>,
    Form(form): Form<AskForm>,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Upload)?;
    let id = live_id(&live)?;
    if let Err(error) = asked(&app, id.clone(), form.steps).await {
        let why = error.problem().detail;
        let place = Place { id, offset: 0 };
        let mut page = shown(&app, &entry, place, Some(&why)).await?;
        error.mark(&mut page);
        return Ok(page);
    }
    let to = Redirect::to(&routes::live_page(&id));
    Ok((Subject::of(&id), to).into_response())
}

/// The curves of a training: reserved, allocated, and what it may use.
fn drawn(shown: &LiveCurve) -> Markup {
    let Some(last) = shown.steps.last() else {
        return html! { p { "No step is over yet." } };
    };
    let values = shown.steps.iter().map(|step| step.reserved.max(step.peak));
    let seen = values.max().unwrap_or_default();
    // A limit far above would press the curves to the floor.
    let limit = shown
        .run
        .limit
        .filter(|limit| limit.get() <= seen.get() * 2);
    let highest = limit.unwrap_or(Bytes::ZERO).max(seen);
    let first = shown.steps.first().map_or(0, |step| step.step);
    let line = |value: fn(&LiveStep) -> Bytes| points(&shown.steps, highest, value);
    let words = format!(
        "After step {}: {} allocated, peak {}, {} reserved",
        last.step, last.allocated, last.peak, last.reserved
    );
    html! {
        figure class="trend" {
            figcaption {
                strong { "Memory after each step" }
                span class="muted" { (words) }
                @if last.retries > 0 { span class="muted" { (last.retries) " retries" } }
            }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(words)
                preserveAspectRatio="none" {
                line class="trend-axis" x1="0" x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
                @if let Some(limit) = limit {
                    @let y = height(limit, highest);
                    line class="live-limit" x1="0" x2=(WIDTH) y1=(y) y2=(y) {}
                }
                polyline class="live-reserved" points=(line(|step| step.reserved)) {}
                polyline class="live-peak" points=(line(|step| step.peak)) {}
                polyline class="live-allocated" points=(line(|step| step.allocated)) {}
            }
            p class="live-key" {
                (key("live-allocated", "allocated"))
                (key("live-peak", "peak so far"))
                (key("live-reserved", "reserved"))
                @match (limit, shown.run.limit) {
                    (Some(limit), _) => (key("live-limit", &format!("may use {limit}"))),
                    // Without a line it is no entry of the legend.
                    (None, Some(limit)) => span { "May use " (limit) ", far above" },
                    (None, None) => {}
                }
                @if first == last.step {
                    span { "From 0 to " (highest) ", step " (first) }
                } @else {
                    span { "From 0 to " (highest) ", steps " (first) " to " (last.step) }
                }
            }
        }
    }
}

/// The colour of a line and what the line is, never apart.
fn key(class: &str, name: &str) -> Markup {
    html! { span class="live-entry" { span class={ "live-mark " (class) } {} (name) } " " }
}

fn height(value: Bytes, highest: Bytes) -> f64 {
    let share = value.get() as f64 / highest.get().max(1) as f64;
    TOP + (1.0 - share) * (HEIGHT - TOP)
}

/// The points of a line, over the numbers of the steps.
fn points(steps: &[LiveStep], highest: Bytes, value: fn(&LiveStep) -> Bytes) -> String {
    let first = steps.first().map_or(0, |step| step.step);
    let wide = steps.last().map_or(0, |step| step.step) - first;
    let mut points = String::new();
    for step in steps {
        let x = (step.step - first) as f64 / wide.max(1) as f64 * WIDTH;
        let y = height(value(step), highest);
        let _ = write!(points, "{x:.1},{y:.1} ");
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::live::Capture;

    #[test]
    fn who_is_silent_is_called_so_even_if_it_grew() {
        let said = |silent_s: i64, warnings: &[&str]| {
            let run = LiveRun {
                seen_ms: now_ms() - silent_s * 1000,
                warnings: warnings.iter().map(|said| (*said).to_owned()).collect(),
                ..crate::live::tests::run(None)
            };
            state(&run).into_string()
        };
        assert_eq!(said(0, &[]), "runs");
        assert!(said(5, &["it grows"]).contains("look at it"));
        assert!(said(190, &[]).contains("silent for 3 min"));
        let both = "silent for 3 min</span>: it was growing, or near its limit";
        assert!(said(190, &["it grows"]).contains(both));
    }

    #[test]
    fn a_snapshot_is_awaited_until_the_one_asked_for_last_is_there() {
        let awaited = |asked: Option<u32>, names: &[&str]| {
            let capture = asked.map(|id| Capture { id, steps: 3 });
            let run = LiveRun {
                capture,
                ..crate::live::tests::run(None)
            };
            is_awaited(&run, names)
        };
        assert!(!awaited(None, &[]));
        assert!(awaited(Some(1), &[]));
        assert!(!awaited(Some(1), &["a-live1.pickle"]));
        // The second was asked for before the training heard of the first.
        assert!(!awaited(Some(2), &["a-rank0-live2.pickle.zst"]));
        assert!(awaited(Some(2), &["a-live1.pickle"]));
        assert!(awaited(Some(12), &["a-live1.pickle", "a-live121.pickle"]));
        // Whoever sends them under other names, too.
        assert!(!awaited(Some(1), &["renamed"]));
    }

    #[test]
    fn nothing_is_shown_as_zero_before_the_first_report() {
        let row = |last| {
            let run = LiveRun {
                last,
                ..crate::live::tests::run(None)
            };
            let runs = vec![run];
            table(&LiveRuns { runs, total: 1 }).into_string()
        };
        let silent = row(None);
        for column in ["Step", "Allocated", "Peak", "Reserved"] {
            let cell = format!("data-label=\"{column}\">–<");
            assert!(silent.contains(&cell), "{column}: {silent}");
        }
        assert!(row(Some(LiveStep::default())).contains("0 B"));
    }

    #[test]
    fn a_line_goes_from_the_first_step_to_the_last() {
        let step = |step, mib| LiveStep {
            step,
            allocated: Bytes::mib(mib),
            ..LiveStep::default()
        };
        let steps = [step(5, 0), step(7, 50), step(9, 100)];
        let drawn = points(&steps, Bytes::mib(100), |step| step.allocated);
        assert_eq!(drawn.trim_end(), "0.0,220.0 500.0,116.0 1000.0,12.0");
        let one = points(&steps[..1], Bytes::ZERO, |step| step.allocated);
        assert_eq!(one.trim_end(), "0.0,220.0");
    }
}
