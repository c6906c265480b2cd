//! The timeline's state: window, tiles, selection. It is pure: the browser passes in what happened,
//! and takes scenes and requests out.

mod inquiry;
mod motion;
mod picture;
#[cfg(test)]
mod tests;
mod tiles;

pub use inquiry::Extents;
pub use motion::Motion;
pub use tiles::TileRequest;

use crate::axis::AxisMap;
use crate::colours::Palette;
pub use crate::highlight::Rubber;
use crate::lanes;
use crate::mountain::Mountain;
use crate::plot::{Columns, Layout, Measure, Rows};
use crate::tile_cache::TileCache;
use crate::viewport::{Action, Limits, Viewport};
use api::timeline::Marks;
use api::view_state::{Axis, Picture, Selection, ViewState};
use picture::Prepared;
use std::sync::Arc;
use trace::tiles::{GroupBy, SeriesTile};
use trace::units::Bytes;

/// Memory for laid-out mountains, bytes.
const MOUNTAIN_BUDGET: usize = 96 << 20;
/// Memory for series tiles, bytes (one is 400 KiB).
const SERIES_BUDGET: usize = 16 << 20;

/// The state.
#[derive(Debug)]
pub struct Model {
    n_events: u32,
    /// The highest of reserved and capacity, which the automatic range shows, bytes.
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
    /// The window as it is drawn.
    viewport: Viewport,
    /// The window at the end of the movement.
    target: Viewport,
    marks: Option<Arc<Marks>>,
    palette: Palette,
    series: TileCache<SeriesTile>,
    mountains: TileCache<Mountain>,
    prepared: Prepared,
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
            has_host: false,
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

    /// Takes over a view from a link or from "back". Parts that the model shows already stay as
    /// they are, so that the model's own changes may come back this way.
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
        // The address rounds outwards a little; showing it again must not move the window.
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
        self.measure.has_host = !marks.stays.is_empty();
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

    /// The window at the end of the movement.
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
}

/// Space over the highest level.
const HEADROOM: f64 = 1.05;

/// What the automatic range shows: the peak, and the capacity if it is not much higher.
fn headroom(peak: Bytes, capacity: Option<Bytes>) -> f64 {
    let peak = peak.get().max(1) as f64;
    let near = capacity.map(|c| c.get() as f64).filter(|&c| c < 1.6 * peak);
    near.map_or(peak, |c| c.max(peak)) * HEADROOM
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
