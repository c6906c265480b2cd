//! Min, max and last of the four series over buckets of events, at every power of two.
//!
//! Buckets of [`BASE_EVENTS`] events are kept, and buckets at every third power of two above. A
//! bucket at a power between is made of at most four kept ones. Finer buckets are not kept: for
//! them, at most 64 events are applied again. Eleven million events take about 20 MB.
//!
//! Each base bucket also holds its *peak*: the first event at which allocated is highest, and the
//! active level there. The picture (the mountain) is sampled at these events.

use crate::footprint::of_vec;
use crate::series::{Extent, Levels, Series, Way};
use crate::units::{Bytes, EventIdx};

/// The finest level kept: buckets of `2^BASE_LEVEL` events.
pub const BASE_LEVEL: u8 = 6;
/// Events of the finest buckets kept.
pub const BASE_EVENTS: u32 = 1 << BASE_LEVEL;
/// A level is kept at every so many powers of two.
const STRIDE: u8 = 3;

/// One bucket: min, max and last of each series, in the order of [`Series::ALL`].
pub type Bucket = [Extent; 4];

/// Where allocated is highest in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The first event with this level.
    pub event: EventIdx,
    /// Allocated there.
    pub allocated: Bytes,
    /// Active there.
    pub active: Bytes,
}

/// A base bucket with its peak: what the pyramid is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// Its extents.
    pub bucket: Bucket,
    /// The peak's event, counted from the bucket's first.
    pub peak_offset: u8,
    /// Active at the peak.
    pub peak_active: Bytes,
}

/// The pyramid of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pyramid {
    start: Levels,
    n_events: u32,
    /// `layers[k]` holds buckets of level `BASE_LEVEL + k * STRIDE`, series side by side.
    layers: Vec<Vec<Bucket>>,
    /// Per base bucket, the peak's event as an offset from the bucket's first.
    peak_offset: Vec<u8>,
    /// Per base bucket, active at the peak.
    peak_active: Vec<Bytes>,
}

/// Builds a [`Pyramid`] from the levels after each event.
#[derive(Clone, Debug)]
pub struct PyramidBuilder {
    start: Levels,
    n_events: u32,
    base: Vec<Bucket>,
    peak_offset: Vec<u8>,
    peak_active: Vec<Bytes>,
    open: OpenBucket,
}

/// The bucket that is being filled.
#[derive(Clone, Copy, Debug)]
struct OpenBucket {
    min: Levels,
    max: Levels,
    last: Levels,
    filled: u8,
    peak_offset: u8,
    peak_active: Bytes,
}

impl OpenBucket {
    const EMPTY: OpenBucket = OpenBucket {
        min: Levels([Bytes::ZERO; 4]),
        max: Levels([Bytes::ZERO; 4]),
        last: Levels([Bytes::ZERO; 4]),
        filled: 0,
        peak_offset: 0,
        peak_active: Bytes::ZERO,
    };

    #[inline]
    fn push(&mut self, levels: Levels, way: Way) {
        if self.filled == 0 {
            (self.min, self.max) = (levels, levels);
            self.peak_active = levels.get(Series::Active);
        }
        match way {
            Way::Level => {}
            Way::Up => {
                if levels.get(Series::Allocated) > self.max.get(Series::Allocated) {
                    self.peak_offset = self.filled;
                    self.peak_active = levels.get(Series::Active);
                }
                for (max, level) in self.max.0.iter_mut().zip(levels.0) {
                    *max = level.max(*max);
                }
            }
            Way::Down => {
                for (min, level) in self.min.0.iter_mut().zip(levels.0) {
                    *min = level.min(*min);
                }
            }
        }
        self.last = levels;
        self.filled += 1;
    }

    fn bucket(&self) -> Bucket {
        std::array::from_fn(|i| Extent {
            min: self.min.0[i],
            max: self.max.0[i],
            last: self.last.0[i],
        })
    }
}

impl PyramidBuilder {
    /// Starts with the levels before the first event.
    pub fn new(start: Levels) -> PyramidBuilder {
        PyramidBuilder {
            start,
            n_events: 0,
            base: Vec::new(),
            peak_offset: Vec::new(),
            peak_active: Vec::new(),
            open: OpenBucket::EMPTY,
        }
    }

    /// The same, with room for a number of events: columns that grow exist twice now and then.
    pub fn for_events(start: Levels, n_events: u32) -> PyramidBuilder {
        let buckets = Pyramid::base_count(n_events);
        PyramidBuilder {
            base: Vec::with_capacity(buckets),
            peak_offset: Vec::with_capacity(buckets),
            peak_active: Vec::with_capacity(buckets),
            ..PyramidBuilder::new(start)
        }
    }

    /// The levels after the next event, and which way it moved them.
    #[inline]
    pub fn push(&mut self, levels: Levels, way: Way) {
        self.open.push(levels, way);
        self.n_events += 1;
        if u32::from(self.open.filled) == BASE_EVENTS {
            self.close();
        }
    }

    fn close(&mut self) {
        self.base.push(self.open.bucket());
        self.peak_offset.push(self.open.peak_offset);
        self.peak_active.push(self.open.peak_active);
        self.open = OpenBucket::EMPTY;
    }

    /// The pyramid of all events so far.
    pub fn finish(mut self) -> Pyramid {
        if self.open.filled > 0 {
            self.close();
        }
        let mut pyramid = Pyramid {
            start: self.start,
            n_events: self.n_events,
            layers: vec![self.base],
            peak_offset: self.peak_offset,
            peak_active: self.peak_active,
        };
        pyramid.build_upper_layers();
        pyramid
    }
}

impl Pyramid {
    /// Number of events.
    pub fn n_events(&self) -> u32 {
        self.n_events
    }

    /// The levels before the first event.
    pub fn start(&self) -> Levels {
        self.start
    }

    /// The levels before the first event of a base bucket.
    pub fn before_base(&self, base: usize) -> Levels {
        match base.checked_sub(1) {
            None => self.start,
            Some(previous) => Levels(self.layers[0][previous].map(|extent| extent.last)),
        }
    }

    /// The bucket of `2^level` events that starts at event `index * 2^level`; `None` past the
    /// end, and for levels below [`BASE_LEVEL`].
    pub fn bucket(&self, level: u8, index: u64) -> Option<Bucket> {
        let above = level.checked_sub(BASE_LEVEL)?;
        let layer = usize::from(above / STRIDE).min(self.layers.len().checked_sub(1)?);
        let shift = u32::from(above) - layer as u32 * u32::from(STRIDE);
        let nodes = &self.layers[layer];
        let start = index.checked_shl(shift).filter(|s| s >> shift == index)?;
        let end = (index + 1).checked_shl(shift).unwrap_or(u64::MAX);
        let start = usize::try_from(start).ok().filter(|&s| s < nodes.len())?;
        let end = usize::try_from(end).map_or(nodes.len(), |e| e.min(nodes.len()));
        merge(&nodes[start..end])
    }

    /// Where allocated is highest in the base buckets `[start, end)`; if several are equal, the
    /// first. `None` if there are no such buckets.
    pub fn peak(&self, start: usize, end: usize) -> Option<Peak> {
        const ALLOCATED: usize = Series::Allocated as usize;
        let base = self.layers.first()?;
        let end = end.min(base.len());
        let mut best = None;
        for (at, bucket) in base.get(start..end)?.iter().enumerate() {
            let max = bucket[ALLOCATED].max;
            if best.is_none_or(|(_, highest)| max > highest) {
                best = Some((start + at, max));
            }
        }
        best.map(|(at, allocated)| Peak {
            event: EventIdx(at as u32 * BASE_EVENTS + u32::from(self.peak_offset[at])),
            allocated,
            active: self.peak_active[at],
        })
    }

    /// The base buckets in order.
    pub fn base(&self) -> impl Iterator<Item = Base> + '_ {
        let buckets = self.layers.first().into_iter().flatten();
        let peaks = self.peak_offset.iter().zip(&self.peak_active);
        buckets
            .zip(peaks)
            .map(|(&bucket, (&peak_offset, &peak_active))| Base {
                bucket,
                peak_offset,
                peak_active,
            })
    }

    /// The number of base buckets for a number of events.
    pub const fn base_count(n_events: u32) -> usize {
        n_events.div_ceil(BASE_EVENTS) as usize
    }

    /// The pyramid over given base buckets. `None` if their number does not fit the number of
    /// events, or if a peak lies outside of its bucket.
    pub fn from_base(start: Levels, n_events: u32, base: &[Base]) -> Option<Pyramid> {
        let peak_is_inside = |(at, base): (usize, &Base)| {
            let first = at as u64 * u64::from(BASE_EVENTS);
            u32::from(base.peak_offset) < BASE_EVENTS
                && first + u64::from(base.peak_offset) < u64::from(n_events)
        };
        if base.len() != Pyramid::base_count(n_events)
            || !base.iter().enumerate().all(peak_is_inside)
        {
            return None;
        }
        let mut pyramid = Pyramid {
            start,
            n_events,
            layers: vec![base.iter().map(|base| base.bucket).collect()],
            peak_offset: base.iter().map(|base| base.peak_offset).collect(),
            peak_active: base.iter().map(|base| base.peak_active).collect(),
        };
        pyramid.build_upper_layers();
        Some(pyramid)
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        let layers: usize = self.layers.iter().map(of_vec).sum();
        layers + of_vec(&self.peak_offset) + of_vec(&self.peak_active)
    }

    fn build_upper_layers(&mut self) {
        // Without events there are no layers, however the pyramid was made.
        self.layers.retain(|layer| !layer.is_empty());
        while let Some(finest) = self.layers.last().filter(|l| l.len() > 1) {
            let next = finest.chunks(1 << STRIDE);
            self.layers.push(next.filter_map(merge).collect());
        }
    }
}

/// Joins neighbouring buckets into one; `None` if there are none.
fn merge(buckets: &[Bucket]) -> Option<Bucket> {
    let (first, rest) = buckets.split_first()?;
    Some(rest.iter().fold(*first, |all, next| {
        std::array::from_fn(|i| Extent {
            min: all[i].min.min(next[i].min),
            max: all[i].max.max(next[i].max),
            last: next[i].last,
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn pyramid(levels: &[u64]) -> Pyramid {
        let mut builder = PyramidBuilder::new(Levels([Bytes(7); 4]));
        let mut last = 7;
        for &level in levels {
            let active = Bytes(level * 2);
            let way = match level.cmp(&last) {
                Ordering::Less => Way::Down,
                Ordering::Equal => Way::Level,
                Ordering::Greater => Way::Up,
            };
            let levels = Levels([Bytes(level), Bytes(level), active, Bytes::ZERO]);
            builder.push(levels, way);
            last = level;
        }
        builder.finish()
    }

    proptest! {
        #[test]
        fn buckets_and_peaks_equal_a_scan(
            levels in prop::collection::vec(0..50_u64, 0..9_000),
            level in BASE_LEVEL..20,
            index in 0..40_u64,
        ) {
            let pyramid = pyramid(&levels);
            let start = (index << level).min(levels.len() as u64) as usize;
            let end = ((index + 1) << level).min(levels.len() as u64) as usize;
            let bucket = &levels[start..end];
            let expected = bucket.iter().max().map(|&max| Extent {
                min: Bytes(*bucket.iter().min().unwrap()),
                max: Bytes(max),
                last: Bytes(*bucket.last().unwrap()),
            });
            prop_assert_eq!(pyramid.bucket(level, index).map(|b| b[0]), expected);
            let bases = 1 << (level - BASE_LEVEL);
            let first = index as usize * bases;
            let peak = pyramid.peak(first, first + bases);
            let highest = bucket.iter().max().map(|max| {
                (start + bucket.iter().position(|l| l == max).unwrap(), *max)
            });
            let found = peak.map(|p| (p.event.index(), p.allocated.0));
            prop_assert_eq!(found, highest);
            prop_assert!(peak.is_none_or(|p| p.active.0 == p.allocated.0 * 2));
        }
    }

    #[test]
    fn no_events_leave_the_start() {
        let pyramid = pyramid(&[]);
        assert_eq!(pyramid.bucket(BASE_LEVEL, 0), None);
        assert_eq!(pyramid.peak(0, 1), None);
        assert_eq!(pyramid.before_base(0), Levels([Bytes(7); 4]));
    }
}
