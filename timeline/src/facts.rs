//! What the visible mountain consists of, in numbers, for the lists beside the picture.

use super::colours::{OTHER_KEY, Palette, Rgba};
use super::mountain::Mountain;
use super::order;
use super::plot::Columns;
use super::tile_cache::Piece;
use crate::format::count;
use std::cmp::Reverse;
use trace::tiles::LeftOut;
use trace::trace::BlockIdx;
use trace::units::{Bytes, EventIdx};

/// A group over the window's tile.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupFacts {
    /// Its name.
    pub label: String,
    /// Who called it, where others have the same name; otherwise empty.
    pub caller: String,
    /// The events that the numbers cover.
    pub events: (u64, u64),
    /// Blocks that are live in these events.
    pub blocks: u64,
    /// Its highest level at a sample.
    pub peak: Bytes,
    /// The event of that peak.
    pub peak_event: Option<EventIdx>,
    /// The largest of its blocks that is drawn alone.
    pub member: Option<BlockIdx>,
}

/// What the memory consists of at one event.
#[derive(Clone, Debug, PartialEq)]
pub struct Composition {
    /// The event.
    pub event: EventIdx,
    /// Everything that is allocated.
    pub total: Bytes,
    /// The groups, largest first, `other` last.
    pub groups: Vec<GroupShare>,
    /// Small blocks that live throughout.
    pub base: LeftOut,
    /// Freed, but in use by another stream; not part of the total.
    pub pending: Bytes,
}

impl Composition {
    /// Of what the total is, and when: the picture is higher where memory also waits for another
    /// stream.
    pub fn said(&self) -> [String; 2] {
        let event = count(u64::from(self.event.0));
        [
            format!("{} allocated", self.total),
            format!("at event {event}, the highest allocated in view"),
        ]
    }
}

/// A group's part.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupShare {
    /// The group's key.
    pub key: u32,
    /// Its name.
    pub label: String,
    /// Who called it, where others have the same name; otherwise empty.
    pub caller: String,
    /// Its colour.
    pub colour: Rgba,
    /// The same as a style sheet writes it.
    pub css: String,
    /// Its blocks together.
    pub bytes: Bytes,
}

/// What the memory consists of at the event of the window with the most allocated memory.
pub fn composition(
    pieces: &[Piece<Mountain>],
    columns: &Columns,
    palette: &Palette,
) -> Option<Composition> {
    let highest = pieces.iter().filter_map(|piece| {
        let part = piece.tile.part(piece.from, piece.to);
        let runs = columns.runs(part);
        let (first, last) = (runs.first()?, runs.last()?);
        let column = piece.tile.layout.highest(first.first, last.end);
        Some((piece, column, piece.tile.layout.body(column)))
    });
    let (piece, column, total) = highest.max_by_key(|(_, _, level)| *level)?;
    let (tile, layout) = (&piece.tile.tile, &piece.tile.layout);
    let groups = layout.group_levels(column, tile.groups.len());
    let mut groups: Vec<GroupShare> = tile
        .groups
        .iter()
        .zip(groups)
        .filter(|(_, bytes)| *bytes > Bytes::ZERO)
        .map(|(group, bytes)| GroupShare {
            key: group.key,
            label: group.label.clone(),
            caller: group.caller.clone(),
            colour: palette.group(group.key, group.order),
            css: Palette::group_css(group.key, group.order),
            bytes,
        })
        .collect();
    order::sort_by_key(&mut groups, |g| (g.key == OTHER_KEY, Reverse(g.bytes)));
    Some(Composition {
        event: tile.samples[column],
        total,
        groups,
        base: tile.base,
        pending: tile.pending[column],
    })
}

/// A group's totals over the window's tile.
pub fn group(pieces: &[Piece<Mountain>], key: u32) -> Option<GroupFacts> {
    let piece = pieces
        .iter()
        .find(|piece| piece.tile.tile.groups.iter().any(|g| g.key == key))?;
    let tile = &piece.tile.tile;
    let index = tile.groups.iter().position(|g| g.key == key)?;
    let peak = (0..tile.samples.len())
        .filter_map(|column| {
            let (bottom, top) = piece.tile.layout.find_group(column, index as u16)?;
            Some((top - bottom, tile.samples[column]))
        })
        .max_by_key(|(level, sample)| (*level, Reverse(*sample)));
    let alone = tile.blocks.iter().filter(|b| usize::from(b.group) == index);
    Some(GroupFacts {
        label: tile.groups[index].label.clone(),
        caller: tile.groups[index].caller.clone(),
        events: (
            tile.id.first_event(),
            tile.id.end_event().min(u64::from(tile.n_events)),
        ),
        blocks: alone.clone().count() as u64 + tile.groups[index].rest.blocks,
        peak: peak.map(|(level, _)| level).unwrap_or_default(),
        peak_event: peak.map(|(_, sample)| sample),
        member: alone.max_by_key(|b| b.size).map(|b| b.block),
    })
}

/// The lowest and the highest level at which anything of a group is visible.
pub fn group_band(pieces: &[Piece<Mountain>], key: u32) -> Option<(Bytes, Bytes)> {
    let mut band: Option<(Bytes, Bytes)> = None;
    for piece in pieces {
        let (tile, layout) = (&piece.tile.tile, &piece.tile.layout);
        let Some(index) = tile.groups.iter().position(|g| g.key == key) else {
            continue;
        };
        let seen = |event: &EventIdx| (piece.from..piece.to).contains(&f64::from(event.0));
        let columns = (0..tile.samples.len()).filter(|&column| seen(&tile.samples[column]));
        for (bottom, top) in columns.filter_map(|c| layout.find_group(c, index as u16)) {
            let (low, high) = band.unwrap_or((bottom, top));
            band = Some((low.min(bottom), high.max(top)));
        }
    }
    band
}
