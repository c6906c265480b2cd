//! A temporary folder for what an archive holds.
//!
//! It is removed when it is dropped. A program that is stopped drops nothing, so each folder has a
//! lock: a folder whose lock nobody holds is removed by the next command that needs one.

use std::fs::File;
use std::io;
use std::path::Path;
use tempfile::TempDir;

/// How the name of each folder begins.
const PREFIX: &str = "tidemark-";
/// The lock in it.
const LOCK: &str = ".in-use";

/// The folder, and the lock that says that it is in use.
#[derive(Debug)]
pub struct Room {
    folder: TempDir,
    _lock: File,
}

impl Room {
    /// A new one among other temporary files. What stopped programs left there is removed.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(among: &Path) -> io::Result<Room> {
        // What cannot be removed may be somebody else's, and disturbs nobody.
        let _ = remove_left(among);
        let folder = TempDir::with_prefix_in(PREFIX, among)?;
        // It gets its name when it is held, so that no other command finds it free.
        let unnamed = folder.path().join(".new");
        let lock = File::create(&unnamed)?;
        lock.lock()?;
        std::fs::rename(unnamed, folder.path().join(LOCK))?;
        Ok(Room {
            folder,
            _lock: lock,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders whose programs are gone.
fn remove_left(among: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(among)? {
        let entry = entry?;
        let is_room = entry.file_name().to_string_lossy().starts_with(PREFIX);
        // A link would lead to another folder.
        if !is_room || !entry.file_type()?.is_dir() {
            continue;
        }
        // One without a lock is being made, or is something else.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else {
            continue;
        };
        if lock.try_lock().is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_stopped_program_left_is_removed() {
        let among = tempfile::tempdir().unwrap();
        let used = Room::new(among.path()).unwrap();
        let left = among.path().join("tidemark-left");
        let other = among.path().join("tidemark-other");
        for folder in [&left, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("rank0.pickle"), b"x").unwrap();
        }
        File::create(left.join(LOCK)).unwrap();
        let second = Room::new(among.path()).unwrap();
        assert!(!left.exists());
        assert!(other.exists() && used.path().exists() && second.path().exists());
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }
}
