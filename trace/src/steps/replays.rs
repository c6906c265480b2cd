//! Replays of a CUDA graph, without stacks.
//!
//! An optimizer's scopes show the iterations that warm up, and the one that was captured: its
//! blocks lie in a pool of their own. The replays allocate little: a batch, and what is taken from
//! the result. If they allocate the same sizes in the same order, from there to the end, each time
//! is a step.

use super::word::Word;
use crate::span::Span;
use crate::trace::{DeviceTrace, PoolId, Step};
use crate::units::EventIdx;

/// So many replays are needed. Fewer repetitions may be something else.
const MIN_REPLAYS: usize = 8;

/// The replays of the graph that was captured in the last of some steps; `None` if that was no
/// graph, or nothing shows the replays.
pub fn after(device: &DeviceTrace, steps: &[Step]) -> Option<Vec<Step>> {
    let last = steps.last()?;
    let blocks = &device.blocks;
    let made = blocks.allocated_in(last.events);
    let kinds = &blocks.kind[made.start as usize..made.end as usize];
    let kinds = kinds.iter().map(|kind| &blocks.kinds[kind.index()]);
    let captured = kinds.filter(|kind| kind.pool != PoolId::default()).count();
    if captured * 2 <= made.len() {
        return None;
    }
    let first = made.end as usize;
    let kinds = blocks.kind[first..].iter();
    let sizes: Vec<u64> = kinds
        .map(|kind| blocks.kinds[kind.index()].requested.0)
        .collect();
    // With one size only, nobody knows how many of them make a replay.
    let length = period(&sizes).filter(|&length| length > 1)?;
    let n_replays = sizes.len() / length;
    let event = |nth: usize| {
        let event = blocks.alloc.get(first + nth);
        EventIdx(event.map_or(device.events.len(), |&event| event))
    };
    let replays = (0..n_replays).map(|at| Step {
        index: at as u32,
        name: Word::Step.nth(at as u32),
        events: Span::new(event(at * length), event((at + 1) * length)),
    });
    (n_replays >= MIN_REPLAYS).then(|| replays.collect())
}

/// The least number of sizes that are repeated again and again, to the end.
fn period(sizes: &[u64]) -> Option<usize> {
    // Of each beginning, the length of the longest shorter beginning that it ends with.
    let mut ends_with = vec![0; sizes.len()];
    for at in 1..sizes.len() {
        let mut length: usize = ends_with[at - 1];
        while length > 0 && sizes[at] != sizes[length] {
            length = ends_with[length - 1];
        }
        ends_with[at] = length + usize::from(sizes[at] == sizes[length]);
    }
    ends_with.last().map(|length| sizes.len() - length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TraceBuilder, block_of};
    use crate::trace::BlockKind;
    use crate::units::Bytes;

    /// Three steps of six blocks, the last one in a pool, and then blocks of these sizes.
    fn check(pool: PoolId, sizes: &[u64], expected: Option<usize>) {
        let mut builder = TraceBuilder::default();
        for at in 0..18 {
            let pool = if at < 12 { PoolId::default() } else { pool };
            let kind = block_of(Bytes(4096));
            builder.alloc(BlockKind { pool, ..kind });
        }
        for &size in sizes {
            builder.alloc(block_of(Bytes(size)));
        }
        let step = |index: u32| Step {
            index,
            name: Word::Step.nth(index),
            events: Span::new(EventIdx(6 * index), EventIdx(6 * index + 6)),
        };
        let steps: Vec<Step> = (0..3).map(step).collect();
        let trace = builder.finish();
        let found = after(&trace.devices[0], &steps);
        assert_eq!(found.as_ref().map(Vec::len), expected, "{sizes:?}");
        if let Some(found) = found {
            assert_eq!(found[0].events.start(), EventIdx(18));
        }
    }

    #[test]
    fn what_repeats_after_a_graph_was_captured_are_its_replays() {
        let graph = PoolId(1, 0);
        let replay = [512, 512, 1024];
        check(graph, &replay.repeat(9), Some(9));
        // The recording ends in one.
        check(graph, &[replay.repeat(9), vec![512]].concat(), Some(9));
        check(PoolId::default(), &replay.repeat(9), None);
        check(graph, &replay.repeat(7), None);
        check(graph, &[512; 30], None);
        check(graph, &[replay.repeat(9), vec![4096]].concat(), None);
    }
}
