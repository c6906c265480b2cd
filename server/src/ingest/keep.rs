//! Stores a replayed trace as rows, chunks and overviews.
//!
//! The chunks are written in small transactions, to a trace that nothing refers to yet. So other
//! writers never wait long. The run appears in one last transaction, whole or not at all. Only that
//! one is synced to disk, and everything before it with it.

use super::error::IngestError;
use super::upload::Upload;
use crate::judgements::judge_now;
use crate::pictures::{Decoded, Pictures};
use crate::store::{NewRun, PackedChunk, Store, StoreError, StoreResult};
use crate::system::clock::{FAR_MS, now_ms};
use answers::facts::{DeviceFacts, step_facts};
use api::ids::RunId;
use api::runs::RunSource;
use std::sync::Arc;
use trace::trace::Trace;
use trace::watch::Watch;

/// Packed bytes per transaction: a few milliseconds of the writer's time.
const BATCH_BYTES: usize = 2 << 20;

/// What is known of a run before its trace: its id, its name and where it came from.
pub struct RunOrigin {
    /// The run's id.
    pub run: RunId,
    /// Its name.
    pub name: String,
    /// Where it came from.
    pub source: RunSource,
    /// Its blob, which must be in the store.
    pub blob: String,
    /// Who sent it, where people sign in.
    pub uploaded_by: Option<String>,
}

/// Whether a trace makes a new run or belongs to an existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceOf {
    /// It makes a run.
    NewRun,
    /// It replaces the run's trace, which another version stored.
    KnownRun,
}

/// Whether a run was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is new.
    New,
    /// The same bytes were there already.
    Known,
}

/// Stores a trace as a run, on a blocking thread. Between transactions, between pictures and while
/// the trace is judged, it checks whether the upload was cancelled.
///
/// # Errors
/// The database's, and [`IngestError::Cancelled`]; then nothing is left behind.
pub fn keep(
    store: &Store,
    pictures: &Pictures,
    origin: RunOrigin,
    trace_of: TraceOf,
    decoded: Decoded,
    upload: &Upload,
) -> Result<Kept, IngestError> {
    let version = trace::stored::VERSION;
    let id = store.write_derived_now(|writer| writer.new_trace(version, now_ms()))?;
    let decoded = Arc::new(decoded);
    match fill(store, pictures, id, &decoded, origin, trace_of, upload) {
        Ok(Kept::New) => {
            decoded.settle();
            pictures.traces.keep(id, decoded);
            Ok(Kept::New)
        }
        other => {
            let dropped = store.write_derived_now(|writer| writer.drop_trace(id));
            // The next start removes the rest; the first error is the important one.
            other.and_then(|kept| dropped.map(|()| kept).map_err(IngestError::from))
        }
    }
}

fn fill(
    store: &Store,
    pictures: &Pictures,
    id: i64,
    decoded: &Decoded,
    origin: RunOrigin,
    trace_of: TraceOf,
    upload: &Upload,
) -> Result<Kept, IngestError> {
    let go_on = |_| !upload.cancel.is_cancelled();
    let watch = Watch::new(&go_on);
    write_chunks(store, id, &decoded.trace, watch)?;
    pictures.draw_overviews::<IngestError>(id, decoded, watch)?;
    let leaks = judge_now(&decoded.trace, watch)?;
    let devices = decoded.trace.with_pinned();
    let facts = devices.map(|device| (DeviceFacts::of(device), step_facts(device)));
    let run = NewRun {
        id: origin.run,
        name: origin.name,
        source: origin.source,
        blob: origin.blob,
        uploaded_by: origin.uploaded_by,
        trace: id,
        format: decoded.trace.format.clone(),
        quality: decoded.trace.quality.clone(),
        devices: facts.collect(),
        leaks,
        created_ms: date_of(store.latest_ms(), now_ms()),
    };
    if !upload.fate.become_run() {
        return Err(IngestError::Cancelled);
    }
    let written = store.write_now(|writer| match trace_of {
        TraceOf::NewRun => writer.insert_run(&run),
        TraceOf::KnownRun => writer.replace_trace(&run),
    });
    match written {
        Ok(()) => Ok(Kept::New),
        // Somebody else uploaded the same bytes in the meantime.
        Err(StoreError::Conflict(_)) => Ok(Kept::Known),
        Err(error) => Err(error.into()),
    }
}

/// The date of a new run. Runs are listed by it, so a clock that was set back makes no new run the
/// oldest; but one that was far ahead once gives no run a date that has not come.
fn date_of(latest_ms: i64, now_ms: i64) -> i64 {
    match latest_ms - now_ms > FAR_MS {
        true => now_ms,
        false => latest_ms,
    }
}

fn write_chunks(
    store: &Store,
    id: i64,
    trace: &Trace,
    watch: Watch<'_>,
) -> Result<(), IngestError> {
    let mut batch = Batch {
        store,
        id,
        chunks: Vec::new(),
        bytes: 0,
    };
    let mut outcome = Ok(());
    trace::stored::encode(trace, &mut |chunk| {
        if outcome.is_ok() {
            outcome = match watch.look(0) {
                Err(stopped) => Err(stopped.into()),
                Ok(()) => batch.push(&chunk).map_err(IngestError::from),
            };
        }
    });
    outcome?;
    Ok(batch.flush()?)
}

struct Batch<'s> {
    store: &'s Store,
    id: i64,
    chunks: Vec<PackedChunk>,
    bytes: usize,
}

impl Batch<'_> {
    fn push(&mut self, chunk: &trace::stored::Chunk) -> StoreResult<()> {
        let packed = PackedChunk::pack(chunk)?;
        self.bytes += packed.len();
        self.chunks.push(packed);
        if self.bytes >= BATCH_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> StoreResult<()> {
        let chunks = std::mem::take(&mut self.chunks);
        self.bytes = 0;
        self.store
            .write_derived_now(|writer| writer.insert_chunks(self.id, &chunks))
    }
}
