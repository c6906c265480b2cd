//! Pictures of a run: tiles and marks. They are drawn once and then served unchanged.
//!
//! The overview of each device (the whole run, with lines, mountain by stack, and marks) is drawn
//! while the run is stored. So the first picture behind a link needs no decoding. Everything else
//! is drawn from the decoded trace, which a limited cache holds, and is then stored in the
//! database.

mod decode;
mod traces;

pub use answers::decoded::{Decoded, is_judged_now};
pub use answers::pictures::{Picture, details, marks_beside_host};
pub use decode::decode;
pub use traces::{Ask, Traces};

use crate::limits::answering::{ANSWER_TIME, while_awaited};
use crate::limits::budget::{Budget, Spare};
use crate::limits::turns::Turns;
use crate::limits::work;
use crate::store::{Keep, Store, StoreError, StoreResult, TileKey, Writer, pack_tile};
use answers::texts::Texts;
use api::ids::RunId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Semaphore;
use trace::device::DeviceIdx;
use trace::tiles::GroupBy;
use trace::units::Bytes;
use trace::watch::{Stopped, Watch};
use tracing::Instrument;

/// Bytes of tiles in the database, without overviews.
const CACHED_TILES: u64 = 512 << 20;

/// How many pictures, of at most 100 KB, may wait to be stored.
const KEEPING: usize = 64;

/// After this many drawn tiles, the size of the cached ones is checked.
const TRIM_EVERY: u32 = 256;

/// The key of a picture in the database.
pub fn key(picture: Picture, trace: i64, device: DeviceIdx) -> TileKey {
    let (kind, id) = picture.kind();
    TileKey {
        trace,
        device,
        kind,
        level: id.level,
        index: id.index,
        version: picture.version(),
    }
}

/// Its key in the database, for readers who may see these texts.
pub fn key_for(picture: Picture, trace: i64, device: DeviceIdx, texts: Texts) -> TileKey {
    let mut key = key(picture, trace, device);
    let differs = match texts {
        Texts::Redacted(_) => picture.has_texts(),
        Texts::All(_) => picture.has_categories(),
    };
    if let Some(tag) = texts.tag().filter(|_| differs) {
        key.kind = format!("{tag}/{}", key.kind);
    }
    key
}

/// What is needed to draw a picture.
fn asks(picture: Picture) -> Ask {
    match picture {
        Picture::Series(_) => Ask::Known,
        Picture::Mountain(group, _) if group != GroupBy::Category => Ask::Known,
        Picture::Mountain(..) | Picture::Marks | Picture::Contents => Ask::Stacks,
    }
}

/// Draws and stores pictures.
#[derive(Clone)]
pub struct Pictures {
    store: Store,
    /// Tiles drawn since the start.
    drawn: Arc<AtomicU32>,
    /// Places for pictures that wait to be stored.
    keeping: Arc<Semaphore>,
    /// Turns at drawing. A picture holds its trace while it waits for memory and for a processor,
    /// so it waits for its turn before it takes the trace.
    drawing: Turns,
    /// The decoded traces.
    pub traces: Arc<Traces>,
}

impl Pictures {
    /// Pictures of the runs in `store`. Unused decoded traces may take `cache` of the budget, but
    /// at most half of it: uploads need the rest.
    pub fn new(store: Store, budget: &Budget, cache: Bytes) -> Pictures {
        let cache = cache.min(Bytes(budget.total().get() / 2));
        let traces = Arc::new(Traces::new(store.clone(), budget.clone(), cache));
        let spare: Arc<dyn Spare> = Arc::clone(&traces) as Arc<dyn Spare>;
        budget.ask_first(Arc::downgrade(&spare));
        Pictures {
            store,
            traces,
            drawn: Arc::default(),
            keeping: Arc::new(Semaphore::new(KEEPING)),
            drawing: Turns::new(work::cores()),
        }
    }

    /// A picture, packed (zstd), with the texts that its reader may see.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such run or device; the database's.
    pub async fn get(
        &self,
        run: &RunId,
        device: DeviceIdx,
        picture: Picture,
        texts: Texts,
    ) -> StoreResult<Vec<u8>> {
        let id = run.clone();
        let (trace, kept) = self
            .store
            .read(move |reader| {
                let trace = reader.run_ref(&id)?.trace;
                let key = key_for(picture, trace, device, texts);
                Ok((trace, reader.tile(&key)?))
            })
            .await?;
        match kept {
            Some(packed) => Ok(packed),
            None => self.draw(trace, device, picture, texts).await,
        }
    }

    /// Begins to decode a trace that will probably be needed soon.
    pub fn warm(&self, trace: i64, texts: Texts) {
        let traces = Arc::clone(&self.traces);
        let decode = async move {
            if let Err(error) = traces.get_for(trace, texts).await {
                tracing::warn!(%error, trace, "cannot decode a trace ahead of time");
            }
        };
        tokio::spawn(decode.in_current_span());
    }

    /// Draws the overviews of a trace that will become a run. Must be called on a blocking thread.
    ///
    /// # Errors
    /// The database's; [`Stopped`], when the watch stops it.
    pub fn draw_overviews<E: From<StoreError> + From<Stopped>>(
        &self,
        trace: i64,
        decoded: &Decoded,
        watch: Watch<'_>,
    ) -> Result<(), E> {
        for device in decoded.trace.with_pinned() {
            for picture in Picture::overviews(device.events.len()) {
                watch.look(0)?;
                let texts = self.traces.all_texts();
                let key = key_for(picture, trace, device.device, texts);
                let packed = pack_tile(&picture.draw(decoded, device, watch)?)?;
                let keep = |w: &mut Writer| w.put_tile(&key, &packed, Keep::Overview);
                self.store.write_derived_now(keep)?;
            }
        }
        Ok(())
    }

    async fn draw(
        &self,
        trace: i64,
        device: DeviceIdx,
        picture: Picture,
        texts: Texts,
    ) -> StoreResult<Vec<u8>> {
        let turn = self.drawing.take().await;
        let decoded = self.traces.get_for(trace, texts).await?;
        let memory = self.traces.memory_to_ask(&decoded, asks(picture)).await?;
        // Whoever pans on leaves pictures behind that nobody waits for any more.
        let draw = move |watch: Watch<'_>| {
            let _turn = turn;
            let device = decoded.device(device)?;
            let key = key_for(picture, trace, device.device, texts);
            let packed = pack_tile(&picture.draw(&decoded, device, watch)?)?;
            Ok::<_, StoreError>((key, packed))
        };
        let (key, packed) = while_awaited(memory, ANSWER_TIME, draw).await?;
        self.remember(key, packed.clone());
        Ok(packed)
    }

    /// Stores a picture for the next request. No request waits for that, because the database may
    /// be busy with an upload. If too many wait to be stored, this one is drawn again next time.
    fn remember(&self, key: TileKey, packed: Vec<u8>) {
        let Ok(place) = Arc::clone(&self.keeping).try_acquire_owned() else {
            return;
        };
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        let trim = drawn.is_multiple_of(TRIM_EVERY);
        let store = self.store.clone();
        let remember = async move {
            let _place = place;
            // On a full disk, it is drawn each time.
            let keep = move || {
                store.write_derived_now(|writer| {
                    if trim {
                        writer.trim_tiles(CACHED_TILES)?;
                    }
                    writer.put_tile(&key, &packed, Keep::Cached)
                })
            };
            match work::background(keep).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a picture is not remembered"),
                Err(_) => tracing::error!("remembering a picture panicked"),
            }
        };
        tokio::spawn(remember.in_current_span());
    }
}
