//! The line of a row's steps, as the points of an SVG polyline.

use api::bench::BenchRow;
use trace::units::Bytes;

/// Width and height of the picture, in its own units.
pub const SIZE: (f64, f64) = (120.0, 28.0);

/// Space above and below the line, so that its stroke is not cut.
const MARGIN: f64 = 2.0;

/// What a picture spans: the lowest and the highest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    low: Bytes,
    high: Bytes,
}

impl Range {
    /// The common range of several lines, so that they have the same scale; `None` without a value.
    pub fn of<'a>(lines: impl IntoIterator<Item = &'a [Bytes]>) -> Option<Range> {
        let values = lines.into_iter().flatten().copied();
        let fold = |range: Option<Range>, value: Bytes| {
            Some(range.map_or(
                Range {
                    low: value,
                    high: value,
                },
                |range| Range {
                    low: range.low.min(value),
                    high: range.high.max(value),
                },
            ))
        };
        values.fold(None, fold)
    }
}

/// How many steps the line of a row covers. One that was stopped has no result, so its points are
/// counted: they are evenly spaced over the planned steps.
pub fn covered(row: &BenchRow) -> u32 {
    let spaced = BenchRow::SPARK_POINTS as u32 - 1;
    let gaps = row.spark.len().saturating_sub(1) as u32;
    match &row.result {
        Some(result) => result.steps_run,
        None => gaps * row.steps.div_ceil(spaced).max(1) + 1,
    }
}

/// The points of a line that has `steps` steps; the line of a run that ended early is shorter.
pub fn points(line: &[Bytes], done: u32, steps: u32, range: Range) -> String {
    let (width, height) = SIZE;
    let last = line.len().saturating_sub(1).max(1) as f64;
    let reach = width * f64::from(done.min(steps)) / f64::from(steps.max(1));
    let span = (range.high - range.low).0.max(1) as f64;
    let point = |(at, value): (usize, &Bytes)| {
        let x = reach * at as f64 / last;
        let share = value.saturating_sub(range.low).0 as f64 / span;
        // A line of equal values lies in the middle, not at the bottom.
        let share = if range.high == range.low { 0.5 } else { share };
        let y = height - MARGIN - share * (height - 2.0 * MARGIN);
        format!("{x:.1},{y:.1}")
    };
    let points: Vec<String> = line.iter().enumerate().map(point).collect();
    points.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::bench::{BenchRowState, Known};

    fn bytes<const N: usize>(sizes: [u64; N]) -> [Bytes; N] {
        sizes.map(Bytes)
    }

    #[test]
    fn a_line_spans_the_picture_at_its_scale() {
        let range = Range::of([&bytes([10, 30])[..], &bytes([20])]).unwrap();
        assert_eq!(
            points(&bytes([10, 20, 30]), 3, 3, range),
            "0.0,26.0 60.0,14.0 120.0,2.0"
        );
        assert_eq!(
            points(&bytes([10, 30]), 50, 100, range),
            "0.0,26.0 60.0,2.0"
        );
        assert_eq!(points(&[], 0, 100, range), "");
    }

    #[test]
    fn the_line_of_a_row_that_was_stopped_ends_where_it_was_stopped() {
        let check = |points: u64, steps: u32, expected: u32| {
            let row = BenchRow {
                spark: (0..points).map(Bytes).collect(),
                ..stopped(steps)
            };
            assert_eq!(covered(&row), expected, "{points} of {steps}");
        };
        check(5, 10, 5);
        check(5, 100, 9);
        check(1, 100, 1);
        check(10, 10, 10);
    }

    fn stopped(steps: u32) -> BenchRow {
        BenchRow {
            id: "row_1".parse().unwrap(),
            config: "dense".to_owned(),
            patches: vec![],
            steps,
            state: BenchRowState::Cancelled,
            status: None,
            result: None,
            spark: vec![],
            run: None,
            note: None,
            hypothesis: None,
            asserted: None,
            known: Known::default(),
            seconds: None,
        }
    }

    #[test]
    fn a_flat_line_lies_in_the_middle() {
        let range = Range::of([&bytes([7, 7])[..]]).unwrap();
        assert_eq!(points(&bytes([7, 7]), 2, 2, range), "0.0,14.0 120.0,14.0");
        assert_eq!(Range::of([&[][..]]), None);
    }
}
