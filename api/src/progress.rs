//! Progress of long work, as server-sent events.

use crate::bench::BenchProgress;
use crate::ids::{BenchId, BenchRowId, RunId, UploadId};
use crate::lacks::Lacks;
use crate::problem::Problem;
use serde::{Deserialize, Serialize};
use trace::units::Bytes;

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
#[serde(tag = "state", rename_all = "snake_case", try_from = "ReadProgress")]
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

/// It as it is read; `crate::lacks` says why. In an event, a row of a bench has its progress at the
/// same place, so its fields are here too.
#[derive(Deserialize)]
struct ReadProgress {
    state: Option<ProgressTag>,
    phase: Option<Phase>,
    received: Option<u64>,
    total: Option<u64>,
    events: Option<u64>,
    rate: Option<u64>,
    run: Option<RunId>,
    problem: Option<Problem>,
    step: Option<u32>,
    steps: Option<u32>,
    allocated: Option<Bytes>,
    peak: Option<Bytes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProgressTag {
    Running,
    Done,
    Failed,
    Cancelled,
}

impl TryFrom<ReadProgress> for UploadProgress {
    type Error = Lacks;

    fn try_from(read: ReadProgress) -> Result<UploadProgress, Lacks> {
        Ok(match read.state.ok_or(Lacks("state"))? {
            ProgressTag::Running => UploadProgress::Running {
                phase: read.phase.ok_or(Lacks("phase"))?,
                received: read.received.ok_or(Lacks("received"))?,
                total: read.total,
                events: read.events.ok_or(Lacks("events"))?,
                rate: read.rate.ok_or(Lacks("rate"))?,
            },
            ProgressTag::Done => UploadProgress::Done {
                run: read.run.ok_or(Lacks("run"))?,
            },
            ProgressTag::Failed => UploadProgress::Failed {
                problem: read.problem.ok_or(Lacks("problem"))?,
            },
            ProgressTag::Cancelled => UploadProgress::Cancelled,
        })
    }
}

impl TryFrom<ReadProgress> for BenchProgress {
    type Error = Lacks;

    fn try_from(read: ReadProgress) -> Result<BenchProgress, Lacks> {
        Ok(BenchProgress {
            step: read.step.ok_or(Lacks("step"))?,
            steps: read.steps.ok_or(Lacks("steps"))?,
            allocated: read.allocated.ok_or(Lacks("allocated"))?,
            peak: read.peak.ok_or(Lacks("peak"))?,
        })
    }
}

/// Something changed on the server; sent on [`crate::routes::EVENTS`] so that open pages refresh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", try_from = "ReadEvent")]
pub enum ServerEvent {
    /// Runs appeared, changed or went. What happens within a second is told once.
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
    /// This listener was too slow, and missed what happened before. Whatever it shows it must read
    /// again, among it how uploads stand: the last event of one is not sent again.
    Missed,
}

/// It as it is read; `crate::lacks` says why.
#[derive(Deserialize)]
struct ReadEvent {
    kind: EventTag,
    upload: Option<UploadId>,
    bench: Option<BenchId>,
    row: Option<BenchRowId>,
    progress: Option<ReadProgress>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum EventTag {
    RunsChanged,
    Upload,
    BenchProgress,
    BenchChanged,
    Missed,
}

impl TryFrom<ReadEvent> for ServerEvent {
    type Error = Lacks;

    fn try_from(read: ReadEvent) -> Result<ServerEvent, Lacks> {
        let progress = read.progress.ok_or(Lacks("progress"));
        Ok(match read.kind {
            EventTag::RunsChanged => ServerEvent::RunsChanged,
            EventTag::Upload => ServerEvent::Upload {
                upload: read.upload.ok_or(Lacks("upload"))?,
                progress: progress?.try_into()?,
            },
            EventTag::BenchProgress => ServerEvent::BenchProgress {
                bench: read.bench.ok_or(Lacks("bench"))?,
                row: read.row.ok_or(Lacks("row"))?,
                progress: progress?.try_into()?,
            },
            EventTag::BenchChanged => ServerEvent::BenchChanged {
                bench: read.bench.ok_or(Lacks("bench"))?,
            },
            EventTag::Missed => ServerEvent::Missed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written is read again; without any one of its fields it is refused.
    fn check(json: &str, optional: &[&str]) {
        let read: ServerEvent = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
        let whole: serde_json::Value = serde_json::from_str(json).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        for key in keys(&whole) {
            let mut part = whole.clone();
            part.as_object_mut().unwrap().remove(&key);
            let refused = serde_json::from_value::<ServerEvent>(part).unwrap_err();
            let expected = format!("missing field `{key}`");
            assert!(refused.to_string().contains(&expected), "{refused}");
        }
        let inner = whole.get("progress").map(keys).unwrap_or_default();
        for key in inner.iter().filter(|key| !optional.contains(&key.as_str())) {
            let mut part = whole.clone();
            part["progress"].as_object_mut().unwrap().remove(key);
            let refused = serde_json::from_value::<ServerEvent>(part).unwrap_err();
            let expected = format!("missing field `{key}`");
            assert!(refused.to_string().contains(&expected), "{refused}");
        }
    }

    #[test]
    fn events_are_read_as_they_are_written() {
        let upload = "upl_0123456789abcdef";
        let of_upload = |progress: &str| {
            format!(r#"{{"kind":"upload","upload":"{upload}","progress":{progress}}}"#)
        };
        check(r#"{"kind":"runs_changed"}"#, &[]);
        check(r#"{"kind":"missed"}"#, &[]);
        check(&of_upload(r#"{"state":"cancelled"}"#), &[]);
        let running = r#"{"state":"running","phase":"receiving","received":5,"total":null,"#;
        let running = format!(r#"{running}"events":7,"rate":9}}"#);
        check(&of_upload(&running), &["total"]);
        check(&of_upload(r#"{"state":"done","run":"run_1"}"#), &[]);
        let problem = r#"{"code":"not_found","status":404,"title":"t","detail":"d"}"#;
        let failed = format!(r#"{{"state":"failed","problem":{problem}}}"#);
        check(&of_upload(&failed), &[]);
        check(r#"{"kind":"bench_changed","bench":"ben_1"}"#, &[]);
        let progress = r#"{"step":1,"steps":2,"allocated":3,"peak":4}"#;
        let of_row = r#"{"kind":"bench_progress","bench":"ben_1","row":"row_1","progress":"#;
        check(&format!("{of_row}{progress}}}"), &[]);
    }
}
