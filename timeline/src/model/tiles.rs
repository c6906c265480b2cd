//! Which tiles the window needs, and what happens with those that arrive.

use super::Model;
use crate::mountain::Mountain;
use crate::tile_cache;
use crate::viewport::Viewport;
use api::view_state::Picture;
use std::rc::Rc;
use trace::tiles::{GroupBy, MountainTile, SeriesTile, TileId};

/// A tile to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileRequest {
    /// The lines.
    Series(TileId),
    /// The mountain.
    Mountain(GroupBy, TileId),
}
impl Model {
    /// Tiles to fetch now.
    pub fn take_requests(&mut self, now_ms: f64) -> Vec<TileRequest> {
        let Viewport { from, to, .. } = self.target;
        let series = self.series.take_requests(from, to, now_ms);
        let mut requests: Vec<_> = series.into_iter().map(TileRequest::Series).collect();
        if self.picture == Picture::Mountain {
            let mountains = self.mountains.take_requests(from, to, now_ms);
            let group_by = self.group_by;
            requests.extend(
                mountains
                    .into_iter()
                    .map(|id| TileRequest::Mountain(group_by, id)),
            );
        }
        requests
    }

    /// A series tile has arrived.
    pub fn series_arrived(&mut self, tile: SeriesTile) {
        let cost = tile.times.len() * (4 * 24 + 8);
        self.series.arrived(tile.id, tile, cost);
    }

    /// A mountain tile has arrived. If its grouping is no longer shown, it is dropped.
    pub fn mountain_arrived(&mut self, tile: MountainTile) {
        if tile.group_by == self.group_by {
            let (id, mountain) = (tile.id, Mountain::new(tile));
            let cost = mountain.cost();
            self.mountains.arrived(id, mountain, cost);
        }
    }

    /// A tile could not be fetched.
    pub fn tile_failed(&mut self, request: TileRequest, now_ms: f64) {
        match request {
            TileRequest::Series(id) => self.series.failed(id, now_ms),
            TileRequest::Mountain(group_by, id) if group_by == self.group_by => {
                self.mountains.failed(id, now_ms);
            }
            TileRequest::Mountain(..) => {}
        }
    }

    /// Whether a picture would show axes and nothing else: no tile has arrived.
    pub fn is_blank(&self) -> bool {
        self.series.is_empty()
    }

    /// Whether anything on screen will become finer when tiles arrive.
    pub fn is_waiting(&self) -> bool {
        let Viewport { from, to, .. } = self.target;
        self.series.is_waiting(from, to)
            || self.picture == Picture::Mountain && self.mountains.is_waiting(from, to)
    }
    /// The tile of the whole trace, for the minimap.
    pub fn whole(&self) -> Option<&Rc<SeriesTile>> {
        self.series.get(tile_cache::root(u64::from(self.n_events)))
    }
}
