//! Calls without a backward pass, and what waits for one. Here it is known where blocks go.

use super::{MAIN, alloc, moved, of};
use crate::categories::*;
use crate::phases::program::{ADAM, MODULE, Program, TENSOR};
use crate::stacks::StackIdx;
use crate::testing::block_of;

/// A block that is given back at a stack of its own.
fn made(p: &mut Program, bytes: u64, frames: &[&str], by: &[&str]) -> BlockIdx {
    let [alloc_stack, free_stack] = [frames, by].map(|frames| match frames {
        [] => StackIdx::NONE,
        frames => p.stack(frames),
    });
    p.builder.alloc(BlockKind {
        alloc_stack,
        free_stack,
        ..block_of(Bytes(bytes))
    })
}

/// A block of a module's call.
fn called(p: &mut Program, bytes: u64, line: u32, by: &[&str]) -> BlockIdx {
    let call = format!("_call_impl {MODULE}:1");
    let frames = [MAIN, &call, &format!("forward net.py:{line}")];
    made(p, bytes, &frames, by)
}

const SET_AGAIN: &str = "<module> train.py:8";
const CLEARS: [&str; 2] = ["<module> train.py:13", "zero_grad net.py:40"];

/// A step of training, whose gradients are as large as these weights.
fn step(p: &mut Program, weights: &[u64]) {
    let batch = made(p, 640, &[SET_AGAIN], &[SET_AGAIN]);
    let saved = called(p, 2048, 4, &[]);
    backward(p, saved);
    update(p, weights);
    p.free(batch);
}

fn backward(p: &mut Program, saved: BlockIdx) {
    let seed = ["<module> train.py:11", &format!("backward {TENSOR}:5")];
    let seed = made(p, 4, &seed, &[]);
    p.free(saved);
    p.free(seed);
}

fn update(p: &mut Program, weights: &[u64]) {
    let of = |&bytes: &u64| made(p, bytes, &[], &CLEARS);
    let gradients: Vec<BlockIdx> = weights.iter().map(of).collect();
    optimize(p);
    gradients.into_iter().for_each(|gradient| p.free(gradient));
}

fn optimize(p: &mut Program) {
    let frames = ["<module> train.py:12", &format!("step {ADAM}:7")];
    let scratch = made(p, 96, &frames, &frames);
    p.free(scratch);
}

#[test]
fn a_batch_between_two_calls_is_one_as_the_first_of_its_line() {
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    let (mut batches, mut guesses) = (Vec::new(), Vec::new());
    let [line, guess] = ["<module> train.py:20", "<module> train.py:22"];
    for _ in 0..2 {
        step(&mut p, &[4096]);
        for _ in 0..3 {
            batches.push(made(&mut p, 720, &[line], &[line]));
            if let [.., old, _] = batches[..] {
                p.free(old);
            }
            let out = called(&mut p, 300, 5, &[guess]);
            guesses.push(made(&mut p, 24, &[guess], &[guess]));
            if let [.., old, _] = guesses[..] {
                p.free(old);
            }
            p.free(out);
        }
    }
    let of = of(p);
    for batch in batches {
        assert_eq!(of(batch), Category::Input);
    }
    // What the program makes of an output is also there in the next call.
    assert_eq!(of(guesses[1]), Category::Temporary);
}

#[test]
fn a_graph_that_no_backward_pass_goes_through_holds_activations() {
    let end = ["<module> train.py:21"];
    let evaluate = |saves: bool| {
        let mut p = Program::default();
        alloc(&mut p, 4096, &moved(10));
        let mut layers = Vec::new();
        for _ in 0..3 {
            step(&mut p, &[4096]);
            layers.clear();
            for line in 1..8 {
                let by: [&str; 1] = if saves { end } else { [MAIN] };
                layers.push(called(&mut p, 1000, 50 + line, &by));
                if let [.., old, _] = layers[..]
                    && !saves
                {
                    p.free(old);
                }
            }
            let gone = if saves { 0 } else { 6 };
            layers[gone..].iter().for_each(|&block| p.free(block));
        }
        let of = of(p);
        layers.into_iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(evaluate(true), [Category::Activation; 7]);
    assert_eq!(evaluate(false), [Category::Temporary; 7]);
}

#[test]
fn results_of_one_place_that_are_dropped_at_once_are_no_graph() {
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    step(&mut p, &[4096]);
    let results = [(); 8].map(|()| called(&mut p, 1000, 50, &["<module> train.py:21"]));
    results.into_iter().for_each(|block| p.free(block));
    step(&mut p, &[4096]);
    let of = of(p);
    assert_eq!(results.map(of), [Category::Temporary; 8]);
}

/// What a generator has made waits while the discriminator learns.
#[test]
fn what_a_backward_pass_gives_back_behind_another_optimizer_is_an_activation() {
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    let mut waited = Vec::new();
    for _ in 0..3 {
        let fake = called(&mut p, 3000, 6, &[]);
        step(&mut p, &[4096]);
        let saved = called(&mut p, 2048, 7, &[]);
        backward(&mut p, saved);
        p.free(fake);
        update(&mut p, &[4096]);
        waited.push(fake);
    }
    let of = of(p);
    for block in waited {
        assert_eq!(of(block), Category::Activation);
    }
}

#[test]
fn data_as_large_as_the_weight_of_a_module_is_no_parameter() {
    let mut p = Program::default();
    let data = made(&mut p, 4096, &["<module> train.py:1"], &[]);
    let weight = alloc(&mut p, 4096, &moved(10));
    let own = made(&mut p, 5120, &["<module> train.py:3"], &[]);
    for _ in 0..3 {
        step(&mut p, &[4096, 5120]);
    }
    let of = of(p);
    assert_eq!(of(data), Category::Input);
    assert_eq!([weight, own].map(of), [Category::Parameter; 2]);
}

#[test]
fn what_zero_grad_takes_of_the_programs_own_is_a_gradient() {
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    let mut copies = Vec::new();
    for _ in 0..3 {
        let saved = called(&mut p, 2048, 4, &[]);
        backward(&mut p, saved);
        let gradient = made(&mut p, 4096, &[], &CLEARS);
        let copy = made(&mut p, 8192, &["<module> train.py:15"], &CLEARS);
        optimize(&mut p);
        copies.push(copy);
        if copies.len() < 3 {
            p.free(gradient);
            p.free(copy);
        }
    }
    let of = of(p);
    for copy in copies {
        assert_eq!(of(copy), Category::Gradient);
    }
}

#[test]
fn weights_that_an_evaluation_keeps_are_unknown() {
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    step(&mut p, &[4096]);
    let line = ["<module> train.py:22"];
    let mut best = Vec::new();
    for _ in 0..3 {
        let out = called(&mut p, 300, 5, &line);
        best.push(made(&mut p, 4096, &line, &line));
        if let [.., old, _] = best[..] {
            p.free(old);
        }
        p.free(out);
        (0..3).for_each(|_| step(&mut p, &[4096]));
    }
    let of = of(p);
    assert_eq!(of(best[0]), Category::Unknown);
    assert_eq!(of(best[1]), Category::Unknown);
}

/// Two weights of 32 MiB, or a buffer of that size; and autograd's thread takes a workspace.
#[test]
fn a_workspace_beside_gradients_of_its_size_is_none() {
    const SIZE: u64 = 32 << 20;
    for (weights, buffers) in [(2, 0), (0, 1)] {
        let mut p = Program::default();
        (0..weights).for_each(|_| _ = alloc(&mut p, SIZE, &moved(10)));
        alloc(&mut p, 4096, &moved(10));
        (0..buffers).for_each(|_| _ = alloc(&mut p, SIZE, &moved(20)));
        let saved = called(&mut p, 2048, 4, &[]);
        backward(&mut p, saved);
        let workspace = made(&mut p, SIZE, &[], &[]);
        let mut of_weights = vec![4096];
        of_weights.extend((0..weights).map(|_| SIZE));
        update(&mut p, &of_weights);
        step(&mut p, &of_weights);
        let saved = called(&mut p, 2048, 4, &[]);
        backward(&mut p, saved);
        let newest: Vec<BlockIdx> = of_weights
            .iter()
            .map(|&bytes| made(&mut p, bytes, &[], &[]))
            .collect();
        optimize(&mut p);
        let of = of(p);
        assert_eq!(of(workspace), Category::Temporary);
        newest
            .into_iter()
            .for_each(|block| assert_eq!(of(block), Category::Gradient));
    }
}

/// The program's own line multiplies matrices in each step, and results are as large.
#[test]
fn what_only_the_first_run_of_a_line_leaves_is_a_workspace() {
    const SIZE: u64 = 32 << 20;
    let mut p = Program::default();
    let weight = made(&mut p, 4096, &["<module> train.py:2"], &[]);
    let line = ["<module> train.py:7"];
    let loss = "cross_entropy /v/site-packages/torch/nn/functional.py:3";
    let (mut results, mut workspace) = (Vec::new(), None);
    for _ in 0..3 {
        let result = made(&mut p, SIZE, &line, &[]);
        workspace = workspace.or_else(|| Some(made(&mut p, SIZE, &line, &[])));
        let loss = made(&mut p, 4, &[SET_AGAIN, loss], &[]);
        backward(&mut p, loss);
        p.free(result);
        update(&mut p, &[4096]);
        results.push(result);
    }
    let of = of(p);
    assert_eq!(of(weight), Category::Parameter);
    assert_eq!(workspace.map(&of), Some(Category::Temporary));
    for result in results {
        assert_eq!(of(result), Category::Activation);
    }
}

#[test]
fn all_parameters_in_one_block_are_no_input() {
    let mut p = Program::default();
    let flat = made(&mut p, 9000, &["<module> train.py:2"], &[]);
    let frames = ["<module> train.py:12", &format!("step {ADAM}:7")];
    for run in 0..3 {
        step(&mut p, &[]);
        if run == 0 {
            made(&mut p, 9000, &frames, &[]);
        }
    }
    assert_eq!(of(p)(flat), Category::Unknown);
}
