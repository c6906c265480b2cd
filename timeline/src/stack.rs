//! The mountain's layout: where each band lies, at each sample, in bytes. Computed once per tile.
//!
//! A column is a sample of the tile. From bottom to top it has the base, then the groups by order.
//! In each group come the blocks drawn alone, oldest first, then the rest. On top of all groups
//! lies pending memory. When a block is freed, everything above it slides down at the next sample.
//! The work is bounded by blocks × samples. Each column is a sorted list, so bisection finds what
//! lies at a level.
//!
//! Levels are stored in quanta of 512 bytes, the unit to which the caching allocator rounds. They
//! are exact for its blocks, and take half the memory of bytes (a tile may hold millions of
//! entries). Above 2 TiB, which only an absurd recording has, quanta are as large as is needed.

use super::order;
use trace::tiles::MountainTile;
use trace::units::{Bytes, EventIdx};

/// Bytes of a level's unit, up to 2 TiB.
const QUANTUM: u64 = 512;

/// What a band is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item {
    /// Live in the whole tile and small.
    Base,
    /// `tile.blocks[i]`.
    Block(u32),
    /// The part of `tile.groups[i]` that is not drawn block by block.
    Rest(u16),
    /// Freed, not yet reusable.
    Pending,
}

/// An item as a dense number: base 0, blocks from 1, rests after them, pending last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemIdx(pub u32);

/// The layout of one tile.
#[derive(Debug)]
pub struct StackLayout {
    n_blocks: u32,
    n_groups: u32,
    /// Bytes of a level's unit.
    quantum: u64,
    /// Where each column's entries start; one more than there are columns.
    starts: Vec<u32>,
    items: Vec<ItemIdx>,
    /// Upper edge of each entry, in quanta; its lower edge is the upper edge of the one before.
    tops: Vec<u32>,
    /// Upper edge of each column without pending memory, in quanta: what is allocated.
    bodies: Vec<u32>,
    /// The group of each item by dense number, so that painting does not need the tile.
    item_groups: Vec<u16>,
}

/// The group of items that belong to no group.
const NO_GROUP: u16 = u16::MAX;

/// An item and its edges in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// What it is.
    pub item: Item,
    /// Lower edge.
    pub bottom: Bytes,
    /// Upper edge.
    pub top: Bytes,
}

impl StackLayout {
    /// Computes the layout of the tile.
    pub fn new(tile: &MountainTile) -> StackLayout {
        let (layout, highest) = StackLayout::of(tile, QUANTUM);
        let most = QUANTUM << 32;
        match highest < most {
            true => layout,
            false => {
                let times = (highest / most + 1).next_power_of_two();
                StackLayout::of(tile, QUANTUM * times).0
            }
        }
    }

    /// In such a quantum; with the highest level, bytes.
    fn of(tile: &MountainTile, quantum: u64) -> (StackLayout, u64) {
        let mut layout = StackLayout {
            n_blocks: tile.blocks.len() as u32,
            n_groups: tile.groups.len() as u32,
            quantum,
            starts: vec![0],
            items: Vec::new(),
            tops: Vec::new(),
            bodies: Vec::new(),
            item_groups: item_groups(tile),
        };
        let mut builder = Builder::new(tile);
        let mut live = LiveBlocks::new(tile);
        for column in 0..tile.samples.len() {
            builder.push_column(&mut layout, column, live.at(tile.samples[column]));
        }
        let highest = builder.highest;
        builder.finish(&mut layout);
        (layout, highest)
    }

    /// A level in bytes.
    pub fn bytes(&self, quanta: u32) -> Bytes {
        Bytes(u64::from(quanta) * self.quantum)
    }

    /// Bytes of a level's unit.
    pub fn quantum(&self) -> u64 {
        self.quantum
    }

    /// More than there is room for only while the quantum is too small.
    #[inline(always)]
    fn quanta(&self, bytes: u64) -> u32 {
        u32::try_from(bytes / self.quantum).unwrap_or(u32::MAX)
    }

    /// The column among `first..end` with the most allocated memory. It is shown for all of them,
    /// so that no peak is lost.
    pub fn highest(&self, first: usize, end: usize) -> usize {
        let end = end.min(self.bodies.len());
        (first..end)
            .rev()
            .max_by_key(|&column| self.bodies[column])
            .unwrap_or(first)
    }

    /// What is allocated at a column.
    pub fn body(&self, column: usize) -> Bytes {
        self.bytes(self.bodies[column])
    }

    /// What each group holds at a column.
    pub fn group_levels(&self, column: usize, n_groups: usize) -> Vec<Bytes> {
        let mut levels = vec![0; n_groups];
        let (items, tops) = self.column(column);
        let mut below = 0;
        for (&item, &top) in items.iter().zip(tops) {
            if let Some(group) = self.group_of_index(item) {
                levels[group as usize] += self.bytes(top - below).get();
            }
            below = top;
        }
        levels.into_iter().map(Bytes).collect()
    }

    /// The level up to which all columns of `first..end` are equal: all changes in them are above
    /// it.
    pub fn quiet_level(&self, first: usize, end: usize) -> Bytes {
        let (items, tops) = self.column(first);
        let mut alike = items.len();
        for column in first + 1..end.min(self.n_columns()) {
            let (other_items, other_tops) = self.column(column);
            let same = |&i: &usize| items[i] == other_items[i] && tops[i] == other_tops[i];
            let most = alike.min(other_items.len());
            alike = (0..most).take_while(same).count();
        }
        let quanta = if alike == 0 { 0 } else { tops[alike - 1] };
        self.bytes(quanta)
    }

    /// The dense number of an item.
    pub fn index(&self, item: Item) -> ItemIdx {
        ItemIdx(match item {
            Item::Base => 0,
            Item::Block(block) => 1 + block,
            Item::Rest(group) => 1 + self.n_blocks + u32::from(group),
            Item::Pending => 1 + self.n_blocks + self.n_groups,
        })
    }

    /// The item of a dense number.
    pub fn item(&self, index: ItemIdx) -> Item {
        match index.0 {
            0 => Item::Base,
            i if i <= self.n_blocks => Item::Block(i - 1),
            i if i <= self.n_blocks + self.n_groups => Item::Rest((i - 1 - self.n_blocks) as u16),
            _ => Item::Pending,
        }
    }

    /// The number of dense numbers.
    pub fn n_items(&self) -> usize {
        2 + self.n_blocks as usize + self.n_groups as usize
    }

    /// The group an item belongs to.
    pub fn group_of(&self, item: Item) -> Option<u16> {
        self.group_of_index(self.index(item))
    }

    /// The group that the item of a dense number belongs to.
    pub fn group_of_index(&self, index: ItemIdx) -> Option<u16> {
        let group = self.item_groups[index.0 as usize];
        (group != NO_GROUP).then_some(group)
    }

    /// Samples.
    pub fn n_columns(&self) -> usize {
        self.starts.len() - 1
    }

    /// A column's entries: dense item numbers and upper edges in quanta.
    pub fn column(&self, column: usize) -> (&[ItemIdx], &[u32]) {
        let range = self.starts[column] as usize..self.starts[column + 1] as usize;
        (&self.items[range.clone()], &self.tops[range])
    }

    /// What lies at a level of a column; `None` above the mountain.
    pub fn at(&self, column: usize, level: Bytes) -> Option<Band> {
        let (_, tops) = self.column(column);
        let quanta = level.get() / self.quantum;
        let entry = tops.partition_point(|&top| u64::from(top) <= quanta);
        (entry < tops.len()).then(|| self.band(column, entry))
    }

    /// An item's edges in a column; `None` when it is not there.
    pub fn find(&self, column: usize, item: Item) -> Option<Band> {
        let wanted = self.index(item);
        let (items, _) = self.column(column);
        let entry = items.iter().position(|&i| i == wanted)?;
        Some(self.band(column, entry))
    }

    /// The edges of a whole group in a column; `None` when nothing of it is there.
    pub fn find_group(&self, column: usize, group: u16) -> Option<(Bytes, Bytes)> {
        let (items, _) = self.column(column);
        let belongs = |&i: &ItemIdx| self.group_of_index(i) == Some(group);
        let first = items.iter().position(belongs)?;
        let last = items.iter().rposition(belongs)?;
        Some((self.band(column, first).bottom, self.band(column, last).top))
    }

    fn band(&self, column: usize, entry: usize) -> Band {
        let (items, tops) = self.column(column);
        let bottom = if entry == 0 { 0 } else { tops[entry - 1] };
        Band {
            item: self.item(items[entry]),
            bottom: self.bytes(bottom),
            top: self.bytes(tops[entry]),
        }
    }

    /// How many bytes of memory it takes.
    pub fn cost(&self) -> usize {
        4 * (self.starts.len() + self.items.len() + self.tops.len()) + 2 * self.item_groups.len()
    }
}

fn item_groups(tile: &MountainTile) -> Vec<u16> {
    let mut groups = vec![NO_GROUP];
    groups.extend(tile.blocks.iter().map(|b| b.group));
    groups.extend(0..tile.groups.len() as u16);
    groups.push(NO_GROUP);
    groups
}

/// Makes a layout column by column. This is most of the work between the first tile and the first
/// picture, and a browser runs it before it has optimised it. So what is read for each entry lies
/// side by side, and entries are written into vectors that are long enough from the beginning.
struct Builder<'a> {
    tile: &'a MountainTile,
    /// Group and bytes of each block.
    blocks: Vec<(u16, u64)>,
    items: Vec<ItemIdx>,
    tops: Vec<u32>,
    /// How many entries are written.
    written: usize,
    /// Upper edge of the last entry, bytes.
    level: u64,
    /// The highest level of all columns, bytes.
    highest: u64,
}

impl<'a> Builder<'a> {
    fn new(tile: &'a MountainTile) -> Builder<'a> {
        let blocks = tile.blocks.iter().map(|b| (b.group, b.size.get()));
        let most = most_entries(tile);
        Builder {
            tile,
            blocks: blocks.collect(),
            items: vec![ItemIdx(0); most],
            tops: vec![0; most],
            written: 0,
            level: 0,
            highest: 0,
        }
    }

    /// `live` is in the order of the tile: by group, and in a group the oldest first.
    fn push_column(&mut self, layout: &mut StackLayout, column: usize, live: &[u32]) {
        let tile = self.tile;
        self.level = 0;
        self.push(layout, layout.index(Item::Base), tile.base.bytes.get());
        let mut group = 0;
        for &block in live {
            let (of, size) = self.blocks[block as usize];
            while group < of {
                self.push_rest(layout, group, column);
                group += 1;
            }
            self.push(layout, ItemIdx(1 + block), size);
        }
        for rest in group..tile.groups.len() as u16 {
            self.push_rest(layout, rest, column);
        }
        layout.bodies.push(layout.quanta(self.level));
        self.push(
            layout,
            layout.index(Item::Pending),
            tile.pending[column].get(),
        );
        self.highest = self.highest.max(self.level);
        layout.starts.push(self.written as u32);
    }

    fn push_rest(&mut self, layout: &StackLayout, group: u16, column: usize) {
        let rest = self.tile.groups[group as usize].rest_level[column];
        self.push(layout, layout.index(Item::Rest(group)), rest.get());
    }

    #[inline(always)]
    fn push(&mut self, layout: &StackLayout, item: ItemIdx, bytes: u64) {
        if bytes > 0 {
            self.level += bytes;
            self.items[self.written] = item;
            self.tops[self.written] = layout.quanta(self.level);
            self.written += 1;
        }
    }

    fn finish(mut self, layout: &mut StackLayout) {
        self.items.truncate(self.written);
        self.tops.truncate(self.written);
        (layout.items, layout.tops) = (self.items, self.tops);
    }
}

/// Entries of all columns, at most: each block in the columns that it covers, and in each column
/// the base, the rest of each group, and what is pending.
fn most_entries(tile: &MountainTile) -> usize {
    let before = |event: EventIdx| tile.samples.partition_point(|&sample| sample < event);
    let covered = tile.blocks.iter().map(|block| {
        let (start, end) = (block.live.start(), block.live.end());
        before(end) - before(start)
    });
    covered.sum::<usize>() + tile.samples.len() * (tile.groups.len() + 2)
}

/// The blocks that are live at a sample, in the tile's order; updated from sample to sample.
struct LiveBlocks {
    /// First event of all blocks, and the block, sorted.
    by_start: Vec<(u32, u32)>,
    /// How many of them have begun.
    begun: usize,
    /// The event with which each block ends.
    ends: Vec<u32>,
    live: Vec<u32>,
    added: Vec<u32>,
    merged: Vec<u32>,
}

impl LiveBlocks {
    fn new(tile: &MountainTile) -> LiveBlocks {
        let start = |block: usize| tile.blocks[block].live.start().0;
        let by_start = order::order_of(tile.blocks.len(), &mut |a, b| start(a).cmp(&start(b)));
        let by_start = by_start.into_iter();
        LiveBlocks {
            by_start: by_start.map(|b| (start(b), b as u32)).collect(),
            begun: 0,
            ends: tile.blocks.iter().map(|b| b.live.end().0).collect(),
            live: Vec::new(),
            added: Vec::new(),
            merged: Vec::new(),
        }
    }

    /// Those that are live at an event, which is not before the last one that was asked for.
    fn at(&mut self, event: EventIdx) -> &[u32] {
        self.added.clear();
        while let Some(&(start, block)) = self.by_start.get(self.begun)
            && start <= event.0
        {
            self.begun += 1;
            self.added.push(block);
        }
        let ends = &self.ends;
        self.live.retain(|&block| event.0 < ends[block as usize]);
        self.added.retain(|&block| event.0 < ends[block as usize]);
        if !self.added.is_empty() {
            self.merge();
        }
        &self.live
    }

    fn merge(&mut self) {
        self.added.sort_unstable();
        self.merged.clear();
        let mut added = self.added.iter().copied().peekable();
        for &block in &self.live {
            while let Some(earlier) = added.next_if(|&a| a < block) {
                self.merged.push(earlier);
            }
            self.merged.push(block);
        }
        self.merged.extend(added);
        std::mem::swap(&mut self.live, &mut self.merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::mountain;
    use proptest::prelude::*;

    fn bands(layout: &StackLayout, column: usize) -> Vec<(Item, u64, u64)> {
        let (items, _) = layout.column(column);
        (0..items.len())
            .map(|entry| layout.band(column, entry))
            .map(|b| (b.item, b.bottom.get() >> 20, b.top.get() >> 20))
            .collect()
    }

    #[test]
    fn what_is_above_slides_down_when_a_block_goes() {
        let mut tile = mountain(4, 1, &[(0, 0, 2, 10), (0, 1, 4, 5), (1, 0, 4, 7)]);
        tile.groups[0].rest_level[3] = Bytes::mib(2);
        tile.pending[2] = Bytes::mib(10);
        let layout = StackLayout::new(&tile);
        use Item::*;
        assert_eq!(
            bands(&layout, 1),
            vec![
                (Base, 0, 1),
                (Block(0), 1, 11),
                (Block(1), 11, 16),
                (Block(2), 16, 23)
            ]
        );
        assert_eq!(
            bands(&layout, 2),
            vec![
                (Base, 0, 1),
                (Block(1), 1, 6),
                (Block(2), 6, 13),
                (Pending, 13, 23)
            ]
        );
        assert_eq!(
            bands(&layout, 3),
            vec![
                (Base, 0, 1),
                (Block(1), 1, 6),
                (Rest(0), 6, 8),
                (Block(2), 8, 15)
            ]
        );
    }

    #[test]
    fn what_lies_at_a_level_is_found() {
        let layout = StackLayout::new(&mountain(4, 1, &[(0, 0, 2, 10), (1, 0, 4, 7)]));
        let at = |column, mib| layout.at(column, Bytes::mib(mib)).map(|b| b.item);
        assert_eq!(at(0, 0), Some(Item::Base));
        assert_eq!(at(0, 1), Some(Item::Block(0)));
        assert_eq!(at(0, 17), Some(Item::Block(1)));
        assert_eq!(at(0, 18), None);
        assert_eq!(at(3, 2), Some(Item::Block(1)));
        assert_eq!(layout.find(3, Item::Block(0)), None);
        assert_eq!(
            layout.find_group(0, 0),
            Some((Bytes::mib(1), Bytes::mib(11)))
        );
        assert_eq!(layout.highest(0, 4), 0, "the first of the highest");
        assert_eq!(layout.quiet_level(0, 2), Bytes::mib(18));
        assert_eq!(layout.quiet_level(0, 4), Bytes::mib(1));
    }

    #[test]
    fn levels_above_2_tib_have_room() {
        let tib = 1 << 20;
        let tile = mountain(4, 1, &[(0, 0, 2, 3 * tib), (0, 1, 4, 16 * tib)]);
        let layout = StackLayout::new(&tile);
        assert_eq!(layout.body(1), Bytes::mib(19 * tib + 1));
        assert_eq!(layout.highest(0, 4), 1);
        let levels = layout.group_levels(1, 1);
        assert_eq!(levels, [Bytes::mib(19 * tib)]);
    }

    proptest! {
        #[test]
        fn every_column_is_the_sum_of_what_lives_there(
            blocks in proptest::collection::vec((0_u16..4, 0_u32..60, 0_u32..60, 1_u64..9), 0..80)
        ) {
            let mut blocks: Vec<_> = blocks
                .into_iter()
                .map(|(g, a, b, size)| (g, a.min(b), a.max(b), size))
                .collect();
            blocks.sort_by_key(|b| (b.0, b.1));
            let tile = mountain(60, 3, &blocks);
            let layout = StackLayout::new(&tile);
            for column in 0..60 {
                let at = tile.samples[column];
                let live = tile.blocks.iter().filter(|b| b.live.contains(at));
                let sum = Bytes::mib(3) + live.clone().map(|b| b.size).sum::<Bytes>();
                let (items, tops) = layout.column(column);
                prop_assert_eq!(items.len(), 1 + live.count());
                prop_assert_eq!(u64::from(*tops.last().unwrap()) * QUANTUM, sum.get());
                let n_blocks = tile.blocks.len() as u32;
                prop_assert!(items.windows(2).all(|w| w[0] < w[1] || w[1].0 > n_blocks));
            }
        }
    }
}
