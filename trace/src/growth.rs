//! Growth per step: the one definition of "bytes a step".
//!
//! A line is fitted by least squares through *allocated* at the ends of whole steps, from a settled
//! step on; the error is its 95 % interval. A level that shifts once (a model is loaded in the
//! middle of the run) is no growth, so the line may have one such step. Where a leak is proven
//! block by block, the sum of its groups is exact, and the fit is not. [`Growth::proven`] adds to
//! it what the rest of the level grows by, so that a list, a page, a card, a comparison and a bench
//! all say the same.

use crate::median;
use serde::{Deserialize, Serialize};

/// How many first steps are left out, because they differ from the others (optimizer state,
/// workspaces, caches that fill). If there are few steps, a quarter of them is left out instead.
pub const UNSETTLED_STEPS: usize = 5;

/// Growth per step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = GrowthLine))]
pub struct Growth {
    /// Bytes a step.
    pub slope: f64,
    /// Half of the 95 % interval of the slope, bytes a step; `None` with fewer than three steps.
    pub error: Option<f64>,
    /// The first step (its position) that the line is fitted to.
    pub from_step: u32,
    /// How many steps it is fitted to.
    pub steps: u32,
}

/// If the fit differs from the proven growth by no more than this share, they count as the same.
const SAME: f64 = 0.005;

impl Growth {
    /// The growth of levels at the ends of steps; `None` with fewer than two settled steps. Growth
    /// that has ended is none: then it is that of the last steps.
    pub fn of(ends: &[u64]) -> Option<Growth> {
        let mut from = settled(ends.len());
        let mut line = Line::settled(ends)?;
        if let Some(last) = after_growth(&ends[from..], line.slope) {
            from = ends.len() - last.len();
            line = Line::fit(last)?;
        }
        Some(Growth {
            slope: line.slope,
            error: line.error,
            from_step: from as u32,
            steps: (ends.len() - from) as u32,
        })
    }

    /// The growth since an end after which it is known that what grew does so no more; `None` if
    /// too few ends follow it.
    pub fn since(ends: &[u64], from: usize) -> Option<Growth> {
        let last = ends.get(from..).filter(|last| last.len() > MIN_LAST)?;
        let line = Line::fit(last)?;
        Some(Growth {
            slope: line.slope,
            error: line.error,
            from_step: from as u32,
            steps: last.len() as u32,
        })
    }

    /// What is told where the error is not: a slope within its own error is no growth. `None` where
    /// the error is not known. Then there are two settled ends, and any two differ.
    pub fn told(self) -> Option<f64> {
        let error = self.error?;
        Some(match self.slope.abs() <= error {
            true => 0.0,
            false => self.slope,
        })
    }

    /// This growth, given that `proven` bytes a step are known to be kept, and how the rest of the
    /// level grows. The rest counts if it rises by more than the error of its fit: then something
    /// else grows too. A fit over few or uneven steps can be far off.
    ///
    /// What is proven and the rest can be more than the whole: a place that is proven keeps more
    /// in its own steps than in all, where it takes turns with places that are not. So the sum is
    /// not more than the fit of the whole where that is surely less.
    pub fn proven(self, proven: f64, rest: Option<Growth>) -> Growth {
        let rises = |rest: &Growth| {
            let error = rest.error.unwrap_or(f64::INFINITY);
            rest.slope > error.max(SAME * proven)
        };
        let slope = match rest.filter(rises) {
            Some(rest) => self.at_most(proven + rest.slope).max(proven),
            None => proven,
        };
        Growth { slope, ..self }
    }

    /// This slope where it and its error are less than `sum`, else `sum`.
    fn at_most(self, sum: f64) -> f64 {
        match self.error.filter(|error| self.slope + error < sum) {
            Some(_) => self.slope,
            None => sum,
        }
    }
}

/// The last part of the steps in which growth that goes on would show.
const LAST: usize = 3;
/// Fewer last steps may be flat by chance.
const MIN_LAST: usize = 5;
/// What rises by less than this share of the usual growth no longer grows.
const ENDED: f64 = 0.25;

/// The last third of the levels, if they grew before, and lie flat there for twice as long as they
/// ever paused.
fn after_growth(levels: &[u64], slope: f64) -> Option<&[u64]> {
    let n = levels.len() / LAST;
    let (before, last) = levels.split_at(levels.len() - n - 1);
    let (low, high) = (*last.iter().min()?, *last.iter().max()?);
    let is_flat = ((high - low) as f64) < ENDED * slope * n as f64;
    let rises = |pair: &[u64]| pair[1] as f64 - pair[0] as f64 > slope / 2.0;
    let pairs = before.windows(2).enumerate();
    let rises: Vec<usize> = pairs
        .filter(|(_, pair)| rises(pair))
        .map(|(at, _)| at)
        .collect();
    let pause = rises.windows(2).map(|pair| pair[1] - pair[0]).max()?;
    (n >= MIN_LAST && is_flat && n >= 2 * pause).then_some(last)
}

/// Among fewer levels, one change is too many to be left out.
const MIN_FOR_SHIFT: usize = 6;
/// How much larger than any other change a single one must be to be a shift of the level.
const SHIFT: f64 = 4.0;

/// Levels without the one change that is far larger than all others; `None` if there is none.
fn without_shift(levels: &[u64]) -> Option<Vec<u64>> {
    if levels.len() < MIN_FOR_SHIFT {
        return None;
    }
    let change = |pair: &[u64]| i128::from(pair[1]) - i128::from(pair[0]);
    let changes: Vec<i128> = levels.windows(2).map(change).collect();
    let usual = median::upper(changes.iter().copied())?;
    let mut unusual: Vec<(u128, usize)> = (changes.iter().zip(0..))
        .map(|(change, at)| ((change - usual).unsigned_abs(), at))
        .collect();
    unusual.sort_unstable();
    let &[.., (second, _), (first, at)] = unusual.as_slice() else {
        return None;
    };
    if first as f64 <= SHIFT * second as f64 {
        return None;
    }
    let shift = changes[at] - usual;
    let moved = |level: u64| u64::try_from(i128::from(level) - shift).unwrap_or(0);
    let (before, after) = levels.split_at(at + 1);
    Some(
        [
            before.to_vec(),
            after.iter().map(|&level| moved(level)).collect(),
        ]
        .concat(),
    )
}

/// The position of the first settled step of `n`.
pub fn settled(n: usize) -> usize {
    UNSETTLED_STEPS.min(n.div_ceil(4))
}

/// A line through values at 0, 1, 2 …
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Value at 0.
    pub at_zero: f64,
    /// Rise from one value to the next.
    pub slope: f64,
    /// Half of the 95 % interval of the slope; `None` with fewer than three values.
    pub error: Option<f64>,
    /// Standard error of the slope; `None` with fewer than three values.
    pub standard_error: Option<f64>,
}

impl Line {
    /// `None` with fewer than two values.
    pub fn fit(values: &[u64]) -> Option<Line> {
        let points: Vec<(f64, f64)> = values
            .iter()
            .enumerate()
            .map(|(x, &y)| (x as f64, y as f64))
            .collect();
        Line::through(&points)
    }

    /// Through the levels at the ends of settled steps, where one shift is no growth; `None` with
    /// fewer than two such steps.
    pub fn settled(ends: &[u64]) -> Option<Line> {
        let ends = &ends[settled(ends.len())..];
        let line = Line::fit(ends)?;
        let shifted = without_shift(ends).and_then(|levels| Line::fit(&levels));
        Some(shifted.filter(|fit| fit.is_flatter(&line)).unwrap_or(line))
    }

    /// Through points; `None` with fewer than two different abscissas.
    pub fn through(points: &[(f64, f64)]) -> Option<Line> {
        let n = points.len() as f64;
        let mean_x = points.iter().map(|p| p.0).sum::<f64>() / n.max(1.0);
        let mean_y = points.iter().map(|p| p.1).sum::<f64>() / n.max(1.0);
        let sxx: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
        let sxy: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
        if sxx <= 0.0 {
            return None;
        }
        let slope = sxy / sxx;
        // Computed from the middle of the points, not from 0: so large levels far from the axis
        // lose no digits.
        let at = |x: f64| mean_y + slope * (x - mean_x);
        let residual: f64 = points.iter().map(|p| (p.1 - at(p.0)).powi(2)).sum();
        let freedom = points.len().saturating_sub(2);
        let standard_error = (freedom > 0).then(|| (residual / freedom as f64 / sxx).sqrt());
        Some(Line {
            at_zero: mean_y - slope * mean_x,
            slope,
            error: standard_error.map(|error| student(freedom) * error),
            standard_error,
        })
    }

    /// Whether this line rises or falls by less than another, and in the same direction as far as
    /// its error says. A level that is emptied once in a while shifts too, but grows between.
    fn is_flatter(&self, other: &Line) -> bool {
        let is_flat = self.slope.abs() <= self.error.unwrap_or(0.0);
        let same_way = self.slope * other.slope >= 0.0;
        self.slope.abs() <= other.slope.abs() && (is_flat || same_way)
    }

    /// Value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.at_zero + self.slope * x
    }
}

/// How far values lie from their own trend: largest residual minus smallest, bytes. Two runs may
/// differ by at least as much as the steps of one run do.
pub(crate) fn wobble(values: &[u64]) -> u64 {
    let Some(line) = Line::fit(values) else {
        return 0;
    };
    let residuals = values
        .iter()
        .enumerate()
        .map(|(x, &y)| y as f64 - line.at(x as f64));
    let (low, high) = residuals.fold((0.0_f64, 0.0_f64), |(l, h), r| (l.min(r), h.max(r)));
    (high - low).round() as u64
}

/// Student's factor of the 95 % interval.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
    match freedom {
        1..=10 => TABLE[freedom - 1],
        11..=30 => 2.1,
        _ => 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_that_has_ended_is_none() {
        let told = |ends: &[u64]| Growth::of(ends).and_then(Growth::told);
        // Workspaces are made in steps 6 to 12, one in each.
        let ends = |n: u64| {
            (0..n)
                .map(|step| 100 * step.clamp(5, 12))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&ends(26)), Some(0.0));
        // The last steps are too few.
        assert!(told(&ends(16)).unwrap() > 10.0);
        // It only pauses, as before.
        let rare: Vec<u64> = (0..26).map(|step| 100 * (step / 7)).collect();
        assert!(told(&rare).unwrap() > 10.0);
        // It goes on.
        let all: Vec<u64> = (0..26).map(|step| 100 * step).collect();
        assert_eq!(told(&all), Some(100.0));
    }

    #[test]
    fn the_first_steps_are_left_out() {
        let ends: Vec<u64> = (0..20)
            .map(|i| if i < 5 { 0 } else { 100 + i * 10 })
            .collect();
        let growth = Growth::of(&ends).unwrap();
        assert_eq!((growth.from_step, growth.steps), (5, 15));
        assert!((growth.slope - 10.0).abs() < 1e-9);
        assert!(growth.error.unwrap() < 1e-6);
    }

    #[test]
    fn a_level_that_shifts_once_does_not_grow() {
        let levels = |n: u64, grows: u64, shift: u64| {
            let level = |i| 1000 + i * grows + if i >= n / 2 { shift } else { 0 };
            Growth::of(&(0..n).map(level).collect::<Vec<u64>>()).unwrap()
        };
        assert_eq!(levels(20, 0, 8000).slope, 0.0);
        assert_eq!(levels(20, 0, 8000).error, Some(0.0));
        assert_eq!(levels(80, 64, 8000).slope, 64.0);
        let falls: Vec<u64> = (0..20).map(|i| if i < 12 { 9000 } else { 100 }).collect();
        assert_eq!(Growth::of(&falls).unwrap().slope, 0.0);
        // A list that is emptied once.
        let emptied: Vec<u64> = (0..20).map(|i| 1000 + i % 13 * 100).collect();
        assert!(Growth::of(&emptied).unwrap().slope < 50.0);
        // What comes again is no shift, nor is what becomes faster.
        let again: Vec<u64> = (0..30).map(|i| i / 10 * 100).collect();
        assert!(Growth::of(&again).unwrap().slope > 5.0);
        let faster: Vec<u64> = (0..16).map(|i| i * i).collect();
        assert!(Growth::of(&faster).unwrap().slope > 15.0);
    }

    #[test]
    fn what_is_proven_is_told_and_what_else_the_level_rises_by() {
        let growth = |slope: f64, error: Option<f64>| Growth {
            slope,
            error,
            from_step: 1,
            steps: 3,
        };
        let check = |rest: Option<Growth>, expected| {
            let all = growth(120.0, Some(5.0)).proven(100.0, rest);
            assert_eq!((all.slope, all.error), (expected, Some(5.0)));
        };
        check(None, 100.0);
        check(Some(growth(1.0, Some(5.0))), 100.0);
        check(Some(growth(20.0, Some(5.0))), 120.0);
        check(Some(growth(20.0, None)), 100.0);
        check(Some(growth(0.4, Some(0.0))), 100.0);
        // Places that take turns: what is proven and the rest are more than the whole.
        check(Some(growth(24.9, Some(5.0))), 124.9);
        check(Some(growth(26.0, Some(5.0))), 120.0);
        let slower = growth(90.0, Some(5.0)).proven(100.0, Some(growth(26.0, Some(5.0))));
        assert_eq!(slower.slope, 100.0);
        // Something else shrinks, but the leak goes on.
        check(Some(growth(-80.0, Some(5.0))), 100.0);
    }

    #[test]
    fn few_steps_have_wide_errors_and_one_has_none() {
        assert_eq!(Growth::of(&[7]), None);
        let growth = Growth::of(&[7, 7, 9]).unwrap();
        assert_eq!((growth.slope, growth.error), (2.0, None));
        // The gradients of the last step, which the next one clears, are such a rise.
        assert_eq!(growth.told(), None);
        let growth = Growth::of(&[7, 7, 9, 8]).unwrap();
        assert!(growth.error.unwrap() > growth.slope.abs());
        assert_eq!(growth.told(), Some(0.0));
    }

    #[test]
    fn a_straight_line_is_certain_and_a_zigzag_is_not() {
        let line = Line::fit(&[7, 10, 13, 16, 19]).unwrap();
        assert_eq!((line.slope, line.standard_error), (3.0, Some(0.0)));
        let zigzag = Line::fit(&[0, 10, 0, 10, 0, 10]).unwrap();
        assert!(zigzag.standard_error.unwrap() > zigzag.slope.abs() / 2.0);
        assert_eq!(Line::fit(&[7, 10]).unwrap().standard_error, None);
    }

    #[test]
    fn a_trend_does_not_wobble_and_a_saw_tooth_does() {
        assert_eq!(wobble(&[10, 20, 30, 40]), 0);
        assert!(wobble(&[10, 20, 10, 20, 10, 20]) >= 10);
        assert_eq!(wobble(&[5]), 0);
    }
}
