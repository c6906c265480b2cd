//! Programs that train nothing, and what their steps are called.

use super::*;

#[test]
fn requests_and_their_tokens() {
    check(
        "12x {
           serve:3 tokens:1
           20x {
             serve:3 generate:8 !forward:10
             serve:3 generate:8 !forward:11
             serve:3 generate:9
           }
         }",
        12,
    );
}

/// An offloader's hook that autograd's engine calls, on its own thread, is a part of the backward
/// pass: a loop over what it brings back is none over micro-batches.
#[test]
fn what_the_engine_calls_is_no_loop() {
    let engine = "~torch::autograd::Engine::thread_main:0";
    let trace = run(&format!(
        "10x {{
           main:9 batch:3
           4x {{
             main:10 !forward:11
             main:10 !forward:12
           }}
           6x {{
             {engine} unpack:438
             {engine} unpack:440
             {engine}
           }}
           main:11 torch/optim/adam/step:3
         }}"
    ));
    let levels = choices::of_device(&trace.devices[0], &trace.stacks);
    let inside = levels.iter().filter(|level| level.place.contains("unpack"));
    assert_eq!(inside.count(), 0, "{}", choices::in_words(&levels));
    assert_eq!(trace.devices[0].steps.len(), 10);
}

/// What is not in the cache is made before the request, and stays there.
#[test]
fn requests_that_find_their_prefix_in_a_cache_count_too() {
    // The longer ones allocate more.
    let request = |long: bool| {
        let lines = if long { 1..20 } else { 1..12 };
        let request: String = lines
            .map(|line| format!("main:4 handle:9 !forward:{line}\n"))
            .collect();
        format!("{request}main:4 handle:10\n")
    };
    let of = |hits: &[usize], sized: bool, kept: bool| {
        let mut n = 0;
        let misses = hits.iter().enumerate().map(|(at, hits)| {
            let held = if kept {
                format!(" =k{at}")
            } else {
                String::new()
            };
            let requests = (0..=*hits).map(|_| {
                n += 1;
                request(sized && n % 2 == 0)
            });
            format!("main:3 make:1{held}\n{}", requests.collect::<String>())
        });
        misses.collect::<String>()
    };
    let half = [[0, 1]; 10].concat();
    check(&of(&half, false, true), 30);
    check(&of(&[0; 10], false, true), 10);
    // Less than half of the requests miss.
    let few = [[0, 3, 2, 1, 4]; 4].concat();
    check(&of(&few, true, true), 60);
    // These are the tokens of a request: it goes with the next one, or they are equal.
    check(&of(&half, false, false), 20);
    check(&of(&few, true, false), 20);
    check(&of(&few, false, true), 20);
    check(&of(&[3; 10], true, true), 10);
}

/// An evaluation that keeps the graph of each batch gives back hardly anything. Each batch is new
/// data, while a layer is handed what the one before has made.
#[test]
fn batches_whose_graphs_are_kept_are_steps_and_layers_are_none() {
    let of = |data: &str| -> String {
        let batch = |n: usize| {
            format!(
                "main:17 {data} =d{n}
                 main:18 nll:10 !forward:30 !forward:40 =a{n}
                 main:18 nll:10 !forward:31 !forward:41 =b{n}
                 main:18 nll:11 @16 =loss\n"
            )
        };
        (0..8).map(batch).collect()
    };
    check(&of("@640"), 8);
    check(&of(""), 0);
}

/// What perturbs each weight is called after what it generates, and that is no token.
#[test]
fn what_calls_no_model_makes_no_tokens() {
    let nested = |inner: &str| {
        levels_of(&format!(
            "6x {{
               main:2 step:10 !forward:10
               main:2 step:10 !forward:11
               20x {{
                 main:2 step:12 generate_noise:8{inner}
                 main:2 step:12 generate_noise:9
               }}
             }}"
        ))
    };
    let noise = nested("");
    assert!(noise.starts_with("step 0: 6 iterations"), "{noise}");
    let tokens = nested(" !forward:10");
    assert!(tokens.starts_with("request 0: 6 requests"), "{tokens}");
}

/// A ring begins within a request: it makes a prompt, to which tokens are added.
#[test]
fn a_ring_that_begins_within_a_request_has_requests() {
    let token = "main:3 decode:47 !forward:20\nmain:3 decode:47 !forward:21\n\
                 main:3 decode:48 =token\n";
    let request = format!("main:3 decode:44 =token\n{}", token.repeat(6));
    let ring = format!("{}8x {{\n{request}}}", token.repeat(3));
    let levels = levels_of(&ring);
    assert!(levels.starts_with("request 0: 8 requests, 5"), "{levels}");
}

/// Tokens are made in a function that says so, or for one in the same file. Around them are
/// requests, also where that function's name speaks of tokens too.
#[test]
fn what_is_around_tokens_are_requests() {
    let nested = |outer: &str, inner: &str| {
        let text = format!(
            "6x {{
               {outer}:2 prompt:4
               20x {{
                 {outer}:3 {inner}:8 !forward:10
                 {outer}:3 {inner}:8 !forward:11
                 {outer}:3 {inner}:9
               }}
             }}"
        );
        levels_of(&text)
    };
    let both = "request 0: 6 requests, 120 tokens";
    assert_eq!(nested("main", "generate"), both);
    assert_eq!(nested("decode_all", "generate"), both);
    let library = "hf/utils/generate:50 hf/utils/_sample";
    assert_eq!(nested("main", library), both);
    let other_file = nested("main", "hf/api/generate:50 hf/utils/_sample");
    assert!(!other_file.contains("token"), "{other_file}");
    let one = "200x {
                 main:3 hf/utils/generate:50 hf/utils/_sample:8 !forward:10
                 main:3 hf/utils/generate:50 hf/utils/_sample:8 !forward:11
                 main:3 hf/utils/generate:50 hf/utils/_sample:9
               }";
    assert_eq!(levels_of(one), "token 0: 200 tokens");
}

/// A token passes some lines twice: they look like a loop in it, but no request is as short.
#[test]
fn a_token_that_passes_lines_twice_is_no_request() {
    let twice = "main:3 hf/utils/generate:50 hf/utils/_sample:7
                 main:3 hf/utils/generate:50 hf/utils/_sample:8 !forward:11\n";
    let text = format!(
        "6x {{
           main:2
           10x {{
             main:3 hf/utils/generate:50 hf/utils/_sample:5
             {twice}{twice}
             main:3 hf/utils/generate:50 hf/utils/_sample:9
           }}
         }}"
    );
    let levels = levels_of(&text);
    assert!(levels.starts_with("request 0: 6 requests, "), "{levels}");
    assert_eq!(levels.matches("requests").count(), 1, "{levels}");
}

/// An image is made of noise, step by step. The lines of the outer loop all stand before those of
/// the inner one, as those of a branch that is seldom taken do.
#[test]
fn what_is_made_anew_before_an_inner_loop_begins_a_step() {
    let sampling = |function: &str, noise: &str| {
        levels_of(&format!(
            "8x {{
               {function}:3 =x
               {noise}
               20x {{
                 {function}:6 !forward:20
                 {function}:6 !forward:21
                 {function}:7 =x
               }}
             }}"
        ))
    };
    let iterations = "8 iterations, 160 train.py:3 in main";
    assert_eq!(sampling("main", ""), format!("step 0: {iterations}"));
    assert_eq!(
        sampling("main", "main:4 !forward:30"),
        format!("step 0: {iterations}")
    );
    let images = "image 0: 8 images, 160 denoising steps";
    assert_eq!(sampling("main:1 denoise", ""), images);
    // What the function made on its way to the first result of a report, and gives back when it
    // returns, does not take the place of that result.
    let rest = "main:3 step:5 !forward:9\nmain:3 step:6 =out\n";
    check(
        &format!("10x {{\nmain:3 step:4 =m\n{rest}del m\n5x {{\n{rest}}}\n}}"),
        60,
    );
}

/// The variable may be held by several lines in turn. A branch within an iteration that makes it
/// anew begins nothing.
#[test]
fn what_several_lines_replace_was_made_for_an_image() {
    let steps = "main:10\nmain:11 !forward:20\nmain:13 =x\nmain:15 =x\n".repeat(7);
    let last = "main:10\nmain:11 !forward:20\nmain:13 =x\n";
    check(&format!("9x {{\nmain:8 =x\n{steps}{last}}}"), 9);
    // A ring that begins within an image.
    check(
        &format!("{last}{steps}{last}9x {{\nmain:8 =x\n{steps}{last}}}"),
        9,
    );
    let usual = "main:53 =x\nmain:55 !forward:20\n";
    let branch = "main:53 =x\nmain:54 =x\nmain:55 !forward:20\n";
    check(&format!("5x {{\n{branch}3x {{\n{usual}}}\n}}"), 20);
}

/// Without a variable that shows it, nobody knows which of both is the loop.
#[test]
fn a_loop_that_looks_like_a_branch_can_be_chosen() {
    let rounds = |rest: usize| {
        let line = "main:6 !forward:20\nmain:7 scale:1\n";
        levels_of(&format!(
            "6x {{\nmain:3 =noise\n8x {{\n{line}}}\n}}\n{}",
            line.repeat(rest)
        ))
    };
    let both = "step 0: 6 train.py:3 in main, 48 iterations";
    assert_eq!(rounds(0), both);
    // A branch: no round is cut off in its middle.
    assert!(!rounds(6).contains("6 train.py:3"), "{}", rounds(6));
}

#[test]
fn the_reader_can_take_another_level() {
    let mut trace = run(&format!(
        "5x {{
           4x {{
             main:4 !forward:10
             main:5 {BACKWARD}
             -
           }}
           main:6 {ADAM}
           main:6 {ADAM}
         }}"
    ));
    let found = choices::of_device(&trace.devices[0], &trace.stacks);
    let shown: Vec<String> = found
        .iter()
        .map(|l| format!("{}: {}", l.label, l.count))
        .collect();
    assert_eq!(shown, ["steps: 5", "micro-batches: 20"]);
    assert!(found[0].chosen);
    let stacks = trace.stacks.clone();
    let device = &mut trace.devices[0];
    assert_eq!(choices::recut(device, &stacks, &found[1].key), Ok(()));
    assert_eq!(device.steps.len(), 20);
    let unknown = choices::recut(device, &stacks, "nothing").unwrap_err();
    let said = "no level is called nothing; there are: steps (train.main), \
                micro-batches (train.main-2)";
    assert_eq!(unknown.to_string(), said);
    // A key goes before a word.
    let mut found = found;
    found[0].label = found[1].key.clone();
    assert_eq!(choices::called(&found, &found[1].key), Some(&found[1]));
}

/// A compiled function allocates little, and so does the replay of a graph that a few iterations
/// have warmed up. A few repetitions of that show nothing.
#[test]
fn a_short_loop_is_the_step_if_nothing_else_can_be() {
    let short = |n: usize| format!("{n}x {{\nmain:5 feed:1\nmain:6 feed:2\nmain:8\n}}\n");
    check(&short(16), 16);
    check(&short(15), 0);
    let warm_up = format!("3x {{\nmain:2 !forward:1\n-\n-\nmain:3 {ADAM}\n}}\n");
    check(&format!("{warm_up}{}", short(20)), 20);
    check(&format!("{warm_up}{}", short(5)), 3);
    // A graph was captured: fewer replays show it.
    let captured = format!("{warm_up}capture\nmain:3 !forward:1\nreplay\n");
    check(&format!("{captured}{}", short(9)), 9);
    // What is captured may be a whole step of training, which makes much.
    let many = "main:3 !forward:1\n".repeat(90);
    let captured = format!("{warm_up}capture\n{many}main:4 {BACKWARD}\n-\nmain:5 {ADAM}\nreplay\n");
    check(&format!("{captured}{}", short(9)), 9);
    check(
        &format!("capture\nmain:3 make:1 =out\nreplay\n{}", short(9)),
        9,
    );
    // However many have warmed up.
    let warmed = format!("9x {{\nmain:2 !forward:1\n-\n-\nmain:3 {ADAM}\n}}\n");
    let captured = format!("{warmed}capture\nmain:4 !forward:1\n-\n-\nreplay\n");
    check(&format!("{captured}{}", short(20)), 20);
    check(&format!("{captured}{}", short(5)), 9);
    // The function that is captured is the one that was called to warm up.
    let warmed = format!("9x {{\nmain:2 f:1 !forward:1\n-\n-\nmain:2 f:2 {ADAM}\n}}\n");
    let again = format!("main:2 f:1 !forward:1\n-\n-\nmain:2 f:2 {ADAM}\n");
    check(
        &format!("{warmed}capture\n{again}replay\n{}", short(20)),
        20,
    );
    // The optimizer steps between the replays.
    let step = format!("main:7 {ADAM}\n").repeat(8);
    check(
        &format!("{captured}20x {{\nmain:5 feed:1\n{step}main:8\n}}\n"),
        20,
    );
    // The first replays record the graph: the lines without what they call are the same loop.
    let line = "main:5 feed:1\nmain:6\n";
    let records = "main:5 feed:1\nmain:6 call:1 !forward:2\nmain:6\n".repeat(2);
    check(&format!("{records}20x {{\n{line}}}"), 22);
    // An evaluation is no replay.
    let evaluation = "20x {\nmain:5 feed:1\nmain:6 !forward:2\nmain:8\n}\n";
    check(&format!("{warm_up}{evaluation}"), 3);
}
