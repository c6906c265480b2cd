//! How to recognise compressed files.

/// The first bytes of a gzip stream (RFC 1952).
pub const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The first bytes of a zstd frame (RFC 8878).
pub const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The mark in the head of a tar entry, and its position (POSIX.1-2017, pax, "ustar Interchange
/// Format").
const TAR_MAGIC: &[u8] = b"ustar";
const TAR_MAGIC_AT: usize = 257;

/// Whether a file that begins like this is a tar archive.
pub fn is_tar(head: &[u8]) -> bool {
    let mark = head.get(TAR_MAGIC_AT..TAR_MAGIC_AT + TAR_MAGIC.len());
    mark == Some(TAR_MAGIC)
}

/// Whether a file with this beginning is compressed.
pub fn is_compressed(head: &[u8]) -> bool {
    head.starts_with(&GZIP_MAGIC) || head.starts_with(&ZSTD_MAGIC)
}
