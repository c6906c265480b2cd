//! Which of the blocks that a growing site keeps are no part of the growth.
//!
//! A site is a shape of calls, not a line, so a script whose loop stands beside its data has both
//! in one site: `X = torch.randn(…)` before the loop, and the list that grows inside of it. What
//! was made once, before the growth began, does not leak. Nor does what the loop's variables hold
//! of the last period: its batch is replaced by the next.

use crate::stacks::{FxHashMap, Stacks};
use crate::trace::{BlockIdx, Blocks};
use crate::units::Bytes;
use crate::workspaces;
use std::ops::Range;

/// The blocks among `kept` that do not leak, ascending: workspaces, and what was made before the
/// growth began or in the last period unless its size is one of those that accumulate. `growth` are
/// the events from its beginning to the last period: the loop's variables may hold what that one
/// made.
pub(super) fn among(
    blocks: &Blocks,
    stacks: &Stacks,
    kept: &[BlockIdx],
    growth: Range<u32>,
) -> Vec<BlockIdx> {
    let mut spared = workspaces::among(blocks, stacks, kept);
    let is_workspace = |block: &BlockIdx| spared.binary_search(block).is_ok();
    let (earlier, later): (Vec<BlockIdx>, Vec<BlockIdx>) = kept
        .iter()
        .filter(|block| !is_workspace(block))
        .partition(|block| blocks.alloc[block.index()] < growth.start);
    let until = later.partition_point(|block| blocks.alloc[block.index()] < growth.end);
    let (accumulates, young) = match later.split_at(until) {
        ([], all) => (all, &[][..]),
        some => some,
    };
    if accumulates.is_empty() {
        return spared;
    }
    let sizes = Sizes::of(blocks, accumulates);
    let of_variables = match sizes.tell(blocks, young) {
        true => young,
        false => &[],
    };
    let once = earlier.into_iter().chain(of_variables.iter().copied());
    spared.extend(once.filter(|&block| !sizes.has(blocks.kind(block).requested)));
    spared.sort_unstable();
    spared
}

/// The requested sizes of what accumulates.
struct Sizes {
    all: FxHashMap<Bytes, u32>,
    /// Twice the largest, where no two blocks have one size: of data of any length, the first may
    /// be the longest.
    most: Option<Bytes>,
}

impl Sizes {
    fn of(blocks: &Blocks, kept: &[BlockIdx]) -> Sizes {
        let mut all: FxHashMap<Bytes, u32> = FxHashMap::default();
        for &block in kept {
            *all.entry(blocks.kind(block).requested).or_default() += 1;
        }
        let differ = all.values().all(|&n| n == 1);
        let most = all.keys().max().filter(|_| differ);
        Sizes {
            most: most.map(|most| Bytes(most.0.saturating_mul(2))),
            all,
        }
    }

    /// Whether they tell what accumulates from what the loop's variables hold: each of them comes
    /// again, or the last period has one of them, too. Otherwise it may be one more size.
    fn tell(&self, blocks: &Blocks, young: &[BlockIdx]) -> bool {
        let has = |block: &BlockIdx| self.all.contains_key(&blocks.kind(*block).requested);
        self.all.values().all(|&n| n > 1) || young.iter().any(has)
    }

    fn has(&self, size: Bytes) -> bool {
        self.all.contains_key(&size) || self.most.is_some_and(|most| size <= most)
    }
}
