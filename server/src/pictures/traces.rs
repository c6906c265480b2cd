//! Decoded traces: loaded once however many requests need them, and kept while they fit.

use crate::budget::{Budget, Permit, Spare};
use crate::store::{Store, StoreError, StoreResult};
use crate::texts::{OwnNames, Texts};
use crate::work;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::OnceCell;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use trace::categories::{self, Categories};
use trace::intervals::LiveIndex;
use trace::naming::Rules;
use trace::oom;
use trace::steps::levels;
use trace::tiles::{GroupBy, MountainIndex};
use trace::trace::{DeviceTrace, Trace};
use trace::units::Bytes;

/// A trace in memory, with the indexes for its mountains.
pub struct Decoded {
    /// The trace.
    pub trace: Trace,
    indexes: Mutex<HashMap<(u32, GroupBy), Arc<MountainIndex>>>,
    live: Mutex<HashMap<u32, Arc<LiveIndex>>>,
    categories: Mutex<HashMap<u32, Arc<Categories>>>,
    /// The most memory that all of this takes.
    weight: Bytes,
    /// The permit for this memory, and for more while the trace is being stored.
    permit: Mutex<Permit>,
}

impl Decoded {
    /// A decoded trace, with the permit for its memory.
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

    /// Which names of the team's own it has.
    pub fn own_names(&self) -> OwnNames {
        let own = self.trace.stacks.own.as_deref();
        OwnNames(own.map_or(0, Rules::key))
    }

    /// Memory of a trace and of the indexes that are made from it.
    pub fn weight_of(trace: &Trace) -> Bytes {
        let blocks: usize = trace.devices.iter().map(|device| device.blocks.len()).sum();
        Bytes((trace.heap_bytes() + blocks * PER_BLOCK) as u64)
    }

    /// Memory for one answer.
    pub fn answering_takes(trace: &Trace) -> Bytes {
        let stacks = &trace.stacks;
        let names = stacks.len() + stacks.n_frames();
        let devices = trace.devices.iter().map(|device| {
            let kinds = device.blocks.kinds.len();
            // A site keeps something for each step (trace::leaks), and a group has its levels.
            let cells = kinds.saturating_mul(device.steps.len()).min(CELLS);
            (kinds + names) * PER_GROUP + cells * PER_CELL
        });
        // A question is about one device at a time.
        Bytes((devices.max().unwrap_or(0) + WORK) as u64)
    }

    /// Memory for reading the stacks of a device once more: to find the categories of its blocks,
    /// and its loops.
    pub fn reading_takes(trace: &Trace) -> Bytes {
        let devices = trace.devices.iter();
        let most = devices.map(|device| {
            let categories = categories::memory_needed(device, &trace.stacks);
            categories.max(levels::memory_needed(device, &trace.stacks))
        });
        Bytes(most.max().unwrap_or(0) as u64)
    }

    /// Additional memory for storing a trace: a table of its addresses, its pictures and its
    /// verdict.
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

    /// Gives back the memory for storing, after the trace is stored.
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

    /// The index for mountains of a device with one grouping; made once.
    pub fn mountain_index(&self, device: &DeviceTrace, group_by: GroupBy) -> Arc<MountainIndex> {
        let key = (device.device, group_by);
        if let Some(index) = lock(&self.indexes).get(&key) {
            return Arc::clone(index);
        }
        let index = Arc::new(MountainIndex::new(device, group_by, &self.trace.stacks));
        Arc::clone(lock(&self.indexes).entry(key).or_insert(index))
    }

    /// The index for questions about moments of a device; made once.
    pub fn live_index(&self, device: &DeviceTrace) -> Arc<LiveIndex> {
        let mut live = lock(&self.live);
        let index = live.entry(device.device);
        Arc::clone(index.or_insert_with(|| Arc::new(LiveIndex::new(&device.blocks))))
    }

    /// The categories of a device's blocks; inferred once.
    pub fn categories(&self, device: &DeviceTrace) -> Arc<Categories> {
        let mut categories = lock(&self.categories);
        let known = categories.entry(device.device);
        let infer = || Arc::new(Categories::of(device, &self.trace.stacks));
        Arc::clone(known.or_insert_with(infer))
    }
}

/// The data that a question needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The columns and their indexes.
    Known,
    /// The stacks of every block as well, to find its category or its loop.
    Stacks,
}

/// Two traces are always kept, however large: a comparison goes back and forth between them.
const ALWAYS_KEPT: usize = 2;

/// Bytes for a block in the indexes of moments and mountains, and for its category.
const PER_BLOCK: usize = 16 + 2;
/// Bytes of a group with its names, in an answer.
const PER_GROUP: usize = 96;
/// Bytes for one place at one step, and the largest number of these.
const PER_CELL: usize = 25;
const CELLS: usize = trace::leaks::MAX_CELLS;
/// Bytes that any work needs.
const WORK: usize = 2 << 20;
/// How many reports of damage may wait: every request for a damaged trace makes one.
const DAMAGED: usize = 64;

/// A trace, which texts are left in it, and the loop that gives its steps (`None`: the one that
/// Tidemark finds).
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
    /// Damaged traces, which must be derived again.
    damaged: Sender<i64>,
    /// What the team calls blocks.
    own: RwLock<Arc<Rules>>,
    told: Mutex<Option<Receiver<i64>>>,
}

impl Traces {
    /// Traces of `store`; at most `limit` bytes are kept, but always the last two traces.
    pub fn new(store: Store, budget: Budget, limit: Bytes) -> Traces {
        let (damaged, told) = channel(DAMAGED);
        Traces {
            store,
            budget,
            limit,
            kept: Mutex::default(),
            loading: Mutex::default(),
            damaged,
            own: RwLock::default(),
            told: Mutex::new(Some(told)),
        }
    }

    /// The channel for reports of damaged traces; only the first caller gets it.
    pub fn damaged(&self) -> Option<Receiver<i64>> {
        lock(&self.told).take()
    }

    /// The rules for the team's own categories.
    pub fn own_rules(&self) -> Arc<Rules> {
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&own)
    }

    /// Identifies these rules.
    pub fn own_names(&self) -> OwnNames {
        OwnNames(self.own_rules().key())
    }

    /// What a reader sees who may see everything.
    pub fn all_texts(&self) -> Texts {
        Texts::All(self.own_names())
    }

    /// From now on, blocks are called by these rules. Traces that have other names are dropped.
    pub fn call_blocks(&self, rules: Rules) {
        let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        *own = Arc::new(rules);
        drop(own);
        let now = self.all_texts();
        let is_current = |one: &Kept| one.key.1.are_redacted() || one.key.1 == now;
        lock(&self.kept).retain(is_current);
    }

    /// Gives a trace that was read or replayed the team's own names.
    pub fn name_blocks(&self, trace: &mut Trace) {
        let rules = self.own_rules();
        trace.stacks.own = (!rules.is_empty()).then_some(rules);
    }

    /// A trace with all its texts, decoded now or earlier.
    ///
    /// # Errors
    /// The database's, and [`StoreError::Undecodable`].
    pub async fn get(&self, trace: i64) -> StoreResult<Arc<Decoded>> {
        self.get_for(trace, self.all_texts()).await
    }

    /// A trace with the texts that its reader may see, decoded now or earlier.
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

    /// The same, with the iterations of another loop as the steps.
    ///
    /// # Errors
    /// As [`Traces::get`], and [`StoreError::NotFound`] if there is no such loop.
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
        // If the name is not a loop, no copy is made.
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

    /// Takes the memory for answering a question about a trace, for as long as that takes.
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
        self.keep_for((trace, Texts::All(decoded.own_names()), None), decoded);
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
            // If the store is read-only, nobody listens. If too many reports wait, the next request
            // for this trace reports it again.
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
        let own = self.own_rules();
        let decode = move || {
            let mut decoded = trace::stored::decode(chunks)?;
            match texts {
                Texts::Redacted(key) => trace::redact::trace(&mut decoded, key),
                Texts::All(OwnNames(key)) => {
                    // If the rules changed since the question, nobody gets half of both.
                    decoded.stacks.own = (key != 0 && key == own.key()).then_some(own);
                }
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

/// Traces with at most this many blocks are judged while they are stored: that takes some tens of
/// milliseconds.
const SMALL: usize = 400_000;

/// Whether a trace is small enough to be judged while it is stored.
pub fn is_judged_now(trace: &Trace) -> bool {
    let blocks: usize = trace.devices.iter().map(|d| d.blocks.len()).sum();
    blocks <= SMALL
}
