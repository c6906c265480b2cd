//! Finds the earlier blocks that are still alive: an implicit interval index.
//!
//! Blocks are ordered by allocation, so "allocated before `a`" is a prefix of the columns. A
//! pyramid holds the latest `free_completed` of runs of blocks. With it, the blocks of the prefix
//! that outlive a moment are found without a visit to the others: O(k log n) for k results.

use crate::trace::{BlockIdx, Blocks};

/// How many entries one entry of the next layer sums up.
const FANOUT: usize = 32;

/// Finds blocks that outlive a moment. Valid for the blocks it was built from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveIndex {
    /// `layers[k][i]`: the latest `free_completed` of `FANOUT^(k + 1)` blocks.
    layers: Vec<Vec<u32>>,
}

impl LiveIndex {
    /// Indexes the blocks of a device.
    pub fn new(blocks: &Blocks) -> LiveIndex {
        let mut layers: Vec<Vec<u32>> = Vec::new();
        let mut below = blocks.free_completed.as_slice();
        while below.len() > 1 {
            layers.push(below.chunks(FANOUT).filter_map(latest).collect());
            below = layers.last().expect("one was just pushed");
        }
        LiveIndex { layers }
    }

    /// Calls `found` with each of the first `end` blocks that is active after event `after`
    /// (`free_completed > after`), oldest first, until it fails.
    ///
    /// # Errors
    /// That of `found`.
    pub fn outliving<E>(
        &self,
        blocks: &Blocks,
        end: u32,
        after: u32,
        mut found: impl FnMut(BlockIdx) -> Result<(), E>,
    ) -> Result<(), E> {
        let query = Query {
            index: self,
            leaves: &blocks.free_completed,
            end: (end as usize).min(blocks.len()),
            after,
        };
        query.visit(self.layers.len(), 0, &mut found)
    }
}

struct Query<'a> {
    index: &'a LiveIndex,
    leaves: &'a [u32],
    end: usize,
    after: u32,
}

impl Query<'_> {
    /// Visits `FANOUT` entries of the layer at `height` (0: the blocks) from entry `first`.
    fn visit<E>(
        &self,
        height: usize,
        first: usize,
        found: &mut impl FnMut(BlockIdx) -> Result<(), E>,
    ) -> Result<(), E> {
        let layer = match height {
            0 => self.leaves,
            above => &self.index.layers[above - 1],
        };
        let span = FANOUT.pow(height as u32);
        let end = (first + FANOUT)
            .min(layer.len())
            .min(self.end.div_ceil(span));
        for (entry, &latest) in layer.iter().enumerate().take(end).skip(first) {
            if latest <= self.after {
                continue;
            }
            match height {
                0 => found(BlockIdx(entry as u32))?,
                above => self.visit(above - 1, entry * FANOUT, found)?,
            }
        }
        Ok(())
    }
}

fn latest(run: &[u32]) -> Option<u32> {
    run.iter().copied().max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    proptest! {
        #[test]
        fn finds_what_a_scan_finds(
            ends in prop::collection::vec(0..5_000_u32, 0..3_000),
            end in 0..3_200_u32,
            after in 0..5_000_u32,
        ) {
            let blocks = Blocks {
                alloc: vec![0; ends.len()],
                free_completed: ends.clone(),
                ..Blocks::default()
            };
            let mut found = Vec::new();
            let Ok(()) = LiveIndex::new(&blocks).outliving(&blocks, end, after, |b| {
                found.push(b.0);
                Ok::<(), Infallible>(())
            });
            let expected: Vec<u32> = (0..end.min(ends.len() as u32))
                .filter(|&b| ends[b as usize] > after)
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
