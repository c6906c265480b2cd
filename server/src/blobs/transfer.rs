//! Copies blobs from one store to another without unpacking them.

use super::survey::Proof;
use super::{BlobError, Blobs, INCOMING, PART_BYTES, Parts, packing};
use crate::store::BlobRow;
use api::ids::UploadId;
use object_store::{ObjectStoreExt, WriteMultipart};
use std::io::Write;
use tokio::runtime::Handle;

impl Blobs {
    /// Copies a blob to another store, where it appears whole or not at all. Returns the number of
    /// bytes there. Must be called on a blocking thread.
    ///
    /// # Errors
    /// [`BlobError::Missing`] and [`BlobError::Damaged`] for this store; the other store is then
    /// unchanged.
    pub fn copy_to(
        &self,
        runtime: &Handle,
        other: &Blobs,
        blob: &BlobRow,
    ) -> Result<u64, BlobError> {
        // It has the name of an upload, so that what a killed process leaves is removed like one.
        let name = format!("{}{}", UploadId::PREFIX, blob.hash);
        let key = other.prefix.clone().join(INCOMING).join(name);
        let upload = runtime.block_on(other.objects.put_multipart(&key))?;
        let mut parts = Parts {
            runtime: runtime.clone(),
            upload: Some(WriteMultipart::new_with_chunk_size(upload, PART_BYTES)),
            written: 0,
        };
        let mut proof = Proof::of(blob)?;
        self.read(runtime, &blob.hash, |piece| {
            proof.take(piece)?;
            parts.write_all(piece).map_err(packing)
        })?;
        proof.finish()?;
        parts.finish()?;
        runtime.block_on(other.objects.rename(&key, &other.key(&blob.hash)))?;
        Ok(parts.written)
    }
}
