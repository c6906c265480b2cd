//! Where memory lies: the blocks of a pool, and the text about a point.

use super::strips::{Hit, Strips};
use ::timeline::format;
use api::memory_map::{PoolMap, SegmentMap};
use trace::units::Bytes;

/// The allocated blocks, and those that wait for another stream, as paths.
pub fn blocks(strips: &Strips, pool: &PoolMap) -> (String, String) {
    let waits =
        |segment: &SegmentMap, at: usize| segment.pending.binary_search(&(at as u32)).is_ok();
    (
        strips.blocks(pool, |segment, at| !waits(segment, at)),
        strips.blocks(pool, waits),
    )
}

/// How much is in use in pools, and how much was given back that another stream still uses. Pools
/// count both: they are told apart where all segments are known.
pub fn in_use(pools: &[PoolMap]) -> String {
    let used: Bytes = pools.iter().map(|pool| pool.used).sum();
    let known: Bytes = segments(pools).map(|segment| segment.size).sum();
    let reserved: Bytes = pools.iter().map(|pool| pool.reserved).sum();
    if known != reserved {
        return format!("{used} in use or still used by another stream");
    }
    let waits = |segment: &SegmentMap| -> Bytes {
        let sizes = segment.pending.iter();
        let sizes = sizes.filter_map(|&at| segment.sizes.get(at as usize).copied());
        sizes.sum()
    };
    told_apart(used, segments(pools).map(waits).sum())
}

/// How much of what is in use or waits was given back.
pub fn told_apart(used: Bytes, pending: Bytes) -> String {
    let own = used.saturating_sub(pending);
    match pending {
        Bytes::ZERO => format!("{own} in use"),
        _ => format!("{own} in use, {pending} given back that another stream still uses"),
    }
}

fn segments(pools: &[PoolMap]) -> impl Iterator<Item = &SegmentMap> {
    pools.iter().flat_map(|pool| &pool.segments)
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
        "{addr:#x}: {}, {state}; in a {whole}",
        format::with_exact(size.get())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::units::DeviceAddr;

    #[test]
    fn what_another_stream_still_uses_is_told_apart() {
        let pool = |reserved: u64, pending: &[u32]| PoolMap {
            name: "large pool, stream 0".to_owned(),
            reserved: Bytes::mib(reserved),
            used: Bytes::mib(259),
            cached: Bytes::ZERO,
            split: Bytes::ZERO,
            kept: Bytes::ZERO,
            largest_gap: Bytes::ZERO,
            segments: vec![SegmentMap {
                addr: DeviceAddr(0x7000),
                size: Bytes::mib(300),
                expandable: false,
                blocks: vec![4, 7],
                offsets: vec![Bytes::ZERO, Bytes::mib(231)],
                sizes: vec![Bytes::mib(231), Bytes::mib(28)],
                pending: pending.to_vec(),
            }],
        };
        let check = |pools: &[PoolMap], expected: &str| assert_eq!(in_use(pools), expected);
        check(&[pool(300, &[])], "259 MiB in use");
        let apart = "231 MiB in use, 28.0 MiB given back that another stream still uses";
        check(&[pool(300, &[1])], apart);
        let unknown = "259 MiB in use or still used by another stream";
        check(&[pool(400, &[1])], unknown);
        check(&[], "0 B in use");
    }
}
