//! Tiles compared with a brute-force search over all blocks and all events.

use super::*;
use crate::stacks::StackIdx;
use crate::testing::{self, arbitrary};
use crate::trace::{Action, DeviceTrace, Series, Trace};
use crate::watch::{Stopped, Watch};
use proptest::prelude::*;

/// The four levels after each event, from the definitions: sums over all blocks.
fn naive_levels(device: &DeviceTrace) -> Vec<[Bytes; 4]> {
    let blocks = &device.blocks;
    let mut reserved = device.pyramid.start().get(Series::Reserved);
    (0..device.events.len())
        .map(|event| {
            let row = event as usize;
            let mut levels = [Bytes::ZERO; 4];
            for block in 0..blocks.len() {
                let kind = blocks.kind(BlockIdx(block as u32));
                if blocks.alloc[block] <= event && event < blocks.free_completed[block] {
                    levels[Series::Requested as usize] += kind.requested;
                    levels[Series::Active as usize] += kind.size;
                }
                if blocks.alloc[block] <= event && event < blocks.free_requested[block] {
                    levels[Series::Allocated as usize] += kind.size;
                }
            }
            let segment = || device.events.segments[device.events.target[row] as usize].size;
            match device.events.action[row] {
                Action::SegmentAlloc | Action::SegmentMap => reserved += segment(),
                Action::SegmentFree | Action::SegmentUnmap => reserved -= segment(),
                _ => {}
            }
            levels[Series::Reserved as usize] = reserved;
            levels
        })
        .collect()
}

fn naive_extents(levels: &[[Bytes; 4]], id: TileId, series: Series) -> Vec<Extent> {
    let of = |at: u64| levels[at as usize][series as usize];
    buckets(levels, id)
        .into_iter()
        .map(|bucket| Extent {
            min: bucket.clone().map(of).min().unwrap(),
            max: bucket.clone().map(of).max().unwrap(),
            last: bucket.map(of).next_back().unwrap(),
        })
        .collect()
}

fn buckets(levels: &[[Bytes; 4]], id: TileId) -> Vec<std::ops::Range<u64>> {
    let end = id.end_event().min(levels.len() as u64);
    (0..u64::from(BUCKETS))
        .map(|b| id.first_event() + b * id.bucket_events())
        .take_while(|&start| start < end)
        .map(|start| start..(start + id.bucket_events()).min(end))
        .collect()
}

fn check_series(device: &DeviceTrace, levels: &[[Bytes; 4]], id: TileId) {
    let tile = device.series_tile(id);
    for series in Series::ALL {
        assert_eq!(
            tile.series[series as usize],
            naive_extents(levels, id, series),
            "{series:?} of {id:?}"
        );
    }
    let first = (id.first_event() as usize).min(levels.len());
    let before = match first.checked_sub(1) {
        None => device.pyramid.start().0,
        Some(previous) => levels[previous],
    };
    assert_eq!(tile.before, before);
    let times: Vec<Micros> = device.events.time.iter().collect();
    let mut expected: Vec<Micros> = buckets(levels, id)
        .iter()
        .map(|bucket| times[bucket.start as usize])
        .collect();
    if let Some(last) = buckets(levels, id).last() {
        expected.push(times[last.end as usize - 1]);
    }
    assert_eq!(tile.times, expected);
}

fn is_live(block: &TileBlock, event: EventIdx) -> bool {
    block.live.contains(event)
}

fn check_mountain(trace: &Trace, levels: &[[Bytes; 4]], id: TileId, group_by: GroupBy) {
    let device = &trace.devices[0];
    let index = MountainIndex::new(device, group_by, &trace.stacks);
    let tile = device.mountain_tile(id, &index);
    let allocated = |at: u64| levels[at as usize][Series::Allocated as usize];
    let samples: Vec<EventIdx> = buckets(levels, id)
        .into_iter()
        .map(|bucket| {
            let highest = bucket.clone().map(allocated).max().unwrap();
            let first = bucket.into_iter().find(|&at| allocated(at) == highest);
            EventIdx(first.unwrap() as u32)
        })
        .collect();
    assert_eq!(tile.samples, samples);
    for (at, &sample) in samples.iter().enumerate() {
        let drawn: Bytes = tile
            .blocks
            .iter()
            .filter(|block| is_live(block, sample))
            .map(|block| block.size)
            .sum();
        let rest: Bytes = tile.groups.iter().map(|g| g.rest_level[at]).sum();
        let body = tile.base.bytes + rest + drawn;
        assert_eq!(
            body,
            allocated(u64::from(sample.0)),
            "sample {at} of {id:?}"
        );
        let active = levels[sample.index()][Series::Active as usize];
        assert_eq!(body + tile.pending[at], active);
    }
    check_bands(device, &tile, levels);
    if group_by == GroupBy::Stack {
        check_stack_bands(device, &tile);
    }
}

/// Every block of the window is counted once; bands and blocks are in order.
fn check_bands(device: &DeviceTrace, tile: &MountainTile, levels: &[[Bytes; 4]]) {
    let end = tile.id.end_event().min(levels.len() as u64);
    let overlapping = (0..device.blocks.len()).filter(|&block| {
        let (alloc, freed) = (
            u64::from(device.blocks.alloc[block]),
            u64::from(device.blocks.free_requested[block]),
        );
        alloc.max(tile.id.first_event()) < freed.min(end)
    });
    let rest: u64 = tile.groups.iter().map(|group| group.rest.blocks).sum();
    let counted = tile.base.blocks + rest + tile.blocks.len() as u64;
    assert_eq!(counted, overlapping.count() as u64);
    assert!(tile.groups.is_sorted_by(|a, b| a.order < b.order));
    assert!(tile.groups.len() <= MAX_GROUPS + 1 && tile.blocks.len() <= MAX_BLOCKS);
    let place = |block: &TileBlock| (block.group, block.block);
    assert!(tile.blocks.is_sorted_by(|a, b| place(a) < place(b)));
    for block in &tile.blocks {
        assert!(usize::from(block.group) < tile.groups.len());
        assert!(tile.samples.iter().any(|&sample| is_live(block, sample)));
        assert_eq!(block.size, device.blocks.kind(block.block).size);
    }
    for group in &tile.groups {
        assert_eq!(group.rest_level.len(), tile.samples.len());
        let highest = group.rest_level.iter().copied().max();
        assert_eq!(group.rest.bytes, highest.unwrap_or_default());
    }
}

/// The key of a block's band. Blocks from before the recording without a stack have a band of their
/// own.
fn stack_key(blocks: &crate::trace::Blocks, block: BlockIdx) -> u32 {
    match blocks.kind(block).alloc_stack {
        StackIdx::NONE if block.0 < blocks.n_preexisting => super::groups::BEFORE,
        stack => stack.0,
    }
}

/// A band holds exactly the blocks of its stack that are not in the base.
fn check_stack_bands(device: &DeviceTrace, tile: &MountainTile) {
    let end = tile.id.end_event().min(u64::from(device.events.len())) as u32;
    let blocks = &device.blocks;
    for (slot, group) in tile
        .groups
        .iter()
        .enumerate()
        .filter(|(_, g)| g.key != OTHER)
    {
        let drawn = |block: u32| tile.blocks.iter().any(|b| b.block.0 == block);
        let mine = |block: &u32| stack_key(blocks, BlockIdx(*block)) == group.key && !drawn(*block);
        let whole = |block: &u32| {
            u64::from(blocks.alloc[*block as usize]) <= tile.id.first_event()
                && blocks.free_requested[*block as usize] >= end
        };
        let rest: Vec<u32> = (0..blocks.len() as u32)
            .filter(|block| mine(block) && !whole(block))
            .collect();
        for (at, sample) in tile.samples.iter().enumerate() {
            let live = rest.iter().map(|&block| block as usize).filter(|&block| {
                blocks.alloc[block] <= sample.0 && sample.0 < blocks.free_requested[block]
            });
            let level: Bytes = live.map(|b| blocks.kind(BlockIdx(b as u32)).size).sum();
            assert_eq!(group.rest_level[at], level);
        }
        for block in tile.blocks.iter().filter(|b| usize::from(b.group) == slot) {
            assert_eq!(stack_key(blocks, block.block), group.key);
        }
    }
}

fn ids() -> impl Strategy<Value = TileId> {
    (0..10_u8, 0..6_u32).prop_map(|(level, index)| TileId { level, index })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn levels_and_lines_equal_brute_force(
        trace in arbitrary::traces(1800), ids in prop::collection::vec(ids(), 1..6),
    ) {
        let device = &trace.devices[0];
        let levels = naive_levels(device);
        for (event, levels) in levels.iter().enumerate().step_by(17) {
            prop_assert_eq!(&device.levels_at(EventIdx(event as u32)).0, levels);
        }
        for id in ids {
            check_series(device, &levels, id);
        }
    }

    #[test]
    fn mountains_sum_to_allocated_and_with_pending_to_active(
        trace in arbitrary::traces(1800),
        ids in prop::collection::vec(ids(), 1..4),
        group_by in prop::sample::select(GroupBy::ALL.to_vec()),
    ) {
        let levels = naive_levels(&trace.devices[0]);
        for id in ids {
            check_mountain(&trace, &levels, id, group_by);
        }
    }
}

#[test]
fn a_training_run_is_exact_at_every_level() {
    let trace = testing::training_run(6_000);
    let device = &trace.devices[0];
    let levels = naive_levels(device);
    for level in 0..=MAX_LEVEL {
        for index in [0, 1, 3] {
            let id = TileId { level, index };
            check_series(device, &levels, id);
            check_mountain(&trace, &levels, id, GroupBy::Stack);
        }
    }
}

#[test]
fn tiles_outside_of_the_grid_are_empty() {
    let trace = testing::training_run(1_000);
    let device = &trace.devices[0];
    let index = MountainIndex::new(device, GroupBy::Stack, &trace.stacks);
    for (level, index_in_grid) in [(0, 1 << 20), (MAX_LEVEL + 1, 0), (255, u32::MAX)] {
        let id = TileId {
            level,
            index: index_in_grid,
        };
        assert!(device.series_tile(id).series[0].is_empty());
        assert!(device.series_tile(id).times.is_empty());
        assert!(device.mountain_tile(id, &index).samples.is_empty());
    }
    let nothing = DeviceTrace::default();
    let index = MountainIndex::new(&nothing, GroupBy::File, &trace.stacks);
    let id = TileId { level: 0, index: 0 };
    assert!(nothing.series_tile(id).series[0].is_empty());
    assert!(nothing.mountain_tile(id, &index).groups.is_empty());
}

#[test]
fn whoever_watches_may_stop_a_picture_at_any_time() {
    let trace = testing::training_run(60_000);
    let device = &trace.devices[0];
    let index = MountainIndex::new(device, GroupBy::Stack, &trace.stacks);
    let id = TileId::covering(0, u64::from(device.events.len()));
    let stopped_after = |looks: u32| {
        let seen = std::cell::Cell::new(0);
        let go_on = |_| seen.replace(seen.get() + 1) < looks;
        device.mountain_tile_while(id, &index, Watch::new(&go_on))
    };
    for looks in [0, 1, 10] {
        assert_eq!(stopped_after(looks), Err(Stopped));
    }
    assert_eq!(
        stopped_after(u32::MAX),
        Ok(device.mountain_tile(id, &index))
    );
}

#[test]
fn the_largest_areas_are_drawn_alone() {
    let trace = testing::training_run(60_000);
    let device = &trace.devices[0];
    let index = MountainIndex::new(device, GroupBy::Stack, &trace.stacks);
    let id = TileId { level: 5, index: 1 };
    let tile = device.mountain_tile(id, &index);
    assert_eq!(tile.blocks.len(), MAX_BLOCKS);
    let (start, end) = (id.first_event() as u32, id.end_event() as u32);
    let area = |block: usize| {
        let (alloc, freed) = (
            device.blocks.alloc[block],
            device.blocks.free_requested[block],
        );
        let covered = |s: &&EventIdx| alloc <= s.0 && s.0 < freed;
        let whole = alloc <= start && freed >= end;
        let size = device.blocks.kind(BlockIdx(block as u32)).size.0;
        (!whole).then(|| size * tile.samples.iter().filter(covered).count() as u64)
    };
    let drawn: Vec<usize> = tile.blocks.iter().map(|b| b.block.index()).collect();
    let least = drawn.iter().filter_map(|&block| area(block)).min();
    let left_out = (0..device.blocks.len()).filter(|block| !drawn.contains(block));
    assert!(left_out.filter_map(area).max() <= least);
}

#[test]
fn groups_are_named_as_people_name_them() {
    let trace = testing::trace(
        "a alloc 2MiB at forward /srv/models/llama.py:12
         b alloc 1KiB stream 7
         c alloc 1KiB at at::native::empty ??:0",
    );
    let check = |group_by, expected: &[&str]| {
        let index = MountainIndex::new(&trace.devices[0], group_by, &trace.stacks);
        let tile = trace.devices[0].mountain_tile(TileId { level: 0, index: 0 }, &index);
        let labels: Vec<&str> = tile.groups.iter().map(|g| g.label.as_str()).collect();
        assert_eq!(labels, expected);
    };
    check(
        GroupBy::Stack,
        &[
            "forward llama.py:12",
            "no stack recorded",
            "at::native::empty",
        ],
    );
    check(
        GroupBy::File,
        &["models/llama.py", "no stack recorded", "file unknown"],
    );
    check(GroupBy::Stream, &["stream 0", "stream 0x7"]);
    check(GroupBy::Pool, &["large pool", "small pool"]);
    check(GroupBy::None, &["all allocations"]);
}

#[test]
fn the_covering_tile_holds_the_window() {
    let check = |start, end, level, index| {
        let id = TileId::covering(start, end);
        assert_eq!(id, TileId { level, index });
        assert!(id.first_event() <= start && end <= id.end_event());
    };
    check(0, 0, 0, 0);
    check(0, 2048, 0, 0);
    check(1500, 3000, 0, 1);
    check(0, 2049, 1, 0);
    check(0, u64::from(u32::MAX), MAX_LEVEL, 0);
}
