//! The timeline's state: window, tiles, selection. Pure: the browser pushes what happened in and
//! takes scenes and requests out.

use super::axis::AxisMap;
use super::colours::Palette;
use super::facts::{self, Composition, GroupFacts};
use super::hit_test::{self, Hit, Target};
use super::lines::{self, Joints, LineStyle};
use super::mountain::{self, Frame, Mountain};
use super::neighbours::{self, Neighbour};
use super::plot::{Columns, Layout, Measure, Rows};
use super::scene::Scene;
use super::stack::Item;
use super::tile_cache::{self, Piece, TileCache};
use super::viewport::{Action, Limits, Viewport};
use super::{axes, highlight, lanes};
use api::timeline::Marks;
use api::view_state::{Axis, Picture, Selection, ViewState};
use std::rc::Rc;
use std::sync::Arc;
use trace::span::Span;
use trace::tiles::{GroupBy, MountainTile, SeriesTile, TileId};
use trace::trace::{BlockIdx, Series};
use trace::units::{Bytes, EventIdx};

/// Memory for laid-out mountains, bytes.
const MOUNTAIN_BUDGET: usize = 96 << 20;
/// Memory for series tiles, bytes (one is 400 KiB).
const SERIES_BUDGET: usize = 16 << 20;

/// A tile that is to be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileRequest {
    /// The lines.
    Series(TileId),
    /// The mountain.
    Mountain(GroupBy, TileId),
}

/// How an action takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// At once: the hand is on it.
    Direct,
    /// Over some frames, so that the eye can follow.
    Eased,
}

/// A rectangle being drawn by the pointer, CSS pixels.
pub type Rubber = ((f64, f64), (f64, f64));

/// Lowest and highest of the four series at a place.
pub type Extents = [(Bytes, Bytes); 4];

/// The state.
#[derive(Debug)]
pub struct Model {
    n_events: u32,
    /// Highest reserved or capacity: what the automatic range shows, bytes.
    high: f64,
    axis: Axis,
    group_by: GroupBy,
    picture: Picture,
    selection: Option<Selection>,
    /// Life of the selected block in events, when known.
    selected_life: Option<(f64, f64)>,
    pointer: Option<(f64, f64)>,
    rubber: Option<Rubber>,
    measure: Measure,
    /// What is drawn.
    viewport: Viewport,
    /// Where it is going.
    target: Viewport,
    marks: Option<Arc<Marks>>,
    palette: Palette,
    series: TileCache<SeriesTile>,
    mountains: TileCache<Mountain>,
    prepared: Prepared,
}

/// What a frame is computed from; kept, because the pointer asks about what was painted.
#[derive(Debug)]
struct Prepared {
    axis: AxisMap,
    layout: Layout,
    columns: Columns,
    rows: Rows,
    mountains: Vec<Piece<Mountain>>,
    series: Vec<Piece<SeriesTile>>,
}

impl Model {
    /// The state for a device, and the view that a link asks for.
    pub fn new(n_events: u32, peak_reserved: Bytes, view: &ViewState) -> Model {
        let n = f64::from(n_events);
        let measure = Measure {
            width: 800.0,
            height: 400.0,
            scale: 1.0,
            has_steps: false,
            lanes: 0,
        };
        let layout = Layout::new(measure);
        let viewport = Viewport::whole(n);
        let limits = Limits {
            n_events: n,
            auto_high: 1.0,
            max_high: 1.0,
        };
        let prepared = Prepared {
            axis: AxisMap::Event,
            columns: Columns::new(layout.plot, &viewport, &AxisMap::Event),
            rows: Rows::new(layout.plot, &viewport, limits),
            layout,
            mountains: Vec::new(),
            series: Vec::new(),
        };
        let mut model = Model {
            n_events,
            high: headroom(peak_reserved, None),
            axis: view.axis,
            group_by: view.group_by,
            picture: view.picture,
            selection: view.selection,
            selected_life: None,
            pointer: None,
            rubber: None,
            measure,
            viewport,
            target: viewport,
            marks: None,
            palette: Palette::light(),
            series: TileCache::new(u64::from(n_events), SERIES_BUDGET),
            mountains: TileCache::new(u64::from(n_events), MOUNTAIN_BUDGET),
            prepared,
        };
        model.show(view);
        model
    }

    /// Takes over a view: that of a link, or of "back". What the model already shows is left alone,
    /// so that its own changes may come back this way.
    pub fn show(&mut self, view: &ViewState) {
        if self.group_by != view.group_by {
            self.mountains = TileCache::new(u64::from(self.n_events), MOUNTAIN_BUDGET);
        }
        if self.selection != view.selection {
            self.selected_life = None;
        }
        (self.axis, self.group_by) = (view.axis, view.group_by);
        (self.picture, self.selection) = (view.picture, view.selection);
        let (from, to) = view.window.unwrap_or((0.0, f64::from(self.n_events)));
        let wanted = Viewport {
            from,
            to,
            levels: view.levels,
        };
        // The address rounds outwards a little; the same window must not drift.
        if !same_view(&wanted, &self.target) {
            let limits = self.limits();
            let levels = wanted.levels;
            let moved = self
                .target
                .apply(Action::Events { from, to }, &AxisMap::Event, limits);
            self.target = Viewport { levels, ..moved };
            self.viewport = self.target;
        }
    }

    /// The part of the view state that the timeline itself changes.
    pub fn write_view(&self, view: &mut ViewState) {
        let whole = self.target.from <= 0.0 && self.target.to >= f64::from(self.n_events);
        view.window = (!whole).then_some((self.target.from, self.target.to));
        view.levels = self.target.levels;
        view.selection = self.selection;
    }

    /// The canvas has another size.
    pub fn resize(&mut self, width: f64, height: f64, scale: f64) {
        (self.measure.width, self.measure.height, self.measure.scale) = (width, height, scale);
    }

    /// The theme has changed.
    pub fn set_palette(&mut self, palette: Palette) {
        self.palette = palette;
    }

    /// Colours in use.
    pub fn palette(&self) -> &Palette {
        &self.palette
    }

    /// Steps, annotations, capacity have arrived.
    pub fn set_marks(&mut self, marks: Arc<Marks>) {
        let marks = Arc::new(lanes::without_steps(&marks));
        self.measure.has_steps = !marks.steps.is_empty();
        self.measure.lanes = lanes::lanes_needed(&marks);
        let peak = Bytes((self.high / HEADROOM) as u64);
        self.high = headroom(peak, marks.capacity);
        self.marks = Some(marks);
    }

    /// The life of the selected block is known (in events), or nothing is selected.
    pub fn set_selected_life(&mut self, life: Option<(f64, f64)>) {
        self.selected_life = life;
    }

    /// The pointer, CSS pixels on the canvas; `None` when it left.
    pub fn set_pointer(&mut self, pointer: Option<(f64, f64)>) {
        self.pointer = pointer;
    }

    /// The rectangle of a box zoom under way.
    pub fn set_rubber(&mut self, rubber: Option<Rubber>) {
        self.rubber = rubber;
    }

    /// Selects.
    pub fn select(&mut self, selection: Option<Selection>) {
        if self.selection != selection {
            self.selection = selection;
            self.selected_life = None;
        }
    }

    /// Which picture is drawn.
    pub fn picture(&self) -> Picture {
        self.picture
    }

    /// What is selected.
    pub fn selection(&self) -> Option<Selection> {
        self.selection
    }

    /// The window on its way to being shown.
    pub fn target(&self) -> &Viewport {
        &self.target
    }

    /// The window as drawn.
    pub fn drawn(&self) -> &Viewport {
        &self.viewport
    }

    fn limits(&self) -> Limits {
        Limits {
            n_events: f64::from(self.n_events),
            auto_high: self.high,
            max_high: self.high,
        }
    }

    /// What a person did to the window.
    pub fn act(&mut self, action: Action, motion: Motion) {
        let limits = self.limits();
        let base = match motion {
            Motion::Direct => self.viewport,
            Motion::Eased => self.target,
        };
        self.target = base.apply(action, &self.prepared.axis, limits);
        if motion == Motion::Direct {
            self.viewport = self.target;
        }
    }

    /// Moves on by the time since the last frame. Returns whether there is more to come.
    pub fn advance(&mut self, elapsed_ms: f64) -> bool {
        if self.viewport == self.target {
            return false;
        }
        let limits = self.limits();
        self.viewport = self.viewport.eased_towards(self.target, limits, elapsed_ms);
        self.viewport != self.target
    }

    /// Tiles to fetch now.
    pub fn take_requests(&mut self, now_ms: f64) -> Vec<TileRequest> {
        let Viewport { from, to, .. } = self.target;
        let series = self.series.take_requests(from, to, now_ms);
        let mut requests: Vec<_> = series.into_iter().map(TileRequest::Series).collect();
        if self.picture == Picture::Mountain {
            let mountains = self.mountains.take_requests(from, to, now_ms);
            let group_by = self.group_by;
            requests.extend(
                mountains
                    .into_iter()
                    .map(|id| TileRequest::Mountain(group_by, id)),
            );
        }
        requests
    }

    /// A series tile has arrived.
    pub fn series_arrived(&mut self, tile: SeriesTile) {
        let cost = tile.times.len() * (4 * 24 + 8);
        self.series.arrived(tile.id, tile, cost);
    }

    /// A mountain tile has arrived; one of a grouping that nobody looks at any more is dropped.
    pub fn mountain_arrived(&mut self, tile: MountainTile) {
        if tile.group_by == self.group_by {
            let (id, mountain) = (tile.id, Mountain::new(tile));
            let cost = mountain.cost();
            self.mountains.arrived(id, mountain, cost);
        }
    }

    /// A tile could not be had.
    pub fn tile_failed(&mut self, request: TileRequest, now_ms: f64) {
        match request {
            TileRequest::Series(id) => self.series.failed(id, now_ms),
            TileRequest::Mountain(group_by, id) if group_by == self.group_by => {
                self.mountains.failed(id, now_ms);
            }
            TileRequest::Mountain(..) => {}
        }
    }

    /// Whether anything on screen is coarser than it will be.
    pub fn is_waiting(&self) -> bool {
        let Viewport { from, to, .. } = self.target;
        self.series.is_waiting(from, to)
            || self.picture == Picture::Mountain && self.mountains.is_waiting(from, to)
    }

    /// Whether there is anything to see yet.
    pub fn has_picture(&self) -> bool {
        !self.prepared.series.is_empty()
    }

    fn axis_map(&self) -> AxisMap {
        let whole = self.series.get(tile_cache::root(u64::from(self.n_events)));
        let Viewport { from, to, .. } = self.viewport;
        let finer = tile_cache::wanted(from, to, u64::from(self.n_events));
        let finer = self.series.get(finer);
        AxisMap::new(self.axis, whole.map(Rc::as_ref), finer.map(Rc::as_ref))
    }

    fn prepare(&mut self) {
        let axis = self.axis_map();
        let layout = Layout::new(self.measure);
        let Viewport { from, to, .. } = self.viewport;
        let mountains = match self.picture {
            Picture::Mountain => self.mountains.picture(from, to),
            Picture::Lines => Vec::new(),
        };
        self.prepared = Prepared {
            columns: Columns::new(layout.plot, &self.viewport, &axis),
            rows: Rows::new(layout.plot, &self.viewport, self.limits()),
            axis,
            layout,
            mountains,
            series: self.series.picture(from, to),
        };
    }

    fn frame(&self) -> Frame<'_> {
        Frame {
            layout: &self.prepared.layout,
            columns: &self.prepared.columns,
            rows: &self.prepared.rows,
            palette: &self.palette,
        }
    }

    /// The picture: everything that does not follow the pointer.
    pub fn base_scene(&mut self) -> Scene {
        self.prepare();
        let frame = self.frame();
        let canvas = frame.layout.canvas;
        let mut scene = Scene::new((canvas.x1, canvas.y1));
        axes::draw_levels(
            &mut scene,
            self.viewport.visible_levels(self.limits()),
            frame,
        );
        mountain::draw(&mut scene, &self.prepared.mountains, frame);
        for series in [
            Series::Reserved,
            Series::Active,
            Series::Requested,
            Series::Allocated,
        ] {
            let style = line_style(self.picture, series);
            lines::draw(&mut scene, &self.prepared.series, series, style, frame);
        }
        if let Some(marks) = &self.marks {
            lanes::draw(&mut scene, marks, frame);
            axes::draw_marks(&mut scene, marks, frame);
        }
        axes::draw_cut(
            &mut scene,
            self.viewport.visible_levels(self.limits()).0,
            frame,
        );
        axes::draw_positions(&mut scene, &self.viewport, &self.prepared.axis, frame);
        scene
    }

    /// What follows the pointer and the selection; drawn over the picture.
    pub fn overlay_scene(&self) -> Scene {
        let frame = self.frame();
        let canvas = frame.layout.canvas;
        let mut scene = Scene::new((canvas.x1, canvas.y1));
        let pieces = &self.prepared.mountains;
        if let Some(selection) = self.selection {
            highlight::selection(&mut scene, pieces, selection, frame);
        }
        if let Some(life) = self.selected_life {
            highlight::life(&mut scene, life, frame);
        }
        match (self.rubber, self.pointer) {
            (Some(rubber), _) => highlight::rubber(&mut scene, rubber, frame),
            (None, Some((x, y))) => {
                let hit = self.hit(x, y);
                highlight::pointer(&mut scene, (x, y), hit.as_ref(), pieces, frame);
            }
            (None, None) => {}
        }
        scene
    }

    /// Whether a point is in the plot or the lanes over it.
    pub fn is_over_events(&self, x: f64) -> bool {
        let plot = self.prepared.layout.plot;
        let x = (x * self.measure.scale) as i32;
        (plot.x0..plot.x1).contains(&x)
    }

    /// What is under a point, CSS pixels.
    pub fn hit(&self, x: f64, y: f64) -> Option<Hit> {
        let scale = self.measure.scale;
        let (x, y) = ((x * scale) as i32, (y * scale) as i32);
        hit_test::at(
            &self.prepared.mountains,
            self.marks.as_deref(),
            self.frame(),
            x,
            y,
        )
    }

    /// The four series at a point, CSS pixels from the left, and the events that they are of.
    pub fn extents(&self, x: f64) -> Option<(Extents, Span<EventIdx>)> {
        let x = (x * self.measure.scale) as i32;
        let (first, end) = self.prepared.columns.events_at(x)?;
        let middle = (first + end) / 2.0;
        let mut pieces = self.prepared.series.iter();
        let piece = pieces.find(|p| p.from <= middle && middle < p.to)?;
        let tile = &piece.tile;
        let part = lines::part(tile, piece.from, piece.to);
        let runs = self.prepared.columns.runs(part);
        let run = runs.iter().find(|run| (run.x0..run.x1).contains(&x))?;
        let event = |bucket: usize| {
            let event = tile.id.first_event() + bucket as u64 * tile.id.bucket_events();
            EventIdx(event.min(u64::from(self.n_events)) as u32)
        };
        let extents = Series::ALL.map(|series| {
            let (low, high) = lines::extent(tile, series, run.first, run.end);
            (Bytes(low as u64), Bytes(high as u64))
        });
        Some((extents, Span::new(event(run.first), event(run.end))))
    }

    /// Time of an event position in microseconds since the start of the trace, when times are
    /// known. As exact as the tiles at hand.
    pub fn time_at(&self, event: f64) -> Option<f64> {
        let root = self
            .series
            .get(tile_cache::root(u64::from(self.n_events)))?;
        let Viewport { from, to, .. } = self.viewport;
        let finer = tile_cache::wanted(from, to, u64::from(self.n_events));
        let finer = self.series.get(finer).map(Rc::as_ref);
        match AxisMap::new(Axis::Time, Some(root), finer) {
            AxisMap::Event => None,
            map @ AxisMap::Time(_) => Some(map.position(event)),
        }
    }

    /// Fractions of the plot at a point in CSS pixels.
    pub fn fractions(&self, x: f64, y: f64) -> (f64, f64) {
        self.prepared.layout.fractions(x, y)
    }

    /// Zooms vertically to where the visible events differ from one another.
    pub fn frame_activity(&mut self) {
        let tops = self.prepared.series.iter().flat_map(|piece| {
            let part = lines::part(&piece.tile, piece.from, piece.to);
            let runs = self.prepared.columns.runs(part);
            runs.into_iter()
                .map(|run| lines::extent(&piece.tile, Series::Active, run.first, run.end))
        });
        let high = tops.map(|(_, high)| high).fold(0.0, f64::max);
        let quiet = self.prepared.mountains.iter().map(|piece| {
            let part = piece.tile.part(piece.from, piece.to);
            let bucket = |event: f64| ((event - part.first) / part.bucket_events) as usize;
            let last = part.n_buckets.saturating_sub(1);
            let (first, end) = (bucket(part.from).min(last), bucket(part.to).min(last) + 1);
            piece.tile.layout.quiet_level(first, end).get() as f64
        });
        let low = quiet.fold(f64::INFINITY, f64::min);
        let low = if low.is_finite() { low.min(high) } else { 0.0 };
        let margin = (high - low) * 0.06;
        let Viewport { from, to, .. } = self.target;
        let levels = (low - margin, high + margin);
        self.act(
            Action::Frame {
                events: (from, to),
                levels,
            },
            Motion::Eased,
        );
    }

    /// Shows the selected block: its life with some room around it, and its band.
    pub fn frame_selection(&mut self) -> bool {
        let Some(Selection::Block(block)) = self.selection else {
            return false;
        };
        let Some((piece, index)) = neighbours::find(&self.prepared.mountains, block) else {
            return self.frame_life();
        };
        let live = piece.tile.tile.blocks[index].live;
        let (start, end) = (f64::from(live.start().0), f64::from(live.end().0));
        let samples = &piece.tile.tile.samples;
        let columns = samples.partition_point(|&s| s < live.start())
            ..samples.partition_point(|&s| s < live.end());
        let bands: Vec<_> = columns
            .filter_map(|column| piece.tile.layout.find(column, Item::Block(index as u32)))
            .collect();
        let low = bands.iter().map(|b| b.bottom.get()).min().unwrap_or(0) as f64;
        let high = bands.iter().map(|b| b.top.get()).max().unwrap_or(0) as f64;
        let events = widened((start, end), 0.6);
        let levels = widened((low, high), 0.8);
        let levels = (levels.0, levels.1.min(self.high));
        self.act(Action::Frame { events, levels }, Motion::Eased);
        true
    }

    fn frame_life(&mut self) -> bool {
        let Some(life) = self.selected_life else {
            return false;
        };
        let (from, to) = widened(life, 0.6);
        self.act(Action::Events { from, to }, Motion::Eased);
        true
    }

    /// The allocation next to the selected one among those drawn alone; with nothing selected, the
    /// first in the window.
    pub fn neighbour(&self, towards: Neighbour) -> Option<BlockIdx> {
        let from = match self.selection {
            Some(Selection::Block(block)) => Some(block),
            Some(Selection::Group(_)) | None => None,
        };
        let Viewport {
            from: first, to, ..
        } = self.viewport;
        neighbours::next(&self.prepared.mountains, (first, to), from, towards)
    }

    /// A group's totals over the window's tile.
    pub fn group(&self, key: u32) -> Option<GroupFacts> {
        facts::group(&self.prepared.mountains, key)
    }

    /// What the memory consists of where most of it is allocated in the window.
    pub fn composition(&self) -> Option<Composition> {
        let Prepared {
            mountains, columns, ..
        } = &self.prepared;
        facts::composition(mountains, columns, &self.palette)
    }

    /// The tile of the whole trace, for the minimap.
    pub fn whole(&self) -> Option<&Rc<SeriesTile>> {
        self.series.get(tile_cache::root(u64::from(self.n_events)))
    }

    /// The axis as last painted.
    pub fn axis(&self) -> &AxisMap {
        &self.prepared.axis
    }

    /// Events of the device.
    pub fn n_events(&self) -> u32 {
        self.n_events
    }

    /// Highest level that the picture shows, bytes.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// Selects what a click hit; a click on nothing selects nothing.
    pub fn click(&mut self, x: f64, y: f64) {
        let target = self.hit(x, y).and_then(|hit| hit.target);
        self.select(match target {
            Some(Target::Block { block, .. }) => Some(Selection::Block(block.block)),
            Some(Target::Rest { key, .. }) => Some(Selection::Group(key)),
            Some(Target::Base { .. } | Target::Pending { .. }) | None => None,
        });
    }
}

fn line_style(picture: Picture, series: Series) -> LineStyle {
    match (picture, series) {
        (Picture::Lines, _) => LineStyle {
            thickness: 1.5,
            fill: 0.22,
            joints: Joints::All,
        },
        // Reserved lies above the mountain; the others follow its edge.
        (Picture::Mountain, Series::Reserved) => LineStyle {
            thickness: 1.25,
            fill: 0.0,
            joints: Joints::All,
        },
        (Picture::Mountain, _) => LineStyle {
            thickness: 1.25,
            fill: 0.0,
            joints: Joints::Wide,
        },
    }
}

/// Space over the highest level.
const HEADROOM: f64 = 1.05;

/// What the automatic range shows: the peak, and the capacity when it is not far above.
fn headroom(peak: Bytes, capacity: Option<Bytes>) -> f64 {
    let peak = peak.get().max(1) as f64;
    let near = capacity.map(|c| c.get() as f64).filter(|&c| c < 1.6 * peak);
    near.map_or(peak, |c| c.max(peak)) * HEADROOM
}

fn widened((start, end): (f64, f64), share: f64) -> (f64, f64) {
    let more = (end - start) * share;
    ((start - more).max(0.0), end + more)
}

fn same_view(a: &Viewport, b: &Viewport) -> bool {
    let near = |a: f64, b: f64, unit: f64| (a - b).abs() <= unit;
    let levels = match (a.levels, b.levels) {
        (None, None) => true,
        (Some(a), Some(b)) => near(a.0, b.0, 1.0) && near(a.1, b.1, 1.0),
        _ => false,
    };
    levels && near(a.from, b.from, 0.02) && near(a.to, b.to, 0.02)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::paint;
    use crate::timeline::testing;
    use plotters::prelude::SVGBackend;
    use trace::trace::Step;

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
            capacity: Some(Bytes::mib(900)),
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
        // 12 base and 500 of weights do not move.
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
}
