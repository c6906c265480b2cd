//! Every path of the API and of the pages, built in one place.
//!
//! Pictures carry the version of their encoding (`?v=`), so that browsers may keep them for good.

use crate::ids::{BenchId, BenchRowId, RunId, UploadId};
use crate::timeline::Marks;
use trace::tiles::{self, GroupBy, TileId};
use trace::trace::BlockIdx;
use trace::units::EventIdx;

/// The OpenAPI document.
pub const OPENAPI: &str = "/api/openapi.json";
/// `GET`: version, limits, whether a token is needed.
pub const SERVER: &str = "/api/server";
/// `POST {token}`: type the access token once; answers with a cookie. `DELETE`: forget it.
pub const SESSION: &str = "/api/session";
/// `GET`: server-sent [`crate::progress::ServerEvent`]s.
pub const EVENTS: &str = "/api/events";
/// `GET`: list of runs.
pub const RUNS: &str = "/api/runs";
/// `POST`: announce an upload.
pub const UPLOADS: &str = "/api/uploads";
/// `GET`: bundled sample runs.
pub const SAMPLES: &str = "/api/samples";

/// `PUT` with the file as body: upload and answer with the run, for `curl -T file URL/api/upload/`
/// (curl appends the file's name to a URL that ends with a slash).
pub fn upload_named(name: &str) -> String {
    format!("/api/upload/{name}")
}

/// `PUT`: the body of an announced upload. `GET`: how it stands. `DELETE`: cancel it.
pub fn upload(id: &UploadId) -> String {
    format!("/api/uploads/{id}")
}

/// `GET`: server-sent [`crate::progress::UploadProgress`].
pub fn upload_events(id: &UploadId) -> String {
    format!("/api/uploads/{id}/events")
}

/// `POST`: make a run of a bundled sample.
pub fn sample(name: &str) -> String {
    format!("/api/samples/{name}")
}

/// `GET`: the run. `PATCH {name}`: rename it. `DELETE`: delete it, for a while undoable.
pub fn run(id: &RunId) -> String {
    format!("/api/runs/{id}")
}

/// `POST`: undo a deletion.
pub fn run_restore(id: &RunId) -> String {
    format!("/api/runs/{id}/restore")
}

/// `GET`: a series tile, binary (`trace::tiles`).
pub fn series_tile(run: &RunId, device: u32, tile: TileId) -> String {
    format!(
        "/api/runs/{run}/devices/{device}/series/{}/{}?v={}",
        tile.level,
        tile.index,
        tiles::VERSION
    )
}

/// `GET`: a mountain tile, binary (`trace::tiles`).
pub fn mountain_tile(run: &RunId, device: u32, group: GroupBy, tile: TileId) -> String {
    format!(
        "/api/runs/{run}/devices/{device}/mountain/{}/{}/{}?v={}",
        group.name(),
        tile.level,
        tile.index,
        tiles::VERSION
    )
}

/// `GET`: steps, annotation bands, capacity and OOM marks ([`crate::timeline::Marks`]).
pub fn marks(run: &RunId, device: u32) -> String {
    format!(
        "/api/runs/{run}/devices/{device}/marks?v={}",
        Marks::VERSION
    )
}

/// `GET`: one block ([`crate::timeline::BlockDetail`]).
pub fn block(run: &RunId, device: u32, block: BlockIdx) -> String {
    format!("/api/runs/{run}/devices/{device}/blocks/{}", block.0)
}

/// `GET`: one event and the four levels there ([`crate::timeline::Moment`]).
pub fn moment(run: &RunId, device: u32, event: EventIdx) -> String {
    format!("/api/runs/{run}/devices/{device}/events/{event}")
}

/// Page: list of runs.
pub const RUNS_PAGE: &str = "/";

/// Page: one run. The view state is its query.
pub fn run_page(run: &RunId) -> String {
    format!("/runs/{run}")
}

/// `GET`: benches, newest first. `POST` [`crate::bench::StartBench`]: start one.
pub const BENCHES: &str = "/api/bench";
/// `GET`: what can be run ([`crate::bench::BenchCatalog`]).
pub const BENCH_CATALOG: &str = "/api/bench/catalog";
/// Page: benches.
pub const BENCH_PAGE: &str = "/bench";

/// `GET`: a bench with its rows ([`crate::bench::Bench`]). `DELETE`: forget it; its runs stay.
pub fn bench(id: &BenchId) -> String {
    format!("/api/bench/{id}")
}

/// `POST`: cancel the rows that are not finished.
pub fn bench_cancel(id: &BenchId) -> String {
    format!("/api/bench/{id}/cancel")
}

/// `POST`: cancel a row.
pub fn bench_row_cancel(id: &BenchRowId) -> String {
    format!("/api/bench/rows/{id}/cancel")
}

/// `POST`: run a finished row again.
pub fn bench_row_rerun(id: &BenchRowId) -> String {
    format!("/api/bench/rows/{id}/rerun")
}

/// `GET`: every step of a row as numbers ([`crate::bench::BenchStep`]).
pub fn bench_row_steps(id: &BenchRowId) -> String {
    format!("/api/bench/rows/{id}/steps")
}

/// `GET`: the run as a file for other tools; `pickle`, `parquet` or `perfetto`.
pub fn run_export(id: &RunId, format: &str) -> String {
    format!("/api/runs/{id}/export?format={format}")
}

/// Page: one bench.
pub fn bench_page(id: &BenchId) -> String {
    format!("/bench?bench={id}")
}
