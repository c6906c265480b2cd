//! Decoded traces: loaded once however many ask, kept while they fit.

use crate::store::{Store, StoreError, StoreResult};
use crate::texts::Texts;
use crate::work;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use trace::categories::Categories;
use trace::intervals::LiveIndex;
use trace::steps::levels;
use trace::tiles::{GroupBy, MountainIndex};
use trace::trace::{DeviceTrace, Trace};

/// A trace in memory, with what its mountains need.
pub struct Decoded {
    /// The trace.
    pub trace: Trace,
    indexes: Mutex<HashMap<(u32, GroupBy), Arc<MountainIndex>>>,
    live: Mutex<HashMap<u32, Arc<LiveIndex>>>,
    categories: Mutex<HashMap<u32, Arc<Categories>>>,
    weight: usize,
}

impl Decoded {
    /// A decoded trace.
    pub fn new(trace: Trace) -> Decoded {
        let weight = trace.devices.iter().map(device_bytes).sum::<usize>()
            + trace.stacks.strings.text_len()
            + trace.stacks.n_frames() * 12;
        Decoded {
            trace,
            indexes: Mutex::default(),
            live: Mutex::default(),
            categories: Mutex::default(),
            weight,
        }
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

/// Two, however large: a comparison goes back and forth between them.
const ALWAYS_KEPT: usize = 2;

/// Bytes of memory, from the lengths of the columns.
fn device_bytes(device: &DeviceTrace) -> usize {
    const PER_EVENT: usize = 1 + 4 + 4;
    const PER_BLOCK: usize = 4 + 4 + 4 + 8 + 4;
    // The index of live blocks, made when the first mountain is drawn, is about as much again; and
    // what each block is for.
    const PER_BLOCK_INDEX: usize = 16 + 1;
    device.events.action.len() * PER_EVENT
        + device.blocks.len() * (PER_BLOCK + PER_BLOCK_INDEX)
        + device.pyramid.heap_bytes()
}

/// A trace, how much of its texts is left, and the loop that its steps are the iterations of
/// (`None`: the one that is found).
type Key = (i64, Texts, Option<String>);

/// A trace in the cache, and when it was used.
struct Kept {
    key: Key,
    decoded: Arc<Decoded>,
    used: Instant,
}

/// The cache.
pub struct Traces {
    store: Store,
    limit: usize,
    /// Least recently used first.
    kept: Mutex<Vec<Kept>>,
    loading: Mutex<HashMap<Key, Arc<OnceCell<Arc<Decoded>>>>>,
    /// Traces that are damaged, for whoever derives them again.
    damaged: UnboundedSender<i64>,
    told: Mutex<Option<UnboundedReceiver<i64>>>,
}

impl Traces {
    /// Traces of `store`, of which at most `limit` bytes are kept (but always the last
    /// two).
    pub fn new(store: Store, limit: usize) -> Traces {
        let (damaged, told) = unbounded_channel();
        Traces {
            store,
            limit,
            kept: Mutex::default(),
            loading: Mutex::default(),
            damaged,
            told: Mutex::new(Some(told)),
        }
    }

    /// Where damaged traces are told; for the first who asks.
    pub fn damaged(&self) -> Option<UnboundedReceiver<i64>> {
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
        // Whoever comes first decodes; the others wait for the same cell.
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
        let cutting = work::answer(move || cut(&whole.trace, level));
        let decoded = Arc::new(cutting.await.map_err(|_| StoreError::Interrupted)??);
        self.keep_for(key, Arc::clone(&decoded));
        Ok(decoded)
    }

    /// Keeps a trace that was decoded (or replayed) elsewhere.
    pub fn keep(&self, trace: i64, decoded: Arc<Decoded>) {
        self.keep_for((trace, Texts::All, None), decoded);
    }

    fn keep_for(&self, key: Key, decoded: Arc<Decoded>) {
        let mut kept = lock(&self.kept);
        kept.retain(|other| other.key != key);
        kept.push(Kept {
            key,
            decoded,
            used: Instant::now(),
        });
        let mut weight: usize = kept.iter().map(|one| one.decoded.weight).sum();
        while weight > self.limit && kept.len() > ALWAYS_KEPT {
            weight -= kept.remove(0).decoded.weight;
        }
    }

    /// Makes room, for an upload is about to need memory: what was not used for so long goes.
    pub fn forget_unseen(&self, time: Duration) {
        lock(&self.kept).retain(|one| one.used.elapsed() < time);
    }

    fn cached(&self, key: &Key) -> Option<Arc<Decoded>> {
        let mut kept = lock(&self.kept);
        let at = kept.iter().position(|one| one.key == *key)?;
        let mut used = kept.remove(at);
        used.used = Instant::now();
        let decoded = Arc::clone(&used.decoded);
        kept.push(used);
        Some(decoded)
    }

    async fn load(&self, trace: i64, texts: Texts) -> StoreResult<Arc<Decoded>> {
        let loaded = self.decode(trace, texts).await;
        if loaded.as_ref().is_err_and(StoreError::is_of_derived) {
            // Nobody may be listening, where nothing can be written.
            let _ = self.damaged.send(trace);
        }
        loaded
    }

    async fn decode(&self, trace: i64, texts: Texts) -> StoreResult<Arc<Decoded>> {
        let chunks = self.store.read(move |reader| reader.chunks(trace)).await?;
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
        let decoded = Arc::new(Decoded::new(decoded.map_err(StoreError::Undecodable)?));
        self.keep_for((trace, texts, None), Arc::clone(&decoded));
        Ok(decoded)
    }
}

/// A copy with other steps. What is no loop costs no copy.
fn cut(trace: &Trace, level: String) -> StoreResult<Decoded> {
    let is_named = |device: &DeviceTrace| {
        let levels = levels::of_device(device, &trace.stacks);
        levels.iter().any(|known| known.key == level)
    };
    let missing = |level: String| StoreError::NotFound {
        what: "loop to take for steps",
        id: level,
    };
    if !trace.devices.iter().any(is_named) {
        return Err(missing(level));
    }
    let mut trace = trace.clone();
    levels::recut_all(&mut trace, &level).map_err(|unknown| missing(unknown.key))?;
    Ok(Decoded::new(trace))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
