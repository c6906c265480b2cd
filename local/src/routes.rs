//! Which address is answered by what.

use crate::compare;
use crate::jobs::Jobs;
use crate::message::{Request, Response};
use crate::problems::{Refused, needs_a_server, no_route};
use crate::questions;
use crate::runs::{Runs, run_name};
use crate::uploads::Uploads;
use api::progress::{Phase, ServerEvent, UploadProgress};
use api::runs::{Access, RenameRun, RunSummary, Sample, ServerInfo};
use serde::Deserialize;
use std::num::NonZeroUsize;
use trace::units::Bytes;

/// The largest file. Much of it is not kept: what is, has a limit of its own.
const LARGEST: Bytes = Bytes::gib(16);

/// How somebody else gets to see a recording.
const SHARE: &str = "To show it to others, send the file to a server: `tidemark push FILE --server \
                     URL` prints the link. A page that was built with `./run --page DIR --server \
                     URL` sends it itself.";
/// How to compute a bench.
const BENCH: &str = "Start one with `tidemark serve`, or compute rows with `tidemark bench`.";
/// How to get a run in another format.
const EXPORT: &str = "`tidemark export FILE --format FORMAT` writes the same file.";

/// The server of a tab.
#[derive(Default)]
pub struct Local {
    runs: Runs,
    jobs: Jobs,
    uploads: Uploads,
    /// What open pages are told, and were not told yet.
    notices: Vec<ServerEvent>,
}

impl Local {
    /// A server that holds nothing.
    pub fn new() -> Local {
        Local::default()
    }

    /// Answers a request.
    pub fn answer(&mut self, request: &Request) -> Response {
        let answered = self.answered(request);
        answered.unwrap_or_else(|problem| Response::problem(&problem))
    }

    /// Begins to take the bytes of an announced file.
    ///
    /// # Errors
    /// The answer that refuses it.
    pub fn begin(&mut self, upload: &str) -> Result<(), Response> {
        let begun = self.uploads.begin(upload, &mut self.runs);
        begun.map_err(|problem| Response::problem(&problem))
    }

    /// Takes the next bytes of a file.
    ///
    /// # Errors
    /// The answer that refuses it.
    pub fn push(&mut self, upload: &str, bytes: &[u8]) -> Result<(), Response> {
        let pushed = self.uploads.push(upload, bytes);
        pushed.map_err(|problem| Response::problem(&problem))
    }

    /// Tells pages how an upload stands, which is in this phase unless it ended.
    pub fn tell(&mut self, upload: &str, phase: Phase) {
        let progress = self.uploads.progress(upload, phase);
        if let (Ok(progress), Ok(upload)) = (progress, upload.parse()) {
            self.notices.push(ServerEvent::Upload { upload, progress });
        }
    }

    /// All bytes of a file are there: reads what they mean. After that, it may still be cancelled.
    ///
    /// # Errors
    /// The answer that refuses it.
    pub fn replay(&mut self, upload: &str) -> Result<(), Response> {
        let replayed = self.uploads.replay(upload);
        replayed.map_err(|problem| Response::problem(&problem))
    }

    /// Ends a file that was replayed: answers with its run.
    pub fn finish(&mut self, upload: &str, request: &Request) -> Response {
        let finished = self
            .uploads
            .finish(upload, &mut self.jobs, &mut self.runs, request);
        self.notices.push(ServerEvent::RunsChanged);
        finished.unwrap_or_else(|problem| Response::problem(&problem))
    }

    /// Finds the verdict of a run that has none: of a large one, nobody waits for it. Says whether
    /// there was one.
    pub fn judge_one(&mut self) -> bool {
        let judged = self.runs.judge_one();
        if judged {
            self.notices.push(ServerEvent::RunsChanged);
        }
        judged
    }

    /// What pages are to be told.
    pub fn notices(&mut self) -> Vec<ServerEvent> {
        std::mem::take(&mut self.notices)
    }

    fn answered(&mut self, request: &Request) -> Result<Response, Refused> {
        let place = request.place();
        let parts: Vec<&str> = place.trim_matches('/').split('/').skip(1).collect();
        match (request.method.as_str(), &parts[..]) {
            ("GET", ["server"]) => Ok(Response::json(&ServerInfo {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                upload_limit: LARGEST,
                access: Access::Open,
                now_ms: Some(request.now_ms),
            })),
            ("GET", ["samples"]) => Ok(Response::json(&Vec::<Sample>::new())),
            (_, ["runs", rest @ ..]) => self.of_runs(rest, request),
            (_, ["uploads", rest @ ..]) => self.of_uploads(rest, request),
            ("GET", ["compare"]) => compare::compared(&self.runs, request),
            ("GET", ["compare", "curves"]) => compare::drawn(&self.runs, request),
            ("GET", ["compare", "card.md"]) => compare::card(&self.runs, request),
            ("GET", ["jobs"]) => Ok(self.jobs.list(&self.runs)),
            ("POST", ["jobs"]) => self.jobs.make(&self.runs, request),
            ("GET", ["jobs", job, rest @ ..]) => self.jobs.answer(job, rest, &self.runs, request),
            ("DELETE", ["jobs", job]) => {
                self.notices.push(ServerEvent::RunsChanged);
                self.jobs.delete(job, &mut self.runs, request)
            }
            // A list of none, so that the page of benches shows its words for that.
            ("GET", ["bench" | "shares"]) => {
                Ok(Response::bytes(crate::message::JSON, b"[]".to_vec()))
            }
            (_, ["bench", ..]) => Err(needs_a_server("Benches run in processes.", BENCH)),
            (_, ["shares", ..]) => Err(needs_a_server("A link leads to a server.", SHARE)),
            _ => Err(no_route(place)),
        }
    }

    fn of_runs(&mut self, rest: &[&str], request: &Request) -> Result<Response, Refused> {
        match (request.method.as_str(), rest) {
            ("GET", []) => self.list(request),
            ("GET", [run]) => Ok(Response::json(&self.runs.get(run)?.detail())),
            ("PATCH", [run]) => {
                let RenameRun { name } = request.sent()?;
                let name = run_name(&name)?;
                self.changed(run, |run| run.name = name)
            }
            ("DELETE", [run]) => {
                let now = request.now_ms;
                // One that is deleted already is not open any more.
                self.runs.get(run)?;
                self.changed(run, |run| run.deleted_ms = Some(now))
            }
            ("POST", [run, "restore"]) => self.changed(run, |run| run.deleted_ms = None),
            ("GET", [run, "explain"]) => questions::explained(self.runs.get(run)?, request),
            ("GET", [run, "card.md"]) => questions::card(self.runs.get(run)?, request),
            ("GET", [run, "devices", device, rest @ ..]) => {
                questions::of_device(self.runs.get(run)?, device, rest, request)
            }
            ("GET", [run, "redaction"]) => questions::redacted(self.runs.get(run)?),
            ("GET", [_, "export"]) => Err(needs_a_server("A server writes other formats.", EXPORT)),
            _ => Err(no_route(request.place())),
        }
    }

    fn of_uploads(&mut self, rest: &[&str], request: &Request) -> Result<Response, Refused> {
        match (request.method.as_str(), rest) {
            ("POST", []) => self.uploads.announce(&self.jobs, request),
            ("GET", [upload]) => {
                let progress: UploadProgress = self.uploads.progress(upload, Phase::Receiving)?;
                Ok(Response::json(&progress))
            }
            ("DELETE", [upload]) => self.uploads.cancel(upload),
            _ => Err(no_route(request.place())),
        }
    }

    fn list(&self, request: &Request) -> Result<Response, Refused> {
        #[derive(Deserialize)]
        struct Query {
            #[serde(default)]
            deleted: bool,
            run: Option<String>,
            #[serde(default)]
            offset: usize,
            limit: Option<NonZeroUsize>,
        }
        let query: Query = request.asked()?;
        let most = api::page::MOST;
        let n = query.limit.map_or(most, |limit| limit.get().min(most));
        let from = query.offset;
        let asked = |run: &&crate::runs::Run| {
            let only = query.run.as_deref();
            only.is_none_or(|only| run.id.as_str() == only)
        };
        let page: Vec<RunSummary> = match query.deleted {
            false => self
                .runs
                .newest()
                .filter(asked)
                .skip(from)
                .take(n)
                .map(|run| run.summary())
                .collect(),
            true => self
                .runs
                .deleted()
                .filter(asked)
                .skip(from)
                .take(n)
                .map(|run| run.summary())
                .collect(),
        };
        Ok(Response::json(&page))
    }

    fn changed(
        &mut self,
        run: &str,
        change: impl FnOnce(&mut crate::runs::Run),
    ) -> Result<Response, Refused> {
        let run = self.runs.change(run)?;
        change(run);
        let summary = run.summary();
        self.notices.push(ServerEvent::RunsChanged);
        Ok(Response::json(&summary))
    }
}
