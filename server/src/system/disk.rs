//! Free space on a disk.

use std::path::Path;

/// Free bytes on the disk of a folder that this process may use, if that is known.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
