//! Everything that can be read can be replayed, judged, stored and read back, without a panic and
//! unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::categories::Categories;
use trace::leaks;
use trace::reader::{Limits, read};
use trace::steps::{choices, recording};
use trace::stored::{decode, encode};

fuzz_target!(|bytes: &[u8]| {
    let Ok(snapshot) = read(bytes, Limits::default()) else {
        return;
    };
    let trace = trace::replay::run(snapshot);
    leaks::of_trace(&trace);
    for device in trace.with_pinned() {
        Categories::of(device, &trace.stacks);
        choices::of_device(device, &trace.stacks);
        recording::of_device(device, &trace.stacks);
    }
    let mut chunks = Vec::new();
    encode(&trace, &mut |chunk| chunks.push(chunk));
    let back = decode(chunks).expect("what was stored is read");
    assert_eq!(back.stacks, trace.stacks);
    for (back, device) in back.with_pinned().zip(trace.with_pinned()) {
        assert_eq!(back.events, device.events);
        assert_eq!(back.blocks, device.blocks);
        assert_eq!(back.steps, device.steps);
    }
});
