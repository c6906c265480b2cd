//! Memory that was reserved and not in use, over the whole recording.

use super::{Layout, Owners, Ranges};
use crate::trace::{BlockIdx, DeviceTrace, Series};
use crate::units::{Bytes, EventIdx};
use std::collections::BTreeSet;

/// The largest number of moments.
pub const MOST_MOMENTS: usize = 300;

/// How much was reserved after an event, and how the unused part was distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The event.
    pub event: EventIdx,
    /// Bytes of all segments.
    pub reserved: Bytes,
    /// Bytes in use, including blocks that another stream may still use.
    pub used: Bytes,
    /// Bytes of segments nothing of which is in use: they can be given back.
    pub cached: Bytes,
    /// Free bytes of segments that are partly in use, or of a private pool that is.
    pub split: Bytes,
    /// Of these, bytes of whole segments: a private pool keeps them.
    pub kept: Bytes,
    /// The largest free range.
    pub largest_gap: Bytes,
    /// Number of segments; mapped ranges of expandable segments that lie side by side count as one.
    pub segments: u32,
}

/// Cuts a recording into at most [`MOST_MOMENTS`] parts and returns, for each part, the moment with
/// the most unused memory. Moments at which the recording lacks segments are left out.
pub fn over_time(device: &DeviceTrace) -> Vec<Room> {
    let moments = most_unused(device);
    let mut turns = turns(device, &moments);
    let last = EventIdx(device.events.len().saturating_sub(1));
    let mut ranges = Ranges::before(device, Owners::until(device, last));
    let mut used: BTreeSet<(u64, u32)> = BTreeSet::new();
    let key = |block: BlockIdx| (device.blocks.addr[block.index()].0, block.0);
    let mut rooms = Vec::with_capacity(moments.len());
    for (&at, turn) in moments.iter().zip(&mut turns) {
        ranges.advance(device, at);
        used.extend(turn.come.drain(..).map(key));
        turn.go
            .drain(..)
            .map(key)
            .for_each(|gone| _ = used.remove(&gone));
        let blocks = used.iter().map(|&(_, block)| BlockIdx(block)).collect();
        let reserved = device.levels_at(at).get(Series::Reserved);
        rooms.extend(Layout::of(device, reserved, &ranges, blocks).map(|layout| room(at, &layout)));
    }
    rooms
}

fn room(event: EventIdx, layout: &Layout) -> Room {
    let mut room = Room {
        event,
        reserved: Bytes::ZERO,
        used: Bytes::ZERO,
        cached: Bytes::ZERO,
        split: Bytes::ZERO,
        kept: Bytes::ZERO,
        largest_gap: Bytes::ZERO,
        segments: layout.segments.len() as u32,
    };
    let living = layout.living();
    for segment in &layout.segments {
        room.reserved += segment.size;
        room.used += segment.used;
        let rest = segment.rest(&living);
        room.cached += rest.cached;
        room.split += rest.split;
        room.kept += rest.kept;
        room.largest_gap = room.largest_gap.max(segment.largest_gap);
    }
    room
}

/// For each part, the first event at which the most memory was reserved and not in use.
fn most_unused(device: &DeviceTrace) -> Vec<EventIdx> {
    let n = device.events.len() as usize;
    let parts = n.min(MOST_MOMENTS);
    let mut levels = device.pyramid.start();
    let mut moments = Vec::with_capacity(parts);
    for part in 0..parts {
        let mut most: Option<(Bytes, EventIdx)> = None;
        for at in part * n / parts..(part + 1) * n / parts {
            let at = EventIdx(at as u32);
            levels.apply(device.effect(at));
            let [reserved, active] = [Series::Reserved, Series::Active].map(|s| levels.get(s));
            let unused = reserved.saturating_sub(active);
            if most.is_none_or(|(bytes, _)| unused > bytes) {
                most = Some((unused, at));
            }
        }
        moments.extend(most.map(|(_, at)| at));
    }
    moments
}

/// Blocks that were allocated and blocks that were freed since the moment before.
#[derive(Clone, Default)]
struct Turn {
    come: Vec<BlockIdx>,
    go: Vec<BlockIdx>,
}

/// The changes up to each moment. Blocks that are alive at no moment are left out.
fn turns(device: &DeviceTrace, moments: &[EventIdx]) -> Vec<Turn> {
    let mut turns = vec![Turn::default(); moments.len()];
    let blocks = &device.blocks;
    let first_from = |event: u32| moments.partition_point(|moment| moment.0 < event);
    for index in 0..blocks.len() {
        let block = BlockIdx(index as u32);
        let came = first_from(blocks.alloc[index]);
        let went = first_from(blocks.free_completed[index]);
        if came >= went {
            continue;
        }
        turns[came].come.push(block);
        if let Some(turn) = turns.get_mut(went) {
            turn.go.push(block);
        }
    }
    turns
}
