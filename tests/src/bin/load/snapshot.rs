//! Writes a snapshot of 100 MB byte by byte: blocks that are allocated and soon freed.

/// About how many bytes the file has.
const SIZE: usize = 100_000_000;

/// Blocks that are alive at the same time.
const ALIVE: u64 = 4096;

/// Events in one batch, as CPython's pickler writes them.
const BATCH: u64 = 1000;

const DICT: u8 = b'}';
const LIST: u8 = b']';
const MARK: u8 = b'(';
const SET_ITEMS: u8 = b'u';
const APPENDS: u8 = b'e';
const APPEND: u8 = b'a';
const STOP: u8 = b'.';

/// The file; another seed gives other contents.
pub fn of_100_mb(seed: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(SIZE + (1 << 16));
    out.extend([0x80, 2, DICT, MARK]);
    text(&mut out, "segments");
    out.push(LIST);
    text(&mut out, "device_traces");
    out.extend([LIST, LIST]);
    let mut n = 0;
    while out.len() < SIZE {
        out.push(MARK);
        for _ in 0..BATCH {
            event(&mut out, seed, n);
            n += 1;
        }
        out.push(APPENDS);
    }
    out.extend([APPEND, SET_ITEMS, STOP]);
    out
}

/// Every second event frees what was allocated [`ALIVE`] allocations before.
fn event(out: &mut Vec<u8>, seed: u64, n: u64) {
    let (block, frees) = (n / 2, n % 2 == 1 && n / 2 >= ALIVE);
    let block = if frees { block - ALIVE } else { block };
    let slot = if n % 2 == 1 && !frees {
        ALIVE + block
    } else {
        block
    };
    let size = 512 * (1 + (slot.wrapping_mul(seed | 1) >> 7) % 4096);
    out.extend([DICT, MARK]);
    text(out, "action");
    text(out, if frees { "free_completed" } else { "alloc" });
    text(out, "addr");
    long(out, 0x7f00_0000_0000 + slot * (4 << 20));
    text(out, "size");
    long(out, size);
    text(out, "stream");
    long(out, 0);
    text(out, "time_us");
    long(out, (seed >> 20) + n);
    text(out, "frames");
    out.extend([LIST, SET_ITEMS]);
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.push(b'X');
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

fn long(out: &mut Vec<u8>, number: u64) {
    out.extend([0x8a, 9]);
    out.extend(number.to_le_bytes());
    out.push(0);
}
