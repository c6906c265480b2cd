//! Any lines are either a tape or an error, and any tape leads to a report.
#![no_main]

use engine::tape::{TapeVersion, replay};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut versions: Vec<TapeVersion> = TapeVersion::candidates().collect();
    let chosen = versions.swap_remove(bytes.len() % versions.len());
    // The result may be anything: the replay only has to end without a panic.
    let _ = replay(bytes, chosen);
});
