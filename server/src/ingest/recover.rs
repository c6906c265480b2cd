//! Cleans up after a server that died, and after deletions that can no longer be undone.

use super::error::IngestError;
use super::keep::RunOrigin;
use super::upload::{Arrived, Upload};
use super::uploads::Uploads;
use crate::blobs::Found;
use crate::store::{Quarantined, StoreResult, UNDO, UploadRow, UploadState, Writer};
use crate::system::clock::now_ms;
use api::ids::RunId;
use api::progress::ServerEvent;
use api::runs::RunSource;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;

/// How long the final state of an upload is remembered.
const REMEMBER: Duration = Duration::from_secs(24 * 3600);

/// How often deletions are checked.
const EVERY: Duration = Duration::from_secs(30);

/// How many servers may die over the same file before it is given up.
const MOST_ATTEMPTS: u32 = 3;

/// How much of its known time a server may lose when it dies.
const TIME_KEPT: Duration = Duration::from_secs(60);

impl Uploads {
    /// Cleans up after a server that died. Half-written traces and half-arrived bytes are removed.
    /// Uploads whose bytes are complete are continued in the background; the others have failed.
    /// Nothing is removed only because the database does not know it. Must be called before the
    /// first request, while the data folder is locked.
    ///
    /// # Errors
    /// The database's and the blob store's.
    pub async fn recover(&self) -> Result<(), IngestError> {
        let shared = self.shared();
        // This comes first because it makes room for the next steps.
        let swept = shared.blobs.sweep_incoming().await?;
        if swept > 0 {
            tracing::info!(swept, "removed bytes that had not arrived whole");
        }
        let unfinished = shared
            .store
            .read(|reader| reader.unfinished_uploads())
            .await?;
        let mut complete = Vec::new();
        for row in unfinished {
            match row.blob.as_ref().or(row.arrived.as_ref()) {
                Some(hash) if shared.blobs.has(hash).await? => complete.push(row),
                _ => self.give_up(row).await?,
            }
        }
        shared.store.write(|writer| writer.purge_traces()).await?;
        self.finish_removals().await?;
        self.remove_unused_blobs().await?;
        let complete = complete.into_iter().map(|row| {
            let upload = Upload::new(row.id.clone(), row.name.clone(), row.source, None);
            upload.sent_by(row.uploaded_by.clone(), None);
            (self.adopt(upload.placed(row.in_job.clone())), row)
        });
        tokio::spawn(self.clone().take_up(complete.collect()));
        Ok(())
    }

    /// Carries out removals that a dead server had decided, unless the same bytes have come again.
    async fn finish_removals(&self) -> Result<(), IngestError> {
        let shared = self.shared();
        let _changing = shared.blobs.hold().await;
        let decided = shared.store.read(|reader| reader.blob_removals()).await?;
        for (hash, decided_ms) in decided {
            // An older copy of the database does not know what came after it.
            match shared.blobs.modified_ms(&hash).await? {
                Some(put_ms) if put_ms <= decided_ms => shared.blobs.remove(&hash).await?,
                _ => {}
            }
            let done = shared.store.write(move |writer| writer.blob_removed(&hash));
            done.await?;
        }
        Ok(())
    }

    /// Derives data again that another version stored or that somebody deleted, one run after the
    /// other.
    async fn rebuild_outdated(self) {
        let version = trace::stored::VERSION;
        let outdated = self
            .shared()
            .store
            .read(move |reader| reader.outdated_runs(version, MOST_ATTEMPTS));
        let outdated = outdated.await.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot look for outdated runs");
            Vec::new()
        });
        for (run, blob) in outdated {
            self.derive_again(run, blob).await;
        }
        self.judge().clone().judge_all().await;
    }

    /// Derives a damaged trace again.
    async fn mend(&self, trace: i64) {
        let run = self.shared().store.read(move |reader| {
            let run = reader.run_of_trace(trace)?;
            Ok(run.filter(|_| reader.rebuilds(trace).is_ok_and(|n| n < MOST_ATTEMPTS)))
        });
        match run.await {
            Ok(Some((run, blob))) => self.derive_again(run, blob).await,
            // Another trace has replaced it already, or it was tried often enough.
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "cannot mend a trace"),
        }
    }

    async fn derive_again(&self, run: RunId, blob: String) {
        tracing::info!(%run, "deriving a run from its blob again");
        let counted = run.clone();
        let count = move |writer: &mut Writer| writer.count_rebuild(&counted);
        if let Err(error) = self.shared().store.write(count).await {
            tracing::error!(%run, %error, "cannot derive a run from its blob again");
            return;
        }
        // Name, source and sender stay; only derived data is replaced.
        let origin = RunOrigin {
            run: run.clone(),
            name: String::new(),
            source: RunSource::Upload,
            blob,
            uploaded_by: None,
        };
        if let Err(error) = self.rebuild(origin).await {
            tracing::error!(%run, %error, "cannot derive a run from its blob again");
        }
    }

    /// Handles deletions and old uploads as long as the server runs.
    pub async fn keep_house(self) {
        let mut clock = tokio::time::interval(EVERY);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut damaged = self.shared().pictures.traces.damaged();
        if let Err(error) = self.shared().store.thin_ended().await {
            tracing::warn!(%error, "cannot thin the reports of trainings that have ended");
        }
        // A server that stopped may have left free pages.
        if let Err(error) = self.shared().store.shrink().await {
            tracing::warn!(%error, "cannot give free pages of the database back");
        }
        loop {
            tokio::select! {
                _ = clock.tick() => {}
                Some(trace) = next(&mut damaged) => {
                    self.mend(trace).await;
                    continue;
                }
            }
            if let Err(error) = self.purge(now_ms() - millis(UNDO)).await {
                tracing::error!(%error, "cannot purge deleted runs");
            }
            let store = &self.shared().store;
            let passed = store.latest_ms() - millis(TIME_KEPT);
            if let Err(error) = store.remember_time(passed).await {
                tracing::warn!(%error, "cannot remember how late it is");
            }
        }
    }

    /// Removes runs and jobs for good that were deleted before `before_ms`, with everything that
    /// only they used.
    ///
    /// # Errors
    /// The database's.
    pub async fn purge(&self, before_ms: i64) -> StoreResult<()> {
        let store = &self.shared().store;
        let unfinished = self.unfinished();
        let places = unfinished
            .iter()
            .filter_map(|upload| upload.in_job.as_ref());
        let awaited: Vec<_> = places.map(|place| place.job.clone()).collect();
        let purged = store.write(move |writer| {
            writer.forget_uploads(now_ms() - millis(REMEMBER))?;
            writer.forget_empty_jobs(now_ms() - millis(REMEMBER), &awaited)?;
            writer.date_deletions(now_ms())?;
            writer.purge_jobs(before_ms, &awaited)?;
            writer.purge_runs(before_ms)
        });
        if purged.await? > 0 {
            self.remove_unused_blobs().await?;
            store.shrink().await?;
            // The file only gets shorter when the log is moved into it.
            store.checkpoint().await?;
            self.measure_disk().await?;
            // Fails if nobody listens, which is fine.
            let _ = self.shared().events.send(ServerEvent::RunsChanged);
        }
        Ok(())
    }

    /// Removes blobs that no run and no upload uses any more. The database records this before the
    /// first one is removed.
    pub(super) async fn remove_unused_blobs(&self) -> StoreResult<()> {
        let shared = self.shared();
        let _changing = shared.blobs.hold().await;
        let forget = |writer: &mut Writer| writer.forget_unused_blobs(now_ms());
        for hash in shared.store.write(forget).await? {
            match shared.blobs.remove(&hash).await {
                Ok(()) => {
                    let done = shared.store.write(move |writer| writer.blob_removed(&hash));
                    done.await?;
                }
                // The removal is recorded, so the next start tries again.
                Err(error) => tracing::warn!(%error, hash, "cannot remove a blob"),
            }
        }
        Ok(())
    }

    /// Blobs in the store that the database does not know. They are left alone, and reported.
    ///
    /// # Errors
    /// The database's and the blob store's.
    pub async fn unknown_blobs(&self) -> Result<Vec<Found>, IngestError> {
        let shared = self.shared();
        // This must not run in between: the database learns of an upload a moment after its bytes
        // are stored.
        let _changing = shared.blobs.hold().await;
        let mut found = shared.blobs.list().await?;
        let known = shared.store.read(|reader| {
            let mut known: HashSet<String> = reader.blob_hashes()?.into_iter().collect();
            known.extend(reader.quarantine()?.into_iter().map(|blob| blob.hash));
            known.extend(reader.blob_removals()?.into_iter().map(|(hash, _)| hash));
            Ok(known)
        });
        let known = known.await?;
        found.retain(|blob| !known.contains(&blob.hash));
        Ok(found)
    }

    /// Logs how many blobs the database does not know.
    pub async fn report_unknown_blobs(self) {
        match self.unknown_blobs().await {
            Ok(unknown) if unknown.is_empty() => {}
            Ok(unknown) => tracing::warn!(
                blobs = unknown.len(),
                "the blob store holds files that the database does not know; they are kept. \
                 `tidemark doctor` lists them, `tidemark doctor --adopt` takes them up as runs"
            ),
            Err(error) => tracing::warn!(%error, "cannot look for unknown blobs"),
        }
    }

    async fn give_up(&self, row: UploadRow) -> StoreResult<()> {
        let problem = self.describe(&IngestError::ServerStopped);
        let state = UploadState::Failed(problem);
        let give_up = move |writer: &mut Writer| writer.move_upload(&row.id, &state, now_ms());
        self.shared().store.write(give_up).await
    }

    /// Continues the uploads that a stopped server left, one after the other. So if one of them
    /// ends this server too, only that one is counted. After that, derives outdated data again.
    async fn take_up(self, uploads: Vec<(Arc<Upload>, UploadRow)>) {
        for (upload, row) in uploads {
            if let Err(error) = self.check_free(0, 0) {
                tracing::warn!(upload = %upload.id, %error, "an upload is left for the next start");
                self.let_go(&upload);
                continue;
            }
            tracing::info!(upload = %upload.id, "taking up an upload that a stopped server left");
            if let Err(error) = self
                .see_through(&upload, self.take_up_one(&upload, row))
                .await
            {
                // Clients that ask get the answer from the database.
                tracing::error!(upload = %upload.id, %error, "cannot take up an upload");
            }
        }
        self.rebuild_outdated().await;
    }

    async fn take_up_one(
        &self,
        upload: &Arc<Upload>,
        row: UploadRow,
    ) -> Result<Arrived, IngestError> {
        let is_recorded = row.blob.is_some();
        let Some(hash) = row.blob.or(row.arrived) else {
            return Err(IngestError::ServerStopped);
        };
        let store = &self.shared().store;
        if row.attempts < MOST_ATTEMPTS {
            let count = move |w: &mut Writer| w.count_attempt(&row.id, now_ms());
            store.write(count).await?;
            if !is_recorded {
                let row = self.identify(&hash).await?;
                self.record_blob(&upload.id, row).await?;
            }
            return self.resume(upload, hash).await;
        }
        let error = IngestError::GivenUp {
            attempts: row.attempts + 1,
        };
        // Its bytes stay, because they may not be the cause.
        let aside = Quarantined {
            hash,
            name: row.name,
            why: error.to_string(),
        };
        store
            .write(move |writer| writer.set_aside(&aside, now_ms()))
            .await?;
        Err(error)
    }
}

/// The next value of a channel that may not exist.
async fn next(told: &mut Option<Receiver<i64>>) -> Option<i64> {
    match told {
        Some(told) => told.recv().await,
        None => std::future::pending().await,
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("hours fit")
}
