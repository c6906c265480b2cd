//! What the reader and the replay say that they hold, against what the allocator was asked for.
//!
//! A test binary of its own: its allocator counts, and one test runs at a time.

// The one way to count what an allocator is asked for; no product code is compiled with it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use trace::categories::{self, Categories};
use trace::reader::{Limits, Reader};
use trace::snapshot::Snapshot;
use trace::steps::levels;
use trace::testing::bombs::{ALL, Bomb};
use trace::trace::Trace;
use trace::watch::Watch;

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn more(bytes: usize) {
    let held = HELD.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(held, Relaxed);
}

// SAFETY: every call goes to the system's allocator as it is; counting touches no memory of its.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The system moves pages, so that a vector is not there twice while it grows.
        HELD.fetch_sub(layout.size(), Relaxed);
        more(size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that do not count: small texts, and what the test itself needs.
const SLACK: usize = 256 << 10;

static WRONG: AtomicUsize = AtomicUsize::new(0);

/// Tells every figure that is wrong, not just the first.
fn expect(right: bool, figure: std::fmt::Arguments<'_>) {
    if !right {
        eprintln!("{figure}");
        WRONG.fetch_add(1, Relaxed);
    }
}

/// Reads a bomb piece by piece. After each piece the reader's figure must be the allocator's.
fn read(bomb: &Bomb) -> Option<Snapshot> {
    let file = bomb.file(bomb.small);
    let before = HELD.load(Relaxed);
    let held = || HELD.load(Relaxed) - before;
    let limits = Limits {
        memory: 1 << 30,
        ..Limits::default()
    };
    let mut reader = Reader::new(limits);
    for piece in file.chunks(64 << 10) {
        if reader.push(piece).is_err() {
            return None;
        }
        let (said, is) = (reader.memory_used(), held());
        let off = said.abs_diff(is);
        expect(
            off <= is / 10 + SLACK,
            format_args!("{}: {said} said, {is} held", bomb.name),
        );
    }
    let said = reader.memory_to_finish();
    PEAK.store(HELD.load(Relaxed), Relaxed);
    let snapshot = reader.finish().ok()?;
    let peak = PEAK.load(Relaxed) - before;
    expect(
        peak <= said + said / 10 + SLACK,
        format_args!("{}: {said} said, {peak} at most", bomb.name),
    );
    let (said, is) = (snapshot.heap_bytes(), held());
    expect(
        said.abs_diff(is) <= is / 10 + SLACK,
        format_args!("{}: {said} said, {is} held", bomb.name),
    );
    Some(snapshot)
}

/// Replays it. Never may more be held than was said before, but for a tenth.
fn replay(bomb: &Bomb, snapshot: Snapshot) {
    let before = HELD.load(Relaxed) - snapshot.heap_bytes();
    let said = Cell::new(snapshot.heap_bytes());
    PEAK.store(HELD.load(Relaxed), Relaxed);
    let check = || {
        let (peak, said) = (PEAK.load(Relaxed).saturating_sub(before), said.get());
        expect(
            peak <= said + said / 10 + SLACK,
            format_args!("{}: {said} said, {peak} held", bomb.name),
        );
        PEAK.store(HELD.load(Relaxed), Relaxed);
    };
    let look = |bytes| {
        check();
        said.set(bytes);
        true
    };
    let trace = trace::replay::run_watched(snapshot, Watch::new(&look)).unwrap();
    check();
    let (said, is) = (trace.heap_bytes(), HELD.load(Relaxed) - before);
    expect(
        said.abs_diff(is) <= is / 10 + SLACK,
        format_args!("{}: {said} said, {is} held", bomb.name),
    );
    ask(bomb, &trace);
}

/// Asks what needs memory besides the trace. Never may more be held than was said.
fn ask(bomb: &Bomb, trace: &Trace) {
    let stacks = &trace.stacks;
    let check = |what: &str, said: usize, work: &mut dyn FnMut()| {
        let before = HELD.load(Relaxed);
        PEAK.store(before, Relaxed);
        work();
        let peak = PEAK.load(Relaxed) - before;
        expect(
            peak <= said + said / 10 + SLACK,
            format_args!("{}: {what}: {said} said, {peak} held", bomb.name),
        );
    };
    for device in &trace.devices {
        let said = categories::memory_needed(device, stacks);
        check("categories", said, &mut || {
            Categories::of(device, stacks);
        });
        let said = levels::memory_needed(device, stacks);
        check("loops", said, &mut || {
            levels::of_device(device, stacks);
        });
    }
}

#[test]
fn what_is_said_to_be_held_is_held() {
    let mut replayed = 0;
    for bomb in ALL {
        if let Some(snapshot) = read(bomb) {
            replay(bomb, snapshot);
            replayed += 1;
        }
    }
    assert!(replayed > 10, "{replayed}");
    assert_eq!(WRONG.load(Relaxed), 0, "figures are wrong, told above");
}
