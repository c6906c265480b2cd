//! Recordings of a few steps, each a little different.

use serde_json::{Value, json};

const STEPS: u64 = 6;
const MIB: u64 = 1 << 20;
const BASE: u64 = 0x7f00_0000_0000;

/// What each of them reserves, in bytes.
pub const RESERVED: u64 = 1024 * MIB;
/// Every so many leak.
pub const LEAKS_EVERY: usize = 10;
/// What those keep of each step, in bytes.
pub const LEAKED_PER_STEP: u64 = 4 * MIB;
/// What each step needs and gives back, in bytes.
const ACTIVATION: u64 = 32 * MIB;

/// Whether the n-th leaks.
pub fn leaks(n: usize) -> bool {
    n.is_multiple_of(LEAKS_EVERY)
}

/// What the n-th holds all the time, in bytes.
fn held(n: usize) -> u64 {
    (64 + (n as u64 / 500) * 8) * MIB
}

/// The peak of *allocated* of the n-th, in bytes.
pub fn peak(n: usize) -> u64 {
    let leaked = if leaks(n) { STEPS * LEAKED_PER_STEP } else { 0 };
    held(n) + ACTIVATION + leaked
}

/// The n-th: weights that stay, and in each step an activation that comes and goes. In some,
/// something of each step stays.
pub fn of(n: usize) -> Vec<u8> {
    let mut events = vec![
        event("segment_alloc", BASE, RESERVED, "load"),
        event("alloc", BASE, held(n), "load"),
    ];
    let mut top = BASE + held(n);
    let mut starts = Vec::new();
    for _ in 0..STEPS {
        starts.push(events.len());
        let activation = top + 16 * MIB;
        events.push(event("alloc", activation, ACTIVATION, "forward"));
        if leaks(n) {
            events.push(event("alloc", top, LEAKED_PER_STEP, "stash_for_later"));
            top += LEAKED_PER_STEP;
        }
        events.push(event("free_requested", activation, ACTIVATION, "forward"));
        events.push(event("free_completed", activation, ACTIVATION, "forward"));
    }
    let time = |at: usize| 1_760_000_000_000_000 + n as u64 * 1_000_000 + at as u64 * 50;
    for (at, event) in events.iter_mut().enumerate() {
        event["time_us"] = json!(time(at));
    }
    // What a profiler notes of each step.
    let ends = starts.iter().skip(1).copied().chain([events.len()]);
    let notes = starts.iter().zip(ends).enumerate();
    let notes = notes.flat_map(|(step, (&start, end))| {
        let note = |stage: &str, us: u64| {
            let name = format!("ProfilerStep#{step}");
            json!({ "device": 0, "time_us": us, "name": name, "stage": stage })
        };
        [note("START", time(start) - 10), note("END", time(end) - 20)]
    });
    let recording = json!({
        "segments": [], "device_traces": [events],
        "external_annotations": notes.collect::<Vec<Value>>(),
    });
    recording.to_string().into_bytes()
}

fn event(action: &str, at: u64, size: u64, function: &str) -> Value {
    let frames = json!([{ "name": function, "filename": "/srv/train.py", "line": 7 }]);
    json!({ "action": action, "addr": at, "size": size, "stream": 0, "frames": frames })
}
