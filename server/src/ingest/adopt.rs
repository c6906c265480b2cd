//! Makes runs from blobs that the database does not know.

use super::error::IngestError;
use super::upload::{Arrived, Upload};
use super::uploads::Uploads;
use crate::identity::upload_id;
use crate::store::{BlobRow, Quarantined, UploadState, Writer};
use crate::system::clock::now_ms;
use api::runs::RunSource;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

impl Uploads {
    /// Makes a run from a blob in the store. If that fails, the blob stays, in quarantine.
    ///
    /// # Errors
    /// Why it cannot become a run.
    pub async fn adopt_blob(&self, hash: &str, name: &str) -> Result<Arrived, IngestError> {
        let row = self.identify(hash).await?;
        let upload = Upload::new(upload_id(), name.to_owned(), RunSource::Upload, None);
        let upload = self.adopt(upload);
        let aside = |why: String| Quarantined {
            hash: hash.to_owned(),
            name: name.to_owned(),
            why,
        };
        let (id, file, guard) = (
            upload.id.clone(),
            upload.name.clone(),
            aside("taken up".to_owned()),
        );
        let record = self.shared().store.write(move |writer| {
            let (now, size) = (now_ms(), row.file_bytes);
            writer.insert_blob(&row, now)?;
            // Until the run exists, a failure must not remove the blob.
            writer.set_aside(&guard, now)?;
            writer.insert_upload(&id, &file, Some(size), RunSource::Upload, None, now)?;
            writer.move_upload(&id, &UploadState::Running, now)?;
            writer.upload_stored(&id, &row.hash, now)
        });
        record.await?;
        let taken = self
            .see_through(&upload, self.resume(&upload, hash.to_owned()))
            .await;
        if let Err(error) = &taken {
            let aside = aside(error.to_string());
            let record = move |writer: &mut Writer| writer.set_aside(&aside, now_ms());
            self.shared().store.write(record).await?;
        }
        taken
    }

    /// Finds out how a blob is packed that is in the blob store.
    pub(super) async fn identify(&self, hash: &str) -> Result<BlobRow, IngestError> {
        let (blobs, runtime, hash) = (self.blobs().clone(), Handle::current(), hash.to_owned());
        let identify = spawn_blocking(move || blobs.identify(&runtime, &hash));
        let row = identify.await.map_err(|_| IngestError::Panicked("blob"))?;
        Ok(row?)
    }
}
