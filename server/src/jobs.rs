//! Many ranks of one program. A profile of each rank is made once and stored; a survey of all ranks
//! is made from the profiles and kept in memory.
//!
//! A rank's profile has some kilobytes, while its trace has some hundred megabytes. Traces are
//! decoded one after the other, in the background, when ranks arrive or when somebody asks. Then
//! hundreds of profiles are read in a moment.

use crate::explaining::{EXPLAINING, Refused, Waiting, allowed};
use crate::pictures::{Ask, Traces};
use crate::processor_time::ProcessorTime;
use crate::questions::JUDGING;
use crate::recent::Recent;
use crate::store::{RankRun, Store, StoreError, StoreResult};
use crate::turns::{Queue, Turns};
use answers::ranks::Without;
use api::ids::JobId;
use api::leaks::Leaks;
use std::sync::Arc;
use std::time::Duration;
use trace::ranks::profile::RankProfile;
use trace::ranks::{self, Survey, Surveyor};
use trace::watch::{Stopped, Watch};
use tracing::Instrument;

/// Version of stored profiles, combined with that of their input.
const VERSION: u32 = 2 + 10_000 * Leaks::VERSION;
/// How many surveys are kept in memory; a survey of thousands of ranks has some megabytes.
const SURVEYS: usize = 8;
/// Profiles that are in memory at the same time.
const AT_ONCE: usize = 64;
/// How long an answer waits for ranks that are not analysed yet.
const PATIENCE: Duration = Duration::from_secs(2);
/// Processor time that the profile of a rank may take: that of its verdict, and as much for
/// everything else.
const PROFILING: Duration = Duration::from_secs(2 * JUDGING.as_secs());
/// zstd's level for profiles: they are read more often than written.
const LEVEL: i32 = 3;

/// Analyses jobs. Clones share it.
#[derive(Clone)]
pub struct Jobs {
    store: Store,
    traces: Arc<Traces>,
    /// By their content: the ranks, their runs, and which of them are shown.
    surveys: Arc<Recent<blake3::Hash, Survey>>,
    /// Held while profiles are made, so that a large trace is not decoded twice.
    one_at_a_time: Turns,
}

/// What is known about a job.
pub struct Surveyed {
    /// The ranks that are shown, in the order of the survey.
    pub ranks: Vec<RankRun>,
    /// The survey of them.
    pub survey: Arc<Survey>,
    /// The ranks that the survey says nothing of.
    pub without: Without,
}

impl Jobs {
    /// Analyses the jobs in `store`, whose traces `traces` decodes.
    pub fn new(store: Store, traces: Arc<Traces>) -> Jobs {
        Jobs {
            store,
            traces,
            surveys: Arc::new(Recent::new(SURVEYS)),
            one_at_a_time: Turns::new(1),
        }
    }

    /// Jobs that are being analysed, and jobs that wait for it.
    pub fn queue(&self) -> Queue {
        self.one_at_a_time.queue()
    }

    /// How the ranks of a job differ. Ranks without a profile are analysed now. The caller waits a
    /// moment for that, and gets the number of ranks that still wait.
    ///
    /// # Errors
    /// The database's.
    pub async fn survey(&self, job: &JobId) -> StoreResult<Surveyed> {
        let mut all = self.ranks(job).await?;
        let mut is_over = true;
        if all.iter().any(|rank| !rank.is_profiled) {
            let (jobs, id) = (self.clone(), job.clone());
            // The work goes on even if nobody waits any more.
            let looking = tokio::spawn(async move { jobs.look_at(&id).await }.in_current_span());
            is_over = tokio::time::timeout(PATIENCE, looking).await.is_ok();
            all = self.ranks(job).await?;
        }
        let missing = ranks::missing(all.iter().map(|rank| rank.rank));
        let n = all.len();
        all.retain(|rank| rank.is_profiled);
        let left_out = (n - all.len()) as u32;
        let survey = self.put_together(&all).await?;
        let (waiting, unreadable) = if is_over {
            (0, left_out)
        } else {
            (left_out, 0)
        };
        let without = Without {
            waiting,
            unreadable,
            missing,
        };
        Ok(Surveyed {
            ranks: all,
            survey,
            without,
        })
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
        for rank in ranks.into_iter().filter(|rank| !rank.is_profiled) {
            if let Err(error) = self.profile(&rank).await {
                tracing::warn!(run = %rank.run, %error, "cannot look at a rank");
            }
        }
    }

    async fn profile(&self, rank: &RankRun) -> StoreResult<()> {
        let decoded = self.traces.get(rank.trace).await?;
        let memory = self.traces.memory_to_ask(&decoded, Ask::Stacks).await?;
        let making = crate::work::background(move || {
            // Nobody waits for it, so only time and memory can end it.
            let (_waiting, waited) = Waiting::begins();
            let made = allowed(memory, PROFILING, &waited, |watch| {
                let time = ProcessorTime::from_now();
                let judging = |_| time.used() <= JUDGING;
                RankProfile::of(&decoded.trace, Watch::new(&judging), watch)
            });
            pack(&made?)
        });
        let packed = making.await.map_err(|_| StoreError::Interrupted)??;
        let run = rank.run.clone();
        let write = move |writer: &mut crate::store::Writer| {
            writer.put_rank_profile(&run, VERSION, &packed)
        };
        self.store.write(write).await
    }

    async fn put_together(&self, ranks: &[RankRun]) -> StoreResult<Arc<Survey>> {
        let mut key = blake3::Hasher::new();
        for RankRun {
            rank, run, trace, ..
        } in ranks
        {
            key.update(format!("{rank} {run} {trace}\n").as_bytes());
        }
        let make = async || {
            let mut surveyor = Surveyor::default();
            for some in ranks.chunks(AT_ONCE) {
                let wanted = some.to_vec();
                let read = self.store.read(move |reader| {
                    let profile = |rank: RankRun| {
                        let packed = reader.rank_profile(&rank.run, VERSION)?;
                        let missing = || undecodable(&"its profile is gone");
                        Ok((rank.rank, packed.ok_or_else(missing)?))
                    };
                    wanted
                        .into_iter()
                        .map(profile)
                        .collect::<StoreResult<Vec<_>>>()
                });
                let packed = read.await?;
                surveyor = watched(move |watch| {
                    for (rank, packed) in packed {
                        watch.look(0).map_err(too_long)?;
                        surveyor.add(rank, unpack(&packed)?);
                    }
                    Ok(surveyor)
                })
                .await?;
            }
            let finish = move |watch: Watch<'_>| surveyor.finish_while(watch).map_err(too_long);
            watched(finish).await.map(Arc::new)
        };
        let cell = self.surveys.cell(key.finalize());
        cell.get_or_try_init(make).await.cloned()
    }
}

/// Does work within the time of an answer, and until the future is dropped: then nobody waits. What
/// it holds is small beside the profiles that are in memory.
async fn watched<T: Send + 'static>(
    work: impl FnOnce(Watch<'_>) -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    let (_waiting, waited) = Waiting::begins();
    let done = crate::work::answer(move || {
        let time = ProcessorTime::from_now();
        let done = work(Watch::new(&|_| {
            !waited.is_over() && time.used() <= EXPLAINING
        }));
        // Whatever the watch said to the work, these are the reasons.
        match () {
            () if waited.is_over() => Err(Refused::NobodyWaits.into()),
            () if time.used() > EXPLAINING => Err(Refused::TooLong(EXPLAINING).into()),
            () => done,
        }
    });
    done.await.map_err(|_| StoreError::Interrupted)?
}

fn too_long(Stopped: Stopped) -> StoreError {
    Refused::TooLong(EXPLAINING).into()
}

fn pack(profile: &RankProfile) -> StoreResult<Vec<u8>> {
    let text = serde_json::to_vec(profile).map_err(|error| undecodable(&error))?;
    zstd::encode_all(&text[..], LEVEL).map_err(|error| undecodable(&error))
}

fn unpack(packed: &[u8]) -> StoreResult<RankProfile> {
    let text = zstd::decode_all(packed).map_err(|error| undecodable(&error))?;
    serde_json::from_slice(&text).map_err(|error| undecodable(&error))
}

fn undecodable(why: &impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt {
        what: "profile of a rank",
        value: why.to_string(),
    }
}
