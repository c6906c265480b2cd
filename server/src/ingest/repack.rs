//! Packs blobs again, smaller, when the server is idle.
//!
//! While bytes arrive, they are packed at a level that is as fast as the parser. Later they are
//! packed once more, on one thread with the lowest priority, which pauses while uploads run.
//!
//! On a snapshot of 1079 MB: level 1 makes 78 MB in 3 s, level 6 67 MB in 9 s, level 9 66 MB in
//! 14 s; level 19 would make 50 MB, in minutes.

use super::decompress::Decompressor;
use super::error::IngestError;
use super::uploads::Uploads;
use crate::blobs::{BlobError, Staged};
use crate::identity::upload_id;
use crate::store::BlobRow;
use std::collections::HashSet;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// How often it checks for work.
const EVERY: Duration = Duration::from_secs(2);

/// How long it waits after the disk failed.
const AFTER_FAILURE: Duration = Duration::from_secs(60);

/// The lowest priority there is.
const NICENESS: i32 = 19;

impl Uploads {
    /// Starts the thread; it ends when `stopping` fires.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn repack_in_background(
        &self,
        level: i32,
        stopping: CancellationToken,
    ) -> std::io::Result<()> {
        let (uploads, runtime) = (self.clone(), Handle::current());
        let work = move || {
            // On Linux this is the calling thread's priority, not the process's.
            if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
                tracing::debug!(%error, "cannot lower the priority of the packing thread");
            }
            let mut skipped = HashSet::new();
            while !pause(&runtime, &stopping, EVERY) {
                let repacked = uploads.repack_all(&runtime, level, &stopping, &mut skipped);
                if let Err(error) = repacked {
                    tracing::warn!(%error, "cannot pack blobs again");
                    pause(&runtime, &stopping, AFTER_FAILURE);
                }
            }
        };
        std::thread::Builder::new()
            .name("repack".to_owned())
            .spawn(work)?;
        Ok(())
    }

    /// Packs every blob again that is packed at a lower level. A blob that cannot be read is
    /// reported once and left to `tidemark doctor`: it does no harm.
    fn repack_all(
        &self,
        runtime: &Handle,
        level: i32,
        stopping: &CancellationToken,
        skipped: &mut HashSet<String>,
    ) -> Result<(), IngestError> {
        let store = &self.shared().store;
        for blob in store.read_now(|reader| reader.blobs_below_level(level))? {
            if skipped.contains(&blob.hash) || !self.has_room_for(&blob) {
                continue;
            }
            let packed = self.pack(runtime, &blob, level, stopping);
            match packed.and_then(|staged| self.replace(runtime, &blob, &staged, level)) {
                Ok(()) => {}
                Err(IngestError::Cancelled) => return Ok(()),
                Err(error) if is_of_the_blob(&error) => {
                    tracing::error!(hash = blob.hash, %error, "cannot pack a blob again");
                    skipped.insert(blob.hash);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether there is room for a second copy of a blob for a moment.
    fn has_room_for(&self, blob: &BlobRow) -> bool {
        let free = self.blobs().free_bytes();
        free.is_none_or(|free| free > self.keep_free().get().saturating_add(blob.stored_bytes))
    }

    fn pack(
        &self,
        runtime: &Handle,
        blob: &BlobRow,
        level: i32,
        stopping: &CancellationToken,
    ) -> Result<Staged, IngestError> {
        let blobs = self.blobs();
        let mut packed = blobs.begin_at(runtime, &upload_id(), level)?;
        let mut unpack = Decompressor::default();
        let mut write = |bytes: &[u8]| Ok::<(), IngestError>(packed.write(bytes)?);
        blobs.read(runtime, &blob.hash, |piece| {
            while self.is_busy() && !pause(runtime, stopping, EVERY) {}
            if stopping.is_cancelled() {
                return Err(IngestError::Cancelled);
            }
            unpack.push(piece, &mut write)
        })?;
        unpack.finish(&mut write)?;
        Ok(packed.finish()?)
    }

    /// Replaces the larger object by the smaller one, unless the blob was removed in the meantime.
    fn replace(
        &self,
        runtime: &Handle,
        blob: &BlobRow,
        staged: &Staged,
        level: i32,
    ) -> Result<(), IngestError> {
        let blobs = self.blobs();
        if staged.row.hash != blob.hash {
            runtime.block_on(blobs.discard(staged));
            return Err(BlobError::Damaged(blob.hash.clone()).into());
        }
        let _changing = runtime.block_on(blobs.hold());
        let store = &self.shared().store;
        if store.read_now(|reader| reader.blob(&blob.hash))?.is_none() {
            runtime.block_on(blobs.discard(staged));
            return Ok(());
        }
        runtime.block_on(blobs.put_in_place(staged))?;
        let stored = staged.row.stored_bytes;
        store.write_now(|writer| writer.repack_blob(&blob.hash, stored, level))?;
        tracing::info!(
            hash = blob.hash,
            before = blob.stored_bytes,
            after = stored,
            "packed again"
        );
        Ok(())
    }
}

/// Whether the error concerns only this blob, so that others can still be packed.
fn is_of_the_blob(error: &IngestError) -> bool {
    use BlobError::{Damaged, Missing, Packing};
    matches!(
        error,
        IngestError::Blob(Damaged(_) | Missing(_) | Packing(_)) | IngestError::BadSnapshot { .. }
    )
}

/// Waits; returns whether the server is stopping.
fn pause(runtime: &Handle, stopping: &CancellationToken, time: Duration) -> bool {
    // A timer belongs to the runtime in which it is made, and this thread is outside of it.
    runtime.block_on(async {
        tokio::time::timeout(time, stopping.cancelled())
            .await
            .is_ok()
    })
}
