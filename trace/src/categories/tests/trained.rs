//! What is trained, and what an optimizer keeps of it.

use super::{alloc, backward, forward, moved, of, of_steps};
use crate::categories::*;
use crate::phases::program::{ADAM, MODULE, Program, TENSOR};

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

/// There is one gradient for each parameter, and one block of state at a line of an optimizer. What
/// a line of the program's own keeps in each step is neither.
#[test]
fn what_the_program_collects_in_an_update_or_a_backward_pass_is_no_state_and_no_gradient() {
    use Category::{Gradient, OptimizerState, Unknown};
    // A workspace may be as large.
    const SIZE: u64 = 1 << 20;
    let wrapper = "wrapper /v/site-packages/torch/optim/optimizer.py:533";
    let own = |line: u32| {
        [
            "<module> train.py:12",
            wrapper,
            &format!("step muon.py:{line}"),
        ]
        .map(str::to_owned)
    };
    let hook = "unpack train.py:30";
    let mut p = Program::default();
    let weights: Vec<BlockIdx> = (0..2).map(|_| alloc(&mut p, SIZE, &moved(10))).collect();
    let (mut made, mut momentum, mut first) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..8 {
        let input = p.alloc(640, &["<module> train.py:8"]);
        let saved = forward(&mut p, 2048, 4);
        backward(&mut p);
        let call = format!("backward {TENSOR}:5");
        let back = p.alloc(SIZE, &["<module> train.py:11", &call, hook]);
        p.free(saved);
        let gradients = [p.alloc(SIZE, &[]), p.alloc(SIZE, &[])];
        if step == 0 {
            first = (0..2).map(|_| alloc(&mut p, SIZE, &own(10))).collect();
        }
        let update = alloc(&mut p, SIZE, &own(20));
        let next = alloc(&mut p, SIZE, &own(30));
        momentum.drain(..).for_each(|old| p.free(old));
        momentum.push(next);
        // Of a parameter that is used for the first time.
        let library = ["<module> train.py:12", &format!("step {ADAM}:7")];
        let state = p.alloc(SIZE, &library);
        gradients.into_iter().for_each(|gradient| p.free(gradient));
        p.free(input);
        made.push((input, [back, update, state], gradients));
    }
    let of = of_steps(p, made.iter().map(|(input, ..)| *input));
    for (_, kept, gradients) in &made {
        assert_eq!(kept.map(&of), [Unknown, Unknown, OptimizerState]);
        assert_eq!(gradients.map(&of), [Gradient; 2]);
    }
    assert!(
        weights
            .iter()
            .all(|&weight| of(weight) == Category::Parameter)
    );
    assert!(
        first
            .iter()
            .chain(&momentum)
            .all(|&state| of(state) == OptimizerState)
    );
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

/// A server's file has the classes of the model, and that of the pool for keys and values.
#[test]
fn what_an_object_makes_beside_modules_that_are_moved_may_be_a_pool() {
    let root = "<module> serve.py:2";
    let init = [root, "__init__ serve.py:6"];
    // Up to Python 3.11, a comprehension has a frame of its own.
    let listed = [root, "__init__ serve.py:6", "<listcomp> serve.py:6"];
    let linear = "__init__ /v/site-packages/torch/nn/modules/linear.py:9";
    let made = [root, "__init__ serve.py:20", linear];
    let check = |is_moved: bool, is_older: bool, init: &[&str], expected| {
        let mut p = Program::default();
        let mut model = moved(10).to_vec();
        if !is_moved {
            model = made.map(str::to_owned).to_vec();
        }
        let mut make = |bytes: u64, frames: &[&str]| match is_older {
            true => {
                let alloc_stack = p.stack(frames);
                let kind = crate::testing::block_of(Bytes(bytes));
                p.builder.preexisting(crate::trace::BlockKind {
                    alloc_stack,
                    ..kind
                })
            }
            false => p.alloc(bytes, frames),
        };
        let model: Vec<&str> = model.iter().map(String::as_str).collect();
        let weight = make(4096, &model);
        let pool = make(1 << 20, init);
        for _ in 0..3 {
            let output = forward(&mut p, 700, 5);
            p.alloc(8, &["<module> serve.py:13"]);
            p.free(output);
        }
        let of = of(p);
        assert_eq!(of(weight), Category::Parameter, "{is_moved} {is_older}");
        assert_eq!(of(pool), expected, "{is_moved} {is_older}");
    };
    for is_older in [false, true] {
        for init in [&init[..], &listed] {
            check(true, is_older, init, Category::Unknown);
            check(false, is_older, init, Category::Parameter);
        }
    }
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

/// Megatron makes one block for the parameters, if its optimizer is distributed, and one for the
/// gradients.
#[test]
fn the_last_line_of_megatron_s_buffer_is_of_gradients() {
    let check = |lines: &[u32], expected: &[Category]| {
        let mut p = Program::default();
        let buffer = "/w/megatron/core/distributed/param_and_grad_buffer.py";
        let made: Vec<BlockIdx> = (lines.iter())
            .map(|line| {
                let init = format!("__init__ {buffer}:{line}");
                p.alloc(4096, &["<module> train.py:5", &init])
            })
            .collect();
        forward(&mut p, 2048, 4);
        let of = of(p);
        assert_eq!(made.into_iter().map(&of).collect::<Vec<_>>(), expected);
    };
    use Category::{Gradient, Parameter};
    check(&[586, 592], &[Parameter, Gradient]);
    check(&[592], &[Gradient]);
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

/// A trainer that ends gives back the workspaces. What the program keeps for as long is an
/// activation, also if it is as large, where there are more of them.
#[test]
fn a_workspace_that_is_given_back_at_the_end_is_no_activation() {
    let check = |n: usize, expected| {
        let mut p = Program::default();
        alloc(&mut p, 4096, &moved(10));
        let mut kept = Vec::new();
        for step in 0..4 {
            let saved = forward(&mut p, 2048, 4);
            if step < n {
                kept.push(forward(&mut p, 32 << 20, 5));
            }
            backward(&mut p);
            p.free(saved);
            let gradient = p.alloc(4096, &[]);
            p.alloc(8, &["<module> train.py:13"]);
            p.free(gradient);
        }
        kept.iter().for_each(|&block| p.free(block));
        assert_eq!(of(p)(kept[0]), expected, "{n}");
    };
    check(1, Category::Temporary);
    check(4, Category::Activation);
}

/// A state that is recorded with stacks says where older blocks were made. One workspace is of the
/// forward pass, and one of autograd's thread, which shows no stack.
#[test]
fn workspaces_from_before_are_no_activations() {
    let check = |n: usize, expected| {
        let mut p = Program::default();
        let call = format!("_call_impl {MODULE}:1");
        let made = p.stack(&["<module> train.py:9", &call, "forward net.py:4"]);
        let workspace = |p: &mut Program, alloc_stack| {
            let kind = crate::testing::block_of(Bytes(32 << 20));
            p.builder.preexisting(crate::trace::BlockKind {
                alloc_stack,
                ..kind
            })
        };
        let first = workspace(&mut p, made);
        for _ in 1..n {
            workspace(&mut p, crate::stacks::StackIdx::NONE);
        }
        for _ in 0..2 {
            let saved = forward(&mut p, 2048, 4);
            backward(&mut p);
            p.free(saved);
        }
        assert_eq!(of(p)(first), expected, "{n}");
    };
    check(1, Category::Temporary);
    check(2, Category::Temporary);
    // Backward passes have come, and took none of them.
    check(3, Category::Unknown);
}

/// Every step copies the weights, and the copies of three steps are kept. An optimizer of PyTorch
/// has its own state; without one, the copies may be state.
#[test]
fn copies_of_weights_beside_an_optimizer_are_no_state_of_it() {
    let check = |has_optimizer: bool, expected| {
        let mut p = Program::default();
        alloc(&mut p, 4096, &moved(10));
        let (mut copies, mut gradients) = (Vec::new(), Vec::new());
        for step in 0..6 {
            let saved = forward(&mut p, 2048, 4);
            backward(&mut p);
            p.free(saved);
            gradients.drain(..).for_each(|old| p.free(old));
            gradients.push(p.alloc(4096, &[]));
            if has_optimizer && step == 0 {
                p.alloc(4096, &["<module> train.py:12", &format!("step {ADAM}:7")]);
            }
            copies.push(p.alloc(4096, &["<module> train.py:13"]));
            p.alloc(8, &["<module> train.py:8"]);
            if step >= 3 {
                p.free(copies[step - 3]);
            }
        }
        let of = of(p);
        assert_eq!(of(copies[1]), expected, "{has_optimizer}");
    };
    check(true, Category::Unknown);
    check(false, Category::OptimizerState);
}

/// A table of a module is by chance twice as large as a weight that has most of the bytes.
#[test]
fn a_buffer_of_twice_the_size_of_a_weight_is_no_copy_of_all_weights() {
    let check = |others: &[u64], expected| {
        let mut p = Program::default();
        let weights = [4096, 64, 64, 32, 32].map(|size| alloc(&mut p, size, &moved(10)));
        let init = ["<module> train.py:3", "__init__ net.py:5"];
        let table = p.alloc(8192, &init);
        for &size in others {
            p.alloc(size, &init);
        }
        for _ in 0..3 {
            let saved = forward(&mut p, 2048, 4);
            backward(&mut p);
            p.free(saved);
            let gradients = [4096, 64, 64, 32, 32].map(|size| p.alloc(size, &[]));
            p.alloc(8, &["<module> train.py:13"]);
            gradients.into_iter().for_each(|gradient| p.free(gradient));
        }
        let of = of(p);
        assert_eq!(weights.map(&of), [Category::Parameter; 5]);
        assert_eq!(of(table), expected, "{others:?}");
    };
    // Its class is in the file whose `forward` a call of a module runs.
    check(&[], Category::Unknown);
    // 32-bit copies of 16-bit weights.
    check(&[128, 128, 64, 64], Category::OptimizerState);
}

/// A penalty on gradients: the second backward pass goes through what the first one made.
#[test]
fn what_a_second_backward_pass_gives_back_is_no_gradient_though_it_is_as_large() {
    let mut p = Program::default();
    let weight = alloc(&mut p, 4096, &moved(10));
    let mut made = Vec::new();
    for _ in 0..3 {
        forward(&mut p, 2048, 4);
        backward(&mut p);
        let between = p.alloc(4096, &[]);
        forward(&mut p, 700, 5);
        backward(&mut p);
        p.free(between);
        let gradient = p.alloc(4096, &[]);
        made.push((between, gradient));
        p.alloc(4096, &["<module> train.py:12", &format!("step {ADAM}:7")]);
        p.free(gradient);
        p.alloc(8, &["<module> train.py:8"]);
    }
    let of = of(p);
    assert_eq!(of(weight), Category::Parameter);
    for (between, gradient) in made {
        assert_eq!(
            [between, gradient].map(&of),
            [Category::Activation, Category::Gradient]
        );
    }
}

/// No module: the program makes its weights, and the state of its optimizer after the first step.
/// In the second step it replaces a weight by a larger one.
#[test]
fn state_of_an_optimizer_written_by_hand_is_no_input() {
    let call = "grad /v/site-packages/torch/autograd/__init__.py:9";
    let mut p = Program::default();
    let mut weight = p.alloc(4096, &["<module> train.py:2"]);
    let (mut made, mut batches) = (Vec::new(), Vec::new());
    for step in 0..6 {
        batches.push(p.alloc(640, &["<module> train.py:8"]));
        let saved = forward(&mut p, 2048, 4);
        p.alloc(4, &["<module> train.py:9", call]);
        p.free(saved);
        let size = if step < 2 { 4096 } else { 6144 };
        let gradient = p.alloc(size, &[]);
        if step == 0 {
            made.push(p.alloc(4096, &["<module> train.py:15", "adam train.py:30"]));
        }
        p.alloc(8, &["<module> train.py:15", "adam train.py:31"]);
        if step == 1 {
            p.free(weight);
            weight = p.alloc(6144, &["<module> train.py:20"]);
            made.push(weight);
        }
        p.free(gradient);
        if step > 0 {
            p.free(batches[step - 1]);
        }
    }
    let of = of(p);
    assert!(made.iter().all(|&block| of(block) != Category::Input));
    assert!(
        batches[..5]
            .iter()
            .all(|&block| of(block) == Category::Input)
    );
}

/// Beside a gradient there is its parameter, which is as large.
#[test]
fn a_workspace_of_a_backward_pass_from_before_is_no_gradient() {
    let check = |more: usize, expected| {
        let mut p = Program::default();
        let call = format!("backward {TENSOR}:5");
        let made = p.stack(&[
            "<module> train.py:11",
            &call,
            "call /tmp/torchinductor_me/a.py:9",
        ]);
        let kind = crate::testing::block_of(Bytes(32 << 20));
        let block = p.builder.preexisting(crate::trace::BlockKind {
            alloc_stack: made,
            ..kind
        });
        (0..more).for_each(|_| {
            p.builder.preexisting(kind);
        });
        for _ in 0..2 {
            let saved = forward(&mut p, 2048, 4);
            backward(&mut p);
            p.free(saved);
        }
        assert_eq!(of(p)(block), expected, "{more}");
    };
    check(0, Category::Temporary);
    check(1, Category::Gradient);
}

/// As the model that a policy is compared with, an average of weights, or what is kept of each
/// epoch.
#[test]
fn a_copy_of_a_model_holds_parameters() {
    let copy = |outer: &'static str| {
        let library = "deepcopy /usr/lib/python3.11/copy.py:146";
        let parameter = "__deepcopy__ /v/site-packages/torch/nn/parameter.py:79";
        let tensor = "__deepcopy__ /v/site-packages/torch/_tensor.py:150";
        [parameter, tensor].map(|made| [outer, library, made])
    };
    let mut p = Program::default();
    let weight = alloc(&mut p, 4096, &moved(10));
    let [reference, statistics] = copy("<module> train.py:4").map(|frames| p.alloc(4096, &frames));
    let mut kept = Vec::new();
    for _ in 0..4 {
        let saved = forward(&mut p, 2048, 4);
        let seed = backward(&mut p);
        let gradient = p.alloc(4096, &[]);
        p.free(saved);
        p.free(seed);
        kept.push(p.alloc(4096, &copy("<module> train.py:14")[0]));
        p.free(gradient);
    }
    let of = of(p);
    assert_eq!([weight, reference].map(&of), [Category::Parameter; 2]);
    assert_ne!(of(statistics), Category::Parameter);
    assert!(kept.iter().all(|&copy| of(copy) == Category::Parameter));
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

/// FSDP2 and tensor parallelism replace the weights of a model that is on the device already. What
/// is reduced over processes is no gradient of a weight's size.
#[test]
fn shards_of_a_model_are_its_parameters() {
    let dist = "/v/site-packages/torch/distributed";
    let check = |outer: &[&str], file: &str, names: [&str; 2], expected| {
        let mut p = Program::default();
        let full = [1 << 20, 8192].map(|bytes| alloc(&mut p, bytes, &moved(10)));
        let [called, made] = names.map(|name| format!("{name} {dist}/{file}:9"));
        let frames = [outer, &[called.as_str(), made.as_str()]].concat();
        let shard = p.alloc(4096, &frames);
        p.free(full[1]);
        for _ in 0..2 {
            let saved = forward(&mut p, 2048, 4);
            backward(&mut p);
            p.free(saved);
            p.alloc(1 << 20, &[]);
            p.alloc(8, &["<module> train.py:13"]);
        }
        let of = of(p);
        assert_eq!(of(full[0]), Category::Parameter);
        assert_eq!(of(shard), expected, "{outer:?} {file}");
    };
    let fsdp = "fsdp/_fully_shard/_fully_shard.py";
    let shards = ["fully_shard", "_init_sharded_param"];
    let main = ["<module> train.py:3"];
    let init = [main[0], "__init__ own.py:3"];
    check(&main, fsdp, shards, Category::Parameter);
    check(&init, fsdp, shards, Category::Parameter);
    let split = ["parallelize_module", "_shard_tensor"];
    check(&main, "tensor/parallel/api.py", split, Category::Parameter);
    let split = ["distribute_module", "_shard_tensor"];
    check(&main, "tensor/_api.py", split, Category::Parameter);
    // So may the data be split.
    let split = ["distribute_tensor", "_shard_tensor"];
    check(&main, "tensor/_api.py", split, Category::Input);
}

/// Without C++ frames, a product's line shows a workspace beside the product, once.
#[test]
fn a_workspace_beside_a_product_is_no_parameter_and_no_gradient() {
    const SIZE: u64 = 32 << 20;
    let mut p = Program::default();
    let weight = p.alloc(4096, &["<module> train.py:2"]);
    let linear = "linear /v/site-packages/torch/nn/functional.py:9";
    let product = ["<module> train.py:8", "net train.py:4", linear];
    let mut workspaces = Vec::new();
    for step in 0..3 {
        let saved = p.alloc(2048, &product);
        if step == 0 {
            workspaces.push(p.alloc(SIZE, &product));
        }
        let seed = backward(&mut p);
        let gradient = p.alloc(4096, &[]);
        if step == 0 {
            workspaces.push(p.alloc(SIZE, &[]));
        }
        // An update, and then `zero_grad`.
        [saved, seed].into_iter().for_each(|block| p.free(block));
        p.alloc(4096, &["<module> train.py:12"]);
        p.free(gradient);
    }
    let of = of(p);
    assert_eq!(of(weight), Category::Parameter);
    for workspace in workspaces {
        assert_eq!(of(workspace), Category::Temporary);
    }
}

/// A weight may be as large as a workspace: its line makes nothing else.
#[test]
fn a_weight_of_a_workspace_s_size_is_a_parameter() {
    const SIZE: u64 = 32 << 20;
    let mut p = Program::default();
    let weight = p.alloc(SIZE, &["<module> train.py:2"]);
    let other = p.alloc(4096, &["<module> train.py:3"]);
    let gradients = [SIZE, 4096].map(|size| {
        let saved = forward(&mut p, 2048, 4);
        backward(&mut p);
        p.free(saved);
        p.alloc(size, &[])
    });
    let of = of(p);
    assert_eq!([weight, other].map(&of), [Category::Parameter; 2]);
    assert_eq!(gradients.map(&of), [Category::Gradient; 2]);
}
