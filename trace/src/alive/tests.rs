//! Every answer is compared with a slow and simple way to get it.

use super::*;
use crate::categories::Categories;
use crate::span::Span;
use crate::stacks::{Frame, FrameIdx, StackIdx};
use crate::testing::{TraceBuilder, arbitrary, block_of, trace, training_run};
use crate::tiles::{block_label, frame_label};
use crate::trace::{BlockIdx, BlockKind, Series, Step, Trace};
use crate::units::{Bytes, EventIdx};
use crate::watch::{Stopped, Watch};
use proptest::prelude::*;
use std::cell;

/// A trace of which questions are asked.
struct Asked {
    trace: Trace,
    live: LiveIndex,
}

impl Asked {
    fn of(trace: Trace) -> Self {
        let live = LiveIndex::new(&trace.devices[0].blocks);
        Self { trace, live }
    }

    fn device(&self) -> &DeviceTrace {
        &self.trace.devices[0]
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            device: self.device(),
            stacks: &self.trace.stacks,
            live: &self.live,
            categories: None,
        }
    }

    fn grouping(&self, by: Dimension) -> Grouping<'_> {
        Grouping::new(self.device(), &self.trace.stacks, by)
    }

    fn last(&self) -> EventIdx {
        EventIdx(self.device().events.len() - 1)
    }
}

fn is_alive(device: &DeviceTrace, block: usize, at: u32) -> bool {
    device.blocks.alloc[block] <= at && at < device.blocks.free_requested[block]
}

fn sum(device: &DeviceTrace, is_in: impl Fn(usize) -> bool) -> Tally {
    let mut tally = Tally::default();
    for block in (0..device.blocks.len()).filter(|&b| is_in(b)) {
        tally.add(device.blocks.kind(BlockIdx(block as u32)).size);
    }
    tally
}

fn total(cells: &[Cell]) -> Tally {
    let mut tally = Tally::default();
    cells.iter().for_each(|cell| tally.join(cell.tally));
    tally
}

fn with_steps(mut trace: Trace, n: u32) -> Trace {
    let device = &mut trace.devices[0];
    let events = device.events.len();
    let at = |i: u32| EventIdx((u64::from(events) * u64::from(i) / u64::from(n)) as u32);
    device.steps = (0..n)
        .map(|index| Step {
            index,
            name: format!("step {index}"),
            events: Span::new(at(index), at(index + 1)),
        })
        .collect();
    trace
}

fn check_moment(subject: Subject<'_>, at: u32) {
    let device = subject.device;
    let cells = Watch::undisturbed(|watch| alive(subject, Some(EventIdx(at)), watch));
    let all = total(&cells);
    assert_eq!(all, sum(device, |b| is_alive(device, b, at)));
    let level = device.levels_at(EventIdx(at)).get(Series::Allocated);
    assert_eq!(all.bytes, level, "what is alive sums to allocated");
    for by in Dimension::ALL {
        let mut grouping = Grouping::new(device, subject.stacks, by);
        let groups = Watch::undisturbed(|watch| grouping.sum(&cells, watch));
        let in_groups: Bytes = groups.iter().map(|(_, t)| t.bytes).sum();
        assert_eq!(in_groups, all.bytes, "{by:?}");
        assert!(groups.windows(2).all(|w| w[0].1.bytes >= w[1].1.bytes));
        let tree = Watch::undisturbed(|watch| Tree::new(device, subject.stacks, by, &cells, watch));
        assert_eq!(tree.nodes[0].tally, all);
        check_tree(&tree);
    }
}

fn check_tree(tree: &Tree) {
    let mut below = vec![Bytes::ZERO; tree.nodes.len()];
    for (at, node) in tree.nodes.iter().enumerate().skip(1) {
        let parent = node.parent.expect("only the root has no parent") as usize;
        assert!(parent < at, "a parent comes before its children");
        below[parent] += node.tally.bytes;
    }
    for (node, below) in tree.nodes.iter().zip(below) {
        assert!(below <= node.tally.bytes, "{}", node.label);
    }
}

fn check_change(subject: Subject<'_>, from: u32, to: u32) {
    let device = subject.device;
    let span = Span::new(EventIdx(from), EventIdx(to));
    let alive_at = |b, at| is_alive(device, b, at);
    let came = total(&Watch::undisturbed(|watch| came(subject, span, watch)));
    assert_eq!(came, sum(device, |b| alive_at(b, to) && !alive_at(b, from)));
    let went = total(&Watch::undisturbed(|watch| went(subject, span, watch)));
    assert_eq!(went, sum(device, |b| alive_at(b, from) && !alive_at(b, to)));
    let passed = Watch::undisturbed(|watch| passed(subject, span, watch));
    let within = |b: usize| {
        b >= device.blocks.n_preexisting as usize
            && device.blocks.alloc[b] > from
            && device.blocks.free_requested[b] <= to
    };
    assert_eq!(passed, sum(device, within));
    let level = |at| device.levels_at(EventIdx(at)).get(Series::Allocated);
    assert_eq!(level(from) + came.bytes, level(to) + went.bytes);
}

fn check_growth(subject: Subject<'_>, by: Dimension, top: usize) {
    let device = subject.device;
    let moments = moments(subject);
    let mut grouping = Grouping::new(device, subject.stacks, by);
    let growth =
        Watch::undisturbed(|watch| growth(subject, &mut grouping, &moments, (&[], top), watch));
    for (i, &at) in moments.iter().enumerate() {
        let bytes: u64 = growth.bands.iter().map(|b| b.bytes[i]).sum();
        assert_eq!(bytes, device.levels_at(at).get(Series::Allocated).0);
        let counts: u64 = growth.bands.iter().map(|b| b.counts[i]).sum();
        assert_eq!(counts, sum(device, |b| is_alive(device, b, at.0)).count);
    }
    check_members(subject, by, &moments, &growth);
}

/// The filter of a band finds what the band counts.
fn check_members(subject: Subject<'_>, by: Dimension, moments: &[EventIdx], growth: &Growth) {
    let Some(&last) = moments.last() else { return };
    for band in &growth.bands {
        let Some(label) = &band.label else { continue };
        assert!(!label.key.is_empty(), "{label:?}");
        let mut filter = Filter {
            alive_at: Some(last),
            ..Filter::default()
        };
        match by {
            Dimension::Site => filter.site = label.key.parse().ok(),
            _ => filter.group = Some((by, label.key.clone())),
        }
        let found = select(subject, &filter, Order::Oldest, 0, usize::MAX).unwrap();
        let expected = (band.counts.last().copied(), band.bytes.last().copied());
        let total = found.total;
        assert_eq!(
            (Some(total.count), Some(total.bytes.0)),
            expected,
            "{label:?}"
        );
    }
}

fn check_filter(subject: Subject<'_>, filter: &Filter) {
    let (device, stacks) = (subject.device, subject.stacks);
    let fits = |b: usize| {
        let block = BlockIdx(b as u32);
        let kind = device.blocks.kind(block);
        let frames = stacks.frames(kind.alloc_stack).iter();
        let frames = frames.map(|&f| frame_label(stacks, stacks.frame(f)));
        let mut named = frames.chain([block_label(device, stacks, block)]);
        let is_named = |name: String| match filter.text.contains(':') {
            true => name.ends_with(&filter.text),
            false => name.contains(&filter.text),
        };
        let born = filter.born.is_none_or(|(first, last)| {
            b >= device.blocks.n_preexisting as usize
                && device.steps.iter().any(|step| {
                    (first..=last).contains(&step.index)
                        && step.events.contains(EventIdx(device.blocks.alloc[b]))
                })
        });
        named.any(is_named)
            && filter.min_size.is_none_or(|min| kind.size >= min)
            && filter.max_size.is_none_or(|max| kind.size <= max)
            && filter.min_age.is_none_or(|min| age(device, block) >= min)
            && filter.max_age.is_none_or(|max| age(device, block) <= max)
            && filter.stream.is_none_or(|stream| kind.stream == stream)
            && filter.alive_at.is_none_or(|at| is_alive(device, b, at.0))
            && born
    };
    let mut expected: Vec<BlockIdx> = (0..device.blocks.len())
        .filter(|&b| fits(b))
        .map(|b| BlockIdx(b as u32))
        .collect();
    let found = |order, offset, limit| select(subject, filter, order, offset, limit).unwrap();
    let all = found(Order::Oldest, 0, usize::MAX);
    assert_eq!(all.blocks, expected, "{filter:?}");
    assert_eq!(all.total, sum(device, fits));
    let part = |blocks: &[BlockIdx]| blocks.iter().skip(3).take(5).copied().collect::<Vec<_>>();
    assert_eq!(found(Order::Oldest, 3, 5).blocks, part(&expected));
    expected.reverse();
    assert_eq!(found(Order::Newest, 3, 5).blocks, part(&expected));
    expected.sort_by_key(|&b| (std::cmp::Reverse(device.blocks.kind(b).size), b));
    assert_eq!(found(Order::Largest, 3, 5).blocks, part(&expected));
    assert_eq!(found(Order::Largest, 0, usize::MAX).blocks, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn questions_agree_with_a_scan(
        trace in arbitrary::traces(500), at in 0..500_u32, len in 0..500_u32, steps in 1..9_u32,
        by in 0..8_usize, top in 0..12_usize,
    ) {
        let trace = with_steps(trace, steps);
        prop_assume!(!trace.devices[0].events.is_empty());
        let asked = Asked::of(trace);
        let (device, subject) = (asked.device(), asked.subject());
        let last = device.events.len() - 1;
        let (from, to) = (at.min(last), at.saturating_add(len).min(last));
        check_moment(subject, from);
        check_change(subject, from, to);
        let categories = Categories::of(device, subject.stacks);
        let known = Subject { categories: Some(&categories), ..subject };
        check_moment(known, from);
        check_change(known, from, to);
        let by = Dimension::ALL[by];
        check_growth(if by == Dimension::Category { known } else { subject }, by, top);
    }

    #[test]
    fn filters_agree_with_a_scan(
        trace in arbitrary::traces(400), steps in 1..9_u32,
        text in prop::sample::select(vec![
            "", "f1", "file3", "nowhere", "file1.py:1", "f3 file3.py:3", "stack", "before the",
        ]),
        sizes in prop::option::of((0..4_000_u64, 0..900_000_000_u64)),
        min_age in prop::option::of(0..4_u32), max_age in prop::option::of(0..4_u32),
        stream in prop::option::of(prop::sample::select(vec![0_u64, 0x5000])),
        born in prop::option::of((0..9_u32, 0..12_u32)),
        alive_at in prop::option::of(0..400_u32),
    ) {
        let trace = with_steps(trace, steps);
        prop_assume!(!trace.devices[0].events.is_empty());
        let asked = Asked::of(trace);
        let (device, subject) = (asked.device(), asked.subject());
        let last = device.events.len() - 1;
        check_filter(subject, &Filter {
            text: text.to_owned(),
            min_size: sizes.map(|s| Bytes(s.0)),
            max_size: sizes.map(|s| Bytes(s.1)),
            min_age,
            max_age,
            stream,
            born,
            alive_at: alive_at.map(|at| EventIdx(at.min(last))),
            ..Filter::default()
        });
    }
}

#[test]
fn an_event_after_the_end_is_refused_with_the_last_one() {
    let check = |text: &str, at: u32, expected: Option<&str>| {
        let asked = Asked::of(trace(text));
        let filter = Filter {
            alive_at: Some(EventIdx(at)),
            ..Filter::default()
        };
        let found = select(asked.subject(), &filter, Order::Oldest, 0, 9);
        let refused = found.err().map(|error| error.to_string());
        assert_eq!(refused.as_deref(), expected);
    };
    check("a alloc 1MiB\nb alloc 1MiB", 1, None);
    let says = "alive: event 2 comes after the end; the last one is 1";
    check("a alloc 1MiB\nb alloc 1MiB", 2, Some(says));
    check("a pre 1MiB", 0, None);
    // No age is too large to be asked for.
    let asked = Asked::of(with_steps(training_run(300), 4));
    let filter = Filter {
        min_age: Some(u32::MAX),
        max_age: Some(u32::MAX),
        ..Filter::default()
    };
    let found = select(asked.subject(), &filter, Order::Oldest, 0, 9).unwrap();
    assert_eq!(found.total.count, 0);
}

#[test]
fn a_search_finds_what_a_label_says() {
    let mut b = TraceBuilder::default();
    let mut frame = |name: &str, filename: &str, line| {
        let (name, filename) = (b.stacks.strings.push(name), b.stacks.strings.push(filename));
        b.stacks.push_frame(Frame {
            name,
            filename,
            line,
        })
    };
    let linear = frame("forward", "/env/torch/nn/linear.py", 134);
    let [line_3, line_32] = [3, 32].map(|line| frame("Net.forward", "/srv/train/gen5.py", line));
    let mm = frame("at::_ops::mm::call(at::Tensor const&)", "??", 0);
    let node = frame("torch::autograd::generated::MmBackward0::apply()", "??", 0);
    let windows = frame("save", "C:\\code\\hooks.py", 34);
    let stacks: [&[FrameIdx]; 4] = [
        &[linear, line_3],
        &[linear, line_32],
        &[mm, node],
        &[windows],
    ];
    let stacks = stacks.map(|frames| b.stacks.push_stack(frames));
    let kind = |alloc_stack| BlockKind {
        alloc_stack,
        ..block_of(Bytes(512))
    };
    b.preexisting(kind(StackIdx::NONE));
    b.alloc(kind(StackIdx::NONE));
    for stack in stacks {
        b.alloc(kind(stack));
    }
    let asked = Asked::of(b.finish());
    // Blocks: from before, without a stack, from lines 3 and 32, of the backward pass, on Windows.
    let check = |text: &str, expected: &[u32]| {
        for alive_at in [None, Some(asked.last())] {
            let filter = Filter {
                text: text.to_owned(),
                alive_at,
                ..Filter::default()
            };
            let found = select(asked.subject(), &filter, Order::Oldest, 0, 9).unwrap();
            let found: Vec<u32> = found.blocks.iter().map(|block| block.0).collect();
            assert_eq!(found, expected, "{text:?} {alive_at:?}");
        }
    };
    check(" ", &[0, 1, 2, 3, 4, 5]);
    check("Forward", &[2, 3]);
    check("gen5.py", &[2, 3]);
    check("linear.py:134", &[2, 3]);
    check("gen5.py:3", &[2]);
    check("gen5.py:32", &[3]);
    check("train/gen5.py:32", &[3]);
    check("/srv/train/GEN5.py:32", &[3]);
    check("forward gen5.py:32", &[3]);
    check("from Net.forward gen5.py:32", &[3]);
    check("Net.forward train/gen5.py", &[2, 3]);
    check("in Net.forward (gen5.py:32)", &[3]);
    check("forward en5.py:32", &[]);
    check("gen5.py:320", &[]);
    check("save (hooks.py:34)", &[5]);
    check("save code\\hooks.py:34", &[5]);
    check("mm in MmBackward0", &[4]);
    check("allocated before the recording", &[0]);
    check("no stack recorded", &[1]);
}

#[test]
fn a_training_run_is_told_apart_by_every_dimension() {
    let asked = Asked::of(with_steps(training_run(3000), 4));
    let categories = Categories::of(asked.device(), &asked.trace.stacks);
    let names = |by| {
        let subject = Subject {
            categories: (by == Dimension::Category).then_some(&categories),
            ..asked.subject()
        };
        let cells = Watch::undisturbed(|watch| alive(subject, Some(asked.last()), watch));
        let mut grouping = asked.grouping(by);
        let groups = Watch::undisturbed(|watch| grouping.sum(&cells, watch));
        let label = |(group, _): &(u32, Tally)| grouping.labels[*group as usize].text.clone();
        groups.iter().map(label).collect::<Vec<_>>()
    };
    assert!(names(Dimension::Function).contains(&"op7 part0.py".to_owned()));
    assert!(names(Dimension::Module).contains(&"part3".to_owned()));
    assert!(names(Dimension::File).contains(&"/srv/model/part0.py".to_owned()));
    assert_eq!(names(Dimension::Stream), ["stream 0"]);
    assert_eq!(
        names(Dimension::Category),
        ["unknown from before", "unknown"]
    );
}

/// What a program that calls one function at three lines holds, by line and size in KiB.
fn lines_of_a_function(lines: &[(u32, u64)]) -> Trace {
    let mut b = TraceBuilder::default();
    for &(line, kib) in lines {
        let stack = b.stack("update", "cache.py", line);
        b.alloc(BlockKind {
            alloc_stack: stack,
            ..block_of(Bytes(kib << 10))
        });
    }
    with_steps(b.finish(), 1)
}

#[test]
fn a_group_is_named_after_the_line_that_holds_most() {
    let check = |lines: &[(u32, u64)], by, expected: &str, at_line| {
        let asked = Asked::of(lines_of_a_function(lines));
        let (subject, last) = (asked.subject(), asked.last());
        let cells = Watch::undisturbed(|watch| alive(subject, Some(last), watch));
        let mut grouping = asked.grouping(by);
        let groups = Watch::undisturbed(|watch| grouping.sum(&cells, watch));
        let told = grouping.labels[groups[0].0 as usize].clone();
        let mut grouping = asked.grouping(by);
        let at = [last];
        let growth =
            Watch::undisturbed(|watch| growth(subject, &mut grouping, &at, (&[], 1), watch));
        assert_eq!(growth.bands[0].label.as_ref(), Some(&told), "{lines:?}");
        let line = subject.stacks.headline(told.stack).map(|frame| frame.line);
        assert_eq!((&*told.text, line), (expected, Some(at_line)), "{lines:?}");
    };
    let (site, function) = (Dimension::Site, Dimension::Function);
    check(&[(7, 1)], site, "update cache.py:7", 7);
    let two = [(7, 1), (8, 9), (7, 2)];
    check(&two, site, "update cache.py:8 and 1 other line", 8);
    let three = [(7, 4), (8, 9), (9, 3), (9, 7)];
    check(&three, site, "update cache.py:9 and 2 other lines", 9);
    check(&three, function, "update cache.py", 9);
    // Of equals, the first.
    let equal = [(7, 4), (8, 4)];
    check(&equal, site, "update cache.py:7 and 1 other line", 7);
}

/// A program whose backward pass keeps gradients that have no stack.
fn backward_run() -> Trace {
    let mut b = TraceBuilder::default();
    let mut saved = |name, bytes| BlockKind {
        alloc_stack: b.stack(name, "net.py", 3),
        ..block_of(Bytes(bytes))
    };
    let kinds = [saved("norm", 4096), saved("gelu", 4096)];
    for kind in [0, 0, 1] {
        let forward = b.alloc(kinds[kind]);
        // The gradient stays.
        b.alloc(block_of(Bytes(4096)));
        b.free_requested(forward);
        b.free_completed(forward);
    }
    with_steps(b.finish(), 2)
}

#[test]
fn a_band_without_a_stack_is_called_by_its_forward_operation() {
    let asked = Asked::of(backward_run());
    let subject = asked.subject();
    let moments = moments(subject);
    let bands = |by| {
        let mut grouping = asked.grouping(by);
        let growth =
            Watch::undisturbed(|watch| growth(subject, &mut grouping, &moments, (&[], 9), watch));
        check_members(subject, by, &moments, &growth);
        let bands = growth.bands.into_iter();
        let named = bands.filter_map(|band| Some((band.label?, *band.counts.last()?)));
        let gradients = named.filter(|(label, count)| label.inferred && *count > 0);
        gradients
            .map(|(label, count)| (label.text, count))
            .collect::<Vec<_>>()
    };
    let band = |text: &str, count| (text.to_owned(), count);
    // A site keeps its key and stays one band, even if its blocks belong to different operations.
    assert_eq!(
        bands(Dimension::Site),
        [band(
            "backward of norm net.py:3 and others, 4.00 KiB each",
            3
        )]
    );
    assert_eq!(
        bands(Dimension::Function),
        [
            band("backward of gelu net.py", 1),
            band("backward of norm net.py", 2)
        ]
    );
    assert_eq!(bands(Dimension::Stream), []);
}

#[test]
fn steps_are_needed_only_where_they_are_asked_for() {
    let asked = Asked::of(trace("a alloc 1KiB\nb alloc 2KiB\na free"));
    let subject = asked.subject();
    let aged = Filter {
        min_age: Some(1),
        ..Filter::default()
    };
    let found = select(subject, &aged, Order::Oldest, 0, 9);
    assert_eq!(found, Err(BadFilter::NoSteps));
    let found = select(subject, &Filter::default(), Order::Largest, 0, 1).unwrap();
    assert_eq!((found.blocks, found.total.count), (vec![BlockIdx(1)], 2));
    assert_eq!(moments(subject).len(), 4, "a moment per event, no more");
}

/// A site for each of very many allocations, which all stay.
fn many_sites(sites: u32) -> Trace {
    let mut b = TraceBuilder::default();
    for line in 0..sites {
        let stack = b.stack(&format!("f{line}"), "net.py", line);
        b.alloc(BlockKind {
            alloc_stack: stack,
            ..block_of(Bytes(512))
        });
    }
    b.finish()
}

/// What a question says that it holds, at most; or that it was stopped at its n-th look.
fn looked(stop_at: Option<usize>, ask: impl Fn(Watch<'_>) -> Result<(), Stopped>) -> (bool, usize) {
    let (looks, most) = (cell::Cell::new(0), cell::Cell::new(0));
    let go_on = |bytes: usize| {
        looks.set(looks.get() + 1);
        most.set(most.get().max(bytes));
        stop_at.is_none_or(|stop| looks.get() < stop)
    };
    let done = ask(Watch::new(&go_on));
    assert!(stop_at.is_none_or(|stop| looks.get() <= stop), "it went on");
    (done.is_ok(), most.get())
}

#[test]
fn questions_say_what_they_hold_and_end_when_they_are_stopped() {
    const SITES: u32 = 4000;
    let asked = Asked::of(many_sites(SITES));
    let (subject, last) = (asked.subject(), asked.last());
    let whole = Span::new(EventIdx(0), last);
    let grow = |watch: Watch<'_>| {
        let mut grouping = asked.grouping(Dimension::Site);
        let moments = moments(subject);
        growth(subject, &mut grouping, &moments, (&[], 11), watch).map(drop)
    };
    let group = |watch: Watch<'_>| {
        let cells = alive(subject, Some(last), watch)?;
        asked.grouping(Dimension::Stack).sum(&cells, watch)?;
        let (device, stacks) = (subject.device, subject.stacks);
        Tree::new(device, stacks, Dimension::Stack, &cells, watch).map(drop)
    };
    let came = |watch: Watch<'_>| came(subject, whole, watch).map(drop);
    let went = |watch: Watch<'_>| went(subject, Span::new(last, last), watch).map(drop);
    let passed = |watch: Watch<'_>| passed(subject, whole, watch).map(drop);
    let check = |name: &str, ask: &dyn Fn(Watch<'_>) -> Result<(), Stopped>| {
        assert!(looked(None, ask).0, "{name}");
        assert!(!looked(Some(2), ask).0, "{name} does not look often enough");
    };
    check("growth", &grow);
    check("alive", &group);
    check("came", &came);
    check("went", &went);
    check("passed", &passed);
    // A site that is met once takes no column of moments.
    let held = looked(None, grow).1 / SITES as usize;
    assert!((100..600).contains(&held), "{held} bytes a site");
}
