//! Comparisons of runs: profiles and comparisons are made once and kept in memory.
//!
//! A profile takes one pass over a run's events. It has some hundred kilobytes, while the trace has
//! some hundred megabytes. So traces are decoded one after the other and are never all in memory at
//! once. What is kept holds a permit for its memory, and goes first when others need that.

use crate::limits::answering::{ANSWER_TIME, while_awaited};
use crate::limits::budget::{Budget, Permit, Spare};
use crate::limits::processor_time::ProcessorTime;
use crate::pictures::{Ask, Decoded, Traces};
use crate::recent::Recent;
use crate::store::{StoreResult, StoredRun};
use answers::curves::{self, Axis};
use answers::facts::DeviceFacts;
use answers::questions::JUDGING;
use answers::texts::Texts;
use api::compare::{Against, Curves, CurvesWanted};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use trace::compare::curves::Align;
use trace::compare::gate::Limits;
use trace::compare::pairs::Load;
use trace::compare::phase::Rhythm;
use trace::compare::profile::Profile;
use trace::trace::Series;
use trace::units::Bytes;
use trace::watch::{Stopped, Watch};

/// How many profiles are kept.
const PROFILES: usize = 64;
/// How many traces are held in memory while curves are drawn; further ones are decoded one after
/// the other.
const HELD: usize = 2;
/// How many comparisons of two runs are kept.
const PAIRS: usize = 128;
/// Memory for comparing two runs, before the watch asks for more.
const PAIRING: Bytes = Bytes::mib(1);

/// Processor time that a profile may take: that of its verdict, and as much for everything else.
const PROFILING: Duration = Duration::from_secs(2 * JUDGING.as_secs());

/// The cache.
pub struct Comparisons {
    traces: Arc<Traces>,
    budget: Budget,
    kept: Arc<Kept>,
}

/// What is kept.
struct Kept {
    profiles: Recent<(i64, Texts), Weighed<Profile>>,
    pairs: Recent<(i64, i64, Texts), Weighed<Against>>,
}

impl Spare for Kept {
    /// All of it: it takes some hundred kilobytes for each run, and is made again in a moment.
    fn give_back(&self, _: Bytes) {
        self.pairs.forget();
        self.profiles.forget();
    }
}

/// Something with the permit for its memory.
pub struct Weighed<T> {
    value: T,
    _memory: Permit,
}

impl<T> Deref for Weighed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl Comparisons {
    /// Comparisons of the traces that `traces` decodes.
    pub fn new(traces: Arc<Traces>, budget: Budget) -> Comparisons {
        let kept = Arc::new(Kept {
            profiles: Recent::new(PROFILES),
            pairs: Recent::new(PAIRS),
        });
        let spare: Arc<dyn Spare> = Arc::clone(&kept) as Arc<dyn Spare>;
        budget.ask_first(Arc::downgrade(&spare));
        Comparisons {
            traces,
            budget,
            kept,
        }
    }

    /// Compares traces with the first of them. `texts` says which texts the reader may see.
    ///
    /// # Errors
    /// The database's, and [`StoreError::Undecodable`].
    pub async fn compare(
        &self,
        traces: &[i64],
        texts: Texts,
    ) -> StoreResult<Vec<Arc<Weighed<Against>>>> {
        let Some((&base, others)) = traces.split_first() else {
            return Ok(Vec::new());
        };
        let mut compared = Vec::with_capacity(others.len());
        for &new in others {
            let cell = self.kept.pairs.cell((base, new, texts));
            let make = || self.pair(base, new, texts);
            let against = cell.get_or_try_init(make).await?;
            compared.push(Arc::clone(against));
        }
        Ok(compared)
    }

    /// The profile of a trace.
    ///
    /// # Errors
    /// The database's, and [`StoreError::Undecodable`].
    pub async fn profile(&self, trace: i64, texts: Texts) -> StoreResult<Arc<Weighed<Profile>>> {
        let make = async || {
            let decoded = self.traces.get_for(trace, texts).await?;
            let memory = self.traces.memory_to_ask(&decoded, Ask::Stacks).await?;
            let profile = move |watch: Watch<'_>| {
                let time = ProcessorTime::from_now();
                // The verdict is not known after this time; but if the client goes, all ends.
                let judging = |_| time.used() <= JUDGING && watch.look(0).is_ok();
                Profile::judged_while(&decoded.trace, Watch::new(&judging), watch)
            };
            let made = answered(memory, PROFILING, profile).await?;
            self.weighed(made.heap_bytes(), made).await
        };
        let cell = self.kept.profiles.cell((trace, texts));
        cell.get_or_try_init(make).await.cloned()
    }

    async fn pair(&self, base: i64, new: i64, texts: Texts) -> StoreResult<Arc<Weighed<Against>>> {
        let base = self.profile(base, texts).await?;
        let new = self.profile(new, texts).await?;
        let memory = self.budget.take_more(PAIRING).await?;
        let work =
            move |watch: Watch<'_>| Against::while_watched(&base, &new, &Limits::default(), watch);
        let made = answered(memory, ANSWER_TIME, work).await?;
        self.weighed(made.heap_bytes(), made).await
    }

    /// Takes the memory for something that will be kept.
    async fn weighed<T>(&self, bytes: usize, value: T) -> StoreResult<Arc<Weighed<T>>> {
        let memory = self.budget.take_more(Bytes(bytes as u64)).await?;
        Ok(Arc::new(Weighed {
            value,
            _memory: memory,
        }))
    }

    /// Curves of runs over one axis; the first is the baseline.
    ///
    /// # Errors
    /// The database's, and [`StoreError::Undecodable`].
    pub async fn curves(&self, runs: &[StoredRun], wanted: CurvesWanted) -> StoreResult<Curves> {
        let loads: Vec<Vec<Load>> = runs.iter().map(loads).collect();
        let of_each = curves::of_each(&loads, wanted);
        let traces: Vec<i64> = runs.iter().map(|run| run.trace).collect();
        // Held until the curves are drawn, so that two large traces are decoded once, not twice.
        let mut held = Vec::with_capacity(HELD);
        for &trace in traces.iter().take(HELD) {
            held.push(self.traces.get(trace).await?);
        }
        let (axis, base) = self.axis(&traces, &held, &of_each).await?;
        let window = wanted.window.unwrap_or(axis.whole);
        let mut runs = Vec::with_capacity(traces.len());
        for (at, &trace) in traces.iter().enumerate() {
            let decoded = self.decoded(at, trace, &held).await?;
            let base = (at > 0).then(|| Arc::clone(&base));
            let (wanted, begins) = (of_each[at], axis.begins[at]);
            let memory = self.traces.memory_to_ask(&decoded, Ask::Known).await?;
            let draw = move |watch: Watch<'_>| {
                curves::curve(&decoded, base.as_deref(), wanted, window, begins, watch)
            };
            runs.push(answered(memory, ANSWER_TIME, draw).await?);
        }
        Ok(Curves {
            whole: axis.whole,
            window,
            begins: axis.begins,
            runs,
        })
    }

    /// The trace at a position: a held one, otherwise from the cache.
    async fn decoded(
        &self,
        at: usize,
        trace: i64,
        held: &[Arc<Decoded>],
    ) -> StoreResult<Arc<Decoded>> {
        match held.get(at) {
            Some(decoded) => Ok(Arc::clone(decoded)),
            None => self.traces.get(trace).await,
        }
    }

    /// Where all runs lie on the axis, and the rhythm of the baseline's steps.
    async fn axis(
        &self,
        traces: &[i64],
        held: &[Arc<Decoded>],
        of_each: &[CurvesWanted],
    ) -> StoreResult<(Axis, Arc<Rhythm>)> {
        let mut all = Vec::with_capacity(traces.len());
        let mut base: Option<Arc<Rhythm>> = None;
        for (at, &trace) in traces.iter().enumerate() {
            let decoded = self.decoded(at, trace, held).await?;
            let baseline = base.clone();
            let wanted = of_each[at];
            let memory = self.traces.memory_to_ask(&decoded, Ask::Known).await?;
            let look = move |watch: Watch<'_>| {
                watch.look(0)?;
                let Some(placed) = curves::placed(&decoded, baseline.as_deref(), wanted) else {
                    return Ok(None);
                };
                let rhythm = match baseline {
                    Some(_) => None,
                    None => Some(Arc::new(curves::rhythm(&decoded, wanted, watch)?)),
                };
                Ok(Some((placed, rhythm)))
            };
            let found = answered(memory, ANSWER_TIME, look).await?;
            let (placed, rhythm) = found.unzip();
            base = base.or(rhythm.flatten()).or_else(|| Some(Arc::default()));
            all.push(placed);
        }
        let align = of_each
            .first()
            .map_or_else(Align::default, |wanted| wanted.align);
        Ok((Axis::of(&all, align), base.unwrap_or_default()))
    }
}

/// How much happens on each device of a run, in the order of its trace.
fn loads(run: &StoredRun) -> Vec<Load> {
    let load = |device: &DeviceFacts| Load {
        peak: device.series(Series::Allocated).peak,
        events: device.events,
    };
    run.devices.iter().map(load).collect()
}

async fn answered<T: Send + 'static>(
    memory: Permit,
    limit: Duration,
    work: impl FnOnce(Watch<'_>) -> Result<T, Stopped> + Send + 'static,
) -> StoreResult<T> {
    while_awaited(memory, limit, |watch| Ok(work(watch)?)).await
}
