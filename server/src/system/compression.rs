//! How to recognise compressed files.

/// The first bytes of a gzip stream (RFC 1952).
pub const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The first bytes of a zstd frame (RFC 8878).
pub const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The last three of the first four bytes of a frame that a decoder skips, and the high half of the
/// byte before them (RFC 8878, 3.1.2). Programs that pack in parallel begin with one.
const SKIPPED: [u8; 3] = [0x2a, 0x4d, 0x18];
const SKIPPED_FIRST: u8 = 0x50;

/// Whether a file that begins like this is packed with zstd.
pub fn is_zstd(head: &[u8]) -> bool {
    let is_skipped =
        |first: &u8, rest: &[u8]| *first & 0xf0 == SKIPPED_FIRST && rest.starts_with(&SKIPPED);
    head.starts_with(&ZSTD_MAGIC)
        || head
            .split_first()
            .is_some_and(|(first, rest)| is_skipped(first, rest))
}

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
    head.starts_with(&GZIP_MAGIC) || is_zstd(head)
}
