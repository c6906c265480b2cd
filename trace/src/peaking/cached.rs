//! Copies of weights that autocast keeps until it ends.
//!
//! Autocast casts a weight to 16 bits where it is first used, and keeps the copy for later uses.
//! The backward pass of a training needs these copies anyway. But a forward pass that nothing
//! follows needs each of them for one operation only, and still holds all of them at its end: half
//! as much as the weights in 32 bits. The stacks say so: such a copy is made in `cached_cast`, and
//! the last one to hold it is `clear_cache`.

use super::Recorded;
use crate::categories;
use crate::stacks::{FxHashMap, StackIdx};
use crate::trace::{BlockIdx, Series};
use crate::units::{Bytes, EventIdx};

/// What makes a copy …
const MADE_BY: &str = "autocast::cached_cast(";
/// … and what gives back the copies of weights when autocast ends.
const GIVEN_BACK_BY: &str = "autocast::clear_cache(";
/// From this share of the peak on they are told.
const LEAST: f64 = 0.1;

/// Copies of weights that only autocast's cache still holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// Those that were alive at the peak.
    pub blocks: Vec<BlockIdx>,
    /// Their bytes.
    pub bytes: Bytes,
}

/// What autocast's cache holds at an event.
pub(super) fn at(recorded: Recorded<'_>, event: EventIdx) -> Option<Cached> {
    let (device, stacks) = (recorded.device, recorded.stacks);
    let has = |stack: StackIdx, part: &str| {
        let mut frames = stacks
            .frames(stack)
            .iter()
            .map(|frame| stacks.frame(*frame));
        frames.any(|frame| stacks.str(frame.name).contains(part))
    };
    let mut known: FxHashMap<(StackIdx, StackIdx), bool> = FxHashMap::default();
    let mut is_cached = |block: &BlockIdx| {
        let kind = device.blocks.kind(*block);
        let (made, freed) = (kind.alloc_stack, kind.free_stack);
        let is_cached = || has(made, MADE_BY) && has(freed, GIVEN_BACK_BY);
        *known.entry((made, freed)).or_insert_with(is_cached)
    };
    let alive = categories::alive(device, Some(event));
    let blocks: Vec<BlockIdx> = alive.filter(|block| is_cached(block)).collect();
    let bytes: Bytes = blocks
        .iter()
        .map(|block| device.blocks.kind(*block).size)
        .sum();
    let peak = device.levels_at(event).get(Series::Allocated);
    let is_much = bytes > Bytes::ZERO && bytes.0 as f64 >= LEAST * peak.0 as f64;
    is_much.then_some(Cached { blocks, bytes })
}
