//! Programs whose steps are marked by hand.

use super::{Outlived, Peaking, Unlike};
use crate::categories::Categories;
use crate::phases::program::{MODULE, Program, TENSOR};
use crate::span::Span;
use crate::testing::block_of;
use crate::trace::{Action, BlockIdx, BlockKind, DeviceTrace, Series, Step, Trace};
use crate::units::{Bytes, EventIdx};
use crate::watch::Watch;

const MIB: u64 = 1 << 20;

/// The steps end at marks; what comes after the last is none.
fn with_steps(mut trace: Trace) -> Trace {
    let device = &mut trace.devices[0];
    let is_mark = |at: &u32| device.events.action[*at as usize] == Action::Snapshot;
    let ends: Vec<u32> = (0..device.events.len()).filter(is_mark).collect();
    let starts = std::iter::once(0).chain(ends.iter().map(|end| end + 1));
    let steps = starts.zip(&ends).zip(0..);
    let steps = steps.map(|((start, &end), index)| Step {
        index,
        name: format!("step {index}"),
        events: Span::new(EventIdx(start), EventIdx(end)),
    });
    device.steps = steps.collect();
    trace
}

fn peak(device: &DeviceTrace) -> Bytes {
    device.summary[Series::Allocated as usize].peak
}

fn peaking(program: Program) -> (Peaking, Bytes) {
    let trace = with_steps(program.finish());
    let device = &trace.devices[0];
    let kinds = Watch::undisturbed(|watch| Categories::with_phases(device, &trace.stacks, watch));
    let (categories, phases) = kinds;
    let event = device.summary[Series::Allocated as usize].peak_event;
    let event = event.expect("it allocates");
    let found = Watch::undisturbed(|watch| {
        Peaking::of(device, &trace.stacks, (&categories, &phases), event, watch)
    });
    (found, peak(device))
}

fn forward(line: &str) -> [String; 3] {
    let module = format!("_call_impl {MODULE}:1");
    [
        format!("main t.py:{line}"),
        module,
        "forward net.py:3".to_owned(),
    ]
}

fn alloc(p: &mut Program, mib: u64, frames: &[String]) -> BlockIdx {
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    p.alloc(mib * MIB, &frames)
}

/// Each step makes an output of so many MiB; that of the step before goes after it, before it, or
/// in a backward pass.
fn outputs(sizes: &[u64], goes: &str) -> Option<(u64, u64)> {
    let mut p = Program::default();
    p.alloc(10 * MIB, &["main t.py:1"]);
    let mut before: Option<BlockIdx> = None;
    for &mib in sizes {
        if let ("before", Some(before)) = (goes, before) {
            p.free(before);
        }
        let output = alloc(&mut p, mib, &forward("4"));
        if goes == "backward" {
            p.alloc(512, &["main t.py:5", &format!("backward {TENSOR}:5")]);
        }
        if let ("after" | "backward", Some(before)) = (goes, before) {
            p.free(before);
        }
        before = Some(output);
        p.builder.mark();
    }
    let (found, _) = peaking(p);
    let told = |found: Outlived| (found.bytes.0 / MIB, found.peak_without.0 / MIB);
    found.outlived.map(told)
}

#[test]
fn what_a_variable_still_holds_of_the_step_before_is_told() {
    let check = |sizes: &[u64], goes: &str, expected: Option<(u64, u64)>| {
        assert_eq!(outputs(sizes, goes), expected, "{sizes:?} {goes}");
    };
    check(&[50, 50, 50, 50], "after", Some((50, 60)));
    check(&[50, 20, 70, 60], "after", Some((70, 80)));
    // The batch is fetched ahead and used once.
    check(&[50, 50, 50, 50], "before", None);
    // The graph of the step before is gone through in this one.
    check(&[50, 50, 50, 50], "backward", None);
    // Each is made of the one before.
    check(&[50, 60, 70, 80], "after", None);
    // One step shows no habit.
    check(&[50, 50], "after", None);
}

/// Steps of so many MiB at one line; a step of which nothing is asked for there evaluates.
fn steps(sizes: &[u64]) -> Option<Unlike> {
    let mut p = Program::default();
    p.alloc(10 * MIB, &["main t.py:1"]);
    for &mib in sizes {
        let (mib, line) = match mib {
            0 => (100, "9"),
            mib => (mib, "4"),
        };
        let blocks = [mib, 2 * mib].map(|mib| alloc(&mut p, mib, &forward(line)));
        blocks.into_iter().for_each(|block| p.free(block));
        p.builder.mark();
    }
    peaking(p).0.unlike
}

/// The steps that peak so high, the usual MiB, how many times as much, and the line.
type Told<'a> = (&'a [usize], u64, Option<f64>, Option<u32>);

#[test]
fn a_step_that_peaks_higher_than_most_is_told_with_what_makes_it_so() {
    let check = |sizes: &[u64], expected: Option<Told<'_>>| {
        let found = steps(sizes);
        let found = found.as_ref().map(|found| {
            let times = found.times.map(|times| times.number());
            let line = found.only_there.map(|there| there.frame.line);
            (&found.steps[..], found.usual.0 / MIB, times, line)
        });
        assert_eq!(found, expected, "{sizes:?}");
    };
    check(&[10, 10, 10, 10], None);
    check(&[10, 11, 10, 10], None);
    check(&[10, 10, 80, 10], Some((&[2], 40, Some(8.0), None)));
    check(&[80, 10, 10, 10, 80], Some((&[0, 4], 40, Some(8.0), None)));
    // The line that evaluates asks for nothing in the other steps.
    check(&[10, 10, 0, 10, 0], Some((&[2, 4], 40, None, Some(9))));
    // Three have no usual one.
    check(&[10, 80, 10], None);
}

#[test]
fn a_peak_outside_of_the_steps_is_told() {
    let mut p = Program::default();
    for mib in [10, 10, 10, 10, 50] {
        let block = alloc(&mut p, mib, &forward("4"));
        p.free(block);
        if mib == 10 {
            p.builder.mark();
        }
    }
    let unlike = peaking(p).0.unlike.expect("it is outside");
    assert_eq!((unlike.steps.len(), unlike.usual), (0, Bytes::mib(10)));
}

/// Three passes of a training, each of ten layers; then an evaluation of the same model that keeps
/// what so many layers make until its end.
fn evaluated(kept: usize) -> Option<u64> {
    let mut p = Program::default();
    let module = format!("_call_impl {MODULE}:1");
    let layer = |p: &mut Program, caller: &str, layer: usize| {
        let own = format!("forward net.py:{layer}");
        p.alloc(
            MIB,
            &[caller, &module, &own, &module, "forward linear.py:7"],
        )
    };
    for _ in 0..3 {
        let saved: Vec<BlockIdx> = (0..10).map(|at| layer(&mut p, "main t.py:4", at)).collect();
        p.alloc(512, &["main t.py:5", &format!("backward {TENSOR}:5")]);
        saved.into_iter().rev().for_each(|block| p.free(block));
        p.alloc(512, &[]);
        p.builder.mark();
    }
    let mut held = Vec::new();
    for at in 0..10 {
        let block = layer(&mut p, "validate t.py:9", at);
        match at < kept {
            true => held.push(block),
            false => p.free(block),
        }
    }
    let loss = p.alloc(12 * MIB, &["validate t.py:10"]);
    p.free(loss);
    held.into_iter().for_each(|block| p.free(block));
    p.builder.mark();
    let unasked = peaking(p).0.unasked;
    unasked.map(|unasked| unasked.bytes.0 / MIB)
}

#[test]
fn an_evaluation_that_keeps_what_a_training_keeps_is_told() {
    assert_eq!(evaluated(10), Some(10));
    assert_eq!(evaluated(4), None);
}

/// A forward pass under autocast: so many weights are cast, each with so many MiB, and given back
/// by the function of C++ with this name.
fn cast(weights: u64, mib: u64, given_back_by: &str) -> Option<u64> {
    let mut p = Program::default();
    let held = alloc(&mut p, 100, &["main t.py:1".to_owned()]);
    let module = format!("_call_impl {MODULE}:1");
    let layer = ["main t.py:2", &module, "forward net.py:3"];
    let cast = [
        &layer[..],
        &["at::autocast::cached_cast(c10::ScalarType) ??:0"],
    ]
    .concat();
    let copy = BlockKind {
        alloc_stack: p.stack(&cast),
        free_stack: p.stack(&["main t.py:3", &format!("{given_back_by} ??:0")]),
        ..block_of(Bytes::mib(mib))
    };
    let mut copies = Vec::new();
    for _ in 0..weights {
        copies.push(p.builder.alloc(copy));
        let out = p.alloc(MIB, &layer);
        p.free(out);
    }
    copies.into_iter().for_each(|copy| p.free(copy));
    p.free(held);
    let cached = peaking(p).0.cached;
    cached.map(|cached| cached.bytes.0 / MIB)
}

#[test]
fn copies_of_weights_that_only_autocast_holds_are_told() {
    assert_eq!(cast(10, 5, "at::autocast::clear_cache()"), Some(50));
    // A graph held them, too.
    assert_eq!(cast(10, 5, "torch::autograd::deleteNode()"), None);
    // Hardly any.
    assert_eq!(cast(2, 5, "at::autocast::clear_cache()"), None);
}
