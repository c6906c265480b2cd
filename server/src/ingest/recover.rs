//! Clearing up: after a server that died, and after deletions that can no longer be undone.

use super::error::IngestError;
use super::job::Job;
use super::keep::Label;
use super::parse::Parser;
use super::uploads::Uploads;
use crate::blobs::Blobs;
use crate::clock::now_ms;
use crate::store::{StoreResult, UploadRow, UploadState};
use api::progress::ServerEvent;
use api::runs::RunSource;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use trace::snapshot::Snapshot;

/// How long a deletion can be undone.
pub const UNDO: Duration = Duration::from_secs(10 * 60);

/// How long the last word on an upload is remembered.
const REMEMBER: Duration = Duration::from_secs(24 * 3600);

/// How often deletions are looked at.
const EVERY: Duration = Duration::from_secs(30);

impl Uploads {
    /// Clears up after a server that died: half-written traces and half-arrived bytes go; uploads
    /// whose bytes are all there are taken up again in the background, the others have failed.
    /// To be called before the first request, with the data folder locked.
    ///
    /// # Errors
    /// The database's and the blob store's.
    pub async fn recover(&self) -> Result<(), IngestError> {
        let shared = self.shared();
        let unfinished = shared
            .store
            .read(|reader| reader.unfinished_uploads())
            .await?;
        let mut complete = Vec::new();
        for upload in unfinished {
            match &upload.blob {
                Some(hash) if shared.blobs.has(hash).await? => complete.push(upload),
                _ => self.give_up(upload).await?,
            }
        }
        shared.store.write(|writer| writer.purge_traces()).await?;
        self.remove_unused_blobs().await?;
        let known = shared.store.read(|reader| reader.blob_hashes()).await?;
        let swept = shared.blobs.sweep(&known).await?;
        if swept > 0 {
            tracing::info!(swept, "removed bytes that a stopped server left behind");
        }
        for upload in complete {
            tokio::spawn(self.clone().take_up(upload));
        }
        tokio::spawn(self.clone().rebuild_outdated());
        Ok(())
    }

    /// Derives again what another version stored, or somebody deleted, one run after the other.
    async fn rebuild_outdated(self) {
        let version = trace::stored::VERSION;
        let outdated = self
            .shared()
            .store
            .read(move |reader| reader.outdated_runs(version));
        let outdated = outdated.await.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot look for outdated runs");
            Vec::new()
        });
        for (run, blob) in outdated {
            tracing::info!(%run, "deriving a run from its blob again");
            let (id, source) = (run.clone(), RunSource::Upload);
            // Name and source stay as they are: only what is derived is replaced.
            let label = Label {
                run,
                name: String::new(),
                source,
                blob,
            };
            if let Err(error) = self.rebuild(label).await {
                tracing::error!(run = %id, %error, "cannot derive a run from its blob again");
            }
        }
        self.judge().clone().judge_all().await;
    }

    /// Looks after deletions and old uploads for as long as the server runs.
    pub async fn keep_house(self) {
        let mut clock = tokio::time::interval(EVERY);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            clock.tick().await;
            if let Err(error) = self.purge(now_ms() - millis(UNDO)).await {
                tracing::error!(%error, "cannot purge deleted runs");
            }
        }
    }

    /// Removes for good the runs that were deleted before `before_ms`, and what only they used.
    ///
    /// # Errors
    /// The database's.
    pub async fn purge(&self, before_ms: i64) -> StoreResult<()> {
        let store = &self.shared().store;
        let purged = store.write(move |writer| {
            writer.forget_uploads(now_ms() - millis(REMEMBER))?;
            writer.purge_runs(before_ms)
        });
        if purged.await? > 0 {
            self.remove_unused_blobs().await?;
            store.shrink().await?;
            // Nobody may be listening.
            let _ = self.shared().events.send(ServerEvent::RunsChanged);
        }
        Ok(())
    }

    /// Removes blobs that neither a run nor an upload uses.
    pub(super) async fn remove_unused_blobs(&self) -> StoreResult<()> {
        let shared = self.shared();
        let _changing = shared.blobs.hold().await;
        let unused = shared
            .store
            .write(|writer| writer.forget_unused_blobs())
            .await?;
        for hash in unused {
            shared.blobs.remove(&hash).await;
        }
        Ok(())
    }

    async fn give_up(&self, upload: UploadRow) -> StoreResult<()> {
        let problem = self.describe(&IngestError::ServerStopped);
        let state = UploadState::Failed(problem);
        let give_up = move |writer: &mut crate::store::Writer| {
            writer.move_upload(&upload.id, &state, now_ms())
        };
        self.shared().store.write(give_up).await
    }

    async fn take_up(self, upload: UploadRow) {
        let Some(hash) = upload.blob else { return };
        let job = Job::new(upload.id, upload.name, upload.source, None);
        let job = self.adopt(job);
        tracing::info!(upload = %job.id, "taking up an upload that a stopped server left");
        // Its outcome is in the database and in the log.
        let _ = self.see_through(&job, self.resume(&job, hash)).await;
    }
}

/// Reads a snapshot from its blob, on a blocking thread.
pub(super) fn parse_blob(
    blobs: &Blobs,
    runtime: &Handle,
    hash: &str,
    job: &Arc<Job>,
) -> Result<Snapshot, IngestError> {
    let mut parser = Parser::default();
    blobs.read(runtime, hash, |piece| {
        if job.cancel.is_cancelled() {
            return Err(IngestError::Cancelled);
        }
        job.progress.receive(piece.len());
        parser.push(piece, &job.progress.events)
    })?;
    parser.finish()
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("hours fit")
}
