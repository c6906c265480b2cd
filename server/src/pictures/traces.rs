//! Decoded traces: loaded once however many ask, kept while they fit.

use crate::store::{Store, StoreError, StoreResult};
use crate::texts::Texts;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;
use trace::intervals::LiveIndex;
use trace::tiles::{GroupBy, MountainIndex};
use trace::trace::{DeviceTrace, Trace};

/// A trace in memory, with what its mountains need.
pub struct Decoded {
    /// The trace.
    pub trace: Trace,
    indexes: Mutex<HashMap<(u32, GroupBy), Arc<MountainIndex>>>,
    live: Mutex<HashMap<u32, Arc<LiveIndex>>>,
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
}

/// Two, however large: a comparison goes back and forth between them.
const ALWAYS_KEPT: usize = 2;

/// Bytes of memory, from the lengths of the columns.
fn device_bytes(device: &DeviceTrace) -> usize {
    const PER_EVENT: usize = 1 + 4 + 4;
    const PER_BLOCK: usize = 4 + 4 + 4 + 8 + 4;
    // The index of live blocks, made when the first mountain is drawn, is about as much again.
    const PER_BLOCK_INDEX: usize = 16;
    device.events.action.len() * PER_EVENT
        + device.blocks.len() * (PER_BLOCK + PER_BLOCK_INDEX)
        + device.pyramid.heap_bytes()
}

/// A trace, and how much of its texts is left.
type Key = (i64, Texts);

/// The cache.
pub struct Traces {
    store: Store,
    limit: usize,
    /// Least recently used first.
    kept: Mutex<Vec<(Key, Arc<Decoded>)>>,
    loading: Mutex<HashMap<Key, Arc<OnceCell<Arc<Decoded>>>>>,
}

impl Traces {
    /// Traces of `store`, of which at most `limit` bytes are kept (but always the last
    /// two).
    pub fn new(store: Store, limit: usize) -> Traces {
        Traces {
            store,
            limit,
            kept: Mutex::default(),
            loading: Mutex::default(),
        }
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
        let key = (trace, texts);
        if let Some(decoded) = self.cached(key) {
            return Ok(decoded);
        }
        // Whoever comes first decodes; the others wait for the same cell.
        let cell = Arc::clone(lock(&self.loading).entry(key).or_default());
        let decoded = cell.get_or_try_init(|| self.load(key)).await.cloned();
        lock(&self.loading).remove(&key);
        decoded
    }

    /// Keeps a trace that was decoded (or replayed) elsewhere.
    pub fn keep(&self, trace: i64, decoded: Arc<Decoded>) {
        self.keep_for((trace, Texts::All), decoded);
    }

    fn keep_for(&self, key: Key, decoded: Arc<Decoded>) {
        let mut kept = lock(&self.kept);
        kept.retain(|(other, _)| *other != key);
        kept.push((key, decoded));
        let mut weight: usize = kept.iter().map(|(_, d)| d.weight).sum();
        while weight > self.limit && kept.len() > ALWAYS_KEPT {
            weight -= kept.remove(0).1.weight;
        }
    }

    /// Makes room, for an upload is about to need memory.
    pub fn forget_all(&self) {
        lock(&self.kept).clear();
    }

    fn cached(&self, key: Key) -> Option<Arc<Decoded>> {
        let mut kept = lock(&self.kept);
        let at = kept.iter().position(|(other, _)| *other == key)?;
        let used = kept.remove(at);
        let decoded = Arc::clone(&used.1);
        kept.push(used);
        Some(decoded)
    }

    async fn load(&self, (trace, texts): Key) -> StoreResult<Arc<Decoded>> {
        let chunks = self.store.read(move |reader| reader.chunks(trace)).await?;
        let decode = move || {
            let mut decoded = trace::stored::decode(chunks)?;
            if let Texts::Redacted(key) = texts {
                trace::redact::trace(&mut decoded, key);
            }
            Ok(decoded)
        };
        let decoding = tokio::task::spawn_blocking(decode);
        let decoded = decoding.await.map_err(|_| StoreError::Interrupted)?;
        let decoded = Arc::new(Decoded::new(decoded.map_err(StoreError::Undecodable)?));
        self.keep_for((trace, texts), Arc::clone(&decoded));
        Ok(decoded)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
