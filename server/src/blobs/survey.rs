//! Examines the store: which blobs it has, and whether they are intact. Nothing here changes the
//! store, except that half-arrived bytes are removed.

use super::{ARRIVAL_LEVEL, BlobError, Blobs, INCOMING};
use crate::store::{BlobCodec, BlobRow};
use api::ids::UploadId;
use futures_util::TryStreamExt;
use object_store::ObjectStoreExt;
use object_store::path::Path as Key;
use std::io::Write;
use tokio::runtime::Handle;

/// Number of digits of a hash.
const HASH_DIGITS: usize = 64;

/// A blob that is in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name, which should be its hash.
    pub hash: String,
    /// Bytes in the store.
    pub stored_bytes: u64,
    /// When it was put there, in milliseconds since the epoch.
    pub modified_ms: i64,
}

impl Blobs {
    /// Every blob in the store. Files in other places are not ours and are ignored.
    ///
    /// # Errors
    /// When the store cannot be listed.
    pub async fn list(&self) -> Result<Vec<Found>, BlobError> {
        let listed = self.objects.list(Some(&self.prefix));
        let objects = listed.try_collect::<Vec<_>>().await?;
        let mut found = Vec::new();
        for object in objects {
            let name = object.location.filename().unwrap_or_default();
            if is_hash(name) && object.location == self.key(name) {
                found.push(Found {
                    hash: name.to_owned(),
                    stored_bytes: object.size,
                    modified_ms: object.last_modified.timestamp_millis(),
                });
            }
        }
        found.sort_by(|a, b| (a.modified_ms, &a.hash).cmp(&(b.modified_ms, &b.hash)));
        Ok(found)
    }

    /// Removes the bytes of uploads that never completed; their clients were never told that they
    /// had.
    ///
    /// # Errors
    /// When the store cannot be listed.
    pub async fn sweep_incoming(&self) -> Result<usize, BlobError> {
        let incoming = self.prefix.clone().join(INCOMING);
        let listed = self.objects.list(Some(&incoming));
        let objects = listed.try_collect::<Vec<_>>().await?;
        let mut removed = 0;
        for key in objects.into_iter().map(|object| object.location) {
            if is_upload(&key) {
                self.objects.delete(&key).await?;
                removed += 1;
            }
        }
        Ok(removed + self.sweep_parts())
    }

    /// `LocalFileSystem` writes parts to `NAME#1` and hides such files from its listings.
    fn sweep_parts(&self) -> usize {
        let Some(folder) = &self.folder else { return 0 };
        let Ok(entries) = std::fs::read_dir(folder.join(INCOMING)) else {
            return 0;
        };
        let ours = entries.flatten().filter(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with(UploadId::PREFIX)
        });
        let removed = ours.map(|entry| std::fs::remove_file(entry.path()));
        removed.filter(Result::is_ok).count()
    }

    /// When a blob was stored, if it exists.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn modified_ms(&self, hash: &str) -> Result<Option<i64>, BlobError> {
        match self.objects.head(&self.key(hash)).await {
            Ok(object) => Ok(Some(object.last_modified.timestamp_millis())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a whole blob and finds out how it is packed. Must be called on a blocking thread.
    ///
    /// # Errors
    /// [`BlobError::Missing`], and [`BlobError::Damaged`] when its bytes have another hash.
    pub fn identify(&self, runtime: &Handle, hash: &str) -> Result<BlobRow, BlobError> {
        let mut raw = Counted::default();
        self.read(runtime, hash, |piece| {
            raw.write_all(piece).map_err(BlobError::Packing)
        })?;
        let stored_bytes = raw.bytes;
        let row = |codec, file_bytes| BlobRow {
            hash: hash.to_owned(),
            file_bytes,
            stored_bytes,
            codec,
        };
        if raw.hash() == hash {
            return Ok(row(BlobCodec::Identity, stored_bytes));
        }
        let unpacked = self.unpacked(runtime, hash);
        match unpacked {
            Ok(bytes) if bytes.hash() == hash => {
                let codec = BlobCodec::Zstd {
                    level: ARRIVAL_LEVEL,
                };
                Ok(row(codec, bytes.bytes))
            }
            Ok(_) | Err(BlobError::Packing(_)) => Err(BlobError::Damaged(hash.to_owned())),
            Err(error) => Err(error),
        }
    }

    /// Checks that a blob is what the database says about it. Must be called on a blocking thread.
    ///
    /// # Errors
    /// [`BlobError::Missing`] and [`BlobError::Damaged`].
    pub fn check(&self, runtime: &Handle, blob: &BlobRow) -> Result<(), BlobError> {
        let mut proof = Proof::of(blob)?;
        self.read(runtime, &blob.hash, |piece| proof.take(piece))?;
        proof.finish()
    }

    fn unpacked(&self, runtime: &Handle, hash: &str) -> Result<Counted, BlobError> {
        let decoder = zstd::stream::write::Decoder::new(Counted::default());
        let mut decoder = decoder.map_err(BlobError::Packing)?;
        self.read(runtime, hash, |piece| {
            decoder.write_all(piece).map_err(BlobError::Packing)
        })?;
        decoder.flush().map_err(BlobError::Packing)?;
        Ok(decoder.into_inner())
    }
}

/// Checks a stored object while it is read, and says at the end whether it is the right blob.
pub(super) struct Proof {
    hash: String,
    bytes: Unpacked,
}

enum Unpacked {
    Identity(Box<Counted>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Counted>>),
}

impl Proof {
    /// For this blob.
    ///
    /// # Errors
    /// When there is no memory to unpack it.
    pub(super) fn of(blob: &BlobRow) -> Result<Proof, BlobError> {
        let counted = Counted::default();
        let bytes = match blob.codec {
            BlobCodec::Identity => Unpacked::Identity(Box::new(counted)),
            BlobCodec::Zstd { .. } => {
                let decoder = zstd::stream::write::Decoder::new(counted);
                Unpacked::Zstd(Box::new(decoder.map_err(BlobError::Packing)?))
            }
        };
        let hash = blob.hash.clone();
        Ok(Proof { hash, bytes })
    }

    /// The next piece.
    ///
    /// # Errors
    /// [`BlobError::Damaged`] when it cannot be unpacked.
    pub(super) fn take(&mut self, piece: &[u8]) -> Result<(), BlobError> {
        let taken = match &mut self.bytes {
            Unpacked::Identity(counted) => counted.write_all(piece),
            Unpacked::Zstd(decoder) => decoder.write_all(piece),
        };
        taken.map_err(|_| self.damaged())
    }

    /// Ends the check: there are no more pieces.
    ///
    /// # Errors
    /// [`BlobError::Damaged`].
    pub(super) fn finish(mut self) -> Result<(), BlobError> {
        let found = match &mut self.bytes {
            Unpacked::Identity(counted) => Ok(counted.hash()),
            Unpacked::Zstd(decoder) => decoder.flush().map(|()| decoder.get_ref().hash()),
        };
        match found.is_ok_and(|found| found == self.hash) {
            true => Ok(()),
            false => Err(self.damaged()),
        }
    }

    fn damaged(&self) -> BlobError {
        BlobError::Damaged(self.hash.clone())
    }
}

/// A writer that hashes and counts what is written to it.
#[derive(Default)]
struct Counted {
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Counted {
    fn hash(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn is_hash(name: &str) -> bool {
    name.len() == HASH_DIGITS && blake3::Hash::from_hex(name).is_ok()
}

fn is_upload(key: &Key) -> bool {
    let name = key.filename().unwrap_or_default();
    name.starts_with(UploadId::PREFIX)
}
