//! Positions of the points and limits of the frontier: step time to the right, peak upwards, both
//! in percent of the plot.

use ::timeline::ticks::{self, Tick};
use api::bench::{Frontier, FrontierLimits, FrontierPoint};
use trace::units::Bytes;

/// A place in the plot, percent from its left and from its bottom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// From the left.
    pub x: f64,
    /// From the bottom.
    pub y: f64,
}

/// Points so close to each other that they share a mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark<'f> {
    /// Where it is: at its first point.
    pub place: Place,
    /// The points, in the order of the frontier.
    pub points: Vec<&'f FrontierPoint>,
}

/// The range of the plot: times from 0 to its right edge, and sizes between two values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plot {
    seconds: f64,
    low: f64,
    high: f64,
}

/// Points closer than this in both directions share a mark, percent.
const NEAR: Place = Place { x: 3.5, y: 7.0 };

impl Plot {
    /// A plot that contains every point; `None` without points.
    pub fn of(frontier: &Frontier) -> Option<Plot> {
        let mut plot: Option<Plot> = None;
        for point in shown(frontier).chain(ran(&frontier.card.points)) {
            let peak = point.peak_allocated.0 as f64;
            let so_far = plot.get_or_insert(Plot {
                seconds: 0.0,
                low: peak,
                high: peak,
            });
            so_far.seconds = so_far.seconds.max(point.step_seconds);
            so_far.low = so_far.low.min(peak);
            so_far.high = so_far.high.max(peak);
        }
        let plot = plot?;
        let margin = ((plot.high - plot.low) * 0.12).max(1.0);
        Some(Plot {
            seconds: (plot.seconds * 1.05).max(f64::MIN_POSITIVE),
            low: (plot.low - margin).max(0.0),
            high: plot.high + margin,
        })
    }

    /// The position of a step with this time and this peak.
    pub fn place(&self, seconds: f64, peak: f64) -> Place {
        Place {
            x: seconds / self.seconds * 100.0,
            y: (peak - self.low) / (self.high - self.low) * 100.0,
        }
    }

    /// The marks, in the order of their first points.
    pub fn marks<'f>(&self, frontier: &'f Frontier) -> Vec<Mark<'f>> {
        let mut marks: Vec<Mark<'f>> = Vec::new();
        for point in shown(frontier) {
            let place = self.place(point.step_seconds, point.peak_allocated.0 as f64);
            let near = |mark: &&mut Mark<'_>| {
                (mark.place.x - place.x).abs() < NEAR.x && (mark.place.y - place.y).abs() < NEAR.y
            };
            match marks.iter_mut().find(near) {
                Some(mark) => mark.points.push(point),
                None => marks.push(Mark {
                    place,
                    points: vec![point],
                }),
            }
        }
        marks
    }

    /// A bar through each point of the card, as a path; it is longer than a dot.
    pub fn bars(&self, frontier: &Frontier) -> String {
        let bar = |point: &FrontierPoint| {
            let Place { x, y } = self.place(point.step_seconds, point.peak_allocated.0 as f64);
            format!("M{x:.2} {:.2}v12", 94.0 - y)
        };
        ran(&frontier.card.points).map(bar).collect()
    }

    /// The limit of copies: a line from the peak of a step that copies nothing to the edge of the
    /// plot.
    pub fn copies(&self, limits: &FrontierLimits) -> [Place; 2] {
        let peak = limits.peak.0 as f64;
        // The line is straight: a step with its peak at `low` takes this long.
        let longest = limits.copy_seconds(Bytes(self.low as u64));
        let within = (self.seconds / longest.max(f64::MIN_POSITIVE)).min(1.0);
        [
            self.place(0.0, peak),
            self.place(longest * within, peak - (peak - self.low) * within),
        ]
    }

    /// Sizes to write beside the plot, with their height.
    pub fn sizes(&self) -> Vec<(String, f64)> {
        const MOST: usize = 8;
        let sizes = ticks::bytes(self.low, self.high, MOST).into_iter();
        let sized = |tick: Tick| (tick.label, self.place(0.0, tick.at).y);
        sizes.map(sized).collect()
    }

    /// Times to write below the plot, with their distance from the left: so few and so short that
    /// there is room for them on the narrowest screen.
    pub fn times(&self) -> Vec<(String, f64)> {
        let (unit, in_a_second) = match self.seconds < 1.0 {
            true => ("ms", 1e3),
            false => ("s", 1.0),
        };
        let times = ticks(0.0, self.seconds * in_a_second, 2.0);
        let is_whole = times.get(1).is_none_or(|step| *step >= 1.0);
        let digits = if is_whole { 0 } else { 1 };
        let placed = |at: f64| {
            let text = format!("{at:.digits$} {unit}");
            (text, self.place(at / in_a_second, self.low).x)
        };
        times.into_iter().map(placed).collect()
    }
}

/// The points that ran to their end.
fn shown(frontier: &Frontier) -> impl Iterator<Item = &FrontierPoint> {
    ran(&frontier.points)
}

fn ran(points: &[FrontierPoint]) -> impl Iterator<Item = &FrontierPoint> {
    points.iter().filter(|point| point.failure.is_none())
}

/// Round numbers between two values: multiples of 1, 2 or 5 times a power of ten. The range has
/// room for `fewest` steps between them, and for less than two and a half times as many.
fn ticks(low: f64, high: f64, fewest: f64) -> Vec<f64> {
    let widest = (high - low) / fewest;
    let power = 10_f64.powf(widest.log10().floor());
    let step = [5.0, 2.0, 1.0].map(|times| times * power);
    let step = step.into_iter().find(|step| *step <= widest);
    let step = step.unwrap_or(power);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|at| at as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::bench::{FrontierCard, FrontierKind};

    const GIB: u64 = 1 << 30;

    fn point(label: &str, seconds: f64, gib: u64) -> FrontierPoint {
        FrontierPoint {
            label: label.to_owned(),
            kind: FrontierKind::Trl,
            peak_active: Bytes(gib * GIB),
            peak_allocated: Bytes(gib * GIB),
            peak_reserved: Bytes(gib * GIB),
            step_seconds: seconds,
            to_host: Bytes::ZERO,
            to_device: Bytes::ZERO,
            corrupted_tensors: 0,
            failure: None,
            measured: None,
        }
    }

    fn frontier(points: Vec<FrontierPoint>) -> Frontier {
        Frontier {
            command: String::new(),
            date: String::new(),
            file: String::new(),
            device: String::new(),
            workload: String::new(),
            limits: FrontierLimits {
                compute_seconds: 0.2,
                peak: Bytes(16 * GIB),
                to_host: 50e9,
                to_device: 50e9,
            },
            points,
            card: FrontierCard::default(),
        }
    }

    #[test]
    fn every_point_lies_inside_and_the_highest_above_the_lowest() {
        let points = vec![point("none", 0.2, 16), point("all", 0.8, 9)];
        let frontier = frontier(points);
        let plot = Plot::of(&frontier).unwrap();
        let marks = plot.marks(&frontier);
        assert_eq!(marks.len(), 2);
        for mark in &marks {
            assert!((0.0..=100.0).contains(&mark.place.x), "{mark:?}");
            assert!((0.0..=100.0).contains(&mark.place.y), "{mark:?}");
        }
        assert!(marks[0].place.y > marks[1].place.y && marks[0].place.x < marks[1].place.x);
    }

    #[test]
    fn what_ran_on_a_card_is_a_bar_inside_of_the_plot() {
        let mut frontier = frontier(vec![point("none", 0.2, 16), point("all", 0.8, 9)]);
        assert_eq!(Plot::of(&frontier).unwrap().bars(&frontier), "");
        let mut failed = point("raised", 9.0, 12);
        failed.failure = Some("RuntimeError".to_owned());
        frontier.card.points = vec![point("all", 1.0, 9), failed];
        let plot = Plot::of(&frontier).unwrap();
        let Place { x, y } = plot.place(1.0, (9 * GIB) as f64);
        assert!(x < 100.0 && y > 0.0, "it widens the plot");
        let bar = format!("M{x:.2} {:.2}v12", 94.0 - y);
        assert_eq!(plot.bars(&frontier), bar);
    }

    #[test]
    fn points_at_one_place_share_a_mark_and_failures_have_none() {
        let mut failed = point("raised", 0.1, 12);
        failed.failure = Some("RuntimeError".to_owned());
        let frontier = frontier(vec![
            point("none", 0.2, 16),
            point("a", 0.41, 9),
            failed,
            point("b", 0.42, 9),
        ]);
        let plot = Plot::of(&frontier).unwrap();
        let marks = plot.marks(&frontier);
        let labels = |mark: &Mark<'_>| {
            let labels = mark.points.iter().map(|point| point.label.clone());
            labels.collect::<Vec<String>>()
        };
        assert_eq!(
            marks.iter().map(labels).collect::<Vec<_>>(),
            [vec!["none"], vec!["a", "b"]]
        );
        let none = super::tests::frontier(Vec::new());
        assert_eq!(Plot::of(&none), None);
    }

    /// The line of copies begins where nothing is copied and ends inside of the plot. At any place
    /// on it, the time is the time that copying its bytes takes.
    #[test]
    fn the_limit_of_copies_is_a_line_inside_of_the_plot() {
        for right in [0.3, 0.8, 3.0] {
            let frontier = frontier(vec![point("none", 0.2, 16), point("all", right, 9)]);
            let plot = Plot::of(&frontier).unwrap();
            let [begin, end] = plot.copies(&frontier.limits);
            assert_eq!(begin, plot.place(0.0, (16 * GIB) as f64));
            assert!(end.x > 0.0 && end.x <= 100.0 + 1e-9, "{end:?}");
            assert!((-1e-9..begin.y).contains(&end.y), "{end:?}");
            let at = 12 * GIB;
            let on_it = plot.place(frontier.limits.copy_seconds(Bytes(at)), at as f64);
            let share = (on_it.x - begin.x) / (end.x - begin.x);
            let height = begin.y + (end.y - begin.y) * share;
            assert!(
                (height - on_it.y).abs() < 1e-6,
                "{right}: {height} {on_it:?}"
            );
        }
    }

    /// The plot is 204 pixels wide on a screen of 320, and a character at most 7.
    #[test]
    fn times_do_not_touch_on_a_narrow_screen() {
        for width in 1..400 {
            let right = 0.002 * f64::from(width) * f64::from(width);
            let frontier = frontier(vec![point("none", right, 16), point("all", 0.001, 9)]);
            let times = Plot::of(&frontier).unwrap().times();
            assert!((3..=6).contains(&times.len()), "{right}: {times:?}");
            let half = |text: &str| text.chars().count() as f64 * 7.0 / 2.0;
            for pair in times.windows(2) {
                let [(left, from), (right, to)] = pair else {
                    unreachable!("windows of two")
                };
                let apart = (to - from) / 100.0 * 204.0;
                assert!(
                    half(left) + half(right) < apart,
                    "{left} and {right}: {apart}"
                );
            }
        }
    }

    #[test]
    fn ticks_are_round_and_neither_few_nor_many() {
        let check = |low: f64, high: f64, expected: &[f64]| {
            let found = ticks(low, high, 4.0);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            let near = found
                .iter()
                .zip(expected)
                .all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(near, "{found:?}");
        };
        check(0.0, 0.8, &[0.0, 0.2, 0.4, 0.6, 0.8]);
        check(8.8, 16.3, &[9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0]);
        check(0.0, 100.0, &[0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        for width in 1..200 {
            let count = ticks(3.0, 3.0 + f64::from(width) / 7.0, 4.0).len();
            assert!((4..=11).contains(&count), "{width}: {count}");
        }
    }
}
