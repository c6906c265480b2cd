//! A smaller batch: some requests become smaller with it, all others stay the same.
//!
//! A recording does not say what a request's size depends on, so this is an estimate. Activations,
//! inputs and key/value caches are assumed to grow with the batch. Temporaries are too, with three
//! exceptions: those of the optimizer, those as large as something that does not grow (for
//! example a gradient that will be added to a parameter's gradient), and workspaces of libraries.

use crate::categories::{Categories, Category};
use crate::oom::Failure;
use crate::phases::{Phase, Phases};
use crate::stacks::{FxHashMap, Stacks};
use crate::trace::{BlockIdx, Blocks, DeviceTrace};
use crate::units::{Bytes, EventIdx};
use crate::workspaces;
use std::fmt;

/// A part of the batch, in eighths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(pub u8);

impl Share {
    /// The shares that are tried: the largest one that helps is enough.
    pub const TRIED: [Share; 4] = [Share(7), Share(6), Share(4), Share(2)];

    /// All of it.
    pub const WHOLE: Share = Share(8);

    /// The share as a number, at most 1.
    pub fn part(self) -> f64 {
        f64::from(self.0) / 8.0
    }

    /// This share of a size, rounded up.
    pub fn of(self, size: Bytes) -> Bytes {
        let share = u128::from(size.0) * u128::from(self.0);
        Bytes(share.div_ceil(8) as u64)
    }
}

/// `1/2`, `3/4`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let common = 1 << self.0.trailing_zeros().min(3);
        write!(f, "{}/{}", self.0 / common, 8 / common)
    }
}

/// What grows with the batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Whether each block grows; empty if none does.
    blocks: Vec<bool>,
    /// Whether the failed request grows.
    failed: bool,
}

impl Batch {
    /// Finds what grows with the batch, on a device on which this request failed.
    pub fn of(
        device: &DeviceTrace,
        stacks: &Stacks,
        (categories, phases): (&Categories, &Phases),
        failure: &Failure,
    ) -> Batch {
        let blocks = &device.blocks;
        let mut lasting: FxHashMap<Bytes, ()> = FxHashMap::default();
        for index in 0..blocks.len() as u32 {
            if lasts(categories.found(BlockIdx(index))) {
                lasting.insert(blocks.kind(BlockIdx(index)).requested, ());
            }
        }
        let is_pass = |event| matches!(phases.at(event), Phase::Forward | Phase::Backward);
        let temporary = |size: Bytes, event| !lasting.contains_key(&size) && is_pass(event);
        let grows = |index: u32| {
            let size = blocks.kind(BlockIdx(index)).requested;
            match categories.found(BlockIdx(index)) {
                Category::Activation | Category::Input | Category::KvCache => true,
                Category::Temporary => {
                    temporary(size, EventIdx(blocks.alloc[index as usize]))
                        && !categories.is_workspace(device, stacks, BlockIdx(index))
                }
                _ => false,
            }
        };
        let n_before = blocks.n_preexisting;
        Batch {
            blocks: (0..blocks.len() as u32)
                .map(|b| b >= n_before && grows(b))
                .collect(),
            failed: temporary(failure.asked, failure.event)
                && !is_workspace(blocks, stacks, failure),
        }
    }

    /// Whether a block grows with it.
    pub fn grows(&self, block: BlockIdx) -> bool {
        self.blocks.get(block.index()) == Some(&true)
    }

    /// The size that a block has when only a share of the batch is computed at once.
    pub fn size(&self, share: Share, block: u32, size: Bytes) -> Bytes {
        match self.blocks.get(block as usize) {
            Some(true) => share.of(size),
            _ => size,
        }
    }

    /// The size of the failed request then.
    pub(super) fn failed(&self, share: Share, size: Bytes) -> Bytes {
        match self.failed {
            true => share.of(size),
            false => size,
        }
    }
}

/// Whether a failed request was for a workspace: it was made in their code, or has such a size, and
/// what was served of that size is still there.
fn is_workspace(blocks: &Blocks, stacks: &Stacks, failure: &Failure) -> bool {
    let lasts = |block: u32| blocks.free_requested[block as usize] > failure.event.0;
    let alike = |block: &u32| blocks.kind(BlockIdx(*block)).requested == failure.asked;
    workspaces::is_stack(stacks, failure.stack)
        || workspaces::is_size(failure.asked) && (0..blocks.len() as u32).filter(alike).all(lasts)
}

/// Whether the model alone decides the size of blocks of a category.
fn lasts(category: Category) -> bool {
    use Category::{Buffer, Gradient, OptimizerState, Parameter};
    matches!(category, Parameter | Buffer | Gradient | OptimizerState)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::StackIdx;
    use crate::testing::{TraceBuilder, block_of};

    /// What lasts keeps its size, and so do temporaries of the same size; everything else shrinks.
    #[test]
    fn what_the_model_gives_does_not_shrink() {
        let batch = Batch {
            blocks: vec![false, true],
            failed: true,
        };
        let check = |found: Bytes, expected: u64| assert_eq!(found, Bytes(expected));
        check(batch.size(Share(4), 0, Bytes(100)), 100);
        check(batch.size(Share(4), 1, Bytes(100)), 50);
        check(batch.size(Share(4), 2, Bytes(100)), 100);
        check(batch.failed(Share(2), Bytes(100)), 25);
        check(Batch::default().failed(Share(2), Bytes(100)), 100);
    }

    /// A workspace is made once and kept; a tensor of the same size comes and goes.
    #[test]
    fn a_request_for_a_workspace_does_not_shrink() {
        let check = |asked: Bytes, is_given_back: bool, expected: bool| {
            let mut builder = TraceBuilder::default();
            let block = builder.alloc(block_of(Bytes::mib(32)));
            if is_given_back {
                builder.free_requested(block);
            }
            let trace = builder.finish();
            let failure = Failure {
                event: EventIdx(trace.devices[0].events.len() - 1),
                step: None,
                asked,
                free: None,
                allocated: Bytes::ZERO,
                reserved: Bytes::ZERO,
                stack: StackIdx::NONE,
            };
            let blocks = &trace.devices[0].blocks;
            assert_eq!(is_workspace(blocks, &trace.stacks, &failure), expected);
        };
        check(Bytes::mib(32), false, true);
        check(Bytes::mib(32), true, false);
        check(Bytes::mib(33), false, false);
    }

    #[test]
    fn shares_are_fractions() {
        let check = |share, text: &str, of_ten| {
            assert_eq!(
                (
                    Share(share).to_string().as_str(),
                    Share(share).of(Bytes(10))
                ),
                (text, Bytes(of_ten))
            );
        };
        check(7, "7/8", 9);
        check(6, "3/4", 8);
        check(4, "1/2", 5);
        check(2, "1/4", 3);
        check(8, "1/1", 10);
        assert_eq!(Share(4).of(Bytes(u64::MAX)), Bytes(1 << 63));
    }
}
