//! Where memory lies: the blocks of a pool, and the text about a point.

use super::strips::{Hit, Strips};
use ::timeline::format;
use api::memory_map::{PoolMap, SegmentMap};

/// The allocated blocks, and those that wait for another stream, as paths.
pub fn blocks(strips: &Strips, pool: &PoolMap) -> (String, String) {
    let waits =
        |segment: &SegmentMap, at: usize| segment.pending.binary_search(&(at as u32)).is_ok();
    (
        strips.blocks(pool, |segment, at| !waits(segment, at)),
        strips.blocks(pool, waits),
    )
}

/// The text about a point.
pub fn readout(pool: &PoolMap, hit: Hit) -> String {
    let segment = &pool.segments[hit.segment];
    let kind = match segment.expandable {
        true => "expandable segment",
        false => "segment",
    };
    let whole = format!("{kind} of {} at {}", segment.size, segment.addr);
    let Some(block) = hit.block else {
        return match segment.blocks.is_empty() {
            true => format!("free: {whole}, nothing of it is in use"),
            false => format!("free: in a {whole}"),
        };
    };
    let addr = segment.addr.0 + segment.offsets[block].get();
    let size = segment.sizes[block];
    let state = match segment.pending.binary_search(&(block as u32)) {
        Ok(_) => "given back, another stream still uses it",
        Err(_) => "in use",
    };
    format!(
        "{addr:#x}: {size} ({}), {state}; in a {whole}",
        format::exact_bytes(size.get())
    )
}
