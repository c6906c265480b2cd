//! The line of pinned host memory beside those of a device.

use super::{Extent, PinnedLine, SeriesTile, TileId};
use crate::trace::{DeviceTrace, Series, Trace};
use crate::units::{Bytes, EventIdx};
use crate::watch::{Stopped, Watch};

impl Trace {
    /// The lines of a tile of one of its devices, with the pinned memory of the host.
    pub fn series_tile(&self, device: &DeviceTrace, id: TileId) -> SeriesTile {
        Watch::undisturbed(|watch| self.series_tile_while(device, id, watch))
    }

    /// The same, with a `watch` that may stop it.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn series_tile_while(
        &self,
        device: &DeviceTrace,
        id: TileId,
        watch: Watch<'_>,
    ) -> Result<SeriesTile, Stopped> {
        let beside = self
            .pinned
            .as_ref()
            .filter(|pinned| pinned.device != device.device);
        let line = beside.map(|pinned| pinned_line(pinned, device, id, watch));
        Ok(SeriesTile {
            pinned: line.transpose()?.flatten(),
            ..device.series_tile(id)
        })
    }
}

/// `None` when events of the device have no times: then nothing says what happened together.
fn pinned_line(
    pinned: &DeviceTrace,
    device: &DeviceTrace,
    id: TileId,
    watch: Watch<'_>,
) -> Result<Option<PinnedLine>, Stopped> {
    let n_events = device.events.len();
    let last = n_events.checked_sub(1);
    if last.is_none_or(|last| device.events.time.get(last as usize).0 == 0) {
        return Ok(None);
    }
    let events = id.events(n_events);
    let place = |event: u32| match event < n_events {
        true => pinned
            .events
            .first_at(device.events.time.get(event as usize)),
        false => EventIdx(pinned.events.len()),
    };
    let mut at = place(events.start().0);
    let mut levels = pinned.levels_before(at);
    let before = levels.get(Series::Allocated);
    let mut line = Vec::with_capacity(id.buckets(n_events) as usize);
    for bucket in 0..u64::from(id.buckets(n_events)) {
        let next = id.first_event() + (bucket + 1) * id.bucket_events();
        let next = next.min(u64::from(n_events)) as u32;
        let end = place(next);
        let mut extent = flat(levels.get(Series::Allocated));
        while at < end {
            levels.apply(pinned.effect(at));
            let level = levels.get(Series::Allocated);
            extent.min = extent.min.min(level);
            extent.max = extent.max.max(level);
            extent.last = level;
            watch.at_row(at.index(), || 0)?;
            at = EventIdx(at.0 + 1);
        }
        line.push(extent);
    }
    Ok(Some(PinnedLine { line, before }))
}

fn flat(level: Bytes) -> Extent {
    Extent {
        min: level,
        max: level,
        last: level,
    }
}
