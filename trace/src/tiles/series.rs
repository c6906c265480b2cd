//! Levels at any event, and the four lines of a tile.

use super::{BUCKETS, Extent, MAX_LEVEL, SeriesTile, TileId};
use crate::pyramid::{BASE_EVENTS, BASE_LEVEL, Bucket, Peak};
use crate::span::Span;
use crate::trace::{DeviceTrace, Levels, Series};
use crate::units::{EventIdx, Micros};

impl TileId {
    /// The events of the tile in a trace of `n_events`; empty outside of the grid.
    pub fn events(self, n_events: u32) -> Span<EventIdx> {
        if self.level > MAX_LEVEL {
            return Span::new(EventIdx(n_events), EventIdx(n_events));
        }
        // Both are at most `n_events`, so they fit.
        let clip = |event: u64| EventIdx(event.min(u64::from(n_events)) as u32);
        Span::new(clip(self.first_event()), clip(self.end_event()))
    }

    /// How many buckets of the tile hold events of a trace of `n_events`.
    pub fn buckets(self, n_events: u32) -> u32 {
        let length = u64::from(self.events(n_events).len());
        // At most `BUCKETS`, because a tile has no more events than that.
        match length {
            0 => 0,
            length => length.div_ceil(self.bucket_events()) as u32,
        }
    }

    /// The position of the tile's first bucket among all buckets of its level.
    fn first_bucket(self) -> u64 {
        u64::from(self.index) * u64::from(BUCKETS / 2)
    }
}

impl DeviceTrace {
    /// The levels after an event.
    ///
    /// # Panics
    /// When there is no such event.
    pub fn levels_at(&self, event: EventIdx) -> Levels {
        let base = event.0 / BASE_EVENTS;
        let mut levels = self.pyramid.before_base(base as usize);
        for at in base * BASE_EVENTS..=event.0 {
            levels.apply(self.effect(EventIdx(at)));
        }
        levels
    }

    /// The levels before an event; `event` may be the number of events.
    pub fn levels_before(&self, event: EventIdx) -> Levels {
        match event.0.checked_sub(1) {
            None => self.pyramid.start(),
            Some(previous) => self.levels_at(EventIdx(previous)),
        }
    }

    /// The four lines of a tile; a tile without buckets if it lies outside of the grid or past the
    /// end.
    pub fn series_tile(&self, id: TileId) -> SeriesTile {
        let n_events = self.events.len();
        let events = id.events(n_events);
        let mut series: [Vec<Extent>; 4] = Default::default();
        self.for_each_bucket(id, |bucket| {
            for (line, extent) in series.iter_mut().zip(bucket) {
                line.push(extent);
            }
        });
        SeriesTile {
            id,
            n_events,
            before: self.levels_before(events.start()).0,
            times: self.bucket_times(id, events),
            series,
            pinned: None,
        }
    }

    /// The peak of each bucket of a tile: where the mountain is sampled.
    pub(super) fn peaks(&self, id: TileId) -> Vec<Peak> {
        let count = id.buckets(self.events.len()) as usize;
        if count == 0 {
            // Outside of the grid a level may be too large for a shift.
            return Vec::new();
        }
        if id.level < BASE_LEVEL {
            return self.fine_peaks(id, count);
        }
        let per_bucket = 1_usize << (id.level - BASE_LEVEL);
        let first = id.first_bucket() as usize * per_bucket;
        (0..count)
            .filter_map(|i| {
                let start = first + i * per_bucket;
                self.pyramid.peak(start, start + per_bucket)
            })
            .collect()
    }

    fn fine_peaks(&self, id: TileId, count: usize) -> Vec<Peak> {
        let mut peaks: Vec<Peak> = Vec::with_capacity(count);
        self.walk(id, |bucket, event, levels| {
            let allocated = levels.get(Series::Allocated);
            let here = Peak {
                event,
                allocated,
                active: levels.get(Series::Active),
            };
            match peaks.get_mut(bucket) {
                None => peaks.push(here),
                Some(peak) if allocated > peak.allocated => *peak = here,
                Some(_) => {}
            }
        });
        peaks
    }

    fn for_each_bucket(&self, id: TileId, mut found: impl FnMut(Bucket)) {
        if id.level >= BASE_LEVEL {
            let first = id.first_bucket();
            let count = u64::from(id.buckets(self.events.len()));
            (first..first + count)
                .filter_map(|index| self.pyramid.bucket(id.level, index))
                .for_each(found);
            return;
        }
        let mut open: Option<(usize, Bucket)> = None;
        self.walk(id, |bucket, _, levels| match &mut open {
            Some((at, extents)) if *at == bucket => widen(extents, levels),
            _ => {
                if let Some((_, done)) = open.replace((bucket, flat(levels))) {
                    found(done);
                }
            }
        });
        if let Some((_, done)) = open {
            found(done);
        }
    }

    /// Visits each event of a tile with its bucket and the levels after it.
    fn walk(&self, id: TileId, mut visit: impl FnMut(usize, EventIdx, Levels)) {
        let events = id.events(self.events.len());
        let first = events.start();
        let mut levels = self.levels_before(first);
        for event in (first.0..events.end().0).map(EventIdx) {
            levels.apply(self.effect(event));
            visit(((event.0 - first.0) >> id.level) as usize, event, levels);
        }
    }

    fn bucket_times(&self, id: TileId, events: Span<EventIdx>) -> Vec<Micros> {
        let Some(last) = events.len().checked_sub(1) else {
            return Vec::new();
        };
        let first = events.start().index();
        let mut times: Vec<Micros> = (0..id.buckets(self.events.len()) as usize)
            .map(|bucket| self.events.time.get(first + (bucket << id.level)))
            .collect();
        times.push(self.events.time.get(first + last as usize));
        times
    }
}

fn flat(levels: Levels) -> Bucket {
    levels.0.map(|level| Extent {
        min: level,
        max: level,
        last: level,
    })
}

fn widen(bucket: &mut Bucket, levels: Levels) {
    for (extent, level) in bucket.iter_mut().zip(levels.0) {
        extent.min = extent.min.min(level);
        extent.max = extent.max.max(level);
        extent.last = level;
    }
}
