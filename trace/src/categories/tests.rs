//! One program for each rule.

use super::*;
use crate::naming::Rules;
use crate::phases::program::{ADAM, MODULE, Program, TENSOR, on_windows};
use crate::series::Series;
use crate::site;
use crate::testing::{TraceBuilder, arbitrary, block_of};

fn of(p: Program) -> impl Fn(BlockIdx) -> Category {
    let trace = p.finish();
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

/// A module that a checkpoint calls again. The first two frames are the backward pass itself.
fn recomputed() -> [String; 4] {
    [
        "<module> train.py:11".to_owned(),
        format!("backward {TENSOR}:5"),
        format!("_call_impl {MODULE}:1"),
        "forward net.py:5".to_owned(),
    ]
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
fn a_list_of_weights_and_copies_of_it() {
    let mut p = Program::default();
    let main = |line: u32| format!("<module> train.py:{line}");
    let sizes = [4096, 1024];
    let weights = sizes.map(|size| p.alloc(size, &[&main(2)]));
    let momenta = sizes.map(|size| p.alloc(size, &[&main(3)]));
    let data = p.alloc(640, &[&main(4)]);
    for _ in 0..2 {
        let saved = forward(&mut p, 2048, 4);
        backward(&mut p);
        p.free(saved);
        for gradient in sizes.map(|size| p.alloc(size, &[])) {
            // What comes after the backward pass is the program's own.
            p.free(gradient);
        }
        for size in sizes {
            p.alloc(size, &[]);
        }
    }
    let of = of(p);
    assert_eq!(weights.map(&of), [Category::Parameter; 2]);
    assert_eq!(momenta.map(&of), [Category::OptimizerState; 2]);
    assert_eq!(of(data), Category::Input);
}

/// The recording begins in the middle of training: the weight is older.
#[test]
fn a_copy_of_a_gradient_at_the_beginning_is_no_parameter() {
    let copied = |is_older: bool| {
        let mut p = Program::default();
        if is_older {
            p.builder.preexisting(crate::testing::block_of(Bytes(4096)));
        }
        let copy = p.alloc(4096, &["<module> train.py:13"]);
        for _ in 0..3 {
            let saved = forward(&mut p, 2048, 4);
            backward(&mut p);
            p.free(saved);
            let gradient = p.alloc(4096, &[]);
            p.alloc(4096, &["<module> train.py:13"]);
            p.free(gradient);
        }
        of(p)(copy)
    };
    assert_ne!(copied(true), Category::Parameter);
    assert_eq!(copied(false), Category::Parameter);
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
fn a_norm_that_clipping_returns_is_no_state_of_an_optimizer() {
    let clip = "clip_grad_norm_ /v/site-packages/torch/nn/utils/clip_grad.py:220";
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    let mut made = Vec::new();
    for _ in 0..3 {
        forward(&mut p, 64, 4);
        backward(&mut p);
        let norm = p.alloc(4, &["<module> train.py:12", clip]);
        let step = ["<module> train.py:13", &format!("step {ADAM}:7")];
        made.push((norm, p.alloc(4096, &step)));
    }
    // The second step's norm is set again, the others are kept.
    p.free(made[1].0);
    let of = of(p);
    for (norm, state) in made {
        assert_eq!(of(norm), Category::Temporary);
        assert_eq!(of(state), Category::OptimizerState);
    }
}

#[test]
fn what_a_data_class_holds_is_no_parameter() {
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    let mut losses = Vec::new();
    for _ in 0..3 {
        let saved = forward(&mut p, 2048, 4);
        let result = [
            "<module> train.py:10",
            "__init__ <string>:5",
            "__post_init__ loop.py:9",
        ];
        losses.push(p.alloc(4, &result));
        backward(&mut p);
        p.free(saved);
    }
    let of = of(p);
    for loss in losses {
        assert_ne!(of(loss), Category::Parameter);
    }
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

/// Flat blocks of 16-bit parameters, and 32-bit copies of them.
#[test]
fn master_weights_are_optimizer_state() {
    let check = |file: &str, frames: [&str; 2], first: Category| {
        let mut p = Program::default();
        let [flat, copy] = [1_u64, 2].map(|n| {
            let inner = format!("{} {file}:{n}0", frames[(n - 1) as usize]);
            let init = format!("__init__ {file}:{n}0");
            let stack = match inner == init {
                true => vec!["<module> train.py:4", &init],
                false => vec!["<module> train.py:4", &init, &inner],
            };
            p.alloc(n << 20, &stack)
        });
        forward(&mut p, 700, 5);
        backward(&mut p);
        p.alloc(1 << 20, &[]);
        let of = of(p);
        let found = [flat, copy].map(&of);
        assert_eq!(found, [first, Category::OptimizerState], "{file}");
    };
    let zero = "/v/site-packages/deepspeed/runtime/zero/stage_1_and_2.py";
    check(zero, ["__init__"; 2], Category::Parameter);
    check(
        zero,
        ["__init__", "initialize_optimizer_states"],
        Category::Parameter,
    );
    let zero = "/src/DeepSpeed/deepspeed/runtime/zero/stage3.py";
    let copies = ["_create_fp16_partitions", "_create_fp32_partitions"];
    check(zero, copies, Category::Parameter);
    let megatron = "/src/Megatron-LM/megatron/core/optimizer/optimizer.py";
    check(megatron, ["__init__"; 2], Category::OptimizerState);
}

/// The data of an object that is made before training.
#[test]
fn what_an_object_makes_is_a_parameter_only_if_something_shows_it() {
    let mut p = Program::default();
    let root = "<module> train.py:2";
    let linear = "__init__ /v/site-packages/torch/nn/modules/linear.py:9";
    let of_module = p.alloc(4096, &[root, "__init__ net.py:5", linear]);
    let frozen = p.alloc(300, &[root, "__init__ net.py:6"]);
    let trained = p.alloc(2048, &[root, "__init__ own.py:6"]);
    let data = p.alloc(1 << 20, &[root, "__init__ data.py:7"]);
    for _ in 0..2 {
        forward(&mut p, 700, 5);
        let seed = backward(&mut p);
        for size in [4096, 2048] {
            p.alloc(size, &[]);
        }
        p.free(seed);
        p.alloc(8, &["<module> train.py:13"]);
    }
    let of = of(p);
    assert_eq!(
        [of_module, frozen, trained].map(&of),
        [Category::Parameter; 3]
    );
    assert_eq!(of(data), Category::Input);
}

/// `DistributedDataParallel` makes buckets when it is made, and others in the second forward pass.
#[test]
fn buckets_of_gradients_are_gradients() {
    const DDP: &str = "/v/site-packages/torch/nn/parallel/distributed.py";
    let mut p = Program::default();
    let weight = alloc(&mut p, 4096, &moved(10));
    let root = "<module> train.py:5";
    let [made, init] = ["__init__", "_ddp_init_helper"].map(|name| format!("{name} {DDP}:9"));
    let first = p.alloc(4096, &[root, &made, &init]);
    forward(&mut p, 2048, 4);
    p.alloc(4096, &["torch::autograd::Engine::thread_main"]);
    let call = format!("_call_impl {MODULE}:1");
    let [ddp, before] = ["forward", "_pre_forward"].map(|name| format!("{name} {DDP}:9"));
    let second = p.alloc(4096, &[root, &call, &ddp, &before]);
    p.free(first);
    let output = p.alloc(900, &[root, &call, &ddp, &call, "forward net.py:4"]);
    let of = of(p);
    assert_eq!(of(weight), Category::Parameter);
    assert_eq!([first, second].map(&of), [Category::Gradient; 2]);
    assert_ne!(of(output), Category::Gradient);
}

#[test]
fn a_workspace_is_no_gradient_though_it_stays() {
    let mut p = Program::default();
    alloc(&mut p, 4096, &moved(10));
    forward(&mut p, 2048, 4);
    let engine = "torch::autograd::Engine::thread_main";
    let workspaces = [
        "at::cuda::getCUDABlasLtWorkspace()",
        "at::cuda::getCurrentCUDABlasHandle()",
    ]
    .map(|name| p.alloc(4096, &[engine, name]));
    let gradient = p.alloc(4096, &[engine]);
    let of = of(p);
    assert_eq!(workspaces.map(&of), [Category::Temporary; 2]);
    assert_eq!(of(gradient), Category::Gradient);
}

#[test]
fn of_what_was_there_before_only_behaviour_tells() {
    let lasting = |copies: usize| {
        let mut p = Program::default();
        let before: Vec<BlockIdx> = (0..copies)
            .map(|_| p.builder.preexisting(crate::testing::block_of(Bytes(4096))))
            .collect();
        for _ in 0..2 {
            forward(&mut p, 2048, 4);
            backward(&mut p);
            p.alloc(4096, &[]);
        }
        of(p)(before[0])
    };
    assert_eq!(lasting(1), Category::Parameter, "one for each gradient");
    assert_eq!(lasting(3), Category::Before, "a parameter, or its state");
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

/// One recording: a layer's blocks, an optimizer's state.
fn two_places() -> crate::trace::Trace {
    let mut p = Program::default();
    for _ in 0..2 {
        let saved = forward(&mut p, 2 << 20, 4);
        forward(&mut p, 512, 4);
        p.free(saved);
    }
    p.alloc(4096, &["<module> train.py:12", &format!("step {ADAM}:7")]);
    p.finish()
}

fn named(rules: &str) -> (crate::trace::Trace, Categories) {
    let mut trace = two_places();
    trace.stacks.own = Some(Rules::parse(rules).unwrap().into());
    let categories = Categories::of(&trace.devices[0], &trace.stacks);
    (trace, categories)
}

#[test]
fn a_team_s_own_names_come_on_top() {
    let check = |rules: &str, expected: [&str; 5]| {
        let (_, categories) = named(rules);
        let names = (0..5).map(|block| categories.get(BlockIdx(block)).name().to_owned());
        assert_eq!(names.collect::<Vec<_>>(), expected, "{rules}");
    };
    let [a, t, s] = ["activation", "temporary", "optimizer_state"];
    let ours = [a, a, a, a, s];
    let (_, without) = named("");
    let found: Vec<_> = (0..5)
        .map(|b| without.get(BlockIdx(b)).name().to_owned())
        .collect();
    assert!(
        found
            .iter()
            .all(|name| [a, t, s, "unknown"].contains(&name.as_str())),
        "{found:?}"
    );
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    let with = |at: &[usize], name: &'static str| {
        let mut names: Vec<&str> = found.clone();
        at.iter().for_each(|&at| names[at] = name);
        <[&str; 5]>::try_from(names).unwrap()
    };
    assert_eq!(ours.len(), found.len());
    check("net function=forward", with(&[0, 1, 2, 3], "net"));
    check("net file=*net.py size>=1MiB", with(&[0, 2], "net"));
    check("small size<=512", with(&[1, 3], "small"));
    check("adam module=torch.optim.*", with(&[4], "adam"));
    // The first line that holds takes a block; lines of one name are alternatives.
    check(
        "adam module=torch.optim.*\nall size>=0",
        with(&[0, 1, 2, 3], "all").map(|n| if n == s { "adam" } else { n }),
    );
    // Both conditions must hold for the same frame.
    check("x function=forward file=train.py", with(&[], "x"));
    check("x shape=[*]", with(&[], "x"));
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

#[test]
fn own_names_change_no_sum_and_no_inference() {
    let (trace, categories) = named("net function=forward\nx category=optimizer_state");
    let device = &trace.devices[0];
    let at = device.summary[0].peak_event;
    let shares = categories.alive(device, at);
    let all: u64 = shares
        .largest_first()
        .iter()
        .map(|(_, bytes)| bytes.get())
        .sum();
    let kinds = alive(device, at).map(|block| device.blocks.kind(block).size.get());
    assert_eq!(all, kinds.sum::<u64>());
    let plain = Categories::of(device, &two_places().stacks);
    for block in (0..device.blocks.len() as u32).map(BlockIdx) {
        assert_eq!(categories.found(block), plain.found(block));
        let kind = device.blocks.kind(block);
        let shown = categories.get(block);
        assert_eq!(
            is_inferred(&trace.stacks, kind, shown),
            shown.name() != "net"
        );
    }
    let rules = trace.stacks.own.as_deref().unwrap();
    let taken = own::preview(rules, device, &trace.stacks, at, Watch::nobody()).unwrap();
    let lines: Vec<_> = taken
        .iter()
        .map(|t| (t.line, t.name.as_str(), t.blocks))
        .collect();
    assert_eq!(lines, [(1, "net", 4), (2, "x", 1)]);
    let net: Named = "net".parse().unwrap();
    assert_eq!(taken[0].alive.bytes, shares.get(net));
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

#[test]
fn each_text_is_held_against_the_rules_once_and_the_watch_may_stop_it() {
    let mut trace = two_places();
    // Very many frames that share one name.
    let name = trace.stacks.strings.push(&"a".repeat(4096));
    for line in 0..100_000 {
        trace.stacks.push_frame(crate::stacks::Frame {
            name,
            filename: name,
            line,
        });
    }
    let slow: String = (0..60)
        .map(|at| format!("x{at} function=*{}b\n", "a".repeat(200)))
        .collect();
    let rules = Rules::parse(&slow).unwrap();
    let device = &trace.devices[0];
    let looks = std::cell::Cell::new(0);
    let go_on = |_| {
        looks.set(looks.get() + 1);
        true
    };
    let preview = |watch| own::preview(&rules, device, &trace.stacks, None, watch);
    assert!(preview(Watch::new(&go_on)).is_ok());
    assert!(looks.get() < 100, "{}", looks.get());
    assert!(preview(Watch::new(&|_| false)).is_err());
}
