//! One upload as a value, and everything that can happen to it.

use crate::components::problem_note::{behind_colon, sentence};
use crate::response::is_no_answer;
use ::timeline::format::{self, UnixMillis};
use api::ids::{RunId, UploadId};
use api::problem::{Problem, ProblemCode};
use api::progress::{Phase, UploadProgress};
use std::time::Duration;
use trace::ranks::Rank;

/// Names an upload within this page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalId(pub u32);

/// Names a job within this page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalJob(pub u32);

/// Who counted the bytes. The server's count matters, because it has parsed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// This browser handed them to the network.
    Browser,
    /// The server received them.
    Server,
}

/// The progress of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// What is being done.
    pub phase: Phase,
    /// Bytes received (or sent, as long as only the browser counts).
    pub received: u64,
    /// Trace events read.
    pub events: u64,
    /// Bytes a second, smoothed.
    pub rate: u64,
    /// Who counted the bytes.
    pub witness: Witness,
}

/// Whether a finished upload brought anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Novelty {
    /// The server has not said yet.
    Untold,
    /// Its run is new.
    New,
    /// The same bytes, and so the run, were there before, under this name.
    Known(String),
}

/// The state of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its turn has not come.
    Waiting,
    /// The browser looks for the files in it: it is an archive.
    Unpacking,
    /// Under way.
    Running(Running),
    /// It is a run.
    Done(RunId, Novelty),
    /// It failed.
    Failed(Problem),
    /// The user cancelled it.
    Cancelled,
}

impl State {
    /// Whether nothing more happens to it, unless the user retries.
    pub fn is_final(&self) -> bool {
        matches!(self, State::Done(..) | State::Failed(_) | State::Cancelled)
    }
}

/// What can happen to an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its turn came.
    Started(UnixMillis),
    /// It is an archive, or a file in one.
    Unpacking,
    /// The server knows it by this id.
    Announced(UploadId),
    /// The browser handed so many bytes to the network.
    Sent(u64, UnixMillis),
    /// The server reports the progress.
    Progress(UploadProgress),
    /// The server has the whole body and answered with its run.
    Finished(RunId, Novelty),
    /// It failed on our side, or the server answered with a problem.
    Failed(Problem),
    /// The user cancelled it.
    Cancelled,
    /// The user wants it tried again.
    Retried,
    /// The server answers again.
    ServerBack,
}

/// One file to upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name within this page.
    pub id: LocalId,
    /// The file's name.
    pub name: String,
    /// The file's size, bytes.
    pub size: u64,
    /// The archive that it was in.
    pub archive: Option<String>,
    /// Which rank of which job it is.
    pub in_job: Option<(LocalJob, Rank)>,
    /// Its id on the server, once announced.
    pub upload: Option<UploadId>,
    /// When its turn came.
    pub started: UnixMillis,
    /// How it stands.
    pub state: State,
    /// Whether it was sent again without being asked for, because the server answered again.
    pub sent_again: bool,
}

impl Item {
    /// A file whose turn has not come.
    pub fn waiting(id: LocalId, name: String, size: u64) -> Item {
        Item {
            id,
            name,
            size,
            archive: None,
            in_job: None,
            upload: None,
            started: UnixMillis(0),
            state: State::Waiting,
            sent_again: false,
        }
    }

    /// Whether it is sent again once the server answers. Only once: a file that ends the server
    /// would end it again and again.
    pub fn waits_for_server(&self) -> bool {
        match &self.state {
            State::Failed(problem) => is_no_answer(problem) && !self.sent_again,
            _ => false,
        }
    }

    /// Whether it is a rank of a job.
    pub fn is_of(&self, job: LocalJob) -> bool {
        self.in_job.is_some_and(|(of, _)| of == job)
    }

    /// Applies a change. Late changes (progress after a cancel) have no effect.
    pub fn on(&mut self, change: Change) {
        match (change, &self.state) {
            (Change::Retried, State::Failed(_) | State::Cancelled) => {
                self.upload = None;
                self.state = State::Waiting;
                self.sent_again = false;
            }
            (Change::ServerBack, State::Failed(_)) if self.waits_for_server() => {
                self.upload = None;
                self.state = State::Waiting;
                self.sent_again = true;
            }
            (Change::Retried | Change::ServerBack, _) => {}
            (Change::Finished(run, novelty), State::Done(_, Novelty::Untold)) => {
                self.state = State::Done(run, novelty);
            }
            (_, state) if state.is_final() => {}
            (Change::Started(now), _) => {
                self.started = now;
                self.state = State::Running(Running {
                    phase: Phase::Waiting,
                    received: 0,
                    events: 0,
                    rate: 0,
                    witness: Witness::Browser,
                });
            }
            (Change::Unpacking, _) => self.state = State::Unpacking,
            (Change::Announced(upload), _) => self.upload = Some(upload),
            (Change::Sent(bytes, now), State::Running(running)) => {
                self.state = State::Running(sent(*running, bytes, now.since(self.started)));
            }
            (Change::Sent(..), _) => {}
            (Change::Progress(progress), state) => self.state = reported(state, progress),
            (Change::Finished(run, novelty), _) => self.state = State::Done(run, novelty),
            (Change::Failed(problem), _) => self.state = State::Failed(problem),
            (Change::Cancelled, _) => self.state = State::Cancelled,
        }
    }

    /// Percent of the bytes that arrived; `None` if that says nothing about the remaining time.
    pub fn percent(&self) -> Option<u8> {
        match &self.state {
            State::Running(Running {
                phase: Phase::Receiving,
                received,
                ..
            }) => Some(format::percent(*received, self.size)),
            State::Done(..) => Some(100),
            State::Waiting => Some(0),
            State::Unpacking | State::Running(_) | State::Failed(_) | State::Cancelled => None,
        }
    }

    /// Time until all bytes have arrived, at the current rate.
    pub fn time_left(&self) -> Option<Duration> {
        match &self.state {
            State::Running(Running {
                phase: Phase::Receiving,
                received,
                rate,
                ..
            }) if *rate > 0 => {
                let left = self.size.saturating_sub(*received);
                (left > 0).then(|| Duration::from_secs(left.div_ceil(*rate)))
            }
            _ => None,
        }
    }

    /// Whether the same bytes may fare better another time. They do not become a snapshot, or
    /// smaller.
    pub fn may_be_retried(&self) -> bool {
        use ProblemCode as Code;
        match &self.state {
            State::Cancelled => true,
            State::Failed(problem) => !matches!(
                problem.code,
                Code::BadSnapshot | Code::TooLarge | Code::TooNew | Code::BadRequest | Code::Gone
            ),
            _ => false,
        }
    }

    /// One line about its state.
    pub fn status(&self) -> String {
        match &self.state {
            State::Waiting => format!("Waiting · {}", format::bytes(self.size)),
            State::Unpacking => "Unpacking".to_owned(),
            State::Running(running) => self.running_status(running),
            State::Done(_, Novelty::Known(name)) if *name == self.name => {
                "The same bytes were here already".to_owned()
            }
            State::Done(_, Novelty::Known(name)) => {
                format!("The same bytes were here already, as {name}")
            }
            State::Done(..) => "Done".to_owned(),
            State::Failed(problem) => problem.title.clone(),
            State::Cancelled => "Cancelled".to_owned(),
        }
    }

    /// Why it failed. A file of an archive is told with the archive: that is what was chosen, and
    /// it may hold many files.
    pub fn why(&self) -> Option<String> {
        let State::Failed(problem) = &self.state else {
            return None;
        };
        if self.waits_for_server() {
            return Some("It is sent again as soon as the server answers.".to_owned());
        }
        Some(match &self.archive {
            None => sentence(&problem.detail),
            Some(archive) => {
                let why = behind_colon(&problem.detail);
                format!("{} in {archive}: {why}", self.name)
            }
        })
    }

    fn running_status(&self, running: &Running) -> String {
        let mut parts = vec![phase_name(running.phase).to_owned()];
        if running.phase == Phase::Receiving {
            parts[0] += &format!(" {} %", format::percent(running.received, self.size));
            let whole = format::bytes(self.size);
            parts.push(format!("{} of {whole}", format::bytes(running.received)));
            if running.rate > 0 {
                parts.push(format::rate(running.rate));
            }
        }
        if running.events > 0 {
            parts.push(format!("{} events", format::short_count(running.events)));
        }
        if let Some(left) = self.time_left() {
            parts.push(format!("{} left", format::duration(left)));
        }
        parts.join(" · ")
    }
}

/// What a phase is called.
pub fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "Starting",
        // The bytes are read as they come; without a server, nobody receives them.
        Phase::Receiving => "Reading",
        Phase::Replaying => "Replaying",
        Phase::Storing => "Storing",
    }
}

/// Uses the browser's count, as long as the server has none.
fn sent(running: Running, bytes: u64, elapsed: Duration) -> Running {
    if running.witness == Witness::Server {
        return running;
    }
    let rate = (bytes as f64 / elapsed.as_secs_f64().max(0.1)) as u64;
    Running {
        phase: Phase::Receiving,
        received: bytes,
        rate,
        ..running
    }
}

fn reported(state: &State, progress: UploadProgress) -> State {
    match progress {
        UploadProgress::Running {
            phase,
            received,
            events,
            rate,
            ..
        } => {
            let before = match state {
                State::Running(Running {
                    rate,
                    witness: Witness::Server,
                    ..
                }) => Some(*rate),
                _ => None,
            };
            let rate = smoothed(before, rate);
            let witness = Witness::Server;
            State::Running(Running {
                phase,
                received,
                events,
                rate,
                witness,
            })
        }
        UploadProgress::Done { run } => State::Done(run, Novelty::Untold),
        UploadProgress::Failed { problem } => State::Failed(problem),
        UploadProgress::Cancelled => State::Cancelled,
    }
}

/// Three parts old, one part new: so the remaining time does not jump with every report.
fn smoothed(before: Option<u64>, rate: u64) -> u64 {
    match before {
        Some(before) if before > 0 => (before / 4).saturating_mul(3).saturating_add(rate / 4),
        _ => rate,
    }
}

/// The run of an upload, once it is known whether it is new.
pub fn done_run(state: &State) -> Option<RunId> {
    match state {
        State::Done(run, Novelty::New | Novelty::Known(_)) => Some(run.clone()),
        _ => None,
    }
}

/// What is said where the run of a file is opened that brought nothing new.
pub fn already_here(name: &str, state: &State) -> Option<String> {
    let is_known = matches!(state, State::Done(_, Novelty::Known(_)));
    is_known.then(|| format!("“{name}” was here already, with the same bytes: this is its run."))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    pub(in crate::upload) fn item() -> Item {
        Item::waiting(LocalId(0), "a.pickle".to_owned(), 1000)
    }

    fn running(received: u64, rate: u64) -> Change {
        let phase = Phase::Receiving;
        Change::Progress(UploadProgress::Running {
            phase,
            received,
            total: None,
            events: 7,
            rate,
        })
    }

    pub(in crate::upload) fn done() -> Change {
        Change::Progress(UploadProgress::Done {
            run: "run_1".parse().unwrap(),
        })
    }

    pub(in crate::upload) fn failed() -> Change {
        Change::Failed(Problem {
            code: ProblemCode::Internal,
            status: 500,
            title: "Lost".to_owned(),
            detail: String::new(),
            offset: None,
        })
    }

    #[test]
    fn the_servers_count_replaces_the_browsers_for_good() {
        let mut item = item();
        item.on(Change::Started(UnixMillis(0)));
        item.on(Change::Sent(500, UnixMillis(1000)));
        assert_eq!(item.percent(), Some(50));
        assert_eq!(item.time_left(), Some(Duration::from_secs(1)));
        item.on(running(100, 50));
        assert_eq!(item.percent(), Some(10));
        item.on(Change::Sent(900, UnixMillis(2000)));
        assert_eq!(item.percent(), Some(10));
        let mut whole = item.clone();
        whole.on(running(1000, 50));
        assert_eq!(whole.time_left(), None, "what follows takes its time");
        assert_eq!(
            item.status(),
            "Reading 10 % · 100 B of 1000 B · 50 B/s · 7 events · 18 s left"
        );
    }

    #[test]
    fn what_comes_after_the_end_changes_nothing() {
        for last in [done(), failed(), Change::Cancelled] {
            let mut item = item();
            item.on(Change::Started(UnixMillis(0)));
            item.on(last);
            let end = item.clone();
            for late in [running(1, 1), done(), failed(), Change::Cancelled] {
                item.on(late);
            }
            assert_eq!(item, end);
        }
    }

    #[test]
    fn the_answer_adds_whether_the_run_is_new() {
        let run = || "run_1".parse::<RunId>().unwrap();
        let mut item = item();
        item.on(Change::Started(UnixMillis(0)));
        item.on(done());
        let known = || Novelty::Known("night.pickle".to_owned());
        item.on(Change::Finished(run(), known()));
        assert_eq!(item.state, State::Done(run(), known()));
        assert_eq!(
            item.status(),
            "The same bytes were here already, as night.pickle"
        );
        item.name = "night.pickle".to_owned();
        assert_eq!(item.status(), "The same bytes were here already");
        item.on(Change::Finished(run(), Novelty::New));
        assert_eq!(item.state, State::Done(run(), known()));
    }

    #[test]
    fn a_file_that_failed_is_told_with_its_archive() {
        let failed = |archive: Option<&str>| {
            let mut item = Item {
                archive: archive.map(str::to_owned),
                ..item()
            };
            assert_eq!(item.why(), None);
            item.on(Change::Failed(Problem {
                code: ProblemCode::BadSnapshot,
                status: 422,
                title: "Not a readable snapshot".to_owned(),
                detail: "Not a memory snapshot".to_owned(),
                offset: None,
            }));
            item.why().unwrap()
        };
        assert_eq!(failed(None), "Not a memory snapshot.");
        assert_eq!(
            failed(Some("b.zip")),
            "a.pickle in b.zip: not a memory snapshot."
        );
    }

    #[test]
    fn only_what_failed_or_was_cancelled_can_be_retried() {
        let mut item = item();
        item.on(Change::Started(UnixMillis(0)));
        item.on(Change::Announced("upl_1".parse().unwrap()));
        item.on(Change::Retried);
        assert!(matches!(item.state, State::Running(_)));
        item.on(failed());
        item.on(Change::Retried);
        assert_eq!((&item.state, &item.upload), (&State::Waiting, &None));
        item.on(done());
        item.on(Change::Retried);
        assert!(matches!(item.state, State::Done(..)));
    }

    #[test]
    fn only_what_may_help_is_offered_again() {
        let check = |code: ProblemCode, expected: bool| {
            let mut item = item();
            item.on(Change::Failed(Problem {
                code,
                status: 0,
                title: String::new(),
                detail: String::new(),
                offset: None,
            }));
            assert_eq!(item.may_be_retried(), expected, "{code:?}");
        };
        check(ProblemCode::Interrupted, true);
        check(ProblemCode::InsufficientStorage, true);
        check(ProblemCode::Unauthorized, true);
        check(ProblemCode::BadSnapshot, false);
        check(ProblemCode::TooLarge, false);
    }
}
