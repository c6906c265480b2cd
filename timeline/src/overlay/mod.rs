//! Curves of several runs over one axis, and below them the difference of two.
//!
//! The baseline is an area, the others are lines. Each part shows its highest level as a line, and
//! a lighter fill reaches down to its lowest, so that neither a peak nor a dip is lost. The lane
//! below shows the highest level of one run minus that of the baseline, up for more and down for
//! less.

mod draw;
mod readout;
mod window;

pub use draw::scene;
pub use readout::{Readout, Row, readout};
pub use window::{narrowest, panned, zoomed};

use crate::colours::{Palette, Rgba};
use crate::plot::PxRect;
use api::compare::Curves;
use trace::compare::curves::Align;
use trace::trace::Series;

/// How much is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Axes and the lane of differences.
    Full,
    /// Only axes, if there is no room for the lane.
    Axes,
    /// Only curves, for many small pictures side by side.
    Small,
}

/// What is drawn.
#[derive(Clone, Copy)]
pub struct Overlay<'a> {
    /// The curves of all runs.
    pub curves: &'a Curves,
    /// First and last visible place of the axis; may differ from that of the curves.
    pub window: (f64, f64),
    /// What the axis is.
    pub align: Align,
    /// Which runs, by position; the first of all is the baseline.
    pub runs: &'a [usize],
    /// The run whose difference from the baseline is shown.
    pub against: usize,
    /// A run that is a range between levels and no line: only shaded.
    pub band: Option<usize>,
    /// Whether the first run is shaded down to the axis, as that which others are compared with.
    pub filled: bool,
    /// How much is drawn.
    pub detail: Detail,
    /// The highest level that must fit; given when several pictures have the same scale.
    pub high: Option<u64>,
}

/// The canvas, CSS pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Canvas {
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// Device pixels per CSS pixel.
    pub scale: f64,
}

/// The positions of all parts, device pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Places {
    /// Whole canvas.
    pub canvas: PxRect,
    /// Device pixels per CSS pixel.
    pub scale: f64,
    /// The curves.
    pub plot: PxRect,
    /// The differences; empty without them.
    pub lane: PxRect,
    /// Labels of the axis; empty in small pictures.
    pub axis: PxRect,
}

impl Places {
    /// Places everything on a canvas.
    pub fn of(canvas: Canvas, detail: Detail) -> Places {
        let Canvas {
            width,
            height,
            scale,
        } = canvas;
        let px = |css: f64| (css * scale).round() as i32;
        let (left, right) = match detail {
            Detail::Small => (0.0, width),
            // A difference has a sign: cut off, a plus would look like a minus.
            Detail::Full if width < 600.0 => (68.0, width - 6.0),
            _ if width < 600.0 => (58.0, width - 6.0),
            _ => (72.0, width - 10.0),
        };
        let row = |top: f64, tall: f64| PxRect {
            x0: px(left),
            y0: px(top),
            x1: px(right).max(px(left) + 1),
            y1: px(top + tall.max(0.0)),
        };
        let (lane, axis, gap) = match detail {
            Detail::Small => (0.0, 0.0, 0.0),
            Detail::Axes => (0.0, 24.0, 0.0),
            Detail::Full => ((height * 0.24).clamp(48.0, 110.0), 24.0, 22.0),
        };
        let top = if detail == Detail::Small { 1.0 } else { 8.0 };
        let plot = (height - top - lane - axis - gap).max(1.0);
        Places {
            canvas: PxRect {
                x0: 0,
                y0: 0,
                x1: px(width),
                y1: px(height),
            },
            scale,
            plot: row(top, plot),
            lane: row(top + plot + gap, lane),
            axis: row(top + plot + gap + lane, axis),
        }
    }

    /// A length in CSS pixels as device pixels, at least one.
    pub fn px(&self, css: f64) -> i32 {
        ((css * self.scale).round() as i32).max(1)
    }

    /// Where a place of the axis lies, device pixels, fractional.
    pub fn x(&self, window: (f64, f64), at: f64) -> f64 {
        let share = (at - window.0) / (window.1 - window.0);
        f64::from(self.plot.x0) + share * f64::from(self.plot.width())
    }

    /// The place of the axis under a CSS pixel, clamped to the plot.
    pub fn axis_at(&self, window: (f64, f64), css_x: f64) -> f64 {
        let x = css_x * self.scale - f64::from(self.plot.x0);
        let share = (x / f64::from(self.plot.width().max(1))).clamp(0.0, 1.0);
        window.0 + share * (window.1 - window.0)
    }
}

impl Overlay<'_> {
    /// Whether the axis covers a single pass: none of the runs has several steps.
    fn is_one_pass(&self) -> bool {
        let (from, to) = self.curves.whole;
        self.align == Align::Step && from >= 0.0 && to <= 1.0
    }

    /// The part of the curves at a place of the axis.
    pub fn part_at(&self, at: f64) -> Option<usize> {
        let (from, to) = self.curves.window;
        let n = self.curves.runs.first()?.parts.len();
        let part = ((at - from) / (to - from) * n as f64).floor();
        (0.0..n as f64).contains(&part).then_some(part as usize)
    }

    /// Where a part begins on the axis.
    pub fn begin_of(&self, part: usize) -> f64 {
        let (from, to) = self.curves.window;
        let n = self
            .curves
            .runs
            .first()
            .map_or(1, |run| run.parts.len().max(1));
        from + (to - from) * part as f64 / n as f64
    }

    /// The parts that are at least partly visible.
    pub fn visible(&self) -> std::ops::Range<usize> {
        let n = self.curves.runs.first().map_or(0, |run| run.parts.len());
        let (from, to) = self.curves.window;
        let at = |x: f64| ((x - from) / (to - from) * n as f64).clamp(0.0, n as f64);
        at(self.window.0).floor() as usize..at(self.window.1).ceil() as usize
    }

    /// The highest visible level of the runs that are drawn.
    pub fn highest(&self) -> u64 {
        let visible = self.visible();
        let runs = self
            .runs
            .iter()
            .filter_map(|&run| self.curves.runs.get(run));
        let parts = runs.flat_map(|run| run.parts[visible.clone()].iter().flatten());
        parts.map(|part| part[1]).max().unwrap_or(0)
    }

    /// The highest level of the compared run minus that of the baseline, in one part.
    pub fn difference(&self, part: usize) -> Option<i64> {
        let high = |run: usize| Some(self.curves.runs.get(run)?.parts.get(part)?.as_ref()?[1]);
        Some(high(self.against)? as i64 - high(0)? as i64)
    }
}

/// The colour of a run: neutral for the baseline.
pub fn run_colour(palette: &Palette, run: usize) -> Rgba {
    const OTHERS: [usize; 6] = [1, 2, 4, 7, 8, 5];
    match run {
        0 => palette.series[Series::Reserved as usize],
        1 => palette.series[Series::Allocated as usize],
        run => palette.groups[OTHERS[(run - 2) % OTHERS.len()]],
    }
}

#[cfg(test)]
mod tests;
