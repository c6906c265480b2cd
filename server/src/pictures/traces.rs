//! Decoded traces: loaded once however many ask, kept while they fit.

use crate::budget::{Budget, Permit, Spare};
use crate::store::{Store, StoreError, StoreResult};
use crate::texts::Texts;
use crate::work;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use trace::categories::{self, Categories};
use trace::intervals::LiveIndex;
use trace::oom;
use trace::steps::levels;
use trace::tiles::{GroupBy, MountainIndex};
use trace::trace::{DeviceTrace, Trace};
use trace::units::Bytes;

/// A trace in memory, with what its mountains need.
pub struct Decoded {
    /// The trace.
    pub trace: Trace,
    indexes: Mutex<HashMap<(u32, GroupBy), Arc<MountainIndex>>>,
    live: Mutex<HashMap<u32, Arc<LiveIndex>>>,
    categories: Mutex<HashMap<u32, Arc<Categories>>>,
    /// The memory that all of this may take.
    weight: Bytes,
    /// Says that this memory may be used, and more while it is being stored.
    permit: Mutex<Permit>,
}

impl Decoded {
    /// A decoded trace, in memory of which the permit says that it may be used.
    pub fn new(trace: Trace, permit: Permit) -> Decoded {
        Decoded {
            weight: Decoded::weight_of(&trace),
            trace,
            indexes: Mutex::default(),
            live: Mutex::default(),
            categories: Mutex::default(),
            permit: Mutex::new(permit),
        }
    }

    /// Memory that a trace takes, with the indexes that are made of it.
    pub fn weight_of(trace: &Trace) -> Bytes {
        let blocks: usize = trace.devices.iter().map(|device| device.blocks.len()).sum();
        Bytes((trace.heap_bytes() + blocks * PER_BLOCK) as u64)
    }

    /// Memory that one answer takes.
    pub fn answering_takes(trace: &Trace) -> Bytes {
        let stacks = &trace.stacks;
        let names = stacks.len() + stacks.n_frames();
        let devices = trace.devices.iter().map(|device| {
            let kinds = device.blocks.kinds.len();
            // A site keeps something for each step (trace::leaks), a group has its levels.
            let cells = kinds.saturating_mul(device.steps.len()).min(CELLS);
            (kinds + names) * PER_GROUP + cells * PER_CELL
        });
        // One device is asked at a time.
        Bytes((devices.max().unwrap_or(0) + WORK) as u64)
    }

    /// Memory that it takes to read the stacks of a device once more: what its blocks are for, and
    /// which loops there are.
    pub fn reading_takes(trace: &Trace) -> Bytes {
        let devices = trace.devices.iter();
        let most = devices.map(|device| {
            let categories = categories::memory_needed(device, &trace.stacks);
            categories.max(levels::memory_needed(device, &trace.stacks))
        });
        Bytes(most.max().unwrap_or(0) as u64)
    }

    /// Bytes of memory that storing a trace takes besides: a table of its addresses, and what its
    /// pictures and its verdict take.
    pub fn storing_takes(trace: &Trace) -> Bytes {
        let blocks: usize = trace.devices.iter().map(|device| device.blocks.len()).sum();
        let encoding = Bytes((blocks * 48 + (8 << 20)) as u64);
        let failed = trace.devices.iter().any(|device| oom::count(device) > 0);
        let judging = match is_judged_now(trace) {
            true => Decoded::answering_takes(trace) + Decoded::reading_takes(trace),
            false => Bytes::ZERO,
        };
        let marking = match failed {
            true => Decoded::reading_takes(trace),
            false => Bytes::ZERO,
        };
        encoding.max(judging).max(marking)
    }

    /// It is stored: what that took goes back.
    pub fn settle(&self) {
        lock(&self.permit).shrink(self.weight);
    }

    /// The device with this CUDA ordinal.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn device(&self, device: u32) -> StoreResult<&DeviceTrace> {
        let found = self.trace.devices.iter().find(|d| d.device == device);
        found.ok_or_else(|| StoreError::NotFound {
            what: "device",
            id: device.to_string(),
        })
    }

    /// What mountains of a device need, by one grouping: made once.
    pub fn mountain_index(&self, device: &DeviceTrace, group_by: GroupBy) -> Arc<MountainIndex> {
        let key = (device.device, group_by);
        if let Some(index) = lock(&self.indexes).get(&key) {
            return Arc::clone(index);
        }
        let index = Arc::new(MountainIndex::new(device, group_by, &self.trace.stacks));
        Arc::clone(lock(&self.indexes).entry(key).or_insert(index))
    }

    /// What questions about moments of a device need: made once.
    pub fn live_index(&self, device: &DeviceTrace) -> Arc<LiveIndex> {
        let mut live = lock(&self.live);
        let index = live.entry(device.device);
        Arc::clone(index.or_insert_with(|| Arc::new(LiveIndex::new(&device.blocks))))
    }

    /// What the blocks of a device are for: inferred once.
    pub fn categories(&self, device: &DeviceTrace) -> Arc<Categories> {
        let mut categories = lock(&self.categories);
        let known = categories.entry(device.device);
        let infer = || Arc::new(Categories::of(device, &self.trace.stacks));
        Arc::clone(known.or_insert_with(infer))
    }
}

/// What a question has to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The columns and their indexes.
    Known,
    /// What the stacks say of every block as well: what it is for, which loop it is made in.
    Stacks,
}

/// Two, however large: a comparison goes back and forth between them.
const ALWAYS_KEPT: usize = 2;

/// Bytes of a block in the indexes of moments and mountains, and of what it is for.
const PER_BLOCK: usize = 16 + 1;
/// Bytes of a group with its names, in an answer.
const PER_GROUP: usize = 96;
/// Bytes of what a place keeps at a step, and how many of these there are at most.
const PER_CELL: usize = 25;
const CELLS: usize = trace::leaks::MAX_CELLS;
/// Bytes of any work.
const WORK: usize = 2 << 20;
/// Reports of damage that wait: every request for a damaged trace makes one.
const DAMAGED: usize = 64;

/// A trace, how much of its texts is left, and the loop that its steps are the iterations of
/// (`None`: the one that is found).
type Key = (i64, Texts, Option<String>);

/// A trace in the cache.
struct Kept {
    key: Key,
    decoded: Arc<Decoded>,
}

/// The cache.
pub struct Traces {
    store: Store,
    budget: Budget,
    limit: Bytes,
    /// Least recently used first.
    kept: Mutex<Vec<Kept>>,
    loading: Mutex<HashMap<Key, Arc<OnceCell<Arc<Decoded>>>>>,
    /// Traces that are damaged, to be derived again.
    damaged: Sender<i64>,
    told: Mutex<Option<Receiver<i64>>>,
}

impl Traces {
    /// Traces of `store`, of which at most `limit` bytes are kept (but always the last
    /// two).
    pub fn new(store: Store, budget: Budget, limit: Bytes) -> Traces {
        let (damaged, told) = channel(DAMAGED);
        Traces {
            store,
            budget,
            limit,
            kept: Mutex::default(),
            loading: Mutex::default(),
            damaged,
            told: Mutex::new(Some(told)),
        }
    }

    /// Where damaged traces are reported; taken by the first caller.
    pub fn damaged(&self) -> Option<Receiver<i64>> {
        lock(&self.told).take()
    }

    /// A trace, decoded now or before, with all its texts.
    ///
    /// # Errors
    /// The database's, and [`StoreError::Undecodable`].
    pub async fn get(&self, trace: i64) -> StoreResult<Arc<Decoded>> {
        self.get_for(trace, Texts::All).await
    }

    /// A trace, decoded now or before, with the texts that its reader may see.
    ///
    /// # Errors
    /// As [`Traces::get`].
    pub async fn get_for(&self, trace: i64, texts: Texts) -> StoreResult<Arc<Decoded>> {
        let key = (trace, texts, None);
        if let Some(decoded) = self.cached(&key) {
            return Ok(decoded);
        }
        // The first request decodes; the others wait for the same cell.
        let cell = Arc::clone(lock(&self.loading).entry(key.clone()).or_default());
        let decoded = cell
            .get_or_try_init(|| self.load(trace, texts))
            .await
            .cloned();
        lock(&self.loading).remove(&key);
        decoded
    }

    /// The same, where the iterations of another loop are the steps.
    ///
    /// # Errors
    /// As [`Traces::get`], and [`StoreError::NotFound`] where there is no such loop.
    pub async fn get_cut(
        &self,
        trace: i64,
        texts: Texts,
        level: Option<&str>,
    ) -> StoreResult<Arc<Decoded>> {
        let Some(level) = level else {
            return self.get_for(trace, texts).await;
        };
        let key = (trace, texts, Some(level.to_owned()));
        if let Some(decoded) = self.cached(&key) {
            return Ok(decoded);
        }
        let whole = self.get_for(trace, texts).await?;
        let level = level.to_owned();
        // What is not a loop costs no copy.
        let (checked, named) = (Arc::clone(&whole), level.clone());
        let memory = self.memory_to_ask(&whole, Ask::Stacks).await?;
        let checking = work::answer(move || check_level(&checked.trace, &named));
        checking.await.map_err(|_| StoreError::Interrupted)??;
        let permit = self.budget.take(whole.weight).await?;
        let cutting = work::answer(move || {
            let _memory = memory;
            cut(&whole.trace, &level, permit)
        });
        let decoded = Arc::new(cutting.await.map_err(|_| StoreError::Interrupted)??);
        self.keep_for(key, Arc::clone(&decoded));
        Ok(decoded)
    }

    /// The memory that it takes to answer a question to a trace, for as long as that takes.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`].
    pub async fn memory_to_ask(&self, decoded: &Decoded, what: Ask) -> StoreResult<Permit> {
        let trace = &decoded.trace;
        let reading = match what {
            Ask::Known => Bytes::ZERO,
            Ask::Stacks => Decoded::reading_takes(trace),
        };
        let answering = Decoded::answering_takes(trace);
        Ok(self.budget.take(answering + reading).await?)
    }

    /// Keeps a trace that was decoded (or replayed) elsewhere.
    pub fn keep(&self, trace: i64, decoded: Arc<Decoded>) {
        self.keep_for((trace, Texts::All, None), decoded);
    }

    fn keep_for(&self, key: Key, decoded: Arc<Decoded>) {
        let mut kept = lock(&self.kept);
        kept.retain(|other| other.key != key);
        kept.push(Kept { key, decoded });
        let mut weight: Bytes = kept.iter().map(|one| one.decoded.weight).sum();
        while weight > self.limit && kept.len() > ALWAYS_KEPT {
            weight -= kept.remove(0).decoded.weight;
        }
    }

    /// Drops everything, so that it is decoded again.
    #[cfg(test)]
    pub fn forget_all(&self) {
        lock(&self.kept).clear();
    }

    fn cached(&self, key: &Key) -> Option<Arc<Decoded>> {
        let mut kept = lock(&self.kept);
        let at = kept.iter().position(|one| one.key == *key)?;
        let used = kept.remove(at);
        let decoded = Arc::clone(&used.decoded);
        kept.push(used);
        Some(decoded)
    }

    async fn load(&self, trace: i64, texts: Texts) -> StoreResult<Arc<Decoded>> {
        let loaded = self.decode(trace, texts).await;
        if loaded.as_ref().is_err_and(StoreError::is_of_derived) {
            // Nothing listens where the store is read-only. Where many wait already, whoever asks
            // for this one next reports it again.
            let _ = self.damaged.try_send(trace);
        }
        loaded
    }

    async fn decode(&self, trace: i64, texts: Texts) -> StoreResult<Arc<Decoded>> {
        let unpacked = self.store.read(move |reader| reader.chunks_bytes(trace));
        let unpacked = unpacked.await?;
        let mut permit = self.budget.take(Bytes(unpacked)).await?;
        let chunks = self.store.read(move |reader| reader.chunks(trace)).await?;
        let needed = unpacked + trace::stored::memory_needed(&chunks) as u64;
        permit.resize(Bytes(needed)).await?;
        let decode = move || {
            let mut decoded = trace::stored::decode(chunks)?;
            if let Texts::Redacted(key) = texts {
                trace::redact::trace(&mut decoded, key);
            }
            Ok(decoded)
        };
        let decoded = work::answer(decode)
            .await
            .map_err(|_| StoreError::Interrupted)?;
        let decoded = decoded.map_err(StoreError::Undecodable)?;
        permit.resize(Decoded::weight_of(&decoded)).await?;
        let decoded = Arc::new(Decoded::new(decoded, permit));
        self.keep_for((trace, texts, None), Arc::clone(&decoded));
        Ok(decoded)
    }
}

/// Refuses a loop that no device has.
fn check_level(trace: &Trace, level: &str) -> StoreResult<()> {
    let is_named = |device: &DeviceTrace| {
        let levels = levels::of_device(device, &trace.stacks);
        levels.iter().any(|known| known.key == level)
    };
    match trace.devices.iter().any(is_named) {
        true => Ok(()),
        false => Err(no_loop(level.to_owned())),
    }
}

fn no_loop(level: String) -> StoreError {
    StoreError::NotFound {
        what: "loop to take for steps",
        id: level,
    }
}

/// A copy with other steps.
fn cut(trace: &Trace, level: &str, permit: Permit) -> StoreResult<Decoded> {
    let mut trace = trace.clone();
    levels::recut_all(&mut trace, level).map_err(|unknown| no_loop(unknown.key))?;
    Ok(Decoded::new(trace, permit))
}

impl Spare for Traces {
    fn give_back(&self, bytes: Bytes) {
        let mut kept = lock(&self.kept);
        let mut given = Bytes::ZERO;
        while given < bytes && !kept.is_empty() {
            given += kept.remove(0).decoded.weight;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks of a trace that is judged while it is stored: some tens of milliseconds.
const SMALL: usize = 400_000;

/// Whether a trace is small enough to be judged while it is stored.
pub fn is_judged_now(trace: &Trace) -> bool {
    let blocks: usize = trace.devices.iter().map(|d| d.blocks.len()).sum();
    blocks <= SMALL
}
