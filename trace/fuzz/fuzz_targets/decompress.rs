//! Any bytes, in pieces of any size, give the same unpacked bytes or an error, and never more bytes
//! than allowed.
#![no_main]

// Only these files of the server are included: to build the whole server, with its database, would
// take minutes.
#[path = "../../../server/src/system/compression.rs"]
#[allow(dead_code, reason = "the server uses more of it")]
mod compression;
#[path = "../../../server/src/ingest/decompress.rs"]
#[allow(dead_code, reason = "the server uses more of it")]
mod decompress;
/// Where the server has it.
mod system {
    pub(crate) use super::compression;
}

use decompress::{DecompressError, Decompressor};
use libfuzzer_sys::fuzz_target;
use trace::units::Bytes;

const LIMIT: Bytes = Bytes::mib(1);

fn unpack(bytes: &[u8], piece: usize) -> Option<Vec<u8>> {
    let mut decompressor = Decompressor::new(LIMIT);
    let mut all = Vec::new();
    let mut sink = |bytes: &[u8]| {
        all.extend_from_slice(bytes);
        Ok::<(), DecompressError>(())
    };
    for piece in bytes.chunks(piece) {
        decompressor.push(piece, &mut sink).ok()?;
    }
    decompressor.finish(&mut sink).ok()?;
    Some(all)
}

fuzz_target!(|bytes: &[u8]| {
    let at_once = unpack(bytes, bytes.len().max(1));
    assert_eq!(unpack(bytes, 1 + bytes.len() % 17), at_once);
    // Bytes that are compressed here must unpack to themselves.
    let packed = zstd::encode_all(bytes, 1).expect("memory takes it");
    assert_eq!(unpack(&packed, 1 + bytes.len() % 7).as_deref(), Some(bytes));
});
