//! Geometry of the what-if chart: levels along the events, in a box of 1000 × 1000.

use super::areas::{SIDE, nice_above, walked};
use api::what_if::{Curves, Replayed, WhatIfDrawn};
use trace::units::Bytes;

/// The chart, laid out.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    curves: Curves,
    /// The number of columns of the longer curve.
    n_columns: usize,
    /// The number of events of the recording: the last column may reach beyond them.
    n_events: u64,
    /// Between which multiples of the computed levels the right ones lie.
    range: [f64; 2],
    /// The limit of what the process may reserve.
    pub limit: Option<Bytes>,
    /// The level at the upper edge.
    pub high: u64,
}

/// Where a column stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Its left edge.
    pub x: f64,
    /// Its first event.
    pub first: u64,
    /// Its last event.
    pub last: u64,
}

/// The levels in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Recorded *allocated*.
    pub allocated: Option<Bytes>,
    /// Recorded *reserved*.
    pub reserved: Option<Bytes>,
    /// *Reserved* as it would be.
    pub computed: Option<Bytes>,
}

impl Levels {
    /// Lays out an answer that has curves, about a recording of so many events.
    pub fn of(drawn: &WhatIfDrawn, n_events: u64) -> Option<Levels> {
        let curves = drawn.curves.clone()?;
        let answer = &drawn.answer;
        let about = answer.at_recorded_limit.as_ref().unwrap_or(&answer.what_if);
        let range = range(answer.calibration.peak_reserved_error.abs(), about);
        let recorded = curves.recorded.reserved.iter();
        let computed = curves.what_if.reserved.iter();
        let highest = recorded.chain(computed).map(|bytes| bytes.get()).max();
        let highest = (highest.unwrap_or(0) as f64 * range[1]).ceil() as u64;
        // A limit far above everything would make the curves flat.
        let limit = about.limit;
        let shown = limit.filter(|limit| limit.get() / 2 <= highest);
        let highest = highest.max(shown.map_or(0, |limit| limit.get()));
        Some(Levels {
            n_columns: curves
                .recorded
                .reserved
                .len()
                .max(curves.what_if.reserved.len()),
            curves,
            n_events,
            range,
            limit: shown,
            high: nice_above(highest),
        })
    }

    /// The vertical position of a level, from the top.
    pub fn y(&self, level: f64) -> f64 {
        SIDE - level / self.high.max(1) as f64 * SIDE
    }

    fn x(&self, column: usize) -> f64 {
        column as f64 / self.n_columns.max(1) as f64 * SIDE
    }

    /// A curve as steps, as SVG path data.
    fn steps(&self, levels: &[Bytes]) -> String {
        let mut path = String::new();
        for (column, level) in levels.iter().enumerate() {
            let y = self.y(level.get() as f64);
            let (from, to) = (self.x(column), self.x(column + 1));
            let sign = if column == 0 { 'M' } else { 'L' };
            path += &format!("{sign}{from:.1} {y:.1}L{to:.1} {y:.1}");
        }
        path
    }

    /// Recorded *reserved*.
    pub fn recorded(&self) -> String {
        self.steps(&self.curves.recorded.reserved)
    }

    /// Recorded *allocated*.
    pub fn allocated(&self) -> String {
        self.steps(&self.curves.recorded.allocated)
    }

    /// *Reserved* as it would be.
    pub fn computed(&self) -> String {
        self.steps(&self.curves.what_if.reserved)
    }

    /// The possible error around that curve; `None` if nothing is known to make it wrong.
    pub fn band(&self) -> Option<String> {
        if self.range == [1.0, 1.0] {
            return None;
        }
        let [low, high] = self.range;
        let levels = self.curves.what_if.reserved.iter().enumerate();
        let edge = |share: f64| {
            let at = move |(column, level): (usize, &Bytes)| {
                let y = self.y(level.get() as f64 * share).max(0.0);
                [(self.x(column), y), (self.x(column + 1), y)]
            };
            levels.clone().flat_map(at).collect::<Vec<_>>()
        };
        let mut points = edge(high);
        let mut lower = edge(low);
        lower.reverse();
        points.extend(lower);
        let points = points.iter().enumerate().map(|(i, (x, y))| {
            let sign = if i == 0 { 'M' } else { 'L' };
            format!("{sign}{x:.1} {y:.1}")
        });
        Some(points.collect::<String>() + "Z")
    }

    /// Where the computed curve ends, if it ends before the recorded one.
    pub fn end(&self) -> Option<f64> {
        let n = self.curves.what_if.reserved.len();
        (n < self.curves.recorded.reserved.len()).then(|| self.x(n))
    }

    /// The event at the right edge.
    pub fn last_event(&self) -> u64 {
        self.place(self.n_columns.saturating_sub(1)).last
    }

    /// The column at a share of the width.
    pub fn column(&self, x: f64) -> Option<usize> {
        let last = self.n_columns.checked_sub(1)?;
        Some(((x.clamp(0.0, 1.0) * self.n_columns as f64) as usize).min(last))
    }

    /// The column that a key leads to.
    pub fn moved(&self, from: Option<usize>, key: &str) -> Option<usize> {
        walked(from, self.n_columns, key)
    }

    /// Where a column stands.
    pub fn place(&self, column: usize) -> Place {
        let wide = u64::from(self.curves.events_per_column);
        let first = column as u64 * wide;
        let last = (first + wide).min(self.n_events).saturating_sub(1);
        Place {
            x: self.x(column),
            first: first.min(last),
            last,
        }
    }

    /// The levels in a column; `None` after the end of a curve.
    pub fn at(&self, column: usize) -> Level {
        let recorded = &self.curves.recorded;
        let get = |levels: &[Bytes]| levels.get(column).copied();
        Level {
            allocated: get(&recorded.allocated),
            reserved: get(&recorded.reserved),
            computed: get(&self.curves.what_if.reserved),
        }
    }
}

/// The rules may be wrong by a share, and the peak may depend on guessed addresses, or on when
/// other streams are done.
fn range(error: f64, about: &Replayed) -> [f64; 2] {
    let peak = about.peak_reserved.get().max(1) as f64;
    let [low, high] = about.peak_reserved_range.map(|b| b.get() as f64 / peak);
    [low.min(1.0 - error), high.max(1.0 + error)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::what_if::{Certainty, Curve, Reaches};

    fn levels(recorded: &[u64], computed: &[u64], error: f64) -> Levels {
        let curve = |reserved: &[u64]| Curve {
            allocated: reserved.iter().map(|&n| Bytes(n / 2)).collect(),
            reserved: reserved.iter().map(|&n| Bytes(n)).collect(),
        };
        let curves = Curves {
            events_per_column: 10,
            recorded: curve(recorded),
            what_if: curve(computed),
        };
        Levels {
            n_columns: recorded.len().max(computed.len()),
            curves,
            n_events: 17,
            range: [1.0 - error, 1.0 + error],
            limit: None,
            high: 1000,
        }
    }

    #[test]
    fn a_curve_is_as_wide_as_its_events() {
        let chart = levels(&[500, 1000], &[250], 0.0);
        assert_eq!(
            chart.recorded(),
            "M0.0 500.0L500.0 500.0L500.0 0.0L1000.0 0.0"
        );
        assert_eq!(chart.computed(), "M0.0 750.0L500.0 750.0");
        assert_eq!((chart.end(), chart.band()), (Some(500.0), None));
        assert_eq!(levels(&[1], &[1], 0.0).end(), None);
    }

    #[test]
    fn keys_lead_along_the_curve() {
        let levels = levels(&[1, 2, 3], &[1, 2, 3], 0.0);
        let check = |from, key: &str, expected| assert_eq!(levels.moved(from, key), expected);
        check(None, "ArrowRight", Some(0));
        check(None, "ArrowLeft", Some(2));
        check(Some(1), "ArrowLeft", Some(0));
        check(Some(0), "ArrowLeft", Some(0));
        check(Some(2), "ArrowRight", Some(2));
        check(Some(2), "Home", Some(0));
        check(Some(0), "End", Some(2));
        check(Some(0), "x", None);
    }

    #[test]
    fn what_is_uncertain_lies_around_the_curve() {
        let chart = levels(&[500], &[500], 0.1);
        let band = "M0.0 450.0L1000.0 450.0L1000.0 550.0L0.0 550.0Z";
        assert_eq!(chart.band().as_deref(), Some(band));
    }

    #[test]
    fn the_band_is_as_wide_as_the_range_of_the_peak() {
        let about = |range: [u64; 2]| Replayed {
            limit: None,
            peak_allocated: Bytes(100),
            peak_reserved: Bytes(200),
            retries: 0,
            oom_step: None,
            oom_place: None,
            oom_event: None,
            oom_segment: None,
            reaches: Reaches::End,
            certainty: Certainty::Would,
            peak_reserved_range: range.map(Bytes),
            spread: None,
            waiting: None,
            earlier: None,
            without_work_space: None,
            on_full_card: None,
        };
        let check = |error, peaks, expected| assert_eq!(range(error, &about(peaks)), expected);
        check(0.0, [200, 200], [1.0, 1.0]);
        check(0.25, [200, 200], [0.75, 1.25]);
        check(0.0, [150, 200], [0.75, 1.0]);
        check(0.25, [100, 225], [0.5, 1.25]);
    }

    #[test]
    fn a_point_is_read_in_its_column() {
        let chart = levels(&[500, 1000], &[250], 0.0);
        assert_eq!(chart.column(0.49), Some(0));
        assert_eq!(chart.column(1.0), Some(1));
        let place = |x, first, last| Place { x, first, last };
        assert_eq!(chart.place(0), place(0.0, 0, 9));
        assert_eq!(chart.place(1), place(500.0, 10, 16));
        assert_eq!(chart.last_event(), 16, "none beyond the recording");
        let level = Level {
            allocated: Some(Bytes(500)),
            reserved: Some(Bytes(1000)),
            computed: None,
        };
        assert_eq!(chart.at(1), level);
        assert_eq!(levels(&[], &[], 0.0).column(0.5), None);
    }
}
