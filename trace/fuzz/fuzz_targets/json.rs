//! Any JSON, in pieces of any size, gives a snapshot or an error, and the same one for every size
//! of the pieces.
//!
//! The fuzzer writes only the text inside the outermost braces, so that it gets past the first
//! byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::reader::{Limits, ReadError, Reader};
use trace::snapshot::Snapshot;

const LIMITS: Limits = Limits {
    depth: 64,
    memo: 1 << 20,
    string: 1 << 16,
    stack_frames: 1 << 12,
    events: 1 << 16,
    memory: 64 << 20,
};

fn read(bytes: &[u8], piece: usize) -> Result<Snapshot, ReadError> {
    let mut reader = Reader::new(LIMITS);
    reader.push(b"{")?;
    for bytes in bytes.chunks(piece) {
        reader.push(bytes)?;
    }
    reader.push(b"}")?;
    reader.finish()
}

fuzz_target!(|bytes: &[u8]| {
    let at_once = read(bytes, bytes.len().max(1));
    assert_eq!(read(bytes, 1 + bytes.len() % 13), at_once);
});
