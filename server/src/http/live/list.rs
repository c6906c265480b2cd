//! The list of trainings, and that of the processes of one.

use super::super::extract::Query;
use super::super::here::Here;
use super::{judged, live_id, look_at};
use crate::app::App;
use crate::live::trainings::folded;
use crate::problems::Error;
use crate::store::{Slice, StoreResult};
use crate::system::clock::now_ms;
use api::ids::LiveId;
use api::live::{LiveRun, LiveRuns, MOST_RUNS};
use api::problem::Problem;
use serde::Deserialize;
use std::collections::HashSet;
use std::num::NonZeroUsize;

/// Which trainings.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Only trainings in whose name or labels (`key=value`) this text is.
    q: Option<String>,
    /// The id of a process: the list is that of all processes of its training, those first that
    /// failed or fell silent.
    training: Option<String>,
    /// Entries before this page.
    #[serde(default)]
    offset: u32,
    /// Entries on it, 1 at least; default and maximum: 200.
    #[param(value_type = Option<usize>, minimum = 1)]
    limit: Option<NonZeroUsize>,
}

/// Trainings, each once: those first that run and need somebody, then others, then ended ones.
#[utoipa::path(get, path = "/api/live", tag = "live", params(ListQuery),
    responses(
        (status = 200, description = "A page of the list.", body = LiveRuns),
        (status = 404, body = Problem),
    ))]
pub async fn list(
    Here(app): Here,
    Query(query): Query<ListQuery>,
) -> Result<axum::Json<LiveRuns>, Error> {
    let limit = query
        .limit
        .map_or(MOST_RUNS, |limit| limit.get().min(MOST_RUNS));
    let slice = Slice {
        offset: query.offset,
        limit: limit as u32,
    };
    let found = match query.training {
        Some(one) => ranks(&app, live_id(&one)?, slice).await?,
        None => trainings(&app, &query.q.unwrap_or_default(), slice).await?,
    };
    Ok(axum::Json(found))
}

/// Trainings in whose name or labels a text is, with their warnings.
pub(super) async fn trainings(app: &App, search: &str, slice: Slice) -> Result<LiveRuns, Error> {
    // SQLite makes only these letters small.
    let search = search.trim().to_ascii_lowercase();
    let (known, now) = (app.live.clone(), now_ms());
    let read = app.store.read(move |reader| {
        let states = reader.live_states(&search)?;
        let mut warned: HashSet<LiveId> = HashSet::new();
        for state in states.iter().filter(|state| state.is_heard(now)) {
            let judge = || look_at(reader, &reader.live(&state.id)?);
            if !known.of(&state.id, state.seen_ms, judge)?.is_empty() {
                warned.insert(state.id.clone());
            }
        }
        let all = folded(&states, &warned, now);
        let total = all.len() as u32;
        let page = all.into_iter().skip(slice.offset as usize);
        let runs = page.take(slice.limit as usize).map(|training| {
            let run = judged(reader, &known, reader.live(&training.worst)?)?;
            let training = Some(training.processes);
            Ok(LiveRun { training, ..run })
        });
        let runs = runs.collect::<StoreResult<_>>()?;
        Ok(LiveRuns { runs, total })
    });
    Ok(read.await?)
}

/// All processes of the training of this one, with their warnings.
pub(super) async fn ranks(app: &App, id: LiveId, slice: Slice) -> Result<LiveRuns, Error> {
    let (known, now) = (app.live.clone(), now_ms());
    let read = app.store.read(move |reader| {
        reader.live(&id)?;
        let runs = reader.live_ranks(&id, slice, now)?.into_iter();
        let runs = runs.map(|run| judged(reader, &known, run));
        Ok(LiveRuns {
            runs: runs.collect::<StoreResult<_>>()?,
            total: reader.count_live_ranks(&id)?,
        })
    });
    Ok(read.await?)
}
