//! What stays between steps: parameters, the optimizer's state, caches.
//!
//! Two runs of one program keep tensors of the same sizes, whatever compiled its code. Two programs
//! do not, however much of a framework they share.

use crate::levels::GivenBack;
use crate::stacks::FxHashMap;
use crate::trace::{BlockIdx, DeviceTrace};
use crate::units::Bytes;

/// Sizes that are kept of a device, those with most bytes.
const MAX_SIZES: usize = 4096;

/// Requested sizes of the blocks that are alive at the end of the last of so many whole steps, and
/// how many of each, sorted by size. Nothing without steps.
pub(super) fn sizes(device: &DeviceTrace, whole: usize) -> Vec<(Bytes, u64)> {
    let Some(last) = whole.checked_sub(1).and_then(|at| device.steps.get(at)) else {
        return Vec::new();
    };
    let end = last.events.end().0;
    let blocks = &device.blocks;
    let mut found: FxHashMap<Bytes, u64> = FxHashMap::default();
    for index in 0..blocks.len() as u32 {
        let at = index as usize;
        let is_from_before = index < blocks.n_preexisting;
        let is_made = match is_from_before {
            true => device.given_back(BlockIdx(index)) != GivenBack::Before,
            false => blocks.alloc[at] < end,
        };
        if is_made && blocks.free_completed[at] >= end {
            *found
                .entry(blocks.kind(BlockIdx(index)).requested)
                .or_default() += 1;
        }
    }
    let mut sizes: Vec<(Bytes, u64)> = found.into_iter().collect();
    sizes.sort_by_key(|&(size, n)| (std::cmp::Reverse(size.0.saturating_mul(n)), size));
    sizes.truncate(MAX_SIZES);
    sizes.sort_unstable();
    sizes
}

/// The share of the bytes of each run that stays in blocks which the other one keeps, too. `None`
/// where one keeps nothing.
pub(super) fn shares(base: &[(Bytes, u64)], new: &[(Bytes, u64)]) -> Option<[f64; 2]> {
    let bytes = |size: Bytes, n: u64| size.0 as f64 * n as f64;
    let total = |sizes: &[(Bytes, u64)]| sizes.iter().map(|&(size, n)| bytes(size, n)).sum::<f64>();
    let theirs: FxHashMap<Bytes, u64> = new.iter().copied().collect();
    let both = base.iter().map(|&(size, n)| {
        let other = theirs.get(&size).copied().unwrap_or(0);
        bytes(size, n.min(other))
    });
    let (both, of_base, of_new) = (both.sum::<f64>(), total(base), total(new));
    (of_base > 0.0 && of_new > 0.0).then(|| [both / of_base, both / of_new])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_keep_counts_by_size_and_number() {
        let sizes = |sizes: &[(u64, u64)]| -> Vec<(Bytes, u64)> {
            sizes.iter().map(|&(size, n)| (Bytes(size), n)).collect()
        };
        let check = |base: &[(u64, u64)], new: &[(u64, u64)], expected: Option<[f64; 2]>| {
            assert_eq!(
                shares(&sizes(base), &sizes(new)),
                expected,
                "{base:?} {new:?}"
            );
        };
        check(&[(8, 4)], &[(8, 4)], Some([1.0, 1.0]));
        check(&[(8, 4)], &[(8, 3), (4, 2)], Some([0.75, 0.75]));
        check(&[(8, 4)], &[(8, 12)], Some([1.0, 1.0 / 3.0]));
        check(&[(8, 4)], &[(4, 8)], Some([0.0, 0.0]));
        check(&[], &[(4, 8)], None);
    }
}
