//! Answers about a point, a group and the selection in the picture.

use super::Model;
use super::picture::Prepared;
use crate::axis::AxisMap;
use crate::facts::{self, Composition, GroupFacts};
use crate::hit_test::{self, Hit, Target};
use crate::lines;
use crate::neighbours::{self, Neighbour};
use crate::tile_cache;
use crate::viewport::Viewport;
use api::view_state::{Axis, Selection};
use std::rc::Rc;
use trace::span::Span;
use trace::tiles::{GroupBy, SeriesTile, with_caller};
use trace::trace::{BlockIdx, Series};
use trace::units::{Bytes, EventIdx};

/// Lowest and highest of the four series at a place.
pub type Extents = [(Bytes, Bytes); 4];
impl Model {
    /// What is under a point, CSS pixels.
    pub fn hit(&self, x: f64, y: f64) -> Option<Hit> {
        let scale = self.measure.scale;
        let (x, y) = ((x * scale) as i32, (y * scale) as i32);
        hit_test::at(
            &self.prepared.mountains,
            self.marks.as_deref(),
            self.frame(),
            x,
            y,
        )
    }

    /// The four series at a point, CSS pixels from the left, and the events that they cover.
    pub fn extents(&self, x: f64) -> Option<(Extents, Span<EventIdx>)> {
        let (tile, first, end) = self.buckets_at(x)?;
        let event = |bucket: usize| {
            let event = tile.id.first_event() + bucket as u64 * tile.id.bucket_events();
            EventIdx(event.min(u64::from(self.n_events)) as u32)
        };
        let extents = Series::ALL.map(|series| {
            let (low, high) = lines::extent(tile, series, first, end);
            (Bytes(low as u64), Bytes(high as u64))
        });
        Some((extents, Span::new(event(first), event(end))))
    }

    /// The pinned memory of the host at a point, if it was recorded.
    pub fn pinned(&self, x: f64) -> Option<(Bytes, Bytes)> {
        let (tile, first, end) = self.buckets_at(x)?;
        let (low, high) = lines::pinned_extent(tile, first, end)?;
        Some((Bytes(low as u64), Bytes(high as u64)))
    }

    /// The buckets of a tile that the pixel column at a point shows.
    fn buckets_at(&self, x: f64) -> Option<(&SeriesTile, usize, usize)> {
        let x = (x * self.measure.scale) as i32;
        let (first, end) = self.prepared.columns.events_at(x)?;
        let middle = (first + end) / 2.0;
        let mut pieces = self.prepared.series.iter();
        let piece = pieces.find(|p| p.from <= middle && middle < p.to)?;
        let tile = &piece.tile;
        let part = lines::part(tile, piece.from, piece.to);
        let (first, end) = self.prepared.columns.buckets_at(part, x)?;
        Some((tile, first, end))
    }

    /// Time of an event position in microseconds since the start of the trace, if times are known.
    /// It is as exact as the loaded tiles.
    pub fn time_at(&self, event: f64) -> Option<f64> {
        let root = self
            .series
            .get(tile_cache::root(u64::from(self.n_events)))?;
        let Viewport { from, to, .. } = self.viewport;
        let finer = tile_cache::wanted(from, to, u64::from(self.n_events));
        let finer = self.series.get(finer).map(Rc::as_ref);
        match AxisMap::new(Axis::Time, Some(root), finer) {
            AxisMap::Event => None,
            map @ AxisMap::Time(_) => Some(map.position(event)),
        }
    }

    /// The position in the plot, as fractions, of a point in CSS pixels.
    pub fn fractions(&self, x: f64, y: f64) -> (f64, f64) {
        self.prepared.layout.fractions(x, y)
    }

    /// The next allocation beside the selected one, among those drawn alone. If nothing is
    /// selected, the first in the window.
    pub fn neighbour(&self, towards: Neighbour) -> Option<BlockIdx> {
        let from = match self.selection {
            Some(Selection::Block(block)) => Some(block),
            Some(Selection::Group(_)) | None => None,
        };
        let Viewport {
            from: first, to, ..
        } = self.viewport;
        neighbours::next(&self.prepared.mountains, (first, to), from, towards)
    }

    /// A group's totals over the window's tile.
    pub fn group(&self, key: u32) -> Option<GroupFacts> {
        facts::group(&self.prepared.mountains, key)
    }

    /// The groups of the picture, if they are stacks: their keys, their names with who called them
    /// where others have the same, and the orders that give them their colours.
    pub fn stack_orders(&self) -> impl Iterator<Item = (u32, String, u32)> + '_ {
        let tiles = self.prepared.mountains.iter().map(|piece| &piece.tile.tile);
        let of_stacks = tiles.filter(|tile| tile.group_by == GroupBy::Stack);
        let groups = of_stacks.flat_map(|tile| &tile.groups);
        groups.map(|group| {
            (
                group.key,
                with_caller(&group.label, &group.caller),
                group.order,
            )
        })
    }

    /// What the memory consists of at the event of the window with the most allocated memory.
    pub fn composition(&self) -> Option<Composition> {
        let Prepared {
            mountains, columns, ..
        } = &self.prepared;
        facts::composition(mountains, columns, &self.palette)
    }

    /// Selects what a click hit; a click on nothing selects nothing.
    pub fn click(&mut self, x: f64, y: f64) {
        let target = self.hit(x, y).and_then(|hit| hit.target);
        self.select(match target {
            Some(Target::Block { block, .. }) => Some(Selection::Block(block.block)),
            Some(Target::Rest { key, .. }) => Some(Selection::Group(key)),
            Some(Target::Base { .. } | Target::Pending { .. }) | None => None,
        });
    }
}
