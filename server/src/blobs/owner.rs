//! The owner of the blobs: a mark in the store, so that no two data folders share one store.
//!
//! In a local folder, the mark is also locked while the server runs. Other stores cannot be locked.
//! But each data folder has a lock, and a database has only one data folder.

use super::{BlobError, Blobs};
use bytes::Bytes;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;

const MARK: &str = "owner";

/// The mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Id of the database that these blobs belong to.
    pub database: String,
    /// Its data folder; for people, and for the case that the database was moved aside.
    pub data: String,
}

/// What to do with blobs of another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Refuse to touch them.
    Own,
    /// Take them over, because a person asked for it.
    TakeOver,
}

/// An exclusive hold on blobs, for as long as this lives.
pub struct Ownership {
    _lock: Option<File>,
}

impl Blobs {
    /// Whether a folder holds the blobs of a database.
    pub fn are_owned(folder: &Path) -> bool {
        folder.join(MARK).exists()
    }

    /// Makes sure that no other server uses these blobs, and leaves a mark.
    ///
    /// # Errors
    /// [`BlobError::NotOurs`].
    pub async fn claim(&self, owner: &Owner, claim: Claim) -> Result<Ownership, BlobError> {
        match &self.folder {
            Some(folder) => {
                let lock = claim_folder(folder, owner, claim)?;
                Ok(Ownership { _lock: lock })
            }
            None => {
                claim_remote(&*self.objects, &self.prefix, owner, claim).await?;
                Ok(Ownership { _lock: None })
            }
        }
    }
}

/// `None` if not even a mark can be written: then nothing else can be written there either.
fn claim_folder(folder: &Path, owner: &Owner, claim: Claim) -> Result<Option<File>, BlobError> {
    let path = folder.join(MARK);
    let mut writable = OpenOptions::new();
    writable.read(true).write(true).create(true).truncate(false);
    let Ok(mut file) = writable.open(&path).or_else(|_| File::open(&path)) else {
        return Ok(None);
    };
    let place = folder.display().to_string();
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(BlobError::InUse(place));
    }
    let mut text = String::new();
    let found = match file.read_to_string(&mut text) {
        Ok(_) => serde_json::from_str::<Owner>(&text).ok(),
        Err(_) => None,
    };
    if found.as_ref() == Some(owner) {
        return Ok(Some(file));
    }
    if let Some(found) = found
        && found.database != owner.database
        // The same data folder with another database means that the old one was moved aside.
        && found.data != owner.data
        && claim == Claim::Own
    {
        return Err(BlobError::NotOurs {
            place,
            data: found.data,
        });
    }
    if let Err(error) = write_mark(&mut file, owner) {
        tracing::warn!(%error, path = %path.display(), "cannot mark the blobs as this server's");
    }
    Ok(Some(file))
}

fn write_mark(file: &mut File, owner: &Owner) -> std::io::Result<()> {
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(&mark_of(owner))?;
    file.sync_all()
}

async fn claim_remote(
    objects: &dyn ObjectStore,
    prefix: &Key,
    owner: &Owner,
    claim: Claim,
) -> Result<(), BlobError> {
    let key = prefix.clone().join(MARK);
    let mark = || PutPayload::from(Bytes::from(mark_of(owner)));
    let first = objects.put_opts(&key, mark(), PutMode::Create.into()).await;
    match first {
        Ok(_) => return Ok(()),
        Err(object_store::Error::AlreadyExists { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let found = objects.get(&key).await?.bytes().await?;
    let found = serde_json::from_slice::<Owner>(&found).ok();
    match found {
        Some(found) if found.database == owner.database => Ok(()),
        Some(found) if claim == Claim::Own => Err(BlobError::NotOurs {
            place: key.to_string(),
            data: found.data,
        }),
        _ => {
            objects.put(&key, mark()).await?;
            Ok(())
        }
    }
}

fn mark_of(owner: &Owner) -> Vec<u8> {
    serde_json::to_vec(owner).expect("two texts are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;

    fn owner(database: &str, data: &str) -> Owner {
        Owner {
            database: database.to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn a_folder_has_one_owner_at_a_time_and_over_time() {
        let folder = tempfile::tempdir().unwrap();
        let claim = |owner: &Owner, claim| claim_folder(folder.path(), owner, claim);
        let first = owner("db_a", "/srv/a");
        let held = claim(&first, Claim::Own).unwrap();
        assert!(matches!(
            claim(&first, Claim::Own),
            Err(BlobError::InUse(_))
        ));
        drop(held);
        drop(claim(&first, Claim::Own).unwrap());
        let other = owner("db_b", "/srv/b");
        let refused = claim(&other, Claim::Own).unwrap_err().to_string();
        assert!(refused.contains("/srv/a"), "{refused}");
        // The data folder moved, then its database was moved aside.
        drop(claim(&owner("db_a", "/srv/moved"), Claim::Own).unwrap());
        drop(claim(&owner("db_new", "/srv/moved"), Claim::Own).unwrap());
        assert!(claim(&other, Claim::Own).is_err());
        drop(claim(&other, Claim::TakeOver).unwrap());
        drop(claim(&other, Claim::Own).unwrap());
    }

    #[tokio::test]
    async fn a_bucket_belongs_to_one_database() {
        let (bucket, prefix) = (InMemory::new(), Key::from("team"));
        let claim = async |owner: &Owner, how| claim_remote(&bucket, &prefix, owner, how).await;
        claim(&owner("db_a", "/srv/a"), Claim::Own).await.unwrap();
        claim(&owner("db_a", "/srv/elsewhere"), Claim::Own)
            .await
            .unwrap();
        let other = owner("db_b", "/srv/a");
        let refused = claim(&other, Claim::Own).await;
        assert!(matches!(refused, Err(BlobError::NotOurs { .. })));
        claim(&other, Claim::TakeOver).await.unwrap();
        claim(&other, Claim::Own).await.unwrap();
    }
}
