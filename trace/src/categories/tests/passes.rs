//! What a pass makes: activations, caches, what waits, and what memory running out cuts off.

use super::{MAIN, alloc, backward, forward, moved, of, of_steps};
use crate::categories::*;
use crate::phases::program::{ADAM, MODULE, Program, TENSOR};
use crate::testing::block_of;

/// A module that a checkpoint calls again. The first two frames are the backward pass itself.
fn recomputed() -> [String; 4] {
    [
        "<module> train.py:11".to_owned(),
        format!("backward {TENSOR}:5"),
        format!("_call_impl {MODULE}:1"),
        "forward net.py:5".to_owned(),
    ]
}

/// A dump between forward and backward: the blocks that are there are those that earlier passes
/// saved.
#[test]
fn the_last_forward_pass_is_judged_by_the_ones_before() {
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    let (mut saved, mut logits) = (None, None);
    for pass in 0..3 {
        saved = Some(forward(&mut p, 2048, 4));
        let replaced = logits.replace(forward(&mut p, 700, 5));
        replaced.into_iter().for_each(|old| p.free(old));
        if pass < 2 {
            backward(&mut p);
            p.free(saved.expect("just made"));
            p.alloc(4096, &[]);
        }
    }
    let of = of(p);
    assert_eq!(of(saved.expect("three passes")), Category::Activation);
    assert_eq!(of(logits.expect("three passes")), Category::Temporary);
}

#[test]
fn one_forward_pass_that_keeps_what_it_makes_waits_for_a_backward_pass() {
    let check = |kept: bool, expected| {
        let mut p = Program::default();
        let blocks: Vec<_> = (0..9).map(|line| forward(&mut p, 2048, line)).collect();
        if !kept {
            blocks[..8].iter().for_each(|&block| p.free(block));
        }
        assert_eq!(of(p)(blocks[8]), expected);
    };
    check(true, Category::Activation);
    check(false, Category::Unknown);
}

/// A loop of calls whose graph the output holds until the next output takes its place.
#[test]
fn a_graph_that_waits_in_vain_is_an_activation_in_each_call_and_at_the_end() {
    let mut p = Program::default();
    let call = format!("_call_impl {MODULE}:1");
    let made = p.stack(&[MAIN, &call, "forward net.py:4"]);
    let gone = p.stack(&[MAIN, "torch::autograd::SavedVariable::reset_data() ??:0"]);
    let saved = BlockKind {
        alloc_stack: made,
        free_stack: gone,
        ..block_of(Bytes(2048))
    };
    let mut blocks = Vec::new();
    for at in 0..4 {
        let scratch = forward(&mut p, 100, 3);
        blocks.push(p.builder.alloc(saved));
        p.free(scratch);
        if at > 0 {
            p.free(blocks[at - 1]);
        }
    }
    let of = of(p);
    for block in blocks {
        assert_eq!(of(block), Category::Activation, "{block:?}");
    }
}

#[test]
fn what_every_pass_leaves_behind_is_collected() {
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    let mut kept = None;
    for _ in 0..4 {
        kept = Some(forward(&mut p, 2048, 4));
        backward(&mut p);
        p.alloc(4096, &[]);
    }
    assert_eq!(of(p)(kept.expect("four passes")), Category::Activation);
}

#[test]
fn what_a_checkpoint_recomputes_is_an_activation_of_any_size() {
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    forward(&mut p, 64, 4);
    backward(&mut p);
    let again = alloc(&mut p, 4096, &recomputed());
    let gradient = alloc(&mut p, 4096, &recomputed()[..2]);
    let of = of(p);
    assert_eq!(of(again), Category::Activation);
    assert_eq!(of(gradient), Category::Gradient);
}

#[test]
fn a_cache_grows_from_token_to_token_and_a_decoder_within_one_call() {
    let check = |tokens: bool, expected| {
        let mut p = Program::default();
        let mut keys = None;
        for token in 1..9 {
            let grown = forward(&mut p, 512 * token, 4);
            keys.replace(grown).into_iter().for_each(|old| p.free(old));
            forward(&mut p, 16, 5);
            if tokens {
                p.alloc(8, &["<module> train.py:12"]);
            }
        }
        let found = of(p)(keys.expect("eight tokens"));
        assert_eq!(found == Category::KvCache, expected);
    };
    check(true, true);
    check(false, false);
}

/// A variable holds the output of the last call until the next one is there.
#[test]
fn an_output_that_a_larger_one_replaces_is_no_cache() {
    // The sizes that one line makes in each call; the last one is held. Whether the call goes on
    // then, and whether the model is trained.
    let check = |calls: &[Vec<u64>], (goes_on, trains): (bool, bool), expected| {
        let mut p = Program::default();
        alloc(&mut p, 4096, &moved(10));
        let (mut held, mut found) = (None, Vec::new());
        for call in calls {
            p.alloc(8, &["<module> train.py:8"]);
            let made: Vec<_> = call.iter().map(|&size| forward(&mut p, size, 4)).collect();
            found.extend(held.replace(made[made.len() - 1]));
            found.last().into_iter().for_each(|&old| p.free(old));
            if goes_on {
                let attention = forward(&mut p, 16, 5);
                p.free(attention);
            }
            made[..made.len() - 1]
                .iter()
                .for_each(|&block| p.free(block));
            if trains {
                backward(&mut p);
                p.alloc(4096, &[]);
                p.alloc(8, &["<module> train.py:13"]);
            }
        }
        found.extend(held);
        let of = of(p);
        let caches = found.into_iter().filter(|&b| of(b) == Category::KvCache);
        assert_eq!(caches.count() > 0, expected, "{calls:?} {goes_on} {trains}");
    };
    let one = |sizes: &[u64]| sizes.iter().map(|&size| vec![size]).collect::<Vec<_>>();
    let tokens = one(&[512, 1024, 1536, 2048, 2560, 3072]);
    check(&tokens, (true, false), true);
    check(&tokens, (true, true), false);
    // A model that gets all tokens in each call.
    check(&tokens, (false, false), false);
    // An evaluation whose batches are sorted by length.
    check(
        &one(&[3520, 3968, 5312, 6656, 7040, 8832]),
        (true, false),
        false,
    );
    // Layers at one line: hidden ones, and the one whose output is held.
    check(
        &[(); 6].map(|()| vec![4096, 2048, 512]),
        (true, false),
        false,
    );
}

/// The first call makes a workspace at the line that grows the cache.
#[test]
fn a_workspace_at_the_line_of_a_cache_is_none() {
    let mut p = Program::default();
    let mut keys: Option<BlockIdx> = None;
    let workspace = forward(&mut p, 32 << 20, 4);
    for token in 1..9 {
        let grown = forward(&mut p, 512 * token, 4);
        keys.replace(grown).into_iter().for_each(|old| p.free(old));
        forward(&mut p, 16, 5);
        p.alloc(8, &["<module> train.py:12"]);
    }
    let of = of(p);
    assert_eq!(of(keys.expect("eight tokens")), Category::KvCache);
    assert_eq!(of(workspace), Category::Temporary);
}

/// What a list collects outlives its step, which neither an input nor a temporary does. So do
/// workspaces, of which only one is made.
#[test]
fn what_step_after_step_is_kept_is_unknown() {
    for labels in [160, 1 << 20] {
        keep_step_after_step(labels);
    }
}

fn keep_step_after_step(labels: u64) {
    use Category::{Input, Temporary, Unknown};
    const STEPS: usize = 9;
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    let data = p.alloc(1 << 16, &["<module> train.py:3"]);
    let mut made = Vec::new();
    for step in 0..STEPS {
        // In each step: a batch, one that is loaded four steps ahead, labels that a list collects,
        // scores of which a list keeps every second one.
        let lines = [(640, 5), (320, 6), (labels, 7)];
        let [batch, ahead, labels] =
            lines.map(|(size, line)| p.alloc(size, &[&format!("<module> train.py:{line}")]));
        let saved = forward(&mut p, 2048, 4);
        let scores = p.alloc(80, &["<module> train.py:10"]);
        backward(&mut p);
        p.free(saved);
        p.alloc(4096, &[]);
        made.push([batch, ahead, labels, scores]);
        p.alloc(8, &["<module> train.py:13"]);
        p.free(batch);
        if step >= 4 {
            p.free(made[step - 4][1]);
        }
        if step % 2 == 1 {
            p.free(scores);
        }
    }
    let of = of_steps(p, made.iter().map(|blocks| blocks[0]));
    assert_eq!(of(data), Input);
    for (step, blocks) in made.iter().enumerate() {
        let expected = match (step + 3 <= STEPS, step % 2 == 0) {
            (true, true) => [Input, Input, Unknown, Unknown],
            (true, false) => [Input, Input, Unknown, Temporary],
            (false, _) => [Input, Input, Input, Temporary],
        };
        assert_eq!(blocks.map(&of), expected, "{step}");
    }
}

/// What an evaluation keeps was no temporary of its step, however seldom it comes.
#[test]
fn weights_that_are_kept_twice_are_no_temporaries() {
    const STEPS: usize = 9;
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    let (mut firsts, mut copies, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..STEPS {
        firsts.push(p.alloc(640, &["<module> train.py:5"]));
        losses.drain(..).for_each(|loss| p.free(loss));
        let saved = forward(&mut p, 2048, 4);
        losses.push(p.alloc(4, &["<module> train.py:10"]));
        backward(&mut p);
        p.free(saved);
        let gradient = p.alloc(4096, &[]);
        p.alloc(8, &["<module> train.py:13"]);
        p.free(gradient);
        p.free(firsts[step]);
        if step % 4 == 2 {
            let scores = forward(&mut p, 512, 6);
            p.free(scores);
            copies.push(p.alloc(4096, &["<module> train.py:15"]));
        }
    }
    let of = of_steps(p, firsts.into_iter());
    assert_eq!(
        copies.into_iter().map(&of).collect::<Vec<_>>(),
        [Category::Unknown; 2]
    );
    assert_eq!(of(losses[0]), Category::Temporary);
}

/// With `use_cache=True`, a model that is trained fills a cache that nobody reads.
#[test]
fn the_cache_of_a_training_step_is_an_activation() {
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    let call = format!("_call_impl {MODULE}:1");
    let update = "update /v/site-packages/transformers/cache_utils.py:90";
    let mut of_passes = Vec::new();
    for pass in 0..3 {
        p.alloc(640, &["<module> train.py:8"]);
        let keys = p.alloc(2048, &[MAIN, &call, "forward net.py:3", update]);
        let held = p.alloc(1024, &[MAIN, &call, "forward net.py:4", update]);
        forward(&mut p, 700, 5);
        of_passes.push([keys, held]);
        if pass == 2 {
            continue;
        }
        backward(&mut p);
        p.free(keys);
        p.alloc(4096, &[]);
        p.alloc(8, &["<module> train.py:13"]);
        p.free(held);
    }
    let of = of(p);
    for [keys, held] in of_passes {
        assert_eq!([keys, held].map(&of), [Category::Activation; 2]);
    }
}

#[test]
fn a_static_cache_is_a_cache_wherever_it_is_made() {
    let mut p = Program::default();
    let weight = alloc(&mut p, 4096, &moved(10));
    let made = "__init__ /v/site-packages/transformers/cache_utils.py:1100";
    let cache = p.alloc(65_536, &["<module> serve.py:4", made]);
    let of_model = p.alloc(
        5000,
        &[
            "<module> serve.py:5",
            "__init__ /v/site-packages/net/kv_cache_attention.py:9",
        ],
    );
    for _ in 0..4 {
        p.alloc(8, &["<module> serve.py:6"]);
        let out = forward(&mut p, 700, 5);
        p.free(out);
    }
    let of = of(p);
    let expected = [Category::Parameter, Category::KvCache, Category::Parameter];
    assert_eq!([weight, cache, of_model].map(&of), expected);
}

/// When memory runs out, the exception gives everything back. What a forward pass saved was saved
/// for its backward pass all the same.
#[test]
fn what_a_failure_cuts_off_is_what_it_was_before() {
    use Category::{Activation, Temporary};
    for in_backward in [false, true] {
        let mut p = Program::default();
        alloc(&mut p, 4096, &moved(10));
        let mut last = Vec::new();
        for step in 0..4 {
            let saved = forward(&mut p, 2048, 4);
            let scratch = forward(&mut p, 100, 3);
            last = vec![saved, scratch];
            if step == 3 && !in_backward {
                break;
            }
            p.free(scratch);
            let seed = backward(&mut p);
            if step == 3 {
                last.pop();
                break;
            }
            p.free(saved);
            p.free(seed);
        }
        p.builder.out_of_memory(Bytes(1 << 20));
        last.iter().rev().for_each(|&block| p.free(block));
        let of = of(p);
        let found: Vec<Category> = last.into_iter().map(of).collect();
        assert_eq!(
            found,
            [Activation, Temporary][..found.len()],
            "{in_backward}"
        );
    }
}

/// The exception gives it back inside of the module that the checkpoint calls again.
#[test]
fn what_a_checkpoint_recomputes_when_memory_runs_out_is_an_activation() {
    for is_cut_off in [false, true] {
        let mut p = Program::default();
        alloc(&mut p, 4096, &moved(10));
        forward(&mut p, 64, 4);
        let seed = backward(&mut p);
        let stack = p.stack(&recomputed().each_ref().map(String::as_str));
        let again = p.builder.alloc(crate::trace::BlockKind {
            alloc_stack: stack,
            free_stack: stack,
            ..crate::testing::block_of(Bytes(2048))
        });
        if is_cut_off {
            p.builder.out_of_memory(Bytes(1 << 20));
        }
        p.free(again);
        p.free(seed);
        alloc(&mut p, 4096, &recomputed()[..2]);
        let expected = match is_cut_off {
            true => Category::Activation,
            false => Category::Temporary,
        };
        assert_eq!(of(p)(again), expected);
    }
}

/// The first product of matrices makes a workspace, in whatever operation that is, and C++ frames
/// may not be recorded. What a model keeps comes again with the next call.
#[test]
fn a_workspace_of_a_model_that_only_infers_is_no_activation() {
    let check = |later: usize, expected| {
        let mut p = Program::default();
        alloc(&mut p, 4096, &moved(10));
        let first = forward(&mut p, 32 << 20, 4);
        for _ in 0..later {
            forward(&mut p, 32 << 20, 4);
        }
        forward(&mut p, 700, 5);
        assert_eq!(of(p)(first), expected, "{later} more");
    };
    check(0, Category::Temporary);
    check(3, Category::Activation);
}

/// Two models learn from each other: both forward passes come before both backward passes.
#[test]
fn what_waits_through_the_backward_pass_of_another_loss_is_an_activation() {
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    let mut waited = Vec::new();
    let mut logits: Option<BlockIdx> = None;
    for _ in 0..3 {
        let [first, second] = [4, 5].map(|line| forward(&mut p, 2048, line));
        if let Some(old) = logits.replace(forward(&mut p, 700, 6)) {
            p.free(old);
        }
        backward(&mut p);
        p.free(first);
        p.alloc(4096, &[]);
        // The next loss is computed between the two.
        forward(&mut p, 4, 7);
        backward(&mut p);
        p.free(second);
        p.alloc(4096, &[]);
        p.alloc(64, &["<module> train.py:20", &format!("step {ADAM}:9")]);
        waited.extend([first, second]);
    }
    let of = of(p);
    for block in waited {
        assert_eq!(of(block), Category::Activation);
    }
    assert_eq!(of(logits.expect("three steps")), Category::Temporary);
}

/// The gradient of a gradient, as a penalty on gradients takes it.
#[test]
fn what_a_second_backward_pass_goes_through_is_an_activation() {
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    let mut kept = Vec::new();
    for _ in 0..3 {
        let saved = forward(&mut p, 2048, 4);
        backward(&mut p);
        let between = p.alloc(3000, &[]);
        forward(&mut p, 4, 7);
        backward(&mut p);
        [saved, between].into_iter().for_each(|block| p.free(block));
        p.alloc(4096, &[]);
        p.alloc(64, &["<module> train.py:20", &format!("step {ADAM}:9")]);
        kept.push(between);
    }
    let of = of(p);
    for block in kept {
        assert_eq!(of(block), Category::Activation);
    }
}

/// A model that writes token by token changes its phase at nearly every event.
#[test]
fn very_many_short_phases_leave_no_block_unknown() {
    let mut p = Program::default();
    let weight = alloc(&mut p, 4096, &moved(10));
    let stacks = [
        p.stack(&[MAIN, "sample generate.py:3"]),
        p.stack(&[MAIN, &format!("_call_impl {MODULE}:1"), "forward net.py:4"]),
    ];
    for _ in 0..200_000 {
        for alloc_stack in stacks {
            let block = p.builder.alloc(crate::trace::BlockKind {
                alloc_stack,
                ..block_of(Bytes(512))
            });
            p.free(block);
        }
    }
    assert_eq!(of(p)(weight), Category::Parameter);
}

/// Two of one size, of which a library made the other beside a product: each thread has one.
#[test]
fn workspaces_of_two_threads_from_before_are_no_gradient() {
    let check = |file: &str, expected| {
        let mut p = Program::default();
        let call = format!("backward {TENSOR}:5");
        let backwards = p.stack(&["<module> train.py:11", &call, "backward strategy.py:98"]);
        let other = format!("initialize {file}:67");
        let other = p.stack(&["<module> train.py:9", &other]);
        let [block, _] = [backwards, other].map(|alloc_stack| {
            let kind = crate::testing::block_of(Bytes(32 << 20));
            p.builder.preexisting(crate::trace::BlockKind {
                alloc_stack,
                ..kind
            })
        });
        for _ in 0..2 {
            let saved = forward(&mut p, 2048, 4);
            backward(&mut p);
            p.free(saved);
        }
        assert_eq!(of(p)(block), expected, "{file}");
    };
    check("/v/site-packages/gpytorch/natural.py", Category::Temporary);
    // It may be a parameter that the program made.
    check("model.py", Category::Gradient);
}
