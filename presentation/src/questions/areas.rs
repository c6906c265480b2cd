//! Geometry of the growth chart: bands stacked over moments, in a box of 1000 × 1000.

use ::timeline::ticks;
use api::alive::Growth;

/// Width and height of the box.
pub const SIDE: f64 = 1000.0;

/// Which bands are stacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The memory of all other groups lies at the bottom.
    Shown,
    /// Only the groups that have a band of their own.
    Hidden,
}

impl Rest {
    /// The setting to begin with: if the other groups hold far more, growth would only be a thin
    /// line.
    pub fn at_first(growth: &Growth) -> Rest {
        let last = |rest: bool| -> u64 {
            let bands = growth
                .bands
                .iter()
                .filter(|band| band.key.is_empty() == rest);
            bands.filter_map(|band| band.bytes.last()).sum()
        };
        match last(false) > 0 && last(true) > 3 * last(false) {
            true => Rest::Hidden,
            false => Rest::Shown,
        }
    }
}

/// What lies at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The nearest moment.
    pub moment: usize,
    /// Position of the band in [`Growth::bands`]; `None` above all of them.
    pub band: Option<usize>,
}

/// The bands, laid out.
#[derive(Clone, Debug, PartialEq)]
pub struct Areas {
    /// Positions in [`Growth::bands`], lowest first: the other groups, then the bands that change
    /// least.
    pub order: Vec<usize>,
    /// Per moment, the tops of the bands in that order.
    tops: Vec<Vec<u64>>,
    /// The level at the upper edge.
    pub high: u64,
}

impl Areas {
    /// Stacks the bands of a chart.
    pub fn new(growth: &Growth, rest: Rest) -> Areas {
        let shown = |&at: &usize| rest == Rest::Shown || !growth.bands[at].key.is_empty();
        let order: Vec<usize> = (0..growth.bands.len()).rev().filter(shown).collect();
        let tops: Vec<Vec<u64>> = (0..growth.moments.len())
            .map(|moment| {
                let mut top = 0;
                let heights = order.iter().map(|&band| growth.bands[band].bytes[moment]);
                heights
                    .map(|height| {
                        top += height;
                        top
                    })
                    .collect()
            })
            .collect();
        let highest = tops.iter().filter_map(|t| t.last()).max();
        let high = nice_above(highest.copied().unwrap_or(0));
        Areas { order, tops, high }
    }

    /// How many moments there are.
    pub fn n_moments(&self) -> usize {
        self.tops.len()
    }

    /// The horizontal position of a moment, from the left; a single one lies in the middle.
    pub fn x(&self, moment: usize) -> f64 {
        match self.n_moments() {
            0 | 1 => SIDE / 2.0,
            n => moment as f64 / (n - 1) as f64 * SIDE,
        }
    }

    /// The vertical position of a level, from the top.
    pub fn y(&self, level: u64) -> f64 {
        SIDE - level as f64 / self.high.max(1) as f64 * SIDE
    }

    /// The outline of the band at a position of `order`, as SVG path data.
    pub fn path(&self, position: usize) -> String {
        let bottom = |moment: usize| match position {
            0 => 0,
            above => self.tops[moment][above - 1],
        };
        let n = self.n_moments();
        // A single moment is as wide as the box.
        let points: Vec<(f64, usize)> = match n {
            1 => vec![(0.0, 0), (SIDE, 0)],
            n => (0..n).map(|moment| (self.x(moment), moment)).collect(),
        };
        let mut path = String::new();
        let upper = points
            .iter()
            .map(|&(x, m)| (x, self.y(self.tops[m][position])));
        let lower = points.iter().rev().map(|&(x, m)| (x, self.y(bottom(m))));
        for (i, (x, y)) in upper.chain(lower).enumerate() {
            path += if i == 0 { "M" } else { "L" };
            path += &format!("{x:.1} {y:.1}");
        }
        path + "Z"
    }

    /// Where names stand at the right edge: each band that is high enough there (its position in
    /// [`Growth::bands`]), and its middle, from the top.
    pub fn names(&self) -> Vec<(usize, f64)> {
        /// A line of text, where the box is at its lowest.
        const LINE: f64 = 90.0;
        let tops = self.tops.last().map_or(&[][..], Vec::as_slice);
        let bottoms = std::iter::once(0).chain(tops.iter().copied());
        let edges = bottoms
            .zip(tops)
            .map(|(low, &top)| (self.y(low), self.y(top)));
        let bands = self.order.iter().copied().zip(edges);
        let high = bands.filter(|(_, (low, top))| low - top >= LINE);
        high.map(|(band, (low, top))| (band, (low + top) / 2.0))
            .collect()
    }

    /// What lies at a point, given as fractions of the width and of the height, downwards.
    pub fn spot(&self, x: f64, y: f64) -> Option<Spot> {
        let n = self.n_moments();
        let last = n.checked_sub(1)?;
        let moment = (x.clamp(0.0, 1.0) * last as f64).round() as usize;
        let level = (1.0 - y) * self.high as f64;
        let at = self.tops[moment]
            .iter()
            .position(|&top| top as f64 >= level);
        Some(Spot {
            moment,
            band: at.map(|at| self.order[at]),
        })
    }
}

/// The labels of an axis of levels from 0 to such an edge, each with its place from the top,
/// percent.
pub fn level_labels(high: u64) -> Vec<(f64, String)> {
    let ticks = ticks::bytes_to(high as f64).into_iter();
    ticks
        .map(|tick| (100.0 - tick.at / high as f64 * 100.0, tick.label))
        .collect()
}

/// The place along a picture of so many places that a key leads to.
pub(super) fn walked(from: Option<usize>, places: usize, key: &str) -> Option<usize> {
    let last = places.checked_sub(1)?;
    match key {
        "Home" => Some(0),
        "End" => Some(last),
        "ArrowLeft" => Some(from.map_or(last, |at| at.saturating_sub(1))),
        "ArrowRight" => Some(from.map_or(0, |at| (at + 1).min(last))),
        _ => None,
    }
}

/// The upper edge of a picture of levels: a tick; 0, which has none, for nothing.
pub(super) fn nice_above(level: u64) -> u64 {
    ticks::byte_end(level as f64).round() as u64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use api::alive::{GrowthBand, GrowthMoment};
    use proptest::prelude::*;
    use trace::alive::Dimension;
    use trace::units::EventIdx;

    pub fn growth(bands: &[(&str, &[u64])]) -> Growth {
        let moments = bands.first().map_or(0, |(_, bytes)| bytes.len());
        Growth {
            by: Dimension::Site,
            moments: (0..moments)
                .map(|i| GrowthMoment {
                    event: EventIdx(i as u32 * 10),
                    step: Some(format!("step {i}")),
                })
                .collect(),
            bands: bands
                .iter()
                .map(|(key, bytes)| GrowthBand {
                    key: (*key).to_owned(),
                    label: format!("group {key}"),
                    inferred: false,
                    stack: None,
                    bytes: bytes.to_vec(),
                    counts: vec![1; bytes.len()],
                })
                .collect(),
            others: 3,
        }
    }

    #[test]
    fn what_changes_most_lies_on_top_of_the_rest() {
        let growth = growth(&[("a", &[0, 100, 200]), ("", &[200, 200, 200])]);
        let areas = Areas::new(&growth, Rest::Shown);
        assert_eq!(areas.order, [1, 0]);
        let labels = level_labels(areas.high).into_iter();
        let labels: Vec<String> = labels
            .map(|(top, label)| format!("{top}: {label}"))
            .collect();
        assert_eq!(labels, ["75: 100 B", "50: 200 B", "25: 300 B", "0: 400 B"]);
        let rest = "M0.0 500.0L500.0 500.0L1000.0 500.0L1000.0 1000.0L500.0 1000.0L0.0 1000.0Z";
        assert_eq!(areas.path(0), rest);
        let spot = |x, y| areas.spot(x, y).map(|s| (s.moment, s.band));
        assert_eq!(spot(0.0, 0.9), Some((0, Some(1))));
        assert_eq!(spot(1.0, 0.4), Some((2, Some(0))));
        assert_eq!(spot(0.1, 0.1), Some((0, None)));
        let alone = Areas::new(&growth, Rest::Hidden);
        assert_eq!((alone.order.as_slice(), alone.high), (&[0][..], 200));
    }

    #[test]
    fn a_band_has_a_name_where_a_line_of_text_fits_into_it() {
        let names = |last: &[u64]| {
            let bands: Vec<_> = last.iter().map(|&bytes| [0, bytes]).collect();
            let bands: Vec<(&str, &[u64])> = bands.iter().map(|band| ("a", &band[..])).collect();
            Areas::new(&growth(&bands), Rest::Shown).names()
        };
        assert_eq!(names(&[]), []);
        assert_eq!(names(&[500]), [(0, 500.0)]);
        assert_eq!(names(&[250, 20, 500]), [(2, 687.5), (0, 193.75)]);
        assert_eq!(names(&[0, 0]), []);
    }

    #[test]
    fn a_large_rest_is_left_out_at_first() {
        let at_first = |rest| Rest::at_first(&growth(&[("a", &[1, 10]), ("", &[rest, rest])]));
        assert_eq!((at_first(30), at_first(31)), (Rest::Shown, Rest::Hidden));
        assert_eq!(Rest::at_first(&growth(&[("", &[5])])), Rest::Shown);
    }

    #[test]
    fn nothing_and_a_single_moment_are_drawn_too() {
        assert_eq!(Areas::new(&growth(&[]), Rest::Shown).spot(0.5, 0.5), None);
        let one = Areas::new(&growth(&[("a", &[7])]), Rest::Shown);
        assert!(one.path(0).starts_with("M0.0 "));
        assert_eq!(one.spot(0.9, 0.99).map(|s| s.moment), Some(0));
        let gone = Areas::new(&growth(&[("a", &[0, 0])]), Rest::Shown);
        assert_eq!(
            level_labels(gone.high),
            [],
            "512 B within a step are none at its end"
        );
        assert_eq!(gone.y(0), SIDE);
    }

    proptest! {
        #[test]
        fn everything_lies_in_the_box(levels in prop::collection::vec(0..1_u64 << 40, 1..40)) {
            let growth = growth(&[("a", &levels), ("", &levels)]);
            let areas = Areas::new(&growth, Rest::Shown);
            let highest = levels.iter().max().unwrap() * 2;
            prop_assert!(areas.high >= highest);
            prop_assert!(highest < 64 || areas.high <= highest * 2);
            let labels = level_labels(areas.high).len();
            prop_assert!((2..=5).contains(&labels) || areas.high < 8, "{}", labels);
            for (moment, level) in levels.iter().enumerate() {
                prop_assert!((0.0..=SIDE).contains(&areas.x(moment)));
                prop_assert!((0.0..=SIDE).contains(&areas.y(level * 2)));
            }
        }
    }
}
