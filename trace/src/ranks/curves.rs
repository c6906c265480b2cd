//! *Allocated* of all ranks over one axis of steps.

use crate::median;
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
    /// Of each group of ranks that run the same code the median alone; empty with one group. A rank
    /// that is a group by itself has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub medians: Vec<GroupMedian>,
}

/// The ranks that run the same code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RankGroupMedian))]
pub struct GroupMedian {
    /// Of each part the median of their highest levels.
    pub parts: Vec<Option<Bytes>>,
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

/// Lays curves over one axis; `groups` has the number of the code that each rank runs.
pub(super) fn aligned(
    curves: &[Curve],
    groups: &[u32],
    watch: Watch<'_>,
) -> Result<Aligned, Stopped> {
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
    let parts = (0..PARTS).map(|part| {
        let highest = || highest(&curves, part);
        let (low, middle, high) = (highest().min()?, median::mean(highest())?, highest().max()?);
        Some([low, middle, high].map(Bytes))
    });
    let parts = parts.collect();
    watch.look(0)?;
    Ok(Aligned {
        band: Band {
            window,
            parts,
            medians: medians(&curves, groups),
        },
        curves,
    })
}

/// The highest levels of curves in a part.
fn highest<'a>(
    curves: impl IntoIterator<Item = &'a Curve>,
    part: usize,
) -> impl Iterator<Item = u64> {
    let curves = curves.into_iter();
    curves.filter_map(move |curve| curve.parts[part].map(|[_, high]| high.0))
}

/// The median of each group, if there are several.
fn medians(curves: &[Curve], groups: &[u32]) -> Vec<GroupMedian> {
    let n_groups = groups.iter().max().map_or(0, |&last| last as usize + 1);
    if n_groups < 2 {
        return Vec::new();
    }
    let of_group = |group: usize| {
        let own = curves.iter().zip(groups);
        let own = own.filter(|&(_, &of)| of as usize == group);
        let own: Vec<&Curve> = own.map(|(curve, _)| curve).collect();
        let median_of = |part: usize| {
            let middle = median::mean(highest(own.iter().copied(), part))?;
            (own.len() > 1).then_some(Bytes(middle))
        };
        GroupMedian {
            parts: (0..PARTS).map(median_of).collect(),
        }
    };
    (0..n_groups).map(of_group).collect()
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
        let laid = |curves: &[Curve], groups: &[u32]| {
            Watch::undisturbed(|watch| aligned(curves, groups, watch))
        };
        let Aligned { band, .. } = laid(&[flat(1, 4.0), flat(5, 4.0), flat(30, 8.0)], &[0, 0, 0]);
        assert_eq!(band.medians, Vec::new());
        assert_eq!(band.window, (0.0, 8.0));
        assert_eq!(band.parts[0], Some([Bytes(1), Bytes(5), Bytes(30)]));
        assert_eq!(band.parts[PARTS - 1], Some([Bytes(30); 3]));
        // Ranks that run other code have a median of their own; one alone has none.
        let all = [flat(2, 4.0), flat(90, 4.0), flat(6, 4.0), flat(50, 4.0)];
        let Aligned { band, .. } = laid(&all, &[0, 1, 0, 2]);
        let medians: Vec<Option<Bytes>> = band.medians.iter().map(|own| own.parts[7]).collect();
        assert_eq!(medians, [Some(Bytes(4)), None, None]);
        let nothing = laid(&[Curve::default()], &[0]);
        assert_eq!(nothing.band.parts, vec![None; PARTS]);
    }
}
