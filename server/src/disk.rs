//! What a disk has left.

use std::path::Path;

/// Bytes free for us on the disk that holds a folder, if that can be known.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
