//! Restores a data folder from a backup. All of the backup is read before anything is written, and
//! nothing is overwritten.

use super::manifest::{Files, Manifest, hash_of};
use super::{BLOBS, BackupError, check_apart, lock, others};
use crate::app::open_blobs;
use crate::blobs::{BlobError, Blobs};
use crate::config::Config;
use crate::projects;
use crate::store::{BlobRow, CopyContents, Store};
use crate::system::data_folder::{DATABASE, LOCK, RESTORING};
use crate::system::data_lock::{DataLock, For};
use api::projects::ProjectName;
use std::fs::File;
use std::path::{Path, PathBuf};
use tokio::runtime::Handle;

/// What to do about damage in a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtDamage {
    /// Restore nothing.
    Refuse,
    /// Restore the rest.
    Skip,
}

/// What was restored.
#[derive(Debug)]
pub struct Restored {
    /// When the backup was made, in milliseconds since the epoch.
    pub made_ms: i64,
    /// Runs, including deleted ones; `None` if the database was damaged and left out.
    pub runs: Option<usize>,
    /// Stored files that were copied.
    pub files: usize,
    /// The place of the stored files that were not in the backup.
    pub left_at: Option<String>,
    /// Parts that are damaged or missing, and projects without a complete backup, a sentence each.
    pub lacking: Vec<String>,
    /// The other projects.
    pub projects: Vec<(ProjectName, Restored)>,
}

/// A backup that was read completely.
struct Examined {
    manifest: Manifest,
    database: PathBuf,
    /// `None` if the copy of the database is damaged.
    contents: Option<CopyContents>,
    /// Files that are whole.
    whole: Vec<BlobRow>,
    damaged: Vec<String>,
    /// Files that were not there when the backup was made.
    lacking: Vec<String>,
}

/// Restores the backup in a folder as the data folder of `config`, and its blobs, with all its
/// projects. On a blocking thread.
///
/// # Errors
/// Why nothing was restored. Or, if the disk is full, why only a part was restored; then the same
/// command continues.
pub fn restore(from: &Path, config: &Config, at_damage: AtDamage) -> Result<Restored, BackupError> {
    check_apart(&config.data, from)?;
    let main = Part::read(from, config.clone())?;
    let (others, unfinished) = Part::of_others(from, config, &main.examined.manifest)?;
    let parts = std::iter::once(&main).chain(others.iter().map(|(part, _)| part));
    let damaged = parts.flat_map(|part| part.examined.damaged.clone());
    let damaged: Vec<String> = damaged.collect();
    if at_damage == AtDamage::Refuse && !damaged.is_empty() {
        return Err(BackupError::Damaged {
            folder: from.to_owned(),
            files: damaged,
        });
    }
    // The first project's mark stays until all projects are there: no server starts before that,
    // and the same command continues.
    let _lock = DataLock::take(&config.data, For::Restoring)?;
    let mut restored = main.fill()?;
    restored.lacking.extend(unfinished);
    for (part, project) in others {
        let config = part.config.clone();
        let _lock = DataLock::take(&config.data, For::Restoring)?;
        let of_project = part.fill()?;
        end(&config.data)?;
        restored.projects.push((project, of_project));
    }
    end(&config.data)?;
    Ok(restored)
}

/// Notes that a data folder is complete.
fn end(data: &Path) -> Result<(), BackupError> {
    let mark = data.join(RESTORING);
    let ended = std::fs::remove_file(&mark).and_then(|()| File::open(data)?.sync_all());
    ended.map_err(|source| BackupError::Write { path: mark, source })
}

/// The backup of one project, and where it goes.
struct Part {
    config: Config,
    source: Blobs,
    examined: Examined,
    _lock: Option<File>,
}

/// The other projects that have a backup, and a sentence for each that has none.
type Others = (Vec<(Part, ProjectName)>, Vec<String>);

impl Part {
    /// Reads the backups of the other projects. Also says which projects have none, a sentence
    /// each: a backup that was killed leaves the folder of a project that it had only begun, and
    /// that must not keep the others from being restored.
    fn of_others(from: &Path, config: &Config, manifest: &Manifest) -> Result<Others, BackupError> {
        let begun = config.data.join(RESTORING).exists();
        // An attempt that was interrupted has finished these.
        let is_done = |project: &ProjectName| {
            let data = projects::folder_of(&config.data, project);
            begun && data.join(DATABASE).exists() && !data.join(RESTORING).exists()
        };
        let (mut parts, mut unfinished) = (Vec::new(), Vec::new());
        for project in others::of_backup(from, manifest) {
            if is_done(&project) {
                continue;
            }
            let from = projects::folder_of(from, &project);
            match Part::read(&from, projects::config_of(config, &project)) {
                Ok(part) => parts.push((part, project)),
                Err(error @ BackupError::None(_)) => {
                    unfinished.push(format!("the project {project}: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((parts, unfinished))
    }

    /// Reads all of the backup in a folder.
    fn read(from: &Path, config: Config) -> Result<Part, BackupError> {
        let runtime = Handle::current();
        let backup = Manifest::read(from)?.ok_or_else(|| BackupError::None(from.to_owned()))?;
        // A backup on a read-only disk needs no lock.
        let lock = match lock(from) {
            Err(BackupError::Write { .. }) => None,
            lock => Some(lock?),
        };
        refuse_what_is_there(&config)?;
        let source = Blobs::folder(&from.join(BLOBS))?;
        let examined = examine(from, backup, &source, &runtime)?;
        Ok(Part {
            config,
            source,
            examined,
            _lock: lock,
        })
    }

    fn fill(self) -> Result<Restored, BackupError> {
        fill(
            &self.config,
            self.examined,
            &self.source,
            &Handle::current(),
        )
    }
}

/// A folder counts as empty if it has only the traces of an earlier attempt to restore.
fn refuse_what_is_there(config: &Config) -> Result<(), BackupError> {
    let data = &config.data;
    let Ok(entries) = data.read_dir() else {
        return Ok(());
    };
    let allowed = [LOCK, "lost+found"];
    let begun = data.join(RESTORING).exists();
    let is_other = |name: &str| !allowed.contains(&name);
    let mut names = entries.flatten().map(|entry| entry.file_name());
    if !begun && names.any(|name| is_other(&name.to_string_lossy())) {
        return Err(BackupError::NotEmpty(data.display().to_string()));
    }
    Ok(())
}

/// Reads everything.
fn examine(
    from: &Path,
    manifest: Manifest,
    source: &Blobs,
    runtime: &Handle,
) -> Result<Examined, BackupError> {
    let database = from.join(&manifest.database.file);
    let mut damaged = Vec::new();
    let contents = match read_database(&database, &manifest) {
        Ok(contents) => Some(contents),
        Err(why) => {
            damaged.push(why);
            None
        }
    };
    let mut examined = Examined {
        database,
        contents,
        whole: Vec::new(),
        damaged,
        lacking: manifest.lacking.iter().map(|hash| gone(hash)).collect(),
        manifest,
    };
    if examined.manifest.files != Files::Here {
        return Ok(examined);
    }
    for (hash, row) in wanted(&examined, source, runtime)? {
        let found = match row {
            Some(row) => source.check(runtime, &row).map(|()| row),
            None => source.identify(runtime, &hash),
        };
        match found {
            Ok(row) => examined.whole.push(row),
            Err(error @ (BlobError::Damaged(_) | BlobError::Missing(_))) => {
                let folder = hash.get(..2).unwrap_or_default();
                let path = from.join(BLOBS).join(folder).join(&hash);
                let known = examined.manifest.lacking.contains(&hash);
                if !known {
                    examined
                        .damaged
                        .push(format!("{}: {error}", path.display()));
                }
            }
            Err(source) => return Err(BackupError::Copy { hash, source }),
        }
    }
    Ok(examined)
}

fn gone(hash: &str) -> String {
    format!("the stored file {hash} was damaged or missing when the backup was made")
}

/// The files that should be in the backup: those that its database knows. Without a database, those
/// that are there.
fn wanted(
    examined: &Examined,
    source: &Blobs,
    runtime: &Handle,
) -> Result<Vec<(String, Option<BlobRow>)>, BackupError> {
    let Some(contents) = &examined.contents else {
        let found = runtime.block_on(source.list())?;
        return Ok(found.into_iter().map(|blob| (blob.hash, None)).collect());
    };
    let known = contents.blobs.iter();
    let known = known.map(|blob| (blob.hash.clone(), Some(blob.clone())));
    let aside = contents.aside.iter().map(|blob| (blob.hash.clone(), None));
    Ok(known.chain(aside).collect())
}

/// The contents of the database copy, or its damage.
fn read_database(path: &Path, manifest: &Manifest) -> Result<CopyContents, String> {
    let hash = hash_of(path).map_err(|error| error.to_string())?;
    if hash != manifest.database.blake3 {
        let why = "its bytes are not those that were backed up";
        return Err(format!(
            "{}: the database is damaged: {why}",
            path.display()
        ));
    }
    // A database of a newer version is not damaged; its own error says so.
    Store::read_copy(path).map_err(|error| error.to_string())
}

/// Writes a backup that was read. The mark of an attempt that has begun stays.
fn fill(
    config: &Config,
    examined: Examined,
    source: &Blobs,
    runtime: &Handle,
) -> Result<Restored, BackupError> {
    let data = &config.data;
    let written = |path: PathBuf| move |source| BackupError::Write { path, source };
    let mark = data.join(RESTORING);
    let begun = mark.exists();
    let target = open_blobs(config)?;
    let mut lacking = examined.lacking;
    let left_at = match &examined.manifest.files {
        Files::Here => None,
        Files::LeftAt(place) => Some(place.clone()),
    };
    match (&left_at, begun) {
        (None, false) if !runtime.block_on(target.list())?.is_empty() => {
            let default = data.join(BLOBS).display().to_string();
            let place = config.blobs.clone().unwrap_or(default);
            return Err(BackupError::NotEmpty(place));
        }
        _ => {}
    }
    File::create(&mark).map_err(written(mark.clone()))?;
    if left_at.is_some() && config.blobs.is_some() {
        lacking.extend(not_there(&examined.contents, &target, runtime)?);
    }
    for row in &examined.whole {
        let copied = source.copy_to(runtime, &target, row);
        copied.map_err(|source| BackupError::Copy {
            hash: row.hash.clone(),
            source,
        })?;
    }
    if examined.contents.is_some() {
        let (part, place) = (data.join("tidemark.db.restoring"), data.join(DATABASE));
        let copied = std::fs::copy(&examined.database, &part)
            .and_then(|_| File::open(&part)?.sync_all())
            .and_then(|()| std::fs::rename(&part, &place));
        copied.map_err(written(place))?;
    }
    lacking.extend(examined.damaged);
    Ok(Restored {
        made_ms: examined.manifest.made_ms,
        runs: examined.contents.map(|contents| contents.runs),
        files: examined.whole.len(),
        left_at,
        lacking,
        projects: Vec::new(),
    })
}

/// Files that the database knows and that are missing from their place outside of the backup.
fn not_there(
    contents: &Option<CopyContents>,
    target: &Blobs,
    runtime: &Handle,
) -> Result<Vec<String>, BackupError> {
    let mut lacking = Vec::new();
    for blob in contents.iter().flat_map(|contents| &contents.blobs) {
        if !runtime.block_on(target.has(&blob.hash))? {
            lacking.push(BlobError::Missing(blob.hash.clone()).to_string());
        }
    }
    Ok(lacking)
}
