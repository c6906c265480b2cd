//! The four series as lines. A line shows the highest level of each pixel column, and a lighter
//! fill reaches down to the lowest, so that neither a peak nor a dip is lost at any zoom.

use super::colours::Rgba;
use super::mountain::Frame;
use super::plot::{PxRect, TilePart};
use super::scene::Scene;
use super::tile_cache::Piece;
use trace::tiles::SeriesTile;
use trace::trace::Series;

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineStyle {
    /// Thickness, CSS pixels.
    pub thickness: f64,
    /// Opacity of the fill between lowest and highest, 0 for none.
    pub fill: f64,
    /// Which steps of the line are joined.
    pub joints: Joints,
}

/// Which steps of a line are joined by vertical strokes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joints {
    /// All.
    All,
    /// Only steps between stretches that are wide enough to leave room between the strokes. Strokes
    /// at every pixel would hide the mountain below.
    Wide,
}

/// The part of a series tile to show for a piece of the window.
pub fn part(tile: &SeriesTile, from: f64, to: f64) -> TilePart {
    TilePart {
        first: tile.id.first_event() as f64,
        bucket_events: tile.id.bucket_events() as f64,
        n_buckets: tile.series[0].len(),
        from,
        to,
    }
}

/// Lowest and highest level of a series over buckets `first..end`, bytes.
pub fn extent(tile: &SeriesTile, series: Series, first: usize, end: usize) -> (f64, f64) {
    let buckets = &tile.series[series as usize][first..end];
    let low = buckets.iter().map(|e| e.min.get()).min().unwrap_or(0);
    let high = buckets.iter().map(|e| e.max.get()).max().unwrap_or(0);
    (low as f64, high as f64)
}

/// Lowest and highest level of the pinned host memory over buckets `first..end`, bytes, if the tile
/// has it.
pub fn pinned_extent(tile: &SeriesTile, first: usize, end: usize) -> Option<(f64, f64)> {
    let buckets = tile.pinned.as_ref()?.line.get(first..end)?;
    let low = buckets.iter().map(|e| e.min.get()).min()?;
    let high = buckets.iter().map(|e| e.max.get()).max()?;
    Some((low as f64, high as f64))
}

/// A stretch at one height.
#[derive(Clone, Copy)]
struct Stretch {
    x0: i32,
    x1: i32,
    high: i32,
    low: i32,
}

/// Adds one series.
pub fn draw(
    scene: &mut Scene,
    pieces: &[Piece<SeriesTile>],
    series: Series,
    style: LineStyle,
    frame: Frame<'_>,
) {
    let level = |tile: &SeriesTile, first, end| Some(extent(tile, series, first, end));
    let colour = frame.palette.series[series as usize];
    draw_line(scene, pieces, level, (colour, style), frame);
}

/// Adds the pinned host memory, where the tiles have it.
pub fn draw_pinned(
    scene: &mut Scene,
    pieces: &[Piece<SeriesTile>],
    style: LineStyle,
    frame: Frame<'_>,
) {
    let look = (frame.palette.pinned, style);
    draw_line(scene, pieces, pinned_extent, look, frame);
}

fn draw_line(
    scene: &mut Scene,
    pieces: &[Piece<SeriesTile>],
    level: impl Fn(&SeriesTile, usize, usize) -> Option<(f64, f64)>,
    (colour, style): (Rgba, LineStyle),
    frame: Frame<'_>,
) {
    let mut stretches: Vec<Stretch> = Vec::new();
    for piece in pieces {
        for run in frame.columns.runs(part(&piece.tile, piece.from, piece.to)) {
            let Some((low, high)) = level(&piece.tile, run.first, run.end) else {
                continue;
            };
            let (high, low) = (frame.rows.row(high), frame.rows.row(low));
            match stretches.last_mut() {
                Some(s) if s.x1 == run.x0 && (s.high, s.low) == (high, low) => s.x1 = run.x1,
                _ => stretches.push(Stretch {
                    x0: run.x0,
                    x1: run.x1,
                    high,
                    low,
                }),
            }
        }
    }
    if style.fill > 0.0 {
        let fill = colour.with_alpha(style.fill);
        for s in &stretches {
            scene.fill(
                PxRect {
                    x0: s.x0,
                    y0: s.high,
                    x1: s.x1,
                    y1: s.low,
                },
                fill,
            );
        }
    }
    let thick = frame.layout.px(style.thickness);
    let joined_from = match style.joints {
        Joints::All => 0,
        Joints::Wide => frame.layout.px(3.0),
    };
    let pen = Pen {
        colour,
        thick,
        joined_from,
        plot: frame.layout.plot,
    };
    trace_line(scene, &stretches, pen);
}

/// The style of a line.
#[derive(Clone, Copy)]
struct Pen {
    colour: Rgba,
    thick: i32,
    /// Stretches narrower than this are not joined to their neighbours.
    joined_from: i32,
    plot: PxRect,
}

/// Draws horizontal strokes and the vertical ones that join them. They never overlap.
fn trace_line(scene: &mut Scene, stretches: &[Stretch], pen: Pen) {
    let Pen {
        colour,
        thick,
        joined_from,
        plot,
    } = pen;
    let top_of = |row: i32| (row - thick / 2).clamp(plot.y0, plot.y1 - thick);
    let mut before: Option<(i32, bool)> = None;
    for s in stretches {
        let top = top_of(s.high);
        let wide = s.x1 - s.x0 >= joined_from;
        let from = match before {
            Some((level, was_wide)) if wide || was_wide => level,
            _ => top,
        };
        let x1 = (s.x0 + thick).min(s.x1);
        let joint = PxRect {
            x0: s.x0,
            y0: from.min(top),
            x1,
            y1: from.max(top) + thick,
        };
        scene.fill(joint, colour);
        let stroke = PxRect {
            x0: x1,
            y0: top,
            x1: s.x1,
            y1: top + thick,
        };
        scene.fill(stroke, colour);
        before = Some((top, wide));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::AxisMap;
    use crate::colours::Palette;
    use crate::plot::{Columns, Layout, Measure, Rows};
    use crate::scene::Shape;
    use crate::testing;
    use crate::viewport::{Limits, Viewport};
    use std::rc::Rc;
    use trace::tiles::TileId;

    fn draw_levels(levels: &[u64], fill: f64) -> (Scene, PxRect) {
        let id = TileId { level: 0, index: 0 };
        let n = levels.len() as u32;
        let tile = Rc::new(testing::series(id, n, levels));
        let viewport = Viewport::whole(f64::from(n));
        let pieces = [Piece {
            tile,
            id,
            from: 0.0,
            to: f64::from(n),
        }];
        let layout = Layout::new(Measure {
            width: 159.0,
            height: 130.0,
            scale: 1.0,
            has_steps: false,
            has_host: false,
            lanes: 0,
        });
        let high = f64::from(100 << 20);
        let limits = Limits {
            n_events: f64::from(n),
            auto_high: high,
            max_high: high,
        };
        let columns = Columns::new(layout.plot, &viewport, &AxisMap::Event);
        let rows = Rows::new(layout.plot, &viewport, limits);
        let palette = Palette::light();
        let mut scene = Scene::new((159, 130));
        let frame = Frame {
            layout: &layout,
            columns: &columns,
            rows: &rows,
            palette: &palette,
        };
        let style = LineStyle {
            thickness: 1.0,
            fill,
            joints: Joints::All,
        };
        draw(&mut scene, &pieces, Series::Reserved, style, frame);
        (scene, layout.plot)
    }

    #[test]
    fn a_peak_of_one_event_in_a_thousand_reaches_its_height() {
        let mut levels = vec![10; 1000];
        levels[613] = 88;
        let (scene, plot) = draw_levels(&levels, 0.0);
        let highest = scene.shapes.iter().map(|s| match s {
            Shape::Fill { rect, .. } | Shape::Hatch { rect, .. } => rect.y0,
        });
        // Reserved is 2 MiB higher in these tiles, and a row is one MiB.
        assert_eq!(plot.y1 - highest.min().unwrap(), 90);
    }

    #[test]
    fn a_level_line_is_one_stroke_with_its_fill() {
        let (scene, plot) = draw_levels(&[50; 20], 0.2);
        let rects: Vec<PxRect> = scene
            .shapes
            .iter()
            .map(|s| match s {
                Shape::Fill { rect, .. } | Shape::Hatch { rect, .. } => *rect,
            })
            .collect();
        assert_eq!(rects.len(), 3, "fill, joint, stroke: {rects:?}");
        assert_eq!(rects[0].height(), 2);
        assert_eq!((rects[1].x0, rects[2].x1), (plot.x0, plot.x1));
    }
}
