//! Runs against one another, and their curves over one axis.

use super::App;
use super::audience::Audience;
use super::error::Error;
use super::extract::{Origin, Query, compared_runs};
use super::packed;
use super::shares::page_link;
use crate::cli::markdown;
use crate::store::RunRow;
use api::compare::{Against, ComparedRun, Comparison, Curves, CurvesWanted};
use api::ids::RunId;
use api::problem::Problem;
use api::routes;
use api::shares::{Redaction, nameless};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trace::compare::curves::Align;
use trace::trace::Series;

/// Which runs.
#[derive(Deserialize, utoipa::IntoParams)]
pub struct RunsQuery {
    /// 2 to 8 run ids, separated by commas; the first is the baseline.
    runs: String,
}

/// Which curves.
#[derive(Deserialize, utoipa::IntoParams)]
pub struct CurvesQuery {
    /// 2 to 8 run ids, separated by commas; the first is the baseline.
    runs: String,
    /// What lies above one another.
    #[serde(default)]
    align: Align,
    /// `requested`, `allocated`, `active` or `reserved`.
    #[param(value_type = Option<String>)]
    series: Option<Series>,
    /// Which pair of devices, by position.
    #[serde(default)]
    pair: u32,
    /// Into how many equal parts the window is divided, 1 to 2000.
    parts: Option<u32>,
    /// First place on the axis.
    from: Option<f64>,
    /// Last place on the axis.
    to: Option<f64>,
}

/// The same document as [`Comparison`], of comparisons that are shared.
#[derive(Serialize)]
struct Shared<'a> {
    runs: Vec<ComparedRun>,
    against: Vec<&'a Against>,
}

/// What differs between a baseline and up to seven runs.
#[utoipa::path(get, path = "/api/compare", tag = "compare", params(RunsQuery),
    responses((status = 200, body = Comparison), (status = 400, body = Problem),
              (status = 404, body = Problem)))]
pub async fn compare(
    State(app): State<Arc<App>>,
    Query(query): Query<RunsQuery>,
    audience: Audience,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let redaction = audience.redaction();
    let rows = rows(&app, compared_runs(&query.runs)?).await?;
    let traces: Vec<i64> = rows.iter().map(|row| row.trace).collect();
    let against = app.comparisons.compare(&traces, redaction).await?;
    let runs = rows.into_iter().map(|row| compared(row, redaction));
    let runs = runs.collect();
    let against = against.iter().map(Arc::as_ref).collect();
    // Names change, so the whole is put together each time; what takes time is kept.
    Ok(packed::json(&headers, &Shared { runs, against }))
}

/// How much the Markdown tells, and where it leads.
#[derive(Deserialize, utoipa::IntoParams)]
pub struct MarkdownQuery {
    /// 2 to 8 run ids, separated by commas; the first is the baseline.
    runs: String,
    /// `1`: numbers alone, without names and places, for private projects.
    #[serde(default)]
    numbers_only: u8,
    /// The last part of a link's address: the block then leads there.
    link: Option<String>,
}

/// A comparison as Markdown, for a pull request.
#[utoipa::path(get, path = "/api/compare/card.md", tag = "compare", params(MarkdownQuery),
    responses((status = 200, content_type = "text/markdown"), (status = 400, body = Problem),
              (status = 404, body = Problem)))]
pub async fn md(
    State(app): State<Arc<App>>,
    Query(query): Query<MarkdownQuery>,
    origin: Origin,
    audience: Audience,
) -> Result<Response, Error> {
    let redaction = audience.redaction();
    let ids = compared_runs(&query.runs)?;
    let is_slug = |slug: &&String| slug.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let link = match query.link.as_ref().filter(is_slug) {
        Some(slug) => page_link(&origin, slug),
        None => format!("{origin}{}", routes::compare_page(&ids)),
    };
    let rows = rows(&app, ids).await?;
    let traces: Vec<i64> = rows.iter().map(|row| row.trace).collect();
    let against = app.comparisons.compare(&traces, redaction).await?;
    let runs = rows.into_iter().map(|row| compared(row, redaction));
    let comparison = Comparison {
        runs: runs.collect(),
        against: against.iter().map(|one| Against::clone(one)).collect(),
    };
    let text = match query.numbers_only {
        0 => markdown::comparison(&comparison, Some(&link)),
        _ => markdown::numbers_only(&comparison, &link),
    };
    let headers = [
        (header::CONTENT_TYPE, "text/markdown; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, text).into_response())
}

/// Curves of the runs of a comparison over one axis.
#[utoipa::path(get, path = "/api/compare/curves", tag = "compare", params(CurvesQuery),
    responses((status = 200, body = Curves), (status = 400, body = Problem),
              (status = 404, body = Problem)))]
pub async fn curves(
    State(app): State<Arc<App>>,
    Query(query): Query<CurvesQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let wanted = wanted(&query)?;
    let rows = rows(&app, compared_runs(&query.runs)?).await?;
    let traces: Vec<i64> = rows.iter().map(|row| row.trace).collect();
    let curves = app.comparisons.curves(&traces, wanted).await?;
    Ok(packed::json(&headers, &curves))
}

fn wanted(query: &CurvesQuery) -> Result<CurvesWanted, Error> {
    let parts = query.parts.unwrap_or(600);
    if !(1..=CurvesWanted::MAX_PARTS).contains(&parts) {
        return Err(Error::BadRequest("parts: 1 to 2000".to_owned()));
    }
    let window = match (query.from, query.to) {
        (None, None) => None,
        (Some(from), Some(to)) if from < to && from.is_finite() && to.is_finite() => {
            Some((from, to))
        }
        _ => {
            let detail = "a window has two ends: `from` below `to`".to_owned();
            return Err(Error::BadRequest(detail));
        }
    };
    Ok(CurvesWanted {
        align: query.align,
        series: query.series.unwrap_or(Series::Allocated),
        pair: query.pair,
        window,
        parts,
    })
}

/// The runs, none of them deleted.
pub(super) async fn rows(app: &App, ids: Vec<RunId>) -> Result<Vec<RunRow>, Error> {
    let read = app.store.read(move |reader| {
        let row = |id| {
            reader.run_ref(id)?;
            reader.run(id)
        };
        ids.iter().map(row).collect()
    });
    Ok(read.await?)
}

fn compared(row: RunRow, redaction: Redaction) -> ComparedRun {
    ComparedRun {
        name: match redaction {
            Redaction::None => row.name,
            Redaction::Redacted => nameless(&row.id),
        },
        id: Some(row.id),
        torch: row.torch_guess,
    }
}
