//! Growth per step: the one definition of "bytes a step".
//!
//! A line is fitted by least squares through *allocated* at the ends of whole steps, from a settled
//! step on; the error is its 95 % interval. Where a leak is proven block by block, the sum of its
//! groups is exact, and the fit is not. [`Growth::proven`] decides which of the two is shown, so
//! that a list, a page, a card, a comparison and a bench all say the same.

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
    /// The growth of levels at the ends of steps; `None` with fewer than two settled steps.
    pub fn of(ends: &[u64]) -> Option<Growth> {
        let from = settled(ends.len());
        let line = Line::fit(&ends[from..])?;
        Some(Growth {
            slope: line.slope,
            error: line.error,
            from_step: from as u32,
            steps: (ends.len() - from) as u32,
        })
    }

    /// This growth, given that `proven` bytes a step are known to be kept. If the fit does not
    /// contradict the proven rate, the proven rate is shown, because a fit over few or uneven steps
    /// can be far off. If the level rises by more than the fit's error allows, the fit is shown:
    /// then something else grows too.
    pub fn proven(self, proven: f64) -> Growth {
        let more = self.slope - proven;
        let error = self.error.unwrap_or(f64::INFINITY);
        match more > error.max(SAME * proven) {
            true => self,
            false => Growth {
                slope: proven,
                ..self
            },
        }
    }
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
    fn what_is_proven_is_told_unless_the_level_says_more() {
        let growth = |slope: f64, error: Option<f64>| Growth {
            slope,
            error,
            from_step: 1,
            steps: 3,
        };
        let check = |slope, error, proven, expected| {
            assert_eq!(growth(slope, error).proven(proven).slope, expected);
        };
        check(101.0, Some(5.0), 100.0, 100.0);
        check(120.0, Some(5.0), 100.0, 120.0);
        check(120.0, None, 100.0, 100.0);
        check(100.4, Some(0.0), 100.0, 100.0);
        // Something else shrinks, but the leak goes on.
        check(20.0, Some(5.0), 100.0, 100.0);
    }

    #[test]
    fn few_steps_have_wide_errors_and_one_has_none() {
        assert_eq!(Growth::of(&[7]), None);
        assert_eq!(Growth::of(&[7, 7, 9]).unwrap().error, None);
        let growth = Growth::of(&[7, 7, 9, 8]).unwrap();
        assert!(growth.error.unwrap() > growth.slope.abs());
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
