//! Constructs of the language, and of PyTorch.

use super::super::loops::Analysis;
use super::*;
use crate::phases::program::on_windows;
use proptest::prelude::*;

#[test]
fn the_lines_of_a_loop() {
    check(
        &format!(
            "main:1 load:5
             7x {{
               main:3 data:1
               main:4 !forward:10
               main:4 !forward:11
               main:5 {BACKWARD}
               -
               main:6 {ADAM}
             }}"
        ),
        7,
    );
}

#[test]
fn a_line_that_allocates_again_and_again_is_visited_once() {
    let evaluates = "10x {
       main:8
     }";
    check(
        &format!(
            "4x {{
               10x {{
                 main:3 data:1
                 main:4 !forward:10
                 main:4 !forward:11
                 main:5 {BACKWARD}
                 -
                 main:6 {ADAM}
               }}
               {evaluates}
             }}"
        ),
        40,
    );
    // Half of the lines of the body allocate twice.
    check(
        "20x {
           main:3 !forward:10
           main:4
           main:4
         }",
        20,
    );
}

/// `loss = softplus(d(g(randn(16, 64)))).mean()` allocates on its own line before and after it
/// calls modules.
#[test]
fn a_line_that_allocates_before_and_after_a_call_is_passed_once() {
    let backward = "-\n".repeat(3);
    let step = |line: u32| format!("{backward}[Optimizer.step#Adam.step] main:{line} {ADAM}");
    let discriminator = format!(
        "main:27
         main:28
         main:28 !forward:10
         main:29 !forward:12
         main:29
         main:29 !forward:12
         main:29
         main:31 {BACKWARD}
         {}",
        step(32)
    );
    let generator = format!(
        "main:41
         main:41 !forward:10
         main:41 !forward:12
         main:41
         main:43 {BACKWARD}
         {}",
        step(44)
    );
    let penalty = format!(
        "main:35 !forward:12
         main:35
         main:35 torch/autograd/grad:7
         -
         main:36
         main:38
         main:38 {BACKWARD}
         {}",
        step(39)
    );
    let usual = format!("{discriminator}\n{generator}");
    check(&format!("52x {{\n{usual}\n}}"), 52);
    let seldom = format!("{discriminator}\n{penalty}\n{generator}");
    check(&format!("4x {{\n{seldom}\n12x {{\n{usual}\n}}\n}}"), 52);
    let request = "main:34
         main:34 !forward:10
         main:34 !forward:11
         main:34
         main:35";
    check(&format!("20x {{\n{request}\n}}"), 20);
    // The answers that are missing in a cache are made in the next line.
    let missing = request.replace("main:35", "main:35 get:19 !forward:10\nmain:35");
    let some = format!("{request}\n{missing}\n{missing}");
    check(&format!("12x {{\n{some}\n}}"), 36);
    // What the program does now and then does not make one step of ten.
    check(
        &format!(
            "4x {{
               10x {{
                 main:3 data:1
                 main:3 !forward:10
                 main:3 {BACKWARD}
                 -
                 main:3 {ADAM}
                 main:3
               }}
               main:5
             }}"
        ),
        40,
    );
}

/// A request looks up its documents, and makes those that are not in the cache. There are more of
/// these than requests.
#[test]
fn documents_that_a_cache_misses_are_no_requests() {
    let miss = "main:39 get:19 !forward:10\nmain:39\n";
    let hit = "main:39\n";
    let request = |found: &[&str]| {
        let found = found.concat();
        format!("main:38\nmain:38 !forward:10\nmain:38 !forward:11\nmain:38\n{found}")
    };
    let all = [
        request(&[miss, hit, miss]),
        request(&[hit]),
        request(&[miss, miss]),
    ];
    check(&format!("10x {{\n{}}}", all.concat()), 30);
    // Those that miss nothing look as if they belonged to the one after them.
    let late = [&all[1], &all[0], &all[2]].map(String::as_str);
    check(&format!("10x {{\n{}}}", late.concat()), 30);
}

#[test]
fn a_line_that_the_program_comes_back_to_begins_no_iteration() {
    let line = "main:39\nmain:39 !forward:10\nmain:39 !forward:11\nmain:39\n";
    let step = format!("{line}main:41 {BACKWARD}\n-\n-\n");
    let part = "main:39\nmain:39 !forward:10\n";
    check(&format!("9x {{\n{step}}}\n{part}"), 9);
}

#[test]
fn what_a_single_line_allocates_after_its_last_call_is_no_iteration() {
    let line = "main:32\nmain:32 !forward:10\nmain:32 !forward:11\nmain:32\n";
    check(&format!("9x {{\n{line}}}"), 9);
}

/// `outputs = model(torch.randn(16))` allocates before the call only. So a pass of the line ends
/// with the call, also where another line follows only now and then.
#[test]
fn a_line_that_only_makes_what_it_calls_something_with_is_a_whole_pass() {
    let line = "main:54\nmain:54 !forward:10\nmain:54 !forward:11\n";
    check(&format!("5x {{\n6x {{\n{line}}}\nmain:55\n}}"), 30);
    check(&format!("5x {{\nmain:52\n6x {{\n{line}}}\n}}"), 30);
    check(&format!("main:52\n14x {{\n{line}}}"), 14);
}

/// Both terms of a loss are of one pass of its line, though each has a power and a mean.
#[test]
fn terms_of_one_sum_are_no_iterations() {
    let term = "main:28 ~sub:0\nmain:28 ~pow:0\nmain:28 ~mean:0\n";
    let backward = "-\n".repeat(24);
    let pass = format!(
        "main:27 !forward:10
         main:27 !forward:11
         {term}main:28 ~other:0
         main:28 gram:10
         {term}main:28 ~mul:0
         main:28 ~add:0
         main:29 {BACKWARD}
         {backward}main:30 {ADAM}"
    );
    for n in [3, 20] {
        check(&format!("{n}x {{\n{pass}\n}}"), n);
    }
}

#[test]
fn every_loop_of_a_function_has_a_key_of_its_own() {
    let loops = [3, 6, 9].map(|line| {
        let next = line + 1;
        format!("20x {{\nmain:{line} data:1\nmain:{next} !forward:10\nmain:{next}\n}}")
    });
    let trace = run(&loops.join("\n"));
    let levels = choices::of_device(&trace.devices[0], &trace.stacks);
    let keys: Vec<&str> = levels.iter().map(|level| level.key.as_str()).collect();
    for key in ["train.main", "train.main-2", "train.main-3"] {
        let n = keys.iter().filter(|&&other| other == key).count();
        assert_eq!(n, 1, "{key} in {keys:?}");
    }
}

#[test]
fn everything_on_one_line() {
    check(
        &format!(
            "5x {{
               main:3 data:1
               main:3 !forward:10
               main:3 !forward:11
               main:3 {BACKWARD}
               -
               main:3 {ADAM}
             }}"
        ),
        5,
    );
}

#[test]
fn paths_of_windows_change_no_steps() {
    let mut trace = run(&format!(
        "torch/serialization/load:3 main:1 load:5
         7x {{
           main:3 data:1
           main:4 !forward:10 !forward:3
           main:4 !forward:10 !forward:4
           main:5 {BACKWARD}
           -
           2x {{
             main:6 torch/optim/optimizer/wrapper:1 step:30
             main:6 torch/optim/optimizer/wrapper:1 step:31
           }}
         }}"
    ));
    let steps = std::mem::take(&mut trace.devices[0].steps);
    assert_eq!(steps.len(), 7);
    let mut windows = on_windows(trace);
    find(&mut windows.devices[0], &windows.stacks, 1, Watch::nobody()).unwrap();
    assert_eq!(windows.devices[0].steps, steps);
}

#[test]
fn one_call_a_line_is_the_function_called_again() {
    check(
        "6x {
           main:3 process:10 data:1
           main:3 process:11 !forward:5
           main:3 process:12 !forward:5
         }",
        6,
    );
    check(
        "6x {
           main:3 !forward:5
           main:3 !forward:6
         }",
        6,
    );
}

#[test]
fn layers_are_no_steps() {
    check(
        "main:3 !forward:10
         24x {
           main:3 !forward:12 !forward:30
           main:3 !forward:12 !forward:31
         }
         main:3 !forward:14",
        0,
    );
    check(
        "24x {
           main:3 !torch/nn/modules/container/forward:253 !forward:30
           main:3 !torch/nn/modules/container/forward:253 !forward:31
         }",
        0,
    );
    check(
        "5x {
           main:3 !forward:10
           24x {
             main:3 !forward:12 !forward:30
             main:3 !forward:12 !forward:31
           }
         }",
        5,
    );
}

/// `model.forward(x)` passes by PyTorch's wrappers.
#[test]
fn layers_of_a_forward_that_is_called_directly_are_no_steps() {
    let layers = |caller: &str| {
        format!(
            "12x {{
               main:4 {caller}:10 !forward:20 !forward:30
               main:4 {caller}:10 !forward:21 !forward:30
               main:4 {caller}:10 !forward:22
             }}"
        )
    };
    check(&layers("forward"), 0);
    check(
        &format!("5x {{\nmain:3 load:1\n{}\n}}", layers("forward")),
        5,
    );
    check(&layers("run"), 12);
    // A trainer may call its loop so, too.
    let trains = format!(
        "12x {{
           main:4 forward:10 !forward:20
           main:4 forward:11 {BACKWARD}
           -
           main:4 forward:12 {ADAM}
         }}"
    );
    check(&trains, 12);
}

/// A statement that calls two blocks of a model, one after the other.
#[test]
fn two_calls_of_a_module_are_no_steps() {
    let calls = |n: u32| {
        format!(
            "{n}x {{
               main:3 !forward:20 !forward:30
               main:3 !forward:20 !forward:31
               main:3 !forward:21 !forward:30
               main:3 !forward:22
             }}"
        )
    };
    check(&calls(2), 0);
    check(&calls(6), 6);
}

/// What a pass saves for its backward pass stays, and then memory runs out: the calls of a module
/// look the same as its layers, but they would have given back most of what they made.
#[test]
fn layers_that_save_what_they_make_are_no_calls_of_a_module() {
    let layers = |saves: bool| -> String {
        let held = |name: &str, nth: i32| match saves {
            true => format!(" ={name}{nth}"),
            false => String::new(),
        };
        let layer = |nth: i32| {
            let (weight, saved) = (held("weight", nth), held("saved", nth));
            format!(
                "main:4 forward:17{weight}\nmain:4 forward:18 linear:3\nmain:4 forward:18{saved}\n"
            )
        };
        (0..6).map(layer).collect()
    };
    check(&format!("main:3 data:1 =x\n{}oom", layers(true)), 0);
    check(&format!("main:3 data:1 =x\n{}", layers(false)), 6);
}

#[test]
fn a_model_that_is_loaded_is_no_loop() {
    check(
        "40x {
           main:3 load_state_dict:10
           main:3 load_state_dict:11
         }",
        0,
    );
}

#[test]
fn a_loop_within_a_loop_of_one_function() {
    check(
        "14x {
           main:3 copy:1
           6x {
             main:5 !forward:10
             main:5 relu:1
             main:6 scale:1
           }
           main:8 total:1
         }",
        14,
    );
    // Every sixth iteration passes two more lines; or lines that stand in front.
    check(
        "5x {
           main:3 report:1
           main:5 !forward:10
           main:5 relu:1
           main:6 scale:1
           main:8 report:1
           5x {
             main:5 !forward:10
             main:5 relu:1
             main:6 scale:1
           }
         }",
        30,
    );
    check(
        "5x {
           main:3 report:1
           main:4 report:1
           6x {
             main:5 !forward:10
             main:5 relu:1
             main:6 scale:1
           }
         }",
        30,
    );
}

#[test]
fn a_statement_of_several_lines() {
    check(
        &format!(
            "8x {{
               main:11 tokenize:1
               main:12 move:1
               main:10 !forward:5
               main:13 {BACKWARD}
               -
             }}"
        ),
        8,
    );
    check(
        &format!(
            "8x {{
               main:11 f:1
               main:12 g:1
               main:11 add:1
               main:14 {BACKWARD}
               -
             }}"
        ),
        8,
    );
}

#[test]
fn a_function_that_is_called_twice_an_iteration() {
    check(
        &format!(
            "9x {{
               main:3 !forward:10
               main:3 loss:1
               main:3 !forward:10
               main:3 loss:1
               main:3 {BACKWARD}
               -
               main:3 {ADAM}
             }}"
        ),
        9,
    );
}

#[test]
fn branches_that_take_turns() {
    check(
        &format!(
            "5x {{
               main:3 data:1
               main:5 !forward:10
               main:8 {BACKWARD}
               -
               main:3 data:1
               main:6 !forward:20
               main:8 {BACKWARD}
               -
             }}"
        ),
        10,
    );
}

#[test]
fn generators_comprehensions_recursion() {
    // `next(batches)` in a `while`.
    check(
        &format!(
            "6x {{
               main:3 batches:20 data:1
               main:4 !forward:10
               main:5 {BACKWARD}
               -
             }}"
        ),
        6,
    );
    check(
        "6x {
           main:3 <listcomp>:3 score:8 !forward:10
           main:3 <listcomp>:3 score:9
         }",
        6,
    );
    check(
        &format!(
            "5x {{
               main:3 walk:7 walk:7 walk:8
               main:3 walk:7 walk:8
               main:3 walk:8
               main:4 {BACKWARD}
               -
             }}"
        ),
        5,
    );
}

#[test]
fn threads_and_hooks() {
    // A checkpoint recomputes on a thread of autograd, a hook copies in the forward pass, and a
    // loader's thread allocates at any time.
    check(
        &format!(
            "6x {{
               threading:1 fetch:4
               main:3 !forward:10
               main:3 !forward:11 hook:50
               threading:1 fetch:5
               main:3 !forward:12
               main:4 {BACKWARD}
               -
               3x {{
                 torch/utils/checkpoint/unpack_hook:9 !forward:10
                 -
               }}
               main:5 {ADAM}
             }}"
        ),
        6,
    );
}

/// A loop's body: allocations on separate lines, and perhaps a loop inside.
#[derive(Clone, Debug)]
struct Body {
    times: u32,
    before: u32,
    after: u32,
    inner: Option<Box<Body>>,
}

fn body(depth: u32) -> BoxedStrategy<Body> {
    let inner = match depth {
        0 => Just(None).boxed(),
        _ => prop::option::of(body(depth - 1).prop_map(Box::new)).boxed(),
    };
    (4..7_u32, 1..4_u32, 1..4_u32, inner)
        .prop_map(|(times, before, after, inner)| Body {
            times,
            before,
            after,
            inner,
        })
        .boxed()
}

impl Body {
    fn run(&self, program: &mut Program, path: &str, line: &mut u32) {
        let first = *line;
        for _ in 0..self.times {
            *line = first;
            for _ in 0..self.before {
                *line += 1;
                program.alloc(&format!("{path} f:{line} !forward:1"));
            }
            if let Some(inner) = &self.inner {
                inner.run(program, path, line);
            }
            for _ in 0..self.after {
                *line += 1;
                program.alloc(&format!("{path} f:{line} !forward:1"));
            }
        }
    }

    /// The number of iterations of each loop, outermost first.
    fn counts(&self, outside: usize) -> Vec<usize> {
        let n = outside * self.times as usize;
        let inner = self.inner.iter().flat_map(|inner| inner.counts(n));
        std::iter::once(n).chain(inner).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nested_loops_are_found_whatever_their_bodies(body in body(2)) {
        let mut program = Program::default();
        body.run(&mut program, "main:1", &mut 10);
        let trace = program.finish();
        let device = &trace.devices[0];
        let analysis = Analysis::new(device, &trace.stacks, Watch::nobody());
        let analysis = analysis.unwrap().expect("there are stacks");
        let found: Vec<usize> =
            analysis.loops().unwrap().iter().map(|l| l.iterations.len()).collect();
        let counts = body.counts(1);
        for count in &counts {
            prop_assert!(found.contains(count), "{count} in {found:?} of {body:?}");
        }
        // If both loops are in one function, the outer one looks like a branch that is seldom
        // taken.
        prop_assert!(counts.contains(&device.steps.len()), "{} steps", device.steps.len());
    }
}
