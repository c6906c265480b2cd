//! Any lines are a tape or an error, and any tape ends in a report.
#![no_main]

use engine::tape::{TapeVersion, replay};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let versions: Vec<TapeVersion> = TapeVersion::candidates().collect();
    // Whether it agrees is not asked: only that it ends.
    let _ = replay(bytes, versions[bytes.len() % versions.len()]);
});
