//! Steps of scopes over events that do nothing else.

use super::*;
use crate::span::Span;
use crate::trace::Annotation;

/// The steps of scopes as (name, start, end, depth) over `n` marks.
fn steps_of(n: u32, scopes: &[(&str, u32, u32, u16)]) -> Vec<Step> {
    let mut builder = crate::testing::TraceBuilder::default();
    (0..n).for_each(|_| builder.mark());
    let mut trace = builder.finish();
    for &(name, start, end, depth) in scopes {
        let name = trace.stacks.strings.push(name);
        trace.devices[0].annotations.push(Annotation {
            name,
            events: Span::new(EventIdx(start), EventIdx(end)),
            depth,
        });
    }
    trace.devices[0]
        .annotations
        .sort_by_key(|a| (a.events.start(), a.depth));
    let scopes = Scopes::new(&trace.devices[0], &trace.stacks, Watch::nobody());
    let scopes = scopes.unwrap();
    let steps = scopes.numbered().or_else(|| scopes.repeating());
    let steps = steps.or_else(|| scopes.numbered_anyhow());
    steps.unwrap_or_default()
}

/// One row: why, the number of events, and the scopes as `name start..end`, with a `>` if they lie
/// within another one; then the steps.
type Case<'a> = (&'a str, u32, &'a [&'a str], &'a [&'a str]);

const CASES: &[Case<'_>] = &[
    (
        "steps go before epochs and micro-batches",
        40,
        &[
            "epoch 0 0..20",
            ">step 0 0..10",
            ">>microbatch 0 0..4",
            ">>microbatch 1 4..8",
            ">step 1 10..20",
            ">>microbatch 0 10..14",
            ">>microbatch 1 14..18",
            "epoch 1 20..40",
            ">step 2 20..30",
            ">step 3 30..40",
        ],
        &[
            "step 0 0..10",
            "step 1 10..20",
            "step 2 20..30",
            "step 3 30..40",
        ],
    ),
    (
        "scopes of several threads are one step",
        20,
        &[
            "step 0 0..9",
            "step 0 1..10",
            "step 1 10..19",
            "step 1 11..20",
        ],
        &["step 0 0..10", "step 1 10..20"],
    ),
    (
        "two optimizers of one class make one step",
        100,
        &[
            "Optimizer.step#Adam.step 40..44",
            "Optimizer.step#Adam.step 45..49",
            "Optimizer.step#Adam.step 90..94",
            "Optimizer.step#Adam.step 95..99",
        ],
        &["step#Adam.step 0 0..90", "step#Adam.step 1 90..100"],
    ),
    (
        "an optimizer that calls the program steps as often as it is called",
        100,
        &[
            "Optimizer.step#LBFGS.step 5..35",
            "Optimizer.step#LBFGS.step 35..65",
            "Optimizer.step#LBFGS.step 67..97",
        ],
        &[
            "step#LBFGS.step 0 0..35",
            "step#LBFGS.step 1 35..67",
            "step#LBFGS.step 2 67..100",
        ],
    ),
    (
        "what the compiler tries is no step",
        40,
        &[
            "CachingAutotuner.benchmark_all_configs (dynamo_timed) 0..4",
            "CachingAutotuner.benchmark_all_configs (dynamo_timed) 4..8",
            "CachingAutotuner.benchmark_all_configs (dynamo_timed) 8..12",
            "CachingAutotuner.benchmark_all_configs (dynamo_timed) 12..16",
        ],
        &[],
    ),
    (
        "the rarer optimizer closes the cycle",
        60,
        &[
            "Optimizer.step#D.step 5..6",
            "Optimizer.step#D.step 15..16",
            "Optimizer.step#G.step 25..26",
            "Optimizer.step#D.step 35..36",
            "Optimizer.step#D.step 45..46",
            "Optimizer.step#G.step 55..56",
        ],
        &["step#G.step 0 0..55", "step#G.step 1 55..60"],
    ),
    (
        "a ring that wrapped keeps the numbers",
        20,
        &["step 0 0..0", "step 1 0..8", "step 2 8..20"],
        &["step 1 0..8", "step 2 8..20"],
    ),
    (
        "frees after a scope from before a ring are no step",
        100,
        &[
            "Optimizer.step#A.step 0..0",
            "Optimizer.step#A.step 40..44",
            "Optimizer.step#A.step 90..94",
        ],
        &["step#A.step 1 40..90", "step#A.step 2 90..100"],
    ),
    (
        "rare scopes that cover little mark nothing",
        100,
        &["save 10..11", "save 50..51", "save 90..91"],
        &[],
    ),
];

#[test]
fn scopes_and_their_steps() {
    for &(why, n, scopes, expected) in CASES {
        let scopes = scopes.iter().map(|scope| {
            let name = scope.trim_start_matches('>');
            let depth = (scope.len() - name.len()) as u16;
            let (name, range) = name.rsplit_once(' ').expect("a name and a range");
            let (start, end) = range.split_once("..").expect("a range");
            let [start, end] = [start, end].map(|event| event.parse().expect("an event"));
            (name, start, end, depth)
        });
        let steps = steps_of(n, &scopes.collect::<Vec<_>>());
        let shown = steps.iter().map(|step| {
            let (start, end) = (step.events.start(), step.events.end());
            format!("{} {start}..{end}", step.name)
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected, "{why}");
    }
}

#[test]
fn an_optimizer_that_takes_the_place_of_another_one_goes_on_with_its_steps() {
    let name = |at| match at {
        0..3 => "Optimizer.step#SGD.step",
        _ => "Optimizer.step#AdamW.step",
    };
    let scopes: Vec<_> = (0..6)
        .map(|at| (name(at), 10 * at + 8, 10 * at + 10, 0))
        .collect();
    let steps = steps_of(60, &scopes);
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names[2..4], ["step#SGD.step 2", "step#AdamW.step 3"]);
    assert_eq!(steps.len(), 6);
}

/// `a` allocates and `.` does not; the scopes of steps begin at these events, the last one
/// included. `gap`: so many events lie between two scopes.
#[test]
fn a_scope_that_is_opened_after_the_last_step_is_no_step() {
    let check = |events: &str, starts: &[u32], gap: u32, expected: usize| {
        let mut builder = crate::testing::TraceBuilder::default();
        for event in events.chars() {
            match event {
                'a' => drop(builder.alloc(crate::testing::block_of(crate::units::Bytes(4)))),
                _ => builder.mark(),
            }
        }
        let mut trace = builder.finish();
        let n = trace.devices[0].events.len();
        let ends = starts[1..].iter().map(|start| start - gap).chain([n]);
        for (number, (&start, end)) in starts.iter().zip(ends).enumerate() {
            let name = trace.stacks.strings.push(&format!("ProfilerStep#{number}"));
            trace.devices[0].annotations.push(Annotation {
                name,
                events: Span::new(EventIdx(start), EventIdx(end)),
                depth: 0,
            });
        }
        let scopes = Scopes::new(&trace.devices[0], &trace.stacks, Watch::nobody());
        let steps = scopes.unwrap().numbered().unwrap_or_default();
        assert_eq!(steps.len(), expected, "{events} {starts:?}");
    };
    check("aaaaaa", &[0, 2, 4, 6], 0, 3);
    // What is given back when the function of the loop returns.
    check("aaaaaa.", &[0, 2, 4, 6], 0, 3);
    // It has work, and the recording ends in it.
    check("aaaaaaa", &[0, 2, 4, 6], 0, 4);
    // Other steps allocate nothing, either.
    check("aa..aa..", &[0, 2, 4, 6], 0, 4);
    // The begin of a ring.
    check(".aaaa", &[0, 1, 3, 5], 0, 3);
    check(".aaaa", &[0, 0, 1, 3, 5], 0, 3);
    check("aaaaaa", &[0, 2, 4, 6], 1, 4);
}

/// Scopes that come again: name (`*` is the number), events from one to the next, events in it,
/// depth, first event.
type Rows<'a> = &'a [(&'a str, u32, u32, u16, u32)];

/// Which scopes mark the steps of 240 events, and how many.
fn taken(rows: Rows<'_>) -> (String, usize) {
    let scopes = rows.iter().flat_map(|&(name, every, len, depth, first)| {
        let starts = (0_u32..).map(move |i| (i, first + i * every));
        let starts = starts.take_while(move |(_, start)| start + len <= 240);
        starts.map(move |(i, start)| {
            let name = name.replace('*', &i.to_string());
            (name, start, start + len, depth)
        })
    });
    let scopes: Vec<(String, u32, u32, u16)> = scopes.collect();
    let scopes: Vec<(&str, u32, u32, u16)> = scopes
        .iter()
        .map(|(name, start, end, depth)| (name.as_str(), *start, *end, *depth))
        .collect();
    let steps = steps_of(240, &scopes);
    (family_name(&steps[0].name), steps.len())
}

#[test]
fn the_scopes_of_the_training_are_the_steps() {
    const TRAIN: (&str, u32, u32, u16, u32) = ("train_step_*", 10, 6, 0, 0);
    const OPTIMIZER: (&str, u32, u32, u16, u32) = ("Optimizer.step#A.step", 10, 1, 1, 4);
    let by_optimizer = ("#A.step #", 24);
    let cases: &[(Rows<'_>, (&str, usize))] = &[
        // Evaluations now and then, one after each step, and longer ones than the step.
        (
            &[TRAIN, OPTIMIZER, ("val_step_*", 40, 3, 0, 6)],
            ("train_step_#", 24),
        ),
        (&[TRAIN, ("val_step_*", 40, 3, 0, 6)], ("train_step_#", 24)),
        (
            &[TRAIN, OPTIMIZER, ("val_step_*", 10, 3, 0, 6)],
            ("train_step_#", 24),
        ),
        (
            &[
                ("train_step_*", 10, 3, 0, 0),
                ("val_step_*", 10, 6, 0, 4),
                ("Optimizer.step#A.step", 10, 1, 1, 1),
            ],
            ("train_step_#", 24),
        ),
        // Only what happens now and then is numbered.
        (&[OPTIMIZER, ("save_step_*", 60, 2, 0, 58)], by_optimizer),
        (&[OPTIMIZER, ("step *", 100, 10, 0, 0)], by_optimizer),
        (&[OPTIMIZER, ("val_step_*", 2, 1, 0, 200)], by_optimizer),
        (
            &[("save_step_*", 60, 2, 0, 58), ("batch *", 10, 8, 0, 0)],
            ("batch #", 24),
        ),
        (&[("save_step_*", 60, 2, 0, 58)], ("save_step_#", 4)),
        // A part of each step, and what is around several.
        (
            &[OPTIMIZER, ("forward_step_*", 10, 2, 0, 0)],
            ("forward_step_#", 24),
        ),
        (
            &[OPTIMIZER, ("optimizer_step_*", 10, 2, 0, 4)],
            ("optimizer_step_#", 24),
        ),
        (
            &[
                ("iteration *", 60, 58, 0, 0),
                ("train_step_*", 10, 6, 1, 0),
                OPTIMIZER,
            ],
            ("iteration #", 4),
        ),
        (
            &[("ProfilerStep#*", 10, 10, 0, 0), TRAIN, OPTIMIZER],
            ("ProfilerStep##", 24),
        ),
    ];
    for (rows, (name, count)) in cases {
        let (taken, n) = taken(rows);
        assert_eq!(
            (taken.ends_with(name), n),
            (true, *count),
            "{taken}: {rows:?}"
        );
    }
}

/// A profiler marks three of eight steps, and again.
#[test]
fn scopes_of_some_steps_are_not_the_steps() {
    let (name, n) = taken(&[
        ("ProfilerStep#1*", 80, 10, 0, 0),
        ("ProfilerStep#2*", 80, 10, 0, 10),
        ("ProfilerStep#3*", 80, 10, 0, 20),
        ("Optimizer.step#A.step", 10, 1, 1, 4),
    ]);
    assert!(name.ends_with("#A.step #") && n == 24, "{n} of {name}");
}
