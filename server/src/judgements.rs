//! Judges runs, each once: when they arrive, when a page asks, or when the server starts.
//!
//! A small trace is judged while it is stored. For a large one, the sender would have to wait, so
//! it is judged in the background. Runs that another version judged are judged again in the
//! background, too. There, only one is judged at a time. Any trace has [`JUDGING`] of time. If that
//! is not enough, the answer is "cannot tell", and is kept like any other verdict, so that nobody
//! does the same work again.
//!
//! If judging takes long, explaining does too: so the explanation is stored with the verdict.

use crate::limits::answering::{ANSWER_TIME, Caller, allowed};
use crate::limits::budget::Permit;
use crate::limits::processor_time::within;
use crate::limits::turns::{Queue, Turns};
use crate::pictures::{Ask, Decoded, Pictures, is_judged_now};
use crate::store::{Store, StoreError, StoreResult, Writer};
use answers::explain;
use answers::questions::{JUDGING, report};
use api::explain::Explanation;
use api::ids::RunId;
use api::leaks::Leaks;
use api::progress::ServerEvent;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, oneshot};
use trace::device::DeviceIdx;
use trace::main_device;
use trace::trace::{DeviceTrace, Trace};
use trace::watch::{Stopped, Watch};
use tracing::Instrument;

/// Judges runs and stores the verdicts.
#[derive(Clone)]
pub struct Judge {
    store: Store,
    pictures: Pictures,
    events: broadcast::Sender<ServerEvent>,
    /// Held while judging, so that a large trace is not judged twice.
    one_at_a_time: Turns,
}

/// The reports of a trace that is small enough to be judged while it is stored.
///
/// # Errors
/// [`Stopped`], when the watch stops it.
pub fn judge_now(trace: &Trace, watch: Watch<'_>) -> Result<Vec<(DeviceIdx, Leaks)>, Stopped> {
    match is_judged_now(trace) {
        true => judge(trace, JUDGING, watch),
        false => Ok(Vec::new()),
    }
}

fn judge(
    trace: &Trace,
    limit: Duration,
    watch: Watch<'_>,
) -> Result<Vec<(DeviceIdx, Leaks)>, Stopped> {
    within(limit, |time| {
        let go_on = |bytes| time.look(bytes).is_ok() && watch.look(bytes).is_ok();
        let devices = trace.with_pinned();
        let report = |device: &DeviceTrace| {
            let leaks = report(trace, device, Watch::new(&go_on));
            // Only the time limit is a reason for the answer "cannot tell".
            watch.look(0)?;
            Ok((device.device, leaks))
        };
        devices.map(report).collect()
    })
}

impl Judge {
    /// A judge for the runs in `store`.
    pub fn new(store: Store, pictures: Pictures, events: broadcast::Sender<ServerEvent>) -> Judge {
        Judge {
            store,
            pictures,
            events,
            one_at_a_time: Turns::new(1),
        }
    }

    /// What is being judged, and how many wait.
    pub fn queue(&self) -> Queue {
        self.one_at_a_time.queue()
    }

    /// The report about a device of a run; made now if it does not exist.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such run or device; the database's.
    pub async fn leaks(&self, run: &RunId, device: DeviceIdx) -> StoreResult<Leaks> {
        if let Some(known) = self.known(run, device).await? {
            return Ok(known);
        }
        let turn = self.one_at_a_time.take().await;
        if let Some(known) = self.known(run, device).await? {
            return Ok(known);
        }
        let (judge, run) = (self.clone(), run.clone());
        let (tell, told) = oneshot::channel();
        // The work itself holds the turn: otherwise a client that asks, hangs up and asks again
        // would start it twice. The verdict is reported before the explanation is made.
        let work = async move {
            let _turn = turn;
            match judge.judge(&run).await {
                Ok(judged) => {
                    drop(tell.send(Ok(judged.reports.clone())));
                    judge.explain(&run, judged).await;
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        };
        tokio::spawn(work.in_current_span());
        let reports: Vec<(DeviceIdx, Leaks)> =
            told.await.map_err(|_| StoreError::Interrupted)??;
        let found = reports.into_iter().find(|(d, _)| *d == device);
        found.map(|(_, leaks)| leaks).ok_or(StoreError::NotFound {
            what: "device",
            id: device.to_string(),
        })
    }

    /// Judges all unjudged runs, one after the other, in the background.
    pub async fn judge_all(self) {
        let unjudged = self.store.read(|reader| reader.unjudged_runs()).await;
        for run in unjudged.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot look for runs without a verdict");
            Vec::new()
        }) {
            let _turn = self.one_at_a_time.take().await;
            if self.is_settled(&run).await {
                continue;
            }
            match self.judge(&run).await {
                Ok(judged) => self.explain(&run, judged).await,
                Err(error) => tracing::warn!(%run, %error, "cannot judge a run"),
            }
        }
    }

    /// Whether a run that was not judged needs no judging any more. Each upload looks for all such
    /// runs: while this one waited for its turn, another one may have judged it.
    async fn is_settled(&self, run: &RunId) -> bool {
        let id = run.clone();
        let read = self.store.read(move |reader| reader.is_unjudged(&id));
        // If that cannot be read, judging says why.
        read.await.is_ok_and(|is_unjudged| !is_unjudged)
    }

    async fn known(&self, run: &RunId, device: DeviceIdx) -> StoreResult<Option<Leaks>> {
        let run = run.clone();
        let read = self.store.read(move |reader| {
            // A deleted run has no answers.
            reader.run_ref(&run)?;
            reader.leaks(&run, device)
        });
        read.await
    }

    async fn judge(&self, run: &RunId) -> StoreResult<Judged> {
        let id = run.clone();
        let trace = self.store.read(move |reader| reader.run_ref(&id)).await?;
        let decoded = self.pictures.traces.get(trace.trace).await?;
        let memory = self
            .pictures
            .traces
            .memory_to_ask(&decoded, Ask::Stacks)
            .await?;
        let looked_at = Arc::clone(&decoded);
        let judging = crate::limits::work::background(move || {
            let judged = |watch: Watch<'_>| judge(&looked_at.trace, JUDGING, watch);
            (Watch::undisturbed(judged), memory)
        });
        let (reports, memory) = judging.await.map_err(|_| StoreError::Interrupted)?;
        let (id, kept) = (run.clone(), reports.clone());
        let write = self.store.write(move |writer| {
            for (device, leaks) in &kept {
                writer.put_leaks(&id, *device, leaks)?;
            }
            Ok(())
        });
        match write.await {
            // An error only means that no page listens.
            Ok(()) => drop(self.events.send(ServerEvent::RunsChanged)),
            // This is expected: on a full disk the report is made again each time.
            Err(error) if error.refuses_writes() => {
                tracing::debug!(%error, "cannot keep a verdict");
            }
            Err(error) => return Err(error),
        }
        Ok(Judged {
            reports,
            decoded,
            memory,
        })
    }

    /// Stores the explanation of a large run. Without it, the run is explained when somebody asks.
    async fn explain(&self, run: &RunId, judged: Judged) {
        let Judged {
            decoded, memory, ..
        } = judged;
        let version = explain::version(decoded.own_names());
        if is_judged_now(&decoded.trace) {
            return;
        }
        let looking = move || explanation(&decoded.trace, memory);
        let Ok(Some(words)) = crate::limits::work::background(looking).await else {
            return;
        };
        let id = run.clone();
        let put = move |writer: &mut Writer<'_>| writer.put_explanation(&id, version, &words);
        if let Err(error) = self.store.write(put).await {
            tracing::debug!(%run, %error, "cannot keep what explains a run");
        }
    }
}

/// The reports, with the trace and memory that they were made with.
struct Judged {
    reports: Vec<(DeviceIdx, Leaks)>,
    decoded: Arc<Decoded>,
    memory: Permit,
}

/// The explanation of a trace. If it needs too much, the client that asks for it gets the reason.
fn explanation(trace: &Trace, memory: Permit) -> Option<Explanation> {
    // Nobody waits for it, so only time and memory can end it.
    let (_caller, presence) = Caller::waits();
    let device = main_device::of(trace);
    let words = allowed(Some(memory), ANSWER_TIME, &presence, |watch| {
        explain::explain("", trace, device, None, watch)
    });
    let refused = |error| tracing::debug!(%error, "a run is not explained beforehand");
    words.map_err(refused).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::App;
    use crate::config::Config;
    use crate::ingest::{Broken, Sender, parse};
    use api::leaks::Verdict;
    use api::runs::RunSource;
    use bytes::Bytes;
    use futures_util::stream;
    use std::sync::atomic::AtomicU64;

    fn leaking() -> Trace {
        let sample = crate::samples::find("leak_hook_cache").unwrap();
        let file = zstd::decode_all(sample.file).unwrap();
        let snapshot = parse(std::iter::once(file), &AtomicU64::new(0)).unwrap();
        trace::replay::run(snapshot)
    }

    #[test]
    fn what_takes_too_long_to_judge_cannot_be_told() {
        let trace = leaking();
        let judged = |limit| judge(&trace, limit, Watch::nobody()).unwrap();
        assert_eq!(judged(JUDGING)[0].1.verdict, Verdict::Leak);
        let (_, stopped) = &judged(Duration::ZERO)[0];
        assert_eq!(stopped.verdict, Verdict::CannotTell);
        assert!(
            stopped.reason.contains("stopped at the time limit"),
            "{}",
            stopped.reason
        );
        assert_eq!(stopped.groups, []);
    }

    #[tokio::test]
    async fn the_words_that_are_kept_are_those_that_are_told() {
        let budget = crate::limits::budget::Budget::new(trace::units::Bytes::mib(64));
        let permit = budget.take(trace::units::Bytes::mib(8)).await.unwrap();
        // On the same kind of thread as in the server.
        let found = crate::limits::work::background(move || {
            let trace = leaking();
            let told = Watch::undisturbed(|watch| {
                explain::explain("", &trace, main_device::of(&trace), None, watch)
            });
            (explanation(&trace, permit), told)
        });
        let (kept, told) = found.await.unwrap();
        assert_eq!(kept, Some(told));
    }

    /// Each upload looks for all unjudged runs, so several wait for the same large one.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_run_that_several_wait_for_is_judged_once() {
        let folder = tempfile::tempdir().unwrap();
        let app = App::open(Config::new(folder.path().join("data"))).await;
        let app = app.unwrap();
        let sample = crate::samples::find("leak_hook_cache").unwrap();
        let upload = app
            .uploads
            .expect("a".to_owned(), None, RunSource::Upload, None);
        let body = stream::iter([Ok::<_, Broken>(Bytes::from_static(sample.file))]);
        let taken = app.uploads.take(upload.unwrap(), Sender::Server, body);
        taken.await.unwrap();
        let judge = app.uploads.judge();
        let turn = judge.one_at_a_time.take().await;
        let forgotten = app.store.write(|writer| writer.forget_verdicts());
        assert!(forgotten.await.unwrap() > 0);
        let waiting = [(); 3].map(|()| tokio::spawn(judge.clone().judge_all()));
        while judge.queue().waiting < waiting.len() {
            tokio::task::yield_now().await;
        }
        let mut told = app.events.subscribe();
        drop(turn);
        for one in waiting {
            one.await.unwrap();
        }
        let told = std::iter::from_fn(|| told.try_recv().ok());
        let verdicts = told.filter(|event| matches!(event, ServerEvent::RunsChanged));
        assert_eq!(verdicts.count(), 1);
    }

    #[test]
    fn whoever_cancels_gets_no_verdict() {
        let nobody_wants_it = |_| false;
        let judged = judge(&leaking(), JUDGING, Watch::new(&nobody_wants_it));
        assert_eq!(judged, Err(Stopped));
    }
}
