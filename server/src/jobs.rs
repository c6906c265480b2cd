//! Many ranks of one program. A profile of each rank is made once and stored; a survey of all ranks
//! is made from the profiles and kept in memory.
//!
//! A rank's profile has some kilobytes, while its trace has some hundred megabytes. Traces are
//! decoded one after the other, in the background, when ranks arrive or when somebody asks. Then
//! hundreds of profiles are read in a moment.

use crate::limits::answering::{ANSWER_TIME, Caller, allowed, while_awaited};
use crate::limits::budget::NoMemory;
use crate::limits::processor_time::ProcessorTime;
use crate::limits::turns::{Queue, Turns};
use crate::pictures::{Ask, Traces};
use crate::recent::Recent;
use crate::store::{RankRun, Store, StoreError, StoreResult, Writer};
use answers::questions::JUDGING;
use answers::ranks::Without;
use api::ids::JobId;
use api::jobs::JobNotes;
use api::leaks::Leaks;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trace::ranks::profile::RankProfile;
use trace::ranks::{Rank, Survey, Surveyor};
use trace::watch::Watch;
use tracing::Instrument;

/// Version of stored profiles, combined with that of their input.
const VERSION: u32 = 11 + 10_000 * Leaks::VERSION;
/// How many surveys are kept in memory; a survey of thousands of ranks has some megabytes.
const SURVEYS: usize = 8;
/// Profiles that are in memory at the same time.
const AT_ONCE: usize = 64;
/// How long an answer waits for ranks that are not analysed yet.
const PATIENCE: Duration = Duration::from_secs(2);
/// Processor time that the profile of a rank may take: that of its verdict, and as much for
/// everything else.
const PROFILING: Duration = Duration::from_secs(2 * JUDGING.as_secs());
/// How long a rank that could not be analysed is left alone.
const LEFT_ALONE: Duration = Duration::from_secs(10 * 60);
/// zstd's level for profiles: they are read more often than written.
const LEVEL: i32 = 3;

/// Analyses jobs. Clones share it.
#[derive(Clone)]
pub struct Jobs {
    store: Store,
    traces: Arc<Traces>,
    /// By their content: the ranks, their runs, which of them are shown, and whether that is all.
    surveys: Arc<Recent<blake3::Hash, Survey>>,
    /// Held while profiles are made, so that a large trace is not decoded twice.
    one_at_a_time: Turns,
    failed: Arc<Failed>,
}

/// The runs that could not be analysed, by their traces, and when that was.
#[derive(Default)]
struct Failed(Mutex<HashMap<i64, Instant>>);

impl Failed {
    fn note(&self, rank: &RankRun, now: Instant) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, failed| now.duration_since(*failed) < LEFT_ALONE);
        kept.insert(rank.trace, now);
    }

    /// Whether a rank waits for its profile, and it makes sense to try that now.
    fn is_to_try(&self, rank: &RankRun, now: Instant) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = kept.get(&rank.trace);
        !rank.is_profiled && failed.is_none_or(|at| now.duration_since(*at) >= LEFT_ALONE)
    }
}

/// Why there is no survey.
enum Unmade {
    Failed(StoreError),
    /// These ranks have no profile that can be read. It is derived data, so that is no damage: a
    /// trace may just have been derived again.
    Without(Vec<Rank>),
}

impl From<StoreError> for Unmade {
    fn from(error: StoreError) -> Unmade {
        Unmade::Failed(error)
    }
}

/// The ranks of a job, after a moment in which new ones were analysed.
pub struct Profiled {
    all: Vec<RankRun>,
    notes: JobNotes,
    /// Whether all of them were tried.
    is_over: bool,
}

/// What is known about a job.
pub struct Surveyed {
    /// The ranks that are shown, in the order of the survey.
    pub ranks: Vec<RankRun>,
    /// The survey of them.
    pub survey: Arc<Survey>,
    /// The ranks that the survey says nothing of.
    pub without: Without,
    /// What no rank tells.
    pub notes: JobNotes,
}

impl Jobs {
    /// Analyses the jobs in `store`, whose traces `traces` decodes.
    pub fn new(store: Store, traces: Arc<Traces>) -> Jobs {
        Jobs {
            store,
            traces,
            surveys: Arc::new(Recent::new(SURVEYS)),
            one_at_a_time: Turns::new(1),
            failed: Arc::default(),
        }
    }

    /// Jobs that are being analysed, and jobs that wait for it.
    pub fn queue(&self) -> Queue {
        self.one_at_a_time.queue()
    }

    /// The ranks of a job. Those without a profile are analysed now; the caller waits a moment for
    /// that.
    ///
    /// # Errors
    /// The database's.
    pub async fn profiled(&self, job: &JobId) -> StoreResult<Profiled> {
        let mut all = self.ranks(job).await?;
        let mut is_over = true;
        let now = Instant::now();
        if all.iter().any(|rank| self.failed.is_to_try(rank, now)) {
            let (jobs, id) = (self.clone(), job.clone());
            // The work goes on even if nobody waits any more.
            let looking = tokio::spawn(async move { jobs.look_at(&id).await }.in_current_span());
            is_over = tokio::time::timeout(PATIENCE, looking).await.is_ok();
            all = self.ranks(job).await?;
        }
        let id = job.clone();
        let notes = self.store.read(move |reader| reader.job_notes(&id)).await?;
        Ok(Profiled {
            all,
            notes,
            is_over,
        })
    }

    /// How these ranks differ, and how many of them still wait for a profile. All profiles are
    /// read for that, so whoever asks should have a turn.
    ///
    /// # Errors
    /// The database's.
    pub async fn survey(&self, ranks: Profiled) -> StoreResult<Surveyed> {
        let Profiled {
            mut all,
            notes,
            is_over,
        } = ranks;
        let missing = notes.missing(all.iter().map(|rank| rank.rank));
        let of_job = all.len() + missing.len();
        let left_out = all.extract_if(.., |rank| !rank.is_profiled);
        let left_out: Vec<Rank> = left_out.map(|rank| rank.rank).collect();
        let (survey, lost) = self.survey_of(&mut all, of_job).await?;
        let (waiting, unreadable) = match is_over {
            true => (0, left_out),
            false => (left_out.len() as u32, Vec::new()),
        };
        let without = Without {
            waiting: waiting + lost,
            unreadable,
            missing,
        };
        Ok(Surveyed {
            ranks: all,
            survey,
            without,
            notes,
        })
    }

    /// The survey of these ranks, of a job that has so many. Those whose profiles are lost are
    /// taken out, and are analysed again when somebody asks the next time; this is how many.
    async fn survey_of(
        &self,
        ranks: &mut Vec<RankRun>,
        of_job: usize,
    ) -> StoreResult<(Arc<Survey>, u32)> {
        let n = ranks.len();
        loop {
            let lost = match self.put_together(ranks, ranks.len() < of_job).await {
                Ok(survey) => return Ok((survey, (n - ranks.len()) as u32)),
                Err(Unmade::Failed(error)) => return Err(error),
                Err(Unmade::Without(lost)) => lost,
            };
            let of_lost = ranks.extract_if(.., |rank| lost.contains(&rank.rank));
            let runs: Vec<_> = of_lost.map(|rank| rank.run).collect();
            tracing::info!(?runs, "the profiles of these ranks are made again");
            let forget = move |writer: &mut Writer| {
                let forgotten = runs.iter().map(|run| writer.forget_rank_profile(run));
                forgotten.collect()
            };
            match self.store.write(forget).await {
                // What can still be read is answered.
                Err(error) if error.refuses_writes() => {
                    tracing::warn!(%error, "cannot forget the profiles of ranks");
                }
                forgotten => forgotten?,
            }
        }
    }

    /// Analyses a job's new ranks in the background.
    pub fn warm(&self, job: JobId) {
        let jobs = self.clone();
        tokio::spawn(async move { jobs.look_at(&job).await }.in_current_span());
    }

    async fn ranks(&self, job: &JobId) -> StoreResult<Vec<RankRun>> {
        let id = job.clone();
        let read = self.store.read(move |reader| reader.ranks_of(&id, VERSION));
        read.await
    }

    /// Makes the missing profiles.
    async fn look_at(&self, job: &JobId) {
        let _turn = self.one_at_a_time.take().await;
        let ranks = self.ranks(job).await.unwrap_or_else(|error| {
            tracing::error!(%job, %error, "cannot look at the ranks of a job");
            Vec::new()
        });
        // Ranks with equal recordings are one run, which is looked at once.
        let mut seen = HashSet::new();
        for rank in ranks {
            if !self.failed.is_to_try(&rank, Instant::now()) || !seen.insert(rank.trace) {
                continue;
            }
            if let Err(error) = self.profile(&rank).await {
                tracing::warn!(run = %rank.run, %error, "cannot look at a rank");
                // Memory may be there in a moment.
                if !matches!(error, StoreError::NoMemory(NoMemory::Busy { .. })) {
                    self.failed.note(&rank, Instant::now());
                }
            }
        }
    }

    async fn profile(&self, rank: &RankRun) -> StoreResult<()> {
        let decoded = self.traces.get(rank.trace).await?;
        let memory = self.traces.memory_to_ask(&decoded, Ask::Stacks).await?;
        let making = crate::limits::work::background(move || {
            // Nobody waits for it, so only time and memory can end it.
            let (_caller, presence) = Caller::waits();
            let made = allowed(Some(memory), PROFILING, &presence, |watch| {
                let time = ProcessorTime::from_now();
                let judging = |_| time.used() <= JUDGING;
                RankProfile::of(&decoded.trace, Watch::new(&judging), watch)
            });
            pack(&made?)
        });
        let packed = making.await.map_err(|_| StoreError::Interrupted)??;
        let run = rank.run.clone();
        let write = move |writer: &mut Writer| writer.put_rank_profile(&run, VERSION, &packed);
        self.store.write(write).await
    }

    async fn put_together(
        &self,
        ranks: &[RankRun],
        lacks_some: bool,
    ) -> Result<Arc<Survey>, Unmade> {
        let mut key = blake3::Hasher::new();
        key.update(if lacks_some { b"some\n" } else { b"all \n" });
        for RankRun {
            rank, run, trace, ..
        } in ranks
        {
            key.update(format!("{rank} {run} {trace}\n").as_bytes());
        }
        let make = async || {
            let mut surveyor = Surveyor::default();
            if lacks_some {
                surveyor.lacks_some();
            }
            let mut lost = Vec::new();
            for some in ranks.chunks(AT_ONCE) {
                let packed = self.profiles(some.to_vec()).await?;
                // What it holds is small beside the profiles that are in memory.
                let read = move |watch: Watch<'_>| {
                    for (rank, packed) in packed {
                        watch.look(0)?;
                        match packed.as_deref().and_then(unpack) {
                            Some(profile) => surveyor.add(rank, profile),
                            None => lost.push(rank),
                        }
                    }
                    Ok::<_, StoreError>((surveyor, lost))
                };
                (surveyor, lost) = while_awaited(None, ANSWER_TIME, read).await?;
            }
            if !lost.is_empty() {
                return Err(Unmade::Without(lost));
            }
            let finish = move |watch: Watch<'_>| Ok(surveyor.finish_while(watch)?);
            let finished: StoreResult<Survey> = while_awaited(None, ANSWER_TIME, finish).await;
            Ok(finished.map(Arc::new)?)
        };
        let cell = self.surveys.cell(key.finalize());
        cell.get_or_try_init(make).await.cloned()
    }

    /// The packed profiles of ranks; `None` where there is none.
    async fn profiles(&self, ranks: Vec<RankRun>) -> StoreResult<Vec<(Rank, Option<Vec<u8>>)>> {
        let read = self.store.read(move |reader| {
            let profile = |rank: &RankRun| {
                let packed = reader.rank_profile(&rank.run, VERSION)?;
                Ok((rank.rank, packed))
            };
            ranks.iter().map(profile).collect()
        });
        read.await
    }
}

fn pack(profile: &RankProfile) -> StoreResult<Vec<u8>> {
    let text = serde_json::to_vec(profile).map_err(|error| StoreError::Packing(error.into()))?;
    zstd::encode_all(&text[..], LEVEL).map_err(StoreError::Packing)
}

/// A profile, if it can be read.
fn unpack(packed: &[u8]) -> Option<RankProfile> {
    let text = zstd::decode_all(packed).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_failed_is_left_alone_for_ten_minutes() {
        let rank = |trace, is_profiled| RankRun {
            rank: Rank(0),
            run: "run_0123456789abcdef".parse().unwrap(),
            name: String::new(),
            trace,
            is_profiled,
        };
        let (failed, now) = (Failed::default(), Instant::now());
        let after = |minutes: u64| now + Duration::from_secs(60 * minutes);
        assert!(failed.is_to_try(&rank(1, false), now));
        failed.note(&rank(1, false), now);
        // Another trace of the same run is another try.
        for (trace, is_profiled, minutes, expected) in [
            (1, false, 0, false),
            (1, false, 9, false),
            (1, false, 10, true),
            (2, false, 0, true),
            (2, true, 0, false),
        ] {
            let is_to_try = failed.is_to_try(&rank(trace, is_profiled), after(minutes));
            assert_eq!(is_to_try, expected, "{trace} after {minutes} min");
        }
    }
}
