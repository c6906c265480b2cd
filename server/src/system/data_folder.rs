//! What lies in a data folder, by name.

use std::io;
use std::path::Path;

/// The database.
pub const DATABASE: &str = "tidemark.db";

/// The file that is locked while a server, or a command, works in the folder.
pub const LOCK: &str = "lock";

/// This file is there while the folder is being restored.
pub const RESTORING: &str = "restoring";

/// This file is there while the database is being made again. It names the damaged one.
pub const REBUILDING: &str = "rebuilding";

/// A file with this name next to the database says that the database has had people in it. It can
/// be read even when the database is damaged.
pub const HAS_PEOPLE: &str = "has-people";

/// Stored files, unless they are kept elsewhere.
pub const BLOBS: &str = "blobs";

/// What benches write.
pub const BENCH: &str = "bench";

/// The other projects, each in a folder like this one.
pub const PROJECTS: &str = "projects";

/// What the names of all of our files and folders begin with: SQLite puts files of its own beside
/// the database.
pub const OURS: [&str; 8] = [
    DATABASE, LOCK, RESTORING, REBUILDING, HAS_PEOPLE, BLOBS, BENCH, PROJECTS,
];

/// Whether a folder has a database.
///
/// # Errors
/// When the system does not let us look: another user's folder is not an empty one.
pub fn has_database(folder: &Path) -> io::Result<bool> {
    folder.join(DATABASE).try_exists()
}
