//! How long each question about the large recording takes: `cargo bench -p trace --bench
//! questions`.
//!
//! Prints the slowest of five answers. The recording is in a folder next to the repository
//! (`../shared`). Without it, a made-up run of four million blocks is used.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;
use trace::alive::{self, Dimension, Filter, Grouping, Order, Subject, Tree};
use trace::intervals::LiveIndex;
use trace::reader::{Limits, read};
use trace::span::Span;
use trace::trace::Trace;
use trace::units::{Bytes, EventIdx};
use trace::watch::Watch;

fn large() -> Trace {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = here.join("../../shared/big/big.pickle.zst");
    let Ok(file) = std::fs::File::open(shared) else {
        return trace::testing::training_run(4_000_000);
    };
    let bytes = zstd::decode_all(file).expect("a packed file");
    trace::replay::run(read(&bytes, Limits::default()).expect("a snapshot"))
}

fn time(what: &str, mut ask: impl FnMut()) {
    let slowest = (0..5).map(|_| {
        let began = Instant::now();
        ask();
        began.elapsed()
    });
    let slowest = slowest.max().expect("five answers");
    println!("{what:<44} {:>8.1} ms", slowest.as_secs_f64() * 1e3);
}

fn main() {
    let trace = large();
    let device = &trace.devices[0];
    let (blocks, events) = (device.blocks.len(), device.events.len());
    let (kinds, steps) = (device.blocks.kinds.len(), device.steps.len());
    println!("{blocks} blocks of {kinds} kinds, {events} events, {steps} steps");
    time("index of live blocks", || {
        black_box(LiveIndex::new(&device.blocks));
    });
    let live = LiveIndex::new(&device.blocks);
    let subject = Subject {
        device,
        stacks: &trace.stacks,
        live: &live,
        categories: None,
    };
    let peak = device.summary[1].peak_event.unwrap_or(EventIdx(events / 2));
    let moments = [EventIdx(events / 3), peak, EventIdx(events - 1)];
    for by in Dimension::ALL {
        for at in moments {
            time(&format!("alive at {at} by {}", by.name()), || {
                let cells = Watch::undisturbed(|watch| alive::alive(subject, Some(at), watch));
                let mut grouping = Grouping::new(device, &trace.stacks, by);
                black_box(Watch::undisturbed(|watch| grouping.sum(&cells, watch)));
                let tree = |watch| Tree::new(device, &trace.stacks, by, &cells, watch);
                black_box(Watch::undisturbed(tree));
            });
        }
        time(&format!("growth by {}", by.name()), || {
            let moments = alive::moments(subject);
            let mut grouping = Grouping::new(device, &trace.stacks, by);
            let grown = |watch| alive::growth(subject, &mut grouping, &moments, (&[], 11), watch);
            black_box(Watch::undisturbed(grown));
        });
    }
    let whole = Span::new(EventIdx(events / 10), EventIdx(events - 1));
    time("came, went and passed in nine tenths", || {
        black_box(Watch::undisturbed(|watch| {
            let came = alive::came(subject, whole, watch)?;
            let went = alive::went(subject, whole, watch)?;
            Ok((came, went, alive::passed(subject, whole, watch)?))
        }));
    });
    let find = |filter: &Filter, order| {
        black_box(alive::select(subject, filter, order, 1000, 100)).expect("it has steps");
    };
    let all = Filter::default();
    time("all allocations, oldest first", || {
        find(&all, Order::Oldest)
    });
    time("all allocations, largest first", || {
        find(&all, Order::Largest)
    });
    let one = Filter {
        text: "forward".to_owned(),
        min_size: Some(Bytes::kib(4)),
        min_age: Some(1),
        ..Filter::default()
    };
    time("by function, size and age", || find(&one, Order::Largest));
    let born = Filter {
        born: Some((2, 9)),
        alive_at: Some(peak),
        ..Filter::default()
    };
    time("by step of birth and moment", || find(&born, Order::Newest));
    time("leaks", || {
        black_box(trace::leaks::find(device, &trace.stacks, &trace.quality));
    });
}
