//! Seeded mutations of the fuzzer's seeds: a few seconds of fuzzing wherever tests run.

use crate::reader::{Limits, ReadError, ReadErrorKind, Reader};
use crate::snapshot::Snapshot;

const SEEDS: [&[u8]; 10] = [
    include_bytes!("../../../fuzz/seeds/graphs.pickle"),
    include_bytes!("../../../fuzz/seeds/torch-2.0.pickle"),
    include_bytes!("../../../fuzz/seeds/torch-2.15.pickle"),
    include_bytes!("../../../fuzz/seeds/torch-2.15-cpp.pickle"),
    include_bytes!("../../../fuzz/seeds/torch-2.15.json"),
    include_bytes!("../../../fuzz/seeds/calls-system.pickle"),
    include_bytes!("../../../fuzz/seeds/frame-by-frame.pickle"),
    include_bytes!("../../../fuzz/seeds/holds-itself.pickle"),
    include_bytes!("../../../fuzz/seeds/many-marks.pickle"),
    include_bytes!("../../../fuzz/seeds/forward-reference.pickle"),
];

const LIMITS: Limits = Limits {
    depth: 64,
    memo: 1 << 20,
    string: 1 << 16,
    stack_frames: 1 << 12,
    events: 1 << 16,
    memory: 8 << 20,
};

/// Memory may exceed the limit by what one piece can ask for.
const SLACK: usize = 4 << 20;

/// How many mutated files are read.
const ROUNDS: usize = 12_000;

/// SplitMix64: the same mutations in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    fn range(&mut self, len: usize, longest: usize) -> std::ops::Range<usize> {
        let start = self.below(len + 1);
        let n = self.below(longest.min(len - start) + 1);
        start..start + n
    }
}

fn mutate(file: &mut Vec<u8>, random: &mut Random) {
    // Opcodes, and bytes at the ends of ranges.
    const BYTES: &[u8] = b"\x00\x01\x7f\x80\xff(}]usea0.12tldhjqrKMJNGX\x85\x86\x87\x88\x89\
        \x8a\x8b\x8c\x8d\x94\x95cRbio{[\",:\\-9";
    match random.below(7) {
        0 if !file.is_empty() => {
            let at = random.below(file.len());
            file[at] ^= 1 << random.below(8);
        }
        1 if !file.is_empty() => {
            let at = random.below(file.len());
            file[at] = BYTES[random.below(BYTES.len())];
        }
        2 => {
            let at = random.below(file.len() + 1);
            file.insert(at, BYTES[random.below(BYTES.len())]);
        }
        3 => {
            let range = random.range(file.len(), 64);
            file.drain(range);
        }
        4 => {
            // Repeats a part of the file, often many times.
            let range = random.range(file.len(), 200);
            let copy = file[range.clone()].repeat(1 + random.below(64));
            file.splice(range.end..range.end, copy);
        }
        5 => {
            let other = SEEDS[random.below(SEEDS.len())];
            let range = random.range(other.len(), 400);
            let at = random.below(file.len() + 1);
            file.splice(at..at, other[range].iter().copied());
        }
        _ => file.truncate(random.below(file.len() + 1)),
    }
}

fn read(bytes: &[u8], piece: usize) -> Result<Snapshot, ReadError> {
    let mut reader = Reader::new(LIMITS);
    for bytes in bytes.chunks(piece) {
        let pushed = reader.push(bytes);
        let used = reader.memory_used();
        assert!(used <= LIMITS.memory + SLACK, "{used} bytes");
        pushed?;
    }
    reader.finish()
}

fn out_of_memory(read: &Result<Snapshot, ReadError>) -> bool {
    let limit = ReadErrorKind::Limit("memory in bytes", LIMITS.memory as u64);
    read.as_ref().is_err_and(|error| error.kind == limit)
}

#[test]
fn mutated_seeds_end_well_and_the_same_in_any_pieces() {
    let mut random = Random(20_260_101);
    let mut readable = 0;
    for round in 0..ROUNDS {
        let mut file = SEEDS[round % SEEDS.len()].to_vec();
        for _ in 0..1 + random.below(6) {
            mutate(&mut file, &mut random);
        }
        let at_once = read(&file, file.len().max(1));
        let piece = 1 + random.below(97);
        let in_pieces = read(&file, piece);
        // The memory in use is checked after each piece, so these two errors may differ.
        if !out_of_memory(&at_once) && !out_of_memory(&in_pieces) {
            assert_eq!(in_pieces, at_once, "round {round}, pieces of {piece}");
        }
        if let Err(error) = &at_once {
            assert!(error.offset <= file.len() as u64, "{error}");
        }
        readable += usize::from(at_once.is_ok());
    }
    // Some mutations are harmless: then there must be a snapshot.
    assert!(readable > ROUNDS / 100, "{readable} of {ROUNDS}");
}
