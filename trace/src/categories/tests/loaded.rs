//! What is read from files.

use super::{alloc, backward, forward, moved};
use crate::categories::*;
use crate::phases::program::{ADAM, Program};
use crate::span::Span;
use crate::trace::Annotation;

const LOAD: &str = "load /v/site-packages/torch/serialization.py:9";

/// The categories of tensors that a file has for two weights of a module, so many for each.
fn read(each: usize, scope: &str) -> Vec<Category> {
    let mut p = Program::default();
    let sizes = [4096, 5120];
    for bytes in sizes {
        alloc(&mut p, bytes, &moved(10));
    }
    let all = sizes.into_iter().flat_map(|bytes| vec![bytes; each]);
    let loaded: Vec<BlockIdx> = all
        .map(|bytes| p.alloc(bytes, &["<module> train.py:3", LOAD]))
        .collect();
    let mut steps = Vec::new();
    for _ in 0..3 {
        let saved = forward(&mut p, 2048, 4);
        backward(&mut p);
        p.free(saved);
        let gradients = sizes.map(|bytes| p.alloc(bytes, &[]));
        let scratch = p.alloc(64, &["<module> train.py:12", &format!("step {ADAM}:7")]);
        p.free(scratch);
        gradients.into_iter().for_each(|block| p.free(block));
        steps.push(scratch);
    }
    let name = p.builder.stacks.strings.push(scope);
    let mut trace = p.finish();
    let device = &mut trace.devices[0];
    for step in steps {
        let at = EventIdx(device.blocks.alloc[step.index()]);
        device.annotations.push(Annotation {
            name,
            events: Span::new(at, EventIdx(at.0 + 1)),
            depth: 0,
        });
    }
    let found = Categories::of(device, &trace.stacks);
    loaded.into_iter().map(|block| found.found(block)).collect()
}

#[test]
fn two_tensors_of_a_file_for_each_weight_are_the_state_of_adam() {
    let adam = "Optimizer.step#AdamW.step";
    assert_eq!(read(2, adam), [Category::OptimizerState; 4]);
    // Weights and state, or the weights twice: no rule tells.
    assert_eq!(read(3, adam), [Category::Unknown; 6]);
    assert_eq!(read(2, "Optimizer.step#SGD.step"), [Category::Unknown; 4]);
}

/// Transformers loads in threads, since its version 5. The second model is not trained.
#[test]
fn weights_that_threads_of_a_library_load_are_parameters() {
    let mut p = Program::default();
    let frames = [
        "_bootstrap /usr/lib/python3.12/threading.py:1030",
        "_materialize_copy /v/site-packages/transformers/core_model_loading.py:1240",
    ];
    let models = [(); 2].map(|()| p.alloc(4096, &frames));
    for _ in 0..3 {
        let saved = forward(&mut p, 2048, 4);
        backward(&mut p);
        p.free(saved);
        let gradient = p.alloc(4096, &[]);
        p.alloc(64, &["<module> train.py:12", &format!("step {ADAM}:7")]);
        p.free(gradient);
    }
    let trace = p.finish();
    let found = Categories::of(&trace.devices[0], &trace.stacks);
    assert_eq!(
        models.map(|block| found.found(block)),
        [Category::Parameter; 2]
    );
}
