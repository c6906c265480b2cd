//! How many times as much the failed work asked for as the same work before, at the same places.
//!
//! A pass with a batch fifteen times as large asks at each line for fifteen times as much, whether
//! it gets to its end or not. So its first half tells how much the second would have asked for.
//! What it asks for as before, such as the copies of weights that `nn.DataParallel` makes in each
//! pass, does not grow with the batch, and says nothing of it.

use crate::span::Span;
use crate::stacks::{FxHashMap, FxHashSet, StackIdx};
use crate::trace::{BlockIdx, DeviceTrace};
use crate::units::{Bytes, EventIdx};

/// How the failed work is like the work before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Likeness {
    /// How many times as much it asked for.
    pub times: Times,
    /// The places that asked for as much as before, where others asked for more.
    as_before: FxHashSet<StackIdx>,
}

impl Likeness {
    /// Whether a place that grows with the batch asked for as much as before.
    pub fn is_as_before(&self, place: StackIdx) -> bool {
        self.as_before.contains(&place)
    }
}

/// A ratio of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    now: Bytes,
    before: Bytes,
}

/// Sizes that differ by less than this part are the same: they are rounded up, and texts of a batch
/// are a little longer or shorter.
const SAME: f64 = 0.1;

/// The part of the bytes that must agree, so that it is one ratio and no chance.
const MOST: f64 = 0.9;

impl Times {
    /// The ratio as a number.
    pub fn number(self) -> f64 {
        self.now.0 as f64 / self.before.0.max(1) as f64
    }

    /// So many times a size.
    pub fn of(self, size: Bytes) -> Bytes {
        let times = u128::from(size.0) * u128::from(self.now.0);
        Bytes(u64::try_from(times / u128::from(self.before.0.max(1))).unwrap_or(u64::MAX >> 2))
    }

    /// Whether as much was asked for as before.
    pub fn is_same(self) -> bool {
        (self.number() - 1.0).abs() <= SAME
    }
}

impl Likeness {
    /// Compares what was allocated in these events with the whole work before: the first block of a
    /// place with the first one there, and so on. Blocks without a stack, of a backward pass, are
    /// left out. `None` where the places differ, or each has a ratio of its own.
    pub fn between(
        device: &DeviceTrace,
        whole: Span<EventIdx>,
        failed: Span<EventIdx>,
        grows: impl Fn(BlockIdx) -> bool,
    ) -> Option<Likeness> {
        let mut before: FxHashMap<StackIdx, Vec<Bytes>> = FxHashMap::default();
        for (place, size) in requests(device, whole, &grows) {
            before.entry(place).or_default().push(size);
        }
        let mut next: FxHashMap<StackIdx, usize> = FxHashMap::default();
        let mut all = Bytes::ZERO;
        let mut pairs = Vec::new();
        for (place, now) in requests(device, failed, &grows) {
            all += now;
            let at = next.entry(place).or_default();
            let fellow = before.get(&place).and_then(|sizes| sizes.get(*at));
            pairs.extend(fellow.map(|&before| (place, Times { now, before })));
            *at += 1;
        }
        let of_all = agreed(pairs.iter().map(|(_, pair)| *pair), all);
        if let Some(times) = of_all {
            let as_before = FxHashSet::default();
            return Some(Likeness { times, as_before });
        }
        let others: FxHashSet<StackIdx> = pairs
            .iter()
            .filter(|(_, pair)| !pair.is_same())
            .map(|(place, _)| *place)
            .collect();
        let (others, same): (Vec<_>, Vec<_>) = pairs
            .into_iter()
            .partition(|(place, _)| others.contains(place));
        let of_same: Bytes = same.iter().map(|(_, pair)| pair.now).sum();
        let rest = all.saturating_sub(of_same);
        // Where little is left, it says little.
        let times = agreed(others.into_iter().map(|(_, pair)| pair), rest);
        let times = times.filter(|_| rest >= of_same)?;
        let as_before = same.into_iter().map(|(place, _)| place).collect();
        Some(Likeness { times, as_before })
    }
}

/// The one ratio of these pairs, if most of `all` bytes have it.
fn agreed(pairs: impl Iterator<Item = Times> + Clone, all: Bytes) -> Option<Times> {
    let times = Times {
        now: pairs.clone().map(|pair| pair.now).sum(),
        before: pairs.clone().map(|pair| pair.before).sum(),
    };
    let number = times.number();
    let agrees = |pair: &Times| (pair.number() - number).abs() <= SAME * number;
    let agreeing: Bytes = pairs.filter(agrees).map(|pair| pair.now).sum();
    let is_most = agreeing.0 > 0 && agreeing.0 as f64 >= MOST * all.0 as f64;
    is_most.then_some(times)
}

/// The places and requested bytes of what was allocated in these events and grows with the batch,
/// in order.
fn requests(
    device: &DeviceTrace,
    events: Span<EventIdx>,
    grows: impl Fn(BlockIdx) -> bool,
) -> impl Iterator<Item = (StackIdx, Bytes)> {
    let blocks = device.blocks.allocated_in(events).map(BlockIdx);
    let kinds = blocks
        .filter(move |block| grows(*block))
        .map(|block| device.blocks.kind(block));
    kinds
        .filter(|kind| kind.alloc_stack != StackIdx::NONE)
        .map(|kind| (kind.alloc_stack, kind.requested))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TraceBuilder, block_of};
    use crate::trace::BlockKind;

    /// Each letter is a place, with its MiB.
    fn between(whole: &[(char, u64)], failed: &[(char, u64)]) -> Option<f64> {
        let mut builder = TraceBuilder::default();
        for (place, mib) in whole.iter().chain(failed) {
            let alloc_stack = builder.stack("forward", "net.py", *place as u32);
            let kind = block_of(Bytes::mib(*mib));
            builder.alloc(BlockKind {
                alloc_stack,
                ..kind
            });
        }
        let trace = builder.finish();
        let at = |n: usize| EventIdx(n as u32);
        let (first, all) = (whole.len(), whole.len() + failed.len());
        let spans = [Span::new(at(0), at(first)), Span::new(at(first), at(all))];
        let likeness = Likeness::between(&trace.devices[0], spans[0], spans[1], |_| true);
        likeness.map(|found| (found.times.number() * 10.0).round() / 10.0)
    }

    #[test]
    fn the_same_places_have_one_ratio_or_none() {
        let whole = [('a', 2), ('b', 4), ('a', 2), ('c', 8)];
        let check = |failed: &[(char, u64)], expected: Option<f64>| {
            assert_eq!(between(&whole, failed), expected, "{failed:?}");
        };
        check(&[('a', 2), ('b', 4)], Some(1.0));
        check(&[('a', 30), ('b', 60), ('a', 30)], Some(15.0));
        check(&[('a', 1), ('b', 2)], Some(0.5));
        // A longer text: some sizes grow with its square.
        check(&[('a', 4), ('b', 16)], None);
        // A copy of weights, as large as before, beside a larger batch.
        check(&[('a', 2), ('b', 20), ('c', 40)], Some(5.0));
        check(&[('a', 2), ('b', 4), ('a', 2), ('c', 40)], Some(5.0));
        check(&[('a', 2), ('b', 20), ('c', 8)], Some(5.0));
        // That which is larger is the smaller part.
        check(&[('a', 10), ('c', 8), ('b', 4)], None);
        // Another program.
        check(&[('x', 4), ('y', 8)], None);
        check(&[('a', 4), ('x', 8)], None);
        // More of a place than there was.
        check(&[('b', 4), ('b', 4), ('b', 4)], None);
        check(&[], None);
    }
}
