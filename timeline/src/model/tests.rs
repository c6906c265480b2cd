//! Tests of the state: pictures, and what is under the pointer.

use super::*;
use crate::lines;
use crate::neighbours::Neighbour;
use crate::paint;
use crate::scene::{Scene, Shape};
use crate::testing;
use crate::tile_cache;
use api::timeline::{AnnotationMark, OomMark};
use api::view_state::Axis;
use plotters::prelude::SVGBackend;
use proptest::prelude::*;
use std::sync::LazyLock;
use trace::phases::Phase;
use trace::span::Span;
use trace::testing::{TraceBuilder, block_of, training_run};
use trace::tiles::MountainIndex;
use trace::trace::{BlockIdx, Series, Step, Trace};
use trace::units::EventIdx;

/// Four steps of 100 events: weights below, activations that come and go, one pending free.
fn model() -> Model {
    let mut blocks = vec![(0, 0, 400, 300), (0, 2, 400, 200)];
    for step in 0..4 {
        for i in 0..12 {
            let from = 100 * step + 5 + i;
            blocks.push((1, from, 100 * step + 95 - i, 8 + u64::from(i % 3) * 4));
        }
    }
    blocks.push((2, 40, 330, 60));
    blocks.sort_by_key(|b| (b.0, b.1));
    let mut tile = testing::mountain(400, 12, &blocks);
    tile.pending[200..206].fill(Bytes::mib(90));
    let level = |event: u32| -> u64 {
        let live = tile
            .blocks
            .iter()
            .filter(|b| b.live.contains(EventIdx(event)));
        12 + live.map(|b| b.size.get() >> 20).sum::<u64>()
    };
    let levels: Vec<u64> = (0..400).map(level).collect();
    let series = testing::series(tile.id, 400, &levels);
    let mut model = Model::new(400, Bytes::mib(800), &ViewState::default());
    let marks = Marks {
        steps: (0..4)
            .map(|index| Step {
                index,
                name: format!("step {index}"),
                events: Span::new(EventIdx(index * 100), EventIdx(index * 100 + 100)),
            })
            .collect(),
        annotations: vec![],
        annotations_left_out: 0,
        ooms: vec![],
        ooms_left_out: 0,
        capacity: Some(Bytes::mib(900)),
        stays: vec![],
        stays_left_out: 0,
    };
    model.set_marks(Arc::new(marks));
    model.resize(720.0, 360.0, 1.0);
    assert_eq!(model.take_requests(0.0).len(), 2);
    model.series_arrived(series);
    model.mountain_arrived(tile);
    model
}

fn svg(scenes: &[Scene]) -> String {
    let mut svg = String::new();
    let (width, height) = scenes[0].size;
    {
        let mut backend = SVGBackend::with_string(&mut svg, (width as u32, height as u32));
        for scene in scenes {
            paint::shapes(scene, &mut backend).unwrap();
            paint::texts(scene, &mut backend).unwrap();
        }
    }
    svg
}

#[test]
fn a_whole_trace_as_a_picture() {
    let mut model = model();
    let base = model.base_scene();
    insta::assert_snapshot!(svg(&[base]));
}

/// Scopes that end in the order in which they began come to lie in one lane, over one another.
#[test]
fn scopes_over_one_another_are_drawn_once_for_each_pixel() {
    let scope = |name: &str, from: u32, to: u32| AnnotationMark {
        name: name.to_owned(),
        events: Span::new(EventIdx(from), EventIdx(to)),
        depth: 0,
    };
    let drawn = |annotations: Vec<AnnotationMark>| {
        let mut model = model();
        model.set_marks(Arc::new(Marks {
            annotations,
            ..Marks::default()
        }));
        model.base_scene()
    };
    let nothing = drawn(vec![]).shapes.len();
    let scopes = (0..4000).map(|at| scope(&format!("s{at}"), at / 20, 400));
    let scene = drawn(scopes.collect());
    assert!(
        scene.shapes.len() - nothing <= 2 * 720,
        "{}",
        scene.shapes.len()
    );
    assert!(scene.texts.len() < 100, "{}", scene.texts.len());
    // What lies behind is still to be seen on both sides, and is called by its name once.
    let scene = drawn(vec![scope("behind", 0, 400), scope("before", 100, 200)]);
    assert_eq!(scene.shapes.len() - nothing, 2 + 1 + 2);
    for name in ["behind", "before"] {
        let said = scene.texts.iter().filter(|text| text.text == name);
        assert_eq!(said.count(), 1, "{name}");
    }
}

#[test]
fn no_mark_of_a_failure_strikes_through_the_label_of_another() {
    let mut model = model();
    let failed = |event: u32| OomMark {
        event: EventIdx(event),
        size: Bytes::mib(9),
        device_free: None,
        step: None,
        phase: Phase::Unknown,
        limit: None,
        limit_at_least: None,
        allocated: Bytes::ZERO,
        reserved: Bytes::ZERO,
        operation: None,
        frame: None,
        held: vec![],
    };
    let ooms = vec![failed(100), failed(140)];
    model.set_marks(Arc::new(Marks {
        ooms,
        ..Marks::default()
    }));
    let scene = model.base_scene();
    let label = scene.texts.iter().filter(|t| t.text.contains("wanted"));
    let [label] = label.collect::<Vec<_>>()[..] else {
        panic!("one label has room");
    };
    let fills = scene.shapes.iter().filter_map(|shape| match shape {
        Shape::Fill { rect, colour } => Some((rect, colour)),
        Shape::Hatch { .. } => None,
    });
    let over: Vec<bool> = fills
        .filter(|(rect, _)| rect.x0 < label.x && rect.y0 < label.y && label.y < rect.y1)
        .map(|(_, &colour)| colour == label.colour)
        .collect();
    assert_eq!(over.iter().filter(|&&is_mark| is_mark).count(), 2);
    assert!(!over[over.len() - 1], "the patch of the label is the last");
}

#[test]
fn a_close_look_as_a_picture() {
    let mut model = model();
    model.act(
        Action::Events {
            from: 20.0,
            to: 60.0,
        },
        Motion::Direct,
    );
    let levels = (5e8, 8e8);
    model.act(
        Action::Frame {
            events: (20.0, 60.0),
            levels,
        },
        Motion::Direct,
    );
    model.base_scene();
    model.set_pointer(Some((400.0, 200.0)));
    model.click(400.0, 200.0);
    assert!(matches!(model.selection(), Some(Selection::Block(_))));
    let scenes = [model.base_scene(), model.overlay_scene()];
    insta::assert_snapshot!(svg(&scenes));
}

#[test]
fn a_link_restores_exactly_what_was_shown() {
    let mut model = model();
    model.base_scene();
    let levels = (3e8, 9e8);
    model.act(
        Action::Frame {
            events: (33.25, 77.5),
            levels,
        },
        Motion::Direct,
    );
    model.select(Some(Selection::Group(11)));
    let mut view = ViewState::default();
    model.write_view(&mut view);
    let (read, problems) = ViewState::parse(&view.to_string()).unwrap();
    assert_eq!(problems, vec![]);
    let mut again = Model::new(400, Bytes::mib(800), &read);
    again.set_marks(Arc::clone(model.marks.as_ref().unwrap()));
    assert_eq!(again.target(), model.target());
    assert_eq!(again.selection(), model.selection());
}

#[test]
fn the_keyboard_walks_through_the_allocations() {
    let mut model = model();
    model.base_scene();
    let first = model.neighbour(Neighbour::Later).unwrap();
    assert_eq!(first, BlockIdx(0));
    model.select(Some(Selection::Block(first)));
    assert_eq!(model.neighbour(Neighbour::Later), Some(BlockIdx(1)));
    assert_eq!(model.neighbour(Neighbour::Earlier), None);
    assert_eq!(model.neighbour(Neighbour::Above), Some(BlockIdx(1)));
    assert_eq!(model.neighbour(Neighbour::Below), None);
}

#[test]
fn the_selected_block_fills_the_frame() {
    let mut model = model();
    model.base_scene();
    model.select(Some(Selection::Block(BlockIdx(10))));
    assert!(model.frame_selection());
    while model.advance(16.0) {}
    let scene = model.base_scene();
    let (live, view) = (13.0..87.0, *model.target());
    assert!(view.from < live.start && view.to > live.end && view.events() < 200.0);
    assert!(
        scene.texts.iter().any(|t| t.text.contains("g1 · ")),
        "{:?}",
        scene.texts
    );
}

#[test]
fn the_selected_group_fills_the_height() {
    let mut model = model();
    model.base_scene();
    model.select(Some(Selection::Group(12)));
    assert!(model.frame_selection());
    let (low, high) = model.target().levels.unwrap();
    // The group's 60 MiB lie on 512 MiB of others, and later on those plus the activations.
    assert!(low < f64::from(512 << 20) && high > f64::from(572 << 20));
    assert_eq!((model.target().from, model.target().to), (0.0, 400.0));
    model.select(Some(Selection::Group(99)));
    assert!(!model.frame_selection());
}

#[test]
fn activity_is_framed_above_what_does_not_move() {
    let mut model = model();
    model.act(
        Action::Events {
            from: 3.0,
            to: 99.0,
        },
        Motion::Direct,
    );
    model.base_scene();
    model.frame_activity();
    let (low, high) = model.target().levels.unwrap();
    let mib = |bytes: f64| (bytes / f64::from(1 << 20)).round();
    // 12 MiB of base and 500 MiB of weights do not change.
    assert!((mib(low) - 512.0).abs() < 20.0, "{}", mib(low));
    assert!(mib(high) > 600.0, "{}", mib(high));
}

#[test]
fn lowest_and_highest_are_exact_where_a_bucket_is_an_event() {
    let mut model = model();
    model.act(Action::Events { from: 0.0, to: 8.0 }, Motion::Direct);
    model.base_scene();
    let (extents, events) = model.extents(100.0).unwrap();
    assert_eq!(events, Span::new(EventIdx(0), EventIdx(1)));
    assert_eq!(extents[1], (Bytes::mib(312), Bytes::mib(312)));
    assert_eq!(model.time_at(100.0).map(f64::round), Some(100_000.0));
    assert_eq!(model.extents(5.0), None);
}

#[test]
fn the_highest_moment_is_taken_apart() {
    let mut model = model();
    model.base_scene();
    let composition = model.composition().unwrap();
    let of_groups = composition.groups.iter().map(|g| g.bytes).sum::<Bytes>();
    assert_eq!(of_groups + composition.base.bytes, composition.total);
    assert_eq!(composition.groups[0].label, "g0");
    let [total, when] = composition.said();
    assert_eq!(total, format!("{} allocated", composition.total));
    assert!(when.ends_with(", the highest allocated in view"), "{when}");
}

#[test]
fn a_group_states_its_totals() {
    let mut model = model();
    model.base_scene();
    let facts = model.group(10).unwrap();
    assert_eq!((facts.label.as_str(), facts.blocks), ("g0", 2));
    assert_eq!(
        (facts.peak, facts.peak_event),
        (Bytes::mib(500), Some(EventIdx(2)))
    );
    assert_eq!(facts.member, Some(BlockIdx(0)));
    assert_eq!(model.group(99), None);
}

/// The model of a window of a trace's first device, with its tiles.
fn looking_at(trace: &Trace, window: (f64, f64), axis: Axis, css_width: f64) -> Model {
    let device = &trace.devices[0];
    let view = ViewState {
        window: Some(window),
        axis,
        group_by: GroupBy::None,
        ..ViewState::default()
    };
    let peak = device.summary[Series::Reserved as usize].peak;
    let mut model = Model::new(device.events.len(), peak, &view);
    model.resize(css_width, 300.0, 1.0);
    let index = MountainIndex::new(device, GroupBy::None, &trace.stacks);
    while model.is_waiting() {
        for request in model.take_requests(0.0) {
            match request {
                TileRequest::Series(id) => model.series_arrived(device.series_tile(id)),
                TileRequest::Mountain(_, id) => {
                    model.mountain_arrived(device.mountain_tile(id, &index));
                }
            }
        }
    }
    model.base_scene();
    model
}

/// The highest allocated level that the lines and the mountain draw.
fn drawn_peaks(model: &Model) -> (u64, u64) {
    let (prepared, columns) = (&model.prepared, &model.prepared.columns);
    let line = prepared.series.iter().flat_map(|piece| {
        let runs = columns.runs(lines::part(&piece.tile, piece.from, piece.to));
        runs.into_iter()
            .map(|run| lines::extent(&piece.tile, Series::Allocated, run.first, run.end).1 as u64)
    });
    let mountain = prepared.mountains.iter().flat_map(|piece| {
        let layout = &piece.tile.layout;
        let runs = columns.runs(piece.tile.part(piece.from, piece.to));
        runs.into_iter()
            .map(|run| layout.body(layout.highest(run.first, run.end)).get())
    });
    (line.max().unwrap(), mountain.max().unwrap())
}

/// The highest allocated level of the series over a window, in whole buckets of its tile.
fn peak_of(trace: &Trace, levels: &[u64], (from, to): (f64, f64)) -> u64 {
    let n = trace.devices[0].events.len();
    let bucket = tile_cache::wanted(from, to, u64::from(n)).bucket_events();
    let first = from as u64 / bucket * bucket;
    let end = ((to.ceil() as u64).div_ceil(bucket) * bucket).min(u64::from(n));
    *levels[first as usize..end as usize].iter().max().unwrap()
}

/// A trace with *allocated* after each event.
type Recorded = (Trace, Vec<u64>);

/// One trace that only grows, so that the highest level of a window is that of its last event, and
/// one that goes up and down. No bucket of several events is full at their ends.
static RECORDED: LazyLock<[Recorded; 2]> = LazyLock::new(|| {
    let mut growing = TraceBuilder::default();
    for _ in 0..12_289 {
        growing.alloc(block_of(Bytes(512)));
    }
    let with_levels = |trace: Trace| {
        let device = &trace.devices[0];
        let events = (0..device.events.len()).map(EventIdx);
        let level = |event| device.levels_at(event).get(Series::Allocated).get();
        let levels = events.map(level).collect();
        (trace, levels)
    };
    [growing.finish(), training_run(5001)].map(with_levels)
});

#[test]
fn the_end_of_a_recording_is_drawn() {
    let (trace, levels) = &RECORDED[0];
    let n = levels.len() as f64;
    for width in [40.0, 300.0, 1920.0] {
        let model = looking_at(trace, (0.0, n), Axis::Event, width);
        let peak = *levels.last().unwrap();
        assert_eq!(drawn_peaks(&model), (peak, peak), "{width} pixels");
    }
}

proptest! {
    // A case makes the tiles and stacks them.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_window_draws_its_peak_at_every_zoom(
        which in 0..2_usize,
        time in any::<bool>(),
        (start, part) in (0.0..1.0_f64, 0.0..1.0_f64),
        to_the_end in any::<bool>(),
        width in 40.0..1500.0_f64,
    ) {
        let (trace, levels) = &RECORDED[which];
        let n = levels.len() as f64;
        let axis = if time { Axis::Time } else { Axis::Event };
        let from = start * (n - 10.0);
        let to = if to_the_end { n } else { from + 4.0 + part * (n - from - 4.0) };
        let model = looking_at(trace, (from, to), axis, width);
        let drawn = model.drawn();
        let peak = peak_of(trace, levels, (drawn.from, drawn.to));
        prop_assert_eq!(drawn_peaks(&model), (peak, peak));
    }
}
