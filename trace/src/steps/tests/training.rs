//! Programs that train.

use super::*;

#[test]
fn parameters_of_an_optimizer_are_no_steps() {
    check(
        &format!(
            "main:3 !forward:10
             main:4 {BACKWARD}
             -
             50x {{
               main:5 torch/optim/optimizer/wrapper:1 step:30
               main:5 torch/optim/optimizer/wrapper:1 step:31
             }}"
        ),
        0,
    );
    // An optimizer that is not a `torch.optim.Optimizer`.
    check(
        &format!(
            "main:3 !forward:10
             main:4 {BACKWARD}
             -
             50x {{
               main:5 update:30
               main:5 update:31
             }}"
        ),
        0,
    );
}

/// Autograd's threads have no Python stacks. A graph that is never given up makes its backward pass
/// longer and longer.
#[test]
fn a_backward_pass_may_be_nearly_all() {
    let step = |silent: usize| {
        format!(
            "20x {{
               main:3 !forward:10
               main:3 !forward:11
               main:4 {BACKWARD}
               {silent}x {{
                 -
               }}
               main:5 update:7
             }}"
        )
    };
    check(&step(70), 20);
    check(&step(400), 20);
}

#[test]
fn epochs_and_micro_batches_are_not_the_steps() {
    let steps = |epochs: usize, steps: usize, micro: usize| {
        format!(
            "{epochs}x {{
               main:2 shuffle:1
               {steps}x {{
                 {micro}x {{
                   main:4 !forward:10
                   main:5 {BACKWARD}
                   -
                 }}
                 main:6 {ADAM}
                 main:6 {ADAM}
               }}
             }}"
        )
    };
    check(&steps(2, 6, 1), 12);
    check(&steps(2, 6, 4), 12);
    check(&steps(3, 5, 2), 15);
}

/// `total += loss.float()` makes a tensor in the first batch of an epoch only, in the middle of a
/// step.
#[test]
fn what_the_first_batch_of_an_epoch_makes_ends_no_step() {
    let micro = |first: &str| {
        format!(
            "main:4 to:1
             main:5 !forward:10
             main:5 !forward:11
             main:6 cross_entropy:1
             {first}
             main:8 {BACKWARD}
             -"
        )
    };
    let (first, other) = (micro("main:7"), micro("main:6 cross_entropy:2"));
    check(
        &format!(
            "3x {{
               {first}
               3x {{
                 {other}
               }}
               main:9 clip:1
               main:10 {ADAM}
               7x {{
                 4x {{
                   {other}
                 }}
                 main:9 clip:1
                 main:10 {ADAM}
               }}
               4x {{
                 main:14 to:1
                 main:14 !forward:10
                 main:14 !forward:11
                 main:14
               }}
             }}"
        ),
        24,
    );
}

/// Mixed precision in 16 bits: each micro-batch scales its loss, and none of them updates.
#[test]
fn micro_batches_that_scale_their_loss_are_not_the_steps() {
    let scaler = |name: &str| format!("torch/amp/grad_scaler/{name}:9");
    let micro = format!(
        "main:4 !forward:10
         main:5 {}
         main:5 {BACKWARD}
         -",
        scaler("scale"),
    );
    let unscale = format!("main:6 {}", scaler("unscale_"));
    check(
        &format!("8x {{\n2x {{\n{micro}\n}}\n{unscale}\nmain:6 {ADAM}\n}}"),
        8,
    );
    // One that makes nothing of its own: the scaler alone shows where a step ends.
    check(&format!("8x {{\n2x {{\n{micro}\n}}\n{unscale}\n}}"), 8);
}

/// SGD with momentum.
#[test]
fn an_optimizer_that_allocates_only_in_its_first_step_does_not_hide_the_steps() {
    let pass = format!(
        "main:4 !forward:10
         main:5 {BACKWARD}
         -"
    );
    check(
        &format!(
            "{pass}
             main:6 {ADAM}
             main:6 {ADAM}
             9x {{
               {pass}
             }}"
        ),
        10,
    );
}

/// SGD before Adam, and the other way round.
#[test]
fn steps_of_an_optimizer_that_allocates_nothing_count_like_those_of_another_one() {
    let pass = format!("main:3 data:1\nmain:4 !forward:10\nmain:5 {BACKWARD}\n-\n");
    let adam = format!("20x {{\n{pass}main:6 {ADAM}\n}}\n");
    let sgd = format!("20x {{\n{pass}}}\n");
    check(&format!("{sgd}{adam}"), 40);
    check(&format!("{adam}{sgd}"), 40);
}

/// SGD with momentum, anew for each fold of a cross-validation.
#[test]
fn an_optimizer_of_each_fold_does_not_make_folds_the_steps() {
    let pass = format!("main:4 !forward:10\nmain:5 {BACKWARD}\n-\n");
    let state = |update: &str| format!("main:6 {ADAM} =m\nmain:6 {ADAM} ={update}\n");
    let fold = |update| format!("main:2 make:1\n{pass}{}9x {{\n{pass}}}\n", state(update));
    check(&format!("5x {{\n{}}}", fold("n")), 50);
    // What is not kept is no state: these are micro-batches.
    check(
        &format!(
            "5x {{\n{}}}",
            fold("n").replace(" =n", "").replace(" =m", "")
        ),
        5,
    );
}

/// A fused optimizer makes its state in the first step, here called to warm up.
#[test]
fn a_first_step_before_the_loop_does_not_hide_the_steps() {
    let step = |line: u32, state: usize| {
        let call = format!("main:{line} train_step");
        let forward = format!("{call}:10 !forward:10\n{call}:10 !forward:11\n");
        let state = format!("{call}:12 torch/optim/optimizer/wrapper:1 {ADAM}\n").repeat(state);
        format!("{forward}{call}:11 {BACKWARD}\n-\n-\n{state}")
    };
    check(&format!("{}9x {{\n{}}}", step(3, 8), step(5, 0)), 9);
    // The parts of a single step: its optimizer comes last.
    let update = format!("main:8 {ADAM}\n").repeat(8);
    check(&format!("9x {{\n{}}}\n{update}", step(5, 0)), 0);
}

#[test]
fn batches_are_the_steps_though_each_epoch_ends_with_an_evaluation() {
    check(
        &format!(
            "6x {{
               main:2 shuffle:1
               5x {{
                 main:4 !forward:10
                 main:5 {BACKWARD}
                 -
                 main:6 {ADAM}
               }}
               3x {{
                 main:8 evaluate:3 !forward:10
               }}
             }}"
        ),
        30,
    );
}

/// An optimizer that allocates nothing, with gradient accumulation, and an evaluation after each
/// epoch: between the micro-batches and the epochs there is no loop with allocations of its own.
#[test]
fn epochs_are_not_the_steps_where_scopes_show_an_optimizer_in_them() {
    let pass = format!("main:4 !forward:10\nmain:5 {BACKWARD}\n-\n");
    let evaluation = "3x {\nmain:8 evaluate:3 !forward:10\n}";
    let step = "[Optimizer.step#SGD.step]";
    for (epochs, in_epoch, micro) in [(3, 10, 4), (5, 6, 2), (2, 4, 8)] {
        let batches = format!("{in_epoch}x {{\n{micro}x {{\n{pass}}}\n{step}\n}}");
        let trace = run(&format!(
            "{epochs}x {{\nmain:2 shuffle:1\n{batches}\n{evaluation}\n}}"
        ));
        let device = &trace.devices[0];
        let found = (device.steps.len(), device.step_source);
        assert_eq!(found, (epochs * in_epoch, StepSource::Annotations));
    }
    // Two optimizers that take turns make one step.
    let other = pass.replace(":4", ":14").replace(":5", ":15");
    let turn = format!("[Optimizer.step#D.step]\n{other}[Optimizer.step#G.step]");
    check(&format!("6x {{\nmain:2 data:1\n{pass}{turn}\n}}"), 6);
}

#[test]
fn an_evaluation_now_and_then_belongs_to_a_step() {
    check(
        &format!(
            "4x {{
               5x {{
                 main:4 !forward:10
                 main:5 {BACKWARD}
                 -
                 main:6 {ADAM}
               }}
               main:8 !forward:10
             }}"
        ),
        20,
    );
}

/// A gradient's norm is written down now and then, between the backward pass and the optimizer.
#[test]
fn a_branch_in_the_middle_of_an_iteration_belongs_to_it() {
    let step = |branch: &str| {
        format!(
            "main:9 train:10
             main:9 train:11 !forward:5
             main:9 train:12 loss:1
             -
             -
             {branch}
             main:9 train:14 torch/optim/adam/step:3
             main:9 train:14 torch/optim/adam/step:4\n"
        )
    };
    let (plain, logs) = (
        step(""),
        step("main:9 train:13 norm:7\nmain:9 train:13 norm:8"),
    );
    for every in 3..8 {
        let steps = (1..=3 * every).map(|i| if i % every == 0 { &logs } else { &plain });
        let trace = run(&steps.map(String::as_str).collect::<String>());
        let device = &trace.devices[0];
        assert_eq!(device.steps.len(), 3 * every);
        let lengths = device.steps.iter().enumerate().map(|(index, step)| {
            let made = device.blocks.allocated_in(step.events).len();
            (made, (index + 1) % every == 0)
        });
        for (made, has_branch) in lengths {
            assert_eq!(made, if has_branch { 9 } else { 7 }, "{every}");
        }
    }
}

#[test]
fn trainers_with_wrappers_and_closures() {
    check(
        &format!(
            "main:1 train:2 inner:5 setup:3
             6x {{
               main:1 train:2 inner:8 training_step:20 prepare:1
               main:1 train:2 inner:8 training_step:21 compute_loss:30 !forward:10
               main:1 train:2 inner:8 training_step:22 {BACKWARD}
               -
               main:1 train:2 inner:9 wrapped:1 {ADAM}
             }}"
        ),
        6,
    );
    // Lightning, LBFGS: the optimizer calls the forward pass.
    check(
        &format!(
            "6x {{
               main:1 fit:2 advance:5 data:1
               4x {{
                 main:1 fit:2 advance:7 torch/optim/lbfgs/step:3 closure:20 !forward:10
                 main:1 fit:2 advance:7 torch/optim/lbfgs/step:3 closure:21 {BACKWARD}
                 -
                 main:1 fit:2 advance:7 torch/optim/lbfgs/step:4
               }}
             }}"
        ),
        6,
    );
}

/// As many batches are evaluated as trained, in the same function.
#[test]
fn an_evaluation_that_is_as_long_as_an_epoch_is_not_the_steps() {
    for (epochs, n) in [(3, 10), (6, 4), (2, 5)] {
        let text = format!(
            "{epochs}x {{
               {n}x {{
                 main:3 data:1
                 main:4 !forward:10
               }}
               {n}x {{
                 main:8 data:1
                 main:9 !forward:10
                 main:10 {BACKWARD}
                 -
                 main:11 {ADAM}
               }}
             }}"
        );
        check(&text, epochs * n);
        let trace = run(&text);
        // A step begins at its first line: the evaluation is at the end of every n-th one.
        for (index, step) in trace.devices[0].steps.iter().enumerate() {
            let made = trace.devices[0].blocks.allocated_in(step.events).len();
            let is_last = (index + 1) % n == 0 && index + 1 < epochs * n;
            assert_eq!(made, if is_last { 5 + 2 * n } else { 5 }, "{index}");
        }
    }
}

/// A critic is updated several times before the generator is, all in one function.
#[test]
fn the_updates_of_a_critic_are_parts_of_a_step() {
    let update = |line: u32| {
        format!(
            "main:{line} data:1
             main:{} !forward:10
             main:{} {BACKWARD}
             -
             main:{} {ADAM}\n",
            line + 1,
            line + 2,
            line + 3
        )
    };
    let (critic, generator) = (update(10), update(20));
    for (n, k) in [(8, 5), (20, 2), (6, 20)] {
        let after = format!("{n}x {{\n{k}x {{\n{critic}}}\n{generator}}}");
        let all = n * k;
        let both = format!("step 0: {n} steps, {all} train.py:10 in main");
        assert_eq!(levels_of(&after), both);
        let before = format!("{n}x {{\n{generator}{k}x {{\n{critic}}}\n}}");
        check(&before, n);
    }
    // A branch that is taken in the first iteration, and in every fifth one after it.
    let rest = format!("4x {{\n{critic}}}\n");
    let branch = levels_of(&format!("8x {{\n{critic}{generator}{rest}}}"));
    assert!(
        branch.starts_with("step 0: 8 train.py:10 in main, 40 steps"),
        "{branch}"
    );
    // Epochs of many batches, after which something else is trained.
    check(&format!("5x {{\n50x {{\n{critic}}}\n{generator}}}"), 250);
}

/// Off-policy learning: a line calls two critics, and the actor is updated by itself. The critics'
/// calls begin no step each.
#[test]
fn calls_of_two_critics_are_no_steps() {
    let update = |line: u32| format!("main:{line} {BACKWARD}\n-\nmain:{line} {ADAM}\n");
    let collect = "4x {\nmain:28 !forward:30\nmain:28\nmain:29\nmain:30 add:7\n}\n";
    let critic = "main:36 !forward:20\nmain:36 loss:9\n";
    let actor = "main:38 !forward:30\nmain:38\nmain:38 !forward:20\nmain:38\n";
    let targets =
        "main:33 !forward:30\nmain:33\nmain:34 !forward:20\nmain:34 !forward:20\nmain:34\n";
    let round = format!(
        "{collect}main:31 sample:15\n{targets}main:35\n{critic}{critic}main:36\n{}{actor}{}",
        update(37),
        update(40)
    );
    check(&format!("24x {{\n{round}}}"), 24);
    // Each of two models in its turn.
    let actor = "main:38 !forward:30\nmain:38 !forward:20\nmain:38\n";
    let turns = format!(
        "main:31 sample:15\n{critic}{}main:31 sample:15\n{actor}{}",
        update(37),
        update(40)
    );
    check(&format!("12x {{\n{turns}}}"), 24);
}

/// Each epoch ends with a second try of what failed in it.
#[test]
fn what_is_tried_again_is_no_part_of_a_step() {
    let train = |line: u32, function: &str| {
        format!(
            "main:{line} {function}:8 !forward:10
             main:{line} {function}:15 {BACKWARD}
             -
             main:{line} {function}:16 {ADAM}\n"
        )
    };
    let epochs = |again: &str| {
        let (batch, again) = (train(29, "step"), train(35, again));
        format!("4x {{\n8x {{\nmain:27\n{batch}}}\n{again}{again}}}")
    };
    assert_eq!(
        levels_of(&epochs("step")),
        "step 0: 4 epochs, 8 train.py:35 in main, 32 steps"
    );
    // Another function updates another model.
    check(&epochs("generator_step"), 4);
}

/// A search for the largest batch: memory runs out in the first step of an attempt.
#[test]
fn attempts_that_run_out_of_memory_are_no_steps() {
    let forward = "main:47 fit:15\nmain:47 fit:16 !forward:10\n";
    let failed = format!("{forward}oom\n");
    let trained = format!("{forward}main:47 fit:18 {BACKWARD}\n-\nmain:47 fit:19 {ADAM}\n");
    let model = "main:47 fit:12 build:5\n";
    let trial = format!("{model}{failed}{model}4x {{\n{trained}}}\n");
    check(&format!("10x {{\n{trial}}}"), 40);
    // A batch that is passed over is a step.
    check(
        &format!("{model}10x {{\n3x {{\n{trained}}}\n{failed}}}\n{trained}"),
        41,
    );
}

/// Only a loop that trains in each of its iterations is one over epochs.
#[test]
fn a_loop_over_trainings_and_evaluations_is_none_over_epochs() {
    let train = format!("main:39\nmain:39 !forward:10\nmain:41 {BACKWARD}\n-\nmain:42 {ADAM}\n");
    let evaluation = "main:45\nmain:45 !forward:10\nmain:46\nmain:47\nmain:48\n";
    let levels = levels_of(&format!(
        "6x {{\n6x {{\n{train}}}\n{evaluation}{evaluation}}}"
    ));
    assert!(
        levels.contains("36 steps") && !levels.contains("epoch"),
        "{levels}"
    );
}

/// The larger one of two loops is the steps if it holds 60 % of the training.
#[test]
fn most_of_the_training_must_be_in_the_loop() {
    let train = |epochs: usize, n: usize, line: u32| {
        format!(
            "{epochs}x {{
               main:{line} shuffle:1
               {n}x {{
                 main:{line} fit:2 data:1
                 main:{line} fit:3 !forward:10
                 main:{line} fit:4 {BACKWARD}
                 -
                 main:{line} fit:5 {ADAM}
               }}
             }}\n"
        )
    };
    let two = |first: usize, second: usize| train(3, first, 10) + &train(2, second, 20);
    // 12 of 20, and 12 of 22.
    check(&two(4, 4), 12);
    check(&two(4, 5), 0);
    // The loop around 12 of 20 steps is one over epochs, and that around the other 8 is not.
    let levels = levels_of(&two(4, 4));
    assert!(
        levels.contains("3 epochs, ") && levels.contains("12 steps"),
        "{levels}"
    );
    assert!(levels.contains("2 train.py:20 in main"), "{levels}");
}

/// `optimizer.step(closure)`: what the closure does is no work of the optimizer, and a loop in it
/// is none over parameters.
#[test]
fn what_a_closure_does_is_no_work_of_the_optimizer() {
    let call = "main:5 torch/optim/sgd/step:3 evaluate:20";
    let step = format!(
        "main:3 data:1
         {call} !forward:10
         6x {{
           {call} !forward:12 !forward:30
           {call} !forward:12 !forward:31
         }}
         main:5 torch/optim/sgd/step:3 evaluate:21 {BACKWARD}
         -\n"
    );
    let levels = levels_of(&format!("7x {{\n{step}}}"));
    assert_eq!(levels, "step 0: 7 steps, 42 layers");
    // The optimizer's own work shows which of the loops is the steps.
    let update = "main:6 torch/optim/sgd/step:9\n";
    check(&format!("4x {{\n3x {{\n{step}}}\n{update}}}"), 4);
}

/// An iteration that fails before its backward pass, for example because its loss is not finite, is
/// a step as well. Where one line is passed twice in each iteration, half an iteration is none.
#[test]
fn an_iteration_that_is_given_up_is_a_step() {
    let forward = "main:3 train:10 batch:1\nmain:3 train:11 !forward:20\nmain:3 train:12 loss:4\n";
    let trained = format!("{forward}main:3 train:14 {BACKWARD}\n-\n-\nmain:3 train:15 {ADAM}\n");
    check(&format!("{trained}{trained}{forward}").repeat(6), 18);
    check(&format!("{trained}{forward}").repeat(6), 6);
}

/// A counterfactual or an attack is trained, whatever its function is called.
#[test]
fn what_is_trained_is_no_token() {
    let step = format!("main:9 generate:4 !forward:5\nmain:9 generate:5 {BACKWARD}\n-\n");
    let program = format!("4x {{\nmain:8 make:1\n{}}}\n", step.repeat(6));
    assert!(
        !levels_of(&program).contains("token"),
        "{}",
        levels_of(&program)
    );
}

/// Each round of a reinforced agent collects something, and then trains for so many batches. It
/// can be chosen: the batches are the steps.
#[test]
fn rounds_that_collect_before_they_train_can_be_chosen() {
    let collect = "5x {\nmain:38 !forward:10\nmain:39\n}\nmain:47\nmain:48\n";
    let batch = format!("main:55 !forward:10\nmain:57\nmain:61 {BACKWARD}\n-\nmain:63 {ADAM}\n");
    let all = |rounds: &str| levels_of(rounds);
    let rounds = all(&format!("6x {{\n{collect}8x {{\n{batch}}}\n}}"));
    assert!(rounds.starts_with("step 0: 6 epochs, "), "{rounds}");
    assert!(rounds.contains(", 48 steps"), "{rounds}");
    // What is done after some iterations, or within them, makes no rounds.
    let seldom = all(&format!("6x {{\n8x {{\n{batch}}}\nmain:66\nmain:67\n}}"));
    assert_eq!(seldom, "step 0: 48 steps");
    let uneven = format!("{batch}5x {{\n{collect}8x {{\n{batch}}}\n}}");
    assert!(!all(&uneven).contains("epochs"), "{}", all(&uneven));
}

/// Each trial makes a model, and its loop has as many iterations for some lines as for all.
#[test]
fn a_loop_is_listed_once() {
    let trial = format!(
        "main:3 objective:9
         main:3 objective:10
         12x {{
           main:3 objective:13
           main:3 objective:14 !forward:5
           main:3 objective:16 {BACKWARD}
           -
           main:3 objective:17 {ADAM}
         }}\n"
    );
    let levels = levels_of(&format!("6x {{\n{trial}}}"));
    assert_eq!(levels, "step 0: 6 epochs, 72 steps");
}

/// Without stacks. Where gradients are not finite, a scaler leaves out the optimizer's step, but
/// they are cleared.
#[test]
fn an_iteration_whose_step_a_scaler_leaves_out_is_a_step() {
    let pass = format!("[Optimizer.zero_grad#SGD.zero_grad]\n{}", "-\n".repeat(6));
    let step = format!("{pass}[Optimizer.step#SGD.step]\n");
    let trace = run(&format!("-\n-\n5x {{\n{step}}}\n{pass}{step}{step}"));
    let names = trace.devices[0].steps.iter().map(|step| step.name.as_str());
    let names: Vec<&str> = names.collect();
    assert_eq!(names.len(), 8, "{names:?}");
    assert_eq!(names[7], "step#SGD.step 7");
}

/// A search for the best width: what makes a model between two trials may be as much as a step.
#[test]
fn what_makes_a_model_is_no_part_of_the_steps() {
    let trial = |width: usize| {
        format!(
            "{}x {{
               main:2 trial:4 torch/nn/modules/module/_apply:9
             }}
             4x {{
               main:2 trial:6 !forward:10
               main:2 trial:6 {BACKWARD}
               {}x {{
                 -
               }}
             }}",
            8 * width,
            10 * width
        )
    };
    let trials: Vec<String> = (1..8).map(trial).collect();
    check(&trials.join("\n"), 28);
}

/// The optimizer of each trial makes its state in the first step, on the line that does all else.
#[test]
fn the_state_of_a_first_step_does_not_hide_the_steps() {
    let trial = |width: usize| {
        let setup = "main:2 trial:4 torch/nn/modules/module/_apply:9\n".repeat(8 * width);
        let pass = format!(
            "main:2 trial:6 !forward:10\nmain:2 trial:6 {BACKWARD}\n{}",
            "-\n".repeat(10 * width)
        );
        let state = (0..8 * width).map(|at| format!("main:2 trial:6 {ADAM} =s{width}_{at}\n"));
        let state: String = state.collect();
        let scope = "[Optimizer.step#SGD.step]";
        format!("{setup}{pass}{scope}\n{state}3x {{\n{pass}{scope}\n}}\n")
    };
    let trials: Vec<String> = (1..8).map(trial).collect();
    check(&trials.concat(), 28);
}
