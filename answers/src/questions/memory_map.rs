//! Where memory lies at a moment.

use super::alive::step_at;
use api::memory_map::{MAX_BLOCKS, MAX_SEGMENTS, MemoryMap, PoolMap, RoomOverTime, SegmentMap};
use std::collections::BTreeMap;
use trace::layout::{self, Layout, Place, Segment};
use trace::levels::GivenBack;
use trace::trace::{BlockIdx, DeviceTrace, PoolId, PoolSize, Series};
use trace::units::{Bytes, DeviceAddr, EventIdx};

/// The map after an event. Of a recording without events, `at` is `None`, and the map is that of
/// its state.
pub fn memory_map(device: &DeviceTrace, at: Option<EventIdx>) -> MemoryMap {
    let mut map = MemoryMap {
        event: at,
        step: at.and_then(|at| step_at(device, at)),
        pools: None,
        segments_left_out: 0,
    };
    let layout = match at {
        Some(at) => Layout::at(device, at),
        None => Layout::before(device),
    };
    let Some(layout) = layout else {
        return map;
    };
    let mut room = Room {
        blocks: MAX_BLOCKS,
        segments: MAX_SEGMENTS,
    };
    // In one pass: a file may have as many pools as segments.
    let mut of_place: BTreeMap<Place, Vec<&Segment>> = BTreeMap::new();
    for segment in &layout.segments {
        of_place.entry(segment.place).or_default().push(segment);
    }
    let pools = layout.pools().into_iter().take(MAX_SEGMENTS).map(|pool| {
        let own = of_place.remove(&pool.place).unwrap_or_default();
        let mut segments = Vec::new();
        for found in own {
            match room.takes(found) {
                true => segments.push(segment(device, &layout, found, at)),
                false => map.segments_left_out += 1,
            }
        }
        PoolMap {
            name: pool_name(pool.place),
            reserved: pool.reserved,
            used: pool.used,
            cached: pool.cached,
            split: pool.split,
            kept: pool.kept,
            largest_gap: pool.largest_gap,
            segments,
        }
    });
    map.pools = Some(pools.collect());
    map
}

/// Reserved memory over the recording.
pub fn room_over_time(device: &DeviceTrace) -> RoomOverTime {
    let mut columns = RoomOverTime::default();
    for room in layout::over_time(device) {
        columns.events.push(room.event);
        columns.reserved.push(room.reserved);
        columns.used.push(room.used);
        let levels = device.levels_at(room.event);
        let [active, allocated] = [Series::Active, Series::Allocated].map(|s| levels.get(s));
        columns.waiting.push(active.saturating_sub(allocated));
        columns.cached.push(room.cached);
        columns.split.push(room.split);
        columns.kept.push(room.kept);
        columns.largest_gap.push(room.largest_gap);
        columns.segments.push(room.segments);
    }
    columns
}

/// How much more may be sent.
struct Room {
    blocks: usize,
    segments: usize,
}

impl Room {
    fn takes(&mut self, segment: &Segment) -> bool {
        let left = self.blocks.checked_sub(segment.blocks.len());
        let (Some(blocks), Some(segments)) = (left, self.segments.checked_sub(1)) else {
            return false;
        };
        *self = Room { blocks, segments };
        true
    }
}

fn segment(
    device: &DeviceTrace,
    layout: &Layout,
    found: &Segment,
    at: Option<EventIdx>,
) -> SegmentMap {
    let blocks = &layout.blocks[found.blocks.clone()];
    let all = &device.blocks;
    let offset = |addr: DeviceAddr| Bytes(addr.0 - found.addr);
    let waits = |block: BlockIdx| match at {
        Some(at) => all.free_requested[block.index()] <= at.0,
        None => device.given_back(block) == GivenBack::Before,
    };
    let positions = (0..blocks.len() as u32).zip(blocks);
    SegmentMap {
        addr: DeviceAddr(found.addr),
        size: found.size,
        expandable: found.expandable,
        blocks: blocks.iter().map(|block| block.0).collect(),
        offsets: blocks.iter().map(|b| offset(all.addr[b.index()])).collect(),
        sizes: blocks.iter().map(|block| all.kind(*block).size).collect(),
        pending: positions
            .filter(|(_, block)| waits(**block))
            .map(|(position, _)| position)
            .collect(),
    }
}

/// `large pool, stream 0`.
pub fn pool_name(place: Place) -> String {
    let size = match place.pool_size {
        PoolSize::Small => "small",
        PoolSize::Large => "large",
    };
    let pool = match place.pool {
        PoolId(0, 0) => format!("{size} pool"),
        PoolId::GONE => format!("private {size} pools that were given up"),
        PoolId(a, b) => format!("private {size} pool ({a}, {b})"),
    };
    match place.stream {
        stream @ 0..=2 => format!("{pool}, stream {stream}"),
        handle => format!("{pool}, stream {handle:#x}"),
    }
}
