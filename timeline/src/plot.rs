//! The positions of all parts on the canvas, in device pixels, and the events of each pixel column.

use super::axis::AxisMap;
use super::viewport::{Limits, Viewport};
use std::ops::Range;

/// A rectangle of device pixels; right and bottom edge are outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PxRect {
    /// Left edge.
    pub x0: i32,
    /// Top edge.
    pub y0: i32,
    /// Right edge.
    pub x1: i32,
    /// Bottom edge.
    pub y1: i32,
}

impl PxRect {
    /// Width, never negative.
    pub fn width(self) -> i32 {
        (self.x1 - self.x0).max(0)
    }

    /// Height, never negative.
    pub fn height(self) -> i32 {
        (self.y1 - self.y0).max(0)
    }

    /// Whether a pixel is inside.
    pub fn contains(self, x: i32, y: i32) -> bool {
        (self.x0..self.x1).contains(&x) && (self.y0..self.y1).contains(&y)
    }
}

/// Height of the lane of the host, CSS pixels.
const HOST_CSS: f64 = 46.0;
/// A canvas lower than this has no room for that lane, CSS pixels.
const LOW_CSS: f64 = 220.0;

/// The areas of the canvas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Whole canvas.
    pub canvas: PxRect,
    /// Device pixels per CSS pixel.
    pub scale: f64,
    /// Step band; empty without steps.
    pub steps: PxRect,
    /// Annotation lanes; empty without annotations.
    pub annotations: PxRect,
    /// Height of one annotation lane.
    pub lane_height: i32,
    /// The picture.
    pub plot: PxRect,
    /// Pinned memory of the host, below the picture; empty without it.
    pub host: PxRect,
    /// Labels of the horizontal axis.
    pub axis: PxRect,
}

/// The input of the layout, in CSS pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// Width of the canvas.
    pub width: f64,
    /// Height of the canvas.
    pub height: f64,
    /// Device pixels per CSS pixel.
    pub scale: f64,
    /// Whether there is a step band.
    pub has_steps: bool,
    /// Annotation lanes wanted.
    pub lanes: u16,
    /// Whether there is a lane for the host.
    pub has_host: bool,
}

impl Layout {
    /// Places everything.
    pub fn new(measure: Measure) -> Layout {
        let Measure {
            width,
            height,
            scale,
            ..
        } = measure;
        let px = |css: f64| (css * scale).round() as i32;
        let gutter = if width < 600.0 { 58.0 } else { 72.0 };
        let (x0, x1) = (px(gutter), px(width - 1.0).max(px(gutter) + 1));
        let row = |top: f64, tall: f64| PxRect {
            x0,
            y0: px(top),
            x1,
            y1: px(top + tall),
        };
        let steps_height = if measure.has_steps { 20.0 } else { 0.0 };
        let lane = 15.0;
        // Lanes never take more than a quarter of the canvas.
        let lanes = f64::from(measure.lanes).min((height / 4.0 / lane).floor());
        let top = steps_height + lanes * lane;
        let plot_top = top + if top > 0.0 { 3.0 } else { 6.0 };
        let axis_height = 24.0;
        let host_height = match measure.has_host {
            true if height >= LOW_CSS => HOST_CSS,
            _ => 0.0,
        };
        let plot_height = (height - plot_top - host_height - axis_height).max(1.0);
        let plot_end = plot_top + plot_height;
        Layout {
            canvas: PxRect {
                x0: 0,
                y0: 0,
                x1: px(width),
                y1: px(height),
            },
            scale,
            steps: row(0.0, steps_height),
            annotations: row(steps_height, lanes * lane),
            lane_height: px(lane),
            plot: row(plot_top, plot_height),
            host: row(plot_end, host_height),
            axis: row(plot_end + host_height, axis_height),
        }
    }

    /// A length in CSS pixels as device pixels, at least one.
    pub fn px(&self, css: f64) -> i32 {
        ((css * self.scale).round() as i32).max(1)
    }

    /// The position of a point in CSS pixels in the plot, as fractions from the left and from the
    /// bottom.
    pub fn fractions(&self, x: f64, y: f64) -> (f64, f64) {
        let (x, y) = (x * self.scale, y * self.scale);
        (
            (x - f64::from(self.plot.x0)) / f64::from(self.plot.width().max(1)),
            (f64::from(self.plot.y1) - y) / f64::from(self.plot.height().max(1)),
        )
    }
}

/// The vertical scale: bytes to rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rows {
    low: f64,
    per_byte: f64,
    plot: PxRect,
}

impl Rows {
    /// The rows of a viewport.
    pub fn new(plot: PxRect, viewport: &Viewport, limits: Limits) -> Rows {
        let (low, high) = viewport.visible_levels(limits);
        Rows {
            low,
            per_byte: f64::from(plot.height()) / (high - low),
            plot,
        }
    }

    /// The row boundary of a level, kept inside the plot.
    pub fn row(&self, bytes: f64) -> i32 {
        let up = (bytes - self.low) * self.per_byte;
        let up = up.clamp(0.0, f64::from(self.plot.height()));
        // Rounds half up. Not `round`: that is a function call, and this is one instruction.
        self.plot.y1 - (up + 0.5).floor() as i32
    }

    /// Whether a level is on screen.
    pub fn shows(&self, bytes: f64) -> bool {
        (0.0..=f64::from(self.plot.height())).contains(&((bytes - self.low) * self.per_byte))
    }

    /// The height of a number of bytes, in fractional pixels.
    pub fn height_of(&self, bytes: f64) -> f64 {
        bytes * self.per_byte
    }

    /// The level at a row, which may be fractional.
    pub fn level(&self, y: f64) -> f64 {
        self.low + (f64::from(self.plot.y1) - y) / self.per_byte
    }

    /// Lowest visible level.
    pub fn low(&self) -> f64 {
        self.low
    }
}

/// Which events each pixel column of the plot shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    x0: i32,
    /// Event positions of the columns' edges; one more than there are columns.
    edges: Vec<f64>,
}

/// Consecutive pixel columns that show the same bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First pixel column.
    pub x0: i32,
    /// One past the last.
    pub x1: i32,
    /// First bucket shown.
    pub first: usize,
    /// One past the last bucket shown.
    pub end: usize,
}

impl Columns {
    /// The columns of a viewport.
    pub fn new(plot: PxRect, viewport: &Viewport, axis: &AxisMap) -> Columns {
        let width = plot.width().max(1);
        let (a, b) = (axis.position(viewport.from), axis.position(viewport.to));
        // The ends are exact: rounding on the time axis must not add a bucket or lose one.
        let edge = |x: i32| match x {
            0 => viewport.from,
            x if x == width => viewport.to,
            x => axis.event(a + (b - a) * f64::from(x) / f64::from(width)),
        };
        Columns {
            x0: plot.x0,
            edges: (0..=width).map(edge).collect(),
        }
    }

    /// The pixel of an event position: the column's left edge, kept on screen.
    pub fn x_of(&self, event: f64) -> i32 {
        let at = self.edges.partition_point(|&e| e < event - 1e-9);
        self.x0 + at.min(self.edges.len() - 1) as i32
    }

    /// First and last event position on screen.
    pub fn window(&self) -> (f64, f64) {
        (self.edges[0], self.edges[self.edges.len() - 1])
    }

    /// The events that the column at a pixel shows.
    pub fn events_at(&self, x: i32) -> Option<(f64, f64)> {
        let column = usize::try_from(x - self.x0).ok()?;
        Some((*self.edges.get(column)?, *self.edges.get(column + 1)?))
    }

    /// Runs of columns over `[from, to)` of a tile that starts at `first` and has `n_buckets` of
    /// `bucket_events`. A column that covers several buckets shows all of them; columns inside one
    /// bucket are one run.
    pub fn runs(&self, part: TilePart) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let shown = self.shown(part);
        for x in shown.clone() {
            let (first, end) = self.buckets(part, &shown, x);
            match runs.last_mut() {
                Some(run) if run.first == first && run.end == end && run.x1 == x => run.x1 = x + 1,
                _ => runs.push(Run {
                    x0: x,
                    x1: x + 1,
                    first,
                    end,
                }),
            }
        }
        runs
    }

    /// The buckets `[first, end)` that the column at a pixel shows of a part; `None` if it shows
    /// none of it.
    pub fn buckets_at(&self, part: TilePart, x: i32) -> Option<(usize, usize)> {
        let shown = self.shown(part);
        shown.contains(&x).then(|| self.buckets(part, &shown, x))
    }

    /// The pixels of the columns that show a part.
    fn shown(&self, part: TilePart) -> Range<i32> {
        let (from, to) = part.reached();
        if from >= to {
            return self.x0..self.x0;
        }
        self.x_of(from)..self.x_of(to)
    }

    /// The buckets of one of the columns that show a part. Together the columns show every bucket
    /// of the part, also where it begins or ends inside one.
    fn buckets(&self, part: TilePart, shown: &Range<i32>, x: i32) -> (usize, usize) {
        let column = (x - self.x0) as usize;
        let (mut a, b) = (self.edges[column], self.edges[column + 1]);
        if x == shown.start {
            a = a.min(part.reached().0);
        }
        let bucket = |event: f64| (event - part.first) / part.bucket_events;
        let first = (bucket(a) + 1e-9).floor().max(0.0) as usize;
        let first = first.min(part.n_buckets - 1);
        // A column that only touches the next bucket does not show it, because that bucket has
        // its own column. After the last column there is none.
        let end = match x + 1 == shown.end {
            true => (bucket(b) - 1e-9).ceil(),
            false => bucket(b).floor(),
        };
        (first, (end as usize).clamp(first + 1, part.n_buckets))
    }
}

/// The part of a tile that is to be shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TilePart {
    /// First event of the tile.
    pub first: f64,
    /// Events per bucket.
    pub bucket_events: f64,
    /// Buckets that the tile has.
    pub n_buckets: usize,
    /// First event position to show.
    pub from: f64,
    /// One past the last.
    pub to: f64,
}

impl TilePart {
    /// The event positions to show that the tile's buckets reach.
    fn reached(self) -> (f64, f64) {
        let end = self.first + self.n_buckets as f64 * self.bucket_events;
        (self.from.max(self.first), self.to.min(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn columns(width: i32, from: f64, to: f64) -> Columns {
        let plot = PxRect {
            x0: 10,
            y0: 0,
            x1: 10 + width,
            y1: 100,
        };
        let viewport = Viewport {
            from,
            to,
            levels: None,
        };
        Columns::new(plot, &viewport, &AxisMap::Event)
    }

    fn part(first: f64, bucket_events: f64, n_buckets: usize, from: f64, to: f64) -> TilePart {
        TilePart {
            first,
            bucket_events,
            n_buckets,
            from,
            to,
        }
    }

    #[test]
    fn wide_buckets_are_one_run_each() {
        let runs = columns(8, 4.0, 6.0).runs(part(0.0, 1.0, 10, 4.0, 6.0));
        assert_eq!(
            runs,
            vec![
                Run {
                    x0: 10,
                    x1: 14,
                    first: 4,
                    end: 5
                },
                Run {
                    x0: 14,
                    x1: 18,
                    first: 5,
                    end: 6
                }
            ]
        );
    }

    #[test]
    fn narrow_buckets_share_a_column() {
        let runs = columns(4, 0.0, 16.0).runs(part(0.0, 1.0, 16, 0.0, 16.0));
        assert_eq!(runs.len(), 4);
        assert_eq!(
            runs[1],
            Run {
                x0: 11,
                x1: 12,
                first: 4,
                end: 8
            }
        );
    }

    #[test]
    fn what_the_trace_does_not_reach_has_no_columns() {
        let columns = columns(10, 0.0, 10.0);
        assert_eq!(
            columns
                .runs(part(0.0, 1.0, 5, 0.0, 10.0))
                .last()
                .unwrap()
                .x1,
            15
        );
        assert_eq!(columns.runs(part(20.0, 1.0, 5, 0.0, 10.0)), vec![]);
        assert_eq!(columns.events_at(9), None);
        assert_eq!(columns.events_at(12), Some((2.0, 3.0)));
    }

    proptest! {
        #[test]
        fn no_bucket_is_skipped_and_no_column_left_out(
            width in 1..300_i32, from in 0.0..500.0_f64, events in 4.0..1500.0_f64, level in 0..4
        ) {
            let bucket = f64::from(1 << level);
            let n = 2048_usize >> level;
            let to = (from + events).min(2048.0);
            let runs = columns(width, from, to).runs(part(0.0, bucket, n, from, to));
            prop_assert_eq!(runs[0].x0, 10);
            prop_assert_eq!(runs.last().unwrap().x1, 10 + width);
            for pair in runs.windows(2) {
                prop_assert_eq!(pair[0].x1, pair[1].x0);
                prop_assert!(pair[1].first <= pair[0].end, "buckets skipped: {:?}", pair);
            }
            let shown = (runs[0].first, runs[runs.len() - 1].end);
            let whole = ((from / bucket).floor(), (to / bucket).ceil());
            prop_assert_eq!(shown, (whole.0 as usize, whole.1 as usize), "an end is left out");
        }
    }
}
