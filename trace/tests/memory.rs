//! Compares how much memory the reader and the replay say they hold with what the allocator was
//! asked for.
//!
//! This is its own test binary, because its allocator counts every call. One test runs at a time.

// `unsafe` is the only way to count an allocator's calls; no product code is compiled with it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use trace::categories::{self, Categories};
use trace::reader::{Limits, Reader};
use trace::snapshot::Snapshot;
use trace::steps::choices;
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
        // The system moves pages, so a growing vector does not exist twice.
        HELD.fetch_sub(layout.size(), Relaxed);
        more(size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that do not count: small texts, and the memory of the test itself.
const SLACK: usize = 256 << 10;

static WRONG: AtomicUsize = AtomicUsize::new(0);

/// Prints every figure that is wrong, not only the first one.
fn expect(right: bool, figure: std::fmt::Arguments<'_>) {
    if !right {
        eprintln!("{figure}");
        WRONG.fetch_add(1, Relaxed);
    }
}

/// Reads a bomb piece by piece. After each piece, the reader's figure must equal the allocator's.
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

/// Replays the bomb. The memory held may never be more than a tenth above what was announced.
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

/// Asks questions that need memory besides the trace. They may never hold more than a tenth above
/// what was announced.
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
        let said = choices::memory_needed(device, stacks);
        check("loops", said, &mut || {
            choices::of_device(device, stacks);
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
