//! Stores uploaded bytes under their hash, through `object_store`: by default in a local folder.
//!
//! Bytes arrive under `incoming/UPLOAD`. Once they are complete and their hash is known, they are
//! moved to `HASH[..2]/HASH`. So a blob is either whole or not there. Compressed uploads are stored
//! as they are, all others as zstd. In both cases `ingest::decompress` unpacks the stored object to
//! the snapshot.

mod owner;
mod survey;
mod transfer;
mod words;

pub use owner::{Claim, Owner, Ownership};
pub use survey::Found;

use crate::store::{BlobCodec, BlobRow};
use crate::system::compression::is_compressed;
use api::ids::UploadId;
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, MutexGuard};

/// Compression level while bytes arrive: one thread packs as fast as another one parses.
const ARRIVAL_LEVEL: i32 = 1;

/// Size of the parts that are sent to the store; S3 wants at least 5 MiB.
const PART_BYTES: usize = 8 << 20;

/// How many parts may be sent at the same time. Together with the part that is being filled, this
/// limits the memory of an upload.
const PARTS_UNDER_WAY: usize = 2;

const INCOMING: &str = "incoming";

/// What went wrong in the blob store.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The address of the store is not valid here.
    #[error("{0}")]
    Address(String),
    /// The disk is full.
    #[error("the disk that holds the blobs is full")]
    Full,
    /// The store failed.
    #[error("{}", words::of(.0))]
    Store(#[source] object_store::Error),
    /// The stored bytes are not those that were uploaded.
    #[error("the stored file {0} is damaged: its bytes are not those that were uploaded")]
    Damaged(String),
    /// The stored bytes are gone.
    #[error("the stored file {0} is missing")]
    Missing(String),
    /// Another server uses the store right now.
    #[error("the blobs in {0} are in use by another tidemark; stop it or name another --blobs")]
    InUse(String),
    /// The store belongs to another database.
    #[error(
        "the blobs in {place} belong to the database in {data}: two data folders cannot share \
         them. Name another --blobs; or, if that database is gone for good, take them over with \
         `tidemark doctor --adopt`"
    )]
    NotOurs {
        /// Where they are.
        place: String,
        /// The data folder that owns them.
        data: String,
    },
    /// Compression failed.
    #[error("a blob cannot be packed or unpacked")]
    Packing(#[source] std::io::Error),
}

impl From<object_store::Error> for BlobError {
    fn from(error: object_store::Error) -> BlobError {
        match is_full(&error) {
            true => BlobError::Full,
            false => BlobError::Store(error),
        }
    }
}

/// The blob store.
#[derive(Clone)]
pub struct Blobs {
    objects: Arc<dyn ObjectStore>,
    prefix: Key,
    /// The local folder, if there is one: only then the free space is known.
    folder: Option<PathBuf>,
    /// Held while a blob is moved in, replaced or removed. So no blob can be removed just when an
    /// upload of the same bytes finds that it exists.
    changing: Arc<Mutex<()>>,
}

/// Bytes that are complete but not yet stored under their hash.
#[derive(Debug)]
pub struct Staged {
    key: Key,
    /// BLAKE3 of the bytes as uploaded.
    pub hash: blake3::Hash,
    /// The row for the database.
    pub row: BlobRow,
}

impl Blobs {
    /// A store at `address`: a folder, or `s3://bucket/prefix` in builds with the `s3` feature.
    ///
    /// # Errors
    /// When the folder cannot be made, or this build cannot reach such a store.
    pub fn open(address: &str) -> Result<Blobs, BlobError> {
        match address.split_once("://") {
            None => Blobs::folder(Path::new(address)),
            Some(("s3", _)) => remote::open(address),
            Some((scheme, _)) => Err(BlobError::Address(format!(
                "cannot keep blobs at {scheme}://: name a folder or s3://bucket/prefix"
            ))),
        }
    }

    /// A local folder, made when it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn folder(folder: &Path) -> Result<Blobs, BlobError> {
        if !folder.is_dir() {
            std::fs::create_dir_all(folder).map_err(|error| {
                BlobError::Address(format!(
                    "cannot make the folder {}: {error}",
                    folder.display()
                ))
            })?;
        }
        let objects = LocalFileSystem::new_with_prefix(folder)?
            .with_automatic_cleanup(true)
            // The database may only know bytes that survive a power cut.
            .with_fsync(true);
        Ok(Blobs {
            objects: Arc::new(objects),
            prefix: Key::default(),
            folder: Some(folder.to_owned()),
            changing: Arc::default(),
        })
    }

    /// Begins to receive bytes. Must be called on a blocking thread.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn begin(&self, runtime: &Handle, upload: &UploadId) -> Result<Incoming, BlobError> {
        self.begin_at(runtime, upload, ARRIVAL_LEVEL)
    }

    /// [`Blobs::begin`], with another compression level.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn begin_at(
        &self,
        runtime: &Handle,
        upload: &UploadId,
        level: i32,
    ) -> Result<Incoming, BlobError> {
        let key = self.prefix.clone().join(INCOMING).join(upload.as_str());
        let parts = runtime.block_on(self.objects.put_multipart(&key))?;
        let parts = Parts {
            runtime: runtime.clone(),
            upload: Some(WriteMultipart::new_with_chunk_size(parts, PART_BYTES)),
            written: 0,
        };
        Ok(Incoming {
            key,
            hasher: blake3::Hasher::new(),
            received: 0,
            head: Vec::new(),
            level,
            packing: Packing::Undecided(parts),
        })
    }

    /// Moves complete bytes to the place that their hash names. Hold the guard until the database
    /// knows the blob.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn keep(&self, staged: &Staged) -> Result<MutexGuard<'_, ()>, BlobError> {
        let guard = self.changing.lock().await;
        self.put_in_place(staged).await?;
        Ok(guard)
    }

    /// Moves complete bytes to the place that their hash names, for callers of [`Blobs::hold`].
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn put_in_place(&self, staged: &Staged) -> Result<(), BlobError> {
        let place = self.key(&staged.row.hash);
        Ok(self.objects.rename(&staged.key, &place).await?)
    }

    /// Keeps others from adding, replacing and removing blobs.
    pub async fn hold(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// Removes bytes that are not needed after all.
    pub async fn discard(&self, staged: &Staged) {
        if let Err(error) = self.objects.delete(&staged.key).await {
            tracing::warn!(%error, key = %staged.key, "cannot remove unwanted bytes");
        }
    }

    /// Removes a blob. The database must have recorded the removal before.
    ///
    /// # Errors
    /// When the store refuses; try again later.
    pub async fn remove(&self, hash: &str) -> Result<(), BlobError> {
        match self.objects.delete(&self.key(hash)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes the stored object to `each`, piece by piece. Must be called on a blocking thread.
    ///
    /// # Errors
    /// When the store refuses, or when `each` stops with an error of its own.
    pub fn read<E: From<BlobError>>(
        &self,
        runtime: &Handle,
        hash: &str,
        mut each: impl FnMut(&Bytes) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error: object_store::Error| {
            E::from(match error {
                object_store::Error::NotFound { .. } => BlobError::Missing(hash.to_owned()),
                error => BlobError::from(error),
            })
        };
        let object = runtime
            .block_on(self.objects.get(&self.key(hash)))
            .map_err(failed)?;
        let mut pieces = object.into_stream();
        while let Some(piece) = runtime.block_on(pieces.next()) {
            each(&piece.map_err(failed)?)?;
        }
        Ok(())
    }

    /// Whether the object is there.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn has(&self, hash: &str) -> Result<bool, BlobError> {
        match self.objects.head(&self.key(hash)).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Free bytes on the disk of the blobs; `None` if they are not on a disk.
    pub fn free_bytes(&self) -> Option<u64> {
        crate::system::disk::free_bytes(self.folder.as_deref()?)
    }

    fn key(&self, hash: &str) -> Key {
        let folder = hash.get(..2).unwrap_or("xx");
        self.prefix.clone().join(folder).join(hash)
    }
}

/// Bytes on their way into the store. If this is dropped before [`Incoming::finish`], they are
/// gone.
pub struct Incoming {
    key: Key,
    hasher: blake3::Hasher,
    received: u64,
    /// The first bytes, kept until they show whether the upload is already compressed.
    head: Vec<u8>,
    level: i32,
    packing: Packing,
}

enum Packing {
    Undecided(Parts),
    Zstd(Box<zstd::stream::write::Encoder<'static, Parts>>),
    Identity(Parts),
    /// Only for a moment, while changing from one state to another.
    Moving,
}

impl Incoming {
    /// Receives more bytes.
    ///
    /// # Errors
    /// When the store refuses them.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.hasher.update(bytes);
        self.received += bytes.len() as u64;
        if matches!(self.packing, Packing::Undecided(_)) {
            self.head.extend_from_slice(bytes);
            return if self.head.len() < 4 {
                Ok(())
            } else {
                self.decide()
            };
        }
        self.pack(bytes).map_err(packing)
    }

    /// Completes the bytes: no more will come.
    ///
    /// # Errors
    /// When the store refuses them.
    pub fn finish(mut self) -> Result<Staged, BlobError> {
        if matches!(self.packing, Packing::Undecided(_)) {
            self.decide()?;
        }
        let (codec, mut parts) = match std::mem::replace(&mut self.packing, Packing::Moving) {
            Packing::Zstd(encoder) => {
                let codec = BlobCodec::Zstd { level: self.level };
                (codec, encoder.finish().map_err(packing)?)
            }
            Packing::Identity(parts) | Packing::Undecided(parts) => (BlobCodec::Identity, parts),
            Packing::Moving => unreachable!("the packing is put back at once"),
        };
        parts.finish()?;
        let hash = self.hasher.finalize();
        let row = BlobRow {
            hash: hash.to_hex().to_string(),
            file_bytes: self.received,
            stored_bytes: parts.written,
            codec,
        };
        Ok(Staged {
            key: self.key.clone(),
            hash,
            row,
        })
    }

    fn decide(&mut self) -> Result<(), BlobError> {
        let head = std::mem::take(&mut self.head);
        let parts = match std::mem::replace(&mut self.packing, Packing::Moving) {
            Packing::Undecided(parts) => parts,
            decided => {
                self.packing = decided;
                return Ok(());
            }
        };
        self.packing = if is_compressed(&head) {
            Packing::Identity(parts)
        } else {
            let encoder = zstd::stream::write::Encoder::new(parts, self.level);
            let mut encoder = encoder.map_err(packing)?;
            encoder.include_checksum(true).map_err(packing)?;
            Packing::Zstd(Box::new(encoder))
        };
        self.pack(&head).map_err(packing)
    }

    fn pack(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.packing {
            Packing::Zstd(encoder) => encoder.write_all(bytes),
            Packing::Identity(parts) | Packing::Undecided(parts) => parts.write_all(bytes),
            Packing::Moving => unreachable!("the packing is put back at once"),
        }
    }
}

/// A multipart upload as a blocking `Write`.
struct Parts {
    runtime: Handle,
    upload: Option<WriteMultipart>,
    written: u64,
}

impl Parts {
    fn finish(&mut self) -> Result<(), BlobError> {
        let upload = self.upload.take().expect("finished once");
        self.runtime.block_on(upload.finish())?;
        Ok(())
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let upload = self
            .upload
            .as_mut()
            .expect("written to before it is finished");
        self.runtime
            .block_on(upload.wait_for_capacity(PARTS_UNDER_WAY))
            .map_err(std::io::Error::other)?;
        // `write` spawns a task when a part is full.
        let _runtime = self.runtime.enter();
        upload.write(bytes);
        self.written += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take()
            && let Err(error) = self.runtime.block_on(upload.abort())
        {
            tracing::warn!(%error, "cannot remove half-arrived bytes");
        }
    }
}

/// Turns an error that came through `Write` back: it is the store's own, or the encoder's.
fn packing(error: std::io::Error) -> BlobError {
    match error.downcast::<object_store::Error>() {
        Ok(error) => error.into(),
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => BlobError::Full,
        Err(error) => BlobError::Packing(error),
    }
}

fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::StorageFull) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(feature = "s3")]
mod remote {
    //! Blobs in S3, or in any store with its protocol; `AWS_…` variables configure it.

    use super::{BlobError, Blobs};
    use object_store::aws::AmazonS3Builder;
    use object_store::path::Path as Key;
    use object_store::{BackoffConfig, RetryConfig};
    use std::sync::Arc;
    use std::time::Duration;

    /// How long a store may be unreachable before the caller gets an error, because people wait.
    const PATIENCE: Duration = Duration::from_secs(20);

    const RETRIES: usize = 5;

    pub(super) fn open(address: &str) -> Result<Blobs, BlobError> {
        // Fails if one is installed already; it is the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let path = address.strip_prefix("s3://").unwrap_or(address);
        let prefix = path.split_once('/').map_or("", |(_, prefix)| prefix);
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: RETRIES,
            retry_timeout: PATIENCE,
        };
        let bucket = AmazonS3Builder::from_env()
            .with_url(address)
            .with_retry(retry)
            .build()?;
        Ok(Blobs {
            objects: Arc::new(bucket),
            prefix: Key::from(prefix),
            folder: None,
            changing: Arc::default(),
        })
    }
}

#[cfg(not(feature = "s3"))]
mod remote {
    //! Builds without S3.

    use super::{BlobError, Blobs};

    pub(super) fn open(address: &str) -> Result<Blobs, BlobError> {
        Err(BlobError::Address(format!(
            "cannot keep blobs at {address}: this build has no S3; build with --features s3"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn put(blobs: &Blobs, id: &str, bytes: &'static [u8]) -> Staged {
        let (blobs, id, runtime) = (blobs.clone(), id.parse().unwrap(), Handle::current());
        tokio::task::spawn_blocking(move || {
            let mut incoming = blobs.begin(&runtime, &id).unwrap();
            bytes
                .chunks(3)
                .for_each(|piece| incoming.write(piece).unwrap());
            incoming.finish().unwrap()
        })
        .await
        .unwrap()
    }

    async fn get(blobs: &Blobs, hash: &str) -> Vec<u8> {
        let (blobs, hash, runtime) = (blobs.clone(), hash.to_owned(), Handle::current());
        tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            let each = |piece: &Bytes| {
                all.extend_from_slice(piece);
                Ok::<(), BlobError>(())
            };
            blobs.read(&runtime, &hash, each).unwrap();
            all
        })
        .await
        .unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn plain_bytes_are_packed_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::folder(folder.path()).unwrap();
        let staged = put(&blobs, "upl_a", b"eighteen raw bytes").await;
        assert_eq!(staged.hash, blake3::hash(b"eighteen raw bytes"));
        assert_eq!(staged.row.file_bytes, 18);
        drop(blobs.keep(&staged).await.unwrap());
        let packed = get(&blobs, &staged.row.hash).await;
        assert_eq!(packed.len() as u64, staged.row.stored_bytes);
        assert_eq!(
            zstd::decode_all(&packed[..]).unwrap(),
            b"eighteen raw bytes"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn compressed_bytes_are_stored_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::folder(folder.path()).unwrap();
        let staged = put(&blobs, "upl_a", b"\x1f\x8b\x08\x00 and so on").await;
        assert_eq!(staged.row.codec, BlobCodec::Identity);
        drop(blobs.keep(&staged).await.unwrap());
        let stored = get(&blobs, &staged.row.hash).await;
        assert_eq!(stored, b"\x1f\x8b\x08\x00 and so on");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn half_arrived_bytes_go_and_unknown_blobs_stay() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::folder(folder.path()).unwrap();
        let (inside, runtime) = (blobs.clone(), Handle::current());
        let half = tokio::task::spawn_blocking(move || {
            let mut half = inside
                .begin(&runtime, &"upl_half".parse().unwrap())
                .unwrap();
            half.write(b"half of it").unwrap();
        });
        half.await.unwrap();
        let staged = put(&blobs, "upl_a", b"complete but never kept").await;
        let kept = put(&blobs, "upl_b", b"kept").await;
        let lost = put(&blobs, "upl_c", b"kept, but forgotten by the database").await;
        drop(blobs.keep(&kept).await.unwrap());
        drop(blobs.keep(&lost).await.unwrap());
        let incoming = folder.path().join(INCOMING);
        std::fs::write(incoming.join("somebody's notes"), "x").unwrap();
        assert!(blobs.sweep_incoming().await.unwrap() >= 1);
        let mut listed: Vec<String> = blobs
            .list()
            .await
            .unwrap()
            .into_iter()
            .map(|b| b.hash)
            .collect();
        let mut expected = vec![kept.row.hash, lost.row.hash];
        listed.sort();
        expected.sort();
        assert_eq!(listed, expected);
        assert!(!blobs.has(&staged.row.hash).await.unwrap());
        let left = std::fs::read_dir(incoming).map_or(0, Iterator::count);
        assert_eq!(left, 1, "what is not ours is left alone");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_blob_tells_how_it_is_packed_and_whether_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::folder(folder.path()).unwrap();
        let plain = put(&blobs, "upl_a", b"plain bytes, packed here").await;
        let packed = put(&blobs, "upl_b", b"\x1f\x8b\x08\x00 packed before").await;
        for staged in [&plain, &packed] {
            drop(blobs.keep(staged).await.unwrap());
        }
        let work = move || {
            let runtime = Handle::current();
            for row in [&plain.row, &packed.row] {
                assert_eq!(&blobs.identify(&runtime, &row.hash).unwrap(), row);
                blobs.check(&runtime, row).unwrap();
                let path = folder.path().join(&row.hash[..2]).join(&row.hash);
                let mut bytes = std::fs::read(&path).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                std::fs::write(&path, &bytes).unwrap();
                let damaged = |found: Result<(), BlobError>| {
                    assert!(matches!(found, Err(BlobError::Damaged(_))), "{found:?}");
                };
                damaged(blobs.identify(&runtime, &row.hash).map(drop));
                damaged(blobs.check(&runtime, row));
                std::fs::remove_file(&path).unwrap();
                let gone = blobs.check(&runtime, row);
                assert!(matches!(gone, Err(BlobError::Missing(_))), "{gone:?}");
            }
        };
        tokio::task::spawn_blocking(work).await.unwrap();
    }
}
