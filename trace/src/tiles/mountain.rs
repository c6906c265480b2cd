//! Live allocations of a window, stacked.
//!
//! Only blocks that overlap the window are visited, each once. The blocks allocated inside are a
//! run of the columns; the earlier ones are found through the [live
//! index](crate::intervals::LiveIndex). A block adds its size to the samples that it covers. So
//! levels are sums of differences, and exact.

use super::groups::{MountainIndex, OTHER};
use super::{Group, LeftOut, MountainTile, TileBlock, TileId};
use crate::pyramid::Peak;
use crate::span::Span;
use crate::trace::{BlockIdx, Blocks, DeviceTrace};
use crate::units::{Bytes, EventIdx};
use crate::watch::{Stopped, Watch};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most blocks drawn alone in a tile.
pub const MAX_BLOCKS: usize = 1200;
/// The largest number of these that are live in the whole window. They have the largest areas:
/// without this limit, a model's parameters would leave no place for blocks that come and go.
const MAX_WHOLE: usize = 400;
/// A block that is live in the whole window counts as small if it is less than this fraction of the
/// window's peak: it would be less than a pixel high.
const SMALL_SHARE: u64 = 1024;
/// The largest number of groups with a band of their own.
pub const MAX_GROUPS: usize = 32;

impl DeviceTrace {
    /// The mountain of a tile; a tile without samples if it lies outside of the grid or past the
    /// end. `index` must be built from this device.
    pub fn mountain_tile(&self, id: TileId, index: &MountainIndex) -> MountainTile {
        Watch::undisturbed(|watch| self.mountain_tile_while(id, index, watch))
    }

    /// The same, with a `watch` that may stop it.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn mountain_tile_while(
        &self,
        id: TileId,
        index: &MountainIndex,
        watch: Watch<'_>,
    ) -> Result<MountainTile, Stopped> {
        let peaks = self.peaks(id);
        let view = View {
            blocks: &self.blocks,
            index,
            grid: SampleGrid::new(id, id.events(self.events.len()), &peaks),
        };
        let survey = Survey::take(&view, watch)?;
        let drawn = survey.choose(&view);
        watch.look(0)?;
        let bands = Bands::stack(&view, &survey, &drawn);
        Ok(MountainTile {
            id,
            n_events: self.events.len(),
            group_by: index.group_by,
            samples: peaks.iter().map(|peak| peak.event).collect(),
            base: bands.base,
            blocks: bands.tile_blocks(&view, &drawn),
            groups: bands.groups,
            pending: peaks.iter().map(pending).collect(),
        })
    }
}

fn pending(peak: &Peak) -> Bytes {
    peak.active.saturating_sub(peak.allocated)
}

/// The input for a tile.
struct View<'a> {
    blocks: &'a Blocks,
    index: &'a MountainIndex,
    grid: SampleGrid,
}

impl View<'_> {
    #[inline]
    fn size(&self, block: u32) -> Bytes {
        self.blocks.kind(BlockIdx(block)).size
    }

    /// The group of a block, as a position in the index.
    #[inline]
    fn group(&self, block: u32) -> usize {
        self.index.group_of(block, self.blocks.kind[block as usize]) as usize
    }

    #[inline]
    fn cover(&self, block: u32) -> Cover {
        let (alloc, freed) = self.lifetime(block);
        Cover {
            block,
            from: self.grid.before(alloc),
            to: self.grid.before(freed),
            whole: alloc <= self.grid.window.start().0 && freed >= self.grid.window.end().0,
        }
    }

    #[inline]
    fn lifetime(&self, block: u32) -> (u32, u32) {
        let at = block as usize;
        (self.blocks.alloc[at], self.blocks.free_requested[at])
    }

    /// Bytes times samples.
    #[inline]
    fn area(&self, cover: &Cover) -> u64 {
        let samples = u64::from(cover.to.saturating_sub(cover.from));
        self.size(cover.block).0.saturating_mul(samples)
    }
}

/// The events at which a tile is sampled.
struct SampleGrid {
    level: u8,
    window: Span<EventIdx>,
    samples: Vec<u32>,
    /// The highest allocated level.
    peak: Bytes,
}

impl SampleGrid {
    fn new(id: TileId, window: Span<EventIdx>, peaks: &[Peak]) -> SampleGrid {
        SampleGrid {
            level: id.level,
            window,
            samples: peaks.iter().map(|peak| peak.event.0).collect(),
            peak: peaks.iter().map(|p| p.allocated).max().unwrap_or_default(),
        }
    }

    /// How many samples lie before an event.
    #[inline]
    fn before(&self, event: u32) -> u16 {
        let (start, end) = (self.window.start().0, self.window.end().0);
        if event >= end {
            return self.samples.len() as u16;
        }
        let bucket = (event.saturating_sub(start)) >> self.level;
        bucket as u16 + u16::from(self.samples[bucket as usize] < event)
    }
}

/// The samples `[from, to)` that a block covers.
#[derive(Clone, Copy)]
struct Cover {
    block: u32,
    from: u16,
    to: u16,
    whole: bool,
}

/// A block that may be drawn alone. The order is by area; among equal areas the oldest is the
/// greatest.
type Candidate = (u64, Reverse<u32>);

/// The largest candidates, at most `limit` of them.
struct Largest {
    limit: usize,
    heap: BinaryHeap<Reverse<Candidate>>,
}

impl Largest {
    fn new(limit: usize) -> Largest {
        Largest {
            limit,
            heap: BinaryHeap::with_capacity(limit + 1),
        }
    }

    #[inline]
    fn offer(&mut self, candidate: Candidate) {
        if self.heap.len() < self.limit {
            self.heap.push(Reverse(candidate));
        } else if let Some(mut least) = self.heap.peek_mut()
            && candidate > least.0
        {
            least.0 = candidate;
        }
    }

    /// Largest first.
    fn into_blocks(self) -> impl Iterator<Item = u32> {
        let sorted = self.heap.into_sorted_vec().into_iter();
        sorted.map(|Reverse((_, Reverse(block)))| block)
    }
}

/// The result of visiting every block that overlaps the window once.
struct Survey {
    /// Blocks that cover a sample, oldest first.
    covers: Vec<Cover>,
    /// Per group of the index: blocks that overlap the window but not all of it.
    passing: Vec<u64>,
}

impl Survey {
    fn take(view: &View, watch: Watch<'_>) -> Result<Survey, Stopped> {
        let mut survey = Survey {
            covers: Vec::new(),
            passing: vec![0; view.index.groups.len()],
        };
        let blocks = view.blocks;
        let inside = blocks.allocated_in(view.grid.window);
        let start = view.grid.window.start().0;
        let earlier = inside.start;
        view.index.live.outliving(blocks, earlier, start, |block| {
            if blocks.free_requested[block.index()] > start {
                survey.visit(view, block.0);
            }
            watch.at_row(block.index(), || 0)
        })?;
        for block in inside {
            survey.visit(view, block);
            watch.at_row(block as usize, || 0)?;
        }
        Ok(survey)
    }

    #[inline]
    fn visit(&mut self, view: &View, block: u32) {
        let cover = view.cover(block);
        if !cover.whole {
            self.passing[view.group(block)] += 1;
        }
        if cover.from < cover.to {
            self.covers.push(cover);
        }
    }

    /// The blocks worth drawing alone, oldest first.
    fn choose(&self, view: &View) -> Vec<Cover> {
        let mut whole = Largest::new(MAX_WHOLE);
        let mut passing = Largest::new(MAX_BLOCKS);
        for cover in &self.covers {
            let candidate = (view.area(cover), Reverse(cover.block));
            if !cover.whole {
                passing.offer(candidate);
            } else if view.size(cover.block).0.saturating_mul(SMALL_SHARE) >= view.grid.peak.0 {
                whole.offer(candidate);
            }
        }
        let mut chosen: Vec<u32> = whole.into_blocks().collect();
        chosen.extend(passing.into_blocks().take(MAX_BLOCKS - chosen.len()));
        chosen.sort_unstable();
        chosen.into_iter().map(|block| view.cover(block)).collect()
    }
}

/// The bands of a tile, and what is left in them besides the blocks that are drawn alone.
struct Bands {
    base: LeftOut,
    groups: Vec<Group>,
    /// Per group of the index, the position in `groups`.
    slots: Vec<u16>,
}

impl Bands {
    fn stack(view: &View, survey: &Survey, drawn: &[Cover]) -> Bands {
        let mut left_out = survey.passing.clone();
        let mut present: Vec<bool> = left_out.iter().map(|&count| count > 0).collect();
        let mut areas = vec![0_u64; left_out.len()];
        let mut add_area = |cover: &Cover| {
            let area = &mut areas[view.group(cover.block)];
            *area = area.saturating_add(view.area(cover));
        };
        survey
            .covers
            .iter()
            .filter(|c| !c.whole)
            .for_each(&mut add_area);
        drawn.iter().filter(|c| c.whole).for_each(&mut add_area);
        for cover in drawn {
            let group = view.group(cover.block);
            present[group] = true;
            left_out[group] -= u64::from(!cover.whole);
        }
        let mut bands = Bands::name(view.index, &areas, &present);
        for (&slot, count) in bands.slots.iter().zip(left_out).filter(|(_, n)| *n > 0) {
            bands.groups[usize::from(slot)].rest.blocks += count;
        }
        bands.fill(view, survey, drawn);
        bands
    }

    /// Gives each of the largest groups a band, and the others one band together.
    fn name(index: &MountainIndex, areas: &[u64], present: &[bool]) -> Bands {
        let mut largest: Vec<usize> = (0..areas.len()).filter(|&g| present[g]).collect();
        largest.sort_unstable_by_key(|&g| (Reverse(areas[g]), index.groups[g].order));
        let others = largest.split_off(largest.len().min(MAX_GROUPS));
        largest.sort_unstable_by_key(|&g| index.groups[g].order);
        let mut slots = vec![largest.len() as u16; areas.len()];
        let mut groups = Vec::with_capacity(largest.len() + 1);
        for (slot, &group) in largest.iter().enumerate() {
            slots[group] = slot as u16;
            let name = &index.groups[group];
            groups.push(Group {
                caller: name.caller.clone(),
                ..empty_band(name.key, name.order, name.label.clone())
            });
        }
        if !others.is_empty() {
            groups.push(empty_band(OTHER, u32::MAX, "other".to_owned()));
        }
        Bands {
            base: LeftOut::default(),
            groups,
            slots,
        }
    }

    /// Adds up the rest of each band, and the base.
    fn fill(&mut self, view: &View, survey: &Survey, drawn: &[Cover]) {
        let width = view.grid.samples.len() + 1;
        // Differences between neighbouring samples, modulo 2^64: the sums are still right.
        let mut steps = vec![0_u64; width * self.groups.len()];
        let mut drawn = drawn.iter().map(|cover| cover.block).peekable();
        for cover in &survey.covers {
            if drawn.next_if_eq(&cover.block).is_some() {
                continue;
            }
            let size = view.size(cover.block).0;
            if cover.whole {
                self.base.blocks += 1;
                self.base.bytes = Bytes(self.base.bytes.0.saturating_add(size));
                continue;
            }
            let row = width * usize::from(self.slots[view.group(cover.block)]);
            let (from, to) = (row + usize::from(cover.from), row + usize::from(cover.to));
            steps[from] = steps[from].wrapping_add(size);
            steps[to] = steps[to].wrapping_sub(size);
        }
        for (group, steps) in self.groups.iter_mut().zip(steps.chunks_exact(width)) {
            let mut level = 0_u64;
            group
                .rest_level
                .extend(steps[..width - 1].iter().map(|step| {
                    level = level.wrapping_add(*step);
                    Bytes(level)
                }));
            group.rest.bytes = group.rest_level.iter().copied().max().unwrap_or_default();
        }
    }

    fn tile_blocks(&self, view: &View, drawn: &[Cover]) -> Vec<TileBlock> {
        let tile_block = |cover: &Cover| {
            let (alloc, freed) = view.lifetime(cover.block);
            TileBlock {
                block: BlockIdx(cover.block),
                group: self.slots[view.group(cover.block)],
                live: Span::new(EventIdx(alloc), EventIdx(freed)),
                size: view.size(cover.block),
            }
        };
        let mut found: Vec<TileBlock> = drawn.iter().map(tile_block).collect();
        found.sort_unstable_by_key(|block| (block.group, block.block));
        found
    }
}

fn empty_band(key: u32, order: u32, label: String) -> Group {
    Group {
        key,
        order,
        label,
        caller: String::new(),
        rest: LeftOut::default(),
        rest_level: Vec::new(),
    }
}
