//! Any bytes, in pieces of any size, give a snapshot or an error: the same one for every size of
//! the pieces, without a panic, and within the limits.
//!
//! `./check fuzz` runs this target with the others.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::reader::{Limits, ReadError, ReadErrorKind, Reader};
use trace::snapshot::Snapshot;

const LIMITS: Limits = Limits {
    depth: 64,
    memo: 1 << 20,
    string: 1 << 16,
    stack_frames: 1 << 12,
    events: 1 << 16,
    memory: 32 << 20,
};

/// Memory may exceed the limit by as much as one piece of 256 KiB can ask for.
const SLACK: usize = 16 << 20;

fn read(bytes: &[u8], piece: usize) -> Result<Snapshot, ReadError> {
    let mut reader = Reader::new(LIMITS);
    for bytes in bytes.chunks(piece) {
        let pushed = reader.push(bytes);
        assert!(reader.memory_used() <= LIMITS.memory + SLACK);
        pushed?;
    }
    reader.finish()
}

fn out_of_memory(read: &Result<Snapshot, ReadError>) -> bool {
    let limit = ReadErrorKind::Limit("memory in bytes", LIMITS.memory as u64);
    read.as_ref().is_err_and(|error| error.kind == limit)
}

fuzz_target!(|bytes: &[u8]| {
    let at_once = read(bytes, bytes.len().max(1));
    let piece = 1 + bytes.len() % 97;
    let in_pieces = read(bytes, piece);
    // The reader checks its memory after each piece, so the size of the pieces decides when it runs
    // out.
    if !out_of_memory(&at_once) && !out_of_memory(&in_pieces) {
        assert_eq!(in_pieces, at_once);
    }
});
