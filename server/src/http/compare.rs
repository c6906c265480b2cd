//! Comparisons of runs, and their curves over one axis.

use super::extract::{Query, compared_runs};
use super::here::Here;
use super::packed;
use super::question::Asker;
use super::runs::bench_row;
use crate::app::App;
use crate::comparisons::Weighed;
use crate::limits::asking::Asker as Asks;
use crate::problems::Error;
use crate::store::StoredRun;
use answers::benched;
use answers::cards::markdown::Names;
use answers::questions::asked;
use answers::texts::Texts;
use api::bench::RowOfRun;
use api::compare::{Against, ComparedRun, Comparison, Curves, CurvesAsked};
use api::compare_view::CompareState;
use api::ids::RunId;
use api::problem::Problem;
use api::shares::nameless;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::ops::Deref;
use std::sync::Arc;

/// Which runs.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RunsQuery {
    /// 2 to 8 run ids, separated by commas; the first is the baseline.
    pub runs: String,
}

/// The same document as [`Comparison`], but with shared comparisons.
#[derive(Serialize)]
struct Shared<'a> {
    runs: Vec<ComparedRun>,
    against: Vec<&'a Against>,
}

/// What differs between a baseline and up to seven runs.
#[utoipa::path(get, path = "/api/compare", tag = "compare", params(RunsQuery),
    responses(
        (status = 200, description = "What changed between the runs.", body = Comparison),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn compare(
    Here(app): Here,
    Query(query): Query<RunsQuery>,
    asker: Asker,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let texts = asker.audience.texts();
    let rows = rows(&app, compared_runs(&query.runs)?).await?;
    let rows = known_to(asker.audience.asker(), rows);
    let _turn = asker.turn(&app).await?;
    let against = judged(&app, &rows, texts, Names::Told).await?;
    let runs = rows.into_iter().map(|row| compared(row, texts));
    let runs = runs.collect();
    let against = against.iter().map(|one| &**one).collect();
    // Names can change, so the document is put together each time; the slow parts are cached.
    Ok(packed::json(&headers, &Shared { runs, against }))
}

/// Curves of the runs of a comparison over one axis.
#[utoipa::path(get, path = "/api/compare/curves", tag = "compare", params(RunsQuery, CurvesAsked),
    responses(
        (status = 200,
            description = "The series of each run on one axis of steps.",
            body = Curves),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn curves(
    Here(app): Here,
    Query(query): Query<RunsQuery>,
    Query(curves): Query<CurvesAsked>,
    asker: Asker,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let wanted = asked::curves(&curves)?;
    let rows = rows(&app, compared_runs(&query.runs)?).await?;
    let _turn = asker.turn(&app).await?;
    let curves = app.comparisons.curves(&rows, wanted).await?;
    Ok(packed::json(&headers, &curves))
}

/// The document of [`compare`], with the texts that the reader may see.
pub(super) async fn comparison(
    app: &App,
    rows: Vec<StoredRun>,
    texts: Texts,
    names: Names,
) -> Result<Comparison, Error> {
    let against = judged(app, &rows, texts, names).await?;
    let runs = rows.into_iter().map(|row| compared(row, texts));
    Ok(Comparison {
        runs: runs.collect(),
        against: against.into_iter().map(Judged::into_owned).collect(),
    })
}

/// What is said of one run against the baseline.
pub(super) enum Judged {
    /// What their recordings say.
    Recorded(Arc<Weighed<Against>>),
    /// The same with what a bench knows laid over it.
    Benched(Box<Against>),
}

impl Judged {
    fn into_owned(self) -> Against {
        match self {
            Judged::Recorded(against) => Against::clone(&against),
            Judged::Benched(against) => *against,
        }
    }
}

impl Deref for Judged {
    type Target = Against;

    fn deref(&self) -> &Against {
        match self {
            Judged::Recorded(against) => against,
            Judged::Benched(against) => against,
        }
    }
}

/// The runs against the first of them. The recordings are compared once; what a bench knows of its
/// rows can change, so it is laid over that each time.
pub(super) async fn judged(
    app: &App,
    rows: &[StoredRun],
    texts: Texts,
    names: Names,
) -> Result<Vec<Judged>, Error> {
    let traces: Vec<i64> = rows.iter().map(|row| row.trace).collect();
    let against = app.comparisons.compare(&traces, texts).await?;
    let known = bench_rows(app, rows, texts).await?;
    let known = known.into_iter().map(|row| match names {
        Names::Told => row,
        Names::Withheld => row.map(RowOfRun::nameless),
    });
    let known: Vec<Option<RowOfRun>> = known.collect();
    let Some((base, others)) = known.split_first() else {
        return Ok(Vec::new());
    };
    let judged = against.into_iter().zip(others).map(|(against, new)| {
        match benched::laid_over(&against, base.as_ref(), new.as_ref()) {
            Some(told) => Judged::Benched(Box::new(told)),
            None => Judged::Recorded(against),
        }
    });
    Ok(judged.collect())
}

/// What a bench knows of each run, for a reader who may see these texts.
pub(super) async fn bench_rows(
    app: &App,
    rows: &[StoredRun],
    texts: Texts,
) -> Result<Vec<Option<RowOfRun>>, Error> {
    let mut known = Vec::with_capacity(rows.len());
    for row in rows {
        known.push(bench_row(app, row.id.clone(), texts).await?);
    }
    Ok(known)
}

/// The runs, and how a query of the compare page shows them.
pub(super) async fn seen(
    app: &App,
    runs: Vec<RunId>,
    query: &str,
) -> Result<(Vec<StoredRun>, CompareState), Error> {
    let parsed = CompareState::parse(query);
    let (view, _) = parsed.map_err(|error| Error::BadRequest(error.to_string()))?;
    let rows = rows(app, runs.clone()).await?;
    Ok((rows, CompareState { runs, ..view }))
}

/// The runs; none of them may be deleted.
pub(super) async fn rows(app: &App, ids: Vec<RunId>) -> Result<Vec<StoredRun>, Error> {
    let read = app.store.read(move |reader| {
        let row = |id| {
            reader.run_ref(id)?;
            reader.run(id)
        };
        ids.iter().map(row).collect()
    });
    Ok(read.await?)
}

/// The runs as far as this reader may know them: a link does not tell which jobs they are of.
pub(super) fn known_to(asker: Asks, mut rows: Vec<StoredRun>) -> Vec<StoredRun> {
    if asker == Asks::Link {
        for row in &mut rows {
            row.job = None;
        }
    }
    rows
}

fn compared(row: StoredRun, texts: Texts) -> ComparedRun {
    ComparedRun {
        name: match texts {
            Texts::All(_) => row.called(),
            Texts::Redacted(_) => nameless(&row.id),
        },
        id: Some(row.id),
        torch: row.torch_guess,
    }
}
