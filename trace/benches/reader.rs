//! How fast snapshots are read: `cargo bench -p trace --bench reader`.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use trace::reader::{Limits, read};

fn main() {
    divan::main();
}

/// A real snapshot of torch 2.15: 149 events, with everything else that a snapshot holds.
const GRAPHS: &[u8] = include_bytes!("../fuzz/seeds/graphs.pickle");

#[divan::bench]
fn small_real_snapshot(bencher: Bencher) {
    bencher
        .counter(BytesCount::of_slice(GRAPHS))
        .bench(|| read(GRAPHS, Limits::default()).expect("a snapshot"));
}

/// A training run of `events` events, each with a stack of `frames` known frames.
#[divan::bench(args = [(100_000, 0), (100_000, 5), (100_000, 40)], sample_count = 20)]
fn events_with_frames(bencher: Bencher, (events, frames): (u32, u8)) {
    let file = training_run(events, frames);
    bencher
        .counter(BytesCount::of_slice(&file))
        .counter(ItemsCount::new(events))
        .bench(|| read(&file, Limits::default()).expect("a snapshot"));
}

/// Every event has its own size and metadata, so the reader's cache of recent values never helps.
#[divan::bench(args = [100_000], sample_count = 20)]
fn events_all_different(bencher: Bencher, events: u32) {
    let mut pickle = Pickle::new(1);
    (0..events).for_each(|n| pickle.event(n, 512 * n, &format!("layer {n}"), 1));
    let file = pickle.finish();
    bencher
        .counter(BytesCount::of_slice(&file))
        .counter(ItemsCount::new(events))
        .bench(|| read(&file, Limits::default()).expect("a snapshot"));
}

fn training_run(events: u32, frames: u8) -> Vec<u8> {
    let mut pickle = Pickle::new(frames);
    (0..events).for_each(|n| pickle.event(n, 512 << (n % 20), "", frames));
    pickle.finish()
}

const KEYS: [&str; 8] = [
    "action",
    "addr",
    "size",
    "stream",
    "time_us",
    "compile_context",
    "user_metadata",
    "frames",
];

/// Writes the bytes that CPython 3.12 would write.
struct Pickle {
    file: Vec<u8>,
    events: u32,
}

impl Pickle {
    /// The start of a snapshot, with all frames and keys in the first bytes of the memo.
    fn new(frames: u8) -> Pickle {
        let mut pickle = Pickle {
            file: b"\x80\x04}\x94(".to_vec(),
            events: 0,
        };
        pickle.text("frames of the run");
        pickle.file.extend(b"](");
        for key in ["name", "filename", "line"].iter().chain(&KEYS) {
            pickle.text(key);
        }
        // Places in the memo: 0 is the top, 1 its first key, 2 to 4 the keys of a frame, 5 to 12
        // those of an event.
        pickle.file.extend(b"e");
        for frame in 0..frames {
            pickle.text(&format!("frame {frame}"));
            pickle.file.extend(b"}(h\x02");
            pickle.text("forward");
            pickle.file.extend(b"h\x03");
            pickle.text("/srv/train/model.py");
            pickle.file.extend([b'h', 4, b'K', frame, b'u', 0x94]);
        }
        pickle.text("device_traces");
        pickle.file.extend(b"]]\x94(");
        pickle
    }

    fn text(&mut self, text: &str) {
        self.file.extend([0x8c, text.len() as u8]);
        self.file.extend(text.as_bytes());
        self.file.push(0x94);
    }

    fn event(&mut self, n: u32, size: u32, metadata: &str, frames: u8) {
        let action = if n.is_multiple_of(2) {
            "alloc"
        } else {
            "free_completed"
        };
        let file = &mut self.file;
        file.extend(b"}\x94(h\x05");
        self.text(action);
        let file = &mut self.file;
        file.extend(b"h\x06\x8a\x06");
        file.extend(&(0x7f00_0000_0000 + u64::from(n % 1000) * 512).to_le_bytes()[..6]);
        file.extend(b"h\x07J");
        file.extend((size & 0x7fff_ffff).to_le_bytes());
        file.extend(b"h\x08K\x00h\x09\x8a\x07");
        file.extend(&(1_700_000_000_000_000 + u64::from(n) * 3).to_le_bytes()[..7]);
        file.extend(b"h\x0a");
        self.text("N/A");
        self.file.extend(b"h\x0b");
        self.text(metadata);
        self.file.extend(b"h\x0c]\x94");
        if frames > 0 {
            // A frame takes four places in the memo: its name, function, file, and the frame
            // itself.
            self.file.push(b'(');
            (0..frames).for_each(|frame| self.file.extend([b'h', 13 + frame * 4 + 3]));
            self.file.push(b'e');
        }
        self.file.push(b'u');
        self.events += 1;
        if self.events.is_multiple_of(1000) {
            self.file.extend(b"e(");
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.file.extend(b"eau.");
        self.file
    }
}
