//! Files that only their owner may read.

use crate::system::data_folder::OURS;
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The rights of other users.
const OTHERS: u32 = 0o077;

/// From now on this process creates files with mode 0600 and folders with 0700, whatever its umask
/// was.
pub fn make_everything_private() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(OTHERS));
}

/// Which of our files a folder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The data folder.
    Data,
    /// A folder of blobs in another place.
    Blobs,
}

impl Kind {
    fn owns(self, name: &str) -> bool {
        match self {
            Kind::Data => OURS.iter().any(|ours| name.starts_with(ours)),
            Kind::Blobs => {
                let is_hex = |c: char| c.is_ascii_hexdigit();
                ["owner", "incoming"].contains(&name) || name.len() == 2 && name.chars().all(is_hex)
            }
        }
    }
}

/// Removes other users' rights to a folder; returns for how many files and folders. If the folder
/// has other content too, only our files in it are changed.
///
/// # Errors
/// When a file's mode cannot be changed because it belongs to another user.
pub fn tighten(folder: &Path, kind: Kind) -> io::Result<usize> {
    if !is_open(&folder.metadata()?) {
        return Ok(0);
    }
    let mut tightened = 0;
    let mut is_shared = false;
    for entry in folder.read_dir()?.flatten() {
        match kind.owns(&entry.file_name().to_string_lossy()) {
            true => tightened += tighten_all(&entry.path())?,
            false => is_shared = true,
        }
    }
    // This comes last: a closed folder means that its content is closed too.
    Ok(match is_shared {
        true => tightened,
        false => tightened + close(folder)?,
    })
}

fn tighten_all(path: &Path) -> io::Result<usize> {
    let mut tightened = 0;
    if path.symlink_metadata()?.is_dir() {
        for entry in path.read_dir()?.flatten() {
            tightened += tighten_all(&entry.path())?;
        }
    }
    Ok(tightened + close(path)?)
}

fn close(path: &Path) -> io::Result<usize> {
    let found = path.symlink_metadata()?;
    if !is_open(&found) || !(found.is_file() || found.is_dir()) {
        return Ok(0);
    }
    let mode = found.permissions().mode() & !OTHERS;
    std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(1)
}

fn is_open(found: &Metadata) -> bool {
    found.permissions().mode() & OTHERS != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    fn open_to_all(path: &Path) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn an_open_data_folder_is_closed_and_what_is_not_ours_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        let (database, blob) = (data.join("tidemark.db"), data.join("blobs/ab/abcd"));
        fs::create_dir_all(blob.parent().unwrap()).unwrap();
        for file in [&database, &blob] {
            fs::write(file, "x").unwrap();
            open_to_all(file);
        }
        open_to_all(data);
        assert!(tighten(data, Kind::Data).unwrap() >= 4);
        assert_eq!(
            (mode(data), mode(&database), mode(&blob)),
            (0o700, 0o600, 0o600)
        );
        assert_eq!(mode(&data.join("blobs/ab")), 0o700);
        assert_eq!(tighten(data, Kind::Data).unwrap(), 0);

        let foreign = data.join("notes.txt");
        fs::write(&foreign, "x").unwrap();
        [data, &foreign, &database]
            .into_iter()
            .for_each(open_to_all);
        assert_eq!(tighten(data, Kind::Data).unwrap(), 1);
        assert_eq!(
            (mode(data), mode(&database), mode(&foreign)),
            (0o755, 0o600, 0o644)
        );
    }
}
