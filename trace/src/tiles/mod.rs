//! Tiles: the data that a picture of a window of events needs, small and immutable.
//!
//! **Grid.** A tile of level `l` has [`BUCKETS`] buckets of `2^l` events. Tile `i` starts at event
//! `i · BUCKETS/2 · 2^l`: neighbours overlap by half, so that any window of at most half a tile
//! lies inside a single tile and a picture never has a seam.
//!
//! **Lines.** A [`SeriesTile`] holds min, max and last of each series per bucket, plus the level
//! before the tile; an empty bucket (past the end) repeats the last level.
//!
//! **Mountain.** A [`MountainTile`] describes live allocations, stacked. Each bucket is sampled at
//! one event: the first at which *allocated* is highest in that bucket. So all bands of a bucket
//! are from the same moment and sum to exactly the bucket's maximum: no peak is hidden and none
//! invented. Bands are groups (by stack, file, stream …), in the order of the group's first
//! allocation in the whole trace. A group's band first has the allocations worth drawing one by
//! one, oldest first, and then the rest of the group. Zooming in turns the rest into single
//! allocations inside the same band. Blocks that are live in the whole tile and small form one base
//! band. Freed blocks that other streams still use leave their band at `free_requested` and form
//! the *pending* band on top. So the bands without it sum to allocated, and with it to active.
//!
//! **What is worth drawing alone.** At most [`MAX_BLOCKS`] blocks, the largest areas (size ×
//! samples covered) first. A block that covers no sample is counted but not drawn. Blocks that are
//! live in the whole window have by far the largest areas, so they get only a third of the places.
//! They get none if they are smaller than 1/1024 of the window's peak: those form the base. At most
//! [`MAX_GROUPS`] groups have a band, chosen by area; `other` has everything else.

mod callers;
mod codec;
mod groups;
mod labels;
mod mountain;
mod pinned;
mod series;
#[cfg(test)]
mod tests;

pub use crate::series::Extent;
pub use callers::callers;
pub use codec::{TileError, VERSION};
pub use groups::{MountainIndex, OTHER};
pub use labels::{FROM_BEFORE, block_label, frame_label, stack_label};
pub use mountain::{MAX_BLOCKS, MAX_GROUPS};

use crate::span::Span;
use crate::trace::BlockIdx;
use crate::units::{Bytes, EventIdx, Micros};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Buckets of a tile.
pub const BUCKETS: u32 = 2048;
/// The coarsest level: one tile holds 2^32 events, more than any trace has.
pub const MAX_LEVEL: u8 = 21;

/// A tile's place in the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TileId {
    /// Buckets hold `2^level` events.
    pub level: u8,
    /// Position; tiles overlap by half.
    pub index: u32,
}

impl TileId {
    /// Events per bucket.
    pub const fn bucket_events(self) -> u64 {
        1 << self.level
    }

    /// The first event of the tile.
    pub const fn first_event(self) -> u64 {
        self.index as u64 * (BUCKETS as u64 / 2) * self.bucket_events()
    }

    /// One past the last event the tile could hold (the trace may end before).
    pub const fn end_event(self) -> u64 {
        self.first_event() + BUCKETS as u64 * self.bucket_events()
    }

    /// The finest tile that holds `[start, end)` whole.
    pub fn covering(start: u64, end: u64) -> TileId {
        let mut level = 0;
        loop {
            let half = (u64::from(BUCKETS) / 2) << level;
            let index = start / half;
            if end <= (index + 2) * half {
                return TileId {
                    level,
                    index: index as u32,
                };
            }
            level += 1;
        }
    }
}

/// What a band of the mountain stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// The allocation's stack.
    #[default]
    Stack,
    /// The file of the stack's headline frame.
    File,
    /// The stream.
    Stream,
    /// The memory pool.
    Pool,
    /// What it is for, as inferred ([`crate::categories`]).
    Category,
    /// No groups: every allocation on its own, in the order of allocation.
    None,
}

impl GroupBy {
    /// All, in the order in which a menu offers them.
    pub const ALL: [GroupBy; 6] = [
        GroupBy::Stack,
        GroupBy::Category,
        GroupBy::File,
        GroupBy::Stream,
        GroupBy::Pool,
        GroupBy::None,
    ];

    /// Lower-case name, as in URLs.
    pub const fn name(self) -> &'static str {
        match self {
            GroupBy::Stack => "stack",
            GroupBy::File => "file",
            GroupBy::Stream => "stream",
            GroupBy::Pool => "pool",
            GroupBy::Category => "category",
            GroupBy::None => "none",
        }
    }
}

/// The name is not a grouping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a grouping: use stack, category, file, stream, pool or none")]
pub struct UnknownGroupBy;

impl FromStr for GroupBy {
    type Err = UnknownGroupBy;
    fn from_str(name: &str) -> Result<GroupBy, UnknownGroupBy> {
        GroupBy::ALL
            .into_iter()
            .find(|g| g.name() == name)
            .ok_or(UnknownGroupBy)
    }
}

/// The four lines over a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesTile {
    /// Its place.
    pub id: TileId,
    /// Events of the whole device trace.
    pub n_events: u32,
    /// The four levels before the tile's first event, in the order of `Series::ALL`.
    pub before: [Bytes; 4],
    /// Per series (order of `Series::ALL`), per bucket. As long as the trace reaches into the
    /// tile: `ceil((min(end, n_events) - first) / bucket_events)` buckets.
    pub series: [Vec<Extent>; 4],
    /// The time of each bucket's first event, then the time of the last event of the tile: one
    /// more than there are buckets (none when there are no buckets).
    pub times: Vec<Micros>,
    /// Pinned memory of the host in the same buckets, by time; `None` when the recording does not
    /// have it.
    pub pinned: Option<PinnedLine>,
}

/// *Allocated* of the pinned host memory, in the buckets of a device's tile. A bucket has what
/// happened from its first event until the next bucket's; the trace's last one has the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedLine {
    /// The level before the tile's first event.
    pub before: Bytes,
    /// As many as the tile has buckets.
    pub line: Vec<Extent>,
}

/// What a drawing leaves out, as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Blocks.
    pub blocks: u64,
    /// Their bytes. For a band that is live throughout, its level; otherwise the highest level it
    /// reaches.
    pub bytes: Bytes,
}

/// One allocation worth drawing alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileBlock {
    /// Which one.
    pub block: BlockIdx,
    /// Index into [`MountainTile::groups`].
    pub group: u16,
    /// From its alloc event to its `free_requested`, or to the number of events if it is never
    /// freed. Starts at 0 for blocks that existed before the first event.
    pub live: Span<EventIdx>,
    /// Block size.
    pub size: Bytes,
}

/// One band: a group of allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Identity of the group within the trace and grouping: a `StackIdx`, or an index of a file,
    /// stream or pool. It is the same in every tile, so colour and order stay while zooming.
    pub key: u32,
    /// Rank among all groups of the trace by first allocation; bands are stacked by it.
    pub order: u32,
    /// What to call it: `forward model.py:12`, `stream 0`, `small pools`.
    pub label: String,
    /// Who called it, innermost first, where other stacks have the same label:
    /// `forward model.py:80`. Otherwise empty.
    pub caller: String,
    /// Blocks of the group that are not drawn alone, in this window.
    pub rest: LeftOut,
    /// Their level at each bucket's sample.
    pub rest_level: Vec<Bytes>,
}

impl Group {
    /// Its label and who called it, in one line: `norm model.py:12 ← forward model.py:80`.
    pub fn name(&self) -> String {
        with_caller(&self.label, &self.caller)
    }
}

/// A label and who called it, in one line; without a caller, the label.
pub fn with_caller(label: &str, caller: &str) -> String {
    match caller {
        "" => label.to_owned(),
        caller => format!("{label} ← {caller}"),
    }
}

/// Live allocations over a window, stacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountainTile {
    /// Its place.
    pub id: TileId,
    /// Events of the whole device trace.
    pub n_events: u32,
    /// What a band stands for.
    pub group_by: GroupBy,
    /// The event at which each bucket is sampled; as many as the series tile has buckets.
    pub samples: Vec<EventIdx>,
    /// Blocks that are live in the whole window and too small to draw alone; always at the bottom.
    pub base: LeftOut,
    /// The largest groups, by `order`. A last one with key `u32::MAX` (`other`) may hold all
    /// others.
    pub groups: Vec<Group>,
    /// Allocations drawn alone, by (group, block).
    pub blocks: Vec<TileBlock>,
    /// Freed but not yet reusable, at each sample.
    pub pending: Vec<Bytes>,
}
