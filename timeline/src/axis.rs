//! The horizontal axis: events, or time as a label of events.
//!
//! The window of a view is always a range of events, because events are ordered and times are not
//! (a quarter of the events of a real trace share their time with another). On the time axis, a
//! position is mapped by a piecewise linear, strictly increasing curve. Its knots are the bucket
//! times of the loaded tiles. A finer tile refines the curve inside its own range and does not move
//! its ends there. So the picture bends a little and never jumps.

use api::view_state::Axis;
use trace::tiles::SeriesTile;

/// What one event adds on the time axis, in microseconds, on top of the clock. This makes the curve
/// strictly increasing where events share a time. Eleven million events bend it by 11 ms.
const EVENT_WEIGHT_US: f64 = 1e-3;

/// A strictly increasing map from event positions to positions on the axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AxisMap {
    /// Position = event.
    #[default]
    Event,
    /// Position = microseconds since the first knot.
    Time(TimeCurve),
}

/// Knots `(event, microseconds)`, strictly increasing in both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeCurve {
    events: Vec<f64>,
    micros: Vec<f64>,
    /// Time of the first knot, microseconds since the epoch.
    origin: i64,
}

impl TimeCurve {
    /// The curve of one tile, usually the one that covers the whole trace.
    pub fn of_tile(tile: &SeriesTile) -> Option<TimeCurve> {
        let origin = tile.times.first()?.0;
        let mut curve = TimeCurve {
            origin,
            ..TimeCurve::default()
        };
        curve.extend_with(tile, f64::NEG_INFINITY, f64::INFINITY);
        (curve.events.len() > 1).then_some(curve)
    }

    /// The same curve with the knots of a finer tile inside that tile's range.
    pub fn refined(&self, tile: &SeriesTile) -> TimeCurve {
        let from = tile.id.first_event() as f64;
        let to = from + tile.times.len().saturating_sub(1) as f64 * tile.id.bucket_events() as f64;
        let mut curve = TimeCurve {
            origin: self.origin,
            ..TimeCurve::default()
        };
        for (&event, &micros) in self.events.iter().zip(&self.micros) {
            if event < from {
                curve.push(event, micros);
            }
        }
        curve.extend_with(tile, from, to);
        for (&event, &micros) in self.events.iter().zip(&self.micros) {
            if event > to {
                curve.push(event, micros);
            }
        }
        curve
    }

    fn extend_with(&mut self, tile: &SeriesTile, from: f64, to: f64) {
        let first = tile.id.first_event();
        let end = tile.id.end_event().min(u64::from(tile.n_events));
        for (k, time) in tile.times.iter().enumerate() {
            // The last time is that of the tile's last event, at the tile's end.
            let event = (first + k as u64 * tile.id.bucket_events()).min(end) as f64;
            if (from..=to).contains(&event) {
                let micros = (time.0 - self.origin) as f64 + event * EVENT_WEIGHT_US;
                self.push(event, micros);
            }
        }
    }

    /// Keeps the curve strictly increasing, whatever the clock did.
    fn push(&mut self, event: f64, micros: f64) {
        match (self.events.last(), self.micros.last()) {
            (Some(&e), Some(&m)) if event > e => {
                self.events.push(event);
                self.micros
                    .push(micros.max(m + (event - e) * EVENT_WEIGHT_US));
            }
            (None, None) => {
                self.events.push(event);
                self.micros.push(micros);
            }
            _ => {}
        }
    }
}

/// Linear interpolation between increasing knots, extrapolated at both ends.
fn interpolate(xs: &[f64], ys: &[f64], x: f64) -> f64 {
    let i = xs.partition_point(|&k| k <= x).clamp(1, xs.len() - 1);
    let (x0, x1, y0, y1) = (xs[i - 1], xs[i], ys[i - 1], ys[i]);
    y0 + (x - x0) * (y1 - y0) / (x1 - x0)
}

impl AxisMap {
    /// The axis that the view asks for; the event axis as long as no times are known.
    pub fn new(axis: Axis, whole: Option<&SeriesTile>, finer: Option<&SeriesTile>) -> AxisMap {
        let curve = match axis {
            Axis::Event => None,
            Axis::Time => whole.and_then(TimeCurve::of_tile),
        };
        match (curve, finer) {
            (Some(curve), Some(finer)) => AxisMap::Time(curve.refined(finer)),
            (Some(curve), None) => AxisMap::Time(curve),
            (None, _) => AxisMap::Event,
        }
    }

    /// Where an event position lies on the axis.
    pub fn position(&self, event: f64) -> f64 {
        match self {
            AxisMap::Event => event,
            AxisMap::Time(curve) => interpolate(&curve.events, &curve.micros, event),
        }
    }

    /// The event position at a place of the axis.
    pub fn event(&self, position: f64) -> f64 {
        match self {
            AxisMap::Event => position,
            AxisMap::Time(curve) => interpolate(&curve.micros, &curve.events, position),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use trace::tiles::TileId;
    use trace::units::Micros;

    fn whole() -> SeriesTile {
        let mut tile = testing::series(TileId { level: 2, index: 0 }, 16, &[1, 2, 3, 4]);
        tile.times = [100, 100, 300, 250, 700].map(Micros).to_vec();
        tile
    }

    #[test]
    fn the_time_axis_goes_there_and_back() {
        let axis = AxisMap::new(Axis::Time, Some(&whole()), None);
        for event in [0.0, 0.5, 3.9, 4.0, 9.25, 12.0, 15.75, 16.0] {
            let back = axis.event(axis.position(event));
            assert!((back - event).abs() < 1e-6, "{event} came back as {back}");
        }
    }

    #[test]
    fn a_clock_that_stands_or_runs_backwards_still_gives_an_increasing_axis() {
        let axis = AxisMap::new(Axis::Time, Some(&whole()), None);
        let positions: Vec<f64> = (0..=64)
            .map(|i| axis.position(f64::from(i) / 4.0))
            .collect();
        assert!(positions.windows(2).all(|w| w[0] < w[1]), "{positions:?}");
        assert!((axis.position(16.0) - 600.0).abs() < 1.0);
    }

    #[test]
    fn refining_keeps_the_curve_outside_of_the_finer_tile() {
        let whole = whole();
        let mut finer = testing::series(TileId { level: 0, index: 0 }, 16, &[1; 8]);
        finer.times = (0..9).map(|i| Micros(100 + i * 25)).collect();
        let coarse = AxisMap::new(Axis::Time, Some(&whole), None);
        let fine = AxisMap::new(Axis::Time, Some(&whole), Some(&finer));
        assert_ne!(coarse.position(2.0), fine.position(2.0));
        assert_eq!(coarse.position(14.0), fine.position(14.0));
    }

    #[test]
    fn without_times_the_axis_is_that_of_events() {
        assert_eq!(AxisMap::new(Axis::Time, None, None), AxisMap::Event);
        assert_eq!(
            AxisMap::new(Axis::Event, Some(&whole()), None),
            AxisMap::Event
        );
    }
}
