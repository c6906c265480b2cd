//! One program for each rule.

mod calls;
mod loaded;
mod own;
mod passes;
mod trained;

use super::*;
use crate::phases::program::{ADAM, MODULE, Program, TENSOR, on_windows};
use crate::series::Series;
use crate::site;
use crate::span::Span;
use crate::testing::{TraceBuilder, arbitrary, block_of};
use crate::trace::Step;

fn of(p: Program) -> impl Fn(BlockIdx) -> Category {
    let trace = p.finish();
    let categories = Categories::of(&trace.devices[0], &trace.stacks);
    move |block| categories.found(block)
}

/// The same of a program with steps; these are the first blocks of each.
fn of_steps(p: Program, firsts: impl Iterator<Item = BlockIdx>) -> impl Fn(BlockIdx) -> Category {
    let mut trace = p.finish();
    let device = &mut trace.devices[0];
    let mut starts: Vec<u32> = firsts
        .map(|block| device.blocks.alloc[block.index()])
        .collect();
    starts.push(device.events.len());
    let step = |(index, events): (usize, &[u32])| Step {
        index: index as u32,
        name: format!("step {index}"),
        events: Span::new(EventIdx(events[0]), EventIdx(events[1])),
    };
    device.steps = starts.windows(2).enumerate().map(step).collect();
    let categories = Categories::of(&trace.devices[0], &trace.stacks);
    move |block| categories.found(block)
}

const MAIN: &str = "<module> train.py:9";

fn moved(line: u32) -> [String; 3] {
    [
        "<module> train.py:2".to_owned(),
        format!("_apply {MODULE}:{line}"),
        format!("convert {MODULE}:99"),
    ]
}

fn alloc(p: &mut Program, bytes: u64, frames: &[String]) -> BlockIdx {
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    p.alloc(bytes, &frames)
}

fn forward(p: &mut Program, bytes: u64, line: u32) -> BlockIdx {
    let call = format!("_call_impl {MODULE}:1");
    p.alloc(bytes, &[MAIN, &call, &format!("forward net.py:{line}")])
}

fn backward(p: &mut Program) -> BlockIdx {
    p.alloc(
        4,
        &["<module> train.py:11", &format!("backward {TENSOR}:5")],
    )
}

/// Three training steps: weight, statistics, and the blocks of the last step.
fn training() -> (Program, BlockIdx, BlockIdx, Vec<BlockIdx>) {
    let mut p = Program::default();
    let weight = alloc(&mut p, 4096, &moved(10));
    let running_mean = alloc(&mut p, 64, &moved(20));
    let mut last = Vec::new();
    for _ in 0..3 {
        let input = p.alloc(640, &["<module> train.py:8"]);
        let scratch = forward(&mut p, 100, 3);
        let saved = forward(&mut p, 2048, 4);
        p.free(scratch);
        let logits = forward(&mut p, 700, 5);
        let seed = backward(&mut p);
        let between = p.alloc(2048, &[]);
        p.free(saved);
        p.free(between);
        let gradient = p.alloc(4096, &[]);
        p.free(seed);
        let state = p.alloc(4096, &["<module> train.py:12", &format!("step {ADAM}:7")]);
        last = vec![input, scratch, saved, logits, between, gradient, state];
        p.free(gradient);
        // The variables are set again in the next step.
        p.alloc(1, &["<module> train.py:8"]);
        p.free(input);
        p.free(logits);
    }
    (p, weight, running_mean, last)
}

#[test]
fn a_training_step_is_told_apart() {
    let (p, weight, running_mean, last) = training();
    let of = of(p);
    assert_eq!(of(weight), Category::Parameter);
    assert_eq!(of(running_mean), Category::Buffer);
    let found: Vec<Category> = last.into_iter().map(&of).collect();
    use Category::{Activation, Gradient, Input, OptimizerState, Temporary};
    let expected = [
        Input,
        Temporary,
        Activation,
        Temporary,
        Temporary,
        Gradient,
        OptimizerState,
    ];
    assert_eq!(found, expected);
}

/// A weight of one number in 64 bits, as the noise of a Gaussian process; a count of batches.
#[test]
fn eight_bytes_that_move_with_the_parameters_are_no_counter() {
    let mut p = training().0;
    let [noise, count] = [10, 20].map(|line| alloc(&mut p, 8, &moved(line)));
    let of = of(p);
    assert_eq!(of(noise), Category::Parameter);
    assert_eq!(of(count), Category::Buffer);
}

#[test]
fn paths_of_windows_change_nothing() {
    let trace = training().0.finish();
    let windows = on_windows(trace.clone());
    let [here, there] = [&trace, &windows].map(|t| Categories::of(&t.devices[0], &t.stacks));
    assert_eq!(here, there);
    for kind in &trace.devices[0].blocks.kinds {
        let [here, there] = [&trace, &windows].map(|t| site::key(&t.stacks, kind));
        assert_eq!(here, there);
    }
}

#[test]
fn what_the_recorder_noted_is_not_inferred() {
    let mut p = Program::default();
    let noted = p.builder.stacks.strings.push("OPTIMIZER_STATE");
    let kind = crate::testing::block_of(Bytes(512));
    let noted = p.builder.alloc(crate::trace::BlockKind {
        metadata: Some(noted),
        ..kind
    });
    let other = p.builder.alloc(kind);
    let trace = p.finish();
    let device = &trace.devices[0];
    let categories = Categories::of(device, &trace.stacks);
    assert_eq!(categories.get(noted), Category::OptimizerState);
    assert!(is_recorded(&trace.stacks, device.blocks.kind(noted)));
    assert_eq!(
        categories.get(other),
        Category::Unknown,
        "there is no stack"
    );
    assert!(!is_recorded(&trace.stacks, device.blocks.kind(other)));
}

proptest::proptest! {
    #[test]
    fn categories_sum_to_allocated(trace in arbitrary::traces(300), at in 0..300_u32) {
        let device = &trace.devices[0];
        proptest::prop_assume!(!device.events.is_empty());
        let categories = Categories::of(device, &trace.stacks);
        let at = EventIdx(at.min(device.events.len() - 1));
        let shares = categories.alive(device, Some(at)).largest_first();
        let sum: Bytes = shares.iter().map(|(_, bytes)| *bytes).sum();
        let level = device.levels_at(at).get(crate::trace::Series::Allocated);
        proptest::prop_assert_eq!(sum, level);
        let start = categories.alive(device, None).largest_first();
        let sum: Bytes = start.iter().map(|(_, bytes)| *bytes).sum();
        proptest::prop_assert_eq!(sum, device.summary[1].start);
    }
}

#[test]
fn what_waits_for_other_streams_is_not_held_in_a_state_without_events() {
    let mut builder = TraceBuilder::default();
    builder.preexisting(block_of(Bytes::mib(4)));
    builder.pending_before(block_of(Bytes::mib(8)));
    let made = builder.finish();
    let mut chunks = Vec::new();
    crate::stored::encode(&made, &mut |chunk| chunks.push(chunk));
    let stored = crate::stored::decode(chunks).unwrap();
    for trace in [made, stored] {
        let device = &trace.devices[0];
        let shares = Categories::of(device, &trace.stacks).alive(device, None);
        let held: u64 = shares.largest_first().iter().map(|(_, b)| b.get()).sum();
        assert_eq!(held, device.summary[Series::Allocated as usize].end.get());
        let given_back = [0, 1].map(|block| device.given_back(BlockIdx(block)));
        assert_eq!(given_back, [GivenBack::Never, GivenBack::Before]);
    }
}
