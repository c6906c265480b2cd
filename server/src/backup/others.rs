//! The other projects of a server: which belong to its backup, and which do not any more.

use super::{BLOBS, BackupError, DATABASE, Manifest, lock, may_hold_a_backup};
use crate::projects::{folder_of, found_in};
use crate::store::CopyContents;
use api::projects::ProjectName;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The projects that belong to the backup of a data folder. A project that was removed for good
/// does not, although the backup may still hold what an earlier one copied of it.
pub fn belonging(data: &Path, contents: &CopyContents) -> Vec<ProjectName> {
    let known = contents.projects.iter();
    let known: BTreeMap<&ProjectName, bool> = known
        .map(|row| (&row.name, row.closed_ms.is_none()))
        .collect();
    let found = found_in(data);
    let all: BTreeSet<&ProjectName> = known.keys().copied().chain(&found).collect();
    let belongs = |name: &ProjectName| {
        let folder = folder_of(data, name);
        let there = folder.join(DATABASE).exists() || folder.join(BLOBS).exists();
        match known.get(name) {
            // One that was never opened has nothing to back up.
            None => there,
            // The folder of one that is open may be missing by accident.
            Some(is_open) => *is_open || folder.exists(),
        }
    };
    let all = all.into_iter().filter(|name| !name.is_main());
    all.filter(|name| belongs(name)).cloned().collect()
}

/// Says that a project has no database that could be copied.
pub fn without_a_database(data: &Path, project: &ProjectName) -> String {
    let folder = folder_of(data, project);
    format!(
        "the project {project} has no database in {}: what an earlier backup copied of it stays",
        folder.display()
    )
}

/// The projects whose backups in this folder belong to the backup there.
pub fn of_backup(from: &Path, manifest: &Manifest) -> Vec<ProjectName> {
    match &manifest.projects {
        Some(projects) => projects.clone(),
        None => found_in(from),
    }
}

/// Removes the backups of projects that were removed for good.
///
/// # Errors
/// When something cannot be removed.
pub fn drop_removed(to: &Path, belonging: &[ProjectName]) -> Result<(), BackupError> {
    for project in found_in(to) {
        let folder = folder_of(to, &project);
        let failed = |source| BackupError::Write {
            path: folder.clone(),
            source,
        };
        if belonging.contains(&project) || !may_hold_a_backup(&folder).map_err(failed)? {
            continue;
        }
        let _lock = lock(&folder)?;
        std::fs::remove_dir_all(&folder).map_err(failed)?;
    }
    Ok(())
}
