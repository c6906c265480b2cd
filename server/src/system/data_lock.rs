//! The lock of a data folder: one server, or one command, works in it at a time, and none works in
//! a folder whose database is half made.

use crate::system::data_folder::{DATABASE, LOCK, REBUILDING, RESTORING};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// What somebody takes a data folder for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// To use what is in it: its database must be whole.
    Serving,
    /// To make the database again.
    Rebuilding,
    /// To fill the folder from a backup.
    Restoring,
}

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The system does not let us.
    #[error("cannot use the data folder {folder}: {source}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Another server uses it.
    #[error("the data folder {0} is in use by another tidemark; stop it or name another --data")]
    InUse(PathBuf),
    /// A restore was interrupted.
    #[error(
        "a restore into the data folder {0} did not end: run the same `tidemark restore` again"
    )]
    HalfRestored(PathBuf),
    /// A rebuild was interrupted: people, names and links are not there yet.
    #[error(
        "the database in the data folder {0} was not made again completely: \
         `tidemark doctor --rebuild` continues"
    )]
    HalfRebuilt(PathBuf),
}

/// An exclusive hold on a data folder, for as long as this lives.
pub struct DataLock {
    _file: Option<File>,
}

impl DataLock {
    /// Keeps all others out of a data folder. Creates the folder if it does not exist.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn take(folder: &Path, purpose: For) -> Result<DataLock, Unusable> {
        let lock = DataLock {
            _file: locked(folder)?,
        };
        check(folder, purpose)?;
        Ok(lock)
    }
}

/// Refuses a folder whose database is too little made for this.
///
/// # Errors
/// [`Unusable::HalfRestored`], and [`Unusable::HalfRebuilt`].
pub fn check(folder: &Path, purpose: For) -> Result<(), Unusable> {
    let is_there = |file: &str| folder.join(file).exists();
    if purpose != For::Restoring && is_there(RESTORING) {
        return Err(Unusable::HalfRestored(folder.to_owned()));
    }
    if purpose == For::Serving && is_there(REBUILDING) {
        return Err(Unusable::HalfRebuilt(folder.to_owned()));
    }
    Ok(())
}

/// The locked file; `None` for a folder that cannot be written: it needs no lock against writers.
fn locked(folder: &Path) -> Result<Option<File>, Unusable> {
    let failed = |source| Unusable::Folder {
        folder: folder.to_owned(),
        source,
    };
    if !folder.is_dir() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let path = folder.join(LOCK);
    let file = match File::create(&path).or_else(|_| File::open(&path)) {
        Ok(file) => file,
        Err(_) if folder.join(DATABASE).exists() => return Ok(None),
        Err(source) => return Err(failed(source)),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(Unusable::InUse(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}
