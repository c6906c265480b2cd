//! *Allocated* of all ranks over one axis of steps.

use super::odd::median;
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
use serde::{Deserialize, Serialize};

/// Parts of a curve.
pub const PARTS: usize = 192;

/// One rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// First and last place on the axis: 3.5 is half-way through the fourth step, or through the
    /// one that the program calls 3 ([`crate::compare::numbering`]).
    pub window: (f64, f64),
    /// Lowest and highest level of each part; `None` where the rank has no events.
    pub parts: Vec<Option<[Bytes; 2]>>,
}

/// All ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RankBand))]
pub struct Band {
    /// First and last place of any rank on the axis.
    pub window: (f64, f64),
    /// Of each part the smallest, the median and the largest of the ranks' highest levels.
    pub parts: Vec<Option<[Bytes; 3]>>,
}

/// Curves whose parts lie above one another.
pub(super) struct Aligned {
    pub band: Band,
    pub curves: Vec<Curve>,
}

impl Curve {
    /// The same with its first step at another place than 0.
    pub(super) fn beginning_at(mut self, place: u32) -> Curve {
        let (from, to) = self.window;
        // A rank without events has no place.
        if from < to {
            self.window = (from + f64::from(place), to + f64::from(place));
        }
        self
    }
}

/// Lays curves over one axis.
pub(super) fn aligned(curves: &[Curve], watch: Watch<'_>) -> Result<Aligned, Stopped> {
    let there = curves.iter().filter(|c| c.window.0 < c.window.1);
    let window = there.fold(None, |window: Option<(f64, f64)>, curve| {
        let (from, to) = curve.window;
        Some(window.map_or((from, to), |(a, b)| (a.min(from), b.max(to))))
    });
    let window = window.unwrap_or((0.0, 1.0));
    let laid = curves.iter().map(|curve| {
        watch.look(0)?;
        Ok(over(curve, window))
    });
    let curves = laid.collect::<Result<Vec<Curve>, Stopped>>()?;
    let mut highest = Vec::with_capacity(curves.len());
    let parts = (0..PARTS).map(|part| {
        highest.clear();
        highest.extend(
            curves
                .iter()
                .filter_map(|c| c.parts[part].map(|[_, high]| high.0)),
        );
        let middle = median(&mut highest);
        let (low, high) = (highest.first()?, highest.last()?);
        Some([Bytes(*low), Bytes(middle), Bytes(*high)])
    });
    let parts = parts.collect();
    watch.look(0)?;
    Ok(Aligned {
        band: Band { window, parts },
        curves,
    })
}

/// A curve over another window. If a new part overlaps several old ones, it takes the lowest and
/// the highest of their values: no peak is hidden.
fn over(curve: &Curve, window: (f64, f64)) -> Curve {
    let (from, to) = curve.window;
    let n = curve.parts.len() as f64;
    let width = (window.1 - window.0) / PARTS as f64;
    let part = |at: usize| {
        let x = window.0 + width * at as f64;
        // Ignores a tiny overlap with the neighbour: it comes from rounding.
        let first = ((x - from) / (to - from) * n + 1e-6).floor().max(0.0) as usize;
        let end = ((x + width - from) / (to - from) * n - 1e-6)
            .ceil()
            .max(0.0) as usize;
        let parts = curve.parts.get(first..end.min(curve.parts.len()))?;
        let parts = parts.iter().flatten().copied();
        parts.reduce(|[a, b], [low, high]| [a.min(low), b.max(high)])
    };
    Curve {
        window,
        parts: match from < to {
            true => (0..PARTS).map(part).collect(),
            false => vec![None; PARTS],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_peak_is_hidden_and_none_invented(
            levels in prop::collection::vec(0_u64..1000, PARTS),
            (before, after) in (0.0_f64..40.0, 0.0_f64..40.0),
        ) {
            let parts = levels.iter().map(|&n| Some([Bytes(n), Bytes(n)])).collect();
            let curve = Curve { window: (0.0, 8.0), parts };
            let wide = over(&curve, (-before, 8.0 + after));
            let highest = |c: &Curve| c.parts.iter().flatten().map(|[_, high]| *high).max();
            prop_assert_eq!(highest(&wide), highest(&curve));
            prop_assert_eq!(over(&curve, curve.window), curve);
        }
    }

    #[test]
    fn the_band_is_of_those_that_are_there() {
        let flat = |level: u64, to: f64| Curve {
            window: (0.0, to),
            parts: vec![Some([Bytes(level), Bytes(level)]); PARTS],
        };
        let laid = |curves: &[Curve]| Watch::undisturbed(|watch| aligned(curves, watch));
        let Aligned { band, .. } = laid(&[flat(1, 4.0), flat(5, 4.0), flat(30, 8.0)]);
        assert_eq!(band.window, (0.0, 8.0));
        assert_eq!(band.parts[0], Some([Bytes(1), Bytes(5), Bytes(30)]));
        assert_eq!(band.parts[PARTS - 1], Some([Bytes(30); 3]));
        let nothing = laid(&[Curve::default()]);
        assert_eq!(nothing.band.parts, vec![None; PARTS]);
    }
}
