//! Makes the scenes: the picture, and the overlay that follows the pointer and the selection.

use super::Model;
use crate::axis::AxisMap;
use crate::lines::{self, Joints, LineStyle};
use crate::mountain::{self, Frame, Mountain};
use crate::plot::{Columns, Layout, Rows};
use crate::scene::Scene;
use crate::tile_cache::{self, Piece};
use crate::viewport::Viewport;
use crate::{axes, highlight, host_lane, lanes};
use api::view_state::Picture;
use std::rc::Rc;
use trace::tiles::SeriesTile;
use trace::trace::Series;

/// The data from which a frame is computed. It is kept because questions about the pointer refer to
/// what was painted.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) axis: AxisMap,
    pub(super) layout: Layout,
    pub(super) columns: Columns,
    pub(super) rows: Rows,
    pub(super) mountains: Vec<Piece<Mountain>>,
    pub(super) series: Vec<Piece<SeriesTile>>,
}
impl Model {
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

    pub(super) fn frame(&self) -> Frame<'_> {
        Frame {
            layout: &self.prepared.layout,
            columns: &self.prepared.columns,
            rows: &self.prepared.rows,
            palette: &self.palette,
        }
    }

    /// The picture: everything that does not depend on the pointer.
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
        // It lies on no edge of the mountain either.
        let style = line_style(self.picture, Series::Reserved);
        lines::draw_pinned(&mut scene, &self.prepared.series, style, frame);
        if let Some(marks) = &self.marks {
            lanes::draw(&mut scene, marks, frame);
            axes::draw_marks(&mut scene, marks, frame);
            host_lane::draw(&mut scene, marks, frame);
        }
        axes::draw_cut(
            &mut scene,
            self.viewport.visible_levels(self.limits()).0,
            frame,
        );
        axes::draw_positions(&mut scene, &self.viewport, &self.prepared.axis, frame);
        scene
    }

    /// The overlay that follows the pointer and the selection, drawn over the picture.
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
                if let Some(stay) = hit.as_ref().and_then(|hit| hit.stay) {
                    host_lane::stand_out(&mut scene, stay, frame);
                }
                highlight::pointer(&mut scene, (x, y), hit.as_ref(), pieces, frame);
            }
            (None, None) => {}
        }
        scene
    }
}

fn line_style(picture: Picture, series: Series) -> LineStyle {
    match (picture, series) {
        (Picture::Lines, _) => LineStyle {
            thickness: 1.5,
            fill: 0.22,
            joints: Joints::All,
        },
        // Reserved lies above the mountain; the other lines follow its edge.
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
