//! Decoded traces: loaded once however many requests need them, and kept while they fit.

use super::decode::{self, decode};
use crate::limits::budget::{Budget, Permit, Spare};
use crate::limits::work;
use crate::store::{Store, StoreError, StoreResult};
use answers::decoded::{Decoded, Held};
use answers::texts::{OwnNames, Texts};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::OnceCell;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use trace::naming::Rules;
use trace::steps::choices;
use trace::trace::Trace;
use trace::units::Bytes;

/// The data that a question needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The columns and their indexes.
    Known,
    /// The stacks of every block as well, to find its category or its loop.
    Stacks,
}

/// What drawing a card takes, SVG, which takes more than PNG.
fn card_takes() -> Bytes {
    Bytes(render::svg_takes(timeline::card::SIZE) as u64)
}

/// Two traces are always kept, however large: a comparison goes back and forth between them.
const ALWAYS_KEPT: usize = 2;

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
    /// Held while what the team calls blocks is stored and then used: what is used last must be
    /// what is stored last.
    pub renaming: tokio::sync::Mutex<()>,
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
            renaming: tokio::sync::Mutex::default(),
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

    /// The same, with the iterations of another loop as the steps: its key, or its word.
    ///
    /// # Errors
    /// As [`Traces::get`], and [`StoreError::UnknownLoop`] if there is no such loop.
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
        let checking = work::answer(move || choices::check(&checked.trace, &named));
        checking.await.map_err(|_| StoreError::Interrupted)??;
        let permit = self.budget.take_more(whole.weight()).await?;
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
        let takes = answering + reading;
        Ok(self.budget.take_beside(decoded.weight(), takes).await?)
    }

    /// Takes the memory for drawing the card of a trace, whatever format it has.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`].
    pub async fn memory_to_draw(&self, decoded: &Decoded) -> StoreResult<Permit> {
        let trace = &decoded.trace;
        let answering = Decoded::answering_takes(trace) + Decoded::reading_takes(trace);
        let takes = answering + card_takes();
        Ok(self.budget.take_beside(decoded.weight(), takes).await?)
    }

    /// Takes the memory for drawing a card of what was answered already.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`].
    pub async fn memory_for_card(&self) -> StoreResult<Permit> {
        Ok(self.budget.take_more(card_takes()).await?)
    }

    /// Keeps a trace that was decoded (or replayed) elsewhere.
    pub fn keep(&self, trace: i64, decoded: Arc<Decoded>) {
        self.keep_for((trace, Texts::All(decoded.own_names()), None), decoded);
    }

    fn keep_for(&self, key: Key, decoded: Arc<Decoded>) {
        let mut kept = lock(&self.kept);
        kept.retain(|other| other.key != key);
        kept.push(Kept { key, decoded });
        let mut weight: Bytes = kept.iter().map(|one| one.decoded.weight()).sum();
        while weight > self.limit && kept.len() > ALWAYS_KEPT {
            weight -= kept.remove(0).decoded.weight();
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
        permit.resize(decode::needs(&chunks)?).await?;
        let own = self.own_rules();
        let decoding = move || {
            let mut decoded = decode(chunks)?;
            match texts {
                Texts::Redacted(key) => trace::redact::trace(&mut decoded, key),
                Texts::All(OwnNames(key)) => {
                    // If the rules changed since the question, nobody gets half of both.
                    decoded.stacks.own = (key != 0 && key == own.key()).then_some(own);
                }
            }
            Ok::<_, StoreError>(decoded)
        };
        let decoded = work::answer(decoding)
            .await
            .map_err(|_| StoreError::Interrupted)??;
        permit.resize(Decoded::weight_of(&decoded)).await?;
        let decoded = Arc::new(Decoded::new(decoded, permit));
        self.keep_for((trace, texts, None), Arc::clone(&decoded));
        Ok(decoded)
    }
}

/// A copy with other steps.
fn cut(trace: &Trace, level: &str, permit: Permit) -> StoreResult<Decoded> {
    let mut trace = trace.clone();
    choices::recut_all(&mut trace, level)?;
    Ok(Decoded::new(trace, permit))
}

impl Held for Permit {
    fn shrink(&mut self, bytes: Bytes) {
        Permit::shrink(self, bytes);
    }
}

impl Spare for Traces {
    fn give_back(&self, bytes: Bytes) {
        let mut kept = lock(&self.kept);
        let mut given = Bytes::ZERO;
        while given < bytes && !kept.is_empty() {
            given += kept.remove(0).decoded.weight();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
