//! Makes a second copy of a data folder while the server runs; `restore` is the way back.
//!
//! A backup is a folder with `backup.json`, a copy of the database, and the stored files in the
//! form of the blob store. The database is copied first, as of one moment. Then come the files that
//! it knows; each is compared with its hash while it is copied. In between, a run may be purged
//! together with its file. Its deletion was recorded before that. So a newer copy of the database
//! no longer knows the file, and such a copy is made. A file that is already in the backup is not
//! copied again.

mod manifest;
mod others;
mod restore;
#[cfg(test)]
mod tests;

pub use restore::{AtDamage, Restored, restore};

use crate::app::{OpenError, open_blobs};
use crate::blobs::{BlobError, Blobs};
use crate::config::Config;
use crate::projects;
use crate::store::{BlobRow, CopyContents, Store, StoreError};
use crate::system::clock::now_ms;
use crate::system::data_folder::{DATABASE, PROJECTS, has_database};
use crate::system::data_lock::{self, For, Unusable};
use api::projects::ProjectName;
use manifest::{DatabaseFile, Files, MANIFEST, Manifest, hash_of};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use tokio::runtime::Handle;

/// The largest number of copies of the database in a row because of missing files. Each time, a
/// file was removed that the copy before still knew. No server purges faster than that.
const MOST_COPIES: usize = 16;

const BLOBS: &str = "blobs";
const LOCK: &str = "lock";
/// Names of copies of the database begin with this.
const COPY: &str = "database-";

/// Which stored files to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Those that the backup does not have.
    New,
    /// Also those that it has: a damaged one is copied again.
    All,
}

/// What to back up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The database and the stored files.
    Whole,
    /// Only the database; the stored files are only checked where they are.
    Database,
}

/// What was backed up.
#[derive(Debug)]
pub struct Report {
    /// The copy of the database.
    pub database: PathBuf,
    /// Runs in it, including deleted ones.
    pub runs: usize,
    /// Stored files that belong to it.
    pub files: usize,
    /// Those that were copied now, and their bytes.
    pub copied: (usize, u64),
    /// Files that are damaged or missing, and projects without a database, a sentence each.
    pub lacking: Vec<String>,
    /// The other projects.
    pub projects: Vec<(ProjectName, Report)>,
    /// Their names, also of those that could not be backed up.
    pub belonging: Vec<ProjectName>,
}

/// Why there is no backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is nothing to back up.
    #[error("there is no database in {}: name the --data folder of the server", .0.display())]
    NoDatabase(PathBuf),
    /// The folder belongs to somebody else.
    #[error(
        "{} holds other things than a backup; name an empty folder, or one that is not there",
        .0.display()
    )]
    NotABackup(PathBuf),
    /// The backup is of another database.
    #[error("{} holds the backup of another database; name another folder", .0.display())]
    OfAnother(PathBuf),
    /// Two backups at once.
    #[error("another backup or restore uses {} right now", .0.display())]
    InUse(PathBuf),
    /// The folder has no complete backup.
    #[error(
        "there is no backup in {}: it has no {MANIFEST}, which is written when a backup ends",
        .0.display()
    )]
    None(PathBuf),
    /// A newer program wrote it.
    #[error("{}: a newer Tidemark wrote this backup; update the program", .path.display())]
    TooNew {
        /// The manifest.
        path: PathBuf,
    },
    /// The manifest cannot be understood.
    #[error("{} is damaged: {why}", .path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The manifest names a file that no backup writes.
    #[error(
        "{}: the name of the database in it is {name:?}, which is no file of this folder: nothing \
         outside of a backup is read", .path.display()
    )]
    Elsewhere {
        /// The manifest.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The database cannot be copied.
    #[error("cannot copy the database to {}: {}", .to.display(), of_copy(source))]
    Database {
        /// Where to.
        to: PathBuf,
        /// Why not.
        source: StoreError,
    },
    /// A stored file cannot be copied.
    #[error("cannot copy the stored file {hash}: {source}")]
    Copy {
        /// Which.
        hash: String,
        /// Why not.
        source: BlobError,
    },
    /// The blob store cannot be used.
    #[error(transparent)]
    Blobs(#[from] BlobError),
    /// What is in the data folder cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The data folder cannot be used.
    #[error(transparent)]
    Folder(#[from] Unusable),
    /// Parts of the backup are damaged.
    #[error(
        "the backup in {} is damaged, and nothing was restored:\n  {}\nIf the server's data is \
         still there, `tidemark backup --check` copies these again. Else `tidemark restore \
         --skip-damaged` restores the rest", .folder.display(), .files.join("\n  ")
    )]
    Damaged {
        /// The backup.
        folder: PathBuf,
        /// What is wrong, a sentence each.
        files: Vec<String>,
    },
    /// The copy would be a part of what it is a copy of.
    #[error(
        "{} lies in {}, and what happens to that folder happens to both: name one elsewhere",
        .inner.display(), .outer.display()
    )]
    Inside {
        /// Where to.
        inner: PathBuf,
        /// Where from.
        outer: PathBuf,
    },
    /// Something is there already.
    #[error(
        "{0} is not empty, and a restore overwrites nothing: name an empty place, or one that is \
         not there"
    )]
    NotEmpty(String),
}

impl BackupError {
    /// Whether another folder was meant: nothing is damaged then.
    pub fn names_wrong_folder(&self) -> bool {
        matches!(
            self,
            BackupError::NoDatabase(_)
                | BackupError::NotABackup(_)
                | BackupError::OfAnother(_)
                | BackupError::None(_)
        )
    }
}

/// Backs a data folder up into the folder `to`, with all its projects: each into a folder of its
/// own, as in the data folder. What the backup holds of projects that were removed for good goes.
/// On a blocking thread.
///
/// # Errors
/// Why there is no new backup; an older one in the folder is still whole.
pub fn back_up(
    config: &Config,
    to: &Path,
    scope: Scope,
    depth: Depth,
) -> Result<Report, BackupError> {
    check_apart(to, &config.data)?;
    // All of them first: a backup that lacks a project would look whole.
    data_lock::check(&config.data, For::Serving)?;
    for project in projects::found_in(&config.data) {
        data_lock::check(&projects::folder_of(&config.data, &project), For::Serving)?;
    }
    let mut report = Backup::begin(config, to, scope, depth)?.run(|_| {})?;
    others::drop_removed(to, &report.belonging)?;
    for project in report.belonging.clone() {
        let of_project = projects::config_of(config, &project);
        if !of_project.data.join(DATABASE).exists() {
            let lack = others::without_a_database(&config.data, &project);
            report.lacking.push(lack);
            continue;
        }
        let to = projects::folder_of(to, &project);
        let of_project = Backup::begin(&of_project, &to, scope, depth)?.run(|_| {})?;
        report.projects.push((project, of_project));
    }
    Ok(report)
}

/// Why a copy of the database failed. A full disk is that of the copy: the server's is only read.
fn of_copy(error: &StoreError) -> String {
    match error {
        StoreError::Full => "the disk that the backup is on is full".to_owned(),
        error => error.to_string(),
    }
}

/// Refuses a copy inside of what it is a copy of.
fn check_apart(copy: &Path, of: &Path) -> Result<(), BackupError> {
    let (inner, outer) = (real(copy), real(of));
    match inner != outer && inner.starts_with(&outer) {
        true => Err(BackupError::Inside { inner, outer }),
        false => Ok(()),
    }
}

/// A path without links, as far as it is there.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut there = path.ancestors().filter_map(|part| {
        let rest = path.strip_prefix(part).ok()?;
        // Part by part: an empty rest would end with a slash.
        Some(
            part.canonicalize()
                .ok()?
                .components()
                .chain(rest.components())
                .collect(),
        )
    });
    there.next().unwrap_or_else(|| path.clone())
}

/// A running backup.
struct Backup<'a> {
    config: &'a Config,
    folder: PathBuf,
    scope: Scope,
    depth: Depth,
    runtime: Handle,
    from: Blobs,
    to: Blobs,
    before: Option<Manifest>,
    copied: (usize, u64),
    _lock: File,
}

/// Why a stored file is not in the backup.
enum Lack {
    Missing,
    Damaged,
}

impl<'a> Backup<'a> {
    fn begin(
        config: &'a Config,
        to: &Path,
        scope: Scope,
        depth: Depth,
    ) -> Result<Backup<'a>, BackupError> {
        let unread = |source| BackupError::Read {
            path: config.data.join(DATABASE),
            source,
        };
        if !has_database(&config.data).map_err(unread)? {
            return Err(BackupError::NoDatabase(config.data.clone()));
        }
        let written = |source| BackupError::Write {
            path: to.to_owned(),
            source,
        };
        std::fs::create_dir_all(to).map_err(written)?;
        let folder = to.canonicalize().map_err(written)?;
        if !may_hold_a_backup(&folder).map_err(written)? {
            return Err(BackupError::NotABackup(folder));
        }
        let lock = lock(&folder)?;
        Ok(Backup {
            config,
            scope,
            depth,
            runtime: Handle::current(),
            from: open_blobs(config)?,
            to: Blobs::folder(&folder.join(BLOBS))?,
            before: Manifest::read(&folder)?,
            folder,
            copied: (0, 0),
            _lock: lock,
        })
    }

    /// In tests, `between` runs between the copy of the database and those of the files.
    fn run(mut self, mut between: impl FnMut(usize)) -> Result<Report, BackupError> {
        self.clear_up(None)?;
        let mut missing = BTreeSet::new();
        for round in 0..MOST_COPIES {
            let (database, contents) = self.copy_database()?;
            between(round);
            let lacking = self.bring_files(&contents)?;
            let gone = lacking
                .iter()
                .filter(|(_, (lack, _))| matches!(lack, Lack::Missing));
            let gone: BTreeSet<String> = gone.map(|(hash, _)| hash.clone()).collect();
            // A file that a newer copy of the database also knows was not purged: it is lost.
            if gone.is_subset(&missing) || round + 1 == MOST_COPIES {
                return self.end(database, &contents, lacking);
            }
            missing = gone;
        }
        unreachable!("the last round ends")
    }

    fn copy_database(&self) -> Result<(DatabaseFile, CopyContents), BackupError> {
        self.drop_copies(self.before.as_ref())?;
        let file = format!("{COPY}{}.db", now_ms());
        let path = self.folder.join(&file);
        let failed = |source| BackupError::Database {
            to: path.clone(),
            source,
        };
        Store::copy(&self.config.data.join(DATABASE), &path).map_err(failed)?;
        let synced = File::open(&path).and_then(|copy| copy.sync_all());
        synced.map_err(|source| BackupError::Write {
            path: path.clone(),
            source,
        })?;
        let contents = Store::read_copy(&path).map_err(failed)?;
        let before = self.before.as_ref().map(|before| &before.database.id);
        if before.is_some_and(|id| *id != contents.database && !id.is_empty()) {
            // It belongs to no backup, so it cannot stay.
            let _ = std::fs::remove_file(&path);
            return Err(BackupError::OfAnother(self.folder.clone()));
        }
        let database = DatabaseFile {
            file,
            id: contents.database.clone(),
            blake3: hash_of(&path)?,
        };
        Ok((database, contents))
    }

    /// Copies the missing files. Returns those that cannot be copied, and why.
    fn bring_files(
        &mut self,
        contents: &CopyContents,
    ) -> Result<BTreeMap<String, (Lack, String)>, BackupError> {
        let there: BTreeMap<String, u64> = match self.scope {
            Scope::Database => BTreeMap::new(),
            Scope::Whole => {
                let found = self.runtime.block_on(self.to.list())?.into_iter();
                found.map(|blob| (blob.hash, blob.stored_bytes)).collect()
            }
        };
        let known = contents.blobs.iter().map(|blob| (&blob.hash, Some(blob)));
        let aside = contents.aside.iter().map(|blob| (&blob.hash, None));
        let mut lacking = BTreeMap::new();
        for (hash, row) in known.chain(aside) {
            let size = there.get(hash).copied();
            let brought = match (self.scope, size) {
                (Scope::Database, _) => self.look_for(hash),
                (Scope::Whole, Some(size)) if self.keeps(row, size) => Ok(()),
                (Scope::Whole, _) => self.bring(hash, row),
            };
            match brought {
                Ok(()) => {}
                // The old copy in the backup is better than none.
                Err(BlobError::Damaged(_) | BlobError::Missing(_))
                    if size.is_some() && self.is_whole(hash, row) => {}
                Err(error @ BlobError::Missing(_)) => {
                    lacking.insert(hash.clone(), (Lack::Missing, error.to_string()));
                }
                Err(error @ BlobError::Damaged(_)) => {
                    lacking.insert(hash.clone(), (Lack::Damaged, error.to_string()));
                }
                Err(source) => {
                    let hash = hash.clone();
                    return Err(BackupError::Copy { hash, source });
                }
            }
        }
        Ok(lacking)
    }

    /// Whether the file in the backup need not be copied again. A blob that was packed again has
    /// another size.
    fn keeps(&self, row: Option<&BlobRow>, size: u64) -> bool {
        let same = row.is_none_or(|row| row.stored_bytes == size);
        match (same, self.depth, row) {
            (false, ..) => false,
            (true, Depth::New, _) => true,
            (true, Depth::All, Some(row)) => self.to.check(&self.runtime, row).is_ok(),
            (true, Depth::All, None) => false,
        }
    }

    fn is_whole(&self, hash: &str, row: Option<&BlobRow>) -> bool {
        match row {
            Some(row) => self.to.check(&self.runtime, row).is_ok(),
            None => self.to.identify(&self.runtime, hash).is_ok(),
        }
    }

    fn bring(&mut self, hash: &str, row: Option<&BlobRow>) -> Result<(), BlobError> {
        let row = match row {
            Some(row) => row.clone(),
            None => self.from.identify(&self.runtime, hash)?,
        };
        let bytes = self.from.copy_to(&self.runtime, &self.to, &row)?;
        let (files, all) = self.copied;
        self.copied = (files + 1, all + bytes);
        Ok(())
    }

    fn look_for(&self, hash: &str) -> Result<(), BlobError> {
        match self.runtime.block_on(self.from.has(hash))? {
            true => Ok(()),
            false => Err(BlobError::Missing(hash.to_owned())),
        }
    }

    /// Writes the manifest, which completes the backup. After that, files that only the older
    /// backup needed may be removed.
    fn end(
        self,
        database: DatabaseFile,
        contents: &CopyContents,
        lacking: BTreeMap<String, (Lack, String)>,
    ) -> Result<Report, BackupError> {
        let files = match (self.scope, &self.config.blobs) {
            (Scope::Whole, _) => Files::Here,
            (Scope::Database, Some(address)) => Files::LeftAt(address.clone()),
            (Scope::Database, None) => {
                let blobs = self.config.data.join(BLOBS);
                Files::LeftAt(blobs.display().to_string())
            }
        };
        let hashes = lacking.keys().cloned().collect();
        let belonging = others::belonging(&self.config.data, contents);
        let mut manifest = Manifest::new(now_ms(), database, files, hashes);
        manifest.projects = Some(belonging.clone());
        manifest.write(&self.folder)?;
        let report = Report {
            database: self.folder.join(&manifest.database.file),
            runs: contents.runs,
            files: contents.blobs.len() + contents.aside.len(),
            copied: self.copied,
            lacking: lacking.into_values().map(|(_, why)| why).collect(),
            projects: Vec::new(),
            belonging,
        };
        self.drop_copies(Some(&manifest))?;
        self.clear_up(Some(contents))?;
        Ok(report)
    }

    /// Removes what a killed backup left behind, and files that the complete backup does not need.
    fn clear_up(&self, needed: Option<&CopyContents>) -> Result<(), BackupError> {
        self.runtime.block_on(self.to.sweep_incoming())?;
        let Some(needed) = needed else { return Ok(()) };
        let blobs = needed.blobs.iter().map(|blob| &blob.hash);
        let known: BTreeSet<&String> = blobs
            .chain(needed.aside.iter().map(|blob| &blob.hash))
            .collect();
        for blob in self.runtime.block_on(self.to.list())? {
            if !known.contains(&blob.hash) {
                self.runtime.block_on(self.to.remove(&blob.hash))?;
            }
        }
        Ok(())
    }

    /// Removes all copies of the database except that of this manifest.
    fn drop_copies(&self, of: Option<&Manifest>) -> Result<(), BackupError> {
        let failed = |path: &Path, source| BackupError::Write {
            path: path.to_owned(),
            source,
        };
        let entries = self.folder.read_dir();
        for entry in entries
            .map_err(|source| failed(&self.folder, source))?
            .flatten()
        {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_of = of.is_some_and(|manifest| name.starts_with(&manifest.database.file));
            if is_copy(&name) && !is_of {
                let path = entry.path();
                std::fs::remove_file(&path).map_err(|source| failed(&path, source))?;
            }
        }
        Ok(())
    }
}

/// Whether everything in a folder can belong to a backup.
fn may_hold_a_backup(folder: &Path) -> std::io::Result<bool> {
    let ours = |name: &str| {
        let ours = [
            BLOBS,
            LOCK,
            MANIFEST,
            manifest::PART,
            PROJECTS,
            "lost+found",
        ];
        ours.contains(&name) || is_copy(name)
    };
    if Blobs::are_owned(&folder.join(BLOBS)) {
        // This is a server's own blob store: cleaning up here would remove what it is about to
        // store.
        return Ok(false);
    }
    let mut entries = folder.read_dir()?.flatten();
    Ok(entries.all(|entry| ours(&entry.file_name().to_string_lossy())))
}

/// `database-MILLISECONDS.db`, and the files that SQLite may leave beside it.
fn is_copy(name: &str) -> bool {
    let rest = name.strip_prefix(COPY).unwrap_or_default();
    let end = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    end.len() < rest.len() && [".db", ".db-journal"].contains(&end)
}

fn lock(folder: &Path) -> Result<File, BackupError> {
    let path = folder.join(LOCK);
    let file = File::create(&path).map_err(|source| BackupError::Write { path, source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => Err(BackupError::InUse(folder.to_owned())),
    }
}
