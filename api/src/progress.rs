//! Progress of long work, as server-sent events.

use crate::bench::BenchProgress;
use crate::ids::{BenchId, BenchRowId, RunId, UploadId};
use crate::problem::Problem;
use serde::{Deserialize, Serialize};

/// What a long job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = UploadPhase))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Accepted, not started.
    Waiting,
    /// Bytes arrive and are parsed as they do.
    Receiving,
    /// Allocations are matched with frees and the allocator is simulated.
    Replaying,
    /// Columns and first tiles are written.
    Storing,
}

/// How an upload stands. Sent as the `data` of each `progress` event of
/// [`crate::routes::upload_events`]; the last one is `done`, `failed` or `cancelled`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum UploadProgress {
    /// Under way.
    Running {
        /// What is being done.
        phase: Phase,
        /// Bytes of the body received.
        received: u64,
        /// Announced length of the body.
        total: Option<u64>,
        /// Events read so far.
        events: u64,
        /// Bytes a second, over the last second.
        rate: u64,
    },
    /// Finished.
    Done {
        /// The run it became; the same one as before when the bytes were known already.
        run: RunId,
    },
    /// Failed, with the reason.
    Failed {
        /// Why.
        problem: Problem,
    },
    /// Cancelled by the user.
    Cancelled,
}

/// Something changed on the server; sent on [`crate::routes::EVENTS`] so that open pages refresh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ServerEvent {
    /// A run appeared, changed or went.
    RunsChanged,
    /// An upload moved on.
    Upload {
        /// Which one.
        upload: UploadId,
        /// How it stands.
        progress: UploadProgress,
    },
    /// A row of a bench moved on.
    BenchProgress {
        /// Its bench.
        bench: BenchId,
        /// Which row.
        row: BenchRowId,
        /// How far it is.
        progress: BenchProgress,
    },
    /// A bench appeared, went, or one of its rows began or ended.
    BenchChanged {
        /// Which one.
        bench: BenchId,
    },
}
