//! How memory is laid out at a moment: pools, gaps, and what keeps segments from being given back.

use super::Look;
use crate::places::Places;
use crate::questions::pool_name;
use api::explain::{Pin, PoolRoom, Room};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use trace::layout::Layout;
use trace::trace::Series;
use trace::units::{Bytes, EventIdx};

/// Pools listed, those that hold most.
const POOLS: usize = 6;
/// Places listed that pin segments.
const PINS: usize = 5;
/// By how much more must be free at the peak of *reserved* than at that of *allocated*, to be told.
const MORE: Bytes = Bytes::mib(64);

/// The layout after an event, or before the first one; `None` if segments are missing from the
/// recording.
pub fn at(look: &Look<'_>, places: &mut Places<'_>, event: Option<EventIdx>) -> Option<Room> {
    let layout = match event {
        Some(event) => Layout::at(look.device, event)?,
        None => Layout::before(look.device)?,
    };
    let pools = layout.pools();
    let sum = |of: fn(&trace::layout::PoolRoom) -> Bytes| pools.iter().map(of).sum();
    Some(Room {
        event,
        free: sum(|pool| pool.free()),
        cached: sum(|pool| pool.cached),
        split: sum(|pool| pool.split),
        kept: sum(|pool| pool.kept),
        largest_gap: pools
            .iter()
            .map(|pool| pool.largest_gap)
            .max()
            .unwrap_or_default(),
        pins: pins(look, places, &layout),
        pools: pools
            .iter()
            .take(POOLS)
            .map(|pool| PoolRoom {
                name: pool_name(pool.place),
                reserved: pool.reserved,
                free: pool.free(),
                split: pool.split,
                kept: pool.kept,
                largest_gap: pool.largest_gap,
            })
            .collect(),
    })
}

/// The layout at the peak of *reserved*, if this much is free there: twice as much as in `room`,
/// that at the peak of *allocated*, and far more in bytes.
pub fn at_reserved(look: &Look<'_>, places: &mut Places<'_>, room: &Room) -> Option<Room> {
    let event = look.device.summary[Series::Reserved as usize].peak_event?;
    let then = at(look, places, Some(event))?;
    let is_more = then.free >= room.free + room.free.max(MORE);
    is_more.then_some(then)
}

/// Segments of which little is in use, by the place with the most bytes in each.
fn pins(look: &Look<'_>, places: &mut Places<'_>, layout: &Layout) -> Vec<Pin> {
    let blocks = &look.device.blocks;
    let mut pins: BTreeMap<String, Pin> = BTreeMap::new();
    for segment in layout.pinned() {
        let inside = layout.blocks[segment.blocks.clone()].iter();
        let Some(&most) = inside.max_by_key(|block| blocks.kind(**block).size) else {
            continue;
        };
        let place = places.of(most).name;
        let pin = pins.entry(place.clone()).or_insert(Pin {
            place,
            segments: 0,
            used: Bytes::ZERO,
            free: Bytes::ZERO,
        });
        pin.segments += 1;
        pin.used += segment.used;
        pin.free += segment.size.saturating_sub(segment.used);
    }
    let mut pins: Vec<Pin> = pins.into_values().collect();
    pins.sort_by_key(|pin| Reverse(pin.free));
    pins.truncate(PINS);
    pins
}
