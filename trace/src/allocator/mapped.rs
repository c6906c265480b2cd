//! Which addresses have memory.

use std::collections::BTreeMap;

/// Ranges of addresses that do not overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Mapped {
    /// Start and end of each.
    ranges: BTreeMap<u64, u64>,
}

impl Mapped {
    /// How many ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The highest range that shares an address with `[addr, addr + size)`: its start and end.
    pub fn within(&self, addr: u64, size: u64) -> Option<(u64, u64)> {
        let below = self.ranges.range(..addr.saturating_add(size)).next_back();
        let (&start, &end) = below?;
        (end > addr).then_some((start, end))
    }

    /// Adds `[addr, addr + size)`, which shares no address with the others.
    pub fn add(&mut self, addr: u64, size: u64) {
        if size > 0 {
            self.ranges.insert(addr, addr.saturating_add(size));
        }
    }

    /// Takes `[addr, addr + size)` out of all ranges.
    pub fn remove(&mut self, addr: u64, size: u64) {
        let to = addr.saturating_add(size);
        while let Some((start, end)) = self.within(addr, size) {
            self.ranges.remove(&start);
            for (start, end) in [(start, end.min(addr)), (start.max(to), end)] {
                if start < end {
                    self.ranges.insert(start, end);
                }
            }
        }
    }
}
